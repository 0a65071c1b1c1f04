"""Processes that share a store: every kind of write at once, a writer that stands still, readers under a merge.

What `tests.test_writers` shows for adds alone is shown here for whatever a writer can do.
"""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from lance_context import GenericStore
from tests.child import Child, module
from tests.contender import SCHEMA
from tests.oracle import RESTLESS, upkeep
from tests.watching import await_changes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lance_context import MaintenanceOptions, Row

WRITE = module("tests.contender", "write")
ADD = module("tests.contender", "add_until_told")
READ = module("tests.contender", "read_until_told")


def facts_until_done(child: Child) -> list[dict[str, Any]]:
    """What the program says, up to its last line."""
    facts: list[dict[str, Any]] = []
    while not facts or "done" not in facts[-1]:
        facts.append(json.loads(child.read()))
    return facts


def said(facts: Iterable[dict[str, Any]], what: str) -> list[Any]:
    """The values of one kind of fact, in order."""
    return [fact[what] for fact in facts if what in fact]


@pytest.mark.parametrize(
    ("grace", "maintenance"),
    [(None, None), (0, None), (0, RESTLESS)],
    ids=["grace", "no grace", "no grace, restless maintenance"],
)
@pytest.mark.parametrize("names", ["ab", "abcd"])
@pytest.mark.parametrize("rounds", [10, pytest.param(60, marks=pytest.mark.soak)])
def test_every_kind_of_write_at_once(
    path: Path, names: str, grace: float | None, maintenance: MaintenanceOptions | None, rounds: int
) -> None:
    with GenericStore.open(path, SCHEMA, gc_grace=grace) as store:
        store.add({"id": "shared"})
        store.flush()
    with ExitStack() as running:
        children = {
            name: running.enter_context(Child(WRITE, path, name, rounds, upkeep(maintenance), deadline_s=60.0 * rounds))
            for name in names
        }
        for name, child in children.items():
            child.expect(json.dumps({"ready": name}))
        for child in children.values():
            child.tell("go")
        facts = {name: facts_until_done(child) for name, child in children.items()}
        for child in children.values():
            child.finish()

    expected: dict[str, Row] = {}
    for name, of_one in facts.items():
        kept = set(said(of_one, "added")) - set(said(of_one, "deleted"))
        assert said(of_one, "added") == list(range(rounds))
        assert said(of_one, "updated") == list(range(1, rounds + 1))
        for n in kept:
            for part in "xy":
                expected[f"{name}{n:03}{part}"] = blank(owner=name, n=n)
        for id in said(of_one, "ticket"):
            assert id not in expected, f"{id} was given to two"
            expected[id] = blank(owner=name, n=int(id.removeprefix("ticket-")))
    tickets = sorted(id for id in expected if id.startswith("ticket-"))
    assert tickets == [f"ticket-{n:04}" for n in range(len(tickets))], "a ticket was given to nobody"
    expected["shared"] = blank(**dict.fromkeys(names, rounds))

    with GenericStore.open_existing(path) as store:
        for work in (store.flush, store.merge, store.optimize):
            work()
            rows = store.list(read="latest")
            assert len(rows) == len(expected)
            assert {row.pop("id"): row for row in rows} == expected
    fences = sum(said(of_one, "fences")[0] for of_one in facts.values())
    print(f"{len(names)} writers, {rounds} rounds: {fences} fences, 0 lost")  # noqa: T201 - as in tests.test_kill


def blank(**columns: object) -> Row:
    """A row without its id and with nothing else in it than `columns`."""
    return {**dict.fromkeys(column for column in SCHEMA if column != "id"), **columns}


@pytest.mark.parametrize("stops", [10, pytest.param(60, marks=pytest.mark.soak)])
def test_a_writer_that_stands_still(path: Path, stops: int) -> None:
    GenericStore.open(path, SCHEMA, gc_grace=0).close()
    choose = random.Random(stops)
    facts: list[dict[str, Any]] = []
    mine: set[str] = set()
    with Child(ADD, path, "a", deadline_s=60.0 * stops) as child, GenericStore.open_existing(path) as store:
        for stop in range(stops):
            facts += [json.loads(child.read()) for _ in range(choose.randrange(1, 6))]
            # Into the middle of an add: so many changed files later.
            await_changes(path, choose.randrange(3), child)
            child.stop()
            for part in range(choose.randrange(1, 4)):
                id = f"b{stop:03}-{part}"
                store.add({"id": id, "owner": "b", "n": stop})
                mine.add(id)
            if choose.randrange(2):
                store.flush()
            if choose.randrange(2):
                store.merge()
            if choose.randrange(2):
                store.optimize()
            there = {row["id"] for row in store.list(columns=[], read="latest")}
            assert mine <= there
            child.resume()
        child.tell("enough")
        facts += facts_until_done(child)
        child.finish()

    added, fenced = said(facts, "added"), said(facts, "fenced")
    assert sorted(added + fenced) == list(range(facts[-1]["tried"]))
    with GenericStore.open_existing(path, read_only=True, read="latest") as store:
        rows = store.list(columns=["owner", "n"])
    ids = {row["id"] for row in rows}
    assert len(ids) == len(rows)
    assert mine <= ids
    assert {f"a{n:05}{part}" for n in added for part in "xy"} <= ids
    assert {i[:-1] for i in ids if i[-1] == "x"} == {i[:-1] for i in ids if i[-1] == "y"}, "an add is atomic"
    print(f"{stops} stops, {len(added)} added, {len(fenced)} fenced, 0 lost")  # noqa: T201 - as in tests.test_kill


@pytest.mark.parametrize("versions", [12, pytest.param(150, marks=pytest.mark.soak)])
def test_readers_under_merges_and_collection(path: Path, versions: int) -> None:
    keys = 120
    with ExitStack() as running:
        store = running.enter_context(GenericStore.open(path, SCHEMA, gc_grace=0, maintenance=None))

        def rewrite(version: int) -> None:
            store.add({"id": f"r{key:04}", "n": version} for key in range(keys))

        rewrite(0)
        store.flush()
        readers = [
            running.enter_context(Child(READ, path, read, keys, deadline_s=60.0 * versions))
            for read in ("latest", "sealed")
        ]
        for reader in readers:
            reader.expect(json.dumps({"round": 1}))
        for version in range(1, versions + 1):
            rewrite(version)
            store.flush()
            if version % 2:
                store.merge()
            if version % 3 == 0:
                store.optimize()
        store.flush()
        for reader in readers:
            reader.tell("enough")
        for reader in readers:
            facts = facts_until_done(reader)
            reader.finish()
            rounds, broken_off = facts[-1]["done"], facts[-1]["broken_off"]
            print(f"{rounds} rounds of reads, broken off: {broken_off}")  # noqa: T201 - as in tests.test_kill
            assert broken_off.keys() <= {"iter"}, broken_off
        assert store.count() == keys
