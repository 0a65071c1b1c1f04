"""What both twins of the item log share: arguments in, results out. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from lance_context._base import BaseHandle
from lance_context._item import ItemRequest
from lance_context._native import DatagenItemId, Log
from lance_context.datagen_types import AppendResult, Event, ItemIdLike, OnConfigChange

if TYPE_CHECKING:
    from lance_context.types import Row


class BaseDatagenStore(BaseHandle[Log]):
    """One open handle of an item log."""


def appended(counts: tuple[int, int]) -> AppendResult:
    """Names what an append counted."""
    return AppendResult(*counts)


def as_events(raw: list[Row]) -> list[Event]:
    """Gives events their type."""
    return cast("list[Event]", raw)


def item_ids(ids: Iterable[ItemIdLike]) -> list[DatagenItemId]:
    """Reads ids; a bare string, a sequence of its letters, is refused."""
    if isinstance(ids, str | DatagenItemId):
        raise TypeError(f"`ids` takes an iterable of ids; did you mean [{str(ids)!r}]?")
    return [DatagenItemId(item_id) for item_id in ids]


def item_request(
    item_id: ItemIdLike,
    run_id: str,
    query_tags: Mapping[str, object] | None = None,
    config: object = None,
    on_config_change: OnConfigChange = "warn",
) -> ItemRequest:
    """Reads the arguments of `stream`."""
    return ItemRequest(DatagenItemId(item_id), run_id, query_tags, config, on_config_change)


def positive(argument: str, value: int) -> int:
    """Checks a count."""
    if value < 1:
        raise ValueError(f"`{argument}` is at least 1, not {value}")
    return value
