"""One face for both classes of a store, so that a test of what they do is written once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from lance_context import AsyncGenericStore, GenericStore

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from lance_context import (
        AddResult,
        DeleteResult,
        ExportReport,
        ImportReport,
        MergeReport,
        OnConflict,
        ReadMode,
        RecordBatch,
        Row,
        SchemaDeclaration,
        StoreStats,
        TransferFormat,
        TransferProgress,
    )

T = TypeVar("T")


class Twin(Protocol):
    """What both classes can do with rows, without `await`. `GenericStore` is one as it is.

    Its overloads, by whether `columns` are named, say more than these signatures, so type checkers need a cast.
    """

    def add(
        self, rows: Mapping[str, object] | Iterable[Mapping[str, object]], *, on_conflict: OnConflict = "replace"
    ) -> AddResult: ...
    def update(self, id: str, changes: Mapping[str, object]) -> None: ...
    def delete(self, ids: str | Sequence[str]) -> DeleteResult: ...
    def delete_where(
        self, filter: str | Mapping[str, object], *, params: Mapping[str, object] | None = None
    ) -> DeleteResult: ...
    def list(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> builtins.list[Row]: ...
    def get(self, id: str, *, columns: Sequence[str] | None = None, read: ReadMode | None = None) -> Row | None: ...
    def get_many(
        self, ids: Sequence[str], *, columns: Sequence[str] | None = None, read: ReadMode | None = None
    ) -> builtins.list[Row | None]: ...
    def exists(self, id: str, *, read: ReadMode | None = None) -> bool: ...
    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> Iterator[Row]: ...
    def batches(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> Iterator[RecordBatch]: ...
    def count(
        self,
        filter: str | Mapping[str, object] | None = None,
        *,
        params: Mapping[str, object] | None = None,
        read: ReadMode | None = None,
    ) -> int: ...
    def flush(self) -> None: ...
    def merge(self) -> MergeReport: ...
    def schema(self) -> Row: ...
    def import_(
        self,
        source: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        format: TransferFormat | None = None,
        on_conflict: OnConflict = "replace",
        columns: Sequence[str] | Mapping[str, str] | None = None,
        skip: int = 0,
        progress: Callable[[TransferProgress], None] | None = None,
    ) -> ImportReport: ...
    def export(
        self,
        target: str | PathLike[str],
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        format: TransferFormat | None = None,
        read: ReadMode | None = None,
        progress: Callable[[TransferProgress], None] | None = None,
    ) -> ExportReport: ...
    def stats(self) -> StoreStats: ...
    def close(self) -> None: ...


class Awaited:
    """An `AsyncGenericStore` on a loop of its own, each call run to its end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, store: AsyncGenericStore) -> None:
        self._loop = loop
        self._store = store

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    def _each(self, rows: AsyncIterator[T]) -> Iterator[T]:
        async def step() -> T | None:
            return await anext(rows, None)

        while (row := self._run(step())) is not None:
            yield row

    def add(
        self, rows: Mapping[str, object] | Iterable[Mapping[str, object]], *, on_conflict: OnConflict = "replace"
    ) -> AddResult:
        return self._run(self._store.add(rows, on_conflict=on_conflict))

    def update(self, id: str, changes: Mapping[str, object]) -> None:
        self._run(self._store.update(id, changes))

    def delete(self, ids: str | Sequence[str]) -> DeleteResult:
        return self._run(self._store.delete(ids))

    def delete_where(
        self, filter: str | Mapping[str, object], *, params: Mapping[str, object] | None = None
    ) -> DeleteResult:
        return self._run(self._store.delete_where(filter, params=params))

    def list(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> builtins.list[Row]:
        return self._run(self._store.list(filter=filter, params=params, columns=columns, read=read))

    def get(self, id: str, *, columns: Sequence[str] | None = None, read: ReadMode | None = None) -> Row | None:
        return self._run(self._store.get(id, columns=columns, read=read))

    def get_many(
        self, ids: Sequence[str], *, columns: Sequence[str] | None = None, read: ReadMode | None = None
    ) -> builtins.list[Row | None]:
        return self._run(self._store.get_many(ids, columns=columns, read=read))

    def exists(self, id: str, *, read: ReadMode | None = None) -> bool:
        return self._run(self._store.exists(id, read=read))

    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> Iterator[Row]:
        return self._each(self._store.iter(filter=filter, params=params, columns=columns, read=read))

    def batches(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> Iterator[RecordBatch]:
        return self._each(self._store.batches(filter=filter, params=params, columns=columns, read=read))

    def count(
        self,
        filter: str | Mapping[str, object] | None = None,
        *,
        params: Mapping[str, object] | None = None,
        read: ReadMode | None = None,
    ) -> int:
        return self._run(self._store.count(filter, params=params, read=read))

    def flush(self) -> None:
        self._run(self._store.flush())

    def merge(self) -> MergeReport:
        return self._run(self._store.merge())

    def schema(self) -> Row:
        return self._store.schema()

    def import_(
        self,
        source: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        format: TransferFormat | None = None,
        on_conflict: OnConflict = "replace",
        columns: Sequence[str] | Mapping[str, str] | None = None,
        skip: int = 0,
        progress: Callable[[TransferProgress], None] | None = None,
    ) -> ImportReport:
        return self._run(
            self._store.import_(
                source, format=format, on_conflict=on_conflict, columns=columns, skip=skip, progress=progress
            )
        )

    def export(
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
        return self._run(
            self._store.export(
                target, filter=filter, params=params, columns=columns, format=format, read=read, progress=progress
            )
        )

    def stats(self) -> StoreStats:
        return self._run(self._store.stats())

    def close(self) -> None:
        self._run(self._store.close())


class Opener:
    """Opens stores of one of the two classes, and closes what a test leaves open."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._opened: list[Twin] = []

    def create(self, path: Path, schema: SchemaDeclaration) -> Twin:
        """A store that reads latest and does nothing by itself."""
        if self._loop is None:
            store = GenericStore.open(path, schema, read="latest", gc_grace=0, maintenance=None)
            return self._kept(cast("Twin", store))

        async def opening() -> AsyncGenericStore:
            return await AsyncGenericStore.open(path, schema, read="latest", gc_grace=0, maintenance=None)

        return self._kept(Awaited(self._loop, self._loop.run_until_complete(opening())))

    def reopen(self, path: Path, *, read_only: bool = False) -> Twin:
        """Another handle of it, which reads sealed rows: all that was durable until now."""
        if self._loop is None:
            store = GenericStore.open_existing(path, read_only=read_only, maintenance=None)
            return self._kept(cast("Twin", store))

        async def opening() -> AsyncGenericStore:
            return await AsyncGenericStore.open_existing(path, read_only=read_only, maintenance=None)

        return self._kept(Awaited(self._loop, self._loop.run_until_complete(opening())))

    def close(self) -> None:
        """Close every store."""
        for store in self._opened:
            store.close()

    def _kept(self, store: Twin) -> Twin:
        self._opened.append(store)
        return store
