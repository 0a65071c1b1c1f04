"""Rows from files and to files: the same rows, in bounded memory, and as far as the error says where it breaks off."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lance_context import (
    AlreadyExistsError,
    AsyncGenericStore,
    ExportReport,
    GenericStore,
    ImportReport,
    LanceContextError,
    QueryError,
    RowError,
    StateError,
    TransferProgress,
    UnsealedRowsWarning,
    _formats,
)
from tests.child import Child, module, run
from tests.twins import Opener

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_context import OnConflict, Row, SchemaDeclaration, TransferFormat
    from lance_context._native import Lines
    from tests.twins import Twin

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".ndjson", ".arrow", ".arrows")
MIB = 1 << 20

SCHEMA: SchemaDeclaration = {"id": "string", "n": "int64", "note": "string"}

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


@pytest.fixture(params=["sync", "async"])
def stores(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens stores of the one class and of the other."""
    if request.param == "sync":
        opener = Opener(None)
        yield opener
        opener.close()
        return
    loop = asyncio.new_event_loop()
    opener = Opener(loop)
    yield opener
    opener.close()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def store(path: Path) -> Iterator[GenericStore]:
    """An empty store that reads latest."""
    with GenericStore.open(path, SCHEMA, read="latest", maintenance=None) as store:
        yield store


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of three rows."""
    monkeypatch.setattr(_formats, "CHUNK_ROWS", 3)


def rows_of(store: Twin | GenericStore) -> list[Row]:
    """All of them, with all columns, by id."""
    return sorted(store.iter(columns=list(store.schema())), key=lambda row: row["id"])


def numbered(count: int, start: int = 0) -> list[Row]:
    """Rows whose ids sort by number."""
    return [{"id": f"r{n:06}", "n": n, "note": "x" * (n % 7)} for n in range(start, start + count)]


def written(directory: Path, name: str, rows: list[Row], at_once: int = 4) -> Path:
    """A file of rows that this package did not write."""
    path = directory / name
    schema = pa.schema({"id": pa.string(), "n": pa.int64(), "note": pa.string()})
    if ".jsonl" in name:
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path
    batches = [
        pa.RecordBatch.from_pylist(rows[start : start + at_once], schema=schema)
        for start in range(0, len(rows), at_once)
    ]
    if name.endswith(".parquet"):
        with pq.ParquetWriter(path, schema) as parquet:
            for batch in batches:
                parquet.write_batch(batch)
        return path
    opened = pa.ipc.new_file if name.endswith(".arrow") else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as file, opened(file, schema) as ipc:
        for batch in batches:
            ipc.write_batch(batch)
    return path


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


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7, 20])
@pytest.mark.usefixtures("small_chunks")
def test_chunks_end_where_they_should(store: GenericStore, tmp_path: Path, suffix: str, count: int) -> None:
    rows = numbered(count)
    sizes: list[int] = []
    report = store.import_(
        written(tmp_path, f"rows{suffix}", rows, at_once=5), progress=lambda done: sizes.append(done.rows)
    )
    chunk = [after - before for before, after in zip([0, *sizes], sizes, strict=False)]
    assert all(1 <= size <= 3 for size in chunk)
    assert (report.rows, report.chunks) == (count, len(chunk))
    if suffix == ".jsonl":
        assert chunk == [3] * (count // 3) + [count % 3] * (count % 3 > 0)
    assert rows_of(store) == rows


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
def test_chunks_are_bounded_in_bytes(
    store: GenericStore, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_formats, "CHUNK_BYTES", 10_000)
    # One row is larger than a chunk.
    rows = [{"id": f"r{n:02}", "n": n, "note": "x" * (30_000 if n == 17 else 2_000)} for n in range(40)]
    report = store.import_(written(tmp_path, f"rows{suffix}", rows, at_once=40))
    assert report.rows == 40
    assert 10 <= report.chunks <= 20
    assert rows_of(store) == rows


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
@pytest.mark.parametrize("skip", [0, 1, 2, 5, 9, 10, 11, 13, 24, 25, 99])
@pytest.mark.usefixtures("small_chunks")
def test_skip_goes_through_all_files(store: GenericStore, tmp_path: Path, suffix: str, skip: int) -> None:
    parts = [numbered(10), numbered(1, 10), [], numbered(14, 11)]
    files = [written(tmp_path, f"part{n}{suffix}", part) for n, part in enumerate(parts)]
    report = store.import_(files, skip=skip)
    assert (report.rows, report.skipped) == (max(25 - skip, 0), min(skip, 25))
    assert rows_of(store) == numbered(25)[skip:]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
@pytest.mark.usefixtures("small_chunks")
def test_an_import_that_broke_off_goes_on(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    rows = numbered(12)
    broken = [{**row, "id": None} if row["n"] == 7 else row for row in rows]
    first = written(tmp_path, f"first{suffix}", numbered(3, 100), at_once=3)
    # As large as chunks, so that all formats are cut alike.
    second = written(tmp_path, f"second{suffix}", broken, at_once=3)
    with pytest.raises(RowError) as caught:
        store.import_([first, second])
    error = caught.value
    assert (error.code, error.row, error.column, error.rows_done) == ("missing-value", 7, "id", 9)
    place = f"`{second}`, row 7 (line 8), column" if suffix == ".jsonl" else f"`{second}`, row 7, column"
    assert str(error).startswith(place), str(error)
    assert str(error).endswith("9 rows of the files are durable; import_(…, skip=9) goes on behind them")
    # Nothing of the chunk is there, and all before it.
    assert [row["n"] for row in rows_of(store)] == [0, 1, 2, 3, 4, 5, 100, 101, 102]
    written(tmp_path, f"second{suffix}", rows, at_once=3)
    assert store.import_([first, second], skip=9) == ImportReport(rows=6, added=6, skipped=9, chunks=2)
    assert [row["n"] for row in rows_of(store)] == [*range(12), 100, 101, 102]


def importing() -> None:
    """A child that imports in small chunks and tells of each."""
    import sys

    _formats.CHUNK_ROWS = 50
    with GenericStore.open_existing(sys.argv[1]) as store:
        store.import_(Path(sys.argv[2]), progress=lambda done: print(done.rows, flush=True))  # noqa: T201


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_killed_in_the_middle(path: Path, tmp_path: Path, suffix: str) -> None:
    rows = numbered(5_000)
    file = written(tmp_path, f"rows{suffix}", rows, at_once=1_000)
    GenericStore.open(path, SCHEMA, gc_grace=0).close()
    for told in (1, 4, 20):
        with Child(module("tests.test_transfer", "importing"), path, file) as child:
            for _ in range(told):
                child.read()
            rest = child.kill()
        acknowledged = int(rest[-1]) if rest else 50 * told
        with GenericStore.open_existing(path, read="latest", maintenance=None) as store:
            found = rows_of(store)
            assert acknowledged <= len(found) < len(rows)
            assert len(found) % 50 == 0, "a chunk is there in part"
            assert found == rows[: len(found)]
    with GenericStore.open_existing(path, read="latest", maintenance=None) as store:
        assert store.import_(file).rows == len(rows)
        assert rows_of(store) == rows


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
    store: GenericStore, tmp_path: Path, line: str | bytes, code: str, column: str | None, message: str
) -> None:
    file = tmp_path / "rows.jsonl"
    bad = line if isinstance(line, bytes) else line.encode()
    file.write_bytes(b'{"id": "a"}\n\n  \r\n' + bad + b'\n{"id": "z"}\n')
    with pytest.raises(RowError) as caught:
        store.import_(file)
    error = caught.value
    assert (error.code, error.row, error.column, error.rows_done) == (code, 1, column, 0)
    assert str(error).startswith(f"`{file}`, row 1 (line 4)")
    assert message in str(error)
    assert "durable" not in str(error)
    assert rows_of(store) == []


def test_lines_of_other_writers(store: GenericStore, tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("small_chunks")
def test_an_id_that_must_be_new(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    store.add(numbered(1, 4))
    file = written(tmp_path, "rows.jsonl", numbered(10))
    with pytest.raises(AlreadyExistsError, match="skip=3") as caught:
        store.import_(file, on_conflict="error")
    assert (caught.value.code, caught.value.rows_done) == ("row-exists", 3)
    assert [row["n"] for row in rows_of(store)] == [0, 1, 2, 4]
    with pytest.raises(ValueError, match="on_conflict"):
        store.import_(file, on_conflict="merge")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".jsonl.gz", ".arrow", ".arrows"])
@pytest.mark.usefixtures("small_chunks")
def test_progress(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    files = [written(tmp_path, f"{n}{suffix}", numbered(6, 6 * n), at_once=3) for n in range(2)]
    seen: list[TransferProgress] = []
    found: list[int] = []

    def tell(done: TransferProgress) -> None:
        seen.append(done)
        if isinstance(store, GenericStore):
            found.append(store.count())

    store.import_(files, progress=tell)
    assert [(done.path, done.rows) for done in seen] == [
        (str(files[0]), 3),
        (str(files[0]), 6),
        (str(files[1]), 9),
        (str(files[1]), 12),
    ]
    assert found in ([], [3, 6, 9, 12]), "what it tells of is durable"
    assert [done.total_rows for done in seen] == [6 if suffix == ".parquet" else None] * 4
    assert [done.total_bytes for done in seen] == [file.stat().st_size for file in files for _ in range(2)]
    for done in seen:
        assert done.bytes is None if suffix == ".parquet" else 0 < (done.bytes or 0) <= (done.total_bytes or 0)
    seen.clear()
    report = store.export(tmp_path / f"out{suffix}", progress=seen.append)
    assert seen[-1].rows == report.rows == 12
    assert {done.path for done in seen} == {report.path}


@pytest.mark.usefixtures("small_chunks")
def test_progress_that_raises(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    file = written(tmp_path, "rows.jsonl", numbered(10))

    def stop(done: TransferProgress) -> None:
        if done.rows == 6:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop") as caught:
        store.import_(file, progress=stop)
    assert caught.value.__notes__ == [f"6 rows of `{file}` are durable; import_(…, skip=6) goes on behind them"]
    assert rows_of(store) == numbered(6)
    store.import_(file, skip=6)
    assert rows_of(store) == numbered(10)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_export_that_broke_off_leaves_the_old_file(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    store.add(numbered(10))
    directory = tmp_path / "out"
    directory.mkdir()
    file = directory / f"rows{suffix}"

    def stop(_: TransferProgress) -> None:
        assert len(list(directory.iterdir())) == 1 + file.exists(), "something is being written"
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        store.export(file, progress=stop)
    assert list(directory.iterdir()) == []
    file.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stop"):
        store.export(file, progress=stop)
    assert list(directory.iterdir()) == [file]
    assert file.read_bytes() == b"old"
    report = store.export(file)
    assert list(directory.iterdir()) == [file]
    assert file.stat().st_size == report.bytes != 3


def test_an_export_is_on_the_device_before_it_has_its_name(
    store: GenericStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    def replaced(source: str, target: str) -> None:
        done.append(("replace", source))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    store.add(numbered(3))
    store.export(tmp_path / "rows.jsonl")
    assert [what for what, _ in done] == ["sync", "replace", "sync"]
    assert done[0][1] == done[1][1] != done[2][1] == str(tmp_path)


def exporting() -> None:
    """A child that begins to export, and waits."""
    import sys

    def tell(done: TransferProgress) -> None:
        print(done.rows, flush=True)  # noqa: T201
        sys.stdin.readline()

    with GenericStore.open_existing(sys.argv[1], read="latest") as store:
        store.export(Path(sys.argv[2]), progress=tell)


def test_killed_while_exporting(store: GenericStore, path: Path, tmp_path: Path) -> None:
    store.add(numbered(10))
    file = tmp_path / "rows.jsonl"
    store.export(file)
    old = file.read_bytes()
    store.add(numbered(10, 10))
    with Child(module("tests.test_transfer", "exporting"), path, file) as child:
        child.read()
        child.kill()
    assert file.read_bytes() == old


def test_a_link_stays_one(store: GenericStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "rows.jsonl").symlink_to(tmp_path / "elsewhere" / "real.jsonl")
    store.add(numbered(1))
    store.export(tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").is_symlink()
    assert (tmp_path / "elsewhere" / "real.jsonl").read_text() == '{"id":"r000000","n":0,"note":""}\n'


def test_what_makes_no_sense(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    good = written(tmp_path, "rows.jsonl", numbered(3))
    plain = tmp_path / "rows.txt"
    plain.write_bytes(good.read_bytes())
    with pytest.raises(ValueError, match=r"rows\.txt` cannot be told by its suffix; name it `\.parquet`"):
        store.import_(plain)
    with pytest.raises(ValueError, match="`csv` is unknown; it is one of `parquet`"):
        store.export(tmp_path / "out", format="csv")  # pyright: ignore[reportArgumentType]
    assert store.import_(plain, format="jsonl").rows == 3
    with pytest.raises(ValueError, match="`skip` is at least 0"):
        store.import_(good, skip=-1)
    with pytest.raises(TypeError, match="of bytes"):
        store.import_(b"rows.jsonl")  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileNotFoundError):
        store.import_(tmp_path / "missing.parquet")
    with pytest.raises(IsADirectoryError):
        store.import_(tmp_path, format="parquet")
    with pytest.raises(FileNotFoundError):
        store.export(tmp_path / "missing" / "rows.jsonl")
    (tmp_path / "rows.arrow").mkdir()
    with pytest.raises(IsADirectoryError):
        store.export(tmp_path / "rows.arrow")
    for format in ("parquet", "arrow", "arrow-stream"):
        with pytest.raises(ValueError, match=r"(?i)parquet|arrow|stream|message"):
            store.import_(plain, format=format)
    assert rows_of(store) == numbered(3)


def test_of_several_files_all_must_be_there(store: GenericStore, tmp_path: Path) -> None:
    good = written(tmp_path, "rows.jsonl", numbered(3))
    with pytest.raises(FileNotFoundError):
        store.import_([good, tmp_path / "missing.jsonl"])
    assert rows_of(store) == []


def test_handles_that_cannot(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    store.add(numbered(3))
    file = tmp_path / "rows.jsonl"
    reader = stores.reopen(tmp_path / "store", read_only=True)
    assert reader.export(file).rows == 3
    with pytest.raises(StateError) as caught:
        reader.import_(file)
    assert caught.value.code == "read-only"
    store.close()
    for use in (lambda: store.import_(file), lambda: store.export(file)):
        with pytest.raises(StateError) as caught:
            use()
        assert caught.value.code == "closed"


def test_an_empty_export_warns_of_unsealed_rows(path: Path, tmp_path: Path) -> None:
    with GenericStore.open(path, SCHEMA, maintenance=None) as store:
        store.add(numbered(3))
        with pytest.warns(UnsealedRowsWarning, match="3 rows"):
            assert store.export(tmp_path / "rows.jsonl").rows == 0
        assert store.export(tmp_path / "rows.jsonl", read="latest").rows == 3


@pytest.mark.usefixtures("small_chunks")
def test_a_cancelled_import_goes_on(path: Path, tmp_path: Path) -> None:
    file = written(tmp_path, "rows.jsonl", numbered(30))

    async def cancelled() -> int:
        async with AsyncGenericStore.open(path, SCHEMA, read="latest") as store:

            def stop(done: TransferProgress) -> None:
                if done.rows == 9:
                    importing.cancel()

            importing = asyncio.ensure_future(store.import_(file, progress=stop))
            with pytest.raises(asyncio.CancelledError):
                await importing
            durable = await store.count()
            report = await store.import_(file, skip=9)
            assert report.rows == 21
            assert [row["n"] for row in await store.list()] == list(range(30))
            return durable

    assert asyncio.run(cancelled()) in (9, 12)


def test_the_loop_goes_on_meanwhile(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "rows.jsonl", numbered(3))
    reading, told = asyncio.Event(), False
    read = _formats.read_chunks

    async def both() -> None:
        nonlocal told
        loop = asyncio.get_running_loop()

        def slow(
            path: str,
            format: TransferFormat,
            lines: Lines,
            columns: Mapping[str, str] | None,
            skip: _formats.Skip,
        ) -> Iterator[_formats.Chunk]:
            nonlocal told
            # Ends only if the loop runs while a file is read.
            asyncio.run_coroutine_threadsafe(other(), loop).result(timeout=60)
            told = True
            return read(path, format, lines, columns, skip)

        async def other() -> None:
            reading.set()

        monkeypatch.setattr(_formats, "read_chunks", slow)
        async with AsyncGenericStore.open(path, SCHEMA) as store:
            await store.import_(file)

    asyncio.run(both())
    assert told
    assert reading.is_set()


MEASURE = """
    import sys
    from pathlib import Path

    from benchmarks.memory import peak_rss_bytes, reset_peak_rss, rss_bytes
    from lance_context import GenericStore, _formats

    _formats.CHUNK_BYTES = int(sys.argv[4])
    what, store, file = sys.argv[1], GenericStore.open_existing(sys.argv[2], maintenance=None), Path(sys.argv[3])
    with store:
        # What is loaded once for all does not count.
        store.add({"id": "warm"})
        warm = file.with_name("warm" + file.suffix)
        store.export(warm)
        store.import_(warm)
        reset_peak_rss()
        before = rss_bytes()
        report = store.import_(file) if what == "import" else store.export(file)
        print(report.rows, peak_rss_bytes() - before)
