"""Durable, sealed, merged: who sees a row, and since when."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lance_context import GenericStore, SchemaError, UnsealedRowsWarning

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {"id": "string", "n": "int64"}
A: dict[str, object] = {"id": "a", "n": 1}
B: dict[str, object] = {"id": "b", "n": 2}
C: dict[str, object] = {"id": "c", "n": 3}


def test_add_is_seen_by_others_after_a_flush(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, maintenance=None) as writer, GenericStore.open(path) as reader:
        assert writer.add([A, B]).count == 2
        assert reader.list() == []
        assert reader.list(read="latest") == [A, B]
        writer.flush()
        assert reader.list() == [A, B]
        assert writer.list() == [A, B]


def test_seal_on_add_is_seen_at_once_and_persists(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, seal_on_add=True) as writer, GenericStore.open(path) as reader:
        writer.add(A)
        assert reader.list() == [A]
    with GenericStore.open(path) as writer, GenericStore.open_existing(path) as reader:
        assert writer.stats().seal_on_add
        writer.add(B)
        assert reader.list() == [A, B]
        assert writer.stats().unsealed_rows == 0


@pytest.mark.parametrize(
    ("option", "stored", "given"),
    [
        ("seal_on_add", True, False),
        ("seal_on_add", False, True),
        ("fsync", True, False),
        ("gc_grace", 0, 60.0),
        ("gc_grace", timedelta(minutes=1), timedelta(minutes=2)),
    ],
)
def test_an_option_that_contradicts_the_stored_one(path: Path, option: str, stored: Any, given: Any) -> None:  # noqa: ANN401
    GenericStore.open(path, schema=SCHEMA, **{option: stored}).close()
    GenericStore.open(path, **{option: stored}).close()
    with pytest.raises(SchemaError) as error:
        GenericStore.open(path, **{option: given})
    assert error.value.code == "option-mismatch"
    assert option in str(error.value)
    if isinstance(stored, bool):
        assert "true" in str(error.value).lower()
        assert "false" in str(error.value).lower()


def test_fsync_persists_and_makes_no_sense_in_memory(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, fsync=True) as store:
        store.add(A)
    with GenericStore.open_existing(path) as store:
        assert store.stats().fsync
        assert store.list() == [A]
    with pytest.raises(ValueError, match="fsync"):
        GenericStore.open("memory://synced", SCHEMA, fsync=True)


def test_latest_sees_without_claiming(path: Path) -> None:
    with (
        GenericStore.open(path, schema=SCHEMA, maintenance=None) as writer,
        GenericStore.open(path, read="latest") as reader,
    ):
        for expected, row in enumerate((A, B, C), 1):
            writer.add(row)
            assert reader.count() == expected
            assert reader.get(str(row["id"])) == row
        stats = writer.stats()
        assert (stats.generations, stats.unsealed_rows) == (0, 3), "a fenced writer would have sealed its replay"


def test_rows_durable_at_open_belong_to_sealed_reads(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, maintenance=None) as writer:
        writer.add(A)
        with GenericStore.open(path) as reader:
            writer.add(B)
            assert reader.list() == [A]
            assert reader.list(read="latest") == [A, B]
            writer.add({"id": "a", "n": 10})
            assert reader.list() == [A]
            writer.flush()
            assert reader.list() == [{"id": "a", "n": 10}, B]
            writer.merge()
            assert reader.list() == [{"id": "a", "n": 10}, B]


@pytest.mark.parametrize("read_before", [False, True])
def test_a_reader_follows_the_merges_of_others(path: Path, *, read_before: bool) -> None:
    with (
        GenericStore.open(path, schema=SCHEMA, gc_grace=0, maintenance=None) as writer,
        GenericStore.open(path) as reader,
    ):
        for expected in range(1, 4):
            if read_before:
                assert reader.count() == expected - 1
            writer.add({"id": f"r{expected}", "n": expected})
            writer.flush()
            writer.merge()
            assert [row["n"] for row in reader.list()] == list(range(1, expected + 1))
            assert reader.get(f"r{expected}") == {"id": f"r{expected}", "n": expected}


def test_an_empty_read_over_unsealed_rows_warns_once(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, maintenance=None) as store:
        assert store.list() == [], "nothing is unsealed yet, so nothing warns"
        store.add(A)
        with pytest.warns(UnsealedRowsWarning):
            assert store.list() == []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert store.list() == []
            assert store.get("a") is None
            assert store.list(read="latest") == [A]
    with GenericStore.open(path, maintenance=None) as store:
        store.add(B)
        with pytest.warns(UnsealedRowsWarning):
            assert store.get("b") is None


def test_unsealed_rows_counts_down(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, maintenance=None) as store:
        store.add([A, B])
        assert store.stats().unsealed_rows == 2
        store.flush()
        assert store.stats().unsealed_rows == 0
        stats = store.stats()
        assert (stats.base_rows, stats.generations) == (0, 1)
        report = store.merge()
        assert (report.generations, report.rows, report.deleted) == (1, 2, 0)
        stats = store.stats()
        assert (stats.base_rows, stats.generations, stats.version) == (2, 0, report.version)


def test_flush_and_merge_of_nothing(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, maintenance=None) as store:
        store.flush()
        assert store.merge().generations == 0
        assert store.add([]).count == 0
        assert store.list() == []


def test_sealed_reads_never_shrink_under_merges(path: Path) -> None:
    with (
        GenericStore.open(path, schema=SCHEMA, gc_grace=0, maintenance=None) as writer,
        GenericStore.open(path) as reader,
    ):
        seen = 0
        for n in range(12):
            writer.add({"id": f"r{n:02}", "n": n})
            if n % 3 == 2:
                writer.flush()
            if n % 6 == 5:
                writer.merge()
            visible = [row["n"] for row in reader.list()]
            assert visible == list(range(len(visible))), "a prefix"
            assert len(visible) >= seen
            seen = len(visible)
        assert seen == 12
