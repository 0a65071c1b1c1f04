"""What reads the rows of a store."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, overload

from lance_context._base import BaseStore, as_they_are, many_ids, query
from lance_context._native import RecordBatch, Stream
from lance_context.types import ReadMode, Row, T

R = TypeVar("R")


class GenericReads(BaseStore[T]):
    """The reading part of `GenericStore`."""

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
            >>> from lance_context import GenericStore
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
        return self._listed(self._native.list_rows(asked), columns, read)

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
            >>> from lance_context import GenericStore
            >>> schema = {"id": "string", "video": {"type": "binary", "blob": True}}
            >>> with GenericStore.open("memory://doc-get", schema, read="latest") as store:
            ...     _ = store.add({"id": "r1", "video": b"mp4"})
            ...     store.get("r1"), store.get("r1", columns=["video"]), store.get("r2")
            ({'id': 'r1'}, {'id': 'r1', 'video': b'mp4'}, None)
        """
        return self._got(self._native.get(id, self._asked(columns), read), columns, read)

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
            >>> from lance_context import GenericStore
            >>> with GenericStore.open("memory://doc-get-many", {"id": "string"}, read="latest") as store:
            ...     _ = store.add([{"id": "r1"}, {"id": "r2"}])
            ...     store.get_many(["r2", "r9", "r1"])
            [{'id': 'r2'}, None, {'id': 'r1'}]
        """
        rows = self._native.get_many(many_ids(ids), self._asked(columns), read)
        return self._got_many(rows, columns, read)

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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
            >>> with GenericStore.open("memory://doc-batches", {"id": "string"}, read="latest") as store:
            ...     _ = store.add({"id": f"r{n}"} for n in range(5))
            ...     [(len(batch), batch.column_names) for batch in store.batches()]
            [(5, ['id'])]
        """
        return _batches(self._native.stream(query(filter=filter, params=params, columns=columns, read=read)))

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
            >>> from lance_context import GenericStore
            >>> with GenericStore.open("memory://doc-count", {"id": "string", "n": "int64"}) as store:
            ...     _ = store.add({"id": f"r{n}", "n": n % 2} for n in range(5))
            ...     store.count({"n": 1}, read="latest")
            2
        """
        return self._native.count(query(filter=filter, params=params, read=read))


def _rows(stream: Stream, read_as: Callable[[builtins.list[Row]], builtins.list[R]]) -> Iterator[R]:
    while (rows := stream.next_rows()) is not None:
        yield from read_as(rows)


def _batches(stream: Stream) -> Iterator[RecordBatch]:
    while (batch := stream.next_batch()) is not None:
        yield batch
