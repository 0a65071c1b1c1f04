"""An agent for a notebook to look at: items in every state, and then more and more of them until it is told to end.

Run as a program by `tests.test_notebook`. It says when it stands still, and goes on at the next line of its standard
input, with upkeep that seals and merges all the time. Each step that is durable is a line of a file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from lance_context import AsyncDatagenStore
from tests.killed_agent import RESTLESS

if TYPE_CHECKING:
    from lance_context import AsyncItemStream
    from lance_context._item import BaseStep

ROOT = "tea"
CHILDREN = [f"{ROOT}/taste:{number}" for number in range(3)]
COVER = b"\x89PNG\r\n\x1a\n" + bytes(100)


def acknowledge(acks: int, item: AsyncItemStream, step: BaseStep) -> None:
    """Notes that a step is durable, as `tests.test_datagen_kill.completed_steps` counts it."""
    os.write(acks, f"{item.item_id} {step.path} {list(step.position.get('iteration', ()))}\n".encode())


async def order() -> str:
    """The next line of the standard input."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def taste(acks: int, item: AsyncItemStream, *, cold: bool) -> None:
    """A child: the first completes, the second is filtered out, the third fails while the tea is too hot."""
    number = CHILDREN.index(str(item.item_id))
    async with item.step("sip") as step:
        if number == 2 and not cold:
            raise ValueError("<too hot>")
        step.set("note", f"sip {number}")
    acknowledge(acks, item, step)
    if number == 1:
        item.filter_out(reason="no taste")


async def small(acks: int, item: AsyncItemStream) -> None:
    """One of many."""
    async with item.step("sip") as step:
        step.append("notes", f"note of {item.key}")
    acknowledge(acks, item, step)


async def settle(path: str, acks: int) -> None:
    """Brings items into every state, stands still within a frame of one, and ends it."""
    async with AsyncDatagenStore.open(path, maintenance=None) as store:
        async with store.stream(ROOT, run_id="monday", query_tags={"kind": "drink"}) as item:
            async with item.step("plan") as step:
                step.set("plan", {"leaves": ["green", "black"], "minutes": 3})
                step.set("cover", COVER)
            acknowledge(acks, item, step)
            async with item.step("brew", step_kind="loop") as brew:
                for number in range(2):
                    async with brew.step("pour", iteration=number) as step:
                        step.append("pours", f"pour {number}")
                    acknowledge(acks, item, step)
                await store.run(CHILDREN, partial(taste, acks, cold=False), run_id="monday")
                print("settled", flush=True)  # noqa: T201
                assert await order() == "go on"
            acknowledge(acks, item, brew)
            item.complete()
        await store.run(CHILDREN, partial(taste, acks, cold=True), run_id="tuesday")


async def go_on(path: str, acks: int) -> None:
    """Works on more and more items until it is told to end."""
    end = asyncio.create_task(order())
    async with AsyncDatagenStore.open(path, maintenance=RESTLESS) as store:
        batch = 0
        while not end.done():
            await store.run([f"{batch}-{number}" for number in range(4)], partial(small, acks), run_id="wednesday")
            batch += 1
    assert await end == "end"


async def work(path: str, acks_path: str) -> None:
    """Settles, and goes on."""
    acks = os.open(acks_path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    await settle(path, acks)
    await go_on(path, acks)
    os.close(acks)


def main() -> None:
    """Arguments: the log, and the file of what is durable."""
    asyncio.run(work(*sys.argv[1:]))
