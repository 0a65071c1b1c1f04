"""What goes in comes out: every value of every type, or a typed error that names row and column."""

from __future__ import annotations

import array
import json
import random
import struct
import uuid
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lance_context import GenericStore, RowError
from tests.child import run
from tests.stages import each_stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {
    "id": "string",
    "s": "string",
    "i": "int32",
    "j": "int64",
    "f": "float32",
    "d": "float64",
    "ok": "bool",
    "at": "timestamp",
    "wall": {"type": "timestamp", "tz": None},
    "raw": "binary",
    "v": {"type": "vector", "dim": 3},
    "tags": {"type": "list", "item": "string"},
    "nums": {"type": "list", "item": "int64"},
}

FULL_ROW: dict[str, object] = {
    "id": "full",
    "s": "text \N{GRINNING FACE}",
    "i": -(2**31),
    "j": 2**63 - 1,
    "f": 0.5,
    "d": 0.1,
    "ok": True,
    "at": datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC),
    "wall": datetime(2024, 2, 29, 12, 30, 15, 123456),
    "raw": b"\x00\xff",
    "v": [1.0, -2.5, 0.0],
    "tags": ["a", "", "b"],
    "nums": [1, -1],
}


@pytest.fixture
def store(path: Path) -> Iterator[GenericStore]:
    """An empty store of every type that reads latest."""
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store:
        yield store


def bits(value: float) -> int:
    """The bit pattern of a float64."""
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def test_every_type(path: Path) -> None:
    rows = [FULL_ROW, {"id": "none", **dict.fromkeys(list(SCHEMA)[1:])}, {"id": "omitted"}]
    nulls = dict.fromkeys(list(SCHEMA)[1:])
    for stage, store in each_stage(path, SCHEMA, rows):
        assert store.list() == [FULL_ROW, {"id": "none", **nulls}, {"id": "omitted", **nulls}], stage
        row = store.list(limit=1)[0]
        assert {name: type(value) for name, value in row.items()} == {n: type(v) for n, v in FULL_ROW.items()}
        assert list(row) == list(SCHEMA)


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_empty_is_not_null(path: Path, count: int) -> None:
    kinds: list[dict[str, object]] = [
        {"s": "", "raw": b"", "tags": [], "nums": []},
        {"s": None, "raw": None, "tags": None, "nums": None},
        {"s": "x", "raw": b"x", "tags": [None], "nums": [None]},
        {"s": "\0", "raw": b"\0", "tags": [""], "nums": [0]},
        {"s": "yy", "raw": b"yy", "tags": ["", None, "a"], "nums": [1, None]},
    ]
    schema = {name: SCHEMA[name] for name in ("id", "s", "raw", "tags", "nums")}
    rows = [{"id": f"r{n:04}", **kinds[n % len(kinds)]} for n in range(count)]
    for stage, store in each_stage(path, schema, rows):
        assert store.list() == rows, stage


def test_floats_keep_every_bit(path: Path) -> None:
    chosen = [
        0x0000000000000000,
        0x8000000000000000,
        0x0000000000000001,
        0x7FEFFFFFFFFFFFFF,
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x7FF8000000000000,
        0x7FF8000000000123,
        0xFFF8000000000001,
        0x7FF0000000000001,
        bits(float(2**53 + 2)),
    ]
    chosen += [random.Random(7).getrandbits(64) for _ in range(3)]
    chosen += [random.Random(seed).getrandbits(64) for seed in range(200)]
    floats = [struct.unpack("<d", struct.pack("<Q", pattern))[0] for pattern in chosen]
    rows = [{"id": f"r{n:03}", "d": value} for n, value in enumerate(floats)]
    for stage, store in each_stage(path, {"id": "string", "d": "float64"}, rows):
        assert [bits(row["d"]) for row in store.list()] == [bits(value) for value in floats], stage


