"""SIGKILL at any moment: what was acknowledged is there, once; what was under way is there whole or not at all."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lance_context import GenericStore, MaintenanceOptions
from tests.child import Child, module
from tests.oracle import RESTLESS, SCHEMA, Oracle, Rows, applied, upkeep
from tests.system_calls import NAMING, kill_before
from tests.watching import await_changes

if TYPE_CHECKING:
    from pathlib import Path

WRITER = module("tests.oracle")

CREATOR = """
    import sys
    from lance_context import GenericStore

    directory, fsync = sys.argv[1], sys.argv[2] == "True"
    n = 0
    while True:
        schema = {"id": "string", "n": "int64"}
        store = GenericStore.open(f"{directory}/{n}", schema=schema, gc_grace=0, fsync=fsync)
        store.add({"id": "a", "n": n})
        store.close()
        n += 1
"""


def kills(normal: int, soak: int) -> list[object]:
    """Parameters for the two lengths of a loop."""
    return [normal, pytest.param(soak, marks=pytest.mark.soak)]


@pytest.mark.parametrize("count", kills(20, 200))
def test_killed_by_hand_kept_by_nobody(tmp_path: Path, count: int) -> None:
    kill_loop(tmp_path, count, fsync=False, maintenance=None)


@pytest.mark.parametrize("count", kills(20, 200))
def test_killed_under_restless_maintenance(tmp_path: Path, count: int) -> None:
    kill_loop(tmp_path, count, fsync=False, maintenance=RESTLESS)


@pytest.mark.parametrize("count", kills(5, 50))
def test_killed_with_fsync(tmp_path: Path, count: int) -> None:
    kill_loop(tmp_path, count, fsync=True, maintenance=RESTLESS)


@pytest.mark.parametrize("maintenance", [None, RESTLESS], ids=["no maintenance", "restless"])
@pytest.mark.parametrize("count", kills(8, 200))
def test_killed_between_two_steps(tmp_path: Path, count: int, maintenance: MaintenanceOptions | None) -> None:
    kill_loop(tmp_path, count, fsync=False, maintenance=maintenance, at_a_step=True)


def kill_loop(
    tmp_path: Path,
    count: int,
    *,
    fsync: bool,
    maintenance: MaintenanceOptions | None,
    at_a_step: bool = False,
) -> None:
    path = tmp_path / "store"
    GenericStore.open(path, SCHEMA, gc_grace=0, fsync=fsync).close()
    oracle = Oracle(tmp_path / "oracle")
    choose = random.Random(count)
    whole = absent = 0
    for killed in range(count):
        arguments = (path, tmp_path / "oracle", killed, killed * 1_000_000, fsync, upkeep(maintenance))
        if at_a_step:
            kill_before(NAMING[killed % len(NAMING)], choose.randrange(1, 16), WRITER, *arguments)
        else:
            with Child(WRITER, *arguments) as child:
                for _ in range(choose.randrange(1, 30)):
                    child.expect("done")
                # Into the middle of an operation: so many changed files later.
                await_changes(path, choose.randrange(6), child)
                child.kill()
        under_way = oracle.follow()
        before = oracle.rows
        after = before if under_way is None else applied(before, under_way)[0]
        found = read_everything(path)
        if found not in (before, after):
            pytest.fail(f"kill {killed}, {under_way} under way: {difference(found, before, after)}")
        if after != before:
            whole, absent = whole + (found == after), absent + (found == before)
        oracle.rows = found
        if killed % 5 == 4:
            look_after(path, found)
    look_after(path, oracle.rows)
    assert whole + absent > 0, "no kill came in the middle of a write; the test shows nothing"
    summary = f"{count} kills, {oracle.finished} operations acknowledged, 0 lost; {whole} writes whole, {absent} absent"
    print(summary)  # noqa: T201 - what a loop has seen is worth a line in the long form


def read_everything(path: Path) -> Rows:
    """The rows that a fresh handle reads, which must be the same by every way to read."""
    with GenericStore.open_existing(path, read_only=True) as store:
        rows = store.list(read="latest")
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows), "a row is there twice"
        assert store.list(read="sealed") == rows, "all that was durable at open belongs to sealed reads"
        assert store.count(read="latest") == len(rows)
        streamed = list(store.iter(read="latest"))
        assert len(streamed) == len(rows), "a row is streamed twice, or not at all"
        assert {row["id"]: row for row in streamed} == found
        ids = sorted(found)[::7]
        assert store.get_many(ids, read="latest") == [found[id] for id in ids]
        assert store.stats().quarantined == 0, "the death of a process tears nothing"
    return found


def look_after(path: Path, expected: Rows) -> None:
    """Flush, merge and optimize what a dead process left, and find the same rows behind each."""
    with GenericStore.open_existing(path, maintenance=None) as store:
        for work in (store.flush, store.merge, store.optimize):
            work()
            found = {row["id"]: row for row in store.list()}
            if found != expected:
                pytest.fail(f"after {work.__name__}: {difference(found, expected, expected)}")
        stats = store.stats()
        assert (stats.rows, stats.base_rows, stats.generations) == (len(expected), len(expected), 0)
        assert stats.wal_entries <= 8, "what was merged is collected"


def difference(found: Rows, before: Rows, after: Rows) -> str:
    """What is wrong, key by key, without the texts."""

    def short(rows: Rows, id: str) -> object:
        return (rows[id]["n"], rows[id]["note"]) if id in rows else None

    keys = sorted(found.keys() | before.keys() | after.keys())
    wrong = [id for id in keys if found.get(id) not in (before.get(id), after.get(id))]
    mixed = [id for id in keys if before.get(id) != after.get(id)]
    return "; ".join(
        f"{id}: found {short(found, id)}, before {short(before, id)}, after {short(after, id)}" for id in wrong or mixed
    )


@pytest.mark.parametrize("fsync", [False, True])
@pytest.mark.parametrize("changes", [1, 2, 3, 5, 8, 13, 21])
def test_killed_while_creating_stores(tmp_path: Path, changes: int, *, fsync: bool) -> None:
    with Child(CREATOR, tmp_path, fsync) as child:
        await_changes(tmp_path, changes, child)
        child.kill()
    begun = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    for n, path in enumerate(begun):
        with GenericStore.open(path, {"id": "string", "n": "int64"}, gc_grace=0, fsync=fsync, read="latest") as store:
            rows = store.list()
            # The last one was not acknowledged.
            assert rows == [{"id": "a", "n": n}] or (path == begun[-1] and rows == [])
            store.add({"id": "b", "n": n})
            assert store.list() == [*rows, {"id": "b", "n": n}]


# What strace shows of a creation up to its first version, in the names of lance and of object_store.
TRANSACTION = "_transactions/0-2c2ffd9d-87d2-4f1b-8d53-b882575daaa1.txn"
MANIFEST = "_versions/18446744073709551614.manifest"
LEFTOVERS = {
    "transaction begun": ["_transactions/.tmpvoSAxE"],
    "transaction begun, fsync": [TRANSACTION + "#1"],
    "transaction": [TRANSACTION],
    "manifest begun": [TRANSACTION, MANIFEST + "#1"],
}


@pytest.mark.parametrize("files", LEFTOVERS.values(), ids=LEFTOVERS)
def test_a_creation_that_was_cut_off_is_done_again(path: Path, files: list[str]) -> None:
    for file in files:
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_bytes(b"")
    with GenericStore.open(path, {"id": "string", "n": "int64"}) as store:
        store.add({"id": "a", "n": 1})
        assert store.list(read="latest") == [{"id": "a", "n": 1}]
