"""What reads the log: folds, items by filter, counts, failures, events behind a cursor, blobs."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from lance_context import BlobRef, FoldedItem, NotFoundError, QueryError
from tests.agents import Opener, both

if TYPE_CHECKING:
    from lance_context import AsyncDatagenStore, AsyncItemStream, FieldWrite, StepPosition


class PlantedError(Exception):
    """What the tests plant."""


def write(value: object, name: str = "f", op: str = "set") -> FieldWrite:
    return {"field_name": name, "field_type": "t", "value": value, "op": op}  # type: ignore[typeddict-item]


async def fold(store: AsyncDatagenStore, item_id: str = "5") -> FoldedItem:
    folded = await store.fold_item(item_id, strict=True)
    assert folded is not None
    return folded


@both
async def test_a_folded_item_has_it_all(opener: Opener) -> None:
    async with await opener.open() as store:
        before = datetime.now(UTC)
        writer = await store.open_stream("5", run_id="r", query_tags={"kind": "essay"}, config={"a": 1})
        loop: StepPosition = {"step_name": "refine", "step_kind": "loop"}
        draft: StepPosition = {"step_name": "draft", "enclosing_step": "refine", "iteration": [0]}
        await store.append(writer.step_started(loop))
        await store.append_checkpoint(
            writer.step_completed(
                draft, [write("x"), write(1, "n", "append"), write(2, "n", "append")], attributes={"t": 1}
            )
        )
        await store.append(writer.item_failed(loop, "PlantedError", "no", "Traceback"))
        item = await fold(store)
        assert (item.item_id, item.root_item_id, item.parent_item_id) == ("5", "5", None)
        assert (item.status, item.failed, item.is_terminal) == ("running", True, False)
        assert (item.last_item_seq, item.last_attempt) == (7, 0)
        assert item.last_event_id == (await store.item_events("5"))[-1].get("event_id")
        assert (item.fields["f"].op, item.fields["f"].value, item.fields["f"].values) == ("set", "x", ["x"])
        assert (item.fields["n"].op, item.fields["n"].value, item.fields["n"].values) == ("append", 2, [1, 2])
        assert (item.fields["n"].field_type, item.fields["n"].codec_version) == ("t", 0)
        full = {"step_index": 0, "selector_step": None, "step_kind": "leaf", **draft}
        assert item.fields["n"].step == full
        assert item.completed == [full]
        assert [frame["step_name"] for frame in item.open_frames] == ["refine"]
        assert item.started == item.open_frames
        (entry,) = item.trajectory
        assert (entry.position, entry.attempt, entry.item_seq, entry.attributes) == (full, 0, 6, {"t": 1})
        assert (item.query_tags, item.run_ids, item.fenced, item.problems) == ({"kind": "essay"}, ["r"], [], [])
        assert item.config_hash is not None
        assert item.created_at is not None
        assert item.updated_at is not None
        assert before <= item.created_at <= item.updated_at <= datetime.now(UTC)
        (failure,) = item.failures
        assert item.last_failure is failure
        assert (failure.error_type, failure.traceback) == ("PlantedError", "Traceback")
        assert item["status"] == item.status
        assert item.fields["f"]["value"] == "x"
        assert item.failures[0]["error_type"] == "PlantedError"
        with pytest.raises(KeyError):
            _ = item["nonsense"]
        with pytest.raises(AttributeError):
            item.status = "completed"  # type: ignore[misc]
        assert "5" in repr(item)


@both
async def test_every_kind_of_value_comes_back(opener: Opener) -> None:
    values: list[Any] = ["", "💡\x00", 0, -(2**63), 2**70, 1.5, -0.0, math.inf, True, None, [], {"a": [None, 1.0]}]
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        writes = [write(value, "f", "append") for value in values]
        await store.append_checkpoint(writer.step_completed({"step_name": "s"}, [*writes, write(math.nan, "nan")]))
        await store.flush()
        item = await fold(store)
        assert item.values("f") == values
        assert [type(value) for value in item.values("f")] == [type(value) for value in values]
        assert math.copysign(1, item.values("f", object)[6]) == -1  # type: ignore[arg-type]
        assert math.isnan(item.value("nan", float))


@both
async def test_blobs_are_loaded_when_they_are_asked_for(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        writes = [
            write(b"png", "cover"),
            *(write(bytes([n]) * n, "pages", "append") for n in range(4)),
            write("x", "pages", "append"),
        ]
        await store.append_checkpoint(writer.step_completed({"step_name": "s"}, writes))
        item = await fold(store)
        cover = item.value("cover")
        assert isinstance(cover, BlobRef)
        assert (cover.size, item.blob_event_ids["cover"]) == (3, cover.event_id)
        assert len(item.blob_event_ids["pages"]) == 4
        assert await store.load_blob(item, "cover") == await store.get_blob(cover.event_id) == b"png"
        assert [await store.load_blob(item, "pages", n) for n in range(4)] == [
            b"",
            b"\x01",
            b"\x02\x02",
            b"\x03\x03\x03",
        ]
        with pytest.raises(TypeError, match="no blob"):
            await store.load_blob(item, "pages")
        loaded = await store.fold_item("5", load_blobs=True)
        assert loaded is not None
        assert (loaded.value("cover", bytes), loaded.values("pages")[3]) == (b"png", b"\x03\x03\x03")
        assert await store.load_blob(loaded, "cover") == b"png"
        events = await store.item_events("5")
        assert all((event.get("value") or {}).get("bytes") is None for event in events)
        for event_id in (events[0].get("event_id", ""), "nonsense"):
            with pytest.raises(NotFoundError):
                await store.get_blob(event_id)


@both
async def test_items_by_filter_and_page(opener: Opener) -> None:
    async with await opener.open() as store:

        async def worker(item: AsyncItemStream) -> None:
            if item.key == "3":
                raise PlantedError
            if item.key == "4":
                item.filter_out()

        for kind in ("a", "b"):
            ids = [f"{n}" if kind == "a" else f"{n}{kind}" for n in range(5)]
            await store.run(ids, worker, run_id=kind, query_tags={"kind": kind, "n": 1})

        async def found(**options: Any) -> list[str]:  # noqa: ANN401
            return [str(item.item_id) for item in await store.items(**options)]

        everything = await found()
        assert everything == sorted(everything)
        assert len(everything) == 10
        assert await found(filter={"status": "filtered"}) == ["4"]
        assert await found(filter={"failed": True}) == ["3"]
        assert await found(filter={"tags.kind": "b"}) == [f"{n}b" for n in range(5)]
        assert await found(filter={"item_id": "2"}) == ["2"]
        assert await found(limit=3) == everything[:3]
        pages: list[str] = []
        while page := await found(limit=3, after=pages[-1] if pages else None):
            pages += page
        assert pages == everything
        with pytest.raises(QueryError):
            await found(filter={"nonsense": 1})


@both
async def test_statuses_and_pending_keep_the_order_of_the_question(opener: Opener) -> None:
    async with await opener.open() as store:
        for name in ("b", "a"):
            await store.open_stream(name, run_id="r")
        async with store.stream("c", run_id="r") as item:
            item.complete()
        assert await store.root_item_statuses(["c", "x", "a"]) == {"a": "running", "c": "completed"}
        assert [str(item_id) for item_id in await store.pending(["x", "c", "b", "a"])] == ["x", "b", "a"]


@both
async def test_events_behind_a_cursor(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("0", run_id="r")
        for n in range(250):
            await store.append_checkpoint(writer.step_completed({"step_name": "s", "iteration": [n]}))
        pairs = [pair async for pair in store.events()]
        assert [event.get("item_seq") for _, event in pairs] == list(range(1, 252))
        assert len({cursor for cursor, _ in pairs}) == len(pairs)
        for at in (0, 99, 100, 249, 250):
            rest = [event.get("item_seq") async for _, event in store.events(since=pairs[at][0])]
            assert rest == list(range(at + 2, 252))
        await store.append_checkpoint(writer.step_completed({"step_name": "last"}))
        assert len([pair async for pair in store.events(since=pairs[-1][0])]) == 1
        with pytest.raises(ValueError, match="no cursor"):
            [pair async for pair in store.events(since="nonsense")]


@both
async def test_a_log_with_problems_folds_and_says_so(opener: Opener) -> None:
    async with await opener.open() as store:
        zombie = await store.open_stream("5", run_id="r")
        heir = await store.resume_stream("5", run_id="r2")
        assert heir is not None
        # An append behind a set of another position is the one problem that the check lets pass.
        await store.append_checkpoint(heir.step_completed({"step_name": "a"}, [write(1)]))
        await store.append_checkpoint(heir.step_completed({"step_name": "b"}, [write(2, op="append")]))
        item = await store.fold_item("5")
        assert item is not None
        assert item.value("f") == 2
        assert [problem.kind for problem in item.problems] == ["append_after_set"]
        from lance_context import FormatError

        with pytest.raises(FormatError) as raised:
            await store.fold_item("5", strict=True)
        assert raised.value.code == "item-damaged"
        assert zombie.attempt == 0