def test_float32(path: Path) -> None:
    given = [0.1, -0.0, float("inf"), float("-inf"), float("nan"), 3.4028234663852886e38, 1e-46, 16777216]
    rows = [{"id": f"r{n}", "f": value} for n, value in enumerate(given)]
    narrowed = [struct.unpack("<f", struct.pack("<f", value))[0] for value in given]
    for stage, store in each_stage(path, {"id": "string", "f": "float32"}, rows):
        assert [bits(row["f"]) for row in store.list()] == [bits(value) for value in narrowed], stage


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("i", 2**31, "out-of-range"),
        ("i", -(2**31) - 1, "out-of-range"),
        ("j", 2**63, "out-of-range"),
        ("j", -(2**63) - 1, "out-of-range"),
        ("j", 2**70, "out-of-range"),
        ("j", 2**200, "out-of-range"),
        ("j", 1.0, "wrong-type"),
        ("j", True, "wrong-type"),
        ("j", "1", "wrong-type"),
        ("f", 1e39, "out-of-range"),
        ("f", -1e39, "out-of-range"),
        ("f", 2**24 + 1, "out-of-range"),
        ("d", 2**53 + 1, "out-of-range"),
        ("d", 2**2000, "out-of-range"),
        ("d", "0.5", "wrong-type"),
        ("d", True, "wrong-type"),
        ("d", 1j, "wrong-type"),
        ("ok", 1, "wrong-type"),
        ("ok", "true", "wrong-type"),
        ("s", 5, "wrong-type"),
        ("s", b"bytes", "wrong-type"),
        ("s", {"a"}, "wrong-type"),
        ("s", "\ud800", None),
        ("id", "\udfff", None),
        ("id", 5, "wrong-type"),
        ("raw", "text", "wrong-type"),
        ("raw", [1, 2], "wrong-type"),
        ("at", datetime(2024, 1, 1), "wrong-type"),
        ("wall", datetime(2024, 1, 1, tzinfo=UTC), "wrong-type"),
        ("at", "yesterday", None),
        ("at", 1700000000, "wrong-type"),
        ("v", [1.0, 2.0], None),
        ("v", [1.0, 2.0, 3.0, 4.0], None),
        ("v", [], None),
        ("v", [1.0, "2", 3.0], None),
        ("v", [1.0, None, 3.0], None),
        ("v", [1.0, 1e39, 3.0], "out-of-range"),
        ("v", "abc", "wrong-type"),
        ("v", 1.0, "wrong-type"),
        ("v", {1.0, 2.0, 3.0}, "wrong-type"),
        ("v", np.zeros((1, 3)), None),
        ("v", np.zeros(4, dtype=np.float32), None),
        ("v", np.array([1e39, 0, 0]), "out-of-range"),
        ("v", np.array(["a", "b", "c"]), None),
        ("tags", "abc", "wrong-type"),
        ("tags", ["a", 5], None),
        ("tags", {"a"}, "wrong-type"),
        ("tags", ["\ud800"], None),
        ("nums", [1, 2.5], None),
        ("nums", [2**63], "out-of-range"),
        ("nums", [True], None),
        ("nums", [[1]], None),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_value_that_does_not_fit(store: GenericStore, column: str, value: object, code: str | None) -> None:
    store.add({"id": "before"})
    bad: dict[str, object] = {"id": "bad", column: value}
    with pytest.raises(RowError) as error:
        store.add([{"id": "good"}, {"id": "fine", "s": "x"}, bad, {"id": "after"}])
    assert (error.value.row, error.value.column) == (2, column)
    assert f"`{column}`" in str(error.value)
    assert "row 2" in str(error.value)
    if code is not None:
        assert error.value.code == code
    assert [row["id"] for row in store.list()] == ["before"], "nothing of the batch is written"


@pytest.mark.parametrize(
    ("row", "code", "column"),
    [
        ({"id": "a", "ss": 1}, "unknown-column", "ss"),
        ({"id": "a", "S": "x"}, "unknown-column", "S"),
        ({"s": "no id"}, "missing-value", "id"),
        ({"id": None}, "missing-value", "id"),
        ({}, "missing-value", "id"),
        (["id", "a"], "invalid-row", None),
        ("text", "invalid-row", None),
        (None, "invalid-row", None),
    ],
)
def test_a_row_that_does_not_fit(store: GenericStore, row: object, code: str, column: str | None) -> None:
    with pytest.raises(RowError) as error:
        store.add([{"id": "good"}, row])  # pyright: ignore[reportArgumentType]
    assert (error.value.code, error.value.row, error.value.column) == (code, 1, column)
    assert store.count() == 0
    if code == "unknown-column":
        assert "did you mean `s`" in str(error.value)


