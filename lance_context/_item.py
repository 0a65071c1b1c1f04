"""What both twins of an item's stream share: positions, state, marks and typed values. No I/O.

`StreamState` decides what is stamped and what a stamp changed; the twins hold a lock around stamping and appending,
so that the events of an item reach the store in the order of their numbers whatever tasks or threads its steps are in.
"""

# pyright: reportPrivateUsage=false
# The streams, the steps and the run of an item know more of each other than agents do.

from __future__ import annotations

import traceback as tracebacks
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from lance_context._native import DatagenItemId, EventBatch, FieldList, StreamWriter
from lance_context._typed import MISSING, declared_result, holds_model, is_model, typed
from lance_context.datagen_types import (
    FoldedField,
    FoldedItem,
    OnConfigChange,
    StepKind,
    StepPosition,
    field_value,
    field_values,
)
from lance_context.datagen_writer import now_us
from lance_context.errors import FencedError, StateError

T = TypeVar("T")
D = TypeVar("D")

Iteration: TypeAlias = int | Sequence[int] | None
"""One loop counter, or several from the outside in."""

PositionKey: TypeAlias = tuple[object, ...]

TEXT_LIMIT = 100_000
"""Most characters of an error's text or traceback that are kept."""


class ItemRequest(NamedTuple):
    """The arguments of `DatagenStore.stream`."""

    item_id: DatagenItemId
    run_id: str
    query_tags: Mapping[str, object] | None
    config: object
    on_config_change: OnConfigChange


class Outcome(NamedTuple):
    """How the item is to end, as the caller marked it."""

    status: Literal["completed", "filtered"]
    attributes: object


def position_key(position: StepPosition) -> PositionKey:
    """Returns the identity of a position: all six fields."""
    return (
        position["step_name"],
        position.get("step_kind", "leaf"),
        position.get("step_index", 0),
        position.get("enclosing_step"),
        position.get("selector_step"),
        tuple(position.get("iteration", ())),
    )


class StreamState:
    """One stream of an item between its opening and its end.

    A position is *taken* while its step is open and once it has completed in this stream; only a step that failed may
    be entered again. Values follow the fold: a write of another position replaces or appends, in the order of stamps.
    """

    def __init__(self, writer: StreamWriter, folded: FoldedItem, last_event_id: str | None) -> None:
        self.writer = writer
        self.folded = folded
        self.fields: dict[str, FoldedField] = dict(folded.fields)
        self.outcome: Outcome | None = None
        self.closed = False
        self._last_event_id = last_event_id
        self._former = {position_key(position) for position in folded.completed}
        self._taken: set[PositionKey] = set()
        self._broken: BaseException | None = None
        self._recorded: list[BaseException] = []

    def enter(self, position: StepPosition) -> bool:
        """Takes a position; whether a former attempt completed it.

        Raises:
            StateError: It is taken (``repeated-position``), or the stream has ended (``writer-order``).
        """
        if self.closed:
            raise self._state_error("the stream has ended; enter steps within its block", "writer-order")
        key = position_key(position)
        if key in self._taken:
            name = _shown(position)
            message = f"the step `{name}` was entered in this attempt already; give iteration= to tell repeats apart"
            raise self._state_error(message, "repeated-position")
        self._taken.add(key)
        return key in self._former

    def leave(self, position: StepPosition) -> None:
        """Gives a position back: its step did not complete, and may be tried again."""
        self._taken.discard(position_key(position))

    def stamp(self, stamp: Callable[[StreamWriter, int], EventBatch]) -> EventBatch:
        """Has the writer stamp events. Only under the item's lock, with the append behind it.

        Raises:
            StateError: An append of the stream failed before (``stream-gap``), or as the writer says.
        """
        if self._broken is not None:
            message = "an append of this stream failed, so it takes no more; open the item again to resume it"
            raise self._state_error(message, "stream-gap") from self._broken
        return stamp(self.writer, now_us())

    def appended(self, batch: EventBatch) -> None:
        """Takes in that a batch is durable."""
        self._last_event_id = batch.last_event_id
        for name, op, value in batch.fields():
            field = self.fields.get(name)
            if op == "append" and field is not None and field.op == "append":
                self.fields[name] = FoldedField("append", [*field.entries, value])
            else:
                self.fields[name] = FoldedField(cast("Literal['set', 'append']", op), [value])

    def broke(self, error: BaseException) -> None:
        """Takes in that an append failed: whether its events are stored is not known."""
        self._broken = error

    def check_owner(self, last_event_id: str | None) -> None:
        """Compares the last event that is stored with that of this stream.

        Raises:
            FencedError: Another stream took the item over (``stream-fenced``).
        """
        if last_event_id is not None and last_event_id == self._last_event_id:
            return
        message = (
            f"another stream took over item `{self.folded.item_id}`; nothing was written; "
            "stop this worker, do not reopen the store"
        )
        raise FencedError(message, code="stream-fenced")

    def is_to_record(self, error: Exception) -> bool:
        """Whether a failure is to be written: it is not yet, and the stream still takes events."""
        return self._broken is None and not isinstance(error, FencedError) and not self.is_recorded(error)

    def recorded(self, error: Exception) -> None:
        """Takes in that the log has a failure."""
        self._recorded.append(error)

    def overtook(self, position: StepPosition) -> bool:
        """Whether a checkpoint replaced the one of a former attempt, so that only a new fold knows the fields."""
        return position_key(position) in self._former

    def refold(self, folded: FoldedItem | None) -> None:
        """Takes the fields of a new fold."""
        if folded is not None:
            self.fields = dict(folded.fields)

    def is_recorded(self, error: BaseException) -> bool:
        """Whether the log has this failure, or all those that are in it."""
        if any(error is recorded for recorded in self._recorded):
            return True
        return isinstance(error, BaseExceptionGroup) and all(
            self.is_recorded(part) for part in cast("BaseExceptionGroup[BaseException]", error).exceptions
        )

    def _state_error(self, message: str, code: str) -> StateError:
        return StateError(f"item `{self.folded.item_id}`: {message}", code=code)


