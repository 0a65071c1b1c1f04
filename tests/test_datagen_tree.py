"""Item trees: links, bounds, text and HTML."""

# pyright: reportPrivateUsage=false
# `_repr_html_` is what a notebook calls.

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from lance_context import DatagenItemId, DatagenStore, DatagenStreamWriter, FencedStream, NotFoundError, Problem
from tests.agents import Opener, both

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from lance_context import Event, FieldWrite

VOID = {"br", "img"}
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20


class Balance(HTMLParser):
    """Checks that every element is closed where it was opened, and that there is no script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.deepest = 0
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        assert not any(name.startswith("on") for name, _ in attrs)
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)
            self.deepest = max(self.deepest, len(self.open))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@both
async def test_a_tree_links_parents_and_children(opener: Opener) -> None:
    async with await opener.open() as store:
        for text in ("5/expand:10", "5/expand:2/split:0", "5", "5/expand:2", "50", "5/gone:0/split:0"):
            await store.open_stream(text, run_id="r")
        tree = await store.item_tree("5")
        assert [str(node.item_id) for node in tree.walk()] == [
            "5",
            "5/expand:2",
            "5/expand:2/split:0",
            "5/expand:10",
            "5/gone:0/split:0",
        ]
        assert tree.roots == ["5"]
        assert tree.orphans == ["5/gone:0/split:0"]
        assert tree.nodes["5"].children == ["5/expand:2", "5/expand:10"]
        assert tree.nodes["5"].item.status == "running"
        found = tree.find("5/expand:2")
        assert found is not None
        assert found.children == ["5/expand:2/split:0"]
        assert tree.find(DatagenItemId.parse("50")) is None
        assert (len(tree), tree.shown, tree.total) == (5, 5, 5)
        assert tree.to_dict()["nodes"]["5"]["children"] == ["5/expand:2", "5/expand:10"]
        below = await store.item_tree("5/expand:2")
        assert [str(node.item_id) for node in below.walk()] == ["5/expand:2", "5/expand:2/split:0"]
        for text in ("5", "5/expand:10", "5/gone:0/split:0"):
            assert text.rsplit("/", 1)[-1] in repr(tree)
        with pytest.raises(NotFoundError) as raised:
            await store.item_tree("6")
        assert raised.value.code == "item-not-found"


@both
async def test_bounds_keep_the_nearest(opener: Opener) -> None:
    async with await opener.open() as store:
        for text in ("5", "5/a:0", "5/a:1", "5/a:0/b:0", "5/a:0/b:0/c:0"):
            await store.open_stream(text, run_id="r")
        assert [str(node.item_id) for node in (await store.item_tree("5", max_items=3)).walk()] == [
            "5",
            "5/a:0",
            "5/a:1",
        ]
        shallow = await store.item_tree("5", max_depth=1)
        assert (shallow.shown, shallow.total) == (3, 5)
        assert "showing 3 of 5" in shallow._repr_html_()
        assert (await store.item_tree("5", max_depth=0)).shown == 1
        with pytest.raises(ValueError, match="max_items"):
            await store.item_tree("5", max_items=0)
        with pytest.raises(ValueError, match="max_depth"):
            await store.item_tree("5", max_depth=-1)


def test_html_is_escaped_and_closed(path: Path) -> None:
    nasty = "<script>alert('x')</script>&\"'"
    with DatagenStore.open(path, maintenance=None) as store:
        root = DatagenItemId.from_source_key(nasty)
        with pytest.raises(ValueError, match="<b>"):
            with store.stream(root, run_id=nasty, query_tags={nasty: nasty}) as item:
                with item.step(nasty) as step:
                    step.set(nasty, nasty)
                    step.set("json", {nasty: nasty})
                    step.set("cover", PNG)
                    step.set("page", b"<script>")
                for n in range(20):
                    with item.step("many", iteration=n) as step:
                        step.append("many", n)
                        step.set(f"z{n}", n)
                raise ValueError("<b>no</b>")
        with store.stream(root.child("a", 0), run_id="r") as item:
            item.complete()
        with store.stream(root.child("a", 1), run_id="r") as item:
            item.filter_out()
        tree = store.item_tree(root)
        html = tree._repr_html_()
        Balance(html)
        for status in ("failed", "completed", "filtered"):
            assert f'class="lc-{status}"' in html
        assert "<b>" not in html
        assert "showing 12 of" in html
        assert "showing 4 of 20 values" in html
        folded = store.fold_item(root)
        assert folded is not None
        assert "<img" not in html
        images = {
            event_id: store.get_blob(event_id)
            for event_id in folded.blob_event_ids.values()
            if isinstance(event_id, str)
        }
        with_images = tree.html(images=images)
        assert Balance(with_images).seen.count("img") == 1, "what is no picture is not shown as one"
        assert 'src="data:image/png;base64,' in with_images
        Balance(folded._repr_html_())


def test_html_tells_where_an_item_stands(path: Path) -> None:
    root = DatagenItemId.from_source_key("essays/rain.md")
    with DatagenStore.open(path, maintenance=None) as store:
        with store.stream(root, run_id="r", query_tags={"kind": "essay"}) as item:
            with item.step("refine", step_kind="loop") as refine:
                for n in range(2):
                    with refine.step("draft", iteration=n) as step:
                        step.append("drafts", f"draft {n}\nof rain")
                with store.stream(root.child("translate", 0), run_id="r") as child:
                    child.filter_out(reason="too short")
                with pytest.raises(RuntimeError):
                    with store.stream(root.child("translate", 1), run_id="r") as child:
                        with child.step("ask", iteration=3):
                            raise RuntimeError("<overloaded>")
                html = store.item_tree(root)._repr_html_()
        Balance(html)
        for name in ("essays/rain.md", "translate:0", "translate:1"):
            assert f">{name}</span>" in html, "the id is in the title alone"
        assert f'title="{root}/translate:1"' in html
        assert "<td>within</td><td>refine</td>" in html
        assert "<td>steps</td><td>refine/draft x2</td>" in html
        assert "<td>tags</td><td>{&quot;kind&quot;: &quot;essay&quot;}</td>" in html
        assert "too short" in html
        assert "draft 1 ↵ of rain" in html
        assert re.search(r"RuntimeError: &lt;overloaded&gt;<span [^>]*> in ask\[3\]</span></summary><pre>", html)
        assert "test_datagen_tree.py" in html, "where it was raised can be unfolded"
        with store.stream(root.child("translate", 1), run_id="r2") as child:
            with child.step("ask", iteration=3):
                pass
        html = store.item_tree(root)._repr_html_()
        assert "<td>recovered</td>" in html
        assert "✗ failed" not in html


def test_html_tells_what_was_fenced_and_what_is_wrong(path: Path) -> None:
    with DatagenStore.open(path, maintenance=None) as store:
        store.open_stream("5", run_id="r")
        folded = store.fold_item("5")
        assert folded is not None
    fenced = [FencedStream(0, "zombie", 4, 5, ["a", "b"])]
    item = replace(folded, fenced=fenced, problems=[Problem("gap", 3, None, "<3> is missing")])
    html = item._repr_html_()
    Balance(html)
    assert "<td>fenced</td><td>2 events of attempt 0" in html
    assert "gap: &lt;3&gt; is missing" in html


def test_deep_trees_need_no_recursion(path: Path) -> None:
    with DatagenStore.open(path, maintenance=None) as store:
        item_id = DatagenItemId.parse("5")
        created = [DatagenStreamWriter(item_id, run_id="r").item_created()]
        for _ in range(300):
            item_id = item_id.child("a", 0)
            created.append(DatagenStreamWriter(item_id, run_id="r").item_created())
        store.append(created)
        tree = store.item_tree("5", max_items=400)
        assert sum(1 for _ in tree.walk()) == 301
        balance = Balance(tree._repr_html_())
        assert balance.deepest < 100


@contextmanager
def another_thread_counting() -> Generator[None]:
    """Fails if a thread that counts beside the block was held up by it."""
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    counting = threading.Thread(target=count)
    counting.start()
    try:
        yield
    finally:
        done.set()
        counting.join()
    assert ticks > 10


def test_ten_thousand_children_are_bounded_while_other_threads_go_on(path: Path) -> None:
    children = 10_000
    root = DatagenItemId.parse("5")
    with DatagenStore.open(path, maintenance=None) as store:
        store.append(DatagenStreamWriter(root, run_id="r").item_created())
        for start in range(0, children, 1000):
            events: list[Event] = []
            for n in range(start, start + 1000):
                writer = DatagenStreamWriter(root.child("expand", n), run_id="r")
                events.append(writer.item_created())
                write: FieldWrite = {"field_name": "text", "field_type": "str", "value": "💡" * 300}
                events += writer.step_completed({"step_name": "draft"}, [write])
            store.append(events)
        with another_thread_counting():
            tree = store.item_tree("5", max_items=children + 1)
        assert (tree.shown, tree.total) == (children + 1, children + 1)
        html = tree._repr_html_()
        assert len(html.encode()) < 1_000_000
        Balance(html)
        shown = re.search(r"showing (\d+) of 10001 items", html)
        assert shown is not None
        assert 500 < int(shown[1]) < children
        assert html.count("<summary>") == int(shown[1])
        assert len(store.item_tree("5")) == 1000


def test_a_long_item_is_bounded_while_other_threads_go_on(path: Path) -> None:
    checkpoints, appends = 100, 999
    with DatagenStore.open(path, maintenance=None) as store:
        writer = store.open_stream("5", run_id="r")
        for n in range(checkpoints):
            writes: list[FieldWrite] = [
                {"field_name": "values", "field_type": "int", "value": n * appends + i, "op": "append"}
                for i in range(appends)
            ]
            store.append_checkpoint(writer.step_completed({"step_name": "draft", "iteration": [n]}, writes))
        assert writer.next_seq == 2 + checkpoints * (appends + 1)
        with another_thread_counting():
            item = store.fold_item("5", strict=True)
        assert item is not None
        assert item.values("values", int) == list(range(checkpoints * appends))
        assert len(item.trajectory) == checkpoints
        resumed = store.resume_stream("5", run_id="r2")
        assert resumed is not None
        store.append_checkpoint(resumed.step_completed({"step_name": "last"}, []))
        tree = store.item_tree("5")
        html = tree._repr_html_()
        assert len(html.encode()) < 1_000_000
        Balance(html)
