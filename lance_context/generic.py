"""`GenericStore`: rows of a declared schema."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

from lance_context._base import (
    DEFAULT_MAINTENANCE,
    BaseStore,
    as_they_are,
    findings,
    many_ids,
    open_request,
    plan_given,
    plan_of,
    query,
    row_ids,
    rows_given,
    seconds,
)
from lance_context._native import RecordBatch, Store, Stream
from lance_context._tables import arrow_table, pandas_frame, polars_frame
from lance_context._transfer import Export, Import
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


class GenericStore(BaseStore[T]):
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
        plan = plan_given(schema)
        request = open_request(
            uri,
            plan.schema if plan else cast("SchemaDeclaration | None", schema),
            seal_on_add=seal_on_add,
            fsync=fsync,
            gc_grace=gc_grace,
            read=read,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls._opened(Store.open(*request), read, plan)

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
        plan = plan_of(model)
        request = open_request(
            uri,
            must_exist=True,
            read=read,
            read_only=read_only,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls._opened(Store.open(*request), read, plan)

    @classmethod
    def _opened(cls, native: Store, read: ReadMode, plan: Plan[Any] | None) -> Self:
        store = cls(native, read)
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
    ) -> builtins.list[Finding]:
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
        request = open_request(uri, must_exist=True, read_only=not repair, storage_options=storage_options)
        return findings(Store.doctor(request.uri, request.options, repair))

    def add(
        self,
        rows: T | Mapping[str, object] | Iterable[T | Mapping[str, object]] | ArrowData,
        *,
        on_conflict: OnConflict = "replace",
    ) -> AddResult:
        """Makes rows durable; a row with the ``id`` of an older one replaces it as a whole.

        The rows are added all or none. When `add` returns they survive a crash of the process; other
        readers see them once they are sealed, ``read="latest"`` sees them at once.

        Args:
            rows: One row, or any iterable of rows; models are such. Or Arrow columns, matched by name: a table
                or frame of pyarrow, Polars, pandas or DuckDB. A column that is left out is null.
            on_conflict: What becomes of a row whose ``id`` is there already, durable anywhere or earlier in
                the same call: it replaces the older one, or the call is an ``"error"``, or it is left out
                (``"ignore"``).

        Returns:
            How many rows were added.

        Raises:
            AlreadyExistsError: ``on_conflict="error"`` and an ``id`` is taken (``row-exists``). Nothing was
                written.
            RowError: A row does not fit the schema (``unknown-column``, ``missing-value``, ``wrong-type``,
                ``out-of-range``, ``invalid-row``), it is a model that a read left columns out of
                (``missing-value``), or there are too many for one call (``batch-too-large``). Nothing was
                written.
            SchemaError: The class of a model has no schema (``invalid-column``).
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            FencedError: Another process keeps writing to the store (``writer-fenced``), or took over in the
                middle of this write, which is there or not (``write-uncertain``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> schema = {"id": "string", "at": "timestamp", "tags": {"type": "list", "item": "string"}}
            >>> with GenericStore.open("memory://doc-add", schema) as store:
            ...     store.add({"id": "r1", "tags": ["a", "b"]})
            AddResult(count=1)
        """
        return AddResult(self._native.add(rows_given(rows), on_conflict))

    def update(self, id: str, changes: Mapping[str, object]) -> None:
        """Changes some columns of one row, and leaves the others as they are.

        The newest durable row is read and written as one: of two updates of different columns none is lost,
        also when two processes make them.

        Args:
            id: The row's ``id``.
            changes: New values by column.

        Raises:
            NotFoundError: There is no such row (``row-not-found``).
            RowError: A value does not fit, or `changes` names the ``id`` or an undeclared column
                (``unknown-column``, ``missing-value``, ``wrong-type``, ``out-of-range``, ``invalid-row``).
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            FencedError: As in `add` (``writer-fenced``, ``write-uncertain``).
            StorageError: Storage failed (``storage``).
            ValueError: `changes` is empty.

        Example:
            >>> schema = {"id": "string", "score": "float32", "note": "string"}
            >>> with GenericStore.open("memory://doc-update", schema, read="latest") as store:
            ...     _ = store.add({"id": "r1", "score": 0.5, "note": "first"})
            ...     store.update("r1", {"score": 1.0})
            ...     store.get("r1")
            {'id': 'r1', 'score': 1.0, 'note': 'first'}
        """
        self._native.update(id, changes)

    def delete(self, ids: str | Sequence[str]) -> DeleteResult:
        """Deletes rows, all or none, as durably as `add` writes them.

        Args:
            ids: One ``id`` or several. Those that are not there are passed over.

        Returns:
            How many rows there were.

        Raises:
            RowError: There are too many for one call (``batch-too-large``).
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            FencedError: As in `add` (``writer-fenced``, ``write-uncertain``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> with GenericStore.open("memory://doc-delete", {"id": "string"}, read="latest") as store:
            ...     _ = store.add([{"id": "r1"}, {"id": "r2"}])
            ...     store.delete(["r1", "r9"]), store.list()
            (DeleteResult(count=1), [{'id': 'r2'}])
        """
        return DeleteResult(self._native.delete(row_ids(ids)))

    def delete_where(
        self, filter: str | Mapping[str, object], *, params: Mapping[str, object] | None = None
    ) -> DeleteResult:
        """Deletes the latest rows that match a filter.

        Up to 100,000 rows go all or none; more go in steps, and a failure in between leaves the later ones.

        Args:
            filter: Which rows, as in `list`.
            params: Values for ``$name`` in the expression.

        Returns:
            How many rows were deleted.

        Raises:
            QueryError: The filter or a parameter cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            FencedError: As in `add` (``writer-fenced``, ``write-uncertain``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> with GenericStore.open("memory://doc-delete-where", {"id": "string", "n": "int64"}) as store:
            ...     _ = store.add({"id": f"r{n}", "n": n} for n in range(5))
            ...     store.delete_where("n >= $least", params={"least": 2}), store.count(read="latest")
            (DeleteResult(count=3), 2)
        """
        return DeleteResult(self._native.delete_where(query(filter=filter, params=params)))

    @overload
    def list(
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
    def list(
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

    def list(
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
        """Reads rows, ordered by ``id`` or as asked.

        Args:
            filter: A SQL expression over the columns, or values that columns must equal.
            params: Values for ``$name`` in the expression.
            columns: The columns to read; ``id`` always comes first. By default all but blobs. Rows of named
                columns are dicts, never models.
            order_by: A column, or several; ``"-score"`` has the greatest first. Nulls come last, NaN counts as
                greater than every number, and rows that are equal in all of them are ordered by ``id``.
            limit: At most this many rows.
            offset: How many rows of the ordered result to leave out first.
            after: Only rows with a greater ``id``: paging that stays right while rows are added. Not together with
                `order_by`.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            The rows, as models if the store was opened with one.

        Raises:
            QueryError: The filter, a parameter, a column or the order cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            RowError: A row does not fit the model that the store was opened with (``invalid-row``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).

        Example:
            >>> with GenericStore.open("memory://doc-list", {"id": "string", "n": "int64"}) as store:
            ...     _ = store.add({"id": f"r{n}", "n": n} for n in range(5))
            ...     store.list(filter="n >= $least", params={"least": 2}, limit=2, read="latest")
            [{'id': 'r2', 'n': 2}, {'id': 'r3', 'n': 3}]
        """
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
        rows = self._native.list_rows(asked)
        if not rows:
            self._saw_nothing(read)
        return self._typed(rows) if columns is None else rows

    @overload
    def get(self, id: str, *, columns: None = None, read: ReadMode | None = None) -> T | None: ...

    @overload
    def get(self, id: str, *, columns: Sequence[str], read: ReadMode | None = None) -> Row | None: ...

    def get(self, id: str, *, columns: Sequence[str] | None = None, read: ReadMode | None = None) -> T | Row | None:
        """Reads one row.

        Args:
            id: The row's ``id``.
            columns: The columns to read, as in `list`.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            The row, as a model if the store was opened with one, or ``None``.

        Raises:
            QueryError: A column is not declared (``query-column``).
            RowError: A row does not fit the model that the store was opened with (``invalid-row``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).

        Example:
            >>> schema = {"id": "string", "video": {"type": "binary", "blob": True}}
            >>> with GenericStore.open("memory://doc-get", schema, read="latest") as store:
            ...     _ = store.add({"id": "r1", "video": b"mp4"})
            ...     store.get("r1"), store.get("r1", columns=["video"]), store.get("r2")
            ({'id': 'r1'}, {'id': 'r1', 'video': b'mp4'}, None)
        """
        row = self._native.get(id, self._asked(columns), read)
        if row is None:
            self._saw_nothing(read)
        return row if row is None or columns is not None else self._typed([row])[0]

    @overload
    def get_many(
        self, ids: Sequence[str], *, columns: None = None, read: ReadMode | None = None
    ) -> builtins.list[T | None]: ...

    @overload
    def get_many(
        self, ids: Sequence[str], *, columns: Sequence[str], read: ReadMode | None = None
    ) -> builtins.list[Row | None]: ...

    def get_many(
        self, ids: Sequence[str], *, columns: Sequence[str] | None = None, read: ReadMode | None = None
    ) -> builtins.list[T | None] | builtins.list[Row | None]:
        """Reads several rows, all as of one moment.

        Args:
            ids: The ``id`` of each row.
            columns: The columns to read, as in `list`.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            For each of `ids`, in that order, the row as `get` returns it, or ``None``.

        Raises:
            QueryError: A column is not declared (``query-column``).
            RowError: A row does not fit the model that the store was opened with (``invalid-row``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).

        Example:
            >>> with GenericStore.open("memory://doc-get-many", {"id": "string"}, read="latest") as store:
            ...     _ = store.add([{"id": "r1"}, {"id": "r2"}])
            ...     store.get_many(["r2", "r9", "r1"])
            [{'id': 'r2'}, None, {'id': 'r1'}]
        """
        rows = self._native.get_many(many_ids(ids), self._asked(columns), read)
        if rows and all(row is None for row in rows):
            self._saw_nothing(read)
        return self._typed_or_none(rows) if columns is None else rows

    def exists(self, id: str, *, read: ReadMode | None = None) -> bool:
        """Looks whether there is a row.

        Args:
            id: The row's ``id``.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            Whether it is there.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).

        Example:
            >>> with GenericStore.open("memory://doc-exists", {"id": "string"}, read="latest") as store:
            ...     _ = store.add({"id": "r1"})
            ...     store.exists("r1"), store.exists("r2")
            (True, False)
        """
        return self._native.get(id, ["id"], read) is not None

    @overload
    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: None = None,
        read: ReadMode | None = None,
    ) -> Iterator[T]: ...

    @overload
    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str],
        read: ReadMode | None = None,
    ) -> Iterator[Row]: ...

    def iter(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> Iterator[T] | Iterator[Row]:
        """Goes through rows in storage order, in bounded memory.

        The rows are those of the moment of the call, each once, whatever is written meanwhile. Files that they
        need stay for `gc_grace`; a loop that takes longer may end with a retryable `StorageError`.

        Args:
            filter: Which rows, as in `list`. By default all.
            params: Values for ``$name`` in the expression.
            columns: The columns to read, as in `list`.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            An iterator over the rows, as models if the store was opened with one.

        Raises:
            QueryError: The filter, a parameter or a column cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            RowError: A row does not fit the model that the store was opened with (``invalid-row``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).

        Example:
            >>> with GenericStore.open("memory://doc-iter", {"id": "string", "n": "int64"}, read="latest") as store:
            ...     _ = store.add({"id": f"r{n}", "n": n} for n in range(5))
            ...     sum(row["n"] for row in store.iter())
            10
        """
        asked = query(filter=filter, params=params, columns=self._asked(columns), read=read)
        stream = self._native.stream(asked)
        return _rows(stream, self._typed) if columns is None else _rows(stream, as_they_are)

    def batches(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        read: ReadMode | None = None,
    ) -> Iterator[RecordBatch]:
        """Goes through rows as `iter` does, as Arrow columns, without a copy.

        Args:
            filter: Which rows, as in `list`. By default all.
            params: Values for ``$name`` in the expression.
            columns: The columns to read, as in `list`.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            An iterator over record batches of a few thousand rows, fewer where rows are large. Any library
            with the Arrow PyCapsule interface takes one: ``pyarrow.record_batch(batch)``.

        Raises:
            QueryError: The filter, a parameter or a column cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).

        Example:
            >>> with GenericStore.open("memory://doc-batches", {"id": "string"}, read="latest") as store:
            ...     _ = store.add({"id": f"r{n}"} for n in range(5))
            ...     [(len(batch), batch.column_names) for batch in store.batches()]
            [(5, ['id'])]
        """
        return _batches(self._native.stream(query(filter=filter, params=params, columns=columns, read=read)))

    def to_arrow(
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
        """Reads rows as a table of pyarrow, without a copy.

        Args:
            filter: Which rows, as in `list`. By default all.
            params: Values for ``$name`` in the expression.
            columns: The columns to read, as in `list`.
            order_by: What the rows are ordered by, as in `list`.
            limit: At most this many rows.
            offset: How many rows of the ordered result to leave out first.
            after: Only rows with a greater ``id``.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            The table. A ``json`` column holds JSON text.

        Raises:
            QueryError: The filter, a parameter, a column or the order cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).
            ImportError: pyarrow is not installed.

        Example:
            >>> with GenericStore.open("memory://doc-arrow", {"id": "string", "n": "int64"}, read="latest") as store:
            ...     _ = store.add({"id": f"r{n}", "n": n} for n in range(3))
            ...     store.to_arrow(order_by="-n").column("n").to_pylist()
            [2, 1, 0]
        """
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
        return arrow_table(self._native.table(asked))

    def to_pandas(
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
        """Reads rows as a frame of pandas.

        Args:
            filter: Which rows, as in `list`. By default all.
            params: Values for ``$name`` in the expression.
            columns: The columns to read, as in `list`.
            order_by: What the rows are ordered by, as in `list`.
            limit: At most this many rows.
            offset: How many rows of the ordered result to leave out first.
            after: Only rows with a greater ``id``.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            The frame. Integers and bools have pandas' nullable types, so that a null changes no number; a ``json``
            column holds JSON text.

        Raises:
            QueryError: The filter, a parameter, a column or the order cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).
            ImportError: pandas or pyarrow is not installed.

        Example:
            >>> with GenericStore.open("memory://doc-pandas", {"id": "string", "n": "int64"}, read="latest") as store:
            ...     _ = store.add({"id": f"r{n}", "n": n} for n in range(3))
            ...     int(store.to_pandas(filter="n > 0")["n"].sum())
            3
        """
        table = self.to_arrow(
            filter=filter,
            params=params,
            columns=columns,
            order_by=order_by,
            limit=limit,
            offset=offset,
            after=after,
            read=read,
        )
        return pandas_frame(table)

    def to_polars(
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
        """Reads rows as a frame of Polars.

        Args:
            filter: Which rows, as in `list`. By default all.
            params: Values for ``$name`` in the expression.
            columns: The columns to read, as in `list`.
            order_by: What the rows are ordered by, as in `list`.
            limit: At most this many rows.
            offset: How many rows of the ordered result to leave out first.
            after: Only rows with a greater ``id``.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            The frame. A ``json`` column holds JSON text.

        Raises:
            QueryError: The filter, a parameter, a column or the order cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).
            ImportError: Polars or pyarrow is not installed.

        Example:
            >>> with GenericStore.open("memory://doc-polars", {"id": "string", "n": "int64"}, read="latest") as store:
            ...     _ = store.add({"id": f"r{n}", "n": n} for n in range(3))
            ...     store.to_polars(limit=2)["id"].to_list()
            ['r0', 'r1']
        """
        table = self.to_arrow(
            filter=filter,
            params=params,
            columns=columns,
            order_by=order_by,
            limit=limit,
            offset=offset,
            after=after,
            read=read,
        )
        return polars_frame(table)

    def count(
        self,
        filter: str | Mapping[str, object] | None = None,
        *,
        params: Mapping[str, object] | None = None,
        read: ReadMode | None = None,
    ) -> int:
        """Counts rows.

        Args:
            filter: Which rows, as in `list`. By default all.
            params: Values for ``$name`` in the expression.
            read: Which rows are visible; by default as the handle was opened.

        Returns:
            How many there are.

        Raises:
            QueryError: The filter or a parameter cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).

        Example:
            >>> with GenericStore.open("memory://doc-count", {"id": "string", "n": "int64"}) as store:
            ...     _ = store.add({"id": f"r{n}", "n": n % 2} for n in range(5))
            ...     store.count({"n": 1}, read="latest")
            2
        """
        return self._native.count(query(filter=filter, params=params, read=read))

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
        return OptimizeReport(**self._native.optimize(None if older_than is None else seconds(older_than)))

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
        """Adds the rows of files, in bounded memory.

        Rows are added in chunks of up to 20,000 rows or 16 MiB, each as one `add`: durably, all or none. An import
        that breaks off leaves the chunks before; the error says how many rows that are (`rows_done`) and which
        `skip` goes on behind them. Starting over is safe too, because rows are keyed by ``id``.

        Of JSON lines each is a row: an object by column name, bytes as base64, timestamps in RFC 3339, floats that
        JSON does not know as ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. Blank lines are passed over. What
        a file holds in one piece is read in one: a batch of Arrow IPC, a page or a dictionary of Parquet.

        Args:
            source: A path, or several, which are read one after another.
            format: By default as the suffix says: ``.parquet``; ``.jsonl`` and ``.ndjson``, with ``.gz`` compressed;
                ``.arrow``, ``.feather`` and ``.ipc``, or ``.arrows`` for a stream.
            on_conflict: What becomes of a row whose ``id`` is there already, as in `add`.
            columns: The columns of the files to take, or a mapping from them to those of the store. By default all
                are taken, and one that the store does not have is an error.
            skip: How many rows to pass over at the beginning, of all files together.
            progress: Called after each chunk.

        Returns:
            How many rows were read and added.

        Raises:
            RowError: A row does not fit (``unknown-column``, ``missing-value``, ``wrong-type``, ``out-of-range``,
                ``invalid-row``, ``batch-too-large``). `row` is its index in the file. Nothing of its chunk was
                written.
            AlreadyExistsError: ``on_conflict="error"`` and an ``id`` is taken (``row-exists``). Nothing of its chunk
                was written.
            QueryError: `columns` names a column that the store does not have (``query-column``).
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            FencedError: As in `add` (``writer-fenced``, ``write-uncertain``).
            StorageError: Storage failed (``storage``).
            OSError: A file cannot be read; of several, none was imported if one is not there.
            ValueError: The format is unknown, a file is not of it or does not have one of `columns`, or an argument
                makes no sense.

        Example:
            >>> from pathlib import Path
            >>> from tempfile import TemporaryDirectory
            >>> schema = {"id": "string", "score": "float32"}
            >>> with TemporaryDirectory() as place, GenericStore.open("memory://doc-import", schema) as store:
            ...     file = Path(place, "rows.jsonl")
            ...     _ = file.write_text('{"id": "r1", "score": 0.5}')
            ...     store.import_(file)
            ImportReport(rows=1, added=1, skipped=0, chunks=1)
        """
        reading = Import(self._native, source, format=format, columns=columns, skip=skip, progress=progress)
        with reading:
            while (rows := reading.next()) is not None:
                reading.added(self._native.add(rows, on_conflict))
        return reading.report()

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
        """Writes rows to a file, in bounded memory.

        The rows are those of the moment of the call, as in `iter`. The file is there when `export` returns, whole
        and on the device, and not before; one that was there until then is replaced. `import_` reads the same rows
        back. In Parquet and Arrow IPC, a json column is one of text.

        Args:
            target: A path.
            filter: Which rows, as in `list`. By default all.
            params: Values for ``$name`` in the expression.
            columns: The columns to write; ``id`` always comes first. By default all, blobs too.
            format: By default as the suffix says, as in `import_`.
            read: Which rows are visible; by default as the handle was opened.
            progress: Called after each batch.

        Returns:
            How many rows were written, and how large the file is.

        Raises:
            QueryError: The filter, a parameter or a column cannot be understood (``invalid-query``,
                ``query-parameter``, ``query-column``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            FormatError: Stored data cannot be read (``damaged``).
            OSError: The file cannot be written.
            ValueError: The format is unknown.

        Example:
            >>> from pathlib import Path
            >>> from tempfile import TemporaryDirectory
            >>> schema = {"id": "string", "data": "binary"}
            >>> with TemporaryDirectory() as place, GenericStore.open("memory://doc-export", schema) as store:
            ...     _ = store.add({"id": "r1", "data": b"x"})
            ...     file = Path(place, "rows.jsonl")
            ...     store.export(file, read="latest").rows, file.read_text().strip()
            (1, '{"id":"r1","data":"eA=="}')
        """
        writing = Export(self._native, target, format=format, columns=columns, progress=progress)
        with writing:
            asked = query(filter=filter, params=params, columns=writing.columns, read=read)
            for batch in _batches(self._native.stream(asked)):
                writing.write(batch)
                writing.written()
            report = writing.finish()
        if not report.rows:
            self._saw_nothing(read)
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _rows(stream: Stream, read_as: Callable[[builtins.list[Row]], builtins.list[R]]) -> Iterator[R]:
    while (rows := stream.next_rows()) is not None:
        yield from read_as(rows)


def _batches(stream: Stream) -> Iterator[RecordBatch]:
    while (batch := stream.next_batch()) is not None:
        yield batch