class BaseStep:
    """A step about to be entered. Nothing is written before it is left."""

    def __init__(
        self,
        item: BaseItem,
        scope: BaseStep | None,
        name: str,
        *,
        iteration: Iteration,
        step_kind: StepKind,
        selector_step: str | None,
        attributes: Mapping[str, object] | None,
    ) -> None:
        counters = () if iteration is None else (iteration,) if isinstance(iteration, int) else tuple(iteration)
        outer = () if scope is None else tuple(scope.position.get("iteration", ()))
        self.position: StepPosition = {
            "step_name": name,
            "step_kind": step_kind,
            "step_index": 0,
            "enclosing_step": None if scope is None else scope.path,
            "selector_step": selector_step,
            "iteration": [*outer, *counters],
        }
        if step_kind == "root":
            raise ValueError("`root` is the kind of the item itself; a frame is `sequence`, `loop` or another kind")
        self.attributes: dict[str, object] = dict(attributes or {})
        self._item = item
        self._fields = FieldList()
        self._completed: bool | None = None
        self._left = False

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.position["step_name"]

    @property
    def path(self) -> str:
        """The frames around the step and its own name, joined by ``/``: what steps within name as enclosing."""
        name = self.name.replace("%", "%25").replace("/", "%2F")
        outer = self.position.get("enclosing_step")
        return name if outer is None else f"{outer}/{name}"

    @property
    def completed(self) -> bool:
        """Whether a former attempt completed the step, so that there is nothing left to do in it.

        Raises:
            StateError: The step was not entered (``writer-order``).
        """
        if self._completed is None:
            raise self._outside()
        return self._completed

    def set(self, field_name: str, value: object, *, field_type: str | None = None, codec_version: int = 0) -> None:
        """Notes that the step sets a field, in place of what the field has. Written when the step is left.

        Args:
            field_name: The field.
            value: A str, a number, a bool, bytes, anything that JSON has, or a pydantic model. It is read now: what
                becomes of the object later changes nothing.
            field_type: What readers make of it; by default the kind of the value, or the name of the model.
            codec_version: The version of the encoding behind `field_type`.

        Raises:
            StateError: The step was not entered, or was left (``writer-order``).
            RowError: The value is none that a field can hold (``invalid-event``).
        """
        self._write(field_name, value, "set", field_type, codec_version)

    def append(self, field_name: str, value: object, *, field_type: str | None = None, codec_version: int = 0) -> None:
        """Notes that the step adds a value to a field, behind those that it has. Written when the step is left.

        Args:
            field_name: The field.
            value: As in `set`.
            field_type: As in `set`.
            codec_version: As in `set`.

        Raises:
            StateError: The step was not entered, or was left (``writer-order``).
            RowError: The value is none that a field can hold (``invalid-event``).
        """
        self._write(field_name, value, "append", field_type, codec_version)

    def _write(self, name: str, value: object, op: str, field_type: str | None, codec_version: int) -> None:
        if self._completed is None or self._left:
            raise self._outside()
        if field_type is None and is_model(value):
            field_type = type(value).__name__
        self._fields.add(name, value, op, field_type, codec_version)

    def _enter(self) -> bool:
        """Takes the position; whether STEP_STARTED is to be written."""
        if self._completed is not None:
            raise StateError(
                f"the step `{_shown(self.position)}` was entered before; make another", code="writer-order"
            )
        completed = self._item._state.enter(self.position)
        self._completed = completed
        return self.is_frame and not completed

    @property
    def is_frame(self) -> bool:
        """Whether other steps may stand within it."""
        return self.position.get("step_kind") != "leaf"

    def _frame(self) -> BaseStep:
        if not self.is_frame:
            raise ValueError(f"`{self.name}` is a leaf step; make it a frame with step_kind= (`loop`, `sequence`, …)")
        if self._completed is None or self._left:
            raise self._outside()
        return self

    @property
    def _is_to_write(self) -> bool:
        """Whether leaving without an error writes a checkpoint: not when a former attempt did all of it."""
        return not self._completed or len(self._fields) > 0

    def _start(self, writer: StreamWriter, now: int) -> EventBatch:
        return writer.step_started(self.position, self.attributes or None, now)

    def _complete(self, writer: StreamWriter, now: int) -> EventBatch:
        return writer.step_completed(self.position, self._fields, self.attributes or None, now)

    def _outside(self) -> StateError:
        return StateError(f"the step `{_shown(self.position)}` is used outside its block", code="writer-order")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {_shown(self.position)!r} of {str(self._item.item_id)!r}>"


