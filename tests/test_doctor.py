"""The doctor, through both classes: what it says of a store in order and of a damaged one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lance_context import AsyncGenericStore, FormatError, GenericStore, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {"id": "string", "n": "int64"}


def test_a_store_in_order(path: Path) -> None:
    with GenericStore.open(path, SCHEMA, maintenance=None) as store:
        for n in range(3):
            store.add({"id": f"r{n}", "n": n})
            store.flush()
        store.merge()
        store.delete("r1")
        assert all(finding.severity == "note" for finding in GenericStore.doctor(path)), "a store in use"
    assert all(finding.severity == "note" for finding in asyncio.run(AsyncGenericStore.doctor(path)))


def test_a_torn_log_is_found_and_repaired(path: Path) -> None:
    with GenericStore.open(path, SCHEMA, maintenance=None) as store:
        store.add({"id": "a", "n": 1})
        store.flush()
    store = GenericStore.open(path, maintenance=None)
    for n in range(3):
        store.add({"id": f"r{n}", "n": n})
    newest = sorted((path / "_mem_wal").glob("*/wal/*.arrow"), key=lambda file: file.stat().st_mtime_ns)
    newest[-2].write_bytes(newest[-2].read_bytes()[:100])
    errors = {finding.code for finding in GenericStore.doctor(path) if finding.severity == "error"}
    assert errors == {"wal-torn"}
    with GenericStore.open(path, maintenance=None) as other, pytest.raises(FormatError, match="doctor"):
        other.add({"id": "b", "n": 1})
    mended = GenericStore.doctor(path, repair=True)
    assert [finding.code for finding in mended if finding.repaired]
    assert not [finding for finding in mended if finding.severity == "error" and not finding.repaired]
    with GenericStore.open(path, read="latest") as other:
        other.add({"id": "b", "n": 1})
        assert [row["id"] for row in other.list()] == ["a", "b", "r0", "r2"]
        assert other.stats().quarantined == 1
    store.close()


def test_where_there_is_no_store(path: Path) -> None:
    with pytest.raises(NotFoundError) as missing:
        GenericStore.doctor(path)
    assert missing.value.code == "store-not-found"
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    for repair in (False, True):
        with pytest.raises(FormatError) as foreign:
            GenericStore.doctor(path, repair=repair)
        assert foreign.value.code == "not-a-store"
    assert [file.name for file in path.iterdir()] == ["notes.txt"]
