"""The rows that files give and take: of every type, in the form that is documented, and those that were asked for."""

from __future__ import annotations

import json
import os
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import pyarrow.parquet as pq
import pytest

from lance_context import ExportReport, GenericStore, ImportReport, QueryError, RowError
from tests.files import SCHEMA, SUFFIXES, numbered, rows_of, written

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import OnConflict, Row, SchemaDeclaration
    from tests.twins import Opener

EVERY: SchemaDeclaration = {
    "id": "string",
    "text": "string",
    "long text": {"type": "string", "large": True},
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bool": "bool",
    "at": "timestamp",
    "wall": {"type": "timestamp", "tz": None},
    "day": "date",
    "price": {"type": "decimal", "precision": 38, "scale": 4},
    "json": "json",
    "raw": "binary",
    "video": {"type": "binary", "blob": True},
    "v": {"type": "vector", "dim": 2},
    "v16": {"type": "vector", "dim": 2, "dtype": "float16"},
    "tags": {"type": "list", "item": "string"},
    "floats": {"type": "list", "item": "float64"},
    "days": {"type": "list", "item": "date"},
    "point": {"type": "struct", "fields": {"x": "float32", "when": "timestamp", "no blank": "int64"}},
    "boxes": {"type": "list", "item": {"type": "struct", "fields": {"w": "uint8", "label": "string"}}},
    'quo"te': "string",
    "back\\slash": "int32",
    "ünïcode 😀": "string",
    "select": "bool",
}
INFINITY = float("inf")


def nan(bits: int) -> float:
    """The NaN of these bits."""
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


FULL: Row = {
    "id": "full",
    "text": 'line\nand "quote" and \\ and \0 and 😀\u2028',
    "long text": "x" * 1000,
    "i8": -(2**7),
    "i16": -(2**15),
    "i32": -(2**31),
    "i64": -(2**63),
    "u8": 2**8 - 1,
    "u16": 2**16 - 1,
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "f16": 0.5,
    "f32": 0.10000000149011612,
    "f64": 0.1,
    "bool": True,
    "at": datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC),
    "wall": datetime(1, 1, 1),
    "day": date(9999, 12, 31),
    "price": Decimal("-123456789012345678901234567890.1200"),
    "json": {"b": [1, 2.5, None, {"c": "é\n"}], "a": 2**80, "": True},
    "raw": b"\x00\xff\n",
    "video": os.urandom(1000),
    "v": [0.5, -2.0],
    "v16": [0.5, -2.0],
    "tags": ["a", "", None, "b\n"],
    "floats": [0.1, None, -0.0, INFINITY],
    "days": [date(1970, 1, 1), None],
    "point": {"x": 0.5, "when": datetime(2024, 1, 1, tzinfo=UTC), "no blank": 2**62},
    "boxes": [{"w": 255, "label": "cat"}, None, {"w": None, "label": None}],
    'quo"te': "a",
    "back\\slash": 7,
    "ünïcode 😀": "b",
    "select": False,
}
NOTHING: Row = {**dict.fromkeys(EVERY), "id": "nothing"}
EMPTY: Row = {
    **NOTHING,
    "id": "",
    "text": "",
    "long text": "",
    "raw": b"",
    "video": b"",
    "tags": [],
    "floats": [],
    "days": [],
    "boxes": [],
    "point": {"x": None, "when": None, "no blank": None},
    "json": {},
    "price": Decimal("0.0000"),
    'quo"te': "",
}
FLOATS: list[Row] = [
    {**NOTHING, "id": f"float {n}", "f64": value, "f32": narrow, "f16": narrow, "v": [narrow, 1.0], "floats": [value]}
    for n, (value, narrow) in enumerate(
        [
            (nan(0x7FF8000000000000), nan(0x7FF8000000000000)),
            (nan(0x7FF8000000000123), INFINITY),
            (nan(0xFFF8000000000001), -INFINITY),
            (-0.0, -0.0),
            (5e-324, 0.0),
            (1.7976931348623157e308, 65504.0),
            (1e22, 1.0),
        ]
    )
]
ROWS = sorted([FULL, NOTHING, EMPTY, *FLOATS], key=lambda row: row["id"])