def test_a_non_null_column(path: Path) -> None:
    schema: SchemaDeclaration = {"id": "string", "must": {"type": "int64", "nullable": False}}
    with GenericStore.open(path, schema=schema, read="latest") as store:
        for missing in ({"id": "b"}, {"id": "b", "must": None}):
            with pytest.raises(RowError) as error:
                store.add([{"id": "a", "must": 1}, missing])
            assert (error.value.code, error.value.row, error.value.column) == ("missing-value", 1, "must")
        assert store.count() == 0


def test_rows_from_a_generator_that_fails(store: GenericStore) -> None:
    def rows() -> Iterator[dict[str, object]]:
        yield {"id": "a"}
        raise RuntimeError("source failed")

    with pytest.raises(RuntimeError, match="source failed"):
        store.add(rows())
    assert store.count() == 0
    assert store.add({"id": str(n)} for n in range(3)).count == 3
    assert store.add(MappingProxyType({"id": "proxy"})).count == 1
    assert store.count() == 4


def test_what_stands_for_a_value(store: GenericStore) -> None:
    identity = uuid.UUID(int=7)
    store.add(
        [
            {"id": identity, "s": uuid.UUID(int=8), "d": 3, "f": 2, "raw": bytearray(b"ab"), "v": (1, 2, 3)},
            {"id": "view", "raw": memoryview(b"abcd")[1:3], "v": array.array("f", [1, 2, 3]), "tags": ("a", "b")},
            {"id": "text", "at": "2024-05-01T12:00:00.5+09:00", "v": array.array("d", [1, 2, 3])},
        ]
    )
    row = store.get(str(identity))
    assert row is not None
    assert (row["s"], row["d"], row["f"], row["raw"], row["v"]) == (str(uuid.UUID(int=8)), 3.0, 2.0, b"ab", [1, 2, 3])
    row = store.get("view")
    assert row is not None
    assert (row["raw"], row["v"], row["tags"]) == (b"bc", [1, 2, 3], ["a", "b"])
    row = store.get("text")
    assert row is not None
    assert (row["at"], row["v"]) == (datetime(2024, 5, 1, 3, 0, 0, 500000, tzinfo=UTC), [1, 2, 3])


def test_numpy_scalars(store: GenericStore) -> None:
    store.add(
        [
            {"id": np.str_("a"), "i": np.int32(-5), "j": np.uint64(5), "f": np.float32(0.1), "ok": np.bool_(True)},
            {"id": "b", "i": np.int8(5), "j": np.int64(-(2**63)), "d": np.float64(0.1), "f": np.float16(0.5)},
            {"id": "c", "d": np.float32(0.1)},
        ]
    )
    a, b, c = store.list()
    assert (a["i"], a["j"], a["f"], a["ok"]) == (-5, 5, float(np.float32(0.1)), True)
    assert (b["i"], b["j"], b["d"], b["f"]) == (5, -(2**63), 0.1, 0.5)
    assert c["d"] == float(np.float32(0.1))
    for value in (np.uint64(2**63), np.int64(2**40)):
        with pytest.raises(RowError) as error:
            store.add({"id": "d", "i": value})
        assert (error.value.code, error.value.column) == ("out-of-range", "i")
    with pytest.raises(RowError):
        store.add({"id": "d", "j": np.bool_(True)})


def test_numpy_arrays(store: GenericStore) -> None:
    base = np.arange(6, dtype=np.float32)
    frozen = np.array([1, 2, 3], dtype=np.float32)
    frozen.setflags(write=False)
    vectors = {
        "contiguous": base[:3],
        "strided": base[::2],
        "reversed": base[2::-1],
        "double": np.array([0.1, 1.5, 2.5]),
        "big-endian": np.array([1, 2, 3], dtype=">f4"),
        "int": np.array([1, 2, 3]),
        "half": np.array([0.5, 1, 2], dtype=np.float16),
        "frozen": frozen,
        "scalars": [np.float32(0.1), np.float64(0.1), 1],
        "special": np.array([np.nan, np.inf, -0.0]),
    }
    store.add({"id": name, "v": vector} for name, vector in vectors.items())
    for name, vector in vectors.items():
        row = store.get(name)
        assert row is not None
        np.testing.assert_array_equal(np.array(row["v"]), np.asarray(vector, dtype=np.float32).astype(float))
    store.add({"id": "lists", "nums": np.array([3, 1]), "tags": np.array(["x", "yy"])})
    row = store.get("lists")
    assert row is not None
    assert (row["nums"], row["tags"]) == ([3, 1], ["x", "yy"])