"""


MAKE = """
    import base64, json, os, sys
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

    path, rows, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if path.suffix == ".parquet":
        table = pa.table({"id": [f"r{n}" for n in range(rows)], "data": [os.urandom(size) for _ in range(rows)]})
        # One row group; a dictionary would hold all of it in one piece.
        pq.write_table(table, path, use_dictionary=False)
    else:
        with path.open("w") as file:
            for n in range(rows):
                file.write(json.dumps({"id": f"r{n}", "data": base64.b64encode(os.urandom(size)).decode()}) + "\\n")
"""


@pytest.mark.parametrize(
    ("total", "chunk", "most"),
    [(96 * MIB, 2 * MIB, 90 * MIB), pytest.param(400 * MIB, 16 * MIB, 250 * MIB, marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_memory_is_bounded(path: Path, tmp_path: Path, suffix: str, total: int, chunk: int, most: int) -> None:
    # Sealed at once, so that what the store itself keeps in memory does not count.
    GenericStore.open(path, {"id": "string", "data": "binary"}, seal_on_add=True, gc_grace=0).close()
    size = 4 << 10
    file = tmp_path / f"rows{suffix}"
    run(MAKE, file, total // size, size)
    for what, where in (("import", file), ("export", tmp_path / f"again{suffix}")):
        rows, grown = map(int, run(MEASURE, what, path, where, chunk).out.split())
        assert rows - total // size in (0, 1)
        assert grown < most, f"an {what} of {total // MIB} MiB took {grown // MIB} MiB"


def test_errors_keep_their_rows_done_through_pickling() -> None:
    import pickle

    error = RowError("what", code="wrong-type", row=3)
    error.rows_done = 7
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, LanceContextError)
    assert copy.rows_done == 7
