"""Streams and steps as agents use them: what is written when, what a resume finds, and what errors leave behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from lance_context import AsyncDatagenStore, BlobRef, DatagenStore, FencedError, FoldedItem, RowError, StateError
from tests.agents import Opener, both

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import AsyncItemStream


class PlantedError(Exception):
    """What the tests plant."""


class Plan(BaseModel):
    """A value with a type of its own."""

    title: str
    steps: list[int] = []


async def fold(store: AsyncDatagenStore, item_id: str = "5") -> FoldedItem:
    folded = await store.fold_item(item_id, strict=True)
    assert folded is not None
    return folded


async def kinds(store: AsyncDatagenStore, item_id: str = "5") -> list[str]:
    """The types of an item's events."""
    return [event.get("event_type", "") for event in await store.item_events(item_id)]


@both
async def test_a_step_is_one_append_when_it_is_left(opener: Opener) -> None:
    async with await opener.open() as store:
        async with store.stream("5", run_id="r", query_tags={"a": 1}) as item:
            assert await kinds(store) == ["ITEM_CREATED"]
            async with item.step("draft", attributes={"model": "m"}) as step:
                assert not step.completed
                step.set("text", "hello")
                step.append("log", 1)
                step.attributes["tokens"] = 7
                assert await kinds(store) == ["ITEM_CREATED"], "setting only marks"
                assert item.values("text") == []
            assert await kinds(store) == ["ITEM_CREATED", "FIELD_SET", "FIELD_APPEND", "STEP_COMPLETED"]
            assert (item.value("text", str), item.values("log", int)) == ("hello", [1])
        folded = await fold(store)
        assert (folded.status, folded.query_tags, folded.run_ids) == ("running", {"a": 1}, ["r"])
        assert folded.trajectory[0].attributes == {"model": "m", "tokens": 7}


@both
async def test_an_item_knows_who_it_is(opener: Opener) -> None:
    async with await opener.open() as store:
        async with store.stream("a%2Fb/expand:0", run_id="r") as item:
            assert (str(item.item_id), item.key, item.run_id, item.attempt) == ("a%2Fb/expand:0", "a/b", "r", 0)
            assert (item.folded.status, item.folded.completed) == ("running", [])
            assert item.child("split", 3) == "a%2Fb/expand:0/split:3"
        async with store.stream(item.item_id, run_id="r2") as item:
            assert (item.attempt, item.folded.run_ids) == (1, ["r"])


@both
async def test_marks_are_written_when_the_stream_is_left(opener: Opener) -> None:
    async with await opener.open() as store:
        async with store.stream("done", run_id="r") as item:
            item.complete(attributes={"cost": 1.5})
            assert await kinds(store, "done") == ["ITEM_CREATED"]
        async with store.stream("out", run_id="r") as item:
            item.filter_out(reason="short", attributes={"words": 3})
        done, out = await fold(store, "done"), await fold(store, "out")
        assert (done.status, done.attributes) == ("completed", {"cost": 1.5})
        assert (out.status, out.attributes) == ("filtered", {"words": 3, "reason": "short"})
        with pytest.raises(StateError) as raised:
            async with store.stream("done", run_id="r"):
                pytest.fail("an item that has ended is not entered")
        assert raised.value.code == "item-terminal"


@both
async def test_a_resume_sees_what_was_completed(opener: Opener) -> None:
    async with await opener.open() as store:
        with pytest.raises(PlantedError):
            async with store.stream("5", run_id="r1") as item:
                for i in range(4):
                    async with item.step("draft", iteration=i) as step:
                        if i == 2:
                            raise PlantedError("at 2")
                        step.append("drafts", f"a{i}")
        ran: list[int] = []
        async with store.stream("5", run_id="r2") as item:
            assert item.values("drafts", str) == ["a0", "a1"]
            for i in range(4):
                async with item.step("draft", iteration=i) as step:
                    if not step.completed:
                        ran.append(i)
                        step.append("drafts", f"b{i}")
            assert item.values("drafts", str) == ["a0", "a1", "b2", "b3"]
            item.complete()
        folded = await fold(store)
        assert ran == [2, 3]
        assert folded.values("drafts", str) == ["a0", "a1", "b2", "b3"]
        assert [entry.attempt for entry in folded.trajectory] == [0, 0, 1, 1]
        assert [(failure.error_type, failure.recovered) for failure in folded.failures] == [("PlantedError", True)]


