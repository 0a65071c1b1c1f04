"""Filters, limits, order and projection mean the same wherever the rows are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lance_context import GenericStore, QueryError
from tests.stages import PLACES, each_stage, move

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {"id": "string", "state": "string", "score": "float64", "n": "int64", "ok": "bool"}

HARD_IDS = [
    "O'Brien",
    "x' OR 1=1 --",
    "a\\b",
    "tab\there",
    "new\nline",
    "nul\0byte",
    "\N{GRINNING FACE}",
    'double"quote',
    "back`tick",
    "$name",
    "100%_x",
    " space ",
    "a/../b?c#d",
    "cafe\u0301",
    "caf\u00e9",
    "",
    "k" * 10_000,
]

PLAIN_COLUMNS = ["CamelCase", "naïve", "action", "target_id", "source", "value", "rowid", "n1"]
QUOTED_COLUMNS = ["foo-bar", "a b", "select", "1st", "it's", "ALL", "a$b", "\N{GRINNING FACE}"]


@pytest.fixture
def store(path: Path) -> Iterator[GenericStore]:
    """A store with ten rows, some in each place, that reads latest."""
    with GenericStore.open(path, schema=SCHEMA, read="latest", gc_grace=0) as store:
        for place, numbers in (("base", range(4)), ("generation", range(4, 7)), ("memtable", range(7, 10))):
            store.add(
                {"id": f"r{n}", "state": "even" if n % 2 == 0 else "odd", "score": n / 2, "n": n, "ok": n > 4}
                for n in numbers
            )
            move(store, place)
        yield store


def numbers(store: GenericStore, where: object = None, **options: object) -> list[int]:
    """The `n` of the rows that a query returns, in its order."""
    asked: dict[str, Any] = {"filter": where, **options}
    return [row["n"] for row in store.list(columns=["n"], **asked)]


def test_limit_counts_live_rows(path: Path) -> None:
    rows = [{"id": f"r{n:03}", "state": "open", "n": n} for n in range(100)]
    for _, store in each_stage(path, SCHEMA, rows):
        if not store.count(filter="state = 'closed'"):
            store.add({"id": f"r{n:03}", "state": "closed", "n": n} for n in range(50))
        assert numbers(store, "state = 'open'", limit=50) == list(range(50, 100))
        assert numbers(store, "state = 'open'", limit=7) == list(range(50, 57))
        assert numbers(store, "state = 'closed'", limit=50) == list(range(50))
        assert store.count() == 100


@pytest.mark.parametrize("old", PLACES)
@pytest.mark.parametrize("new", PLACES)
def test_the_newest_row_decides(path: Path, old: str, new: str) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest", gc_grace=0) as store:
        store.add([{"id": "a", "state": "open"}, {"id": "b", "state": "open"}])
        move(store, old)
        store.add({"id": "a", "state": "closed"})
        move(store, new)
        assert [row["id"] for row in store.list(filter="state = 'open'")] == ["b"]
        assert [row["id"] for row in store.list(filter={"state": "closed"})] == ["a"]
        assert store.count(filter="state = 'open'") == 1
        assert store.list(filter="id = 'a' AND state = 'open'") == []
        assert store.get("a", columns=["state"]) == {"id": "a", "state": "closed"}


def test_newest_of_three_versions(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest", gc_grace=0) as store:
        for version, place in enumerate(("base", "generation", "generation", "memtable", "memtable")):
            store.add({"id": "a", "n": version})
            move(store, place)
            assert numbers(store) == [version]
            for earlier in range(version):
                assert store.count(filter="n = $n", params={"n": earlier}) == 0


def test_the_last_of_a_batch_wins(path: Path) -> None:
    rows = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}]
    for _, store in each_stage(path, SCHEMA, rows):
        assert [(row["id"], row["n"]) for row in store.list()] == [("a", 3), ("b", 2)]
        assert store.count(filter="n = 1") == 0


def test_pages_cover_every_row_once(path: Path) -> None:
    with GenericStore.open(path, schema=SCHEMA, read="latest", gc_grace=0) as store:
        for first, place in ((0, "base"), (25, "generation"), (50, "generation"), (75, "memtable")):
            store.add({"id": f"r{n:03}", "n": n} for n in range(first, first + 25))
            move(store, place)
        store.add({"id": f"r{n:03}", "n": n} for n in range(0, 100, 10))

        by_offset: list[int] = []
        for offset in range(0, 110, 9):
            by_offset += numbers(store, offset=offset, limit=9)
        assert by_offset == list(range(100))

        by_key: list[str] = []
        while page := store.list(columns=["id"], limit=9, after=by_key[-1] if by_key else None):
            by_key += [row["id"] for row in page]
            if len(by_key) == 45:
                store.flush()
        assert by_key == [f"r{n:03}" for n in range(100)]

        assert numbers(store, "n >= 50", after="r059", limit=2) == [60, 61]
        assert numbers(store, limit=0) == []
        assert numbers(store, offset=100) == []


def test_ids_sort_by_code_point(path: Path) -> None:
    ids = ["a", "B", "\N{GRINNING FACE}", "\uffee", "é", "", "aa"]
    for _, store in each_stage(path, SCHEMA, [{"id": i} for i in ids]):
        assert [row["id"] for row in store.list(columns=["id"])] == sorted(ids)
        assert [row["id"] for row in store.list(columns=["id"], after="a")] == sorted(i for i in ids if i > "a")


def test_hard_ids(path: Path) -> None:
    rows = [{"id": i, "state": i, "n": n} for n, i in enumerate(HARD_IDS)]
    for stage, store in each_stage(path, SCHEMA, rows):
        assert store.count() == len(HARD_IDS)
        for n, i in enumerate(HARD_IDS):
            row = store.get(i, columns=["state", "n"])
            assert row == {"id": i, "state": i, "n": n}, stage
            assert numbers(store, "id = $id", params={"id": i}) == [n], stage
            assert numbers(store, "state = $it", params={"it": i}) == [n], stage
            assert numbers(store, {"id": i}) == [n], stage
            quoted = i.replace("'", "''")
            assert numbers(store, f"id = '{quoted}'") == [n], stage
        assert store.get("O''Brien") is None
        assert store.get("%") is None


def test_hard_column_names(path: Path) -> None:
    names = PLAIN_COLUMNS + QUOTED_COLUMNS
    schema: SchemaDeclaration = {"id": "string", **dict.fromkeys(names, "int64")}
    rows = [{"id": f"r{r}", **{name: r * 1000 + c for c, name in enumerate(names)}} for r in range(3)]
    for stage, store in each_stage(path, schema, rows):
        assert store.list() == rows, stage
        for c, name in enumerate(names):
            expected = [{"id": "r1", name: 1000 + c}]
            assert store.list(filter={name: 1000 + c}, columns=[name]) == expected, (stage, name)
            assert store.list(filter=f'"{name}" = $v', params={"v": 1000 + c}, columns=[name]) == expected
        for name in PLAIN_COLUMNS:
            assert store.count(filter=f"{name} >= 1000 AND {name} < 2000") == 1, (stage, name)


def test_five_hundred_columns(path: Path) -> None:
    names = [f"column_{n:03}" for n in range(500)]
    rows = [{"id": "a", **{name: n for n, name in enumerate(names)}}, {"id": "b", names[499]: -1}]
    for stage, store in each_stage(path, {"id": "string", **dict.fromkeys(names, "int32")}, rows):
        assert store.get("a") == rows[0], stage
        assert store.list(filter="column_499 < 0", columns=["column_499"]) == [{"id": "b", "column_499": -1}]


@pytest.mark.parametrize("where", ["scor > 1", '"scor" > 1', {"scor": 1.0}])
def test_unknown_column_in_a_filter(store: GenericStore, where: object) -> None:
    with pytest.raises(QueryError) as error:
        numbers(store, where)
    assert error.value.code == "query-column"
    assert error.value.column == "scor"
    assert "did you mean `score`" in str(error.value)
    for name in SCHEMA:
        assert f"`{name}`" in str(error.value)


def test_column_names_are_exact(store: GenericStore) -> None:
    with pytest.raises(QueryError) as error:
        store.count(filter="Score > 1")
    assert error.value.code == "query-column"
    with pytest.raises(QueryError) as error:
        store.list(columns=["scores"])
    assert (error.value.code, error.value.column) == ("query-column", "scores")
    with pytest.raises(QueryError):
        store.get("r1", columns=["nope"])


@pytest.mark.parametrize(
    "where",
    [
        "score > 'abc'",
        "state > 1 + ok",
        "score + 1",
        "state",
        "n >",
        "no_such_function(n) = 1",
        "n = 1; DROP TABLE x",
        "n IN (SELECT n FROM x)",
        {"n": "one"},
        {"ok": 1.5},
    ],
)
def test_a_filter_that_makes_no_sense(store: GenericStore, where: object) -> None:
    with pytest.raises(QueryError):
        numbers(store, where)
    assert store.count() == 10


def test_filters(store: GenericStore) -> None:
    assert numbers(store) == list(range(10))
    assert numbers(store, "state = 'even' AND n > 4") == [6, 8]
    assert numbers(store, "score >= 4.5") == [9]
    assert numbers(store, "ok") == [5, 6, 7, 8, 9]
    assert numbers(store, "NOT ok AND n % 2 = 1") == [1, 3]
    assert numbers(store, "n IN (1, 5, 9, 99)") == [1, 5, 9]
    assert numbers(store, "id LIKE 'r%' AND n BETWEEN 3 AND 4") == [3, 4]
    assert numbers(store, {"state": "odd", "ok": True}) == [5, 7, 9]
    assert numbers(store, {}) == list(range(10))
    assert numbers(store, "false") == []
    assert store.count(filter={"ok": False}) == 5


def test_parameters(store: GenericStore) -> None:
    assert numbers(store, "n = $n", params={"n": 3}) == [3]
    assert numbers(store, "score > $s", params={"s": 3.9}) == [8, 9]
    assert numbers(store, "score > $s", params={"s": 4}) == [9]
    assert numbers(store, "ok = $t AND state = $s", params={"t": True, "s": "even"}) == [6, 8]
    assert numbers(store, "n > $a AND n < $b OR n = $a", params={"a": 2, "b": 5}) == [2, 3, 4]
    assert numbers(store, "state = $s", params={"s": "x' OR 1=1 --"}) == []
    assert numbers(store, "state = $s", params={"s": None}) == [], "nothing equals null"
    assert numbers(store, "state = '$s' OR n = $s", params={"s": 7}) == [7], "a quoted $s is text"
    assert store.count(filter="n >= $n", params={"n": 8}) == 2
    assert store.count(filter="n < $n", params={"n": 2**63 - 1}) == 10


@pytest.mark.parametrize(
    ("where", "params", "about"),
    [("n = $n", None, "n"), ("n = $n", {"m": 1}, "n"), ("n = 1", {"m": 1}, "m"), ("n = $n", {"n": 1, "m": 2}, "m")],
)
def test_parameters_that_do_not_match(
    store: GenericStore, where: str, params: dict[str, object] | None, about: str
) -> None:
    with pytest.raises(QueryError) as error:
        store.list(filter=where, params=params)
    assert error.value.code == "query-parameter"
    assert f"`{about}`" in str(error.value)


def test_null_in_filters(path: Path) -> None:
    rows = [{"id": "a", "state": None}, {"id": "b", "state": ""}, {"id": "c", "state": "x"}]
    for stage, store in each_stage(path, SCHEMA, rows):
        filters: dict[str, str | dict[str, object]] = {
            "null": "state IS NULL",
            "mapping": {"state": None},
            "empty": "state = ''",
            "not": "state != 'x'",
        }
        ids = {name: [row["id"] for row in store.list(filter=chosen)] for name, chosen in filters.items()}
        assert ids == {"null": ["a"], "mapping": ["a"], "empty": ["b"], "not": ["b"]}, stage


def test_filters_on_time_and_lists(path: Path) -> None:
    schema: SchemaDeclaration = {
        "id": "string",
        "at": "timestamp",
        "tags": {"type": "list", "item": "string"},
    }
    start = datetime(2024, 2, 29, 12, tzinfo=UTC)
    rows = [{"id": f"r{h}", "at": start.replace(hour=h), "tags": [f"t{h}", "all"]} for h in range(5)]
    for stage, store in each_stage(path, schema, rows):
        late = store.list(filter="at >= $at", params={"at": start.replace(hour=3)}, columns=["id"])
        assert [row["id"] for row in late] == ["r3", "r4"], stage
        assert store.count(filter={"at": start.replace(hour=2)}) == 1
        assert store.count(filter="at > timestamp '2024-02-29T03:30:00Z'") == 1, stage
        assert store.count(filter="array_has(tags, 't2')") == 1, stage
        assert store.count(filter="array_has(tags, $t)", params={"t": "all"}) == 5, stage


def test_projection(path: Path) -> None:
    schema: SchemaDeclaration = {
        "b": "int64",
        "video": {"type": "binary", "blob": True},
        "id": "string",
        "a": "binary",
    }
    rows = [{"id": "x", "b": 1, "a": b"small", "video": b"big"}]
    for stage, store in each_stage(path, schema, rows):
        assert [list(row.items()) for row in store.list()] == [[("id", "x"), ("b", 1), ("a", b"small")]], stage
        assert list(store.list(columns=["video", "b"])[0].items()) == [("id", "x"), ("video", b"big"), ("b", 1)]
        assert list(store.list(columns=["b", "id", "b"])[0].items()) == [("id", "x"), ("b", 1)]
        assert store.list(columns=[]) == [{"id": "x"}]
        assert store.get("x") == {"id": "x", "b": 1, "a": b"small"}
        assert store.get("x", columns=["video"]) == {"id": "x", "video": b"big"}
        assert store.count(filter="video IS NOT NULL") == 1


def test_arguments_that_make_no_sense(store: GenericStore) -> None:
    with pytest.raises(ValueError, match="limit"):
        store.list(limit=-1)
    with pytest.raises(ValueError, match="offset"):
        store.list(offset=-1)
    with pytest.raises(ValueError, match="read"):
        store.list(read="newest")  # pyright: ignore[reportArgumentType]
