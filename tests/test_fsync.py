"""`fsync=True`, as the kernel saw it: on the device before it is acknowledged, and before what it replaces goes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.system_calls import Call, Disk, trace

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import os, sys
    from lance_context import GenericStore

    path, marks, fsync = sys.argv[1], sys.argv[2], sys.argv[3] == "True"

    def returned(operation):
        # The trace shows this write, with the name of the file.
        mark = os.open(f"{marks}/{operation}", os.O_CREAT | os.O_WRONLY)
        os.write(mark, b"x")
        os.close(mark)

    store = GenericStore.open(
        path, {"id": "string", "n": "int64"}, gc_grace=0, fsync=fsync, maintenance=None, read="latest"
    )
    returned("open")
    for n in range(4):
        store.add([{"id": f"r{n}-{i}", "n": i} for i in range(50)])
        returned("add")
        store.add({"id": "again", "n": n})
        returned("add")
        store.update("again", {"n": -n})
        returned("update")
        store.delete(f"r{n}-7")
        returned("delete")
        store.flush()
        returned("flush")
        if n % 2:
            store.merge()
            returned("merge")
    store.optimize()
    returned("optimize")
    assert store.count() == 4 * 49 + 1
    store.add({"id": "last", "n": 1})
    returned("add")
    store.close()
    returned("close")
"""

LOG = re.compile(r"/_mem_wal/[^/]+/wal/[01]+\.\w+$")
GENERATION = re.compile(r"/_mem_wal/[^/]+/\w+_gen_\d+/")
STAGING = re.compile(r"#\d+$")
PLACES = {
    "log": LOG,
    "shard manifest": re.compile(r"/_mem_wal/[^/]+/manifest/"),
    "generation data": re.compile(r"_gen_\d+/data/"),
    "generation keys": re.compile(r"_gen_\d+/_pk_index/"),
    "generation key filter": re.compile(r"_gen_\d+/bloom_filter\.bin$"),
    "generation deletions": re.compile(r"_gen_\d+/_deletions/"),
    "generation transaction": re.compile(r"_gen_\d+/_transactions/"),
    "generation manifest": re.compile(r"_gen_\d+/_versions/"),
    "base data": re.compile(r"^/data/"),
    "base manifest": re.compile(r"^/_versions/"),
    "base deletions": re.compile(r"^/_deletions/"),
    "base index": re.compile(r"^/_indices/"),
    "base transaction": re.compile(r"^/_transactions/"),
}


@dataclass
class Operation:
    """One operation of the program: its calls, and what they left."""

    name: str
    calls: list[Call]


def operations(tmp_path: Path, path: Path, *, fsync: bool) -> list[Operation]:
    """Trace the program, and cut the trace where it says that an operation has returned."""
    marks = tmp_path / "marks"
    marks.mkdir()
    cut: list[Operation] = []
    calls: list[Call] = []
    for call in trace(SCRIPT, path, marks, fsync, directory=tmp_path):
        if call.name == "write" and call.paths and call.paths[0].startswith(f"{marks}/"):
            cut.append(Operation(call.paths[0].rpartition("/")[2], calls))
            calls = []
        calls.append(call)
    names = [operation.name for operation in cut]
    assert names[:3] == ["open", "add", "add"]
    assert names[-3:] == ["optimize", "add", "close"]
    return cut


@pytest.mark.parametrize("name", ["store", "a b/caf\u00e9 \u2713 100%25#?"], ids=["plain", "hard"])
def test_what_was_acknowledged_is_on_the_device(tmp_path: Path, name: str) -> None:
    path = tmp_path / "stores" / name
    path.parent.mkdir(parents=True)
    # The store's own directory is an entry of this one.
    disk = Disk(str(path.parent))
    removed_entries = removed_generations = 0
    created: list[str] = []
    for operation in operations(tmp_path, path, fsync=True):
        seen, syncs = len(disk.created), disk.syncs
        for call in operation.calls:
            if call.name in {"unlink", "unlinkat", "rmdir"} and call.paths[0].startswith(str(path)):
                gone = call.paths[0].removeprefix(str(path))
                entry = LOG.search(gone) is not None
                generation = GENERATION.search(gone + "/") is not None and not STAGING.search(gone)
                if entry or generation:
                    # Whatever replaces it was made before, and all of that is safe.
                    assert disk.unsafe() == [], f"{operation.name} deletes {gone} too early"
                    assert any(PLACES["base manifest"].search(made) for made in created), gone
                    assert any(PLACES["base data"].search(made) for made in created), gone
                removed_entries, removed_generations = removed_entries + entry, removed_generations + generation
            disk.apply(call)
            created[:] = [made.removeprefix(str(path)) for made in disk.created]
        assert disk.unsafe() == [], f"{operation.name} returned before this was safe"
        if operation.name in {"add", "update", "delete"}:
            made = created[seen:]
            assert any(LOG.search(file) for file in made), f"{operation.name} wrote no entry, but {made}"
            assert disk.syncs - syncs >= 2, "an entry and its directory"
    assert removed_entries > 0
    assert removed_generations > 0
    for place, pattern in PLACES.items():
        assert any(pattern.search(file) for file in created), f"no file of this kind was made: {place}"
    # A kind of file that nobody thought of would be missing in the list above.
    assert [file for file in created if not any(pattern.search(file) for pattern in PLACES.values())] == []


def test_without_fsync_an_add_syncs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stores" / "store"
    path.parent.mkdir()
    disk = Disk(str(path.parent))
    for operation in operations(tmp_path, path, fsync=False):
        before = disk.syncs
        for call in operation.calls:
            disk.apply(call)
        if operation.name in {"add", "update", "delete"}:
            assert disk.syncs == before
            assert any(LOG.search(file) for file in disk.created)