def bits(value: object) -> object:
    """The same with its types, each float by its bits."""
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: bits(item) for name, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [bits(item) for item in cast("list[object]", value)]
    return type(value), value


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_type_comes_back(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "one", EVERY)
    store.add(ROWS)
    file = tmp_path / f"rows{suffix}"
    report = store.export(file)
    assert report == ExportReport(rows=len(ROWS), bytes=file.stat().st_size, path=str(file))
    copy = stores.create(tmp_path / "two", EVERY)
    assert copy.import_(file) == ImportReport(rows=len(ROWS), added=len(ROWS), skipped=0, chunks=1)
    found = rows_of(copy)
    assert [list(row) for row in found] == [list(EVERY)] * len(ROWS)
    for row, expected in zip(found, ROWS, strict=True):
        for name in EVERY:
            assert bits(row[name]) == bits(expected[name]), (expected["id"], name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_of_every_place_are_exported_once(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "one", SCHEMA)
    rows = numbered(40)
    for place, part in (("base", rows[:20]), ("generation", rows[15:30]), ("memtable", rows[25:])):
        store.add({**row, "note": "old"} for row in part[-3:])
        store.add(part)
        if place != "memtable":
            store.flush()
        if place == "base":
            store.merge()
    store.delete([rows[0]["id"], rows[22]["id"]])
    expected = [row for row in rows if row["n"] not in (0, 22)]
    file = tmp_path / f"rows{suffix}"
    assert store.export(file).rows == len(expected)
    copy = stores.create(tmp_path / "two", SCHEMA)
    assert copy.import_(file).rows == len(expected)
    assert rows_of(copy) == expected


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_rows(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "one", EVERY)
    file = tmp_path / f"rows{suffix}"
    assert store.export(file).rows == 0
    assert store.import_(file) == ImportReport(rows=0, added=0, skipped=0, chunks=0)
    if suffix == ".parquet":
        assert pq.read_schema(file).names == list(EVERY)
    assert rows_of(store) == []


@pytest.mark.parametrize(
    ("line", "code", "column", "message"),
    [
        ('{"id": "b", "n": 1.5}', "wrong-type", "n", "expected int64: a number without fraction and exponent"),
        ('{"id": "b", "n": 9223372036854775808}', "out-of-range", "n", "does not fit int64"),
        ('{"id": "b", "m": 1}', "unknown-column", "m", "unknown column `m`"),
        ('{"n": 1}', "missing-value", "id", "a value is required"),
        ('{"id": null}', "missing-value", "id", "a value is required"),
        ('{"id": "b", "id": "c"}', "invalid-row", None, "`id` is given twice"),
        ('{"id": "b"', "invalid-row", None, "not valid JSON"),
        ('["b"]', "invalid-row", None, "not a list"),
        ('{"id": "b", "n": NaN}', "invalid-row", None, "not valid JSON"),
        (b'{"id": "\xff"}', "invalid-row", None, "byte 9 of the line is not UTF-8"),
        ('{"id": "b"} {"id": "c"}', "invalid-row", None, "not valid JSON"),
    ],
)
def test_a_bad_line_is_named(
    stores: Opener, path: Path, tmp_path: Path, line: str | bytes, code: str, column: str | None, message: str
) -> None:
    file = tmp_path / "rows.jsonl"
    bad = line if isinstance(line, bytes) else line.encode()
    file.write_bytes(b'{"id": "a"}\n\n  \r\n' + bad + b'\n{"id": "z"}\n')
    store = stores.create(path, SCHEMA)
    with pytest.raises(RowError) as caught:
        store.import_(file)
    error = caught.value
    assert (error.code, error.row, error.column, error.rows_done) == (code, 1, column, 0)
    assert str(error).startswith(f"`{file}`, row 1 (line 4)")
    assert message in str(error)
    assert "durable" not in str(error)
    assert rows_of(store) == []


def test_lines_of_other_writers(stores: Opener, path: Path, tmp_path: Path) -> None:
    store = stores.create(path, SCHEMA)
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        b"\xef\xbb\xbf" + b'{"id":"a","n":1}\r\n\n \t\n{ "note" : "\\u00e9\\ud83d\\ude00" , "id" : "b" }\n{"id":"c"}'
    )
    assert store.import_(file).rows == 3
    assert rows_of(store) == [
        {"id": "a", "n": 1, "note": None},
        {"id": "b", "n": None, "note": "é😀"},
        {"id": "c", "n": None, "note": None},
    ]