class BaseItem:
    """A stream of an item: what it knows without I/O."""

    def __init__(self, request: ItemRequest) -> None:
        self._request = request
        self._opened: StreamState | None = None

    @property
    def item_id(self) -> DatagenItemId:
        """The item's id."""
        return self._request.item_id

    @property
    def key(self) -> str:
        """The raw key of the item's root: the path or url that `DatagenItemId.from_source_key` was given."""
        return self.item_id.source_key

    @property
    def run_id(self) -> str:
        """Whose run this is."""
        return self._request.run_id

    @property
    def _state(self) -> StreamState:
        """What the stream knows.

        Raises:
            StateError: It was not opened (``writer-order``).
        """
        if self._opened is None:
            raise StateError(f"the stream of item `{self.item_id}` is not open; enter its block", code="writer-order")
        return self._opened

    @property
    def _is_open(self) -> bool:
        """Whether the stream was opened, even if it has ended since."""
        return self._opened is not None

    def _has_recorded(self, error: BaseException) -> bool:
        """Whether the item's log has this failure."""
        return self._opened is not None and self._opened.is_recorded(error)

    @property
    def attempt(self) -> int:
        """The number of the try: 0 for a new item, one more at each resume."""
        return self._state.writer.attempt

    @property
    def folded(self) -> FoldedItem:
        """The item as it was when the stream began."""
        return self._state.folded

    @overload
    def value(self, field_name: str) -> object: ...
    @overload
    def value(self, field_name: str, type: type[T]) -> T: ...
    @overload
    def value(self, field_name: str, type: type[T], default: D) -> T | D: ...
    def value(self, field_name: str, type: type[T] | None = None, default: object = MISSING) -> object:
        """Returns the newest value of a field, of former attempts or this one. No I/O.

        Args:
            field_name: The field.
            type: What it is to be: a type of stored values, or a pydantic model and whatever else pydantic validates.
            default: Returned when there is no such field.

        Raises:
            KeyError: There is no such field, and no `default`.
            TypeError: It is of another type, or a blob, which `load_blob` loads.
        """
        return field_value(self._state.fields, field_name, type, default)

    @overload
    def values(self, field_name: str) -> list[object]: ...
    @overload
    def values(self, field_name: str, type: type[T]) -> list[T]: ...
    def values(self, field_name: str, type: type[T] | None = None) -> list[T] | list[object]:
        """Returns all values of a field, oldest first; none if there is no such field. No I/O.

        Args:
            field_name: The field.
            type: What each is to be, as in `value`.

        Raises:
            TypeError: One is of another type, or a blob, which `load_blob` loads.
        """
        return field_values(self._state.fields, field_name, type)

    def complete(self, *, attributes: object = None) -> None:
        """Marks the item as completed; written when the stream's block is left without an error.

        Args:
            attributes: Anything that JSON has; shown in `FoldedItem.attributes`.
        """
        self._state.outcome = Outcome("completed", attributes)

    def filter_out(self, *, reason: str | None = None, attributes: Mapping[str, object] | None = None) -> None:
        """Marks the item as not wanted; written when the stream's block is left without an error.

        Args:
            reason: Why; kept as the attribute ``reason``.
            attributes: Anything that JSON has; shown in `FoldedItem.attributes`.
        """
        noted = {**(attributes or {}), **({} if reason is None else {"reason": reason})}
        self._state.outcome = Outcome("filtered", noted or None)

    def child(self, step: str, branch: int) -> DatagenItemId:
        """Returns the id of a child: an item of its own, which `DatagenStore.stream` and `DatagenStore.run` take.

        Args:
            step: The step that expands this item.
            branch: The child's number among those of the step, from 0.

        Raises:
            ValueError: The step is empty, or the branch negative.
        """
        return self.item_id.child(step, branch)

    def __repr__(self) -> str:
        attempt = "not open" if self._opened is None else f"attempt {self.attempt}"
        return f"<{type(self).__name__} {str(self.item_id)!r}, {attempt}>"