@both
async def test_a_step_that_is_done_again_takes_its_old_place(opener: Opener) -> None:
    async with await opener.open() as store:
        async with store.stream("5", run_id="r1") as item:
            for i in range(3):
                async with item.step("draft", iteration=i) as step:
                    step.append("drafts", f"a{i}")
                    step.set("last", i)
        async with store.stream("5", run_id="r2") as item:
            async with item.step("draft", iteration=0) as step:
                assert step.completed
                step.append("drafts", "b0")
            assert item.values("drafts", str) == ["b0", "a1", "a2"]
            assert item.value("last", int) == 2
            async with item.step("draft", iteration=2) as step:
                step.append("drafts", "b2")
            assert item.values("drafts", str) == ["b0", "a1", "b2"]
            assert item.value("last", int) == 1, "a field that is no longer written is gone"
        assert (await fold(store)).values("drafts") == ["b0", "a1", "b2"]


@both
async def test_a_failure_is_written_where_it_happened(opener: Opener) -> None:
    async with await opener.open() as store:
        with pytest.raises(PlantedError, match="no luck"):
            async with store.stream("5", run_id="r") as item:
                async with item.step("draft", iteration=3, attributes={"model": "m"}) as step:
                    step.set("text", "half")
                    raise PlantedError("no luck")
        with pytest.raises(ZeroDivisionError):
            async with store.stream("5", run_id="r") as item:
                _ = 1 // 0
        folded = await fold(store)
        assert folded.fields == {}
        first, second = folded.failures
        assert (first.error_type, first.error_dump, first.position["step_name"]) == ("PlantedError", "no luck", "draft")
        assert first.position.get("iteration") == [3]
        assert first.attributes == {"model": "m"}
        assert first.traceback is not None
        assert "test_datagen_agent.py" in first.traceback
        assert (second.error_type, second.step_name, second.position.get("step_kind")) == (
            "ZeroDivisionError",
            "",
            "root",
        )
        assert folded.failed
        assert [str(item.item_id) for item in await store.failed_items()] == ["5"]


@both
async def test_a_failure_in_nested_frames_is_written_once(opener: Opener) -> None:
    async with await opener.open() as store:
        with pytest.raises(PlantedError):
            async with (
                store.stream("5", run_id="r") as item,
                item.step("refine", step_kind="loop") as outer,
                outer.step("round", step_kind="sequence", iteration=1) as inner,
                inner.step("draft"),
            ):
                raise PlantedError
        assert await kinds(store) == ["ITEM_CREATED", "STEP_STARTED", "STEP_STARTED", "FAILED"]
        folded = await fold(store)
        (failure,) = folded.failures
        assert (failure.step_name, failure.position.get("enclosing_step")) == ("draft", "refine/round")
        assert failure.position.get("iteration") == [1]
        assert [frame["step_name"] for frame in folded.open_frames] == ["refine", "round"]


@both
async def test_nested_loops_resume_where_they_stopped(opener: Opener) -> None:
    async with await opener.open() as store:

        async def program(item: AsyncItemStream, stop_at: tuple[int, int] | None) -> None:
            for i in range(2):
                async with item.step("round", step_kind="loop", iteration=i) as frame:
                    for j in range(3):
                        async with frame.step("draft", iteration=j) as step:
                            if (i, j) == stop_at:
                                raise PlantedError
                            if not step.completed:
                                step.append("drafts", [i, j])

        with pytest.raises(PlantedError):
            async with store.stream("5", run_id="r1") as item:
                await program(item, (1, 1))
        async with store.stream("5", run_id="r2") as item:
            await program(item, None)
            item.complete()
        folded = await fold(store)
        assert folded.values("drafts") == [[i, j] for i in range(2) for j in range(3)]
        drafts = [entry.position for entry in folded.trajectory if entry.step_name == "draft"]
        assert [position.get("iteration") for position in drafts] == [[i, j] for i in range(2) for j in range(3)]
        assert {position.get("enclosing_step") for position in drafts} == {"round"}
        started = [event for event in await store.item_events("5") if event.get("event_type") == "STEP_STARTED"]
        assert [(event.get("attempt"), event.get("iteration")) for event in started] == [(0, [0]), (0, [1]), (1, [1])]
        assert folded.open_frames == []


