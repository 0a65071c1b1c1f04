"""What writes the rows of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lance_context._base import BaseStore, query, row_ids, rows_given
from lance_context.types import AddResult, ArrowData, DeleteResult, OnConflict, T


class GenericWrites(BaseStore[T]):
    """The writing part of `GenericStore`."""

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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
            >>> with GenericStore.open("memory://doc-delete-where", {"id": "string", "n": "int64"}) as store:
            ...     _ = store.add({"id": f"r{n}", "n": n} for n in range(5))
            ...     store.delete_where("n >= $least", params={"least": 2}), store.count(read="latest")
            (DeleteResult(count=3), 2)
        """
        return DeleteResult(self._native.delete_where(query(filter=filter, params=params)))
