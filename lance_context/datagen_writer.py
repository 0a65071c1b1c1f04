"""`DatagenStreamWriter`: stamps the events of one item. Pure: what it returns is handed to a store."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, Self, TypeVar, cast, overload

from lance_context._native import StreamWriter
from lance_context.datagen_types import Event, FieldWrite, FoldedItem, ItemIdLike, StepPosition

if TYPE_CHECKING:
    from lance_context._native import DatagenItemId

ROOT: StepPosition = {"step_name": "", "step_kind": "root"}
"""The position of the item itself, outside any step."""


class DatagenStreamWriter:
    """Writes one stream of one item: numbers its events and gives them their ids. It does no I/O.

    A new item begins with `item_created`, an existing one with `resuming`; `DatagenStore.open_stream` and
    `DatagenStore.resume_stream` do either. The events that a method returns are handed to `DatagenStore.append`,
    those of a step to `DatagenStore.append_checkpoint`. Handing them over again changes nothing.

    Example:
        >>> writer = DatagenStreamWriter("5", run_id="r1", writer_epoch="e")
        >>> created = writer.item_created(query_tags={"topic": "tea"})
        >>> done = writer.step_completed(
        ...     {"step_name": "draft"}, [{"field_name": "text", "field_type": "str", "value": "hello"}]
        ... )
        >>> [(event["item_seq"], event["event_type"]) for event in [created, *done]]
        [(1, 'ITEM_CREATED'), (2, 'FIELD_SET'), (3, 'STEP_COMPLETED')]
    """

    def __init__(self, item_id: ItemIdLike, *, run_id: str, writer_epoch: str | None = None) -> None:
        """Begins the first stream of a new item.

        Args:
            item_id: The item.
            run_id: Whose run.
            writer_epoch: Tells apart streams of one attempt; a fresh uuid7 by default.

        Raises:
            ValueError: An argument is empty, or no id.
        """
        self._native = StreamWriter(item_id, run_id, fresh_epoch() if writer_epoch is None else writer_epoch)

    @classmethod
    def resuming(cls, folded: FoldedItem, *, run_id: str, writer_epoch: str | None = None) -> Self:
        """Begins the next attempt of an item, behind all that is stored of it.

        Args:
            folded: The item as it is. If another stream resumes it too, the first that appends wins.
            run_id: Whose run.
            writer_epoch: Tells apart streams of one attempt; a fresh uuid7 by default.

        Raises:
            StateError: The item has ended (``item-terminal``), or no number is left (``writer-order``).
            ValueError: An argument is empty.
        """
        epoch = fresh_epoch() if writer_epoch is None else writer_epoch
        native = StreamWriter.resuming(
            folded.item_id,
            folded.status,
            folded.last_attempt,
            folded.last_item_seq,
            folded.last_event_id,
            run_id,
            epoch,
        )
        return writer_over(native, cls)

    def item_created(
        self, *, query_tags: Mapping[str, object] | None = None, config: object = None, attributes: object = None
    ) -> Event:
        """Stamps ITEM_CREATED, the first event of a new item.

        Args:
            query_tags: Tags to filter items by.
            config: The configuration, any JSON value; its fingerprint is kept.
            attributes: Anything that JSON has.

        Raises:
            StateError: The stream is past it (``writer-order``).
            ValueError: An argument is no JSON.
        """
        return self._one(self._native.item_created(query_tags, config, attributes, now_us()).events())

    def step_started(self, position: StepPosition, *, attributes: object = None) -> Event:
        """Stamps STEP_STARTED, for a frame of steps.

        Args:
            position: Where.
            attributes: Anything that JSON has.

        Raises:
            StateError: The item was not created yet (``writer-order``), or has ended (``item-terminal``).
            RowError: The position has an unknown key (``invalid-event``).
            ValueError: The position is none that a step can have.
        """
        return self._one(self._native.step_started(position, attributes, now_us()).events())

    def step_completed(
        self, position: StepPosition, fields: Iterable[FieldWrite] = (), *, attributes: object = None
    ) -> list[Event]:
        """Stamps the writes of a step and its STEP_COMPLETED: one checkpoint, which counts all or not at all.

        Args:
            position: Where.
            fields: What it writes, in order.
            attributes: Anything that JSON has; shown in the trajectory.

        Raises:
            StateError: The position has completed in this attempt (``repeated-position``): tell repeats apart by
                ``iteration``. Otherwise as `step_started`.
            RowError: A key is unknown or missing, or a value cannot be held (``invalid-event``).
            ValueError: A position, name or version is none.
        """
        return cast("list[Event]", self._native.step_completed(position, fields, attributes, now_us()).events())

    def item_terminal(
        self, status: Literal["completed", "filtered"] = "completed", *, attributes: object = None
    ) -> Event:
        """Stamps TERMINAL, the last event. Afterwards the writer refuses everything.

        Args:
            status: How the item ends.
            attributes: Anything that JSON has.

        Raises:
            StateError: As `step_started`.
            ValueError: Another status.
        """
        return self._one(self._native.item_terminal(status, attributes, now_us()).events())

    def item_failed(
        self,
        position: StepPosition,
        error_type: str,
        error_dump: str | None = None,
        traceback: str | None = None,
        *,
        attributes: object = None,
    ) -> Event:
        """Stamps FAILED, which does not end the item: it goes on, and can be resumed.

        Args:
            position: Where; ``{"step_name": "", "step_kind": "root"}`` outside any step.
            error_type: The type of the error.
            error_dump: What it said.
            traceback: Where it came from.
            attributes: Anything that JSON has.

        Raises:
            StateError: As `step_started`.
            RowError: The position has an unknown key (``invalid-event``).
            ValueError: The error has no type.
        """
        failed = self._native.item_failed(position, error_type, error_dump, traceback, attributes, now_us())
        return self._one(failed.events())

    @property
    def item_id(self) -> DatagenItemId:
        """The item."""
        return self._native.item_id

    @property
    def run_id(self) -> str:
        """Whose run."""
        return self._native.run_id

    @property
    def attempt(self) -> int:
        """The number of the try, from 0."""
        return self._native.attempt

    @property
    def writer_epoch(self) -> str:
        """What tells this stream apart."""
        return self._native.writer_epoch

    @property
    def next_seq(self) -> int:
        """The number of the event that comes next."""
        return self._native.next_seq

    def __repr__(self) -> str:
        return f"<DatagenStreamWriter {str(self.item_id)!r} attempt {self.attempt}, next_seq {self.next_seq}>"

    @staticmethod
    def _one(events: list[dict[str, object]]) -> Event:
        (event,) = events
        return cast("Event", event)


W = TypeVar("W", bound=DatagenStreamWriter)


@overload
def writer_over(native: StreamWriter) -> DatagenStreamWriter: ...
@overload
def writer_over(native: StreamWriter, of: type[W]) -> W: ...
def writer_over(native: StreamWriter, of: type[DatagenStreamWriter] = DatagenStreamWriter) -> DatagenStreamWriter:
    """Makes a writer of one that has begun."""
    writer = of.__new__(of)
    writer._native = native  # pyright: ignore[reportPrivateUsage]
    return writer


def fresh_epoch() -> str:
    """Returns a uuid7, which sorts by time: https://www.rfc-editor.org/rfc/rfc9562#section-5.7 has its parts."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (time.time_ns() // 1_000_000) << 80 | random
    value = value & ~(0xF000 << 64) | 7 << 76
    value = value & ~(0b11 << 62) | 0b10 << 62
    return str(uuid.UUID(int=value))


def now_us() -> int:
    """Returns microseconds since 1970 UTC."""
    return time.time_ns() // 1_000
