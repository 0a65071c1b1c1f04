"""`ItemStream` and `Step`: one item's program, written as blocks."""

# pyright: reportPrivateUsage=false
# A step and its stream know more of each other than agents do.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, cast

from lance_context._item import (
    BaseItem,
    BaseStep,
    ItemRequest,
    Iteration,
    StreamState,
    check_returned,
    checkpoint_write,
    failure_stamp,
    given_back,
    not_recorded,
    stored_once,
    terminal_stamp,
)
from lance_context._native import EventBatch, Log, StreamWriter
from lance_context._opened import begin, blob_id, resume
from lance_context.datagen_types import BlobRef, StepKind, StepPosition
from lance_context.datagen_writer import ROOT

P = ParamSpec("P")
T = TypeVar("T")


class ItemStream(BaseItem):
    """One item at work: opened by `DatagenStore.stream` or `DatagenStore.run`, and entered as a block.

    Entering creates the item, or resumes it behind what former attempts completed. Leaving with an error that no step
    has recorded writes a failure, which the item survives; ``KeyboardInterrupt`` and ``SystemExit`` write nothing. Its
    steps may run in several threads at once.

    Example:
        >>> from lance_context import DatagenStore
        >>> with DatagenStore.open("memory://doc-item") as store:
        ...     with store.stream("tea", run_id="r1") as item:
        ...         for i in range(2):
        ...             with item.step("draft", iteration=i) as step:
        ...                 if not step.completed:
        ...                     step.append("drafts", f"draft {i} about {item.key}")
        ...         item.complete()
        ...     item.values("drafts", str)
        ['draft 0 about tea', 'draft 1 about tea']
    """

    def __init__(self, log: Log, request: ItemRequest) -> None:
        super().__init__(request)
        self._log = log
        self._lock = Lock()

    def step(
        self,
        name: str,
        *,
        iteration: Iteration = None,
        step_kind: StepKind = "leaf",
        selector_step: str | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> Step:
        """Returns a step to enter as a block. Its name and its counters are its identity across attempts.

        Leaving the block writes all that the step set and appended, and its completion, as one: all or nothing. A step
        that a former attempt completed writes nothing, unless it sets something. An error writes a failure at its
        place instead, and none of its fields.

        Args:
            name: What it is called.
            iteration: The counter of a loop, or several from the outside in.
            step_kind: ``"leaf"`` does work; any other kind is a frame, whose own `step` makes steps within it.
            selector_step: The router or conditional that chose it.
            attributes: What is noted with its completion; more can be added to `Step.attributes`.

        Returns:
            The step. Nothing is written before it is left, except that a frame notes when it is entered.

        Raises:
            ValueError: There is no such kind.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-step") as store, store.stream("tea", run_id="r1") as item:
            ...     with item.step("refine", step_kind="loop") as frame:
            ...         with frame.step("draft", iteration=0) as step:
            ...             step.set("text", "hello")
            ...     item.value("text", str)
            'hello'
        """
        return Step(
            self,
            None,
            name,
            iteration=iteration,
            step_kind=step_kind,
            selector_step=selector_step,
            attributes=attributes,
        )

    def once(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function as a step of its own, once in the life of the item: a resume returns what it returned.

        The result is kept in the field of that name. It comes back as it is stored, in this attempt too: JSON as
        lists and dicts; a pydantic model as one, if the function's annotation says so.

        Args:
            name: The step, and the field. A name is called once an attempt: steps tell repeats apart.
            function: What to call.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What it returned, now or in a former attempt.

        Raises:
            StateError: The name was used in this attempt (``repeated-position``).
            RowError: The result is none that a field can hold (``invalid-event``).
            TypeError: The result is a model, and the function's annotation does not say so.

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-once") as store, store.stream("tea", run_id="r1") as item:
            ...     item.once("outline", str.upper, "an outline")
            'AN OUTLINE'
        """
        with self.step(name) as step:
            if not step.completed:
                result = function(*args, **kwargs)
                check_returned(name, result, function)
                step.set(name, result)
        return cast("T", given_back(name, self._stored(step), function))

    def load_blob(self, field_name: str, index: int = -1) -> bytes:
        """Loads the bytes of a blob field.

        Args:
            field_name: The field.
            index: Which of its values; the newest by default.

        Returns:
            The bytes, compared with their checksum.

        Raises:
            KeyError: There is no such field.
            IndexError: It has no such value.
            TypeError: The value is no blob.
            FormatError: The bytes are damaged (``blob-damaged``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-item-blob") as store, store.stream("tea", run_id="r1") as item:
            ...     with item.step("draw") as step:
            ...         step.set("cover", b"png")
            ...     item.load_blob("cover")
            b'png'
        """
        found = blob_id(self._state.fields, field_name, index)
        return found if isinstance(found, bytes) else self._log.get_blob(found.event_id)

    def __enter__(self) -> Self:
        folded = self._log.fold_item(self.item_id, False, False)
        if folded is None:
            created = begin(self._request)
            self._log.append(created.batch, "open")
            self._opened = created.state()
        else:
            self._opened = resume(self._request, folded)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._end()
            elif isinstance(error, Exception):
                self._fail(error, ROOT, None)
        finally:
            self._state.closed = True

    def _end(self) -> None:
        state = self._state
        if state.outcome is None:
            return
        with self._lock:
            state.check_owner(self._log.last_event_id(self.item_id))
            self._send(terminal_stamp(state.outcome), "append")

    def _fail(self, error: Exception, position: StepPosition, attributes: Mapping[str, object] | None) -> None:
        if not self._state.is_to_record(error):
            return
        try:
            with self._lock:
                self._send(failure_stamp(error, position, attributes), "append")
                self._state.recorded(error)
        except Exception as why:
            not_recorded(error, why)

    def _checkpoint(self, stamp: Callable[[StreamWriter, int], EventBatch], position: StepPosition) -> None:
        with self._lock:
            self._send(stamp, "checkpoint")
            if self._state.overtook(position):
                self._state.refold(self._log.fold_item(self.item_id, False, False))

    def _note(self, stamp: Callable[[StreamWriter, int], EventBatch]) -> None:
        with self._lock:
            self._send(stamp, "append")

    def _send(self, stamp: Callable[[StreamWriter, int], EventBatch], intent: str) -> None:
        """Stamps and appends; the caller holds the lock."""
        state: StreamState = self._state
        batch = state.stamp(stamp)
        try:
            self._log.append(batch, intent)
        except BaseException as error:
            state.broke(error)
            raise
        state.appended(batch)

    def _stored(self, step: Step) -> object:
        read = stored_once(self, step)
        value = read.value
        if not read.found:
            write = checkpoint_write(self._log.item_events(self.item_id), read.completion, step.name)
            cell = write["value"]
            if cell["kind"] == "blob":
                return self._log.get_blob(write["event_id"])
            value = json.loads(cell["value"]) if cell["kind"] == "json" else cell["value"]
        return self._log.get_blob(value.event_id) if isinstance(value, BlobRef) else value


class Step(BaseStep):
    """A step of an item, entered as a block; made by `ItemStream.step`."""

    _item: ItemStream

    def step(
        self,
        name: str,
        *,
        iteration: Iteration = None,
        step_kind: StepKind = "leaf",
        selector_step: str | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> Step:
        """Returns a step within this frame, whose counters come before its own; otherwise as `ItemStream.step`.

        Raises:
            ValueError: This is a leaf step, or there is no such kind.
            StateError: This frame was not entered, or was left (``writer-order``).

        Example:
            >>> from lance_context import DatagenStore
            >>> with DatagenStore.open("memory://doc-frame") as store, store.stream("tea", run_id="r1") as item:
            ...     with item.step("refine", step_kind="loop", iteration=2) as frame:
            ...         frame.step("draft", iteration=0).position["iteration"]
            [2, 0]
        """
        return Step(
            self._item,
            self._frame(),
            name,
            iteration=iteration,
            step_kind=step_kind,
            selector_step=selector_step,
            attributes=attributes,
        )

    def __enter__(self) -> Self:
        if self._enter():
            try:
                self._item._note(self._start)
            except BaseException:
                self._item._state.leave(self.position)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left = True
        item = self._item
        try:
            if error is None:
                if self._is_to_write:
                    item._checkpoint(self._complete, self.position)
                return
            if isinstance(error, Exception):
                item._fail(error, self.position, self.attributes)
        except BaseException:
            item._state.leave(self.position)
            raise
        item._state.leave(self.position)
