"""An agent that asks questions about Python modules, and goes on where it was when you stop it with Ctrl-C or a kill.

    python examples/qa_agent.py                 the standard library of the running Python
    python examples/qa_agent.py ~/src --limit 9 any other directory

Run it again with the same store, and it does only what is missing. `lance-context demo` proves it with SIGKILL.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import sysconfig
from pathlib import Path

from pydantic import BaseModel

from lance_context import AsyncDatagenStore, AsyncItemStream, DatagenItemId


class Question(BaseModel):
    """One pair of the data set."""

    about: str
    question: str
    answer: str


async def model(prompt: str) -> str:
    """Stands for a language model."""
    await asyncio.sleep(0.01)
    return f"Q: {prompt}"


async def work(item: AsyncItemStream) -> None:
    """One module: its documented functions become questions."""
    source = await item.once("source", Path(item.key).read_text, encoding="utf-8")
    functions = [
        node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
    ]
    if not functions:
        item.filter_out(reason="nothing is documented")
    for number, function in enumerate(functions[:5]):
        async with item.step("ask", iteration=number) as step:
            if not step.completed:
                answer = ast.get_docstring(function) or ""
                question = await model(f"What does {function.name} do?")
                step.append("questions", Question(about=function.name, question=question, answer=answer))


async def run(ids: list[DatagenItemId], store_path: Path) -> None:
    """Work on every module that is not done, 16 at once."""
    async with AsyncDatagenStore.open(store_path) as store:
        report = await store.run(ids, work, run_id="qa", concurrency=16, max_failures=20, progress=True)
        print(report)
        for item in await store.failed_items():
            failure = item.last_failure
            print(f"failed: {item.item_id.source_key}: {failure.error_type if failure else ''}")
        done = await store.items(filter={"status": "completed"}, limit=1)
        for question in done[0].values("questions", Question) if done else ():
            print(f"{question.question}\n  {question.answer.splitlines()[0]}")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Ask questions about Python modules.")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(sysconfig.get_path("stdlib")))
    parser.add_argument("--store", type=Path, default=Path("qa.log"))
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    paths = sorted(path for path in given.directory.glob("*.py") if path.is_file())[: given.limit]
    asyncio.run(run([DatagenItemId.from_source_key(str(path)) for path in paths], given.store))


if __name__ == "__main__":
    main()
