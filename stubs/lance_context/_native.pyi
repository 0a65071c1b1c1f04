"""
The engine of `lance_context`. Private: use the classes of the package.
"""

from _typeshed import SupportsGetItem
from collections.abc import Awaitable
from lance_context.datagen_types import Failure, FoldedItem, FoldedValue, Overview
from lance_context.tree import ItemTree
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = ["VERSION", "DatagenItemId", "EventBatch", "FieldList", "Lines", "Log", "Maintenance", "OpenOptions", "Query", "RecordBatch", "Store", "Stream", "StreamWriter", "check_config", "datagen_event_id", "fold_batch", "shutdown"]

VERSION: Final[str]
"""
The version of the package.
"""

@final
class DatagenItemId:
    """
    The id of an item: `root`, or `root/step:branch/step:branch…` for one that was expanded from another.

    Inside a segment `/`, `:`, `%` and control characters are percent-encoded, so an id has exactly one text. Ids are
    equal when their texts are (also to a plain `str`), hash like them, and sort as the tree in preorder: a parent
    before its children, branches by number. They can be pickled.

    Text that comes from elsewhere, such as a path or a url, is a key: `from_source_key` makes an id of it.
    """
    def __eq__(self, other: object, /) -> bool: ...
    def __ge__(self, other: object, /) -> bool: ...
    def __gt__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int:
        """
        That of the text, so that an id finds what is keyed by text.
        """
    def __le__(self, other: object, /) -> bool: ...
    def __lt__(self, other: object, /) -> bool: ...
    def __new__(cls, /, text: str | DatagenItemId) -> DatagenItemId:
        """
        Reads id text, as `parse` does.
        """
    def __reduce__(self, /) -> "tuple[object, tuple[str]]": ...
    def __repr__(self, /) -> str: ...
    def __str__(self, /) -> str: ...
    @property
    def branch_idx(self, /) -> int | None:
        """
        The number of this item among its step's children; `None` for a root.
        """
    def child(self, /, step: str, branch: SupportsIndex) -> DatagenItemId:
        """
        The id of child number `branch` that step `step` expands this item into.
        """
    @property
    def depth(self, /) -> int:
        """
        How many steps below its root the item is.
        """
    @staticmethod
    def from_source_key(key: str) -> DatagenItemId:
        """
        The id of the root item for a raw key, such as a file path or a url.
        """
    @property
    def is_root(self, /) -> bool:
        """
        Whether the item has no parent.
        """
    @property
    def origin_step(self, /) -> str | None:
        """
        The step that expanded the parent into this item; `None` for a root.
        """
    @property
    def parent(self, /) -> DatagenItemId | None:
        """
        The item that this one was expanded from; `None` for a root.
        """
    @staticmethod
    def parse(text: str | DatagenItemId) -> DatagenItemId:
        """
        Reads id text; raises `ValueError` for text that is no id.
        """
    @property
    def root(self, /) -> DatagenItemId:
        """
        The root item; a root's is itself.
        """
    @property
    def source_key(self, /) -> str:
        """
        The raw key of the root.
        """

@final
class EventBatch:
    """
    Events on their way to a store, as the writer stamped them.
    """
    def __len__(self, /) -> int: ...
    def events(self, /) -> list[dict[str, Any]]:
        """
        The events as dicts.
        """
    def fields(self, /) -> list[tuple[str, str, FoldedValue]]:
        """
        Name, operation and value of each field that the events write, as a fold shows them.
        """
    @property
    def last_event_id(self, /) -> str | None:
        """
        The id of the last event.
        """