TIMES = """
    import json, sys
    from datetime import datetime, timedelta, timezone, tzinfo, UTC
    from lance_context import GenericStore

    class EasternInNovember(tzinfo):
        "The hour from 01:00 on 3 November 2024 happens twice: fold 0 in EDT, fold 1 in EST."
        def utcoffset(self, at): return timedelta(hours=-5 if at.fold else -4)
        def dst(self, at): return timedelta(0 if at.fold else 1)
        def tzname(self, at): return "EST" if at.fold else "EDT"

    twice = datetime(2024, 11, 3, 1, 30, tzinfo=EasternInNovember())
    at = {
        "utc": datetime(2024, 7, 1, 12, 0, 0, 1, tzinfo=UTC),
        "tokyo": datetime(2024, 7, 1, 21, 0, 0, 1, tzinfo=timezone(timedelta(hours=9))),
        "seconds": datetime(2024, 7, 1, 12, 0, tzinfo=timezone(timedelta(hours=1, seconds=7))),
        "fold0": twice,
        "fold1": twice.replace(fold=1),
        "first": datetime(1, 1, 1, tzinfo=UTC),
        "last": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "before1970": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "text": "2024-07-01T21:00:00.000001+09:00",
    }
    wall = {
        "utc": datetime(2024, 3, 10, 2, 30),
        "fold0": datetime(2024, 11, 3, 1, 30),
        "fold1": datetime(2024, 11, 3, 1, 30, fold=1),
        "first": datetime(1, 1, 1),
        "last": datetime(9999, 12, 31, 23, 59, 59, 999999),
        "before1970": datetime(1969, 12, 31, 23, 59, 59, 999999),
    }
    schema = {"id": "string", "at": "timestamp", "wall": {"type": "timestamp", "tz": None}}
    with GenericStore.open(sys.argv[1], schema=schema, read="latest") as store:
        if not store.count():
            store.add({"id": name, "at": value, "wall": wall.get(name)} for name, value in at.items())
        rows = {row["id"]: row for row in store.list()}
        assert all(row["at"].utcoffset() == timedelta(0) for row in rows.values())
        assert all(row["wall"] is None or row["wall"].tzinfo is None for row in rows.values())
        for name, value in at.items():
            if name != "text":
                assert rows[name]["at"] == value.astimezone(UTC), name
        for name, value in wall.items():
            assert rows[name]["wall"] == value, name
        found = {
            name: [sorted(row["id"] for row in store.list(filter=f"{column} = $t", params={"t": value}))
                   for column, value in (("at", at[name]), ("wall", wall.get(name))) if value and name != "text"]
            for name in at
        }
        after = store.count(filter="at > $t", params={"t": at["before1970"]})
        print(json.dumps([{name: [str(row["at"]), str(row["wall"])] for name, row in rows.items()}, found, after]))
"""


def test_times_do_not_depend_on_the_zone_of_the_machine(tmp_path: Path) -> None:
    zones = ["UTC0", "EST5EDT,M3.2.0,M11.1.0", "JST-9"]  # POSIX rules: no zone database needed
    outputs = [run(TIMES, tmp_path / str(n), env={"TZ": zone}).out for n, zone in enumerate(zones)]
    outputs += [run(TIMES, tmp_path / "0", env={"TZ": zone}).out for zone in zones]
    assert len(set(outputs)) == 1
    rows, found, after = json.loads(outputs[0])
    assert rows["tokyo"][0] == rows["text"][0] == "2024-07-01 12:00:00.000001+00:00"
    assert rows["fold1"][0] == "2024-11-03 06:30:00+00:00"
    assert found["utc"] == [["text", "tokyo", "utc"], ["utc"]]
    assert found["fold0"] == [["fold0"], ["fold0", "fold1"]], "a naive time has no fold"
    assert after == 7


def test_an_instant_is_found_by_any_offset(store: GenericStore) -> None:
    at = datetime(2024, 7, 1, 12, tzinfo=UTC)
    store.add({"id": "a", "at": at})
    tokyo = at.astimezone(timezone(timedelta(hours=9)))
    assert store.count(filter={"at": tokyo}) == 1
    assert store.count(filter="at < $t", params={"t": tokyo}) == 0
