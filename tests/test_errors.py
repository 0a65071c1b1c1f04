"""Every code of the engine is raised by something that people do, as the class that documents it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lance_context
from lance_context import GenericStore, LanceContextError
from tests.child import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_context import SchemaDeclaration

ROOT = Path(__file__).parent.parent
SCHEMA: SchemaDeclaration = {"id": "string", "n": {"type": "int8", "nullable": False}}


def opened(path: Path) -> GenericStore:
    """A new store whose first row is there."""
    store = GenericStore.open(path, schema=SCHEMA, read="latest", maintenance=None)
    store.add({"id": "a", "n": 1})
    return store


def with_store(act: Callable[[GenericStore], object]) -> Callable[[Path], object]:
    """What goes wrong with an open store."""

    def do(path: Path) -> object:
        with opened(path) as store:
            return act(store)

    return do


def closed(path: Path) -> object:
    store = opened(path)
    store.close()
    return store.count()


def reopened(path: Path, schema: SchemaDeclaration | None = None, *, seal_on_add: bool | None = None) -> object:
    opened(path).close()
    return GenericStore.open(path, schema, seal_on_add=seal_on_add)


def read_only(path: Path) -> object:
    opened(path).close()
    with GenericStore.open_existing(path, read_only=True) as store:
        return store.flush()


def foreign(path: Path) -> object:
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    return GenericStore.open(path, schema=SCHEMA)


RAISED: dict[str, Callable[[Path], object]] = {
    "batch-too-large": with_store(lambda store: store.add({"id": str(n), "n": 1} for n in range(100_001))),
    "closed": closed,
    "invalid-column": lambda path: GenericStore.open(path, schema={"id": "string", "a.b": "string"}),
    "invalid-query": with_store(lambda store: store.list(filter="n +")),
    "invalid-row": with_store(lambda store: store.add([["id", "b"]])),  # pyright: ignore[reportArgumentType]
    "invalid-schema": lambda path: GenericStore.open(path, schema={"n": "int8"}),
    "missing-value": with_store(lambda store: store.add({"id": "b"})),
    "not-a-store": foreign,
    "option-mismatch": lambda path: reopened(path, seal_on_add=True),
    "out-of-range": with_store(lambda store: store.add({"id": "b", "n": 1000})),
    "query-column": with_store(lambda store: store.list(columns=["m"])),
    "query-parameter": with_store(lambda store: store.list(filter="n = $m")),
    "read-only": read_only,
    "row-exists": with_store(lambda store: store.add({"id": "a", "n": 1}, on_conflict="error")),
    "row-not-found": with_store(lambda store: store.update("b", {"n": 2})),
    "schema-mismatch": lambda path: reopened(path, schema={"id": "string"}),
    "schema-missing": GenericStore.open,
    "store-not-found": GenericStore.open_existing,
    "unknown-column": with_store(lambda store: store.add({"id": "b", "n": 1, "m": 1})),
    "unsupported": lambda path: GenericStore.open(f"http://localhost/{path.name}"),
    "wrong-type": with_store(lambda store: store.add({"id": "b", "n": "1"})),
}
# These need a second process, a disk that fails, or a fault of ours, or come from the item log's pure logic;
# the test that raises them names them.
RAISED_IN = {
    "blob-damaged": ("rust/spec/src/datagen/row/tests.rs", '"blob-damaged"'),
    "config-changed": ("rust/spec/src/datagen/config.rs", '"config-changed"'),
    "damaged": ("tests/test_disk.py", '"damaged"'),
    "event-not-found": ("rust/core/tests/datagen.rs", '"event-not-found"'),
    "event-conflict": ("rust/spec/src/datagen/append/tests.rs", '"event-conflict"'),
    "forked": ("tests/test_process.py", '"forked"'),
    "invalid-event": ("rust/spec/src/datagen/append/tests.rs", '"invalid-event"'),
    "item-damaged": ("rust/spec/src/datagen/fold/tests.rs", '"item-damaged"'),
    "item-exists": ("rust/spec/src/datagen/append/tests.rs", '"item-exists"'),
    "item-not-found": ("rust/spec/src/datagen/append/tests.rs", '"item-not-found"'),
    "item-terminal": ("rust/spec/src/datagen/append/tests.rs", '"item-terminal"'),
    "repeated-position": ("rust/spec/src/datagen/writer/tests.rs", '"repeated-position"'),
    "storage": ("tests/test_disk.py", '"storage"'),
    "stream-fenced": ("rust/spec/src/datagen/append/tests.rs", '"stream-fenced"'),
    "stream-gap": ("rust/spec/src/datagen/append/tests.rs", '"stream-gap"'),
    "write-uncertain": ("rust/core/tests/failing.rs", "Error::WriteUncertain"),
    "writer-fenced": ("rust/core/tests/edit.rs", "Error::WriterFenced"),
    "writer-order": ("rust/spec/src/datagen/writer/tests.rs", '"writer-order"'),
}
# Python's own `ValueError` has no code.
ARGUMENT = {"invalid-argument"}
# A bug of ours: nothing that people do may raise it.
NEVER = {"internal"}


def documented(error: LanceContextError) -> set[str]:
    """The codes that the class of an error names."""
    return set(re.findall(r"``([a-z-]+)``", type(error).__doc__ or ""))


@pytest.mark.parametrize("code", sorted(RAISED))
def test_each_code_is_raised(path: Path, code: str) -> None:
    with pytest.raises(LanceContextError) as caught:
        RAISED[code](path)
    assert caught.value.code == code
    assert code in documented(caught.value)
    message = str(caught.value)
    assert message[0].islower() or message[0] in "`0123456789"
    assert "rs:" not in message


def test_a_stopped_runtime(path: Path) -> None:
    done = run(
        """
        import atexit, sys

        def late():
            try:
                store.count()
            except Exception as error:
                print(type(error).__name__, error.code)

        atexit.register(late)  # before the package's own hook, so it runs after it
        from lance_context import GenericStore

        store = GenericStore.open(sys.argv[1], schema={"id": "string"})
        """,
        path,
    )
    assert done.out in ("StateError runtime-stopped\n", "StateError closed\n")


def test_no_code_is_left_out() -> None:
    source = (ROOT / "rust/spec/src/error.rs").read_text().split("pub const fn code", 1)[1].split("pub const fn", 1)[0]
    codes = set(re.findall(r'=> "([a-z-]+)"', source))
    for code, (place, raised) in RAISED_IN.items():
        assert raised in (ROOT / place).read_text(), code
    assert codes == RAISED.keys() | RAISED_IN.keys() | ARGUMENT | NEVER | {"runtime-stopped"}


def test_an_argument_that_makes_no_sense_is_pythons_own(path: Path) -> None:
    with pytest.raises(ValueError, match="gc_grace") as caught:
        lance_context.GenericStore.open(path, schema=SCHEMA, gc_grace=-1)
    assert not isinstance(caught.value, LanceContextError)
