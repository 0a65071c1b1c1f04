"""
The engine of `lance_context`. Private: use the classes of the package.
"""

from _typeshed import SupportsGetItem
from collections.abc import Awaitable
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = ["VERSION", "Lines", "Maintenance", "OpenOptions", "Query", "RecordBatch", "Store", "Stream", "shutdown"]

VERSION: Final[str]
"""
The version of the package.
"""

@final
class Lines:
    """
    JSON lines of rows of one schema.
    """
    def __new__(cls, /, schema: str, columns: dict[str, str] | None) -> Lines:
        """
        Lines of the schema in JSON. `columns` selects the members to read, and says which column each one is;
        `None`: every member is a column.
        """
    @property
    def column_names(self, /) -> list[str]:
        """
        The names of all columns, in the order of the declaration.
        """
    def decode(self, /, lines: SupportsGetItem[int, bytes | bytearray]) -> RecordBatch:
        """
        The rows of some lines, one each.
        """
    def empty(self, /, columns: SupportsGetItem[int, str]) -> RecordBatch:
        """
        No rows, with the columns that a query for `columns` yields.
        """
    def encode(self, /, rows: RecordBatch) -> bytes:
        """
        The lines of some rows, each with its end.
        """

@final
class Maintenance:
    """
    What a handle does in the background.
    """
    def __new__(cls, /, *, seal_idle_s: SupportsFloat | SupportsIndex, seal_age_s: SupportsFloat | SupportsIndex, merge_generations: SupportsIndex, merge_bytes: SupportsIndex, compact_bytes: SupportsIndex, orphan_after_s: SupportsFloat | SupportsIndex) -> Maintenance: ...

@final
class OpenOptions:
    """
    How a store is opened. `None` means: as the store was created.
    """
    def __new__(cls, /, *, seal_on_add: bool | None = None, fsync: bool | None = None, gc_grace_s: SupportsFloat | SupportsIndex | None = None, read: str = "sealed", read_only: bool = False, maintenance: Maintenance | None = None, storage_options: dict[str, str] | None = None) -> OpenOptions: ...

@final
class Query:
    """
    What a `list` or a `count` asks for.
    """
    def __new__(cls, /, *, filter: "object" = None, params: "object" = None, columns: SupportsGetItem[int, str] | None = None, order_by: SupportsGetItem[int, str] | None = None, limit: SupportsIndex | None = None, offset: SupportsIndex = 0, after: str | None = None, read: str | None = None) -> Query: ...

@final
class RecordBatch:
    """
    Rows as Arrow columns. Libraries that speak the Arrow `PyCapsule` interface take it as it is, without a
    copy: `pyarrow.record_batch(batch)`, `polars.DataFrame(batch)`.
    """
    def __arrow_c_array__(self, /, requested_schema: "object" = None) -> "tuple[object, object]":
        """
        Schema and data as capsules. A requested schema is a wish, and this one is not granted.
        """
    def __arrow_c_schema__(self, /) -> "object":
        """
        The schema as a capsule.
        """
    def __len__(self, /) -> int: ...
    def __repr__(self, /) -> str: ...
    @property
    def column_names(self, /) -> list[str]:
        """
        The names of its columns.
        """
    @property
    def num_rows(self, /) -> int:
        """
        How many rows it has.
        """

