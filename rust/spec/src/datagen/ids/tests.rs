use std::collections::HashSet;

use proptest::prelude::*;

use super::ItemId;
use crate::Kind;

fn id(text: &str) -> ItemId {
    ItemId::parse(text).unwrap()
}

#[test]
fn the_parts_of_a_root() {
    let root = id("5");
    assert_eq!((root.parent(), root.origin_step(), root.branch_idx()), (None, None, None));
    assert!(root.is_root());
    assert_eq!((root.root(), root.source_key().as_str(), root.depth()), (root.clone(), "5", 0));
}

#[test]
fn the_parts_of_a_descendant() {
    let child = id("5/expand:0");
    let grandchild = child.child("a/b", 12).unwrap();
    assert_eq!(grandchild.as_str(), "5/expand:0/a%2Fb:12");
    assert_eq!(grandchild.parent(), Some(child));
    assert_eq!(grandchild.root(), id("5"));
    assert_eq!(grandchild.origin_step().as_deref(), Some("a/b"));
    assert_eq!((grandchild.branch_idx(), grandchild.depth(), grandchild.is_root()), (Some(12), 2, false));
}

#[test]
fn only_what_the_grammar_needs_is_encoded() {
    let cases = [
        ("a/b:c%d", "a%2Fb%3Ac%25d"),
        ("http://x/?q=1 2#f", "http%3A%2F%2Fx%2F?q=1 2#f"),
        ("tab\tnl\nnul\0", "tab%09nl%0Anul%00"),
        ("\u{85}", "%C2%85"),
        ("naïve 🙂 \\ ' \" `", "naïve 🙂 \\ ' \" `"),
        ("%2F", "%252F"),
    ];
    for (key, text) in cases {
        let id = ItemId::from_source_key(key).unwrap();
        assert_eq!(id.as_str(), text);
        assert_eq!(id.source_key(), key);
    }
}

#[test]
fn text_that_no_id_has_is_refused_and_told_where_keys_go() {
    let texts = [
        "",
        "/",
        "a/",
        "/a:0",
        "a//b:0",
        "a/b",
        "a:b",
        "a/b:",
        "a/:0",
        "a/b:-1",
        "a/b:+1",
        "a/b:01",
        "a/b:x",
        "a/b:1:2",
        "a/b:9223372036854775808",
        "a%",
        "a%2f",
        "a%41",
        "a%zz",
        "a%FF",
        "a\n",
        "a/b\t:0",
    ];
    for text in texts {
        let error = ItemId::parse(text).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument, "{text}");
        assert!(error.to_string().contains("from_source_key"), "{error}");
    }
}

#[test]
fn children_have_a_step_and_a_branch() {
    assert!(id("5").child("", 0).is_err());
    assert!(id("5").child("s", -1).unwrap_err().to_string().contains("negative"));
    assert!(ItemId::from_source_key("").is_err());
    assert_eq!(id("5").child("s", i64::MAX).unwrap().branch_idx(), Some(i64::MAX));
}

#[test]
fn branches_are_ordered_by_number_and_parents_come_first() {
    let sorted = ["5", "5/a:2", "5/a:2/z:0", "5/a:10", "5/b:0", "50", "6"].map(id);
    let mut shuffled: Vec<ItemId> = [3, 6, 0, 5, 2, 4, 1].iter().map(|at| sorted[*at].clone()).collect();
    shuffled.sort();
    assert_eq!(shuffled, sorted);
}

#[test]
fn an_item_is_within_its_ancestors_and_itself() {
    let child = id("5/a:1/b:2");
    for ancestor in ["5", "5/a:1", "5/a:1/b:2"] {
        assert!(child.is_within(&id(ancestor)), "{ancestor}");
    }
    for other in ["50", "5/a:10", "5/a:1/b:20", "5/a:1/b:2/c:0"] {
        assert!(!child.is_within(&id(other)), "{other}");
    }
    assert!(!id("5/a:10").is_within(&id("5/a:1")));
}

fn any_id() -> impl Strategy<Value = ItemId> {
    let step = ("[a-c/:%\u{0}-\u{20}é]{1,3}", 0..12_i64);
    ("[a-c/:%\u{0}-\u{20}é]{1,3}", proptest::collection::vec(step, 0..3)).prop_map(|(key, steps)| {
        let root = ItemId::from_source_key(&key).unwrap();
        steps.iter().fold(root, |id, (step, branch)| id.child(step, *branch).unwrap())
    })
}

proptest! {
    #[test]
    fn any_key_and_step_round_trip(key in "\\PC+|(?s).+", step in "(?s).+", branch in 0..=i64::MAX) {
        let root = ItemId::from_source_key(&key).unwrap();
        prop_assert_eq!(root.source_key(), key);
        let child = root.child(&step, branch).unwrap();
        prop_assert_eq!(child.origin_step(), Some(step));
        prop_assert_eq!(child.branch_idx(), Some(branch));
        prop_assert_eq!(child.parent(), Some(root));
        prop_assert_eq!(ItemId::parse(child.as_str()).unwrap(), child);
    }

    #[test]
    fn any_text_is_an_id_with_this_text_or_none(text in "[a-c0-3/:%2F\u{0}]{0,10}|(?s).{0,10}") {
        if let Ok(id) = ItemId::parse(&text) {
            prop_assert_eq!(id.as_str(), text);
            let rebuilt = match (id.parent(), id.origin_step(), id.branch_idx()) {
                (Some(parent), Some(step), Some(branch)) => parent.child(&step, branch),
                _ => ItemId::from_source_key(&id.source_key()),
            };
            prop_assert_eq!(rebuilt.unwrap(), id);
        }
    }

    #[test]
    fn the_order_is_total_and_agrees_with_equality(mut ids in proptest::collection::vec(any_id(), 0..12)) {
        for (a, b) in ids.iter().zip(ids.iter().skip(1)) {
            prop_assert_eq!(a.cmp(b).is_eq(), a == b);
            prop_assert_eq!(a.cmp(b), b.cmp(a).reverse());
        }
        ids.sort();
        prop_assert!(ids.windows(2).all(|pair| pair[0] <= pair[1]));
        let distinct: HashSet<_> = ids.iter().map(ToString::to_string).collect();
        ids.dedup();
        prop_assert_eq!(ids.len(), distinct.len());
        // Sorted ids are the tree in preorder: whatever is within an id stands right behind it.
        for (at, ancestor) in ids.iter().enumerate() {
            let behind = &ids[at + 1..];
            let inside = behind.iter().take_while(|id| id.is_within(ancestor)).count();
            prop_assert!(behind[inside..].iter().all(|id| !id.is_within(ancestor)));
        }
    }
}
