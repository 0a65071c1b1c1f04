"""`AsyncItemStream` and `AsyncStep`: one item's program, with ``await``."""

# pyright: reportPrivateUsage=false
# A step and its stream know more of each other than agents do.

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, cast, overload

from lance_context._awaiting import to_the_end
from lance_context._item import (
    BaseItem,
    BaseStep,
    ItemRequest,
    Iteration,
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


class AsyncItemStream(BaseItem):
    """Async form of `ItemStream`. Its steps may overlap in tasks.

    Cancelling a task writes nothing for the step it is in, except that a checkpoint that was handed over completes
    before the cancellation goes on.
    """

    def __init__(self, log: Log, request: ItemRequest) -> None:
        import asyncio

        super().__init__(request)
        self._log = log
        self._lock = asyncio.Lock()

    def step(
        self,
        name: str,
        *,
        iteration: Iteration = None,
        step_kind: StepKind = "leaf",
        selector_step: str | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> AsyncStep:
        """Async form of `ItemStream.step`: enter the result with ``async with``."""
        return AsyncStep(
            self,
            None,
            name,
            iteration=iteration,
            step_kind=step_kind,
            selector_step=selector_step,
            attributes=attributes,
        )

    @overload
    async def once(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def once(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def once(self, name: str, function: Callable[P, Awaitable[T] | T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Async form of `ItemStream.once`. The function may be a coroutine function or a plain one."""
        async with self.step(name) as step:
            if not step.completed:
                result = function(*args, **kwargs)
                if inspect.isawaitable(result):
                    result = await result
                check_returned(name, result, function)
                step.set(name, result)
        return cast("T", given_back(name, await self._stored(step), function))

    async def load_blob(self, field_name: str, index: int = -1) -> bytes:
        """Async form of `ItemStream.load_blob`."""
        found = blob_id(self._state.fields, field_name, index)
        return found if isinstance(found, bytes) else await self._log.get_blob_async(found.event_id)

    async def __aenter__(self) -> Self:
        folded = await self._log.fold_item_async(self.item_id, False, False)
        if folded is None:
            created = begin(self._request)
            await to_the_end(self._log.append_async(created.batch, "open"))
            self._opened = created.state()
        else:
            self._opened = resume(self._request, folded)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._end()
            elif isinstance(error, Exception):
                await self._fail(error, ROOT, None)
        finally:
            self._state.closed = True

    async def _end(self) -> None:
        state = self._state
        if state.outcome is None:
            return
        async with self._lock:
            state.check_owner(await self._log.last_event_id_async(self.item_id))
            await self._send(terminal_stamp(state.outcome), "append")

    async def _fail(self, error: Exception, position: StepPosition, attributes: Mapping[str, object] | None) -> None:
        if not self._state.is_to_record(error):
            return
        try:
            async with self._lock:
                await self._send(failure_stamp(error, position, attributes), "append")
                self._state.recorded(error)
        except Exception as why:
            not_recorded(error, why)

    async def _checkpoint(self, stamp: Callable[[StreamWriter, int], EventBatch], position: StepPosition) -> None:
        async with self._lock:
            await self._send(stamp, "checkpoint")
            if self._state.overtook(position):
                self._state.refold(await self._log.fold_item_async(self.item_id, False, False))

    async def _note(self, stamp: Callable[[StreamWriter, int], EventBatch]) -> None:
        async with self._lock:
            await self._send(stamp, "append")

    async def _send(self, stamp: Callable[[StreamWriter, int], EventBatch], intent: str) -> None:
        """Stamps and appends; the caller holds the lock."""
        state = self._state
        batch = state.stamp(stamp)

        async def append() -> None:
            try:
                await self._log.append_async(batch, intent)
            except BaseException as error:
                state.broke(error)
                raise
            state.appended(batch)

        await to_the_end(append())

    async def _stored(self, step: AsyncStep) -> object:
        read = stored_once(self, step)
        value = read.value
        if not read.found:
            write = checkpoint_write(await self._log.item_events_async(self.item_id), read.completion, step.name)
            cell = write["value"]
            if cell["kind"] == "blob":
                return await self._log.get_blob_async(write["event_id"])
            value = json.loads(cell["value"]) if cell["kind"] == "json" else cell["value"]
        return await self._log.get_blob_async(value.event_id) if isinstance(value, BlobRef) else value


class AsyncStep(BaseStep):
    """Async form of `Step`."""

    _item: AsyncItemStream

    def step(
        self,
        name: str,
        *,
        iteration: Iteration = None,
        step_kind: StepKind = "leaf",
        selector_step: str | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> AsyncStep:
        """Async form of `Step.step`: enter the result with ``async with``."""
        return AsyncStep(
            self._item,
            self._frame(),
            name,
            iteration=iteration,
            step_kind=step_kind,
            selector_step=selector_step,
            attributes=attributes,
        )

    async def __aenter__(self) -> Self:
        if self._enter():
            try:
                await self._item._note(self._start)
            except BaseException:
                self._item._state.leave(self.position)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left = True
        item = self._item
        try:
            if error is None:
                if self._is_to_write:
                    await item._checkpoint(self._complete, self.position)
                return
            if isinstance(error, Exception):
                await item._fail(error, self.position, self.attributes)
        except BaseException:
            item._state.leave(self.position)
            raise
        item._state.leave(self.position)
