"""Items as tables: types of columns, mixtures, blobs, levels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pyarrow
import pytest

from lance_context import DatagenStreamWriter, QueryError
from tests.agents import Opener, both

if TYPE_CHECKING:
    from lance_context import AsyncDatagenStore, Event, FieldWrite


async def fill(store: AsyncDatagenStore, items: dict[str, dict[str, Any]]) -> None:
    """Completes items whose fields are set, or appended to if they are given as tuples."""
    for item_id, fields in items.items():
        async with store.stream(item_id, run_id="r", query_tags={"id": item_id}) as item:
            async with item.step("s") as step:
                for name, value in fields.items():
                    if isinstance(value, tuple):
                        for one in cast("tuple[object, ...]", value):
                            step.append(name, one)
                    else:
                        step.set(name, value)
            item.complete()


@both
async def test_one_row_an_item_and_one_column_a_field(opener: Opener) -> None:
    async with await opener.open() as store:
        await fill(
            store,
            {
                "1": {"text": "a", "n": 1, "x": 0.5, "ok": True, "tags": ("p", "q"), "meta": {"a": 1}, "b": b"png"},
                "2": {"text": "b", "n": 2, "x": 2, "tags": ("r",), "meta": None},
                "2/expand:0": {"text": "child"},
            },
        )
        await store.open_stream("3", run_id="r")
        table = await store.to_arrow()
        assert table.column_names == [
            "item_id",
            "root_item_id",
            "status",
            "query_tags",
            "meta",
            "n",
            "ok",
            "tags",
            "text",
            "x",
        ]
        assert table.column("item_id").to_pylist() == ["1", "2"]
        assert [json.loads(tags) for tags in table.column("query_tags").to_pylist()] == [{"id": "1"}, {"id": "2"}]
        assert table.column("n").to_pylist() == [1, 2]
        assert table.schema.field("n").type == pyarrow.int64()
        assert table.column("x").to_pylist() == [0.5, 2.0]
        assert table.column("ok").to_pylist() == [True, None]
        assert table.column("tags").to_pylist() == [["p", "q"], ["r"]]
        assert table.column("meta").to_pylist() == ['{"a": 1}', None]
        assert (await store.to_arrow(fields=["b"])).column("b").to_pylist() == [b"png", None]
        assert (await store.to_arrow(status=None)).num_rows == 3
        assert (await store.to_arrow(status="running")).column("item_id").to_pylist() == ["3"]
        assert (await store.to_arrow(level="all")).num_rows == 3
        assert (await store.to_arrow(level="leaves")).column("item_id").to_pylist() == ["1", "2/expand:0"]
        frame = await store.to_pandas(fields=["n"])
        assert frame["n"].tolist() == [1, 2]
        assert (await store.to_polars(fields=["n"]))["n"].to_list() == [1, 2]


@both
async def test_mixtures_become_json_or_an_error(opener: Opener) -> None:
    async with await opener.open() as store:
        await fill(
            store,
            {
                "1": {"v": "a", "w": 1, "status": "mine", "z": b"png"},
                "2": {"v": 1, "w": (2, 3), "z": "text"},
                "3": {"v": [1], "w": 4},
            },
        )
        table = await store.to_arrow()
        assert table.column("v").to_pylist() == ['"a"', "1", "[1]"]
        assert table.column("w").to_pylist() == ["1", "[2, 3]", "4"]
        assert table.column("field.status").to_pylist() == ["mine", None, None]
        with pytest.raises(QueryError, match=r"`v`.*`1`") as raised:
            await store.to_arrow(schema={"v": "int64"})
        assert raised.value.code == "invalid-query"
        assert "`2`" not in str(raised.value)
        with pytest.raises(QueryError, match=r"`z`.*blobs"):
            await store.to_arrow(fields=["z"])


@both
async def test_a_schema_gives_the_types(opener: Opener) -> None:
    async with await opener.open() as store:
        await fill(store, {"1": {"n": 1, "t": "a", "l": (1, 2)}, "2": {"n": 2, "l": (1.5,)}})
        table = await store.to_arrow(
            schema={"n": "int16", "t": pyarrow.large_string(), "l": pyarrow.list_(pyarrow.float32())}
        )
        assert table.column_names[4:] == ["n", "t", "l"]
        assert [str(field.type) for field in table.schema][4:] == ["int16", "large_string", "list<item: float>"]
        assert table.column("l").to_pylist() == [[1, 2], [1.5]]
        empty = await store.to_arrow(status="filtered", schema=pyarrow.schema({"n": pyarrow.int8()}))
        assert (empty.num_rows, str(empty.schema.field("n").type)) == (0, "int8")


@both
async def test_arguments_are_checked(opener: Opener) -> None:
    async with await opener.open() as store:
        with pytest.raises(ValueError, match="status"):
            await store.to_arrow(status="done")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="level"):
            await store.to_arrow(level="root")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="did you mean"):
            await store.to_arrow(fields="n")
        assert (await store.to_arrow()).num_rows == 0


@both
async def test_more_items_than_a_page(opener: Opener) -> None:
    async with await opener.open() as store:
        events: list[Event] = []
        for n in range(1001):
            writer = DatagenStreamWriter(str(n), run_id="r")
            write: FieldWrite = {"field_name": "n", "field_type": "int", "value": n}
            events += [
                writer.item_created(),
                *writer.step_completed({"step_name": "s"}, [write]),
                writer.item_terminal(),
            ]
        await store.append(events)
        table = await store.to_arrow()
        assert sorted(table.column("n").to_pylist()) == list(range(1001))
