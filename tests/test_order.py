"""`order_by`: the order of every type, pages of it, and what has no order."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lance_context import GenericStore, QueryError
from tests.stages import PLACES, move

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {
    "id": "string",
    "s": "string",
    "n": "int16",
    "u": "uint64",
    "f": "float64",
    "half": "float16",
    "ok": "bool",
    "at": "timestamp",
    "day": "date",
    "price": {"type": "decimal", "precision": 6, "scale": 2},
    "raw": "binary",
    "-n": "int64",
    "v": {"type": "vector", "dim": 1},
    "l": {"type": "list", "item": "int8"},
    "meta": "json",
    "p": {"type": "struct", "fields": {"x": "int8"}},
    "video": {"type": "binary", "blob": True},
}


def row(n: int) -> dict[str, object]:
    """A row whose cells repeat in cycles of different lengths; every seventh has none."""
    if n % 7 == 0:
        return {"id": f"r{n:04}"}
    return {
        "id": f"r{n:04}",
        "s": ["b", "a", "", "é", "B"][n % 5],
        "n": n * 37 % 11 - 5,
        "u": 2**64 - 1 - n % 3,
        "f": [0.5, -math.inf, math.inf, -0.5, math.nan][n % 5],
        "half": float(n % 4),
        "ok": n % 2 == 0,
        "at": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=n * 31 % 17),
        "day": date(2024, 1, 1) + timedelta(days=n * 31 % 17),
        "price": Decimal(n * 13 % 9) / 4,
        "raw": bytes([n * 5 % 6]),
        "-n": n % 3,
        "video": b"x",
    }


def ordered(rows: list[dict[str, Any]], column: str, *, descending: bool) -> list[str]:
    """Ids by `column`, nulls last, NaN greatest, ties by id."""

    def key(row: dict[str, Any]) -> tuple[bool, Any]:
        value = row[column]
        is_nan = isinstance(value, float) and math.isnan(value)
        return is_nan, 0.0 if is_nan else value

    there = [row for row in rows if row.get(column) is not None]
    there.sort(key=key, reverse=descending)  # stable: ties keep the order of ids
    return [row["id"] for row in there] + [row["id"] for row in rows if row.get(column) is None]


ROWS = [row(n) for n in range(300)]
ORDERED = ["s", "n", "u", "f", "half", "ok", "at", "day", "price", "raw", "-n", "id"]


@pytest.fixture(params=PLACES)
def store(path: Path, request: pytest.FixtureRequest) -> Iterator[GenericStore]:
    """A store of all rows, an older version of some of them below."""
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store:
        store.add([{**row(n + 1), "id": f"r{n:04}"} for n in range(0, 300, 3)])
        store.flush()
        store.add(ROWS)
        move(store, request.param)
        yield store


@pytest.mark.parametrize("limit", [None, 0, 1, 7, 299, 1000])
def test_the_order_of_every_type(store: GenericStore, limit: int | None) -> None:
    for column in ORDERED:
        for descending in (False, True):
            order_by = f"-{column}" if descending else column
            if order_by == "-n":
                continue  # a column of its own
            got = [row["id"] for row in store.list(order_by=order_by, columns=["s"], limit=limit)]
            assert got == ordered(ROWS, column, descending=descending)[:limit], (order_by, limit)


def test_pages_are_cuts_of_one_order(store: GenericStore) -> None:
    pages = [store.list(order_by=["ok", "-s"], columns=["ok", "s"], limit=13, offset=at) for at in range(0, 300, 13)]
    assert [row for page in pages for row in page] == store.list(order_by=["ok", "-s"], columns=["ok", "s"])


def test_several_columns(store: GenericStore) -> None:
    rows = store.list(order_by=("-ok", "n"), columns=["n", "ok"], filter="n IS NOT NULL")
    expected = sorted((row for row in ROWS if "n" in row), key=lambda row: (not row["ok"], row["n"], row["id"]))
    assert [row["id"] for row in rows] == [row["id"] for row in expected]
    assert list(rows[0]) == ["id", "n", "ok"], "a column that only orders is not returned"
    assert list(store.list(order_by="n", columns=["id"], limit=1)[0]) == ["id"]


def test_a_name_that_begins_with_a_minus(store: GenericStore) -> None:
    assert [row["id"] for row in store.list(order_by="-n")] == ordered(ROWS, "-n", descending=False)
    assert [row["id"] for row in store.list(order_by="--n")] == ordered(ROWS, "-n", descending=True)


def test_blobs_come_in_order(store: GenericStore) -> None:
    rows = store.list(order_by="-s", columns=["video"], limit=5)
    assert [row["id"] for row in rows] == ordered(ROWS, "s", descending=True)[:5]
    assert all(row["video"] == b"x" for row in rows)
    assert store.to_arrow(order_by="-s", limit=5).column("id").to_pylist() == [row["id"] for row in rows]


@pytest.mark.parametrize(
    ("order_by", "code", "part"),
    [
        ("nn", "query-column", "unknown column `nn`, did you mean `n`?"),
        ("-nn", "query-column", "unknown column `nn`"),
        ("N", "query-column", "unknown column `N`"),
        ("v", "invalid-query", "a vector(1) has no order"),
        ("-l", "invalid-query", "a list(int8) has no order"),
        ("meta", "invalid-query", "a json has no order"),
        ("p", "invalid-query", "has no order"),
        ("video", "invalid-query", "a binary(blob) has no order"),
        (["s", "-s"], "invalid-query", "names column `s` twice"),
    ],
)
def test_what_has_no_order(path: Path, order_by: str | list[str], code: str, part: str) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store:
        with pytest.raises(QueryError) as caught:
            store.list(order_by=order_by)
        assert caught.value.code == code
        assert part in str(caught.value)


def test_keyset_pages_go_by_id(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest") as store, pytest.raises(QueryError, match="pages by id"):
        store.list(order_by="n", after="r0001")


def test_random_orders_of_random_rows(path: Path) -> None:
    chosen = random.Random(3)
    rows: list[dict[str, Any]] = [
        {"id": f"r{n:05}", "n": chosen.choice([None, *range(-3, 4)]), "s": chosen.choice("abc")} for n in range(9000)
    ]
    with GenericStore.open(path, schema={"id": "string", "n": "int16", "s": "string"}, read="latest") as store:
        for at in range(0, 9000, 1500):
            store.add(rows[at : at + 1500])
            store.flush()
        expected = sorted(
            rows, key=lambda row: (row["s"], row["n"] is None, 0 if row["n"] is None else -row["n"], row["id"])
        )
        assert store.list(order_by=["s", "-n"], limit=20, offset=4000) == expected[4000:4020]
        assert store.list(order_by=["s", "-n"]) == expected
