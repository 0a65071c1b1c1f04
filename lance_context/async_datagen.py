"""`AsyncDatagenStore`: the same log with ``await``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lance_context._awaiting import in_thread
from lance_context._base import DEFAULT_MAINTENANCE, OpenRequest, doctor_request, findings, open_request, seconds
from lance_context._datagen_base import BaseDatagenStore, appended, as_events, item_ids, item_request, positive
from lance_context._item_tables import PAGE, Level, TableSchema, TableStatus, page_after, table_request
from lance_context._native import Log
from lance_context._opened import begin, blob_id, compare_config
from lance_context._opening import Opening
from lance_context._run import ProgressLine, Tally, distinct, end_unmarked, run_limits
from lance_context._tables import pandas_frame, polars_frame
from lance_context.async_item import AsyncItemStream
from lance_context.datagen_types import (
    AppendResult,
    Event,
    Failure,
    FoldedItem,
    ItemIdLike,
    OnConfigChange,
    Overview,
    RunReport,
)
from lance_context.datagen_writer import DatagenStreamWriter, writer_over
from lance_context.tree import ItemTree
from lance_context.types import Finding, MaintenanceOptions, MergeReport, OptimizeReport, ReadMode, StoreStats

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from lance_context._native import DatagenItemId


class AsyncDatagenStore(BaseDatagenStore):
    """Async form of `DatagenStore`. A handle may be shared by tasks.

    Cancelling a task ends its read. An append that has begun goes on in the store: its events are then all there or
    none, and handing them over again is safe.
    """

    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        *,
        writer_id: str | None = None,
        seal_on_add: bool | None = None,
        fsync: bool | None = None,
        gc_grace: float | timedelta | None = None,
        read: ReadMode = "latest",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[Self]:
        """Async form of `DatagenStore.open`: await the result, or enter it with ``async with``."""
        request = open_request(
            uri,
            writer_id=writer_id,
            seal_on_add=seal_on_add,
            fsync=fsync,
            gc_grace=gc_grace,
            read=read,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls._opening(request)

    @classmethod
    def open_existing(
        cls,
        uri: str | PathLike[str],
        *,
        read_only: bool = False,
        writer_id: str | None = None,
        read: ReadMode = "latest",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[Self]:
        """Async form of `DatagenStore.open_existing`: await the result, or enter it with ``async with``."""
        request = open_request(
            uri,
            must_exist=True,
            writer_id=writer_id,
            read=read,
            read_only=read_only,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls._opening(request)

    @classmethod
    def _opening(cls, request: OpenRequest) -> Opening[Self]:
        async def start() -> Self:
            return cls(await Log.open_async(request.uri, request.must_exist, request.options))

        return Opening(start)

    @classmethod
    async def doctor(
        cls,
        uri: str | PathLike[str],
        *,
        repair: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> list[Finding]:
        """Async form of `DatagenStore.doctor`."""
        return findings(await Log.doctor_async(*doctor_request(uri, repair, storage_options)))

    async def append(self, events: Event | Iterable[Event]) -> AppendResult:
        """Async form of `DatagenStore.append`. The events are read before the first suspension."""
        return appended(await self._native.append_async(events, "append"))

    async def append_checkpoint(self, events: Iterable[Event]) -> AppendResult:
        """Async form of `DatagenStore.append_checkpoint`. The events are read before the first suspension."""
        return appended(await self._native.append_async(events, "checkpoint"))

    async def open_stream(
        self,
        item_id: ItemIdLike,
        *,
        run_id: str,
        writer_epoch: str | None = None,
        query_tags: Mapping[str, object] | None = None,
        config: object = None,
    ) -> DatagenStreamWriter:
        """Async form of `DatagenStore.open_stream`."""
        created = begin(item_request(item_id, run_id, query_tags, config), writer_epoch)
        await self._native.append_async(created.batch, "open")
        return writer_over(created.writer)

    async def resume_stream(
        self,
        item_id: ItemIdLike,
        *,
        run_id: str,
        writer_epoch: str | None = None,
        config: object = None,
        on_config_change: OnConfigChange = "warn",
    ) -> DatagenStreamWriter | None:
        """Async form of `DatagenStore.resume_stream`."""
        folded = await self.fold_item(item_id)
        if folded is None:
            return None
        writer = DatagenStreamWriter.resuming(folded, run_id=run_id, writer_epoch=writer_epoch)
        compare_config(folded, config, on_config_change, stacklevel=3)
        return writer

    def stream(
        self,
        item_id: ItemIdLike,
        *,
        run_id: str,
        query_tags: Mapping[str, object] | None = None,
        config: object = None,
        on_config_change: OnConfigChange = "warn",
    ) -> AsyncItemStream:
        """Async form of `DatagenStore.stream`: enter the result with ``async with``."""
        return AsyncItemStream(self._native, item_request(item_id, run_id, query_tags, config, on_config_change))

    async def run(
        self,
        ids: Iterable[ItemIdLike],
        worker: Callable[[AsyncItemStream], Awaitable[object]],
        *,
        run_id: str,
        concurrency: int = 16,
        max_failures: int | None = None,
        query_tags: Mapping[str, object] | None = None,
        config: object = None,
        progress: bool = False,
    ) -> RunReport:
        """Async form of `DatagenStore.run`, in tasks. Cancelling it cancels them, and writes nothing for them."""
        import asyncio

        limits = run_limits(concurrency, max_failures)
        given = distinct(ids)
        tally = Tally(len(given), await self.pending(given), limits.max_failures)
        line = ProgressLine(tally, shown=progress)

        async def work() -> None:
            while (item_id := tally.start()) is not None:
                item = self.stream(item_id, run_id=run_id, query_tags=query_tags, config=config)
                try:
                    async with item:
                        await worker(item)
                        end_unmarked(item)
                except Exception as error:
                    tally.raised(item, error)
                except BaseException:
                    tally.gave_up()
                    tally.abort()
                    raise
                else:
                    tally.ended(item)
                line.update()

        workers = [asyncio.ensure_future(work()) for _ in range(min(limits.concurrency, tally.total))]
        try:
            if workers:
                # A worker that raises here was cancelled or interrupted, and takes the others with it.
                await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            tally.abort()
            for task in workers:
                task.cancel()
            try:
                outcomes = await asyncio.gather(*workers, return_exceptions=True)
            finally:
                line.close()
        raised = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for error in sorted(raised, key=lambda error: isinstance(error, asyncio.CancelledError)):
            raise error
        return tally.report()

    async def fold_item(
        self, item_id: ItemIdLike, *, load_blobs: bool = False, strict: bool = False
    ) -> FoldedItem | None:
        """Async form of `DatagenStore.fold_item`."""
        return await self._native.fold_item_async(item_id, load_blobs, strict)

    async def load_blob(self, folded: FoldedItem, field_name: str, index: int = -1) -> bytes:
        """Async form of `DatagenStore.load_blob`."""
        found = blob_id(folded.fields, field_name, index)
        return found if isinstance(found, bytes) else await self._native.get_blob_async(found.event_id)

    async def get_blob(self, event_id: str) -> bytes:
        """Async form of `DatagenStore.get_blob`."""
        return await self._native.get_blob_async(event_id)

    async def items(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        limit: int | None = None,
        after: ItemIdLike | None = None,
    ) -> list[FoldedItem]:
        """Async form of `DatagenStore.items`."""
        count = None if limit is None else max(limit, 0)
        return await self._native.items_async(filter, params, count, after)

    async def failed_items(self) -> list[FoldedItem]:
        """Async form of `DatagenStore.failed_items`."""
        return await self._native.failed_items_async()

    async def pending(self, ids: Iterable[ItemIdLike]) -> list[DatagenItemId]:
        """Async form of `DatagenStore.pending`."""
        return await self._native.pending_async(item_ids(ids))

    async def item_events(self, item_id: ItemIdLike) -> list[Event]:
        """Async form of `DatagenStore.item_events`."""
        return as_events(await self._native.item_events_async(item_id))

    async def root_events(self, item_id: ItemIdLike) -> list[Event]:
        """Async form of `DatagenStore.root_events`."""
        return as_events(await self._native.root_events_async(item_id))

    async def item_failures(self, item_id: ItemIdLike) -> list[Failure]:
        """Async form of `DatagenStore.item_failures`."""
        return await self._native.item_failures_async(item_id)

    async def root_item_statuses(self, ids: Iterable[ItemIdLike]) -> dict[str, str]:
        """Async form of `DatagenStore.root_item_statuses`."""
        return await self._native.root_item_statuses_async(item_ids(ids))

    async def overview(self) -> Overview:
        """Async form of `DatagenStore.overview`."""
        return await self._native.overview_async()

    def events(self, since: str | None = None) -> AsyncIterator[tuple[str, Event]]:
        """Async form of `DatagenStore.events`."""
        return _events(self._native, since)

    async def item_tree(self, root: ItemIdLike, *, max_items: int = 1000, max_depth: int | None = None) -> ItemTree:
        """Async form of `DatagenStore.item_tree`."""
        if max_depth is not None and max_depth < 0:
            raise ValueError(f"`max_depth` is at least 0, or None for any depth, not {max_depth}")
        return await self._native.item_tree_async(root, positive("max_items", max_items), max_depth)

    async def to_arrow(
        self,
        *,
        status: TableStatus | None = "completed",
        level: Level = "roots",
        fields: Sequence[str] | None = None,
        schema: TableSchema | None = None,
    ) -> pyarrow.Table:
        """Async form of `DatagenStore.to_arrow`. The table is made in a thread."""
        request = table_request(status, level, fields, schema)
        items = request.chosen([item async for item in self._pages(request.filter)])
        blobs = {event_id: await self._native.get_blob_async(event_id) for event_id in request.blobs(items)}
        return await in_thread(partial(request.table, items, blobs))

    async def to_pandas(
        self,
        *,
        status: TableStatus | None = "completed",
        level: Level = "roots",
        fields: Sequence[str] | None = None,
        schema: TableSchema | None = None,
    ) -> pandas.DataFrame:
        """Async form of `DatagenStore.to_pandas`. The frame is made in a thread."""
        table = await self.to_arrow(status=status, level=level, fields=fields, schema=schema)
        return await in_thread(partial(pandas_frame, table))

    async def to_polars(
        self,
        *,
        status: TableStatus | None = "completed",
        level: Level = "roots",
        fields: Sequence[str] | None = None,
        schema: TableSchema | None = None,
    ) -> polars.DataFrame:
        """Async form of `DatagenStore.to_polars`. The frame is made in a thread."""
        table = await self.to_arrow(status=status, level=level, fields=fields, schema=schema)
        return await in_thread(partial(polars_frame, table))

    async def flush(self) -> None:
        """Async form of `DatagenStore.flush`."""
        await self._native.flush_async()

    async def merge(self) -> MergeReport:
        """Async form of `DatagenStore.merge`."""
        return MergeReport(**await self._native.merge_async())

    async def optimize(self, *, older_than: float | timedelta | None = None) -> OptimizeReport:
        """Async form of `DatagenStore.optimize`."""
        return OptimizeReport(**await self._native.optimize_async(seconds(older_than)))

    async def stats(self) -> StoreStats:
        """Async form of `DatagenStore.stats`."""
        return self._noted(StoreStats(**await self._native.stats_async()))

    async def close(self) -> None:
        """Async form of `DatagenStore.close`."""
        await self._native.close_async()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _pages(self, filter: str | None) -> AsyncIterator[FoldedItem]:
        after: str | None = None
        while True:
            page = await self.items(filter=filter, limit=PAGE, after=after)
            for item in page:
                yield item
            if (after := page_after(page)) is None:
                return


async def _events(log: Log, cursor: str | None) -> AsyncIterator[tuple[str, Event]]:
    while True:
        cursors, events, cursor = await log.events_since_async(cursor)
        for pair in zip(cursors, as_events(events), strict=True):
            yield pair
        if cursor is None:
            return
