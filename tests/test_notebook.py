"""A store in Jupyter: the sync API in a real kernel, whose loop runs, `await` in a cell, and what a cell shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import nbformat
import pytest
from nbclient import NotebookClient

from lance_context import GenericStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lance_context import SchemaDeclaration

CELLS = [
    """
    from lance_context import AsyncGenericStore, GenericStore
    store = GenericStore.open({path!r}, schema={{"id": "string", "n": "int64"}}, read="latest")
    store.add({{"id": f"r{{n}}", "n": n}} for n in range(10)).count
    """,
    "store.list(order_by='-n', limit=2)",
    """
    twin = await AsyncGenericStore.open_existing({path!r}, read="latest")
    await twin.count(), store.count()
    """,
    "async with AsyncGenericStore.open_existing({path!r}) as third:\n    print(await third.get('r3', read='latest'))",
    "store.stats().rows",
    "store",
    "await twin.close()\nstore.close()\nstore",
]


def executed(path: Path) -> list[dict[str, Any]]:
    """The output of each cell, run in a kernel of its own."""
    cells = [{"cell_type": "code", "source": _dedent(cell.format(path=str(path)))} for cell in CELLS]
    empty: dict[str, object] = {"execution_count": None, "metadata": {}, "outputs": []}
    content: dict[str, object] = {
        "nbformat": 4,
        "nbformat_minor": 4,
        "metadata": {},
        "cells": [empty | cell for cell in cells],
    }
    notebook = cast("Any", nbformat.from_dict(content))  # pyright: ignore[reportUnknownMemberType] - it has no types
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs[-1] if cell.outputs else {} for cell in notebook.cells]


def _dedent(cell: str) -> str:
    return "\n".join(line.removeprefix("    ") if cell.startswith("\n") else line for line in cell.strip().split("\n"))


# What the libraries of Jupyter do at their own import and exit is theirs.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook(path: Path) -> None:
    outputs = executed(path)
    text = [output.get("data", {}).get("text/plain", output.get("text", "")).strip() for output in outputs]
    assert text[:5] == [
        "10",
        "[{'id': 'r9', 'n': 9}, {'id': 'r8', 'n': 8}]",
        "(10, 10)",
        "{'id': 'r3', 'n': 3}",
        "10",
    ]
    html = outputs[5]["data"]["text/html"]
    assert "GenericStore" in html
    assert "<td>rows</td><td>10</td>" in html
    assert "closed" in outputs[6]["data"]["text/html"]


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


def test_showing_does_no_io(path: Path) -> None:
    with GenericStore.open(path, schema={"id": "string"}, maintenance=None) as store:
        path.rename(path.with_name("moved"))
        assert "id" in shown(store)
        path.with_name("moved").rename(path)
