"""Random rows of random schemas come back as they went in: whole, projected, as Arrow, and after a reopen."""

from __future__ import annotations

import struct
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context import GenericStore

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

Declared = dict[str, Any]


def ints(bits: int, *, signed: bool) -> SearchStrategy[int]:
    """Every integer of that width."""
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def text(**limits: int) -> SearchStrategy[str]:
    """Text that UTF-8 can hold."""
    return st.text(st.characters(codec="utf-8"), **limits)


json_values: SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text(max_size=4), inner, max_size=3),
    max_leaves=8,
)

SCALARS: dict[str, tuple[Declared, SearchStrategy[object]]] = {
    "string": ({"type": "string"}, text(max_size=12)),
    "large": ({"type": "string", "large": True}, text(max_size=12)),
    **{f"int{bits}": ({"type": f"int{bits}"}, ints(bits, signed=True)) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": ({"type": f"uint{bits}"}, ints(bits, signed=False)) for bits in (8, 16, 32, 64)},
    "float16": ({"type": "float16"}, st.floats(width=16)),
    "float32": ({"type": "float32"}, st.floats(width=32)),
    "float64": ({"type": "float64"}, st.floats(width=64)),
    "bool": ({"type": "bool"}, st.booleans()),
    "timestamp": ({"type": "timestamp"}, st.datetimes(timezones=st.just(UTC))),
    "naive": ({"type": "timestamp", "tz": None}, st.datetimes()),
    "date": ({"type": "date"}, st.dates()),
    "decimal": (
        {"type": "decimal", "precision": 38, "scale": 6},
        st.integers(1 - 10**38, 10**38 - 1).map(lambda digits: Decimal(f"{digits}E-6")),
    ),
    "binary": ({"type": "binary"}, st.binary(max_size=12)),
}


def nullable(values: SearchStrategy[object]) -> SearchStrategy[object]:
    """The values, and none."""
    return st.none() | values


def struct_of(fields: list[str]) -> tuple[Declared, SearchStrategy[object]]:
    """A struct of these scalars."""
    named = {f"f{n}": SCALARS[name] for n, name in enumerate(fields)}
    declared = {"type": "struct", "fields": {field: kind for field, (kind, _) in named.items()}}
    return declared, st.fixed_dictionaries({field: nullable(values) for field, (_, values) in named.items()})


@st.composite
def columns(draw: DrawFn) -> tuple[Declared, SearchStrategy[object]]:
    """A declaration with what fits it."""
    scalar = st.sampled_from(sorted(SCALARS))
    fields = st.lists(scalar, min_size=1, max_size=3)
    match draw(st.sampled_from(["scalar", "scalar", "vector", "list", "struct", "structs", "json", "blob"])):
        case "vector":
            dtype = draw(st.sampled_from(["float16", "float32"]))
            dim = draw(st.integers(1, 4))
            return {"type": "vector", "dim": dim, "dtype": dtype}, st.lists(
                SCALARS[dtype][1], min_size=dim, max_size=dim
            )
        case "list":
            kind, values = SCALARS[draw(scalar)]
            return {"type": "list", "item": kind}, st.lists(nullable(values), max_size=4)
        case "struct":
            return struct_of(draw(fields))
        case "structs":
            kind, values = struct_of(draw(fields))
            return {"type": "list", "item": kind}, st.lists(nullable(values), max_size=3)
        case "json":
            return {"type": "json"}, json_values.filter(lambda value: value is not None)
        case "blob":
            return {"type": "binary", "blob": True}, st.binary(max_size=12)
        case _:
            return SCALARS[draw(scalar)]


@st.composite
def tables(draw: DrawFn) -> tuple[Declared, list[dict[str, object]], list[str]]:
    """A schema, rows of it, and a choice of its columns."""
    drawn = draw(st.lists(columns(), min_size=1, max_size=6))
    schema: Declared = {"id": "string"}
    cells: dict[str, SearchStrategy[object]] = {}
    for n, (declared, values) in enumerate(drawn):
        required = draw(st.booleans())
        schema[f"c{n}"] = {**declared, "nullable": not required}
        cells[f"c{n}"] = values if required else nullable(values)
    rows = draw(st.lists(st.fixed_dictionaries(cells), max_size=8))
    chosen = draw(st.lists(st.sampled_from(sorted(cells)), unique=True))
    return schema, [{"id": f"r{n}", **row} for n, row in enumerate(rows)], chosen


def exact(value: object) -> object:
    """A value that equals another one only if every bit is the same."""
    match value:
        case float():
            return struct.pack("<d", value)
        case list():
            return [exact(item) for item in cast("list[object]", value)]
        case dict():
            return {key: exact(item) for key, item in cast("dict[str, object]", value).items()}
        case Decimal() | datetime() | date() | bool():
            return (type(value), str(value))
        case _:
            return value


@settings(max_examples=60)
@given(tables())
def test_rows_come_back(table: tuple[Declared, list[dict[str, object]], list[str]]) -> None:
    schema, rows, chosen = table
    blobs = {name for name, declared in schema.items() if name != "id" and declared.get("blob")}
    listed = [{name: cell for name, cell in row.items() if name not in blobs} for row in rows]
    projected = [{name: row[name] for name in ["id", *chosen]} for row in rows]
    with (
        tempfile.TemporaryDirectory() as place,
        GenericStore.open(place, schema, read="latest", maintenance=None) as store,
    ):
        for stage in ("durable", "sealed", "merged"):
            if stage == "durable":
                store.add(rows)
            elif stage == "sealed":
                store.flush()
            else:
                store.merge()
            assert exact(store.list()) == exact(listed), stage
            assert exact(store.list(columns=chosen)) == exact(projected), stage
            assert exact([store.get(str(row["id"]), columns=chosen) for row in rows]) == exact(projected), stage
            by_id = sorted(store.iter(columns=chosen), key=lambda row: row["id"])
            assert exact(by_id) == exact(projected), stage
        copied = store.to_arrow(columns=[name for name in schema if name != "id"])
        with tempfile.TemporaryDirectory() as other, GenericStore.open(other, schema, read="latest") as copy:
            copy.add(copied)
            assert exact(copy.list(columns=list(schema)[1:])) == exact(rows)
