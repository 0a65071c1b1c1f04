"""`run`: many items at once, failures and all."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from lance_context import AsyncDatagenStore, DatagenStore, ItemStream, RunReport
from tests.agents import Opener, both

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import AsyncItemStream


class PlantedError(Exception):
    """What the tests plant."""


def counts(report: RunReport) -> tuple[int, int, int, int, bool]:
    return report.completed, report.filtered, report.failed, report.skipped, report.stopped


@both
async def test_ten_percent_of_the_items_fail_and_are_resumed(opener: Opener) -> None:
    ids = [str(n) for n in range(200)]
    ran: list[str] = []
    broken = True

    async def worker(item: AsyncItemStream) -> None:
        ran.append(item.key)
        async with item.step("first") as step:
            if not step.completed:
                step.set("n", int(item.key))
        async with item.step("second") as step:
            if broken and int(item.key) % 10 == 0:
                raise PlantedError(item.key)
            step.set("done", True)

    async with await opener.open() as store:
        report = await store.run(ids, worker, run_id="r1", concurrency=20, query_tags={"kind": "n"})
        assert counts(report) == (180, 0, 20, 0, False)
        assert report.elapsed_s > 0
        failed = await store.failed_items()
        assert sorted(int(str(item.item_id)) for item in failed) == list(range(0, 200, 10))
        assert all(item.value("n", int) % 10 == 0 for item in failed), "what was done before the failure is there"
        overview = await store.overview()
        assert (overview.items, overview.completed, overview.running, overview.failed) == (200, 180, 20, 20)
        assert overview.failures_by_error_type["PlantedError"].count == 20
        assert overview.failures_by_run["r1"].count == 20
        assert dict(overview.completed_steps) == {"first": 200, "second": 180}

        broken = False
        ran.clear()
        report = await store.run(ids, worker, run_id="r2", concurrency=20)
        assert counts(report) == (20, 0, 0, 180, False)
        assert sorted(map(int, ran)) == list(range(0, 200, 10))
        assert await store.failed_items() == []
        assert await store.pending(ids) == []
        overview = await store.overview()
        assert (overview.completed, overview.failed, overview.failures) == (200, 0, 20)
        assert len(await store.items(filter={"tags.kind": "n", "status": "completed"})) == 200


@both
async def test_partial_results_are_readable_during_the_run(opener: Opener) -> None:
    seen: list[int] = []

    async with await opener.open() as store, await opener.open_existing(read_only=True) as notebook:

        async def worker(item: AsyncItemStream) -> None:
            async with item.step("draft") as step:
                step.set("text", item.key)
            seen.append((await notebook.overview()).completed_steps["draft"])
            folded = await notebook.fold_item(item.item_id)
            assert folded is not None
            assert (folded.value("text"), folded.status) == (item.key, "running")

        report = await store.run([str(n) for n in range(10)], worker, run_id="r", concurrency=1)
        assert counts(report) == (10, 0, 0, 0, False)
        assert seen == list(range(1, 11))


@both
async def test_a_run_stops_starting_at_enough_failures(opener: Opener) -> None:
    ran: list[str] = []

    async def worker(item: AsyncItemStream) -> None:
        ran.append(item.key)
        raise PlantedError

    async with await opener.open() as store:
        report = await store.run([str(n) for n in range(100)], worker, run_id="r", concurrency=4, max_failures=10)
        assert report.stopped
        assert 10 <= report.failed < 14
        assert report.failed == len(ran)
        assert (await store.overview()).items == len(ran)
        again = await store.run([str(n) for n in range(100, 105)], worker, run_id="r", max_failures=10)
        assert (again.failed, again.stopped) == (5, False)


@both
async def test_a_worker_may_filter_out(opener: Opener) -> None:
    async def worker(item: AsyncItemStream) -> None:
        if int(item.key) % 2:
            item.filter_out(reason="odd")

    async with await opener.open() as store:
        assert counts(await store.run(map(str, range(6)), worker, run_id="r")) == (3, 3, 0, 0, False)
        assert counts(await store.run(map(str, range(7)), worker, run_id="r")) == (1, 0, 0, 6, False)
        assert len(await store.items(filter={"status": "filtered"})) == 3


@both
async def test_each_id_is_worked_on_once(opener: Opener) -> None:
    ran: list[str] = []

    async def worker(item: AsyncItemStream) -> None:
        ran.append(item.key)

    async with await opener.open() as store:
        assert counts(await store.run(["1", "1", "2", "1"], worker, run_id="r")) == (2, 0, 0, 0, False)
        assert sorted(ran) == ["1", "2"]
        assert counts(await store.run([], worker, run_id="r")) == (0, 0, 0, 0, False)


@both
async def test_arguments_are_checked(opener: Opener) -> None:
    async def worker(item: AsyncItemStream) -> None:
        pytest.fail(f"{item} was started")

    async with await opener.open() as store:
        with pytest.raises(TypeError, match="did you mean"):
            await store.run("123", worker, run_id="r")
        with pytest.raises(ValueError, match="concurrency"):
            await store.run(["1"], worker, run_id="r", concurrency=0)
        with pytest.raises(ValueError, match="max_failures"):
            await store.run(["1"], worker, run_id="r", max_failures=0)
        with pytest.raises(ValueError, match="from_source_key"):
            await store.run(["1", "a/b"], worker, run_id="r")


@both
async def test_a_failure_that_the_log_does_not_have_is_said(opener: Opener) -> None:
    async with await opener.open() as store:

        async def worker(item: AsyncItemStream) -> None:
            async with store.stream(item.item_id, run_id="thief") as thief, thief.step("steal"):
                pass

        records: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = records.append  # type: ignore[method-assign]
        logger = logging.getLogger("lance_context.run")
        logger.addHandler(handler)
        try:
            report = await store.run(["1"], worker, run_id="r")
        finally:
            logger.removeHandler(handler)
        assert counts(report) == (0, 0, 1, 0, False)
        (record,) = records
        assert "FencedError" in record.getMessage()


@both
async def test_progress_shows_a_line(opener: Opener) -> None:
    async def worker(item: AsyncItemStream) -> None:
        if item.key == "3":
            raise PlantedError

    async with await opener.open() as store:
        assert counts(await store.run(map(str, range(5)), worker, run_id="r", progress=True)) == (4, 0, 1, 0, False)


def test_as_many_at_once_as_was_said(path: Path) -> None:
    async def program() -> None:
        running = most = 0
        full = asyncio.Event()

        async def worker(item: AsyncItemStream) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            if running == 12:
                full.set()
            async with item.step("s"):
                await asyncio.wait_for(full.wait(), 60)
            running -= 1

        async with AsyncDatagenStore.open(path, maintenance=None) as store:
            await store.run(map(str, range(60)), worker, run_id="r", concurrency=12)
        assert most == 12

    asyncio.run(program())


def test_as_many_threads_as_was_said(path: Path) -> None:
    meeting = threading.Barrier(6, timeout=60)

    def worker(item: ItemStream) -> None:
        with item.step("s"):
            meeting.wait()

    with DatagenStore.open(path, maintenance=None) as store:
        assert store.run(map(str, range(12)), worker, run_id="r", concurrency=6).completed == 12


def test_cancelling_a_run_writes_no_failures(path: Path) -> None:
    async def program() -> None:
        started = 0
        full = asyncio.Event()

        async def worker(item: AsyncItemStream) -> None:
            nonlocal started
            async with item.step("waits") as step:
                step.set("text", "half")
                started += 1
                if started == 8:
                    full.set()
                await asyncio.Event().wait()

        async with AsyncDatagenStore.open(path, maintenance=None) as store:
            run = asyncio.create_task(store.run(map(str, range(20)), worker, run_id="r", concurrency=8))
            await full.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            overview = await store.overview()
            assert (overview.items, overview.running, overview.failures) == (8, 8, 0)
            assert overview.completed_steps == {}

    asyncio.run(program())


def test_a_worker_that_is_cancelled_by_itself_ends_the_run(path: Path) -> None:
    async def program() -> None:
        async def worker(item: AsyncItemStream) -> None:
            if item.key == "5":
                raise asyncio.CancelledError
            await asyncio.sleep(0)

        async with AsyncDatagenStore.open(path, maintenance=None) as store:
            with pytest.raises(asyncio.CancelledError):
                await store.run(map(str, range(1000)), worker, run_id="r", concurrency=4)
            overview = await store.overview()
            assert overview.failures == 0
            assert overview.items < 100

    asyncio.run(program())


def test_an_interrupt_in_a_thread_ends_the_run(path: Path) -> None:
    def worker(item: ItemStream) -> None:
        if item.key == "5":
            raise KeyboardInterrupt

    with DatagenStore.open(path, maintenance=None) as store:
        with pytest.raises(KeyboardInterrupt):
            store.run(map(str, range(1000)), worker, run_id="r", concurrency=4)
        overview = store.overview()
        assert overview.failures == 0
        assert overview.items < 100
