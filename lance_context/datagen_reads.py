"""What reads the item log: folded items, events, failures, counts, trees and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lance_context._datagen_base import BaseDatagenStore, as_events, item_ids, positive
from lance_context._item_tables import PAGE, Level, TableSchema, TableStatus, page_after, table_request
from lance_context._opened import blob_id
from lance_context._tables import pandas_frame, polars_frame
from lance_context.datagen_types import (
    Event,
    Failure,
    FoldedItem,
    ItemIdLike,
    Overview,
)
from lance_context.tree import ItemTree

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from lance_context._native import DatagenItemId, Log


class DatagenReads(BaseDatagenStore):
    """The reading half of `DatagenStore`. Every read sees every durable event of every writer."""

    def fold_item(self, item_id: ItemIdLike, *, load_blobs: bool = False, strict: bool = False) -> FoldedItem | None:
        """Folds an item's events into its latest state. Every log folds, whatever happened to it.

        Args:
            item_id: The item.
            load_blobs: Whether blobs come with their bytes, compared with their checksums.
            strict: Whether problems of the log are an error.

        Returns:
            The item, or ``None`` if it was never started.

        Raises:
            FormatError: The log has problems and `strict` is set (``item-damaged``), or a loaded blob is damaged
                (``blob-damaged``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: It is no id.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-fold") as store:
            ...     _ = store.run(["tea"], lambda item: item.once("text", str.upper, "hello"), run_id="r1")
            ...     item = store.fold_item("tea")
            ...     item.status, item["status"], item.fields["text"].value
            ('completed', 'completed', 'HELLO')
        """
        return self._native.fold_item(item_id, load_blobs, strict)

    def load_blob(self, folded: FoldedItem, field_name: str, index: int = -1) -> bytes:
        """Loads the bytes of a blob field.

        Args:
            folded: The item.
            field_name: The field.
            index: Which of its values; the newest by default.

        Returns:
            The bytes, compared with their checksum.

        Raises:
            KeyError: There is no such field.
            IndexError: It has no such value.
            TypeError: The value is no blob.
            NotFoundError: This log does not have the item's event (``event-not-found``).
            FormatError: The bytes are damaged (``blob-damaged``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-load-blob") as store:
            ...     _ = store.run(["tea"], lambda item: item.once("cover", bytes, b"png"), run_id="r1")
            ...     store.load_blob(store.fold_item("tea"), "cover")
            b'png'
        """
        found = blob_id(folded.fields, field_name, index)
        return found if isinstance(found, bytes) else self._native.get_blob(found.event_id)

    def get_blob(self, event_id: str) -> bytes:
        """Loads the blob of one event; `FoldedItem.blob_event_ids` names them.

        Args:
            event_id: The event.

        Returns:
            The bytes, compared with their checksum.

        Raises:
            NotFoundError: There is no such event, or it has no blob (``event-not-found``).
            FormatError: The bytes are damaged (``blob-damaged``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-get-blob") as store:
            ...     _ = store.run(["tea"], lambda item: item.once("cover", bytes, b"png"), run_id="r1")
            ...     store.get_blob(store.fold_item("tea").blob_event_ids["cover"])
            b'png'
        """
        return self._native.get_blob(event_id)

    def items(
        self,
        *,
        filter: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        limit: int | None = None,
        after: ItemIdLike | None = None,
    ) -> list[FoldedItem]:
        """Folds items, ordered by the text of their ids.

        Args:
            filter: Which ones: a SQL expression, or values by name, over ``item_id``, ``root_item_id``,
                ``parent_item_id``, ``status``, ``failed``, ``run_id``, ``created_at``, ``updated_at`` and
                ``tags.<key>``. By default all.
            params: Values for ``$name`` in the expression.
            limit: At most this many.
            after: Only items behind this one: paging that stays right while items are added.

        Returns:
            The items.

        Raises:
            QueryError: The filter or a parameter cannot be understood (``invalid-query``, ``query-parameter``,
                ``query-column``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-items") as store:
            ...     _ = store.open_stream("tea", run_id="r1", query_tags={"kind": "drink"})
            ...     _ = store.open_stream("rice", run_id="r1", query_tags={"kind": "food"})
            ...     [str(item.item_id) for item in store.items(filter={"tags.kind": "food"})]
            ['rice']
        """
        count = None if limit is None else max(limit, 0)
        return self._native.items(filter, params, count, after)

    def failed_items(self) -> list[FoldedItem]:
        """Folds the items that have failed and have not recovered: what a run is to resume.

        Returns:
            The items, ordered by the text of their ids.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-failed") as store:
            ...     _ = store.run(["1", "x"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     [(str(item.item_id), item.last_failure.error_type) for item in store.failed_items()]
            [('x', 'ValueError')]
        """
        return self._native.failed_items()

    def pending(self, ids: Iterable[ItemIdLike]) -> list[DatagenItemId]:
        """Finds the items that have not ended, in one pass.

        Args:
            ids: The items.

        Returns:
            Those without an end in the log, in that order.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: One is no id.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-pending") as store:
            ...     _ = store.run(["1", "x"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     store.pending(["1", "2", "x"])
            [DatagenItemId('2'), DatagenItemId('x')]
        """
        return self._native.pending(item_ids(ids))

    def item_events(self, item_id: ItemIdLike) -> list[Event]:
        """Reads the events of an item.

        Args:
            item_id: The item.

        Returns:
            Its events by attempt, epoch and number, without the bytes of blobs; none for an unknown item.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: It is no id.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-item-events") as store:
            ...     _ = store.open_stream("tea", run_id="r1")
            ...     [(event["item_seq"], event["event_type"]) for event in store.item_events("tea")]
            [(1, 'ITEM_CREATED')]
        """
        return as_events(self._native.item_events(item_id))

    def root_events(self, item_id: ItemIdLike) -> list[Event]:
        """Reads the events of a root item and of all items below it.

        Args:
            item_id: The root, or any item below it.

        Returns:
            The events by item, attempt, epoch and number, without the bytes of blobs.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: It is no id.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-root-events") as store:
            ...     for item_id in ("tea", "tea/expand:0"):
            ...         _ = store.open_stream(item_id, run_id="r1")
            ...     [event["item_id"] for event in store.root_events("tea")]
            ['tea', 'tea/expand:0']
        """
        return as_events(self._native.root_events(item_id))

    def item_failures(self, item_id: ItemIdLike) -> list[Failure]:
        """Reads the failures of an item, recovered ones included.

        Args:
            item_id: The item.

        Returns:
            Its failures in order; none for an unknown item.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: It is no id.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-item-failures") as store:
            ...     _ = store.run(["x"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     [failure.step_name for failure in store.item_failures("x")]
            ['n']
        """
        return self._native.item_failures(item_id)

    def root_item_statuses(self, ids: Iterable[ItemIdLike]) -> dict[str, str]:
        """Reads the status of many items in one pass.

        Args:
            ids: The items.

        Returns:
            ``running``, ``completed`` or ``filtered`` by the text of the id, of those that exist.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: One is no id.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-statuses") as store:
            ...     _ = store.run(["1", "x"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     store.root_item_statuses(["1", "2", "x"])
            {'1': 'completed', 'x': 'running'}
        """
        return self._native.root_item_statuses(item_ids(ids))

    def overview(self) -> Overview:
        """Counts all items by status, their failures by error type and run, and their completed steps, in one pass.

        Returns:
            The counts at this moment.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-overview") as store:
            ...     _ = store.run(["1", "x"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     overview = store.overview()
            ...     overview.items, overview.failed, overview.failures_by_error_type["ValueError"].count
            (2, 1, 1)
        """
        return self._native.overview()

    def events(self, since: str | None = None) -> Iterator[tuple[str, Event]]:
        """Goes through the events of all items as they became durable, up to the tail.

        Args:
            since: A cursor that a former call yielded: only what came behind it. By default from the beginning.

        Returns:
            An iterator over pairs of a cursor and an event, without the bytes of blobs. It ends at the tail; a later
            call goes on from the last cursor.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: It is no cursor.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-events") as store:
            ...     _ = store.open_stream("tea", run_id="r1")
            ...     seen = [cursor for cursor, _ in store.events()]
            ...     _ = store.open_stream("rice", run_id="r1")
            ...     [event["item_id"] for _, event in store.events(since=seen[-1])]
            ['rice']
        """
        return _events(self._native, since)

    def item_tree(self, root: ItemIdLike, *, max_items: int = 1000, max_depth: int | None = None) -> ItemTree:
        """Folds an item and all items below it, and links them.

        Args:
            root: The item; any one gives the tree below it.
            max_items: At most this many items, those nearest to `root` first. What is beyond is counted.
            max_depth: At most this many levels below `root`.

        Returns:
            The tree. Print it, or show it in a notebook.

        Raises:
            NotFoundError: There is no such item, and none below it (``item-not-found``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: It is no id, or a bound makes no sense.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-tree") as store:
            ...     for item_id in ("tea", "tea/expand:0", "tea/expand:1"):
            ...         _ = store.open_stream(item_id, run_id="r1")
            ...     [str(node.item_id) for node in store.item_tree("tea").walk()]
            ['tea', 'tea/expand:0', 'tea/expand:1']
        """
        if max_depth is not None and max_depth < 0:
            raise ValueError(f"`max_depth` is at least 0, or None for any depth, not {max_depth}")
        return self._native.item_tree(root, positive("max_items", max_items), max_depth)

    def to_arrow(
        self,
        *,
        status: TableStatus | None = "completed",
        level: Level = "roots",
        fields: Sequence[str] | None = None,
        schema: TableSchema | None = None,
    ) -> pyarrow.Table:
        """Reads items as a table of pyarrow: one row an item, one column a field.

        The first columns are ``item_id``, ``root_item_id``, ``status`` and ``query_tags``. A field that was appended
        to is a list. Integers and floats become floats; other mixtures of kinds become JSON text, as JSON values do.
        A field with the name of one of the first columns is ``field.<name>``.

        Args:
            status: Which items; ``None``: any.
            level: Those without a parent, those without children, or all.
            fields: Which fields. By default all but those of blobs.
            schema: The types of fields, by name; without `fields` these are the columns.

        Returns:
            The table, ordered by the text of the ids.

        Raises:
            QueryError: A field does not fit its type in `schema` (``invalid-query``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ImportError: pyarrow is not installed.
            ValueError: An argument makes no sense.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-items-arrow") as store:
            ...     _ = store.run(["1", "2", "x"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     store.to_arrow(fields=["n"]).column("n").to_pylist()
            [1, 2]
        """
        request = table_request(status, level, fields, schema)
        items = request.chosen(self._pages(request.filter))
        blobs = {event_id: self._native.get_blob(event_id) for event_id in request.blobs(items)}
        return request.table(items, blobs)

    def to_pandas(
        self,
        *,
        status: TableStatus | None = "completed",
        level: Level = "roots",
        fields: Sequence[str] | None = None,
        schema: TableSchema | None = None,
    ) -> pandas.DataFrame:
        """Reads items as a frame of pandas; see `to_arrow`.

        Args:
            status: Which items; ``None``: any.
            level: Those without a parent, those without children, or all.
            fields: Which fields. By default all but those of blobs.
            schema: The types of fields, by name; without `fields` these are the columns.

        Returns:
            The frame. Integers and bools have pandas' nullable types.

        Raises:
            QueryError: A field does not fit its type in `schema` (``invalid-query``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ImportError: pandas or pyarrow is not installed.
            ValueError: An argument makes no sense.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-items-pandas") as store:
            ...     _ = store.run(["1", "2"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     int(store.to_pandas()["n"].sum())
            3
        """
        return pandas_frame(self.to_arrow(status=status, level=level, fields=fields, schema=schema))

    def to_polars(
        self,
        *,
        status: TableStatus | None = "completed",
        level: Level = "roots",
        fields: Sequence[str] | None = None,
        schema: TableSchema | None = None,
    ) -> polars.DataFrame:
        """Reads items as a frame of Polars; see `to_arrow`.

        Args:
            status: Which items; ``None``: any.
            level: Those without a parent, those without children, or all.
            fields: Which fields. By default all but those of blobs.
            schema: The types of fields, by name; without `fields` these are the columns.

        Returns:
            The frame.

        Raises:
            QueryError: A field does not fit its type in `schema` (``invalid-query``).
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ImportError: Polars or pyarrow is not installed.
            ValueError: An argument makes no sense.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-items-polars") as store:
            ...     _ = store.run(["1", "2"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     store.to_polars()["n"].to_list()
            [1, 2]
        """
        return polars_frame(self.to_arrow(status=status, level=level, fields=fields, schema=schema))

    def _pages(self, filter: str | None) -> Iterator[FoldedItem]:
        after: str | None = None
        while True:
            page = self.items(filter=filter, limit=PAGE, after=after)
            yield from page
            if (after := page_after(page)) is None:
                return


def _events(log: Log, cursor: str | None) -> Iterator[tuple[str, Event]]:
    while True:
        cursors, events, cursor = log.events_since(cursor)
        yield from zip(cursors, as_events(events), strict=True)
        if cursor is None:
            return
