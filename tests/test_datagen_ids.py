"""Item ids: one text an id, any character in a key."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context import DatagenItemId, ItemId

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def test_the_parts_of_an_id() -> None:
    item_id = DatagenItemId.parse("5/expand:0/split:12")
    assert str(item_id) == "5/expand:0/split:12"
    assert (item_id.parent, item_id.root) == (DatagenItemId.parse("5/expand:0"), DatagenItemId.parse("5"))
    assert (item_id.origin_step, item_id.branch_idx, item_id.is_root, item_id.depth) == ("split", 12, False, 2)
    root = item_id.root
    assert (root.parent, root.root, root.origin_step, root.branch_idx) == (None, root, None, None)
    assert (root.is_root, root.source_key) == (True, "5")
    assert root.child("expand", 0).child("split", 12) == item_id
    assert ItemId is DatagenItemId


@given(KEYS, KEYS, st.integers(0, 2**63 - 1))
def test_any_key_and_step_come_back(key: str, step: str, branch: int) -> None:
    item_id = DatagenItemId.from_source_key(key).child(step, branch)
    assert DatagenItemId.parse(str(item_id)) == item_id
    assert (item_id.source_key, item_id.origin_step, item_id.branch_idx) == (key, step, branch)
    assert pickle.loads(pickle.dumps(item_id)) == item_id


def test_an_id_equals_its_text_and_finds_what_is_keyed_by_it() -> None:
    item_id = DatagenItemId.parse("5/expand:0")
    assert item_id == "5/expand:0"
    assert item_id != "5"
    assert item_id != 5
    assert hash(item_id) == hash("5/expand:0")
    assert {"5/expand:0": "here"}[item_id] == "here"  # pyright: ignore[reportArgumentType]
    assert len({item_id, DatagenItemId.parse("5/expand:0")}) == 1


def test_ids_sort_as_the_tree_with_branches_by_number() -> None:
    texts = ["5", "5/expand:0", "5/expand:2", "5/expand:2/split:0", "5/expand:10", "50"]
    assert [str(item_id) for item_id in sorted(map(DatagenItemId.parse, reversed(texts)))] == texts
    with pytest.raises(TypeError):
        _ = DatagenItemId.parse("5") < "6"  # type: ignore[operator]


def test_a_repr_reads_back() -> None:
    item_id = DatagenItemId.from_source_key('it\'s a "key"\n')
    assert eval(repr(item_id)) == item_id


@pytest.mark.parametrize(
    "text", ["", "/", "a/", "a//b:0", "a/b", "a/b:", "a/:0", "a/b:-1", "a/b:01", "a/b:x", "a:b", "a%2", "%41", "a\n"]
)
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(ValueError, match="from_source_key"):
        DatagenItemId.parse(text)


def test_a_key_that_is_given_as_an_id_says_where_keys_go() -> None:
    with pytest.raises(ValueError, match="from_source_key"):
        DatagenItemId("https://example.org/a")
    assert DatagenItemId.from_source_key("https://example.org/a").source_key == "https://example.org/a"


def test_empty_and_negative_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one character"):
        DatagenItemId.from_source_key("")
    root = DatagenItemId.parse("5")
    with pytest.raises(ValueError, match="at least one character"):
        root.child("", 0)
    with pytest.raises(ValueError, match="negative"):
        root.child("expand", -1)
    with pytest.raises(TypeError, match="DatagenItemId"):
        DatagenItemId(5)  # type: ignore[arg-type]
