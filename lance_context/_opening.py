"""What `AsyncX.open` returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Generic, Protocol, TypeVar


class _Closable(Protocol):
    async def close(self) -> None: ...


S = TypeVar("S", bound=_Closable)


class Opening(Generic[S]):
    """A store about to be opened: ``await`` it, or enter it with ``async with``, which also closes it.

    Nothing happens before that; each ``await`` opens a handle of its own.
    """

    def __init__(self, start: Callable[[], Awaitable[S]]) -> None:
        self._start = start
        self._entered: S | None = None

    def __await__(self) -> Generator[object, None, S]:
        return self._start().__await__()

    async def __aenter__(self) -> S:
        self._entered = await self
        return self._entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._entered is not None:
            await self._entered.close()
