"""Events, positions and folded items: the plain values that the item log takes and returns.

What goes in is a mapping with known keys (`StepPosition`, `FieldWrite`, `Event`); what comes out is a frozen class
whose attributes can also be read as ``x["status"]``. A position that comes out goes in as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict, TypeVar, cast, overload

from lance_context._native import DatagenItemId
from lance_context._typed import MISSING, Missing, typed

T = TypeVar("T")
D = TypeVar("D")

ItemIdLike: TypeAlias = str | DatagenItemId
"""An item's id, or its text. A raw key is neither: see `DatagenItemId.from_source_key`."""

StepKind: TypeAlias = Literal[
    "root", "leaf", "sequence", "loop", "branch", "conditional", "router", "map_reduce", "sub_pipeline"
]
"""What a step is: a ``"leaf"`` does work, ``"root"`` is the item itself, all others are frames of further steps."""

Status: TypeAlias = Literal["running", "completed", "filtered"]
"""The status of an item. One that *failed* is running, with a failure whose step has not completed since."""

OnConfigChange: TypeAlias = Literal["warn", "error"]
"""What a resume does when the item was started with another configuration."""


class StepPosition(TypedDict, total=False):
    """Where in an item's program something happened. All six fields are its identity; only the name is required."""

    step_name: Required[str]
    step_kind: StepKind
    step_index: int
    enclosing_step: str | None
    selector_step: str | None
    iteration: list[int] | tuple[int, ...]


class FieldWrite(TypedDict):
    """One write of a field. The value's own type says its kind: str, int, float, bool, bytes, or anything JSON."""

    field_name: str
    field_type: str
    value: object
    op: NotRequired[Literal["set", "append"]]
    codec_version: NotRequired[int]


class Event(TypedDict, total=False):
    """One event, by column. An event that comes out has every key.

    Its ``value`` is tagged: ``{"kind": …, "value": …}``, where JSON is its exact text, or
    ``{"kind": "blob", "bytes": …, "size": …, "checksum": …}``.
    """

    event_id: str
    item_id: str
    root_item_id: str
    parent_item_id: str | None
    attempt: int
    writer_epoch: str
    run_id: str
    item_seq: int
    checkpoint_id: str
    resumed_from: str | None
    event_type: str
    step_name: str | None
    step_kind: StepKind | None
    step_index: int | None
    enclosing_step: str | None
    selector_step: str | None
    iteration: list[int] | None
    field_name: str | None
    field_type: str | None
    codec_version: int | None
    value: dict[str, Any] | None
    status: str | None
    query_tags: dict[str, Any] | None
    config_hash: str | None
    attributes: Any
    error_type: str | None
    error_dump: str | None
    traceback: str | None
    event_ts: datetime
    schema_version: int


class Record:
    """Attributes that can also be read by key."""

    __slots__ = ()

    def __getitem__(self, name: str) -> object:
        if name.startswith("_") or callable(getattr(type(self), name, None)):
            raise KeyError(name)
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def keys(self) -> list[str]:
        """Returns the names of the attributes."""
        return [field.name for field in fields(cast("Any", self))]


@dataclass(frozen=True, slots=True)
class AppendResult(Record):
    """What `DatagenStore.append` did.

    Attributes:
        count: Events that were given.
        new: How many of them were not there yet.
    """

    count: int
    new: int


@dataclass(frozen=True, slots=True)
class BlobRef(Record):
    """Stands for a blob whose bytes are not loaded; `DatagenStore.load_blob` loads them.

    Attributes:
        event_id: The event that holds it.
        size: Its length in bytes.
        checksum: The xxh3 of its bytes, in hex.
    """

    event_id: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class FoldedValue(Record):
    """One value of a field, and where it came from.

    Attributes:
        value: The value; a `BlobRef` for a blob that is not loaded.
        kind: ``int``, ``float``, ``bool``, ``str``, ``json`` or ``blob``.
        field_type: What its reader makes of it.
        codec_version: The version of the encoding behind `field_type`.
        step: The position that wrote it.
        event_id: The event that holds it.
    """

    value: Any
    kind: str
    field_type: str
    codec_version: int
    step: StepPosition
    event_id: str


