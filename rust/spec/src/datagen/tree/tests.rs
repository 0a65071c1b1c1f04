use super::super::testing::{Write, leaf, set, stored};
use super::super::{Event, FoldedItem, ItemId, StreamWriter, fold};
use super::{ItemTree, TreeBounds, TreeSelection};
use crate::Kind;

fn id(text: &str) -> ItemId {
    ItemId::parse(text).unwrap()
}

fn item(text: &str, more: impl FnOnce(&mut StreamWriter) -> Vec<Event>) -> FoldedItem {
    let mut writer = StreamWriter::new(id(text), "r", "e").unwrap();
    let mut events = vec![writer.create()];
    events.extend(more(&mut writer));
    fold(id(text), stored(&events)).unwrap()
}

fn items(texts: &[&str]) -> Vec<FoldedItem> {
    texts.iter().map(|text| item(text, |_| vec![])).collect()
}

fn texts(ids: &[ItemId]) -> Vec<&str> {
    ids.iter().map(ItemId::as_str).collect()
}

#[test]
fn items_are_linked_in_order_whatever_order_they_come_in() {
    let tree = ItemTree::build(&id("5"), items(&["5/a:10", "5/b:0", "5/a:2/c:0", "5", "5/a:2", "6", "50"]), 5).unwrap();
    assert_eq!((texts(&tree.roots), tree.orphans.len(), tree.hidden()), (vec!["5"], 0, 0));
    assert_eq!(texts(&tree.find(&id("5")).unwrap().children), ["5/a:2", "5/a:10", "5/b:0"]);
    let walked: Vec<(usize, &str)> = tree.walk().map(|entry| (entry.depth, entry.node.item.item_id.as_str())).collect();
    assert_eq!(walked, [(0, "5"), (1, "5/a:2"), (2, "5/a:2/c:0"), (1, "5/a:10"), (1, "5/b:0")]);
    assert_eq!(
        tree.nodes.keys().map(ItemId::as_str).collect::<Vec<_>>(),
        walked.iter().map(|(_, id)| *id).collect::<Vec<_>>()
    );
    assert!(tree.find(&id("6")).is_none());
}

#[test]
fn a_child_gives_its_subtree_and_an_unknown_item_is_not_found() {
    let all = items(&["5", "5/a:2", "5/a:2/c:0", "5/b:0"]);
    let tree = ItemTree::build(&id("5/a:2"), all.clone(), 2).unwrap();
    assert_eq!((texts(&tree.roots), tree.nodes.len(), tree.orphans.len()), (vec!["5/a:2"], 2, 0));
    for unknown in ["7", "5/a:3", "5/a:2/c:0/d:0"] {
        let error = ItemTree::build(&id(unknown), all.clone(), 0).unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::NotFound, "item-not-found"));
        let known = all.iter().map(|item| item.item_id.clone());
        assert!(TreeSelection::of(&id(unknown), known, TreeBounds::default()).is_err());
    }
}

#[test]
fn items_without_their_parent_are_orphans_with_their_own_children() {
    let tree = ItemTree::build(&id("5"), items(&["5", "5/a:1/b:0", "5/a:1/b:0/c:0", "5/a:2/b:0"]), 4).unwrap();
    assert_eq!((texts(&tree.roots), texts(&tree.orphans)), (vec!["5"], vec!["5/a:1/b:0", "5/a:2/b:0"]));
    let walked: Vec<(usize, &str, bool)> =
        tree.walk().map(|entry| (entry.depth, entry.node.item.item_id.as_str(), entry.orphaned)).collect();
    let expected = [(0, "5", false), (0, "5/a:1/b:0", true), (1, "5/a:1/b:0/c:0", true), (0, "5/a:2/b:0", true)];
    assert_eq!(walked, expected);
    let rootless = ItemTree::build(&id("5"), items(&["5/a:1"]), 1).unwrap();
    assert_eq!((rootless.roots.len(), texts(&rootless.orphans)), (0, vec!["5/a:1"]));
}

