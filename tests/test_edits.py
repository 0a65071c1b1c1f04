"""Changing and deleting rows, adding only new ones, and every way to read the result, wherever the rows are."""

from __future__ import annotations

import random
import tracemalloc
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from lance_context import (
    AlreadyExistsError,
    GenericStore,
    LanceContextError,
    NotFoundError,
    QueryError,
    RowError,
    StateError,
    UnsealedRowsWarning,
)
from tests.stages import PLACES, each_stage
from tests.test_queries import HARD_IDS
from tests.twins import Opener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lance_context import Row, SchemaDeclaration
    from tests.twins import Twin

SCHEMA: SchemaDeclaration = {
    "id": "string",
    "n": "int64",
    "state": {"type": "string", "nullable": False},
    "small": "int32",
    "data": {"type": "binary", "blob": True},
}
LISTS = {
    "id": "string",
    "n": "int64",
    "tags": {"type": "list", "item": "string"},
    "v": {"type": "vector", "dim": 2},
}
MIB = 1 << 20


def row(id: str, n: object = None, **columns: object) -> Row:
    """A whole row."""
    return {"id": id, "n": n, "state": "open", "small": None, "data": None, **columns}


def ten_rows() -> dict[str, Row]:
    return {f"r{n}": row(f"r{n}", n, data=bytes([n]) * n) for n in range(10)}


def put(store: Twin, rows: Mapping[str, Row], place: str) -> None:
    """Add rows and bring them to a place."""
    store.add(rows.values())
    if place != "memtable":
        store.flush()
    if place == "base":
        store.merge()


def check(store: Twin, expected: Mapping[str, Row]) -> None:
    """Every way to read gives exactly these rows."""
    columns = list(SCHEMA)
    whole = [expected[id] for id in sorted(expected)]
    plain = [{column: value for column, value in row.items() if column != "data"} for row in whole]
    assert store.list() == plain
    assert store.list(columns=columns) == whole
    assert store.count() == len(whole)
    assert by_id(store.iter()) == plain
    assert by_id(store.iter(columns=columns)) == whole
    assert by_id(r for batch in store.batches(columns=columns) for r in pa.record_batch(batch).to_pylist()) == whole
    asked = [*sorted(expected, reverse=True), "not there", *sorted(expected)[:1]]
    assert store.get_many(asked, columns=columns) == [expected.get(id) for id in asked]
    for id in (*sorted(expected)[:3], "not there"):
        assert store.get(id, columns=columns) == expected.get(id)
        assert store.exists(id) == (id in expected)
    odd = [row["id"] for row in whole if row["n"] is not None and row["n"] % 2]
    assert [row["id"] for row in store.list(filter="n % 2 = 1", columns=[])] == odd
    assert store.count({"state": "closed"}) == sum(row["state"] == "closed" for row in whole)


