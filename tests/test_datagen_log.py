"""Appending to the log: what is accepted, what is refused and how, and that re-sends change nothing."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

from lance_context import (
    AlreadyExistsError,
    AppendResult,
    ConfigChangedWarning,
    ConflictError,
    DatagenStore,
    DatagenStreamWriter,
    FencedError,
    LanceContextError,
    NotFoundError,
    RowError,
    StateError,
)
from tests.agents import Opener, both

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import AsyncDatagenStore, Event, FieldWrite, StepPosition

DRAFT: StepPosition = {"step_name": "draft"}


def write(value: object, name: str = "f", op: str = "set") -> FieldWrite:
    return {"field_name": name, "field_type": "t", "value": value, "op": op}  # type: ignore[typeddict-item]


async def refused(
    store: AsyncDatagenStore, events: object, kind: type[LanceContextError], code: str
) -> LanceContextError:
    """The error of an append, which must have changed nothing."""
    before = [event async for event in store.events()]
    with pytest.raises(kind) as raised:
        await store.append(events)  # type: ignore[arg-type]
    assert (type(raised.value), raised.value.code, raised.value.retryable) == (kind, code, False)
    assert [event async for event in store.events()] == before
    return raised.value


@both
async def test_a_stream_from_its_creation_to_its_end(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r", query_tags={"kind": "essay"})
        assert writer.next_seq == 2
        assert await store.append(writer.step_started({"step_name": "refine", "step_kind": "loop"})) == AppendResult(
            1, 1
        )
        events = writer.step_completed(DRAFT, [write("x"), write(b"png", "cover")])
        assert await store.append_checkpoint(events) == AppendResult(3, 3)
        assert await store.append([writer.item_terminal()]) == AppendResult(1, 1)
        folded = await store.fold_item("5")
        assert folded is not None
        assert (folded.status, folded.fields["f"].value, folded.query_tags) == ("completed", "x", {"kind": "essay"})
        assert [event.get("item_seq") for event in await store.item_events("5")] == [1, 2, 3, 4, 5, 6]


@both
async def test_re_sends_are_accepted_and_change_nothing(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        checkpoint = writer.step_completed(DRAFT, [write(b"\x00" * 100)])
        assert (await store.append_checkpoint(checkpoint)).new == 2
        before = await store.fold_item("5")
        for _ in range(3):
            assert await store.append_checkpoint(checkpoint) == AppendResult(2, 0)
            assert await store.append([*checkpoint, *checkpoint]) == AppendResult(4, 0)
        assert await store.fold_item("5") == before
        # As read back, without the bytes of the blob.
        assert await store.append(await store.item_events("5")) == AppendResult(3, 0)
        later = [{**event, "event_ts": checkpoint[0]["event_ts"].replace(year=2020)} for event in checkpoint]  # type: ignore[typeddict-item]
        assert (await store.append(later)).new == 0  # type: ignore[arg-type]
        await store.append(writer.item_terminal())
        assert (await store.append_checkpoint(checkpoint)).new == 0, "also behind the end"


@both
async def test_one_append_may_hold_several_items_and_is_all_or_nothing(opener: Opener) -> None:
    async with await opener.open() as store:
        writers = [DatagenStreamWriter(str(n), run_id="r") for n in range(3)]
        created = [writer.item_created() for writer in writers]
        completed = [event for writer in writers for event in writer.step_completed(DRAFT)]
        assert await store.append([*created, *completed]) == AppendResult(6, 6)
        mixed = [writers[0].step_completed({"step_name": "b"})[0], DatagenStreamWriter("9", run_id="r").item_created()]
        gap = DatagenStreamWriter("1", run_id="r", writer_epoch=writers[1].writer_epoch)
        gap.item_created()
        later = [gap.step_completed({"step_name": "gap", "iteration": [n]})[0] for n in range(5)]
        await refused(store, [*mixed, later[-1]], StateError, "stream-gap")
        assert (await store.append(mixed)).new == 2


@both
async def test_creating_an_item_twice(opener: Opener) -> None:
    async with await opener.open() as store:
        await store.open_stream("5", run_id="r")
        with pytest.raises(AlreadyExistsError) as raised:
            await store.open_stream("5", run_id="r")
        assert raised.value.code == "item-exists"
        assert "resume" in str(raised.value)


@both
async def test_an_item_that_was_never_created(opener: Opener) -> None:
    async with await opener.open() as store:
        assert await store.resume_stream("5", run_id="r") is None
        assert await store.fold_item("5") is None
        assert await store.item_events("5") == []
        assert await store.item_failures("5") == []
        writer = DatagenStreamWriter("5", run_id="r")
        writer.item_created()
        await refused(store, writer.step_completed(DRAFT), NotFoundError, "item-not-found")


@both
async def test_a_zombie_writer_after_a_resume(opener: Opener) -> None:
    async with await opener.open() as store:
        zombie = await store.open_stream("5", run_id="r1")
        await store.append_checkpoint(zombie.step_completed({"step_name": "a"}, [write(1)]))
        heir = await store.resume_stream("5", run_id="r2")
        assert heir is not None
        assert (heir.attempt, heir.next_seq, heir.run_id) == (1, 4, "r2")
        late = zombie.step_completed({"step_name": "late"}, [write("late")])
        taken_over = heir.step_completed({"step_name": "b"}, [write(2)])
        assert taken_over[0].get("resumed_from") == (await store.item_events("5"))[-1].get("event_id")
        assert taken_over[1].get("resumed_from") is None
        await store.append_checkpoint(taken_over)
        error = await refused(store, late, FencedError, "stream-fenced")
        assert "do not reopen" in str(error)
        folded = await store.fold_item("5", strict=True)
        assert folded is not None
        assert (folded.fields["f"].value, folded.last_attempt, folded.run_ids) == (2, 1, ["r1", "r2"])
        assert [entry.step_name for entry in folded.trajectory] == ["a", "b"]


@both
async def test_of_two_resumes_at_one_head_the_first_to_append_wins(opener: Opener) -> None:
    async with await opener.open() as store:
        await store.open_stream("5", run_id="r")
        first, second = [await store.resume_stream("5", run_id=f"r{n}") for n in range(2)]
        assert first is not None
        assert second is not None
        assert (first.attempt, second.attempt) == (1, 1)
        await store.append_checkpoint(second.step_completed(DRAFT))
        await refused(store, first.step_completed(DRAFT), FencedError, "stream-fenced")
        assert await store.overview()


@both
async def test_a_resume_that_wakes_up_late(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        await store.append_checkpoint(writer.step_completed({"step_name": "a"}))
        silent = await store.resume_stream("5", run_id="silent")
        assert silent is not None
        await store.append_checkpoint(writer.step_completed({"step_name": "b"}))
        awake = await store.resume_stream("5", run_id="awake")
        assert awake is not None
        assert (silent.next_seq, awake.next_seq) == (3, 4)
        for n in range(3):
            await store.append_checkpoint(awake.step_completed({"step_name": "c", "iteration": [n]}))
        await refused(store, silent.step_completed({"step_name": "late"}), FencedError, "stream-fenced")
        folded = await store.fold_item("5", strict=True)
        assert folded is not None
        assert [entry.step_name for entry in folded.trajectory] == ["a", "b", "c", "c", "c"]


@both
async def test_another_event_at_a_taken_place(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r", writer_epoch="e")
        twin = DatagenStreamWriter("5", run_id="r", writer_epoch="e")
        twin.item_created()
        await store.append_checkpoint(writer.step_completed(DRAFT, [write(1)]))
        other = twin.step_completed(DRAFT, [write(2)])
        await refused(store, other, ConflictError, "event-conflict")


@both
async def test_the_end_stands_right_behind_the_last_event(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        in_flight = writer.step_completed(DRAFT)
        terminal = writer.item_terminal()
        await refused(store, terminal, StateError, "stream-gap")
        await store.append_checkpoint(in_flight)
        await store.append(terminal)
        with pytest.raises(StateError) as raised:
            await store.resume_stream("5", run_id="r")
        assert raised.value.code == "item-terminal"
        assert await store.pending(["5"]) == []


@both
async def test_events_after_the_end(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r", writer_epoch="e")
        twin = DatagenStreamWriter("5", run_id="r", writer_epoch="e")
        twin.item_created()
        await store.append(writer.item_terminal())
        twin.step_started({"step_name": "s", "step_kind": "loop"})
        await refused(store, twin.step_completed(DRAFT), StateError, "item-terminal")
        assert (await store.overview()).completed == 1


@both
async def test_wrong_shapes_name_the_event_and_the_key(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        good = writer.step_completed(DRAFT, [write(1)])

        async def wrong(key: str, **changes: object) -> None:
            changed: list[Any] = [good[0], {**good[1], **changes}]
            error = await refused(store, changed, RowError, "invalid-event")
            assert (error.row, error.column) == (1, key), changes

        await wrong("event_id", event_id="x")
        await wrong("checkpoint_id", checkpoint_id="0:other:2")
        await wrong("item_seq", item_seq=0)
        await wrong("root_item_id", root_item_id="6")
        await wrong("event_type", event_type="STEP_ENDED")
        await wrong("status", status="running")
        await wrong("iteration", iteration="01")
        await wrong("event_ts", event_ts="yesterday")
        await wrong("run_id", run_id=5)
        await wrong("traceback", traceback="x")
        await wrong("nonsense", nonsense=1)
        bad_value: list[Any] = [{**good[0], "value": {"kind": "int", "value": "1"}}]
        assert (await refused(store, bad_value, RowError, "invalid-event")).column == "value"
        bad_value = [{**good[0], "value": {"kind": "int", "value": 1, "unit": "s"}}]
        assert "unit" in str(await refused(store, bad_value, RowError, "invalid-event"))
        bad_value = [{**good[0], "value": 1}]
        assert (await refused(store, bad_value, RowError, "invalid-event")).row == 0
        missing: Any = {key: value for key, value in good[1].items() if key != "run_id"}
        assert (await refused(store, missing, RowError, "invalid-event")).column == "run_id"
        assert (await store.append_checkpoint(good)).new == 2


@both
async def test_what_is_no_event_at_all(opener: Opener) -> None:
    async with await opener.open() as store:
        for nonsense in ("events", b"events", 5, None, ["x"]):
            with pytest.raises(TypeError):
                await store.append(nonsense)  # type: ignore[arg-type]
        assert await store.append([]) == AppendResult(0, 0)


@both
async def test_a_checkpoint_is_one_step(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        one = writer.step_completed({"step_name": "a"}, [write(1)])
        two = writer.step_completed({"step_name": "b"}, [write(2)])

        async def wrong(events: list[Event]) -> None:
            with pytest.raises(RowError) as raised:
                await store.append_checkpoint(events)
            assert raised.value.code == "invalid-event"

        await wrong([])
        await wrong(one[:1])
        await wrong([*one, *two])
        await wrong([writer.item_failed(DRAFT, "E")])
        assert await store.append([*one, *two]) == AppendResult(4, 4)


@both
async def test_blobs_are_checked_when_they_are_written(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        events: list[Any] = writer.step_completed(DRAFT, [write(b"png")])
        for change in ({"size": 4}, {"checksum": "0" * 16}, {"bytes": None}):
            changed = [{**events[0], "value": {**events[0]["value"], **change}}, events[1]]
            assert (await refused(store, changed, RowError, "invalid-event")).column == "value"
        await store.append_checkpoint(events)


@both
async def test_another_config_warns_or_is_refused(opener: Opener) -> None:
    async with await opener.open() as store:
        await store.open_stream("5", run_id="r", config={"model": "a", "n": 1})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for same in ({"n": 1, "model": "a"}, None):
                assert await store.resume_stream("5", run_id="r", config=same) is not None
        with pytest.warns(ConfigChangedWarning, match="another config"):
            assert await store.resume_stream("5", run_id="r", config={"model": "b"}) is not None
        with pytest.raises(StateError) as raised:
            await store.resume_stream("5", run_id="r", config={"model": "b"}, on_config_change="error")
        assert raised.value.code == "config-changed"
        with pytest.raises(ValueError, match="on_config_change"):
            await store.resume_stream("5", run_id="r", on_config_change="ignore")  # type: ignore[arg-type]


@both
async def test_resuming_takes_a_folded_item_as_it_is(opener: Opener) -> None:
    async with await opener.open() as store:
        writer = await store.open_stream("5", run_id="r")
        await store.append_checkpoint(writer.step_completed({"step_name": "a", "iteration": [1]}, [write(1)]))
        folded = await store.fold_item("5")
        assert folded is not None
        resumed = DatagenStreamWriter.resuming(folded, run_id="r2")
        again = resumed.step_completed(folded.completed[0], [write(2)])
        assert (await store.append_checkpoint(again)).new == 2
        after = await store.fold_item("5", strict=True)
        assert after is not None
        assert (after.fields["f"].value, len(after.trajectory)) == (2, 1)


@both
async def test_a_read_only_handle_writes_nothing(opener: Opener) -> None:
    async with await opener.open() as store, await opener.open_existing(read_only=True) as reader:
        writer = await store.open_stream("5", run_id="r")
        for call in (
            lambda: reader.open_stream("6", run_id="r"),
            lambda: reader.append_checkpoint(writer.step_completed(DRAFT)),
        ):
            with pytest.raises(StateError) as raised:
                await call()
            assert raised.value.code == "read-only"
        assert [str(item.item_id) for item in await reader.items()] == ["5"]


@both
async def test_a_closed_handle(opener: Opener) -> None:
    store = await opener.open()
    writer = await store.open_stream("5", run_id="r")
    await store.close()
    await store.close()
    for call in (lambda: store.append(writer.item_terminal()), lambda: store.fold_item("5"), store.overview):
        with pytest.raises(StateError) as raised:
            await call()
        assert raised.value.code == "closed"


def test_an_id_that_is_none_is_a_value_error(path: Path) -> None:
    with DatagenStore.open(path, maintenance=None) as store:
        for text in ("", "a/b", "https://example.org"):
            with pytest.raises(ValueError, match="from_source_key"):
                store.fold_item(text)
        with pytest.raises(TypeError, match="did you mean"):
            store.pending("5")
        with pytest.raises(TypeError, match="DatagenItemId"):
            store.fold_item(5)  # type: ignore[arg-type]
