"""The types beyond text, numbers and bytes: what goes in comes out, at every stage, or an error names the place."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pytest

from lance_context import GenericStore, QueryError, RowError, SchemaError
from tests.stages import each_stage

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import SchemaDeclaration

POINT = {"type": "struct", "fields": {"x": "float32", "label": {"type": "string", "nullable": False}}}
SCHEMA: SchemaDeclaration = {
    "id": "string",
    "i8": "int8",
    "i16": "int16",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "half": "float16",
    "day": "date",
    "price": {"type": "decimal", "precision": 10, "scale": 2},
    "big": {"type": "decimal", "precision": 38, "scale": 0},
    "meta": "json",
    "v16": {"type": "vector", "dim": 2, "dtype": "float16"},
    "point": POINT,
    "points": {"type": "list", "item": POINT},
    "days": {"type": "list", "item": "date"},
    "prices": {"type": "list", "item": {"type": "decimal", "precision": 5, "scale": 1}},
    "bytes": {"type": "list", "item": "binary"},
}
FULL: dict[str, object] = {
    "id": "full",
    "i8": -128,
    "i16": 32767,
    "u8": 255,
    "u16": 65535,
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "half": 65504.0,
    "day": date(2024, 2, 29),
    "price": Decimal("-99999999.99"),
    "big": Decimal(10**38 - 1),
    "meta": {"b": [1, 2.0, None, True, "x"], "a": {"": 2**70}, "π": '\U0001f600\x00\n"\\'},
    "v16": [0.5, -65504.0],
    "point": {"x": 0.5, "label": "here"},
    "points": [{"x": None, "label": ""}, None, {"x": 1.0, "label": "b"}],
    "days": [date(1, 1, 1), None, date(9999, 12, 31)],
    "prices": [Decimal("0.1"), None],
    "bytes": [b"", None, b"\x00"],
}


def test_every_type(path: Path) -> None:
    nulls = dict.fromkeys(list(SCHEMA)[1:])
    for stage, store in each_stage(path, SCHEMA, [FULL, {"id": "none", **nulls}, {"id": "omitted"}]):
        rows = store.list()
        assert rows == [FULL, {"id": "none", **nulls}, {"id": "omitted", **nulls}], stage
        assert {name: type(value) for name, value in rows[0].items()} == {n: type(v) for n, v in FULL.items()}
        assert list(rows[0]) == list(SCHEMA)
        assert list(rows[0]["meta"]) == ["b", "a", "π"], "the order of members is kept"
        assert [type(item) for item in rows[0]["meta"]["b"][:2]] == [int, float]
        assert str(rows[0]["price"]) == "-99999999.99"
        assert store.get("full", columns=["meta", "points"]) == {key: FULL[key] for key in ("id", "meta", "points")}
        assert list(store.iter(filter={"id": "full"})) == [FULL]


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_empty_is_not_null(path: Path, count: int) -> None:
    schema: SchemaDeclaration = {"id": "string", **{name: SCHEMA[name] for name in ("meta", "point", "points", "days")}}
    kinds: list[dict[str, object]] = [
        {"meta": {}, "point": {"x": None, "label": ""}, "points": [], "days": []},
        {"meta": None, "point": None, "points": None, "days": None},
        {"meta": "", "point": {"x": 0.0, "label": "a"}, "points": [None], "days": [None]},
        {"meta": [None], "point": None, "points": [{"x": None, "label": "c"}, None], "days": [date(1970, 1, 1)]},
    ]
    rows = [{"id": f"r{n:04}", **kinds[n % len(kinds)]} for n in range(count)]
    for stage, store in each_stage(path, schema, rows):
        assert store.list() == rows, stage


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("u8", np.uint8(255), 255),
        ("i8", np.int64(-3), -3),
        ("half", 1, 1.0),
        ("half", 0.1, float(np.float16(0.1))),
        ("half", np.float16(0.1), float(np.float16(0.1))),
        ("half", -math.inf, -math.inf),
        ("day", "2024-02-29", date(2024, 2, 29)),
        ("price", 7, Decimal("7.00")),
        ("price", "1.5", Decimal("1.50")),
        ("price", Decimal("1E+2"), Decimal("100.00")),
        ("price", Decimal("0.10000"), Decimal("0.10")),
        ("price", Decimal("-0"), Decimal("0.00")),
        ("meta", 1.5, 1.5),
        ("meta", 1e300, 1e300),
        ("meta", -0.0, -0.0),
        ("meta", "text", "text"),
        ("meta", True, True),
        ("meta", (1, 2), [1, 2]),
        ("meta", OrderedDict[str, int](z=1, a=2), {"z": 1, "a": 2}),
        ("meta", MappingProxyType({"a": [None]}), {"a": [None]}),
        ("meta", {"n": np.float32(0.5), "k": np.int8(3), "b": np.bool_(True)}, {"n": 0.5, "k": 3, "b": True}),
        ("meta", [UUID(int=5)], [str(UUID(int=5))]),
        ("meta", enum.IntEnum("E", {"A": 7})(7), 7),
        ("v16", np.array([0.5, 2.0], dtype=np.float16), [0.5, 2.0]),
        ("v16", np.array([0.5, 2.0]), [0.5, 2.0]),
        ("v16", (1, 2), [1.0, 2.0]),
        ("point", MappingProxyType({"label": "a"}), {"x": None, "label": "a"}),
        ("point", {"label": "a", "x": np.float32(1)}, {"x": 1.0, "label": "a"}),
        ("points", ({"label": "a"},), [{"x": None, "label": "a"}]),
    ],
)
def test_what_stands_for_a_value(path: Path, column: str, value: object, stored: object) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store:
        store.add({"id": "r", column: value})
        read = store.list(columns=[column])[0][column]
        assert read == stored
        assert repr(read) == repr(stored)


def nested(levels: int) -> object:
    """A list in a list in a list."""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("column", "value", "code", "part"),
    [
        ("i8", 128, "out-of-range", "`128` does not fit int8"),
        ("u8", -1, "out-of-range", "`-1` does not fit uint8"),
        ("u64", 2**64, "out-of-range", "does not fit uint64"),
        ("u8", True, "wrong-type", "`bool`"),
        ("half", 65520.0, "out-of-range", "does not fit float16"),
        ("half", 2049, "out-of-range", "not exact in float16"),
        ("day", datetime(2024, 1, 1, tzinfo=UTC), "wrong-type", "`datetime`"),
        ("day", "2024-02-30", "wrong-type", "2024-02-30"),
        ("price", 1.5, "wrong-type", "`float`"),
        ("price", Decimal("0.001"), "out-of-range", "more than 2 digits behind the point; round it"),
        ("price", Decimal("1E+8"), "out-of-range", "does not fit decimal(10, 2)"),
        ("price", Decimal("NaN"), "out-of-range", "finite"),
        ("price", Decimal("-Infinity"), "out-of-range", "finite"),
        ("price", Decimal(1).scaleb(50), "out-of-range", "more than 38 digits"),
        ("price", "a", "wrong-type", "no decimal: `a`"),
        ("meta", {"a": [1, {"b": math.nan}]}, "out-of-range", "at `$.a[1].b`: JSON has no `NaN`"),
        ("meta", {"a": math.inf}, "out-of-range", "at `$.a`"),
        ("meta", {1: "a"}, "wrong-type", "a key of type `int` at `$`"),
        ("meta", [{"a": {1, 2}}], "wrong-type", "`set` at `$[0].a`"),
        ("meta", [b"x"], "wrong-type", "`bytes` at `$[0]`"),
        ("meta", [datetime(2024, 1, 1, tzinfo=UTC)], "wrong-type", "`datetime` at `$[0]`"),
        ("meta", "\ud800", "wrong-type", "lone surrogate"),
        ("meta", {"\ud800": 1}, "wrong-type", "lone surrogate"),
        ("meta", nested(200), "out-of-range", "deeper than 128 levels"),
        ("v16", [0.5, 1e6], "out-of-range", "at index 1"),
        ("v16", [0.5], "out-of-range", "a vector of 2 components is expected, got 1"),
        ("point", {"x": 1.0}, "out-of-range", "field `label` is not nullable"),
        ("point", {"label": "a", "lable": "b"}, "out-of-range", "unknown field `lable`; the fields are `x`, `label`"),
        ("point", {"label": "a", "x": "b"}, "wrong-type", "`str` in field `x`"),
        ("point", {"label": "a", "x": 1e39}, "out-of-range", "field `x`: `1e39` does not fit float32"),
        ("point", [1.0, "a"], "wrong-type", "`list`"),
        ("point", {1: 2}, "wrong-type", "a key of type `int`"),
        ("points", [{"label": "a"}, {"x": 1.0}], "out-of-range", "at index 1: field `label` is not nullable"),
        ("points", [{"label": "a"}, "b"], "wrong-type", "`str` at index 1"),
        ("days", [date(2024, 1, 1), 3], "wrong-type", "`int` at index 1"),
    ],
)
def test_a_value_that_does_not_fit(path: Path, column: str, value: object, code: str, part: str) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store:
        store.add({"id": "kept"})
        with pytest.raises(RowError) as caught:
            store.add([{"id": "a"}, {"id": "b", column: value}])
        assert (caught.value.code, caught.value.row, caught.value.column) == (code, 1, column)
        assert part in str(caught.value)
        assert [row["id"] for row in store.list()] == ["kept"]


def test_json_of_every_float(path: Path) -> None:
    floats = [0.1, 1e22, 1.7976931348623157e308, 5e-324, -2.5e-10, 1e16, 123456789012345680.0]
    with GenericStore.open(path, schema={"id": "string", "meta": "json"}, read="latest") as store:
        store.add({"id": "r", "meta": floats})
        read: Any = store.list()[0]["meta"]
        assert [repr(value) for value in read] == [repr(value) for value in floats]
        text = store.to_arrow().column("meta").to_pylist()[0]
        assert json.loads(text) == floats


@pytest.mark.parametrize("place", ["memtable", "generation", "base"])
def test_filters(path: Path, place: str) -> None:
    rows = [
        {**FULL, "id": "a", "u64": 1, "day": date(2024, 1, 1), "price": Decimal("1.50"), "half": 0.5},
        {**FULL, "id": "b", "u64": 2**64 - 1, "day": date(2024, 6, 1), "price": Decimal("2.25"), "half": 2.0},
        {"id": "c"},
    ]
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store:
        store.add(rows)
        if place != "memtable":
            store.flush()
        if place == "base":
            store.merge()

        def found(filter: str | dict[str, object], **params: object) -> list[str]:
            given = params or None
            return [row["id"] for row in store.list(filter=filter, params=given, columns=["id"])]

        assert found({"u64": 2**64 - 1}) == ["b"]
        assert found("u64 > $n", n=1) == ["b"]
        assert found({"day": date(2024, 1, 1)}) == ["a"]
        assert found("day >= $day", day=date(2024, 2, 1)) == ["b"]
        assert found("day >= '2024-02-01'") == ["b"]
        assert found({"price": Decimal("1.5")}) == ["a"]
        assert found("price > 1.5") == ["b"]
        assert found("price < $p", p=Decimal("2.2500")) == ["a"]
        assert found("half > 0.5") == ["b"]
        assert found("half = $h", h=0.5) == ["a"]
        assert found("u8 = 255 AND i8 = -128") == ["a", "b"]
        assert found("meta IS NULL") == ["c"]
        assert found("point IS NULL") == ["c"]
        assert store.count("points IS NOT NULL") == 2


def test_what_no_filter_compares(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store:
        for value in ({"a": 1}, [1.0], Decimal("NaN")):
            with pytest.raises(QueryError):
                store.list(filter={"meta": value})


def test_rows_are_changed_in_part(path: Path) -> None:
    changes: dict[str, object] = {"meta": [1], "points": [], "day": date(2025, 1, 1)}
    with GenericStore.open(path, schema=SCHEMA, read="latest", gc_grace=0) as store:
        for place in ("memtable", "generation", "base"):
            store.add(FULL)
            if place != "memtable":
                store.flush()
            if place == "base":
                store.merge()
            store.update("full", changes)
            assert store.list() == [{**FULL, **changes}], place
            store.flush()
            store.merge()
            assert store.list() == [{**FULL, **changes}], place


def test_a_struct_is_matched_by_name(path: Path) -> None:
    with GenericStore.open(path, schema={"id": "string", "point": POINT}) as store:
        declared = store.schema()
        assert declared["point"]["fields"]["label"] == {"type": "string", "large": False, "nullable": False}
    other = {"type": "struct", "fields": {"label": {"type": "string", "nullable": False}, "x": "float32"}}
    with GenericStore.open(path, schema={"point": other, "id": "string"}):
        pass
    with GenericStore.open(path, schema=declared):
        pass
    with pytest.raises(SchemaError, match="changed `point`"):
        GenericStore.open(path, schema={"id": "string", "point": {"type": "struct", "fields": {"x": "float32"}}})
