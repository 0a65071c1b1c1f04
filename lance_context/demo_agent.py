"""The agent of `lance-context demo`: questions and answers about the modules of a directory of Python sources.

One item a module, whose key is its path. Nothing in it knows about crashes: every step says where it stands, does its
work unless a former attempt did, and is durable when its block is left.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lance_context import AsyncDatagenStore, AsyncItemStream, DatagenItemId, RunReport

if TYPE_CHECKING:
    from lance_context._item import BaseStep

THRESHOLD = 0.35
MAX_FUNCTIONS = 5
MAX_CLASSES = 3

Documented: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Agent(NamedTuple):
    """What the workers share."""

    store: AsyncDatagenStore
    sources: Path
    run_id: str
    oracle: int
    """A file that gets a line for each step once it is durable; for the proof alone."""

    async def module(self, item: AsyncItemStream) -> None:
        """Makes questions about one module, and an item of its own for each of its classes."""
        async with item.step("read") as step:
            if not step.completed:
                source = (self.sources / item.key).read_bytes()
                step.set("source", source)
                step.set("lines", source.count(b"\n"))
        self.acknowledge(item, step)
        tree = ast.parse(await item.load_blob("source"), filename=item.key)

        async with item.step("extract", step_kind="loop") as extract:
            for number, function in enumerate(documented(tree, ast.FunctionDef, MAX_FUNCTIONS)):
                async with extract.step("function", iteration=number) as step:
                    if not step.completed:
                        await think(item.key, number)
                        step.append("functions", function.name)
                        step.append("answers", summary(function))
                self.acknowledge(item, step)

        answers = item.values("answers", str)
        async with item.step("ask") as step:
            if not step.completed:
                step.set("questions", await ask(item.key, item.values("functions", str)))
        self.acknowledge(item, step)
        async with item.step("score") as step:
            if not step.completed:
                step.set("score", await rate(item.value("questions", list[str]), answers))
        self.acknowledge(item, step)
        if (score := item.value("score", float)) < THRESHOLD:
            item.filter_out(reason=f"a score of {score} is below {THRESHOLD}")
            return
        classes = list(documented(tree, ast.ClassDef, MAX_CLASSES))
        children = [item.child("class", number) for number in range(len(classes))]

        async def describe(child: AsyncItemStream) -> None:
            async with child.step("describe") as step:
                if not step.completed:
                    node = classes[children.index(child.item_id)]
                    await think(item.key, node.name)
                    step.set("name", node.name)
                    step.set("answer", summary(node))
            self.acknowledge(child, step)

        report = await self.store.run(children, describe, run_id=self.run_id, concurrency=2)
        if report.failed:
            raise RuntimeError(f"{report.failed} classes failed")

    def acknowledge(self, item: AsyncItemStream, step: BaseStep) -> None:
        """Notes that a step of this attempt is durable, with one write, which a kill does not cut."""
        if not step.completed:
            counters = list(step.position.get("iteration", ()))
            os.write(self.oracle, f"{item.item_id}\t{step.path}{counters}\n".encode())


def documented(tree: ast.Module, kind: type[Documented], most: int) -> Iterator[Documented]:
    """The first documented functions or classes of a module."""
    found = (node for node in tree.body if isinstance(node, kind) and ast.get_docstring(node))
    return (node for node, _ in zip(found, range(most), strict=False))


def summary(node: Documented) -> str:
    """The first paragraph of a docstring."""
    return (ast.get_docstring(node) or "").split("\n\n", 1)[0]


async def think(*about: object) -> None:
    """Takes a few milliseconds, as a model would take seconds."""
    digest = hashlib.sha256(repr(about).encode()).digest()
    await asyncio.sleep(0.001 + digest[0] / 255 * 0.009)


async def ask(module: str, functions: list[str]) -> list[str]:
    """Makes a question about each function."""
    await think(module, functions)
    return [f"What does `{name}` in `{module}` do?" for name in functions]


async def rate(questions: list[str], answers: list[str]) -> float:
    """Rates the pairs of a module: by how many there are, and how much they say."""
    await think(questions)
    said = sum(min(len(answer) / 80, 1) for answer in answers)
    return round((len(questions) + said) / (2 * MAX_FUNCTIONS), 3)


async def work(store_path: Path, sources: Path, keys: list[str], run_id: str, oracle: Path, workers: int) -> RunReport:
    """Opens the log and runs the agent over the modules: begins what is new, resumes what is not done."""
    line = os.open(oracle, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    try:
        async with AsyncDatagenStore.open(store_path) as store:
            agent = Agent(store, sources, run_id, line)
            ids = [DatagenItemId.from_source_key(key) for key in keys]
            return await store.run(ids, agent.module, run_id=run_id, concurrency=workers, query_tags={"kind": "module"})
    finally:
        os.close(line)
