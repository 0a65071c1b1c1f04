"""An agent that says on its standard output what is durable, for tests that kill it, and what it must come to.

Run as a program by `tests.test_datagen_kill`. Each line is one `write`, so that a SIGKILL leaves whole lines.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lance_context import AsyncDatagenStore, MaintenanceOptions

if TYPE_CHECKING:
    from lance_context import AsyncItemStream
    from lance_context._item import BaseStep

ITEMS = 12
ROUNDS = 2
DRAFTS = 3
# Seals, merges and rewrites all the time, so that a kill hits one of them.
RESTLESS = MaintenanceOptions(
    seal_idle_s=0.01,
    seal_age_s=0.05,
    merge_generations=2,
    merge_bytes=1 << 16,
    compact_bytes=1 << 16,
    orphan_after_s=0.1,
)


def draft(key: str, round: int, number: int) -> str:
    """The value of one step."""
    return f"{key}:{round}:{number}" + "x" * (number * 700)


def expected(key: str) -> dict[str, Any]:
    """What the fields of a completed item hold."""
    drafts = [draft(key, round, number) for round in range(ROUNDS) for number in range(DRAFTS)]
    return {"outline": f"outline {key}", "drafts": drafts, "last": drafts[-1], "covers": ROUNDS * DRAFTS}


def steps(key: str) -> Iterator[str]:
    """Every step of an item that is acknowledged, as its line."""
    yield f"{key} outline []"
    for round in range(ROUNDS):
        for number in range(DRAFTS):
            yield f"{key} round/draft {[round, number]}"


def acknowledge(item: AsyncItemStream, step: BaseStep) -> None:
    """Says that a step is durable."""
    os.write(1, f"{item.key} {step.path} {list(step.position.get('iteration', ()))}\n".encode())


async def agent(item: AsyncItemStream) -> None:
    """A small program with nested loops, a blob and a value that is made once."""
    async with item.step("outline") as step:
        if not step.completed:
            await asyncio.sleep(0.001)
            step.set("outline", f"outline {item.key}")
    if not step.completed:
        acknowledge(item, step)
    for round in range(ROUNDS):
        async with item.step("round", step_kind="loop", iteration=round) as frame:
            for number in range(DRAFTS):
                async with frame.step("draft", iteration=number) as step:
                    if not step.completed:
                        await asyncio.sleep(0.001)
                        step.append("drafts", draft(item.key, round, number))
                        step.set("last", draft(item.key, round, number))
                        step.append("covers", draft(item.key, round, number).encode() * 20)
                if not step.completed:
                    acknowledge(item, step)


async def run(path: str, run_id: str, writer_id: str | None, keys: list[str]) -> None:
    """Works on the items until they are done, or until killed."""
    async with AsyncDatagenStore.open(path, writer_id=writer_id, gc_grace=0, maintenance=RESTLESS) as store:
        report = await store.run(keys, agent, run_id=run_id, concurrency=6)
    print(f"end {report.completed} {report.skipped} {report.failed}", flush=True)  # noqa: T201


def main() -> None:
    """Arguments: path, run id, writer id or nothing, keys."""
    path, run_id, writer_id, *keys = sys.argv[1:]
    asyncio.run(run(path, run_id, writer_id or None, keys))