@both
async def test_the_path_of_frames_is_part_of_a_steps_identity(opener: Opener) -> None:
    async with await opener.open() as store, store.stream("5", run_id="r") as item:
        for name in ("a", "b", "a/b"):
            async with item.step(name, step_kind="sequence") as outer:
                async with outer.step("inner", step_kind="sequence") as inner, inner.step("s") as step:
                    step.append("seen", step.position.get("enclosing_step"))
        assert item.values("seen") == ["a/inner", "b/inner", "a%2Fb/inner"]


@both
async def test_the_same_position_twice_in_one_attempt(opener: Opener) -> None:
    async with await opener.open() as store, store.stream("5", run_id="r") as item:
        async with item.step("draft"):
            with pytest.raises(StateError, match="iteration="):
                async with item.step("draft"):
                    pytest.fail("the position is taken")
        for _ in range(2):
            with pytest.raises(StateError) as raised:
                async with item.step("draft"):
                    pytest.fail("the position is taken")
            assert raised.value.code == "repeated-position"
        with pytest.raises(PlantedError):
            async with item.step("retried"):
                raise PlantedError
        async with item.step("retried") as step:
            assert not step.completed
            step.set("text", "second try")
        assert [failure.recovered for failure in (await fold(store)).failures] == [True]


@both
async def test_misuse_of_steps(opener: Opener) -> None:
    async with await opener.open() as store:
        async with store.stream("5", run_id="r") as item:
            outside = item.step("outside")
            for call in (lambda: outside.completed, lambda: outside.set("f", 1), lambda: outside.append("f", 1)):
                with pytest.raises(StateError) as raised:
                    call()
                assert raised.value.code == "writer-order"
            async with item.step("leaf") as leaf:
                with pytest.raises(ValueError, match="step_kind"):
                    leaf.step("inner")
            with pytest.raises(StateError):
                leaf.set("f", 1)
            with pytest.raises(ValueError, match="root"):
                item.step("x", step_kind="root")
            with pytest.raises(RowError) as wrong:
                async with item.step("bad value") as step:
                    step.set("f", {1, 2})
            assert wrong.value.column == "value"
        with pytest.raises(StateError) as raised:
            async with item.step("too late"):
                pytest.fail("the stream has ended")
        assert raised.value.code == "writer-order"
        with pytest.raises(StateError):
            _ = store.stream("5", run_id="r").attempt
        assert [failure.step_name for failure in (await fold(store)).failures] == ["bad value"]


@both
async def test_a_value_is_what_it_was_when_it_was_set(opener: Opener) -> None:
    async with await opener.open() as store, store.stream("5", run_id="r") as item:
        async with item.step("draft") as step:
            value = {"a": [1]}
            step.set("f", value)
            value["a"].append(2)
        assert item.value("f") == {"a": [1]}


@both
async def test_typed_values(opener: Opener) -> None:
    async with await opener.open() as store:
        async with store.stream("5", run_id="r") as item, item.step("s") as step:
            step.set("plan", Plan(title="t", steps=[1]))
            step.set("n", 3)
            step.set("flag", True)
            step.set("nothing", None)
            step.set("cover", b"png")
            step.append("plans", Plan(title="a"))
            step.append("plans", Plan(title="b"))
        async with store.stream("5", run_id="r2") as resumed:
            for it in (item, resumed):
                assert it.value("plan", Plan) == Plan(title="t", steps=[1])
                assert it.value("plan") == {"title": "t", "steps": [1]}
                assert it.values("plans", Plan) == [Plan(title="a"), Plan(title="b")]
                assert it.value("n", float) == 3.0
                assert it.value("n") == 3
                assert it.value("nothing") is None
                assert it.value("missing", int, None) is None
                assert it.value("missing", int, 7) == 7
                assert it.values("missing", int) == []
                assert isinstance(it.value("cover"), BlobRef)
                with pytest.raises(KeyError, match="plan"):
                    it.value("missing", int)
                with pytest.raises(TypeError, match="not `str`"):
                    it.value("n", str)
                with pytest.raises(TypeError, match="not `int`"):
                    it.value("flag", int)
                with pytest.raises(TypeError, match="load_blob"):
                    it.value("cover", bytes)
                with pytest.raises(ValueError, match="Plan"):
                    it.value("n", Plan)
            assert await resumed.load_blob("cover") == b"png"
            with pytest.raises(TypeError, match="no blob"):
                await resumed.load_blob("n")
            with pytest.raises(KeyError):
                await resumed.load_blob("missing")
            with pytest.raises(IndexError):
                await resumed.load_blob("cover", 1)
        assert (await fold(store)).fields["plan"].field_type == "Plan"
        assert (await fold(store)).value("plan", Plan).title == "t"


