"""
The engine of `lance_context`. Private: use the classes of the package.
"""

from _typeshed import SupportsGetItem
from collections.abc import Awaitable
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = ["VERSION", "OpenOptions", "Query", "Store", "shutdown"]

VERSION: Final[str]
"""
The version of the package.
"""

@final
class OpenOptions:
    """
    How a store is opened. `None` means: as the store was created.
    """
    def __new__(cls, /, *, seal_on_add: bool | None = None, fsync: bool | None = None, gc_grace_s: SupportsFloat | SupportsIndex | None = None, read: str = "sealed", read_only: bool = False, storage_options: dict[str, str] | None = None) -> OpenOptions: ...

@final
class Query:
    """
    What a `list` or a `count` asks for.
    """
    def __new__(cls, /, *, filter: "object" = None, params: "object" = None, columns: SupportsGetItem[int, str] | None = None, limit: SupportsIndex | None = None, offset: SupportsIndex = 0, after: str | None = None, read: str | None = None) -> Query: ...

@final
class Store:
    """
    An open store. It belongs to the process that opened it: in a forked child every method raises
    `StateError(code="forked")`.
    """
    def add(self, /, rows: "object") -> int:
        """
        Adds one mapping or an iterable of mappings; returns how many rows.
        """
    def add_async(self, /, rows: "object") -> Awaitable[int]:
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
    @property
    def unsealed_rows(self, /) -> int:
        """
        Durable rows of this handle that are not sealed. No I/O.
        """
    @property
    def uri(self, /) -> str:
        """
        Where the store is.
        """

def shutdown(stores: SupportsGetItem[int, Store], limit_s: SupportsFloat | SupportsIndex) -> None:
    """
    Closes `stores` and stops the runtime for good; at interpreter exit. Each step takes at most `limit_s`.
    """