@final
class FieldList:
    """
    The field writes of a step, in order. A value is read when it is added: what becomes of the object later changes
    nothing.
    """
    def __len__(self, /) -> int: ...
    def __new__(cls, /) -> FieldList: ...
    def add(self, /, field_name: str, value: "object", op: str, field_type: str | None, codec_version: SupportsIndex) -> None:
        """
        Adds one write; without a `field_type` it is the kind of the value.
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
class Log:
    """
    An open item log. It belongs to the process that opened it: in a forked child every method raises
    `StateError(code="forked")`.
    """
    def append(self, /, events: "object", intent: str) -> tuple[int, int]:
        """
        Appends one event, an iterable of events or a batch of the writer; returns how many came and how many were new.
        `intent` is `append`, `checkpoint` or `open`.
        """
    def append_async(self, /, events: "object", intent: str) -> Awaitable[tuple[int, int]]:
        """
        Awaitable form of `append`; the events are read before it returns.
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
    @staticmethod
    def doctor(uri: str, options: OpenOptions, repair: bool) -> list[dict[str, Any]]:
        """
        Looks at the files of the log at `uri`.
        """
    @staticmethod
    def doctor_async(uri: str, options: OpenOptions, repair: bool) -> Awaitable[list[dict[str, Any]]]:
        """
        Awaitable form of `doctor`.
        """
    def events_since(self, /, cursor: str | None) -> tuple[list[str], list[dict[str, Any]], str | None]:
        """
        A page of events behind a cursor, each with its own, and the cursor to go on from, if anything is behind.
        """
    def events_since_async(self, /, cursor: str | None) -> Awaitable[tuple[list[str], list[dict[str, Any]], str | None]]:
        """
        Awaitable form of `events_since`.
        """
    def failed_items(self, /) -> list[FoldedItem]:
        """
        The items that have failed and not recovered.
        """
    def failed_items_async(self, /) -> Awaitable[list[FoldedItem]]:
        """
        Awaitable form of `failed_items`.
        """
    def flush(self, /) -> None:
        """
        Seals what is durable, and waits.
        """
    def flush_async(self, /) -> Awaitable[None]:
        """
        Awaitable form of `flush`.
        """
    def fold_item(self, /, item_id: str | DatagenItemId, load_blobs: bool, strict: bool) -> FoldedItem | None:
        """
        The latest state of an item, or `None`; `strict` raises on problems.
        """
    def fold_item_async(self, /, item_id: str | DatagenItemId, load_blobs: bool, strict: bool) -> Awaitable[FoldedItem | None]:
        """
        Awaitable form of `fold_item`.
        """
    def get_blob(self, /, event_id: str) -> bytes:
        """
        The bytes of the blob of an event.
        """
    def get_blob_async(self, /, event_id: str) -> Awaitable[bytes]:
        """
        Awaitable form of `get_blob`.
        """
    def item_events(self, /, item_id: str | DatagenItemId) -> list[dict[str, Any]]:
        """
        The events of an item by attempt, epoch and seq, without blob bytes.
        """
    def item_events_async(self, /, item_id: str | DatagenItemId) -> Awaitable[list[dict[str, Any]]]:
        """
        Awaitable form of `item_events`.
        """
    def item_failures(self, /, item_id: str | DatagenItemId) -> list[Failure]:
        """
        The failures of an item in order.
        """
    def item_failures_async(self, /, item_id: str | DatagenItemId) -> Awaitable[list[Failure]]:
        """
        Awaitable form of `item_failures`.
        """
    def item_tree(self, /, root: str | DatagenItemId, max_items: SupportsIndex, max_depth: SupportsIndex | None) -> ItemTree:
        """
        The items at and below one.
        """
    def item_tree_async(self, /, root: str | DatagenItemId, max_items: SupportsIndex, max_depth: SupportsIndex | None) -> Awaitable[ItemTree]:
        """
        Awaitable form of `item_tree`.
        """
    def items(self, /, filter: "object", params: "object", limit: SupportsIndex | None, after: str | DatagenItemId | None) -> list[FoldedItem]:
        """
        Folded items ordered by id.
        """
    def items_async(self, /, filter: "object", params: "object", limit: SupportsIndex | None, after: str | DatagenItemId | None) -> Awaitable[list[FoldedItem]]:
        """
        Awaitable form of `items`.
        """
    def last_event_id(self, /, item_id: str | DatagenItemId) -> str | None:
        """
        The last event of an item that counts, or `None`.
        """
    def last_event_id_async(self, /, item_id: str | DatagenItemId) -> Awaitable[str | None]:
        """
        Awaitable form of `last_event_id`.
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
    def open(uri: str, must_exist: bool, options: OpenOptions) -> Log:
        """
        Opens the log at `uri`; creates it unless it must exist.
        """
    @staticmethod
    def open_async(uri: str, must_exist: bool, options: OpenOptions) -> Awaitable[Log]:
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
    def overview(self, /) -> Overview:
        """
        Counts over all items.
        """
    def overview_async(self, /) -> Awaitable[Overview]:
        """
        Awaitable form of `overview`.
        """
    def pending(self, /, item_ids: SupportsGetItem[int, str | DatagenItemId]) -> list[DatagenItemId]:
        """
        Those of `item_ids` that have not ended, in that order.
        """
    def pending_async(self, /, item_ids: SupportsGetItem[int, str | DatagenItemId]) -> Awaitable[list[DatagenItemId]]:
        """
        Awaitable form of `pending`.
        """
    def root_events(self, /, item_id: str | DatagenItemId) -> list[dict[str, Any]]:
        """
        The events of a root item and all below it, without blob bytes.
        """
    def root_events_async(self, /, item_id: str | DatagenItemId) -> Awaitable[list[dict[str, Any]]]:
        """
        Awaitable form of `root_events`.
        """
    def root_item_statuses(self, /, item_ids: SupportsGetItem[int, str | DatagenItemId]) -> dict[str, str]:
        """
        The status of those of `item_ids` that exist, by id text.
        """
    def root_item_statuses_async(self, /, item_ids: SupportsGetItem[int, str | DatagenItemId]) -> Awaitable[dict[str, str]]:
        """
        Awaitable form of `root_item_statuses`.
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
    def __new__(cls, /, *, seal_on_add: bool | None = None, fsync: bool | None = None, gc_grace_s: SupportsFloat | SupportsIndex | None = None, read: str = "sealed", read_only: bool = False, writer_id: str | None = None, maintenance: Maintenance | None = None, storage_options: dict[str, str] | None = None) -> OpenOptions: ...

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

