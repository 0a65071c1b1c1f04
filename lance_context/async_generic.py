"""`AsyncGenericStore`: the same store with ``await``."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from lance_context._awaiting import in_thread
from lance_context._base import (
    DEFAULT_MAINTENANCE,
    BaseStore,
    OpenRequest,
    as_they_are,
    declared,
    doctor_request,
    findings,
    many_ids,
    open_request,
    plan_of,
    query,
    row_ids,
    rows_given,
    seconds,
)
from lance_context._native import Query, RecordBatch, Store
from lance_context._opening import Opening
from lance_context._tables import arrow_table, pandas_frame, polars_frame
from lance_context.types import (
    AddResult,
    ArrowData,
    DeleteResult,
    ExportReport,
    Finding,
    ImportReport,
    M,
    MaintenanceOptions,
    MergeReport,
    OnConflict,
    OptimizeReport,
    ReadMode,
    Row,
    SchemaDeclaration,
    StoreStats,
    T,
    TransferFormat,
    TransferProgress,
)

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from lance_context._models import Plan

R = TypeVar("R")


class AsyncGenericStore(BaseStore[T]):
    """Async form of `GenericStore`. A handle may be shared by tasks.

    Cancelling a task ends its read. A write that has begun goes on in the store: it is then either fully
    there or not at all, and repeating it is safe, because rows are keyed by ``id``.
    """

    @overload
    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        schema: type[M],
        *,
        seal_on_add: bool | None = None,
        fsync: bool | None = None,
        gc_grace: float | timedelta | None = None,
        read: ReadMode = "sealed",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[AsyncGenericStore[M]]: ...

    @overload
    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        schema: SchemaDeclaration | None = None,
        *,
        seal_on_add: bool | None = None,
        fsync: bool | None = None,
        gc_grace: float | timedelta | None = None,
        read: ReadMode = "sealed",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[Self]: ...

    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        schema: SchemaDeclaration | type[M] | None = None,
        *,
        seal_on_add: bool | None = None,
        fsync: bool | None = None,
        gc_grace: float | timedelta | None = None,
        read: ReadMode = "sealed",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[Self] | Opening[AsyncGenericStore[M]]:
        """Async form of `GenericStore.open`: await the result, or enter it with ``async with``."""
        declaration, plan = declared(schema)
        request = open_request(
            uri,
            declaration,
            seal_on_add=seal_on_add,
            fsync=fsync,
            gc_grace=gc_grace,
            read=read,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls._opening(request, read, plan)

    @overload
    @classmethod
    def open_existing(
        cls,
        uri: str | PathLike[str],
        *,
        model: type[M],
        read_only: bool = False,
        read: ReadMode = "sealed",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[AsyncGenericStore[M]]: ...

    @overload
    @classmethod
    def open_existing(
        cls,
        uri: str | PathLike[str],
        *,
        model: None = None,
        read_only: bool = False,
        read: ReadMode = "sealed",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[Self]: ...

    @classmethod
    def open_existing(
        cls,
        uri: str | PathLike[str],
        *,
        model: type[M] | None = None,
        read_only: bool = False,
        read: ReadMode = "sealed",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Opening[Self] | Opening[AsyncGenericStore[M]]:
        """Async form of `GenericStore.open_existing`: await the result, or enter it with ``async with``."""
        request = open_request(
            uri,
            must_exist=True,
            read=read,
            read_only=read_only,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls._opening(request, read, None if model is None else plan_of(model))

    @classmethod
    def _opening(cls, request: OpenRequest, read: ReadMode, plan: Plan[Any] | None) -> Opening[Self]:
        async def start() -> Self:
            store = cls(await Store.open_async(*request), read)
            try:
                store._read_as(plan)
            except BaseException:
                await store.close()
                raise
            return store

        return Opening(start)

    @classmethod
    async def doctor(
        cls,
        uri: str | PathLike[str],
        *,
        repair: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> builtins.list[Finding]:
        """Async form of `GenericStore.doctor`."""
        return findings(await Store.doctor_async(*doctor_request(uri, repair, storage_options)))

    async def add(
        self,
        rows: T | Mapping[str, object] | Iterable[T | Mapping[str, object]] | ArrowData,
        *,
        on_conflict: OnConflict = "replace",
    ) -> AddResult:
        """Async form of `GenericStore.add`. The rows are read before the first suspension."""
        return AddResult(await self._native.add_async(rows_given(rows), on_conflict))

    async def update(self, id: str, changes: Mapping[str, object]) -> None:
        """Async form of `GenericStore.update`."""
        await self._native.update_async(id, changes)

    async def delete(self, ids: str | Sequence[str]) -> DeleteResult:
        """Async form of `GenericStore.delete`."""
        return DeleteResult(await self._native.delete_async(row_ids(ids)))

    async def delete_where(
        self, filter: str | Mapping[str, object], *, params: Mapping[str, object] | None = None
    ) -> DeleteResult:
        """Async form of `GenericStore.delete_where`."""
        return DeleteResult(await self._native.delete_where_async(query(filter=filter, params=params)))

    @overload
    async def list(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: None = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        read: ReadMode | None = None,
    ) -> builtins.list[T]: ...

    @overload
    async def list(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str],
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        read: ReadMode | None = None,
    ) -> builtins.list[Row]: ...

    async def list(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        read: ReadMode | None = None,
    ) -> builtins.list[T] | builtins.list[Row]:
        """Async form of `GenericStore.list`."""
        asked = query(
            filter=filter,
            params=params,
            columns=self._asked(columns),
            order_by=order_by,
            limit=limit,
            offset=offset,
            after=after,
            read=read,
        )
        return self._listed(await self._native.list_rows_async(asked), columns, read)

    @overload
    async def get(self, id: str, *, columns: None = None, read: ReadMode | None = None) -> T | None: ...

    @overload
    async def get(self, id: str, *, columns: Sequence[str], read: ReadMode | None = None) -> Row | None: ...

    async def get(
        self, id: str, *, columns: Sequence[str] | None = None, read: ReadMode | None = None
    ) -> T | Row | None:
        """Async form of `GenericStore.get`."""
        return self._got(await self._native.get_async(id, self._asked(columns), read), columns, read)

    @overload
    async def get_many(
        self, ids: Sequence[str], *, columns: None = None, read: ReadMode | None = None
    ) -> builtins.list[T | None]: ...

    @overload
    async def get_many(
        self, ids: Sequence[str], *, columns: Sequence[str], read: ReadMode | None = None
    ) -> builtins.list[Row | None]: ...

    async def get_many(
        self, ids: Sequence[str], *, columns: Sequence[str] | None = None, read: ReadMode | None = None
    ) -> builtins.list[T | None] | builtins.list[Row | None]:
        """Async form of `GenericStore.get_many`."""
        rows = await self._native.get_many_async(many_ids(ids), self._asked(columns), read)
        return self._got_many(rows, columns, read)

    async def exists(self, id: str, *, read: ReadMode | None = None) -> bool:
        """Async form of `GenericStore.exists`."""
        return await self._native.get_async(id, ["id"], read) is not None

    @overload
    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: None = None,
        read: ReadMode | None = None,
    ) -> AsyncIterator[T]: ...

    @overload
    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str],
        read: ReadMode | None = None,
    ) -> AsyncIterator[Row]: ...

    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> AsyncIterator[T] | AsyncIterator[Row]:
        """Async form of `GenericStore.iter`. The rows are those of the moment when the loop begins."""
        asked = query(filter=filter, params=params, columns=self._asked(columns), read=read)
        if columns is None:
            return _rows(self._native, asked, self._typed)
        return _rows(self._native, asked, as_they_are)

    def batches(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """Async form of `GenericStore.batches`. The rows are those of the moment when the loop begins."""
        return _batches(self._native, query(filter=filter, params=params, columns=columns, read=read))

    async def to_arrow(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        read: ReadMode | None = None,
    ) -> pyarrow.Table:
        """Async form of `GenericStore.to_arrow`."""
        asked = query(
            filter=filter,
            params=params,
            columns=columns,
            order_by=order_by,
            limit=limit,
            offset=offset,
            after=after,
            read=read,
        )
        return arrow_table(await self._native.table_async(asked))

    async def to_pandas(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        read: ReadMode | None = None,
    ) -> pandas.DataFrame:
        """Async form of `GenericStore.to_pandas`. The frame is made in a thread."""
        table = await self.to_arrow(
            filter=filter,
            params=params,
            columns=columns,
            order_by=order_by,
            limit=limit,
            offset=offset,
            after=after,
            read=read,
        )
        return await in_thread(partial(pandas_frame, table))

    async def to_polars(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        after: str | None = None,
        read: ReadMode | None = None,
    ) -> polars.DataFrame:
        """Async form of `GenericStore.to_polars`. The frame is made in a thread."""
        table = await self.to_arrow(
            filter=filter,
            params=params,
            columns=columns,
            order_by=order_by,
            limit=limit,
            offset=offset,
            after=after,
            read=read,
        )
        return await in_thread(partial(polars_frame, table))

    async def count(
        self,
        filter: str | Mapping[str, object] | None = None,
        *,
        params: Mapping[str, object] | None = None,
        read: ReadMode | None = None,
    ) -> int:
        """Async form of `GenericStore.count`."""
        return await self._native.count_async(query(filter=filter, params=params, read=read))

    async def flush(self) -> None:
        """Async form of `GenericStore.flush`."""
        await self._native.flush_async()

    async def merge(self) -> MergeReport:
        """Async form of `GenericStore.merge`."""
        return MergeReport(**await self._native.merge_async())

    async def optimize(self, *, older_than: float | timedelta | None = None) -> OptimizeReport:
        """Async form of `GenericStore.optimize`."""
        return OptimizeReport(**await self._native.optimize_async(seconds(older_than)))

    async def stats(self) -> StoreStats:
        """Async form of `GenericStore.stats`."""
        return self._noted(StoreStats(**await self._native.stats_async()))

    async def close(self) -> None:
        """Async form of `GenericStore.close`."""
        await self._native.close_async()

    async def import_(
        self,
        source: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        format: TransferFormat | None = None,
        on_conflict: OnConflict = "replace",
        columns: Sequence[str] | Mapping[str, str] | None = None,
        skip: int = 0,
        progress: Callable[[TransferProgress], None] | None = None,
    ) -> ImportReport:
        """Async form of `GenericStore.import_`. Files are read in a thread."""
        from lance_context._transfer import Import

        reading = Import(self._native, source, format=format, columns=columns, skip=skip, progress=progress)
        with reading:
            while (rows := await in_thread(reading.next)) is not None:
                reading.added(await self._native.add_async(rows, on_conflict))
        return reading.report()

    async def export(
        self,
        target: str | PathLike[str],
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        format: TransferFormat | None = None,
        read: ReadMode | None = None,
        progress: Callable[[TransferProgress], None] | None = None,
    ) -> ExportReport:
        """Async form of `GenericStore.export`. The file is written in a thread."""
        from lance_context._transfer import Export

        writing = Export(self._native, target, format=format, columns=columns, progress=progress)
        with writing:
            async for batch in self.batches(filter=filter, params=params, columns=writing.columns, read=read):
                await in_thread(partial(writing.write, batch))
                writing.written()
            report = await in_thread(writing.finish)
        return self._exported(report, read)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


async def _rows(
    store: Store, asked: Query, read_as: Callable[[builtins.list[Row]], builtins.list[R]]
) -> AsyncIterator[R]:
    stream = await store.stream_async(asked)
    while (rows := await stream.next_rows_async()) is not None:
        for row in read_as(rows):
            yield row


async def _batches(store: Store, asked: Query) -> AsyncIterator[RecordBatch]:
    stream = await store.stream_async(asked)
    while (batch := await stream.next_batch_async()) is not None:
        yield batch
