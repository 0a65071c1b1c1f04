"""What must not be left half-way: awaiting it to its end, whatever becomes of the task that waits."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(work: Awaitable[T]) -> T:
    """Awaits what has begun to its end, also when the task is cancelled meanwhile.

    The cancellation goes on afterwards, so that whoever catches it finds things in a state that is known.
    """
    import asyncio

    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # looked at: the cancellation is what the caller hears of
        raise


async def in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a thread. A cancelled caller waits for its end, as nobody may touch its files before."""
    import asyncio

    return await to_the_end(asyncio.get_running_loop().run_in_executor(None, work))