@both
async def test_once_runs_once_in_the_life_of_an_item(opener: Opener) -> None:
    calls: list[str] = []

    async def outline(topic: str, *, words: int = 3) -> dict[str, Any]:
        calls.append(topic)
        return {"topic": topic, "words": (words,)}

    async with await opener.open() as store:
        for attempt in (0, 1, 1):  # an attempt that writes nothing leaves no trace
            async with store.stream("5", run_id="r") as item:
                assert item.attempt == attempt
                assert await item.once("outline", outline, "tea", words=5) == {"topic": "tea", "words": [5]}
                with pytest.raises(StateError) as raised:
                    await item.once("outline", outline, "again")
                assert raised.value.code == "repeated-position"
        assert calls == ["tea"]
        assert (await fold(store)).value("outline") == {"topic": "tea", "words": [5]}


@both
async def test_once_returns_what_it_stored_even_if_the_field_moved_on(opener: Opener) -> None:
    async def blob() -> bytes:
        return b"png"

    async with await opener.open() as store:
        for _ in range(2):
            async with store.stream("5", run_id="r") as item:
                assert await item.once("text", str.upper, "first") == "FIRST"
                assert await item.once("json", list, (1, 2)) == [1, 2]
                assert await item.once("cover", blob) == b"png"
                assert await item.once("none", {"a": 1}.get, "x") is None
                for name in ("text", "json", "cover"):
                    async with item.step(f"change {name}") as step:
                        if not step.completed:
                            step.set(name, "changed")
                assert item.value("text", str) == "changed"


async def make_plan(title: str) -> Plan:
    return Plan(title=title)


async def make_plans() -> list[Plan]:
    return [Plan(title="a"), Plan(title="b")]


@both
async def test_once_gives_models_back_as_models(opener: Opener) -> None:
    async def silent():  # type: ignore[no-untyped-def]  # noqa: ANN202
        return Plan(title="t")

    async with await opener.open() as store:
        for _ in range(2):
            async with store.stream("5", run_id="r") as item:
                assert await item.once("plan", make_plan, "t") == Plan(title="t")
                assert await item.once("plans", make_plans) == [Plan(title="a"), Plan(title="b")]
        with pytest.raises(TypeError, match="-> Plan"):
            async with store.stream("5", run_id="r") as item:
                await item.once("silent", silent)
        assert "silent" not in (await fold(store)).fields


@both
async def test_another_stream_that_took_over_is_noticed_before_the_end(opener: Opener) -> None:
    async with await opener.open() as store:
        with pytest.raises(FencedError) as raised:
            async with store.stream("5", run_id="r1") as item:
                item.complete()
                async with store.stream("5", run_id="r2") as heir, heir.step("draft") as step:
                    step.set("text", "heir")
        assert raised.value.code == "stream-fenced"
        folded = await fold(store)
        assert (folded.status, folded.last_attempt) == ("running", 1)
        assert folded.failures == []


@both
async def test_a_fenced_step_fails_without_a_failure_in_the_log(opener: Opener) -> None:
    async with await opener.open() as store:
        item = store.stream("5", run_id="r1")
        with pytest.raises(FencedError):
            async with item, item.step("draft") as step:
                step.set("text", "zombie")
                async with store.stream("5", run_id="r2") as heir, heir.step("draft") as other:
                    other.set("text", "heir")
        with pytest.raises(StateError) as raised:
            async with item.step("next"):
                pass
        assert raised.value.code == "writer-order"
        folded = await fold(store)
        assert (folded.value("text"), folded.failures) == ("heir", [])


@both
async def test_errors_with_odd_texts(opener: Opener) -> None:
    async with await opener.open() as store:
        for n, text in enumerate(["", "\x00\ud800 💡", "x" * 1_000_000]):
            with pytest.raises(PlantedError):
                async with store.stream(str(n), run_id="r"):
                    raise PlantedError(text)
            (failure,) = await store.item_failures(str(n))
            assert failure.error_dump is not None
            assert len(failure.error_dump) <= 100_010


