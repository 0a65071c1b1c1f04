"""Stores in Jupyter: a real kernel, whose loop runs, `await` in its cells, and what they show.

Beside a live agent too: what a notebook reads disturbs nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Self, cast

import nbformat
import pytest
from nbclient import NotebookClient

from lance_context import DatagenStore, GenericStore
from lance_context._html import STATUS_COLOURS, TEXT_SHARE
from tests.child import Child, module
from tests.test_datagen_kill import completed_steps, errors_found

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lance_context import SchemaDeclaration

CELL_DEADLINE_S = 120
# What the libraries of Jupyter do at their own import and exit is theirs.
jupyter = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


class Notebook:
    """A notebook with a kernel of its own. A cell that raises, or takes too long, fails the test."""

    def __init__(self) -> None:
        content: dict[str, object] = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": []}
        self._notebook = cast("Any", nbformat.from_dict(content))  # pyright: ignore[reportUnknownMemberType] - it has no types
        self._client = NotebookClient(self._notebook, timeout=CELL_DEADLINE_S, kernel_name="python3")
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._running.enter_context(self._client.setup_kernel())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def run(self, source: str) -> dict[str, Any]:
        """Executes one more cell; its last output."""
        cell: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
        cells = self._notebook.cells
        cells.append(nbformat.from_dict(cell | {"source": dedent(source).strip()}))  # pyright: ignore[reportUnknownMemberType]
        self._client.execute_cell(cells[-1], len(cells) - 1)
        return cells[-1].outputs[-1] if cells[-1].outputs else {}

    def text(self, source: str) -> str:
        """What the cell shows or prints as text."""
        output = self.run(source)
        return output.get("data", {}).get("text/plain", output.get("text", "")).strip()

    def html(self, source: str) -> str:
        """What the cell shows as HTML."""
        return self.run(source)["data"]["text/html"]


@jupyter
def test_a_notebook(path: Path) -> None:
    with Notebook() as notebook:
        added = f"""
            from lance_context import AsyncGenericStore, GenericStore
            path = {str(path)!r}
            store = GenericStore.open(path, schema={{"id": "string", "n": "int64"}}, read="latest")
            store.add({{"id": f"r{{n}}", "n": n}} for n in range(10)).count
        """
        assert notebook.text(added) == "10"
        newest = "[{'id': 'r9', 'n': 9}, {'id': 'r8', 'n': 8}]"
        assert notebook.text("store.list(order_by='-n', limit=2)") == newest
        twin = """
            twin = await AsyncGenericStore.open_existing(path, read="latest")
            await twin.count(), store.count()
        """
        assert notebook.text(twin) == "(10, 10)"
        third = """
            async with AsyncGenericStore.open_existing(path) as third:
                print(await third.get("r3", read="latest"))
        """
        assert notebook.text(third) == "{'id': 'r3', 'n': 3}"
        assert notebook.text("store.stats().rows") == "10"
        html = notebook.html("store")
        assert "GenericStore" in html
        assert "<td>rows</td><td>10</td>" in html
        assert "closed" in notebook.html("await twin.close()\nstore.close()\nstore")


def headings(html: str) -> list[str]:
    """The lines of a tree that stay when everything is collapsed, without their marks."""
    found = re.findall(r"<summary>(?=<span title)(.*?)</summary>", html)
    return [unescape(re.sub(r"<[^>]*>", "", line)) for line in found]


def files(path: Path) -> dict[Path, tuple[int, int, int]]:
    """Every file below a directory, and what would tell that somebody wrote it."""
    found = {file: file.stat() for file in path.rglob("*") if file.is_file()}
    return {file: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for file, stat in found.items()}


@jupyter
def test_a_notebook_beside_a_live_agent(path: Path, tmp_path: Path) -> None:
    acks = tmp_path / "acks"
    with Child(module("tests.watched_agent"), path, acks) as agent, Notebook() as notebook:
        agent.expect("settled")
        at_rest = files(path)
        assert at_rest
        opened = f"""
            from lance_context import AsyncDatagenStore, DatagenStore
            path = {str(path)!r}
            store = DatagenStore.open_existing(path, read_only=True)
            store
        """
        assert "DatagenStore" in notebook.html(opened)
        counts = "seen.items, seen.running, seen.completed, seen.filtered, seen.failed"
        assert notebook.text(f"seen = store.overview()\n{counts}") == "(4, 2, 1, 1, 1)"
        failed = "[(str(item.item_id), item.last_failure.error_dump) for item in store.failed_items()]"
        assert notebook.text(failed) == "[('tea/taste:2', '<too hot>')]"
        tree = notebook.html("store.item_tree('tea')")
        assert headings(tree) == [
            "tea ● running 3 steps",
            "taste:0 ✓ completed 1 step",
            "taste:1 ○ filtered 1 step",
            "taste:2 ✗ failed 0 steps",
        ]
        assert "ValueError: &lt;too hot&gt;" in tree
        assert "<td>within</td><td>brew</td>" in tree
        assert "<td>steps</td><td>plan, brew/pour x2</td>" in tree
        assert "no taste" in tree
        assert notebook.text("store.load_blob(store.fold_item('tea'), 'cover')[1:4]") == "b'PNG'"
        twin = f"""
            twin = await AsyncDatagenStore.open_existing(path, read_only=True)
            seen = await twin.overview()
            {counts}
        """
        assert notebook.text(twin) == "(4, 2, 1, 1, 1)"
        assert headings(notebook.html("await twin.item_tree('tea')")) == headings(tree)
        assert notebook.text("events = [event async for event in twin.events()]\nlen(events)") == "19"
        assert "<td>rows</td><td>19</td>" in notebook.html("await twin.stats()\ntwin")
        assert files(path) == at_rest, "a reader writes nothing"

        agent.tell("go on")
        # The cell's own deadline ends the waiting.
        notebook.run("while (await twin.overview()).completed < 20: pass")
        notebook.run("while store.overview().completed < 30: pass")
        assert headings(notebook.html("store.item_tree('tea')"))[0] == "tea ✓ completed 4 steps"
        assert agent.is_running()
        agent.tell("end")
        assert agent.finish() == ""

        assert notebook.text("store.failed_items()") == "[]"
        assert headings(notebook.html("store.item_tree('tea')"))[-1] == "taste:2 ✓ completed 1 step, attempt 1"
        since = """
            events += [event async for event in twin.events(since=events[-1][0])]
            len(events) == len({event["event_id"] for _, event in events}) == (await twin.stats()).rows
        """
        assert notebook.text(since) == "True", "what came since, and what was there, are everything, once"
        assert "closed" in notebook.html("store.close()\nawait twin.close()\nstore")
    acked = Counter(acks.read_text().splitlines())
    with DatagenStore.open_existing(path, read_only=True) as store:
        assert acked == completed_steps(store)
        assert set(acked.values()) == {1}
        items = store.items()
        assert [item for item in items if item.fenced or item.problems] == []
        assert {item.status for item in items} == {"completed", "filtered"}
    assert errors_found(path) == []


def shown(store: GenericStore) -> str:
    """What a notebook asks for."""
    show: Callable[[], str] = store._repr_html_  # pyright: ignore[reportPrivateUsage] - the name is Jupyter's
    return show()


def test_what_a_cell_shows(path: Path) -> None:
    schema: SchemaDeclaration = {
        "id": "string",
        "<b>&": "int8",
        "emb": {"type": "vector", "dim": 8, "metric": "cosine"},
        **{f"c{n:03}": "string" for n in range(97)},
    }
    with GenericStore.open(path / "<i>", schema=schema) as store:
        store.add({"id": "a"})
        html = shown(store)
        assert "<td>unsealed_rows</td><td>1</td>" in html
        assert "<td>rows</td>" not in html, "what was never asked for is not shown"
        assert "&lt;b&gt;&amp;" in html
        assert "<b>" not in html
        assert "<i>" not in html
        assert "showing 50 of 100 columns" in html
        assert html.count("<tr>") == 2 + 1 + 50
        assert "vector(dim=8, metric=&quot;cosine&quot;, dtype=&quot;float32&quot;)" in html
        assert len(html) < 20_000
        store.stats()
        assert "<td>rows</td><td>1</td>" in shown(store)
        opened = re.findall(r"<(\w+)", html)
        assert sorted(opened) == sorted(re.findall(r"</(\w+)", html))
    assert "closed" in shown(store)


def luminance(colour: tuple[float, ...]) -> float:
    """As https://www.w3.org/TR/WCAG21/#dfn-relative-luminance has it."""
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))


@pytest.mark.parametrize(
    ("ground", "text"),
    [("#ffffff", "#212121"), ("#111111", "#ffffff"), ("#1e1e1e", "#d4d4d4"), ("#ffffff", "#000000")],
    ids=["jupyter-light", "jupyter-dark", "vscode-dark", "plain"],
)
@pytest.mark.parametrize("status", STATUS_COLOURS)
def test_a_status_is_readable_on_light_and_dark(status: str, ground: str, text: str) -> None:
    share = TEXT_SHARE / 100
    parts = zip(rgb(text), rgb(STATUS_COLOURS[status]), strict=True)
    mixed = tuple(share * of_text + (1 - share) * own for of_text, own in parts)
    dark, light = sorted((luminance(mixed), luminance(rgb(ground))))
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_showing_does_no_io(path: Path) -> None:
    with GenericStore.open(path, schema={"id": "string"}, maintenance=None) as store:
        path.rename(path.with_name("moved"))
        assert "id" in shown(store)
        path.with_name("moved").rename(path)
