//! The text form of a tree.

use std::fmt::{Formatter, Result};

use super::{ItemTree, TreeEntry};
use crate::datagen::ids::ItemId;

/// Most levels that are drawn as rails; deeper items are drawn at this depth.
const MAX_RAILS: usize = 40;

pub(super) fn write(tree: &ItemTree, formatter: &mut Formatter<'_>) -> Result {
    // For each level above the current line, whether its node has siblings still to come.
    let mut open: Vec<bool> = Vec::new();
    let mut in_orphans = false;
    for entry in tree.walk() {
        if entry.orphaned && !in_orphans {
            in_orphans = true;
            formatter.write_str("orphans (the parent has no events)\n")?;
        }
        open.truncate(entry.depth);
        line(&entry, &open, formatter)?;
        open.push(!entry.last);
    }
    if tree.hidden() > 0 {
        writeln!(formatter, "{} of {} items", tree.nodes.len(), tree.total)?;
    }
    Ok(())
}

fn line(entry: &TreeEntry<'_>, open: &[bool], formatter: &mut Formatter<'_>) -> Result {
    let item = &entry.node.item;
    // A root has no rail, an orphan one.
    let above = if entry.orphaned { open } else { open.get(1..).unwrap_or_default() };
    for has_more in above.iter().take(MAX_RAILS) {
        formatter.write_str(if *has_more { "│   " } else { "    " })?;
    }
    if entry.depth > 0 || entry.orphaned {
        formatter.write_str(if entry.last { "└── " } else { "├── " })?;
    }
    let status = if item.failed { "failed" } else { item.status.name() };
    write!(formatter, "{}  {status}", label(&item.item_id, entry.depth))?;
    counted(item.trajectory.len(), "step", formatter)?;
    counted(item.fields.len(), "field", formatter)?;
    counted(item.problems.len(), "problem", formatter)?;
    if let Some(failure) = item.last_failure().filter(|_| item.failed) {
        write!(
            formatter,
            "  {} at `{}`",
            failure.error_type.escape_debug(),
            failure.position.to_string().escape_debug()
        )?;
    }
    formatter.write_str("\n")
}

fn counted(count: usize, what: &str, formatter: &mut Formatter<'_>) -> Result {
    match count {
        0 => Ok(()),
        1 => write!(formatter, "  1 {what}"),
        _ => write!(formatter, "  {count} {what}s"),
    }
}

/// The whole id at the top, below it the last segment.
fn label(id: &ItemId, depth: usize) -> &str {
    let text = id.as_str();
    if depth == 0 { text } else { text.rsplit('/').next().unwrap_or(text) }
}
