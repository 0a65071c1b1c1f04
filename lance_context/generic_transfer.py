"""What takes the rows of a store out as tables, and out to files and in from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from lance_context._base import query
from lance_context._tables import arrow_table, pandas_frame, polars_frame
from lance_context.generic_reads import GenericReads
from lance_context.types import (
    ExportReport,
    ImportReport,
    OnConflict,
    ReadMode,
    T,
    TransferFormat,
    TransferProgress,
)

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class GenericTransfer(GenericReads[T]):
    """The part of `GenericStore` that moves many rows at once."""

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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
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
            >>> from lance_context import GenericStore
            >>> from pathlib import Path
            >>> from tempfile import TemporaryDirectory
            >>> schema = {"id": "string", "score": "float32"}
            >>> with TemporaryDirectory() as place, GenericStore.open("memory://doc-import", schema) as store:
            ...     file = Path(place, "rows.jsonl")
            ...     _ = file.write_text('{"id": "r1", "score": 0.5}')
            ...     store.import_(file)
            ImportReport(rows=1, added=1, skipped=0, chunks=1)
        """
        from lance_context._transfer import Import

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
            >>> from lance_context import GenericStore
            >>> from pathlib import Path
            >>> from tempfile import TemporaryDirectory
            >>> schema = {"id": "string", "data": "binary"}
            >>> with TemporaryDirectory() as place, GenericStore.open("memory://doc-export", schema) as store:
            ...     _ = store.add({"id": "r1", "data": b"x"})
            ...     file = Path(place, "rows.jsonl")
            ...     store.export(file, read="latest").rows, file.read_text().strip()
            (1, '{"id":"r1","data":"eA=="}')
        """
        from lance_context._transfer import Export

        writing = Export(self._native, target, format=format, columns=columns, progress=progress)
        with writing:
            for batch in self.batches(filter=filter, params=params, columns=writing.columns, read=read):
                writing.write(batch)
                writing.written()
            report = writing.finish()
        return self._exported(report, read)