def failure_stamp(
    error: Exception, position: StepPosition, attributes: Mapping[str, object] | None
) -> Callable[[StreamWriter, int], EventBatch]:
    """Returns how an error is stamped."""
    kind, text = type(error).__name__, _text(str(error))
    trace = _text("".join(tracebacks.format_exception(error)))

    def stamp(writer: StreamWriter, now: int) -> EventBatch:
        return writer.item_failed(position, kind, text, trace, attributes or None, now)

    return stamp


def terminal_stamp(outcome: Outcome) -> Callable[[StreamWriter, int], EventBatch]:
    """Returns how an end is stamped."""
    return lambda writer, now: writer.item_terminal(outcome.status, outcome.attributes, now)


def not_recorded(error: BaseException, why: Exception) -> None:
    """Notes on an error that the log does not have it."""
    with suppress(TypeError):
        error.add_note(f"the failure was not recorded: {why}")


class OnceRead(NamedTuple):
    """Where the value that `once` stored is."""

    value: object
    """The value, if the field still has it."""
    found: bool
    completion: str | None
    """Otherwise the event of the step's completion, whose checkpoint has it."""


def stored_once(item: BaseItem, step: BaseStep) -> OnceRead:
    """Looks among the item's fields for what a step set."""
    field = item._state.fields.get(step.name)
    key = position_key(step.position)
    for entry in reversed(field.entries if field is not None else []):
        if position_key(entry.step) == key:
            return OnceRead(entry.value, True, None)
    entries = (entry.event_id for entry in item.folded.trajectory if position_key(entry.position) == key)
    return OnceRead(None, False, next(entries, None))


def checkpoint_write(events: Sequence[Mapping[str, Any]], completion: str | None, field_name: str) -> Mapping[str, Any]:
    """Finds the write of a field in the checkpoint of a completion.

    Raises:
        KeyError: The step wrote no such field.
    """
    checkpoint = next((event["checkpoint_id"] for event in events if event["event_id"] == completion), None)
    for event in events:
        if checkpoint is not None and event["checkpoint_id"] == checkpoint and event["field_name"] == field_name:
            return event
    raise KeyError(f"the step `{field_name}` completed without a field `{field_name}`, so `once` has nothing to return")


def check_returned(name: str, result: object, function: Callable[..., object]) -> None:
    """Refuses a model that could not be given back as one.

    Raises:
        TypeError: It is one, and the function's annotation does not say so.
    """
    if is_model(result) and not holds_model(declared_result(function)):
        model = type(result).__name__
        raise TypeError(
            f"once({name!r}, …) got a `{model}`, which a resume could only return as a dict: annotate the function "
            f"with `-> {model}`, or use a step and `value({name!r}, {model})`"
        )


def given_back(name: str, value: object, function: Callable[..., object]) -> object:
    """Returns a stored value as the function returned it: models as models, everything else as it is stored."""
    hint = declared_result(function)
    return typed(value, cast("type[object]", hint), f"once({name!r})") if holds_model(hint) else value


def _text(text: str) -> str:
    kept = text if len(text) <= TEXT_LIMIT else f"{text[: TEXT_LIMIT // 2]}\n…\n{text[-TEXT_LIMIT // 2 :]}"
    return kept.encode("utf-8", "backslashreplace").decode()


def _shown(position: StepPosition) -> str:
    frame, counters = position.get("enclosing_step"), list(position.get("iteration", ()))
    name = position["step_name"] if frame is None else f"{frame}/{position['step_name']}"
    return f"{name}{counters}" if counters else name
