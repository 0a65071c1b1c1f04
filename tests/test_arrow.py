"""Arrow in and out: pyarrow, Polars, pandas and DuckDB give rows and take them, none of them imported unless used."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lance_context import AsyncGenericStore, GenericStore, RowError
from tests.child import run
from tests.stages import move
from tests.test_types import FULL as OTHERS
from tests.test_types import SCHEMA as OTHER_TYPES
from tests.test_values import FULL_ROW, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lance_context import ArrowStream, SchemaDeclaration

EVERY: SchemaDeclaration = {**SCHEMA, **OTHER_TYPES}
ROW: dict[str, Any] = {**FULL_ROW, **OTHERS}
ROWS: list[dict[str, Any]] = [ROW, {**dict.fromkeys(EVERY), "id": "none"}]
SMALL: SchemaDeclaration = {"id": "string", "n": "int8", "s": "string"}


def test_every_type_out_and_in(path: Path, tmp_path: Path) -> None:
    with GenericStore.open(path, schema=EVERY, read="latest") as store:
        store.add(ROWS)
        for place in ("memtable", "generation", "base"):
            move(store, place)
            with GenericStore.open(tmp_path / place, schema=EVERY, read="latest") as copy:
                assert copy.add(store.to_arrow()).count == 2
                assert copy.list() == ROWS, place
                for batch in store.batches():
                    copy.add(batch)
                assert copy.list() == ROWS, place
                with pytest.raises(RowError, match="a row is a mapping"):
                    copy.add(store.batches())  # pyright: ignore[reportArgumentType]


def test_what_out_looks_like(path: Path) -> None:
    with GenericStore.open(path, schema=EVERY, read="latest") as store:
        store.add(ROWS)
        table = store.to_arrow(filter={"id": "full"})
        assert table.column_names == list(EVERY)
        (row,) = table.to_pylist()
        assert row == {**ROW, "meta": row["meta"]}
        assert json.loads(row["meta"]) == ROW["meta"]
        assert store.to_arrow(filter={"id": "absent"}).num_rows == 0
        assert store.to_arrow(filter={"id": "absent"}).schema.equals(table.schema)
        assert store.to_arrow(columns=["s"]).column_names == ["id", "s"]


def test_empty_tables_keep_their_types(path: Path) -> None:
    with GenericStore.open(path, schema=EVERY) as store:
        assert store.to_arrow().column_names == list(EVERY)
        assert store.to_pandas().shape == (0, len(EVERY))
        assert store.to_polars().shape == (0, len(EVERY))
        assert store.add(store.to_arrow()).count == 0


def test_pandas(path: Path) -> None:
    with GenericStore.open(path, schema={**SMALL, "at": "timestamp"}, read="latest") as store:
        at = datetime(2024, 1, 1, 12, tzinfo=UTC)
        frame = pd.DataFrame({"id": ["a", "b"], "n": [1, 2], "s": ["x", None], "at": [at, at]})
        store.add(frame)
        assert store.list() == [
            {"id": "a", "n": 1, "s": "x", "at": at},
            {"id": "b", "n": 2, "s": None, "at": at},
        ]
        store.add({"id": "c"})
        back = store.to_pandas()
        assert str(back.dtypes["n"]) == "Int8", "a null makes no float of an int"
        assert back["n"].isna().tolist() == [False, False, True]
        assert back["at"][0] == pd.Timestamp(at)
        store.add(back)
        assert store.count() == 3


def test_polars(path: Path) -> None:
    with GenericStore.open(path, schema=EVERY, read="latest") as store:
        frame = pl.DataFrame(
            {
                "id": ["a", "b"],
                "s": ["text", None],
                "i": [1, 2],
                "day": [date(2024, 1, 1), None],
                "price": [Decimal("1.50"), None],
                "v": [[1.0, 2.0, 3.0], None],
                "points": [[{"x": 1.0, "label": "p"}], []],
                "at": [datetime(2024, 1, 1, tzinfo=UTC), None],
                "raw": [b"x", b""],
            }
        )
        store.add(frame)
        a, b = store.list(columns=["s", "i", "day", "price", "v", "points", "at", "raw"])
        assert a == {
            "id": "a",
            "s": "text",
            "i": 1,
            "day": date(2024, 1, 1),
            "price": Decimal("1.50"),
            "v": [1.0, 2.0, 3.0],
            "points": [{"x": 1.0, "label": "p"}],
            "at": datetime(2024, 1, 1, tzinfo=UTC),
            "raw": b"x",
        }
        assert b == {"id": "b", **dict.fromkeys(["s", "day", "price", "v", "at"]), "i": 2, "points": [], "raw": b""}
        back = store.to_polars(columns=["s", "v"])
        assert back["v"].to_list() == [[1.0, 2.0, 3.0], None]
        store.add(back)
        for batch in store.batches():
            assert pl.DataFrame(batch).shape == (2, len(EVERY))


def test_duckdb(path: Path) -> None:
    with GenericStore.open(path, schema=SMALL, read="latest") as store:
        numbers = "SELECT 'r' || range AS id, (range % 100)::INTEGER AS n FROM range(5000)"
        store.add(cast("ArrowStream", duckdb.query(numbers)))
        assert store.count() == 5000
        total = duckdb.from_arrow(store.to_arrow()).aggregate("sum(n), count(s)")
        assert total.fetchall() == [(sum(n % 100 for n in range(5000)), 0)]


def test_each_interface(path: Path) -> None:
    with GenericStore.open(path, schema=SMALL, read="latest") as store:
        batch = pa.record_batch({"id": ["a", "b"], "n": [1, 2]})
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch, batch.slice(1)])
        assert store.add(batch).count == 2
        assert store.add(reader).count == 3
        (own,) = store.batches()
        assert store.add(own).count == 2
        assert store.list() == [{"id": "a", "n": 1, "s": None}, {"id": "b", "n": 2, "s": None}]


def test_on_conflict(path: Path) -> None:
    with GenericStore.open(path, schema=SMALL, read="latest") as store:
        store.add({"id": "a", "n": 1})
        assert store.add(pa.table({"id": ["a", "b"], "n": [5, 6]}), on_conflict="ignore").count == 1
        assert [row["n"] for row in store.list()] == [1, 6]


@pytest.mark.parametrize(
    ("columns", "code", "row", "column", "part"),
    [
        ({"id": ["a", "b"], "m": [1, 2]}, "unknown-column", 0, "m", "unknown column `m`"),
        ({"n": [1, 2]}, "missing-value", 0, "id", "a value is required"),
        ({"id": ["a", None]}, "missing-value", 1, "id", "a value is required"),
        ({"id": ["a", "b"], "n": [1, 300]}, "out-of-range", 1, "n", "`300` does not fit int8"),
        ({"id": ["a", "b"], "n": ["x", "y"]}, "wrong-type", 0, "n", "expected int8, got str"),
        ({"id": [1, 2]}, "wrong-type", 0, "id", "expected string, got int"),
    ],
)
def test_tables_that_do_not_fit(
    path: Path, columns: dict[str, list[object]], code: str, row: int, column: str, part: str
) -> None:
    with GenericStore.open(path, schema=SMALL, read="latest") as store:
        with pytest.raises(RowError) as caught:
            store.add(pa.table(columns))
        assert (caught.value.code, caught.value.row, caught.value.column) == (code, row, column)
        assert part in str(caught.value)
        assert store.count() == 0


def add_json(store: GenericStore, origin: str, texts: dict[str, str], lines: Path) -> None:
    """Adds rows by id whose column `meta` is JSON that comes as text, or as what Python makes of it."""
    if origin == "Python":
        store.add({"id": id, "meta": json.loads(text)} for id, text in texts.items())
    elif origin == "Arrow":
        store.add(pa.table({"id": list(texts), "meta": list(texts.values())}))
    else:
        lines.write_text("\n".join(f'{{"id": "{id}", "meta": {text}}}' for id, text in texts.items()))
        store.import_(lines)


@pytest.mark.parametrize("origin", ["Python", "Arrow", "JSON lines"])
def test_json_of_any_origin_has_128_levels_at_most(path: Path, tmp_path: Path, origin: str) -> None:
    fit = {"a": "[" * 128 + "]" * 128, "b": '{"x":' * 128 + "1" + "}" * 128}
    with GenericStore.open(path, schema={"id": "string", "meta": "json"}, read="latest") as store:
        with pytest.raises(RowError, match="nested deeper than 128 levels") as caught:
            add_json(store, origin, {**fit, "c": "[" * 129 + "]" * 129}, tmp_path / "rows.jsonl")
        assert (caught.value.code, caught.value.row, caught.value.column) == ("out-of-range", 2, "meta")
        assert store.count() == 0
        add_json(store, origin, fit, tmp_path / "rows.jsonl")
        assert store.list() == [{"id": id, "meta": json.loads(text)} for id, text in fit.items()]


@pytest.mark.parametrize("origin", ["Arrow", "JSON lines"])
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"a": [1, -1e400]}', "the number `-1e400` is beyond a float's range"),
        ("9" * 4301, "has more than 4300 digits"),
    ],
)
def test_json_numbers_that_python_cannot_read(path: Path, tmp_path: Path, origin: str, text: str, part: str) -> None:
    with GenericStore.open(path, schema={"id": "string", "meta": "json"}, read="latest") as store:
        with pytest.raises(RowError, match=part) as caught:
            add_json(store, origin, {"a": "1e300", "b": text}, tmp_path / "rows.jsonl")
        assert (caught.value.code, caught.value.row, caught.value.column) == ("out-of-range", 1, "meta")
        assert store.count() == 0


def test_rows_are_counted_over_chunks(path: Path) -> None:
    with GenericStore.open(path, schema=SMALL, read="latest") as store:
        good = pa.table({"id": ["a", "b"], "n": [1, 2]})
        bad = pa.table({"id": ["c", "d"], "n": [3, 1000]})
        with pytest.raises(RowError) as caught:
            store.add(pa.concat_tables([good, bad]))
        assert (caught.value.row, caught.value.column) == (3, "n")
        assert store.count() == 0


def test_more_rows_than_one_add_takes(path: Path) -> None:
    with GenericStore.open(path, schema=SMALL) as store:
        table = pa.table({"id": [str(n) for n in range(100_001)]})
        with pytest.raises(RowError, match="100001 rows"):
            store.add(table)


def test_what_is_no_table(path: Path) -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return 5

    class Raising:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ZeroDivisionError("on purpose")

    with GenericStore.open(path, schema=SMALL) as store:
        with pytest.raises(RowError, match="is no table"):
            store.add(pa.array([1, 2]))
        with pytest.raises(RowError, match="is no table"):
            store.add(pa.array([{"id": "a"}, None]))
        with pytest.raises(TypeError, match="arrow_array_stream"):
            store.add(Broken())
        with pytest.raises(ZeroDivisionError):
            store.add(Raising())


def test_a_reader_that_fails_half_way(path: Path) -> None:
    batch = pa.record_batch({"id": ["a"], "n": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        raise ZeroDivisionError("on purpose")

    with GenericStore.open(path, schema=SMALL, read="latest") as store:
        with pytest.raises(RowError, match="on purpose"):
            store.add(pa.RecordBatchReader.from_batches(batch.schema, batches()))
        assert store.count() == 0


def test_zone_and_unit_of_times(path: Path) -> None:
    schema: SchemaDeclaration = {"id": "string", "at": "timestamp", "wall": {"type": "timestamp", "tz": None}}
    at = datetime(2024, 7, 1, 12, tzinfo=UTC)
    with GenericStore.open(path, schema=schema, read="latest") as store:
        for unit in ("s", "ms", "us", "ns"):
            store.add(
                pa.table(
                    {
                        "id": [unit],
                        "at": pa.array([at], pa.timestamp(unit, "Asia/Tokyo")),
                        "wall": pa.array([at.replace(tzinfo=None)], pa.timestamp(unit)),
                    }
                )
            )
        assert {(row["at"], row["wall"]) for row in store.list()} == {(at, at.replace(tzinfo=None))}
        with pytest.raises(RowError, match="nanoseconds"):
            store.add(pa.table({"id": ["x"], "at": pa.array([1], pa.timestamp("ns", "UTC"))}))
        with pytest.raises(RowError, match="naive datetime"):
            store.add(pa.table({"id": ["x"], "at": pa.array([1], pa.timestamp("us"))}))


def test_buffers_that_are_not_aligned(path: Path) -> None:
    """Arrow aligns to 8 bytes, and Rust wants 16 for a decimal."""
    table = pa.table({"id": ["a", "b"], "price": pa.array([Decimal("1.50"), None], pa.decimal128(6, 2))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream = sink.getvalue().to_pybytes()
    with GenericStore.open(path, {"id": "string", "price": OTHER_TYPES["price"]}, read="latest") as store:
        for padding in (0, 8):
            moved = pa.py_buffer(b"x" * padding + stream).slice(padding)
            store.add(pa.ipc.open_stream(moved))
            for batch in pa.ipc.open_stream(moved):
                store.add(batch)
        assert [row["price"] for row in store.list()] == [Decimal("1.50"), None]


def test_floats_keep_every_bit_through_arrow(path: Path) -> None:
    with GenericStore.open(path, schema={"id": "string", "d": "float64"}, read="latest") as store:
        given = [math.nan, -0.0, math.inf, 5e-324]
        store.add(pa.table({"id": list("abcd"), "d": given}))
        assert [repr(row["d"]) for row in store.list()] == [repr(value) for value in given]


def test_async_twin(path: Path) -> None:
    async def main() -> None:
        async with AsyncGenericStore.open(path, schema=SMALL, read="latest") as store:
            assert (await store.add(pa.table({"id": ["a", "b"], "n": [1, 2]}))).count == 2
            assert (await store.to_arrow(order_by="-n")).column("n").to_pylist() == [2, 1]
            assert (await store.to_pandas(limit=1))["id"].tolist() == ["a"]
            assert (await store.to_polars(after="a"))["id"].to_list() == ["b"]

    asyncio.run(main())


def test_nothing_is_imported_before_it_is_used(path: Path) -> None:
    done = run(
        """
        import sys
        from lance_context import GenericStore

        heavy = {"pyarrow", "pandas", "polars", "pydantic", "numpy"}
        with GenericStore.open(sys.argv[1], schema={"id": "string", "v": {"type": "vector", "dim": 1}}) as store:
            store.add({"id": "a", "v": [1.0]})
            store.flush()
            store.list(), list(store.batches()), store.stats(), store._repr_html_()
            print(heavy & sys.modules.keys())
            store.to_arrow()
            print(sorted({"pyarrow", "pandas", "polars"} & sys.modules.keys()))
        """,
        path,
    )
    assert done.out.splitlines() == ["set()", "['pyarrow']"]
