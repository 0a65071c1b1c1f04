"""Tests of the item log are written once, as coroutines, and run against both of its classes.

The asynchronous class runs as it is. The other one poses as it: what would be awaited is called, and done when it is
awaited. A worker of the synchronous `run` gets an event loop of its own in its thread.
"""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import pytest

from lance_context import AsyncDatagenStore, AsyncItemStream, AsyncStep, DatagenStore, ItemStream, Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from pathlib import Path
    from types import TracebackType

Body: TypeAlias = "Callable[[Opener], Coroutine[Any, Any, None]]"


TWINS: dict[type, type] = {DatagenStore: AsyncDatagenStore, ItemStream: AsyncItemStream, Step: AsyncStep}


class Posed:
    """A synchronous object that is used like its asynchronous twin."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._inner, name)
        if name in ("stream", "step"):

            def posed(*args: Any, **options: Any) -> Posed:
                return Posed(member(*args, **options))

            return posed
        if name == "events":

            def each(since: str | None = None) -> AsyncIterator[Any]:
                return _each(member(since))

            return each
        if name == "run":

            async def run(ids: Any, worker: Callable[[Any], Awaitable[object]], **options: Any) -> Any:
                return await asyncio.to_thread(member, ids, _threaded(worker), **options)

            return run
        if name == "once":

            async def once(step: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
                return member(step, _called(function), *args, **options)

            return once
        if inspect.iscoroutinefunction(getattr(TWINS[type(self._inner)], name, None)):

            async def call(*args: Any, **options: Any) -> Any:
                return member(*args, **options)

            return call
        return member

    async def __aenter__(self) -> Self:
        self._inner.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, traceback)


async def _each(pairs: Any) -> AsyncIterator[Any]:
    for pair in pairs:
        yield pair


def _threaded(worker: Callable[[Any], Awaitable[object]]) -> Callable[[Any], None]:
    async def work(item: Any) -> None:
        await worker(Posed(item))

    return lambda item: asyncio.run(work(item))


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(function):
        return function

    def call(*args: Any, **options: Any) -> Any:
        # A loop runs in this thread.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(function(*args, **options))).result()

    call.__annotations__ = function.__annotations__
    call.__dict__["__wrapped__"] = function
    return call


class Opener:
    """Opens logs of one of the two classes."""

    def __init__(self, path: Path, *, posed: bool) -> None:
        self.path = path
        self.posed = posed

    async def open(self, path: Path | None = None, **options: Any) -> AsyncDatagenStore:
        """A handle that does nothing by itself unless it is told to; of the test's own log by default."""
        settings: dict[str, Any] = {"gc_grace": 0, "maintenance": None, **options}
        if self.posed:
            return cast("AsyncDatagenStore", Posed(DatagenStore.open(path or self.path, **settings)))
        return await AsyncDatagenStore.open(path or self.path, **settings)

    async def open_existing(self, **options: Any) -> AsyncDatagenStore:
        """Another handle of the test's own log."""
        settings: dict[str, Any] = {"maintenance": None, **options}
        if self.posed:
            return cast("AsyncDatagenStore", Posed(DatagenStore.open_existing(self.path, **settings)))
        return await AsyncDatagenStore.open_existing(self.path, **settings)


def both(body: Body) -> Callable[..., None]:
    """Makes a test of a coroutine function, once for each class."""

    @pytest.mark.parametrize("posed", [False, True], ids=["async", "sync"])
    def test(path: Path, *, posed: bool) -> None:
        asyncio.run(body(Opener(path, posed=posed)))

    test.__name__ = body.__name__
    test.__doc__ = body.__doc__
    return test