def by_id(rows: Iterator[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def check_everywhere(stores: Opener, store: Twin, path: Path, expected: Mapping[str, Row]) -> None:
    """The same rows while they are durable, sealed, merged, and read by a handle of another time."""
    check(store, expected)
    check(stores.reopen(path, read_only=True), expected)
    store.flush()
    check(store, expected)
    store.merge()
    check(store, expected)
    check(stores.reopen(path), expected)
    assert store.stats().base_rows == len(expected)
    store.close()
    check(stores.reopen(path), expected)


@pytest.mark.parametrize("place", PLACES)
def test_update(path: Path, stores: Opener, place: str) -> None:
    rows = ten_rows()
    store = stores.create(path, SCHEMA)
    put(store, rows, place)
    changes: dict[str, dict[str, object]] = {
        "r1": {"n": 100},
        "r2": {"state": "closed"},
        "r3": {"data": b"other", "small": 3},
        "r4": {"data": None, "n": None},
        "r5": dict.fromkeys(["n", "small"], 5),
    }
    for id, changed in changes.items():
        store.update(id, changed)
        rows[id] |= changed
        assert store.get(id, columns=list(SCHEMA)) == rows[id]
    store.update("r1", {"small": 1})
    rows["r1"]["small"] = 1
    check_everywhere(stores, store, path, rows)


@pytest.mark.parametrize("place", PLACES)
def test_update_of_rows_with_lists(path: Path, stores: Opener, place: str) -> None:
    rows: dict[str, Row] = {
        f"r{n}": {"id": f"r{n}", "n": n, "tags": [f"t{n}", ""] if n % 2 else None, "v": [n, n + 0.5]} for n in range(6)
    }
    store = stores.create(path, LISTS)
    put(store, rows, place)
    changes: dict[str, dict[str, object]] = {
        "r1": {"n": 100},
        "r2": {"tags": ["a", "b"]},
        "r3": {"tags": []},
        "r4": {"v": [9.0, 9.0], "tags": [""]},
        "r5": {"v": None},
    }
    for id, changed in changes.items():
        store.update(id, changed)
        rows[id] |= changed
    expected = [rows[id] for id in sorted(rows)]
    for _ in range(3):
        assert store.list() == expected
        assert by_id(store.iter()) == expected
        assert store.get_many(sorted(rows)) == expected
        store.flush()
        store.merge()


@pytest.mark.parametrize("place", PLACES)
def test_wide_rows_with_lists_in_several_places(path: Path, stores: Opener, place: str) -> None:
    store = stores.create(path, LISTS | {"data": "binary"})
    rows: dict[str, Row] = {
        f"r{n}": {"id": f"r{n}", "n": n, "tags": [f"t{n}"], "v": None, "data": bytes([n])} for n in range(6)
    }
    put(store, {id: rows[id] for id in ("r0", "r1", "r2")}, place)
    store.add(rows[id] for id in ("r3", "r4", "r5"))
    expected = list(rows.values())
    assert store.get_many(list(rows)) == expected
    assert store.list() == expected
    assert by_id(store.iter()) == expected
    batches = list(store.batches())
    assert by_id(r for batch in batches for r in pa.record_batch(batch).to_pylist()) == expected
    assert all(pa.schema(batch).equals(pa.schema(batches[0]), check_metadata=True) for batch in batches)


@pytest.mark.parametrize("place", PLACES)
def test_delete(path: Path, stores: Opener, place: str) -> None:
    rows = ten_rows()
    store = stores.create(path, SCHEMA)
    put(store, rows, place)
    assert store.delete("r0").count == 1
    assert store.delete(["r3", "r4", "r3", "r99"]).count == 2
    assert store.delete([]).count == 0
    assert store.delete("r0").count == 0
    for id in ("r0", "r3", "r4"):
        assert store.get(id) is None
        del rows[id]
    assert store.delete(("r9",)).count == 1
    del rows["r9"]
    check_everywhere(stores, store, path, rows)


@pytest.mark.parametrize("place", PLACES)
def test_delete_where(path: Path, stores: Opener, place: str) -> None:
    rows = ten_rows()
    store = stores.create(path, SCHEMA)
    put(store, rows, place)
    assert store.delete_where("n >= $least AND n < 100", params={"least": 8}).count == 2
    assert store.delete_where({"state": "closed"}).count == 0
    store.update("r5", {"state": "closed", "n": 50})
    assert store.delete_where("n = 5").count == 0, "the version that matched is superseded"
    assert store.delete_where({"state": "closed"}).count == 1
    assert store.delete_where("id IN ('r1', 'r4', 'r7', 'r5')").count == 3
    kept = {id: rows[id] for id in ("r0", "r2", "r3", "r6")}
    check_everywhere(stores, store, path, kept)


def test_delete_everything_and_begin_again(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    put(store, ten_rows(), "base")
    assert store.delete_where("true").count == 10
    check(store, {})
    store.flush()
    store.merge()
    check(store, {})
    rows = {"r3": row("r3", 3), "new": row("new", 1)}
    store.add(rows.values())
    check_everywhere(stores, store, path, rows)


@pytest.mark.parametrize("first", PLACES)
@pytest.mark.parametrize("second", PLACES)
def test_a_deleted_row_comes_back_as_it_was_added_again(path: Path, stores: Opener, first: str, second: str) -> None:
    store = stores.create(path, SCHEMA)
    put(store, {"a": row("a", 1, data=b"one", small=1), "b": row("b", 2)}, first)
    store.delete("a")
    put(store, {}, second)
    with pytest.raises(NotFoundError):
        store.update("a", {"n": 3})
    store.add({"id": "a", "state": "new"}, on_conflict="error")
    check_everywhere(stores, store, path, {"a": row("a", state="new"), "b": row("b", 2)})


@pytest.mark.parametrize("place", PLACES)
def test_on_conflict(path: Path, stores: Opener, place: str) -> None:
    rows = ten_rows()
    store = stores.create(path, SCHEMA)
    put(store, rows, place)
    entries = store.stats().wal_entries
    with pytest.raises(AlreadyExistsError) as taken:
        store.add([row("new1"), row("r3", 33), row("new2")], on_conflict="error")
    assert (taken.value.code, taken.value.retryable) == ("row-exists", False)
    assert "`r3`" in str(taken.value)
    with pytest.raises(AlreadyExistsError):
        store.add([row("new1", 1), row("new1", 2)], on_conflict="error")
    assert store.add([row("r1", 11), row("r2", 22)], on_conflict="ignore").count == 0
    assert store.stats().wal_entries == entries, "nothing was written"
    check(store, rows)

    assert store.add([row("new1", 1), row("r3", 33), row("new1", 2)], on_conflict="ignore").count == 1
    rows["new1"] = row("new1", 1)
    assert store.add([row("new2", 1), row("new3", 1)], on_conflict="error").count == 2
    rows |= {"new2": row("new2", 1), "new3": row("new3", 1)}
    assert store.add([row("r4", 44), row("r4", 45)], on_conflict="replace").count == 2
    rows["r4"] = row("r4", 45)
    check_everywhere(stores, store, path, rows)


def test_on_conflict_with_more_rows_than_are_looked_up_one_by_one(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    old = {f"r{n:04}": row(f"r{n:04}", n) for n in range(0, 1000, 2)}
    put(store, old, "generation")
    every = [row(f"r{n:04}", n + 10_000) for n in range(1000)]
    with pytest.raises(AlreadyExistsError):
        store.add(every, on_conflict="error")
    assert store.add(every, on_conflict="ignore").count == 500
    rows = {r["id"]: r for r in every} | old
    assert store.delete([f"r{n:04}" for n in range(700)] + ["r9999"]).count == 700
    kept = {id: r for id, r in rows.items() if id >= "r0700"}
    check_everywhere(stores, store, path, kept)


def test_hard_ids_are_edited_one_by_one(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    rows = {id: row(id, n) for n, id in enumerate(HARD_IDS)}
    put(store, rows, "generation")
    for n, id in enumerate(HARD_IDS):
        assert store.exists(id)
        if n % 3 == 0:
            assert store.delete(id).count == 1
            del rows[id]
            assert not store.exists(id)
            continue
        store.update(id, {"n": n + 100, "state": id})
        rows[id] |= {"n": n + 100, "state": id}
        if n % 3 == 1:
            with pytest.raises(AlreadyExistsError):
                store.add(row(id), on_conflict="error")
            assert store.add(row(id), on_conflict="ignore").count == 0
    assert store.get_many(HARD_IDS, columns=["n"]) == [
        {"id": id, "n": rows[id]["n"]} if id in rows else None for id in HARD_IDS
    ]
    check_everywhere(stores, store, path, rows)


def test_get_many_keeps_places(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    put(store, ten_rows(), "generation")
    got = store.get_many(["r3", "x", "r1", "r3"], columns=["n", "data"])
    assert got == [
        {"id": "r3", "n": 3, "data": bytes([3]) * 3},
        None,
        {"id": "r1", "n": 1, "data": bytes([1])},
        {"id": "r3", "n": 3, "data": bytes([3]) * 3},
    ]
    assert store.get_many([]) == []
    assert store.get_many(["x", "y"]) == [None, None]
    with pytest.raises(TypeError, match="did you mean"):
        store.get_many("r3")
    many = [f"r{n % 20}" for n in range(500)]
    assert [r and r["id"] for r in store.get_many(many)] == [id if int(id[1:]) < 10 else None for id in many]


def test_reads_that_find_nothing_warn_of_unsealed_rows(path: Path, stores: Opener) -> None:
    stores.create(path, SCHEMA).close()
    looks: list[Callable[[Twin], object]] = [
        lambda store: store.get_many(["a", "b"]),
        lambda store: store.get("a"),
        lambda store: store.list(),
    ]
    for look in looks:
        store = stores.reopen(path)
        store.add(row("a"))
        with pytest.warns(UnsealedRowsWarning):
            look(store)
        assert store.delete_where("true").count == 1
        store.close()


TOO_MANY = 100_001


def too_many() -> Iterator[Row]:
    return ({"id": f"x{n}", "state": ""} for n in range(TOO_MANY))


MISTAKES: list[tuple[str, Callable[[Twin], object], type[LanceContextError], str, dict[str, object]]] = [
    ("add: column", lambda s: s.add([row("x"), row("y", stat="")]), RowError, "unknown-column", {"row": 1}),
    ("add: no id", lambda s: s.add([row("x"), {"state": ""}]), RowError, "missing-value", {"row": 1, "column": "id"}),
    ("add: null", lambda s: s.add(row("x", state=None)), RowError, "missing-value", {"row": 0, "column": "state"}),
    ("add: type", lambda s: s.add([row("x"), row("y", n="1")]), RowError, "wrong-type", {"row": 1, "column": "n"}),
    ("add: range", lambda s: s.add(row("x", small=2**31)), RowError, "out-of-range", {"row": 0, "column": "small"}),
    ("add: no row", lambda s: s.add([row("x"), 7]), RowError, "invalid-row", {"row": 1}),  # pyright: ignore[reportArgumentType]
    ("add: too many", lambda s: s.add(too_many()), RowError, "batch-too-large", {}),
    ("add: taken", lambda s: s.add(row("r1"), on_conflict="error"), AlreadyExistsError, "row-exists", {}),
    (
        "add new: column",
        lambda s: s.add(row("x", z=1), on_conflict="error"),
        RowError,
        "unknown-column",
        {"column": "z"},
    ),
    (
        "add new: too many",
        lambda s: s.add(too_many(), on_conflict="ignore"),
        RowError,
        "batch-too-large",
        {},
    ),
    ("update: no row", lambda s: s.update("x", {"n": 1}), NotFoundError, "row-not-found", {}),
    ("update: column", lambda s: s.update("r1", {"n": 1, "m": 1}), RowError, "unknown-column", {"column": "m"}),
    ("update: null", lambda s: s.update("r1", {"state": None}), RowError, "missing-value", {"column": "state"}),
    ("update: type", lambda s: s.update("r1", {"n": 1.5}), RowError, "wrong-type", {"column": "n"}),
    ("update: range", lambda s: s.update("r1", {"small": -(2**40)}), RowError, "out-of-range", {"column": "small"}),
    ("update: id", lambda s: s.update("r1", {"id": "r2"}), RowError, "invalid-row", {}),
    ("delete: too many", lambda s: s.delete([f"x{n}" for n in range(TOO_MANY)]), RowError, "batch-too-large", {}),
    ("delete_where: column", lambda s: s.delete_where("m = 1"), QueryError, "query-column", {"column": "m"}),
    ("delete_where: map", lambda s: s.delete_where({"m": 1}), QueryError, "query-column", {"column": "m"}),
    ("delete_where: syntax", lambda s: s.delete_where("n ="), QueryError, "invalid-query", {}),
    ("delete_where: type", lambda s: s.delete_where("n"), QueryError, "invalid-query", {}),
    ("delete_where: empty", lambda s: s.delete_where(""), QueryError, "invalid-query", {}),
    ("delete_where: parameter", lambda s: s.delete_where("n = $n"), QueryError, "query-parameter", {}),
    ("delete_where: data", lambda s: s.delete_where("1 / (n - n) = 1"), QueryError, "invalid-query", {}),
    ("iter: column", lambda s: list(s.iter(columns=["m"])), QueryError, "query-column", {"column": "m"}),
    ("iter: filter", lambda s: list(s.iter(filter="m = 1")), QueryError, "query-column", {"column": "m"}),
    ("iter: syntax", lambda s: list(s.iter(filter="n =")), QueryError, "invalid-query", {}),
    ("iter: data", lambda s: list(s.iter(filter="1 / (n - n) = 1")), QueryError, "invalid-query", {}),
    ("batches: parameter", lambda s: list(s.batches(filter="n = $n")), QueryError, "query-parameter", {}),
    ("batches: column", lambda s: list(s.batches(columns=["m"])), QueryError, "query-column", {"column": "m"}),
    ("count: column", lambda s: s.count("m = 1"), QueryError, "query-column", {"column": "m"}),
    ("get_many: column", lambda s: s.get_many(["r1"], columns=["m"]), QueryError, "query-column", {"column": "m"}),
]


@pytest.mark.parametrize("place", ["memtable", "base"])
def test_a_mistake_changes_nothing(path: Path, stores: Opener, place: str) -> None:
    store = stores.create(path, SCHEMA)
    put(store, ten_rows(), place)
    entries = store.stats().wal_entries
    for name, mistake, kind, code, details in MISTAKES:
        with pytest.raises(LanceContextError) as error:
            mistake(store)
        assert (type(error.value), error.value.code) == (kind, code), name
        assert not error.value.retryable, name
        for detail, value in details.items():
            assert getattr(error.value, detail) == value, name
        assert store.stats().wal_entries == entries, name
    check_everywhere(stores, store, path, ten_rows())


def test_arguments_that_make_no_sense(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    put(store, ten_rows(), "memtable")
    entries = store.stats().wal_entries
    with pytest.raises(ValueError, match="empty"):
        store.update("r1", {})
    with pytest.raises(ValueError, match="on_conflict"):
        store.add(row("x"), on_conflict="merge")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        store.update("r1", [("n", 1)])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        store.update("r1", {1: 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        store.delete([1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="filter"):
        store.delete_where(None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        store.get_many("r1")
    with pytest.raises(ValueError, match="read"):
        store.exists("r1", read="newest")  # pyright: ignore[reportArgumentType]
    assert store.stats().wal_entries == entries
    check(store, ten_rows())


WRITES: list[Callable[[Twin], object]] = [
    lambda s: s.add(row("x")),
    lambda s: s.add(row("x"), on_conflict="ignore"),
    lambda s: s.update("r1", {"n": 1}),
    lambda s: s.delete("r1"),
    lambda s: s.delete([]),
    lambda s: s.delete_where("true"),
    lambda s: s.flush(),
    lambda s: s.merge(),
]
READS: list[Callable[[Twin], object]] = [
    lambda s: s.get_many(["r1"]),
    lambda s: s.exists("r1"),
    lambda s: list(s.iter()),
    lambda s: list(s.batches()),
    lambda s: s.count(),
    lambda s: s.stats(),
]


def test_a_handle_that_may_not_write(path: Path, stores: Opener) -> None:
    put(stores.create(path, SCHEMA), ten_rows(), "memtable")
    store = stores.reopen(path, read_only=True)
    for write in WRITES:
        with pytest.raises(StateError) as refused:
            write(store)
        assert refused.value.code == "read-only"
    check(store, ten_rows())


def test_a_closed_handle(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    put(store, ten_rows(), "memtable")
    store.close()
    for use in (*WRITES, *READS):
        with pytest.raises(StateError) as closed:
            use(store)
        assert closed.value.code == "closed"
    check(stores.reopen(path), ten_rows())


def test_an_iteration_shows_the_moment_of_its_start(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    old = {f"r{n:05}": row(f"r{n:05}", n) for n in range(30_000)}
    put(store, dict(list(old.items())[:10_000]), "base")
    put(store, dict(list(old.items())[10_000:20_000]), "generation")
    put(store, dict(list(old.items())[20_000:]), "memtable")
    iteration = store.iter(columns=["n"])
    seen = [next(iteration)]
    store.delete_where("n % 2 = 0")
    store.update("r00001", {"n": -1})
    store.add(row("new", 1))
    seen += iteration
    assert by_id(iter(seen)) == [{"id": id, "n": r["n"]} for id, r in sorted(old.items())]
    assert store.count() == 15_001


def test_an_iteration_that_is_left_early(path: Path, stores: Opener) -> None:
    store = stores.create(path, SCHEMA)
    put(store, {f"r{n:05}": row(f"r{n:05}", n) for n in range(20_000)}, "base")
    for _ in range(20):
        iteration = store.iter()
        next(iteration)
        del iteration
    batches = store.batches()
    next(batches)
    del batches
    assert sum(1 for _ in store.iter()) == 20_000


def test_batches_are_arrow(path: Path) -> None:
    schema: SchemaDeclaration = {
        "id": "string",
        "n": "int64",
        "f": "float32",
        "ok": "bool",
        "at": "timestamp",
        "raw": "binary",
        "tags": {"type": "list", "item": "string"},
        "v": {"type": "vector", "dim": 2},
        "video": {"type": "binary", "blob": True},
    }
    at = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    rows: list[Row] = [
        {
            "id": f"r{n:04}",
            "n": n,
            "f": n / 2,
            "ok": n % 2 == 0,
            "at": at.replace(microsecond=n),
            "raw": bytes(n % 5),
            "tags": [f"t{n}", ""] if n % 3 else None,
            "v": [n, 0.5],
            "video": None,
        }
        for n in range(2000)
    ]
    for stage, store in each_stage(path, schema, rows):
        batches = list(store.batches())
        columns = [column for column in schema if column != "video"]
        assert all(batch.column_names == columns for batch in batches), stage
        assert sum(len(batch) for batch in batches) == sum(batch.num_rows for batch in batches) == 2000
        arrow = [pa.record_batch(batch) for batch in batches]
        for batch in arrow:
            batch.validate(full=True)
        found = by_id(r for batch in arrow for r in batch.to_pylist())
        assert found == [{k: v for k, v in r.items() if k != "video"} for r in rows], stage
        assert pa.schema(batches[0]).names == columns
        assert "RecordBatch" in repr(batches[0])

        (one,) = store.batches(filter="n = $n", params={"n": 7}, columns=["v", "video", "n"])
        assert one.column_names == ["id", "v", "video", "n"]
        kept = pa.record_batch(one)
        del one, batches
        assert kept.to_pylist() == [{"id": "r0007", "v": [7.0, 0.5], "video": None, "n": 7}]
        assert [b for b in store.batches(filter="n < 0") if len(b)] == [], stage


def test_a_batch_outlives_its_store(path: Path) -> None:
    with GenericStore.open(path, {"id": "string", "n": "int64"}, read="latest") as store:
        store.add({"id": f"r{n}", "n": n} for n in range(10))
        (batch,) = store.batches()
    assert sorted(r["n"] for r in pa.record_batch(batch).to_pylist()) == list(range(10))


def test_large_blobs_come_a_few_at_a_time(path: Path, stores: Opener) -> None:
    noise = random.Random(1)
    store = stores.create(path, SCHEMA)
    rows = {f"r{n:02}": row(f"r{n:02}", n, data=noise.randbytes(MIB)) for n in range(60)}
    items = list(rows.items())
    put(store, dict(items[:20]), "base")
    put(store, dict(items[20:40]), "generation")
    put(store, dict(items[40:]), "memtable")
    sizes = [sum(len(r["data"]) for r in pa.record_batch(b).to_pylist()) for b in store.batches(columns=["data"])]
    assert sum(sizes) == 60 * MIB
    assert max(sizes) <= 24 * MIB, sizes
    tracemalloc.start()
    try:
        seen: dict[str, int] = {}
        for r in store.iter(columns=["n", "data"]):
            assert r["data"] == rows[r["id"]]["data"]
            seen[r["id"]] = r["n"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen == {id: r["n"] for id, r in rows.items()}
    assert peak < 40 * MIB, "an iteration holds a few rows, not all of them"
    assert sum(1 for _ in store.iter()) == 60


def test_numpy_values_in_an_update(path: Path, stores: Opener) -> None:
    store = stores.create(path, {"id": "string", "n": "int64", "v": {"type": "vector", "dim": 3}, "f": "float32"})
    store.add({"id": "a", "n": 1, "v": [1, 2, 3], "f": 0.5})
    store.update("a", {"n": np.int64(5), "v": np.array([3, 2, 1], dtype=np.float32), "f": np.float32(1.5)})
    assert store.get("a") == {"id": "a", "n": 5, "v": [3.0, 2.0, 1.0], "f": 1.5}
    with pytest.raises(RowError) as short:
        store.update("a", {"v": [1, 2]})
    assert short.value.column == "v"
