"""An agent that asks questions about Python modules, and goes on where it was when you stop it with Ctrl-C or a kill.

    python examples/qa_agent.py                 the standard library of the running Python
    python examples/qa_agent.py ~/src --limit 9 any other directory
    python examples/qa_agent.py --model NAME    asks a model behind any server with OpenAI's interface, which the
                                                variables OPENAI_BASE_URL and OPENAI_API_KEY name

Run it again with the same store, and it does only what is missing. `lance-context demo` proves it with SIGKILL.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import sysconfig
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel

from lance_context import AsyncDatagenStore, AsyncItemStream, DatagenItemId

MOST = 5
Model: TypeAlias = Callable[[str], Awaitable[str]]


class Question(BaseModel):
    """One pair of the data set."""

    about: str
    question: str
    answer: str


async def stand_in(prompt: str) -> str:
    """Stands for a language model."""
    await asyncio.sleep(0.01)
    return f"What does `{prompt.split('`')[1]}` do?"


def openai_model(name: str) -> Model:
    """A model behind a server with OpenAI's interface."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI()

    async def ask(prompt: str) -> str:
        reply = await client.chat.completions.create(model=name, messages=[{"role": "user", "content": prompt}])
        return reply.choices[0].message.content or ""

    return ask


async def work(model: Model, item: AsyncItemStream) -> None:
    """One module: its documented functions become questions."""
    source = await item.once("source", Path(item.key).read_text, encoding="utf-8")
    documented = [
        (node.name, answer)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and (answer := ast.get_docstring(node))
    ]
    if not documented:
        item.filter_out(reason="nothing is documented")
    for number, (name, answer) in enumerate(documented[:MOST]):
        async with item.step("ask", iteration=number) as step:
            if not step.completed:  # a former attempt did it
                question = await model(f"Ask a question about `{name}` that this answers:\n{answer}")
                step.append("questions", Question(about=name, question=question, answer=answer))


async def run(ids: list[DatagenItemId], model: Model, store_path: Path) -> None:
    """Work on every module that is not done, 16 at once, and show what came out."""
    async with AsyncDatagenStore.open(store_path) as store:
        report = await store.run(ids, partial(work, model), run_id="qa", max_failures=20, progress=True)
        print(f"completed {report.completed}, filtered {report.filtered}, failed {report.failed}, ", end="")
        print(f"done before {report.skipped}, in {report.elapsed_s:.1f} s")
        for item in await store.failed_items():
            if (failure := item.last_failure) is not None:
                print(f"failed: {item.item_id.source_key}: {failure.error_type}: {failure.error_dump}")
        for item in await store.items(filter={"status": "completed"}, limit=1):
            for question in item.values("questions", Question):
                print(f"{question.question}\n    {question.answer.splitlines()[0]}")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Ask questions about Python modules.")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(sysconfig.get_path("stdlib")))
    parser.add_argument("--store", type=Path, default=Path("qa.log"))
    parser.add_argument("--limit", type=int, help="at most this many modules")
    parser.add_argument("--model", help="the name of a model (default: a stand-in)")
    given = parser.parse_args()
    paths = sorted(path for path in given.directory.glob("*.py") if path.is_file())[: given.limit]
    ids = [DatagenItemId.from_source_key(str(path)) for path in paths]
    asyncio.run(run(ids, openai_model(given.model) if given.model else stand_in, given.store))


if __name__ == "__main__":
    main()