#[test]
fn bounds_cut_the_deepest_and_latest_first() {
    let known = ["5/a:0/x:0", "5/b:0", "5/a:1", "5/a:0", "5", "5", "6"].map(id);
    let select =
        |max_items, max_depth| TreeSelection::of(&id("5"), known.clone(), TreeBounds { max_items, max_depth }).unwrap();
    assert_eq!(
        (texts(&select(9, None).item_ids), select(9, None).total),
        (vec!["5", "5/a:0", "5/a:1", "5/b:0", "5/a:0/x:0"], 5)
    );
    assert_eq!((texts(&select(3, None).item_ids), select(3, None).total), (vec!["5", "5/a:0", "5/a:1"], 5));
    assert_eq!(texts(&select(9, Some(1)).item_ids), ["5", "5/a:0", "5/a:1", "5/b:0"]);
    assert_eq!(texts(&select(9, Some(0)).item_ids), ["5"]);
    let below =
        TreeSelection::of(&id("5/a:0"), known.clone(), TreeBounds { max_items: 9, max_depth: Some(0) }).unwrap();
    assert_eq!((texts(&below.item_ids), below.total), (vec!["5/a:0"], 2), "levels count from the item asked for");
    let tree = ItemTree::build(&id("5"), items(&["5", "5/a:0"]), 5).unwrap();
    assert!(tree.to_string().ends_with("2 of 5 items\n"), "{tree}");
}

#[test]
fn the_text_shows_links_statuses_and_orphans() {
    let all = vec![
        item("5", |writer| {
            let mut events = writer.complete(&leaf("s"), vec![set("x", 1), set("y", 2)]);
            events.push(writer.end());
            events
        }),
        item("5/a:0", |writer| vec![writer.fail(&leaf("draft").at([1]))]),
        item("5/a:0/c:0", |_| vec![]),
        item("5/b:0", |writer| writer.complete(&leaf("s"), vec![])),
        item("5/z:0/q:0", |_| vec![]),
        item("5/z:0/q:0/r:1", |_| vec![]),
    ];
    let tree = ItemTree::build(&id("5"), all, 6).unwrap();
    let expected = "\
5  completed  1 step  2 fields
├── a:0  failed  ValueError at `draft[1]`
│   └── c:0  running
└── b:0  running  1 step
orphans (the parent has no events)
└── 5/z:0/q:0  running
    └── r:1  running
";
    assert_eq!(tree.to_string(), expected);
}

#[test]
fn ten_thousand_children_and_five_hundred_levels_are_walked() {
    let wide: Vec<ItemId> = (0..10_000).map(|n| id(&format!("5/a:{n}"))).chain([id("5")]).collect();
    let every = TreeBounds { max_items: usize::MAX, max_depth: None };
    let selection = TreeSelection::of(&id("5"), wide.clone(), every).unwrap();
    assert_eq!((selection.item_ids.len(), selection.total), (10_001, 10_001));
    let shape = item("5", |_| vec![]);
    let named = |id: &ItemId| FoldedItem { item_id: id.clone(), ..shape.clone() };
    let tree = ItemTree::build(&id("5"), selection.item_ids.iter().map(named), selection.total).unwrap();
    assert_eq!(tree.find(&id("5")).unwrap().children.len(), 10_000);
    assert_eq!(tree.to_string().lines().count(), 10_001);
    let bounded = TreeSelection::of(&id("5"), wide, TreeBounds::default()).unwrap();
    assert_eq!((bounded.item_ids.len(), bounded.item_ids[999].as_str()), (1_000, "5/a:998"));

    let mut deep = vec![id("5")];
    for _ in 0..500 {
        deep.push(deep[deep.len() - 1].child("a", 0).unwrap());
    }
    let tree = ItemTree::build(&id("5"), deep.iter().map(named), deep.len()).unwrap();
    assert_eq!(tree.walk().map(|entry| entry.depth).max(), Some(500));
    assert!(tree.to_string().len() < 501 * 400);
}
