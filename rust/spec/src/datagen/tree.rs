//! The item tree: folded items linked parent to child.
//!
//! Items are chosen breadth first, so that a bound cuts the deepest and latest, never a parent of what is
//! shown. Walks and texts need no recursion, whatever the depth.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::folded::FoldedItem;
use super::ids::ItemId;
use crate::error::{Error, Result};

mod text;

/// How much of a tree is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeBounds {
    /// At most this many items.
    pub max_items: usize,
    /// At most this many levels below the item asked for; `None`: all.
    pub max_depth: Option<usize>,
}

impl Default for TreeBounds {
    fn default() -> Self {
        Self { max_items: 1_000, max_depth: None }
    }
}

/// The items that a tree shows, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSelection {
    /// The ids within the bounds, breadth first: these are to be folded.
    pub item_ids: Vec<ItemId>,
    /// How many items the log has at or below the one asked for.
    pub total: usize,
}

impl TreeSelection {
    /// Chooses among `known`, the ids that the log has, in any order and repeated at will.
    ///
    /// # Errors
    /// `ItemNotFound` when none of them is `root` or below it.
    pub fn of(root: &ItemId, known: impl IntoIterator<Item = ItemId>, bounds: TreeBounds) -> Result<Self> {
        let within: HashSet<ItemId> = known.into_iter().filter(|id| id.is_within(root)).collect();
        if within.is_empty() {
            return Err(Error::ItemNotFound { item: root.to_string() });
        }
        let total = within.len();
        let levels = |id: &ItemId| id.depth() - root.depth();
        let mut item_ids: Vec<ItemId> =
            within.into_iter().filter(|id| bounds.max_depth.is_none_or(|most| levels(id) <= most)).collect();
        item_ids.sort_by_cached_key(|id| (id.depth(), id.clone()));
        item_ids.truncate(bounds.max_items);
        Ok(Self { item_ids, total })
    }
}

/// One item of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    /// The folded item.
    pub item: FoldedItem,
    /// The shown children, by step and branch.
    pub children: Vec<ItemId>,
}

/// The items at and below one, linked.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemTree {
    /// The item asked for; empty when it has no events, and only descendants do.
    pub roots: Vec<ItemId>,
    /// Items whose parent has no events.
    pub orphans: Vec<ItemId>,
    /// The shown items, in preorder.
    pub nodes: BTreeMap<ItemId, TreeNode>,
    /// How many items there are, the shown ones and those beyond the bounds.
    pub total: usize,
}

/// One line of a walk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeEntry<'a> {
    /// Levels below its root or orphan.
    pub depth: usize,
    /// The node.
    pub node: &'a TreeNode,
    /// Whether it hangs below an orphan, or is one.
    pub orphaned: bool,
    /// Whether no sibling follows.
    pub last: bool,
}

impl ItemTree {
    /// Links the folded `items` at and below `root`; `total` is [`TreeSelection::total`]. Items that are
    /// not at or below it are left out.
    ///
    /// # Errors
    /// `ItemNotFound` without any item.
    pub fn build(root: &ItemId, items: impl IntoIterator<Item = FoldedItem>, total: usize) -> Result<Self> {
        let within = items.into_iter().filter(|item| item.item_id.is_within(root));
        let mut nodes: BTreeMap<ItemId, TreeNode> =
            within.map(|item| (item.item_id.clone(), TreeNode { item, children: Vec::new() })).collect();
        if nodes.is_empty() {
            return Err(Error::ItemNotFound { item: root.to_string() });
        }
        let mut tree = Self { roots: Vec::new(), orphans: Vec::new(), nodes: BTreeMap::new(), total };
        for id in nodes.keys().cloned().collect::<Vec<_>>() {
            match id.parent().filter(|_| id != *root).map(|parent| nodes.get_mut(&parent)) {
                None => tree.roots.push(id),
                Some(Some(parent)) => parent.children.push(id),
                Some(None) => tree.orphans.push(id),
            }
        }
        tree.total = total.max(nodes.len());
        tree.nodes = nodes;
        Ok(tree)
    }

    /// The node of an item.
    #[must_use]
    pub fn find(&self, item_id: &ItemId) -> Option<&TreeNode> {
        self.nodes.get(item_id)
    }

    /// How many items the bounds left out.
    #[must_use]
    pub fn hidden(&self) -> usize {
        self.total - self.nodes.len()
    }

    /// The shown items in preorder, the roots' before the orphans'.
    pub fn walk(&self) -> impl Iterator<Item = TreeEntry<'_>> {
        // The top of the stack comes next, so everything goes in from behind.
        let mut stack: Vec<(usize, &ItemId, bool, bool)> = Vec::new();
        let orphans = self.orphans.iter().enumerate().map(|(at, id)| (0, id, true, at + 1 == self.orphans.len()));
        stack.extend(orphans.rev());
        stack.extend(self.roots.iter().rev().map(|id| (0, id, false, true)));
        std::iter::from_fn(move || {
            let (depth, id, orphaned, last) = stack.pop()?;
            let node = self.nodes.get(id)?;
            let count = node.children.len();
            let children = node.children.iter().enumerate();
            stack.extend(children.map(|(at, child)| (depth + 1, child, orphaned, at + 1 == count)).rev());
            Some(TreeEntry { depth, node, orphaned, last })
        })
    }
}

/// The tree as text, one line an item.
impl fmt::Display for ItemTree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(self, formatter)
    }
}

#[cfg(test)]
mod tests;