@both
async def test_children_are_items_of_their_own(opener: Opener) -> None:
    async with await opener.open() as store:
        async with store.stream("5", run_id="r") as item:
            for n in range(2):
                async with store.stream(item.child("expand", n), run_id=item.run_id) as child:
                    async with child.step("draft") as step:
                        step.set("n", n)
                    child.complete()
            item.complete()
        assert [str(found.item_id) for found in await store.items()] == ["5", "5/expand:0", "5/expand:1"]
        child_item = await fold(store, "5/expand:1")
        assert (child_item.value("n"), child_item.parent_item_id, child_item.root_item_id) == (1, "5", "5")


def test_base_exceptions_write_nothing(path: Path) -> None:
    with DatagenStore.open(path, maintenance=None) as store:
        for error in (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
            with pytest.raises(error), store.stream("5", run_id="r") as item, item.step("draft") as step:
                step.set("text", "half")
                raise error
        assert [event.get("event_type") for event in store.item_events("5")] == ["ITEM_CREATED"]


def test_steps_overlap_in_tasks(path: Path) -> None:
    async def program() -> None:
        async with AsyncDatagenStore.open(path, maintenance=None) as store:
            async with store.stream("5", run_id="r") as item:

                async def one(n: int) -> None:
                    async with item.step("draft", iteration=n) as step:
                        await asyncio.sleep(0)
                        step.append("drafts", n)

                async with asyncio.TaskGroup() as group:
                    for n in range(50):
                        group.create_task(one(n))
                item.complete()
            folded = await store.fold_item("5", strict=True)
            assert folded is not None
            assert sorted(folded.values("drafts", int)) == list(range(50))
            assert folded.values("drafts", int) == item.values("drafts", int)
            assert folded.status == "completed"

    asyncio.run(program())


def test_a_failing_task_of_a_group_is_recorded_once_and_its_cancelled_siblings_not(path: Path) -> None:
    async def program() -> None:
        async with AsyncDatagenStore.open(path, maintenance=None) as store:
            with pytest.raises(ExceptionGroup):
                async with store.stream("5", run_id="r") as item:
                    entered = asyncio.Event()

                    async def fails() -> None:
                        async with item.step("fails"):
                            await entered.wait()
                            raise PlantedError

                    async def waits() -> None:
                        async with item.step("waits") as step:
                            step.set("text", "half")
                            entered.set()
                            await asyncio.Event().wait()

                    async with asyncio.TaskGroup() as group:
                        group.create_task(fails())
                        group.create_task(waits())
            folded = await store.fold_item("5", strict=True)
            assert folded is not None
            assert [(failure.step_name, failure.error_type) for failure in folded.failures] == [
                ("fails", "PlantedError")
            ]
            assert folded.fields == {}

    asyncio.run(program())


def test_a_checkpoint_that_was_handed_over_completes(path: Path) -> None:
    async def program() -> None:
        async with AsyncDatagenStore.open(path, maintenance=None) as store, store.stream("5", run_id="r") as item:
            for n in range(20):

                async def one(n: int = n) -> None:
                    async with item.step("draft", iteration=n) as step:
                        step.append("drafts", n)

                task = asyncio.create_task(one())
                for _ in range(n % 7):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                    raise asyncio.CancelledError  # the step was faster
                # Whatever became of it, the stream goes on.
                async with item.step("after", iteration=n) as step:
                    step.append("after", n)
            folded = await store.fold_item("5", strict=True)
            assert folded is not None
            assert folded.values("after", int) == list(range(20))
            assert folded.values("drafts", int) == item.values("drafts", int)
            assert folded.failures == []

    asyncio.run(program())


def test_a_timeout_inside_a_step_is_a_failure_and_one_around_it_is_none(path: Path) -> None:
    async def program() -> None:
        async with AsyncDatagenStore.open(path, maintenance=None) as store, store.stream("5", run_id="r") as item:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), item.step("around"):
                    await asyncio.Event().wait()
            with pytest.raises(TimeoutError):
                async with item.step("inside"), asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            assert [failure.step_name for failure in await store.item_failures("5")] == ["inside"]

    asyncio.run(program())
