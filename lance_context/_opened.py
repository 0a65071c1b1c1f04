"""How a stream begins, and which blob is meant. No I/O."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

from lance_context._item import ItemRequest, StreamState
from lance_context._native import EventBatch, StreamWriter, check_config, fold_batch
from lance_context.datagen_types import BlobRef, FoldedField, FoldedItem, OnConfigChange
from lance_context.datagen_writer import fresh_epoch, now_us
from lance_context.errors import ConfigChangedWarning, InternalError, StateError


class Created(NamedTuple):
    """A new item's first event, to be appended."""

    writer: StreamWriter
    batch: EventBatch

    def state(self) -> StreamState:
        """Returns the state of the stream once the event is durable."""
        folded = fold_batch(self.batch)
        if folded is None:
            raise InternalError("an item that was just created folds to nothing", code="internal")
        return StreamState(self.writer, folded, self.batch.last_event_id)


def begin(request: ItemRequest, writer_epoch: str | None = None) -> Created:
    """Stamps the first event of a new item."""
    writer = StreamWriter(request.item_id, request.run_id, writer_epoch or fresh_epoch())
    return Created(writer, writer.item_created(request.query_tags, request.config, None, now_us()))


def resume(request: ItemRequest, folded: FoldedItem) -> StreamState:
    """Goes on behind a folded item.

    Raises:
        StateError: It has ended (``item-terminal``), or was started with another configuration (``config-changed``).
    """
    writer = StreamWriter.resuming(
        folded.item_id,
        folded.status,
        folded.last_attempt,
        folded.last_item_seq,
        folded.last_event_id,
        request.run_id,
        fresh_epoch(),
    )
    compare_config(folded, request.config, request.on_config_change, stacklevel=5)
    return StreamState(writer, folded, folded.last_event_id)


def compare_config(folded: FoldedItem, config: object, on_config_change: OnConfigChange, *, stacklevel: int) -> None:
    """Warns of, or refuses, another configuration than the item was started with.

    Raises:
        StateError: `on_config_change` is ``"error"``, and it is another one (``config-changed``).
        ValueError: `on_config_change` is neither ``"warn"`` nor ``"error"``.
    """
    if on_config_change not in ("warn", "error"):
        raise ValueError(f'`on_config_change` is "warn" or "error", not {on_config_change!r}')
    try:
        check_config(folded.item_id, folded.config_hash, config)
    except StateError as error:
        if on_config_change == "error":
            raise
        warnings.warn(str(error), ConfigChangedWarning, stacklevel=stacklevel)


def blob_id(fields: Mapping[str, FoldedField], field_name: str, index: int) -> BlobRef | bytes:
    """Finds a value of a blob field: its bytes if they are loaded.

    Raises:
        KeyError: There is no such field.
        IndexError: It has no such value.
        TypeError: The value is no blob.
    """
    field = fields.get(field_name)
    if field is None:
        known = ", ".join(sorted(fields)) or "none"
        raise KeyError(f"the item has no field `{field_name}`; its fields: {known}")
    try:
        value = field.entries[index].value
    except IndexError:
        raise IndexError(f"`{field_name}` has {len(field.entries)} values, and none at {index}") from None
    if not isinstance(value, BlobRef | bytes):
        raise TypeError(f"`{field_name}` holds `{type(value).__name__}`, and no blob")
    return value