@final
class Store:
    """
    An open store. It belongs to the process that opened it: in a forked child every method raises
    `StateError(code="forked")`.
    """
    def add(self, /, rows: "object", on_conflict: str) -> int:
        """
        Adds one mapping, an iterable of mappings, or Arrow data; returns how many rows.
        """
    def add_async(self, /, rows: "object", on_conflict: str) -> Awaitable[int]:
        """
        Awaitable form of `add`; the rows are read before it returns.
        """
    def close(self, /) -> None:
        """
        Seals and closes. Closing twice is fine.
        """
    def close_async(self, /) -> Awaitable[None]:
        """
        Awaitable form of `close`.
        """
    @property
    def closed(self, /) -> bool:
        """
        Whether the handle is of no more use: closed, or of the parent process.
        """
    def count(self, /, query: Query) -> int:
        """
        How many rows `query` matches, by its filter and visibility.
        """
    def count_async(self, /, query: Query) -> Awaitable[int]:
        """
        Awaitable form of `count`.
        """
    def delete(self, /, ids: SupportsGetItem[int, str]) -> int:
        """
        Deletes the rows of those ids; returns how many there were.
        """
    def delete_async(self, /, ids: SupportsGetItem[int, str]) -> Awaitable[int]:
        """
        Awaitable form of `delete`.
        """
    def delete_where(self, /, query: Query) -> int:
        """
        Deletes the rows that match the filter of `query`; returns how many.
        """
    def delete_where_async(self, /, query: Query) -> Awaitable[int]:
        """
        Awaitable form of `delete_where`.
        """
    @staticmethod
    def doctor(uri: str, options: OpenOptions, repair: bool) -> list[dict[str, Any]]:
        """
        Looks at the files of the store at `uri`.
        """
    @staticmethod
    def doctor_async(uri: str, options: OpenOptions, repair: bool) -> Awaitable[list[dict[str, Any]]]:
        """
        Awaitable form of `doctor`.
        """
    def flush(self, /) -> None:
        """
        Seals what is durable, and waits.
        """
    def flush_async(self, /) -> Awaitable[None]:
        """
        Awaitable form of `flush`.
        """
    def get(self, /, id: str, columns: SupportsGetItem[int, str] | None, read: str | None) -> dict[str, Any] | None:
        """
        The row of that id, or `None`.
        """
    def get_async(self, /, id: str, columns: SupportsGetItem[int, str] | None, read: str | None) -> Awaitable[dict[str, Any] | None]:
        """
        Awaitable form of `get`.
        """
    def get_many(self, /, ids: SupportsGetItem[int, str], columns: SupportsGetItem[int, str] | None, read: str | None) -> list[dict[str, Any] | None]:
        """
        The rows of those ids, `None` where there is none.
        """
    def get_many_async(self, /, ids: SupportsGetItem[int, str], columns: SupportsGetItem[int, str] | None, read: str | None) -> Awaitable[list[dict[str, Any] | None]]:
        """
        Awaitable form of `get_many`.
        """
    def list_rows(self, /, query: Query) -> list[dict[str, Any]]:
        """
        The rows that `query` asks for, ordered by id.
        """
    def list_rows_async(self, /, query: Query) -> Awaitable[list[dict[str, Any]]]:
        """
        Awaitable form of `list_rows`.
        """
    def merge(self, /) -> dict[str, Any]:
        """
        Folds sealed generations into the base table.
        """
    def merge_async(self, /) -> Awaitable[dict[str, Any]]:
        """
        Awaitable form of `merge`.
        """
    @staticmethod
    def open(uri: str, schema: str | None, must_exist: bool, options: OpenOptions) -> Store:
        """
        Opens the store at `uri`; creates it from `schema` unless it must exist.
        """
    @staticmethod
    def open_async(uri: str, schema: str | None, must_exist: bool, options: OpenOptions) -> Awaitable[Store]:
        """
        Awaitable form of `open`.
        """
    def optimize(self, /, older_than_s: SupportsFloat | SupportsIndex | None) -> dict[str, Any]:
        """
        Merges, rewrites small files, removes versions older than `older_than_s` seconds.
        """
    def optimize_async(self, /, older_than_s: SupportsFloat | SupportsIndex | None) -> Awaitable[dict[str, Any]]:
        """
        Awaitable form of `optimize`.
        """
    def schema(self, /) -> str:
        """
        The schema as JSON, in tagged form.
        """
    def stats(self, /) -> dict[str, Any]:
        """
        What is known of the store.
        """
    def stats_async(self, /) -> Awaitable[dict[str, Any]]:
        """
        Awaitable form of `stats`.
        """
    def stream(self, /, query: Query) -> Stream:
        """
        Pins a snapshot and starts to read what `query` matches.
        """
    def stream_async(self, /, query: Query) -> Awaitable[Stream]:
        """
        Awaitable form of `stream`.
        """
    def table(self, /, query: Query) -> list[RecordBatch]:
        """
        The rows that `query` asks for, in its order, as Arrow columns; at least one batch.
        """
    def table_async(self, /, query: Query) -> Awaitable[list[RecordBatch]]:
        """
        Awaitable form of `table`.
        """
    @property
    def unsealed_rows(self, /) -> int:
        """
        Durable rows of this handle that are not sealed. No I/O.
        """
    def update(self, /, id: str, changes: "object") -> None:
        """
        Replaces some cells of the row of that id.
        """
    def update_async(self, /, id: str, changes: "object") -> Awaitable[None]:
        """
        Awaitable form of `update`; the changes are read before it returns.
        """
    @property
    def uri(self, /) -> str:
        """
        Where the store is.
        """

@final
class Stream:
    """
    Rows of a pinned snapshot. Reading ahead stops when it is collected.
    """
    def next_batch(self, /) -> RecordBatch | None:
        """
        The next rows as Arrow columns; `None` behind the last.
        """
    def next_batch_async(self, /) -> Awaitable[RecordBatch | None]:
        """
        Awaitable form of `next_batch`.
        """
    def next_rows(self, /) -> list[dict[str, Any]] | None:
        """
        The next rows as dicts; `None` behind the last.
        """
    def next_rows_async(self, /) -> Awaitable[list[dict[str, Any]] | None]:
        """
        Awaitable form of `next_rows`.
        """

def shutdown(stores: SupportsGetItem[int, Store], limit_s: SupportsFloat | SupportsIndex) -> None:
    """
    Closes `stores` and stops the runtime for good; at interpreter exit. Each step takes at most `limit_s`.
    """
