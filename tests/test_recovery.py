"""What a dead process leaves behind: every acknowledged row, and nothing of anyone else touched."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from lance_context import FormatError, GenericStore, NotFoundError, SchemaError, StateError
from tests.child import Child, run

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {"id": "string", "n": "int64"}

ADD_FOR_EVER = """
    import sys
    from lance_context import GenericStore

    store = GenericStore.open(sys.argv[1], schema={"id": "string", "n": "int64"}, gc_grace=0)
    first, seal_every = int(sys.argv[2]), int(sys.argv[3])
    n = first
    while True:
        store.add([{"id": f"r{n:06}", "n": n}, {"id": f"s{n:06}", "n": n}])
        print(n, flush=True)
        n += 1
        if n % seal_every == 0:
            store.flush()
"""


def test_killed_writer_leaves_every_acknowledged_row(path: Path) -> None:
    with Child(ADD_FOR_EVER, path, 0, 1_000_000) as child:
        acknowledged = [int(child.read()) for _ in range(20)]
        acknowledged += [int(line) for line in child.kill()]
    with GenericStore.open_existing(path) as store:
        ids = [row["id"] for row in store.list()]
        assert store.stats().unsealed_rows == 0, "reading claims nothing"
    assert ids == sorted(set(ids))
    assert {f"{letter}{n:06}" for n in acknowledged for letter in "rs"} <= set(ids)
    assert {i[1:] for i in ids if i[0] == "r"} == {i[1:] for i in ids if i[0] == "s"}, "a batch is atomic"


def test_killed_writer_leaves_a_store_that_goes_on(path: Path) -> None:
    acknowledged: list[int] = []
    for _ in range(4):
        with Child(ADD_FOR_EVER, path, len(acknowledged), 7) as child:
            acknowledged += [int(child.read()) for _ in range(10)]
            acknowledged += [int(line) for line in child.kill()]
    with GenericStore.open_existing(path) as store:
        store.add({"id": "last", "n": -1})
        store.flush()
        store.merge()
        rows = {row["id"]: row["n"] for row in store.list()}
    assert {f"r{n:06}": n for n in acknowledged}.items() <= rows.items()
    assert rows["last"] == -1


def test_fifty_opens_without_a_flush(path: Path) -> None:
    script = """
        import os, sys
        from lance_context import GenericStore

        handles = []
        for n in range(int(sys.argv[2]), int(sys.argv[2]) + 10):
            store = GenericStore.open(sys.argv[1], schema={"id": "string", "n": "int64"}, gc_grace=0)
            store.add({"id": f"r{n:03}", "n": n})
            handles.append(store)
        os._exit(0)
    """
    for first in range(0, 50, 10):
        run(script, path, first)
    expected = [{"id": f"r{n:03}", "n": n} for n in range(50)]
    with GenericStore.open_existing(path) as store:
        assert store.list() == expected
        store.flush()
        store.merge()
        while store.stats().generations:
            store.merge()
        assert store.list() == expected
        assert store.stats().wal_entries <= 8, "merged entries are deleted when gc_grace is over"


def test_overlay_is_readable_without_a_write(path: Path) -> None:
    run(
        """
        import os, sys
        from lance_context import GenericStore

        store = GenericStore.open(sys.argv[1], schema={"id": "string", "n": "int64"})
        store.add([{"id": "a", "n": 1}, {"id": "b", "n": 2}])
        os._exit(0)
        """,
        path,
    )
    before = _digest(path)
    with GenericStore.open_existing(path, read_only=True) as store:
        assert store.list() == [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
        assert store.get("b") == {"id": "b", "n": 2}
        assert store.count() == 2
        assert store.count(filter="n = 2") == 1
        with pytest.raises(StateError) as refused:
            store.add({"id": "c", "n": 3})
        assert refused.value.code == "read-only"
    assert _digest(path) == before, "opening, reading and closing write nothing"


def test_foreign_directory_is_not_touched(tmp_path: Path) -> None:
    foreign = tmp_path / "photos"
    (foreign / "2024" / "_versions").mkdir(parents=True)
    (foreign / "notes.txt").write_text("mine")
    (foreign / "2024" / "a.bin").write_bytes(bytes(range(256)))
    before = _digest(foreign)
    with pytest.raises(FormatError) as error:
        GenericStore.open(foreign, schema=SCHEMA)
    assert error.value.code == "not-a-store"
    with pytest.raises(FormatError) as error:
        GenericStore.open_existing(foreign)
    assert error.value.code == "not-a-store"
    assert _digest(foreign) == before


def test_a_file_is_not_a_store(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError) as error:
        GenericStore.open(file, schema=SCHEMA)
    assert error.value.code == "not-a-store"
    assert file.read_text() == "a,b\n1,2\n"


def test_an_empty_directory_becomes_a_store(path: Path) -> None:
    path.mkdir()
    with GenericStore.open(path, schema=SCHEMA) as store:
        store.add({"id": "a"})
    with GenericStore.open(path) as store:
        assert store.list() == [{"id": "a", "n": None}]


def test_a_missing_store_is_not_created(path: Path) -> None:
    with pytest.raises(NotFoundError) as missing:
        GenericStore.open_existing(path)
    assert missing.value.code == "store-not-found"
    with pytest.raises(SchemaError) as schemaless:
        GenericStore.open(path)
    assert schemaless.value.code == "schema-missing"
    assert not path.exists()


def test_an_empty_uri_is_an_argument_error() -> None:
    with pytest.raises(ValueError, match="uri"):
        GenericStore.open("", schema=SCHEMA)


def test_closed_handle(path: Path) -> None:
    store = GenericStore.open(path, schema=SCHEMA)
    store.add({"id": "a", "n": 1})
    store.close()
    store.close()
    assert store.closed
    with pytest.raises(StateError) as error:
        store.count()
    assert error.value.code == "closed"
    with GenericStore.open(path) as again:
        assert again.stats().generations == 1, "close seals"
        assert again.list() == [{"id": "a", "n": 1}]


def _digest(directory: Path) -> dict[str, str]:
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "dir"
        for file in sorted(directory.rglob("*"))
    }