@dataclass(frozen=True, slots=True)
class FoldedField(Record):
    """A field's latest state.

    Attributes:
        op: ``"set"`` if it has the one value that was set, ``"append"`` if it has all that were appended.
        entries: The values with their origins, oldest first. There is at least one.
    """

    op: Literal["set", "append"]
    entries: list[FoldedValue]

    @property
    def value(self) -> Any:  # noqa: ANN401 - the one sanctioned `Any`: a value of the user's
        """The newest value."""
        return self.entries[-1].value

    @property
    def values(self) -> list[Any]:
        """All values, oldest first."""
        return [entry.value for entry in self.entries]

    @property
    def field_type(self) -> str:
        """What a reader makes of the newest value."""
        return self.entries[-1].field_type

    @property
    def codec_version(self) -> int:
        """The version of the newest value's encoding."""
        return self.entries[-1].codec_version

    @property
    def step(self) -> StepPosition:
        """The position that wrote the newest value."""
        return self.entries[-1].step


@dataclass(frozen=True, slots=True)
class TrajectoryEntry(Record):
    """A completed position.

    Attributes:
        position: The position.
        attempt: The attempt whose completion counts.
        item_seq: The place of that completion in the stream.
        place: The place of the position's earliest completion, which orders the trajectory.
        run_id: Whose run completed it.
        event_id: The completion.
        attributes: What the step noted: token counts, cost, latency.
        event_ts: When.
    """

    position: StepPosition
    attempt: int
    item_seq: int
    place: int
    run_id: str
    event_id: str
    attributes: Any
    event_ts: datetime

    @property
    def step_name(self) -> str:
        """The name of the step."""
        return self.position["step_name"]


@dataclass(frozen=True, slots=True)
class Failure(Record):
    """A failure of a step, or of the item outside any step.

    Attributes:
        item_id: The item.
        position: Where; the name is empty outside any step.
        error_type: The type of the error.
        error_dump: What it said.
        traceback: Where it came from; ``None`` in an overview.
        attributes: What the step noted.
        run_id: Whose run.
        attempt: The attempt.
        item_seq: Its place in the stream.
        event_id: The event.
        event_ts: When.
        recovered: Whether its position has completed since.
    """

    item_id: DatagenItemId
    position: StepPosition
    error_type: str
    error_dump: str | None
    traceback: str | None
    attributes: Any
    run_id: str
    attempt: int
    item_seq: int
    event_id: str
    event_ts: datetime
    recovered: bool

    @property
    def step_name(self) -> str:
        """The name of the step; empty outside any."""
        return self.position["step_name"]


@dataclass(frozen=True, slots=True)
class FencedStream(Record):
    """Events of one stream that do not count, because another stream took the item over.

    Attributes:
        attempt: The stream's attempt.
        writer_epoch: The stream's epoch.
        first_seq: The place of the first such event.
        last_seq: The place of the last one.
        event_ids: The events.
    """

    attempt: int
    writer_epoch: str
    first_seq: int
    last_seq: int
    event_ids: list[str]


@dataclass(frozen=True, slots=True)
class Problem(Record):
    """Something that is wrong with an item's log. It never stops the fold.

    Attributes:
        kind: What, as a stable word.
        item_seq: The place concerned, if it is about one.
        event_id: The event concerned, if it is about one.
        message: What was found.
    """

    kind: str
    item_seq: int | None
    event_id: str | None
    message: str


