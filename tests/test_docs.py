"""The guides run as printed: every Python block of a page in order, and every output that a page shows.

A page is one program. A ```python block runs; a ```text block right behind it is what it prints. A block that prints
something and does not show it, and a block that would not run, are mistakes of the page.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lance_context import AsyncDatagenStore, AsyncGenericStore, DatagenStore, GenericStore
from tests.child import module, run
from tests.model_server import model_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [DOCS / "index.md", *sorted((DOCS / "guides").glob("*.md"))]
# What is shown and neither run nor compared.
OTHER_LANGUAGES = {"console"}


@dataclass(frozen=True)
class Block:
    """A Python block of a page, where its code begins, and what the page says that it prints."""

    line: int
    code: str
    shown: str


def blocks_of(page: str) -> list[Block]:
    """The Python blocks of a page.

    Raises:
        ValueError: A block would be passed over.
    """
    blocks: list[Block] = []
    lines = page.splitlines(keepends=True)
    may_show_at, at = -1, 0
    while at < len(lines):
        fence = re.match(r"\s*(`{3,}|~{3,})(.*)", lines[at])
        if not fence:
            at += 1
            continue
        begin, language = at, fence[2].strip()
        try:
            at = next(n for n in range(begin + 1, len(lines)) if lines[n].strip() == fence[1])
        except StopIteration:
            raise ValueError(f"line {begin + 1}: a block without an end") from None
        content = "".join(lines[begin + 1 : at])
        if language in {"python", "text"} and not lines[begin].startswith("```"):
            raise ValueError(f"line {begin + 1}: a block that is indented or between tildes")
        if language == "python":
            blocks.append(Block(begin + 2, content, ""))
            may_show_at = begin + content.count("\n") + 3  # behind one empty line
        elif language == "text":
            if begin != may_show_at:
                raise ValueError(f"line {begin + 1}: a text block that is not right behind a Python block")
            blocks[-1] = Block(blocks[-1].line, blocks[-1].code, content)
        elif language not in OTHER_LANGUAGES:
            raise ValueError(f"line {begin + 1}: a block of `{language}`")
        at += 1
    return blocks


def run_page() -> None:
    """Runs the blocks of the page named by the first argument in the directory named by the second.

    What each block printed goes to standard output as one JSON list. `await` works as in a notebook.
    """
    page, place = sys.argv[1:]
    blocks = blocks_of(Path(page).read_text(encoding="utf-8"))
    os.chdir(place)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed: list[str] = []
    with asyncio.Runner() as runner:
        for block in blocks:
            tree = ast.increment_lineno(ast.parse(block.code), block.line - 1)
            code = compile(tree, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                result = eval(code, namespace)
                if inspect.iscoroutine(result):
                    runner.run(result)
            printed.append(out.getvalue())
    print(json.dumps(printed))  # noqa: T201 - read by the test


def mismatches(page: Path, place: Path, env: Mapping[str, str] | None = None) -> list[tuple[int, str, str]]:
    """The blocks whose output is another than the page shows: line, shown, printed."""
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    assert blocks, f"{page} has no block that runs"
    end = run(module("tests.test_docs", "run_page"), page, place, env={"PYTHONWARNINGS": "error", **(env or {})})
    assert end.err == "", end.err
    printed: list[str] = json.loads(end.out)
    assert len(printed) == len(blocks)
    return [
        (block.line, block.shown, out)
        for block, out in zip(blocks, printed, strict=True)
        if block.shown.rstrip() != out.rstrip()
    ]


@pytest.fixture(scope="module")
def model() -> Iterator[Mapping[str, str]]:
    """The environment in which the client of OpenAI finds a model."""
    with model_server() as server:
        yield server.env


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_as_printed(page: Path, tmp_path: Path, model: Mapping[str, str]) -> None:
    assert mismatches(page, tmp_path, model) == []


def test_there_are_pages() -> None:
    assert len(PAGES) > 5


def test_a_wrong_output_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    blocks = ("```python\nn = 1\n```", "```python\nprint(n)\n```", "```text\n2\n```", "```python\nprint(3)\n```")
    page.write_text("\n\n".join(blocks))
    assert mismatches(page, tmp_path) == [(6, "2\n", "1\n"), (14, "", "3\n")]


def test_a_block_that_fails_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```python\nn = 1\nraise RuntimeError\n```\n")
    with pytest.raises(AssertionError, match=r'page\.md", line 5'):
        mismatches(page, tmp_path)


def test_a_hidden_warning_is_a_failure(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```python\nimport warnings\nwarnings.warn("old", ResourceWarning)\n```\n')
    with pytest.raises(AssertionError, match="ResourceWarning"):
        mismatches(page, tmp_path)


@pytest.mark.parametrize(
    ("page", "part"),
    [
        ("```py\nprint(1)\n```\n", "line 1: a block of `py`"),
        ("```\nprint(1)\n```\n", "line 1: a block of ``"),
        ('```python title="a.py"\nprint(1)\n```\n', "a block of"),
        ("~~~python\nprint(1)\n~~~\n", "between tildes"),
        ("!!! note\n\n    ```python\n    print(1)\n    ```\n", "line 3: a block that is indented"),
        ("```text\n1\n```\n", "not right behind a Python block"),
        ("```python\nprint(1)\n```\n\nIt prints\n\n```text\n1\n```\n", "line 7: a text block"),
        ("```python\nprint(1)\n", "without an end"),
    ],
)
def test_a_block_that_would_be_passed_over(page: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        blocks_of(page)


def first_cells(page: str, head: str) -> list[str]:
    """The words in the first column of the tables of a guide that begin with this column."""
    text = (DOCS / "guides" / page).read_text(encoding="utf-8")
    tables = re.findall(rf"^\| {head} \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [cell for table in tables for cell in re.findall(r"^\| `([a-z0-9-]+)` \|", table, re.MULTILINE)]


@pytest.mark.parametrize(
    ("page", "owner"),
    [
        ("generic-store", GenericStore),
        ("async-generic-store", AsyncGenericStore),
        ("datagen-store", DatagenStore),
        ("async-datagen-store", AsyncDatagenStore),
    ],
)
def test_a_reference_has_every_member_once(page: str, owner: type) -> None:
    """They are listed in the order in which a reader needs them."""
    listed = re.findall(r"^ +- (\w+)$", (DOCS / "reference" / f"{page}.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(name for name, _ in inspect.getmembers(owner) if not name.startswith("_"))


def test_every_error_is_explained() -> None:
    source = (ROOT / "rust/spec/src/error.rs").read_text(encoding="utf-8")
    codes = re.findall(r'Self::\w+(?: \{ \.\. \})? => "([a-z-]+)"', source)
    assert codes
    assert sorted(first_cells("errors.md", "code")) == sorted({*codes} - {"invalid-argument"})  # which is a ValueError


def test_every_finding_is_explained() -> None:
    source = (ROOT / "rust/spec/src/doctor.rs").read_text(encoding="utf-8")
    codes = re.findall(r'pub const \w+: &str = "([a-z-]+)";', source)
    assert codes
    assert sorted(first_cells("upkeep.md", "code")) == sorted(codes)


def test_every_type_is_in_the_table() -> None:
    source = (ROOT / "rust/spec/src/validate.rs").read_text(encoding="utf-8")
    types = re.findall(r'^    \("([a-z0-9]+)", &\["type"', source, re.MULTILINE)
    assert types
    assert first_cells("schemas-and-models.md", "type") == types
