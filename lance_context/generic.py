"""`GenericStore`: rows of a declared schema.

This opens, keeps and closes it. What reads, writes and moves its rows is in `generic_reads`, `generic_writes` and
`generic_transfer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from lance_context._base import (
    DEFAULT_MAINTENANCE,
    OpenRequest,
    declared,
    doctor_request,
    findings,
    open_request,
    plan_of,
    seconds,
)
from lance_context._native import Store
from lance_context.generic_transfer import GenericTransfer
from lance_context.generic_writes import GenericWrites
from lance_context.types import (
    Finding,
    M,
    MaintenanceOptions,
    MergeReport,
    OptimizeReport,
    ReadMode,
    SchemaDeclaration,
    StoreStats,
    T,
)

if TYPE_CHECKING:
    from lance_context._models import Plan


class GenericStore(GenericTransfer[T], GenericWrites[T]):
    """A store of rows with a declared schema, keyed by ``id``.

    Open one with `open` or `open_existing`, in a ``with`` block or with a `close` at the end. A handle may
    be shared by threads; the GIL is released while storage works. A child that was forked after the first
    use cannot use the package: start children with ``spawn`` or ``forkserver``.

    Opened with a pydantic model, it is a ``GenericStore[Model]``: whole rows are read as models of it. What a
    read leaves out of them, blobs above all, is outside their ``model_fields_set``.

    Ctrl-C ends a blocking call within 50 ms and the handle stays usable. A write that has begun is then
    either fully there or not at all; repeating it is safe, because rows are keyed by ``id``.

    Example:
        >>> schema = {"id": "string", "user": "string", "score": "float32"}
        >>> with GenericStore.open("memory://doc-class", schema) as store:
        ...     _ = store.add([{"id": "r1", "user": "u1", "score": 0.5}, {"id": "r2", "user": "u2"}])
        ...     store.flush()
        ...     store.list(filter="score > $least", params={"least": 0.1})
        [{'id': 'r1', 'user': 'u1', 'score': 0.5}]
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
    ) -> GenericStore[M]: ...

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
    ) -> Self: ...

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
    ) -> Self | GenericStore[M]:
        """Opens the store at `uri`, or creates it.

        `seal_on_add`, `fsync` and `gc_grace` belong to the store: they are set when it is created and
        restored by every later open. ``None`` takes the stored value.

        Args:
            uri: A path, or a uri such as ``s3://bucket/name`` or ``memory://name``.
            schema: Columns by name, or a pydantic model, as `schema_from` reads it; needed to create the store.
                If the store exists, it must mean the same as the stored one.
            seal_on_add: Whether every reader sees a row as soon as `add` returns. ``False`` at creation.
            fsync: Whether an acknowledged row also survives a crash of the machine: every file reaches the
                device, with its directory, before anything relies on it. ``False`` at creation.
            gc_grace: How long superseded files stay for readers that still use them: seconds or a
                timedelta. Five minutes at creation.
            read: What the reads of this handle see unless they say otherwise: ``"sealed"`` rows, or the
                ``"latest"`` durable rows of every writer.
            maintenance: What the handle does in the background once it has written; ``None``: nothing.
            storage_options: Options for the object store.

        Returns:
            The open store.

        Raises:
            SchemaError: The declaration is illegal (``invalid-schema``, ``invalid-column``), it or an
                option contradicts the store (``schema-mismatch``, ``option-mismatch``), or there is no
                store and no `schema` (``schema-missing``).
            FormatError: There is something else at `uri` (``not-a-store``), or it is unreadable
                (``damaged``).
            StateError: This process was forked after its parent used the package (``forked``).
            StorageError: Storage failed (``storage``).
            UnsupportedError: This kind of uri cannot be opened (``unsupported``).
            ValueError: An argument makes no sense.

        Example:
            >>> with GenericStore.open("memory://doc-open", {"id": "string", "score": "float32"}) as store:
            ...     store.closed
            False
            >>> from pydantic import BaseModel
            >>> class Clip(BaseModel):
            ...     id: str
            ...     score: float | None = None
            >>> with GenericStore.open("memory://doc-open-model", Clip, seal_on_add=True) as store:
            ...     _ = store.add(Clip(id="r1", score=0.5))
            ...     store.list()
            [Clip(id='r1', score=0.5)]
        """
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
        return cls._opened(request, read, plan)

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
    ) -> GenericStore[M]: ...

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
    ) -> Self: ...

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
    ) -> Self | GenericStore[M]:
        """Opens a store that must be there.

        Args:
            uri: A path or a uri, as in `open`.
            model: A pydantic model to read rows as. Its fields are columns of the store, and of types that
                pydantic takes for them. The store may have other columns, which a new row then leaves out.
            read_only: Whether every method that writes is refused.
            read: What the reads of this handle see unless they say otherwise.
            maintenance: What the handle does in the background once it has written; ``None``: nothing.
            storage_options: Options for the object store.

        Returns:
            The open store.

        Raises:
            NotFoundError: There is no store (``store-not-found``).
            SchemaError: `model` has no schema (``invalid-column``), or a field of it is no column of the store
                (``schema-mismatch``).
            FormatError: There is something else at `uri` (``not-a-store``), or it is unreadable
                (``damaged``).
            StateError: This process was forked after its parent used the package (``forked``).
            StorageError: Storage failed (``storage``).
            UnsupportedError: This kind of uri cannot be opened (``unsupported``).
            ValueError: An argument makes no sense.

        Example:
            >>> GenericStore.open("memory://doc-existing", {"id": "string"}).close()
            >>> with GenericStore.open_existing("memory://doc-existing", read_only=True) as store:
            ...     store.schema()
            {'id': {'type': 'string', 'large': False, 'nullable': False}}
        """
        request = open_request(
            uri,
            must_exist=True,
            read=read,
            read_only=read_only,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls._opened(request, read, None if model is None else plan_of(model))

    @classmethod
    def _opened(cls, request: OpenRequest, read: ReadMode, plan: Plan[Any] | None) -> Self:
        store = cls(Store.open(*request), read)
        try:
            store._read_as(plan)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def doctor(
        cls,
        uri: str | PathLike[str],
        *,
        repair: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> list[Finding]:
        """Looks at every file of a store: whether it is there, whole, and agrees with the others.

        Args:
            uri: A path or a uri, as in `open`.
            repair: Mend what can be mended without losing an acknowledged row. Nobody, in no process, may have
                the store open meanwhile. Without it nothing is changed, and the store may be in use.
            storage_options: Options for the object store.

        Returns:
            What was found, what a repair mended first. Empty for a store that is in order.

        Raises:
            NotFoundError: There is no store (``store-not-found``).
            FormatError: There is something else at `uri` (``not-a-store``).
            StateError: This process was forked after its parent used the package (``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> with GenericStore.open("memory://doc-doctor", {"id": "string"}) as store:
            ...     _ = store.add({"id": "r1"})
            >>> GenericStore.doctor("memory://doc-doctor")
            []
        """
        return findings(Store.doctor(*doctor_request(uri, repair, storage_options)))

    def flush(self) -> None:
        """Seals what is durable in this handle, and waits until every reader can see it.

        Raises:
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            FencedError: Another process keeps writing to the store (``writer-fenced``), or took it over while
                this one was stopped in the middle of the write (``write-uncertain``).
            StorageError: Storage failed (``storage``). The rows stay durable.

        Example:
            >>> with GenericStore.open("memory://doc-flush", {"id": "string"}) as store:
            ...     _ = store.add({"id": "r1"})
            ...     store.flush()
            ...     store.list()
            [{'id': 'r1'}]
        """
        self._native.flush()

    def merge(self) -> MergeReport:
        """Folds sealed generations into the base table, where every reader of Lance datasets sees them.

        Returns:
            What was merged; nothing, if nothing was pending.

        Raises:
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            StorageError: Storage failed (``storage``). The store stays readable, and the next merge
                finishes the work.

        Example:
            >>> with GenericStore.open("memory://doc-merge", {"id": "string"}, seal_on_add=True) as store:
            ...     _ = store.add([{"id": "r1"}, {"id": "r2"}])
            ...     store.merge().rows
            2
        """
        return MergeReport(**self._native.merge())

    def optimize(self, *, older_than: float | timedelta | None = None) -> OptimizeReport:
        """Merges, rewrites small files into larger ones, completes the index, and removes old versions.

        Background maintenance does all of this by itself, a little at a time.

        Args:
            older_than: Remove versions of the base table that are older than this, in seconds or as a
                timedelta; at least the store's ``gc_grace``. Versions with a tag stay.

        Returns:
            What was done.

        Raises:
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            StorageError: Storage failed (``storage``). What was done until then stays done.

        Example:
            >>> with GenericStore.open("memory://doc-optimize", {"id": "string"}, seal_on_add=True) as store:
            ...     _ = store.add({"id": "r1"})
            ...     store.optimize().generations
            1
        """
        return OptimizeReport(**self._native.optimize(seconds(older_than)))

    def stats(self) -> StoreStats:
        """Reads the store's counters.

        Returns:
            The counters at this moment.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> with GenericStore.open("memory://doc-stats", {"id": "string"}) as store:
            ...     _ = store.add({"id": "r1"})
            ...     store.stats().unsealed_rows
            1
        """
        return self._noted(StoreStats(**self._native.stats()))

    def close(self) -> None:
        """Seals, and gives up the handle. Closing twice is fine.

        Raises:
            StateError: The handle was opened before a fork (``forked``).
            StorageError: The last rows could not be sealed (``storage``). They stay durable.

        Example:
            >>> store = GenericStore.open("memory://doc-close", {"id": "string"})
            >>> store.close()
            >>> store.closed
            True
        """
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
