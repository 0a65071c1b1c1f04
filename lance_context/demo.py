"""`lance-context demo`: an agent is killed twice with SIGKILL, and its data set comes out as if nothing had happened.

A child process turns the standard library into questions and answers with 16 workers (`lance_context.demo_agent`). The
parent kills it at two moments drawn from a seed, starts it again each time, and compares what came out with a run that
nobody disturbed: every field of every item.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from lance_context.datagen import DatagenStore
from lance_context.datagen_types import BlobRef, Event, FoldedItem, Overview
from lance_context.demo_agent import work

WORKERS = 16
MODULES = 120
KILLS = 2
PLANTED: dict[str, str | None] = {
    "planted_missing.py": None,
    "planted_syntax.py": "def broken(:\n",
    "planted_bytes.py": "x = '\0'\n",
}


class Proof(NamedTuple):
    """What the oracle and the log say of each other."""

    acked: int
    found: int
    doubled: int
    rerun: int

    @property
    def holds(self) -> bool:
        """Whether every acknowledged step is there, once."""
        return self.acked == self.found and self.doubled == 0 and self.rerun == 0

    def __str__(self) -> str:
        return f"acked {self.acked} · found {self.found} · doubled {self.doubled} · steps re-run {self.rerun}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo, or the child that it starts."""
    parser = argparse.ArgumentParser(prog="lance-context demo", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--dir", type=Path, help="where everything goes (default: a new temporary directory)")
    parser.add_argument("--modules", type=int, default=MODULES, help="how many modules (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides when the agent is killed")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child is not None:
        job = json.loads(given.child)
        paths = (Path(job["store"]), Path(job["sources"]))
        asyncio.run(work(*paths, job["keys"], job["run_id"], Path(job["oracle"]), WORKERS))
        return 0
    directory = given.dir or Path(tempfile.mkdtemp(prefix="lance-context-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    return demonstrate(directory, given.modules, given.seed)


def demonstrate(directory: Path, modules: int, seed: int) -> int:
    """Runs the agent undisturbed and killed, compares, and shows what came out. Returns the exit code."""
    console = Console(width=120)
    started = time.monotonic()
    sources, keys = plant(directory, modules)
    console.print(f"{len(keys)} modules, {WORKERS} workers, in {directory}", highlight=False)

    calm = Job(directory, "calm", sources, keys)
    run_to_the_end(calm, "run-0")
    total = len(calm.acked())
    console.print(f"undisturbed: {total} steps in {time.monotonic() - started:.1f} s", highlight=False)

    killed = Job(directory, "killed", sources, keys)
    choose = random.Random(seed)
    for number in range(KILLS):
        enough = int(total * (number + choose.uniform(0.2, 0.8)) / KILLS)
        acked = run_until_killed(killed, f"run-{number}", enough, choose.uniform(0, 0.02))
        console.print(f"SIGKILL number {number + 1} after {acked} acknowledged steps", highlight=False)
    run_to_the_end(killed, f"run-{KILLS}")

    with DatagenStore.open_existing(killed.store, read_only=True) as store:
        proof = prove(store, killed)
        console.print(f"[bold]{proof}[/]", highlight=False)
        with DatagenStore.open_existing(calm.store, read_only=True) as reference:
            different = compare(store, reference)
        console.print(f"items that differ from the undisturbed run: {len(different)}", highlight=False)
        show(console, store)
        parquet = write_parquet(store, directory / "questions.parquet")
    console.print(f"data set: {parquet}", highlight=False, soft_wrap=True)
    console.print(f"{time.monotonic() - started:.1f} s", highlight=False)
    return 0 if proof.holds and not different else 1


class Job:
    """One log, what it is made of, and the oracle beside it."""

    def __init__(self, directory: Path, name: str, sources: Path, keys: list[str]) -> None:
        self.store: Path = directory / f"{name}.log"
        self.oracle: Path = directory / f"{name}.oracle"
        self._parts = {"store": str(self.store), "oracle": str(self.oracle), "sources": str(sources), "keys": keys}

    def command(self, run_id: str) -> list[str]:
        """The command line of the child."""
        return [sys.executable, "-m", "lance_context.demo", "--child", json.dumps({**self._parts, "run_id": run_id})]

    def acked(self) -> list[str]:
        """The acknowledged steps; a line without its end was cut off by the kill."""
        if not self.oracle.exists():
            return []
        return self.oracle.read_text(encoding="utf-8").split("\n")[:-1]


def plant(directory: Path, modules: int) -> tuple[Path, list[str]]:
    """Copies modules of the standard library, and plants a few that fail: none, and two that do not parse."""
    sources = directory / "sources"
    sources.mkdir(exist_ok=True)
    library = Path(sysconfig.get_path("stdlib"))
    found = sorted(path for path in library.glob("*.py") if not path.name.startswith("_"))[:modules]
    for path in found:
        (sources / path.name).write_bytes(path.read_bytes())
    for name, text in PLANTED.items():
        if text is not None:
            (sources / name).write_text(text, encoding="utf-8")
    return sources, [*(path.name for path in found), *PLANTED]


def run_to_the_end(job: Job, run_id: str) -> None:
    """Runs the agent in a process of its own."""
    subprocess.run(job.command(run_id), check=True)


def run_until_killed(job: Job, run_id: str, enough: int, delay_s: float) -> int:
    """Runs the agent, and kills it a moment after `enough` steps were acknowledged. Returns how many were."""
    with subprocess.Popen(job.command(run_id)) as child:
        while len(job.acked()) < enough and child.poll() is None:
            time.sleep(0.002)
        time.sleep(delay_s)
        child.kill()
    return len(job.acked())


def prove(store: DatagenStore, job: Job) -> Proof:
    """Compares the oracle with the log."""
    acked = Counter(job.acked())
    done = Counter(
        f"{event.get('item_id')}\t{place(event)}"
        for _, event in store.events()
        if event.get("event_type") == "STEP_COMPLETED"
    )
    return Proof(
        acked=len(acked),
        found=sum(1 for step in acked if step in done),
        doubled=sum(1 for count in done.values() if count > 1),
        rerun=sum(1 for count in acked.values() if count > 1),
    )


def place(event: Event) -> str:
    """The position of an event, as the oracle has it."""
    frame = event.get("enclosing_step")
    return f"{'' if frame is None else f'{frame}/'}{event.get('step_name')}{event.get('iteration')}"


def compare(store: DatagenStore, reference: DatagenStore) -> list[str]:
    """The items that are not the same in both logs: in their status, their steps, or a value."""
    found, expected = (dict(contents(log)) for log in (store, reference))
    return sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))


def contents(store: DatagenStore) -> Iterator[tuple[str, object]]:
    """What matters of each item."""
    for item in store.items():
        fields = {name: [value_of(value) for value in field.values] for name, field in item.fields.items()}
        steps = sorted(str(position) for position in item.completed)
        yield str(item.item_id), (item.status, item.failed, fields, steps)


def value_of(value: object) -> object:
    """A value to compare: a blob by its checksum."""
    return (value.size, value.checksum) if isinstance(value, BlobRef) else value


def show(console: Console, store: DatagenStore) -> None:
    """Shows the counts, the failures, and the tree of the item with the most children."""
    console.print(counts_table(store.overview()))
    failures = Table("item", "step", "error", title="failed, to be resumed", title_justify="left")
    for item in store.failed_items():
        if (failure := item.last_failure) is not None:
            failures.add_row(str(item.item_id), failure.step_name, f"{failure.error_type}: {failure.error_dump}")
    console.print(failures)
    console.print(store.item_tree(fullest(store.items())).text, markup=False, highlight=False)


def counts_table(overview: Overview) -> Table:
    """The overview as a table."""
    table = Table("items", "completed", "filtered", "failed", "steps", title="overview", title_justify="left")
    steps = ", ".join(f"{name} {count}" for name, count in overview.completed_steps.items())
    counts = (overview.items, overview.completed, overview.filtered, overview.failed)
    table.add_row(*(str(count) for count in counts), steps)
    return table


def fullest(items: list[FoldedItem]) -> str:
    """The root with the most children."""
    parents = Counter(str(item.root_item_id) for item in items)
    return max(sorted(parents), key=lambda item_id: parents[item_id])


def write_parquet(store: DatagenStore, path: Path) -> Path:
    """Writes the completed modules, a row each."""
    import pyarrow.parquet

    pyarrow.parquet.write_table(store.to_arrow(fields=["questions", "answers", "score"]), path)
    return path


if __name__ == "__main__":
    sys.exit(main())
