"""Programs that write to and read from a store that other processes write to at the same time.

Run by `tests.test_many_writers`. Each prints what the store has acknowledged, one line a fact, and ends with a
line about itself. An error that is not part of the contract ends the program, with its traceback.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from lance_context import AlreadyExistsError, FencedError, GenericStore, StorageError
from tests.oracle import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_context import MaintenanceOptions, ReadMode, SchemaDeclaration

T = TypeVar("T")

NAMES = "abcd"
SCHEMA: SchemaDeclaration = {"id": "string", "owner": "string", "n": "int64", **dict.fromkeys(NAMES, "int64")}
FENCES = {"writer-fenced", "write-uncertain"}
ATTEMPTS = 100


def say(**fact: object) -> None:
    """Print a fact."""
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


class Contender:
    """One writer among several."""

    def __init__(self, path: str, name: str, maintenance: MaintenanceOptions | None) -> None:
        self.store = GenericStore.open_existing(path, read="latest", maintenance=maintenance)
        self.name = name
        self.fences = 0
        self.next_ticket = 0

    def retried(self, write: Callable[[], T]) -> T:
        """Repeat what was fenced, which the error allows."""
        for _ in range(ATTEMPTS):
            try:
                return write()
            except FencedError as error:
                if error.code not in FENCES or not error.retryable:
                    raise
                self.fences += 1
        raise SystemExit(f"fenced {ATTEMPTS} times in a row")

    def add(self, n: int) -> None:
        rows = [{"id": f"{self.name}{n:03}{part}", "owner": self.name, "n": n} for part in "xy"]
        self.retried(lambda: self.store.add(rows))
        say(added=n)

    def delete(self, n: int) -> None:
        """Delete both rows of an earlier add; a repeat after an uncertain fence finds what is left."""
        self.retried(lambda: self.store.delete([f"{self.name}{n:03}x", f"{self.name}{n:03}y"]))
        say(deleted=n)

    def update(self, n: int) -> None:
        """Set this writer's column of the shared row, which must still be as this writer left it."""
        row = self.store.get("shared")
        assert row is not None
        assert row[self.name] == (n - 1 or None), f"an update was lost: {row}, to become {n}"
        self.retried(lambda: self.store.update("shared", {self.name: n}))
        say(updated=n)

    def take_a_ticket(self) -> None:
        """Be the only one that adds some id."""
        while not self.takes(f"ticket-{self.next_ticket:04}"):
            self.next_ticket += 1
        say(ticket=f"ticket-{self.next_ticket:04}")
        self.next_ticket += 1

    def takes(self, id: str) -> bool:
        """Whether this call is the one that added `id`."""
        ticket = {"id": id, "owner": self.name, "n": self.next_ticket}
        try:
            self.retried(lambda: self.store.add(ticket, on_conflict="error"))
        except AlreadyExistsError:
            # Perhaps by the first attempt of this very call, which was kept, with the fence behind it.
            taken = self.store.get(id)
            assert taken is not None, f"{id} is taken and not there"
            return taken["owner"] == self.name
        return True


def write() -> None:
    """Add, update, delete, flush and merge among others. Arguments: store, name, rounds, maintenance."""
    path, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    contender = Contender(path, name, options(sys.argv[4]))
    say(ready=name)
    sys.stdin.readline()
    store = contender.store
    for n in range(rounds):
        contender.add(n)
        contender.update(n + 1)
        if n % 2:
            contender.retried(store.flush)
        if n % 3 == 2:
            contender.take_a_ticket()
        if n % 4 == 3:
            contender.delete(n - 2)
        if n % 5 == 4:
            contender.retried(store.merge)
    contender.retried(store.flush)
    say(done=name, fences=contender.fences)
    store.close()


def add_until_told() -> None:
    """Add pairs of rows until a line comes, and say what became of each. Arguments: store, name."""
    path, name = sys.argv[1], sys.argv[2]
    store = GenericStore.open_existing(path, maintenance=None)
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    n = 0
    while not told.is_set():
        try:
            store.add([{"id": f"{name}{n:05}{part}", "owner": name, "n": n} for part in "xy"])
        except FencedError as error:
            if error.code not in FENCES:
                raise
            say(fenced=n, code=error.code)
        else:
            say(added=n)
        n += 1
    say(done=name, tried=n)
    store.close()


def read_until_told() -> None:
    """Read a set of rows that is always rewritten as a whole, in every way. Arguments: store, visibility, keys."""
    path, keys = sys.argv[1], int(sys.argv[3])
    read: ReadMode = "latest" if sys.argv[2] == "latest" else "sealed"
    store = GenericStore.open_existing(path, read_only=True, read=read)
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    expected = [f"r{key:04}" for key in range(keys)]
    seen = rounds = 0
    broken_off: Counter[str] = Counter()

    def check(rows: list[tuple[str, int]], where: str) -> None:
        nonlocal seen
        assert [id for id, _ in rows] == expected, f"{where}: {len(rows)} rows, {len(set(rows))} different"
        versions = {n for _, n in rows}
        assert len(versions) == 1, f"{where} mixes the versions {sorted(versions)}"
        (version,) = versions
        assert version >= seen, f"{where} shows version {version} after {seen}"
        seen = version

    def get() -> None:
        nonlocal seen
        row = store.get(expected[rounds % keys])
        assert row is not None, f"{expected[rounds % keys]} is missing"
        assert row["n"] >= seen, f"get shows version {row['n']} after {seen}"
        seen = row["n"]

    def count() -> None:
        found = store.count()
        assert found == keys, f"count says {found}"

    def get_many() -> None:
        check([(row["id"], row["n"]) for row in store.get_many(expected) if row is not None], "get_many")

    reads: dict[str, Callable[[], None]] = {
        "list": lambda: check([(row["id"], row["n"]) for row in store.list()], "list"),
        "get": get,
        "count": count,
        "get_many": get_many,
        "iter": lambda: check(sorted((row["id"], row["n"]) for row in store.iter()), "iter"),
    }
    while not told.is_set():
        for name, look in reads.items():
            try:
                look()
            except StorageError as error:
                if not error.retryable:
                    raise
                broken_off[name] += 1
        rounds += 1
        say(round=rounds)
    say(done=rounds, broken_off=dict(broken_off), version=seen)
    store.close()
