"""A writer that keeps an oracle of what it did, and the plain model that follows the oracle.

Before each operation the writer appends what it is about to do to a file of its own, and once the operation has
returned, what came of it. Each line is one `write` to a file opened with `O_APPEND`, so that a SIGKILL leaves
whole lines: any number of finished operations, and at most one that was under way.

Run as a program by `tests.test_kill`; the model is read in the process of the test.
"""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from lance_context import AlreadyExistsError, GenericStore, MaintenanceOptions, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lance_context import OnConflict, Row, SchemaDeclaration

SCHEMA: SchemaDeclaration = {
    "id": "string",
    "n": "int64",
    "bucket": "int64",
    "text": "string",
    "note": "int64",
}
# Seals, merges and rewrites all the time, so that whatever happens hits one of them.
RESTLESS = MaintenanceOptions(
    seal_idle_s=0.01,
    seal_age_s=0.05,
    merge_generations=2,
    merge_bytes=1 << 16,
    compact_bytes=1 << 16,
    orphan_after_s=0.1,
)
KEYS = 60
BUCKETS = 5

Step: TypeAlias = "dict[str, Any]"
"""One operation, as its line in the oracle: `do` and its arguments."""

Rows: TypeAlias = "dict[str, Row]"
"""A state of the store: rows by id."""


def row(id: str, n: int) -> Row:
    """The row that write number `n` puts at `id`."""
    return {"id": id, "n": n, "bucket": n % BUCKETS, "text": f"{n}:" + "x" * (n * 37 % 3000), "note": None}


def applied(rows: Rows, step: Step) -> tuple[Rows, int | str]:
    """What a step makes of `rows`, and what the store must answer."""
    kind = step["do"]
    if kind == "add":
        taken = [id for id, _ in step["rows"] if id in rows]
        if step["on_conflict"] == "error" and taken:
            return rows, "row-exists"
        kept = [(id, n) for id, n in step["rows"] if step["on_conflict"] == "replace" or id not in rows]
        return rows | {id: row(id, n) for id, n in kept}, len(kept)
    if kind == "update":
        if step["id"] not in rows:
            return rows, "row-not-found"
        return rows | {step["id"]: rows[step["id"]] | {"note": step["note"]}}, 1
    if kind == "delete":
        dead = set(step["ids"]) & rows.keys()
    elif kind == "delete_where":
        dead = {id for id, row in rows.items() if row["bucket"] == step["bucket"] and row["n"] < step["below"]}
    else:
        return rows, kind
    return {id: row for id, row in rows.items() if id not in dead}, len(dead)


class Oracle:
    """The model as the oracle file tells it, read on from where the last look ended."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self.rows: Rows = {}
        self.finished = 0

    def follow(self) -> Step | None:
        """Take in what was finished; the step that was under way, if there is one."""
        if not self._file.exists():
            return None
        content = self._file.read_bytes()[self._read :]
        # A last line without its end was cut off: its step had not begun, or its answer had not been heard.
        whole = content[: content.rfind(b"\n") + 1]
        lines = [json.loads(line) for line in whole.splitlines()]
        os.truncate(self._file, self._read + len(whole))
        self._read += len(whole)
        under_way: Step | None = None
        for line in lines:
            if "do" in line:
                assert under_way is None, f"two steps at once: {under_way}, {line}"
                under_way = line
                continue
            assert under_way is not None, f"an answer to nothing: {line}"
            self.rows, answer = applied(self.rows, under_way)
            assert line["answer"] == answer, f"{under_way} was answered with {line['answer']}, not {answer}"
            self.finished += 1
            under_way = None
        return under_way


def next_step(choose: random.Random, n: int) -> Step:
    """A step, drawn; writes are numbered from `n`."""

    def key() -> str:
        return f"k{choose.randrange(KEYS):02}"

    def add(on_conflict: OnConflict) -> Step:
        ids = sorted({key() for _ in range(choose.choice((1, 1, 2, 5, 30)))})
        return {"do": "add", "on_conflict": on_conflict, "rows": [(id, n + i) for i, id in enumerate(ids)]}

    steps: list[tuple[int, Callable[[], Step]]] = [
        (40, lambda: add("replace")),
        (8, lambda: add("ignore")),
        (6, lambda: add("error")),
        (14, lambda: {"do": "update", "id": key(), "note": n}),
        (10, lambda: {"do": "delete", "ids": sorted({key() for _ in range(choose.randrange(1, 5))})}),
        (3, lambda: {"do": "delete_where", "bucket": choose.randrange(BUCKETS), "below": n - choose.randrange(400)}),
        (10, lambda: {"do": "flush"}),
        (6, lambda: {"do": "merge"}),
        (3, lambda: {"do": "optimize"}),
    ]
    (drawn,) = choose.choices(steps, weights=[weight for weight, _ in steps])
    return drawn[1]()


def perform(store: GenericStore, step: Step) -> int | str:
    """Do it, and give the store's answer as `applied` gives the model's."""
    try:
        match step["do"]:
            case "add":
                rows = (row(id, n) for id, n in step["rows"])
                return store.add(rows, on_conflict=step["on_conflict"]).count
            case "update":
                store.update(step["id"], {"note": step["note"]})
                return 1
            case "delete":
                return store.delete(step["ids"]).count
            case "delete_where":
                params: Mapping[str, object] = {"bucket": step["bucket"], "below": step["below"]}
                return store.delete_where("bucket = $bucket AND n < $below", params=params).count
            case "flush":
                store.flush()
            case "merge":
                store.merge()
            case _:
                store.optimize()
    except (AlreadyExistsError, NotFoundError) as error:
        return error.code
    return step["do"]


def upkeep(options: MaintenanceOptions | None) -> str:
    """The options as an argument of a program."""
    return json.dumps(None if options is None else asdict(options))


def options(argument: str) -> MaintenanceOptions | None:
    """The options that `upkeep` was given."""
    given = json.loads(argument)
    return None if given is None else MaintenanceOptions(**given)


def main() -> None:
    """Write until killed. Arguments: store, oracle file, seed, first number, `fsync`, maintenance options."""
    path, oracle, seed, first, fsync, maintenance = sys.argv[1:]
    store = GenericStore.open(
        path,
        SCHEMA,
        gc_grace=0,
        fsync=fsync == "True",
        maintenance=options(maintenance),
    )
    oracle_file = os.open(oracle, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    choose = random.Random(int(seed))
    n = int(first)
    while True:
        step = next_step(choose, n)
        n += KEYS
        os.write(oracle_file, json.dumps(step).encode() + b"\n")
        answer = perform(store, step)
        os.write(oracle_file, json.dumps({"answer": answer}).encode() + b"\n")
        os.write(1, b"done\n")