@dataclass(frozen=True, slots=True, repr=False)
class FoldedItem(Record):
    """The latest state of an item.

    Attributes:
        item_id: The item.
        status: ``running``, ``completed`` or ``filtered``.
        failed: Whether it is running and has a failure whose position has not completed since.
        last_event_id: The last event that counts; a resume names it.
        last_item_seq: The greatest place over all stored events, fenced ones included.
        last_attempt: The greatest attempt over all stored events, fenced ones included.
        fields: The fields by name.
        trajectory: The completed positions in order.
        started: The positions of frames that were entered, each once.
        completed: The positions that have completed, each once.
        open_frames: The frames that were entered and not left, outermost first: where a resume re-enters.
        query_tags: The tags that the item was created with.
        config_hash: The fingerprint of the configuration that it was created with.
        attributes: What was noted at its creation and end.
        blob_event_ids: The events that hold blobs, by field: one id, or a list for an appended field.
        created_at: When it was created.
        updated_at: When its last event that counts was written.
        run_ids: The runs that wrote it.
        failures: Its failures in order, recovered ones included.
        fenced: Events that do not count, because another stream took over.
        problems: What is wrong with its log.
    """

    item_id: DatagenItemId
    status: Status
    failed: bool
    last_event_id: str | None
    last_item_seq: int
    last_attempt: int
    fields: Mapping[str, FoldedField]
    trajectory: list[TrajectoryEntry]
    started: list[StepPosition]
    completed: list[StepPosition]
    open_frames: list[StepPosition]
    query_tags: dict[str, Any] | None
    config_hash: str | None
    attributes: Any
    blob_event_ids: Mapping[str, str | list[str]]
    created_at: datetime | None
    updated_at: datetime | None
    run_ids: list[str]
    failures: list[Failure]
    fenced: list[FencedStream]
    problems: list[Problem]

    @property
    def root_item_id(self) -> DatagenItemId:
        """The root item; a root's is itself."""
        return self.item_id.root

    @property
    def parent_item_id(self) -> DatagenItemId | None:
        """The item that this one was expanded from."""
        return self.item_id.parent

    @property
    def last_failure(self) -> Failure | None:
        """The newest failure."""
        return self.failures[-1] if self.failures else None

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended."""
        return self.status != "running"

    @overload
    def value(self, field_name: str) -> object: ...
    @overload
    def value(self, field_name: str, type: type[T]) -> T: ...
    @overload
    def value(self, field_name: str, type: type[T], default: D) -> T | D: ...
    def value(self, field_name: str, type: type[T] | None = None, default: object = MISSING) -> object:
        """Returns the newest value of a field; see `ItemStream.value`."""
        return field_value(self.fields, field_name, type, default)

    @overload
    def values(self, field_name: str) -> list[object]: ...
    @overload
    def values(self, field_name: str, type: type[T]) -> list[T]: ...
    def values(self, field_name: str, type: type[T] | None = None) -> list[T] | list[object]:
        """Returns all values of a field, oldest first; see `ItemStream.values`."""
        return field_values(self.fields, field_name, type)

    def __repr__(self) -> str:
        failed = ", failed" if self.failed else ""
        steps, count = len(self.trajectory), len(self.fields)
        return f"<FoldedItem {str(self.item_id)!r} {self.status}{failed}: {steps} steps, {count} fields>"

    def _repr_html_(self) -> str:
        """Shows the item in a notebook."""
        from lance_context._tree_html import item_html

        return item_html(self)


@dataclass(frozen=True, slots=True)
class FailureGroup(Record):
    """Failures that have something in common.

    Attributes:
        count: How many.
        samples: The first few.
    """

    count: int
    samples: list[Failure]


@dataclass(frozen=True, slots=True)
class Overview(Record):
    """Counts over all items of a log.

    Attributes:
        items: All items.
        running: Those that have not ended, failed ones included.
        completed: Those that ended completed.
        filtered: Those that ended filtered.
        failed: Those that are running and have a failure whose position has not completed since.
        failures: The failures of all items, recovered ones included.
        failures_by_error_type: The failures by the type of the error, each with samples.
        failures_by_run: The failures by run, each with samples.
        completed_steps: How many positions of each step name have completed.
        unreadable: Stored rows that are no readable event.
    """

    items: int
    running: int
    completed: int
    filtered: int
    failed: int
    failures: int
    failures_by_error_type: Mapping[str, FailureGroup]
    failures_by_run: Mapping[str, FailureGroup]
    completed_steps: Mapping[str, int]
    unreadable: int


@dataclass(frozen=True, slots=True)
class RunReport(Record):
    """What `DatagenStore.run` did.

    Attributes:
        completed: Items that completed.
        filtered: Items that were filtered out.
        failed: Items that failed; a later run resumes them.
        skipped: Items that had ended before.
        stopped: Whether `max_failures` was reached, so that no more were started.
        elapsed_s: How long it took, in seconds.
    """

    completed: int
    filtered: int
    failed: int
    skipped: int
    stopped: bool
    elapsed_s: float


def field_value(fields: Mapping[str, FoldedField], name: str, type: type[T] | None, default: object) -> object:
    """Finds the newest value of a field, as `type` if one is given."""
    field = fields.get(name)
    if field is None:
        if not isinstance(default, Missing):
            return default
        known = ", ".join(sorted(fields)) or "none"
        raise KeyError(f"the item has no field `{name}`; its fields: {known}")
    return _as(name, field.entries[-1], type)


def field_values(fields: Mapping[str, FoldedField], name: str, type: type[T] | None) -> list[T] | list[object]:
    """Finds the values of a field, as `type` if one is given; none for a field that is not there."""
    field = fields.get(name)
    return [] if field is None else [_as(name, entry, type) for entry in field.entries]


def _as(name: str, entry: FoldedValue, type: type[T] | None) -> T | object:
    if type is None or type is BlobRef:
        return entry.value
    if isinstance(entry.value, BlobRef):
        raise TypeError(f"`{name}` is a blob of {entry.value.size} bytes, which is not loaded; `load_blob` loads it")
    return typed(entry.value, type, f"field `{name}`")