@final
class StreamWriter:
    """
    Writes one stream of one item. Times are microseconds since 1970 UTC.
    """
    def __new__(cls, /, item_id: str | DatagenItemId, run_id: str, writer_epoch: str) -> StreamWriter: ...
    @property
    def attempt(self, /) -> int:
        """
        The number of the try.
        """
    def item_created(self, /, query_tags: "object", config: "object", attributes: "object", event_ts: SupportsIndex) -> EventBatch:
        """
        ITEM_CREATED.
        """
    def item_failed(self, /, position: "object", error_type: str, error_dump: str | None, traceback: str | None, attributes: "object", event_ts: SupportsIndex) -> EventBatch:
        """
        FAILED.
        """
    @property
    def item_id(self, /) -> DatagenItemId:
        """
        The text of the item's id.
        """
    def item_terminal(self, /, status: str, attributes: "object", event_ts: SupportsIndex) -> EventBatch:
        """
        TERMINAL.
        """
    @property
    def next_seq(self, /) -> int:
        """
        The seq of the event that comes next.
        """
    @staticmethod
    def resuming(item_id: str | DatagenItemId, status: str, last_attempt: SupportsIndex, last_item_seq: SupportsIndex, last_event_id: str | None, run_id: str, writer_epoch: str) -> StreamWriter:
        """
        The writer of the attempt behind a folded item, of which these parts matter.
        """
    @property
    def run_id(self, /) -> str:
        """
        Whose run.
        """
    def step_completed(self, /, position: "object", fields: "object", attributes: "object", event_ts: SupportsIndex) -> EventBatch:
        """
        FIELD_* of an iterable of field writes, then STEP_COMPLETED.
        """
    def step_started(self, /, position: "object", attributes: "object", event_ts: SupportsIndex) -> EventBatch:
        """
        STEP_STARTED.
        """
    @property
    def writer_epoch(self, /) -> str:
        """
        The stream's epoch.
        """

def check_config(item_id: str | DatagenItemId, stored: str | None, config: "object") -> None:
    """
    Whether an item that was started with the configuration of hash `stored` may go on with `config`.
    """

def datagen_event_id(item_id: str | DatagenItemId, checkpoint_id: str, ordinal: SupportsIndex) -> str:
    """
    The id of event number `ordinal` of a checkpoint.
    """

def fold_batch(batch: EventBatch) -> FoldedItem | None:
    """
    The fold of a batch alone: of an item that it creates.
    """

def shutdown(stores: SupportsGetItem[int, Store | Log], limit_s: SupportsFloat | SupportsIndex) -> None:
    """
    Closes `stores` and stops the runtime for good; at interpreter exit. Each step takes at most `limit_s`.
    """