def test_lines_have_the_documented_form(path: Path, tmp_path: Path) -> None:
    schema = {name: EVERY[name] for name in ("id", "f64", "at", "day", "price", "json", "raw", "v", "point")}
    row = {
        "id": "a",
        "f64": nan(0x7FF8000000000001),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "price": Decimal("1.5"),
        "json": {"big": 2**80, "a": [1.0]},
        "raw": b"\xff",
        "v": [0.5, INFINITY],
        "point": {"x": 0.5},
    }
    with GenericStore.open(path, schema, read="latest") as store:
        store.add(row)
        store.export(tmp_path / "rows.jsonl")
    assert json.loads((tmp_path / "rows.jsonl").read_text()) == {
        "id": "a",
        "f64": "NaN:7ff8000000000001",
        "at": "2026-01-31T12:00:00Z",
        "day": "2026-01-31",
        "price": "1.5000",
        "json": {"big": 2**80, "a": [1.0]},
        "raw": "/w==",
        "v": [0.5, "Infinity"],
        "point": {"x": 0.5, "when": None, "no blank": None},
    }


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
def test_columns_are_selected_and_renamed(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "store", {"id": "string", "n": "int64", "text": "string"})
    file = written(tmp_path, f"rows{suffix}", numbered(5))
    with pytest.raises(RowError, match="unknown column `note`") as caught:
        store.import_(file)
    assert caught.value.code == "unknown-column"
    store.import_(file, columns=("id", "n"))
    assert rows_of(store) == [{"id": row["id"], "n": row["n"], "text": None} for row in numbered(5)]
    store.import_(file, columns={"note": "text", "id": "id"})
    assert rows_of(store) == [{"id": row["id"], "n": None, "text": row["note"]} for row in numbered(5)]
    with pytest.raises(QueryError, match="unknown column `txt`, did you mean `text`") as unknown:
        store.import_(file, columns={"note": "txt", "id": "id"})
    assert (unknown.value.code, unknown.value.column) == ("query-column", "txt")
    with pytest.raises(ValueError, match="named twice"):
        store.import_(file, columns={"note": "text", "n": "text", "id": "id"})
    with pytest.raises(TypeError, match="sequence of names"):
        store.import_(file, columns="id")
    if suffix != ".jsonl":
        with pytest.raises(ValueError, match=r"has no column `m`; it has `id`, `n`, `note`"):
            store.import_(file, columns={"id": "id", "m": "n"})


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_some_rows_and_columns_are_exported(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "one", SCHEMA)
    store.add(numbered(10))
    file = tmp_path / f"rows{suffix}"
    store.export(file, filter="n >= $least", params={"least": 6}, columns=["n"])
    copy = stores.create(tmp_path / "two", {"id": "string", "n": "int64"})
    copy.import_(file)
    assert rows_of(copy) == [{"id": row["id"], "n": row["n"]} for row in numbered(4, 6)]
    with pytest.raises(QueryError, match="unknown column `m`"):
        store.export(tmp_path / f"other{suffix}", columns=["m"])
    assert not (tmp_path / f"other{suffix}").exists()


@pytest.mark.parametrize(("on_conflict", "added", "note"), [("replace", 10, "new"), ("ignore", 7, "old")])
def test_ids_that_are_there_already(
    stores: Opener, tmp_path: Path, on_conflict: OnConflict, added: int, note: str
) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    store.add({**row, "note": "old"} for row in numbered(3))
    file = written(tmp_path, "rows.jsonl", [{**row, "note": "new"} for row in numbered(10)])
    assert store.import_(file, on_conflict=on_conflict) == ImportReport(rows=10, added=added, skipped=0, chunks=1)
    assert [row["note"] for row in rows_of(store)] == [note] * 3 + ["new"] * 7
