"""The long form of a store's life: memory and disk stay bounded however much is written.

Hundreds of kills and the large blobs are the long forms of `tests.test_kill` and `tests.test_blobs`.
"""

from __future__ import annotations

import json
import os
import statistics
from typing import TYPE_CHECKING

import pytest

from lance_context import GenericStore
from tests.child import Child

if TYPE_CHECKING:
    from pathlib import Path

ADD_BYTES = 100_000

WRITER = """
    import json, os, random, sys
    from lance_context import GenericStore, MaintenanceOptions

    path, adds, keys, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    noise = random.Random(adds)

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stored():
        total = 0
        for root, _, names in os.walk(path):
            for name in names:
                try:
                    total += os.lstat(os.path.join(root, name)).st_size
                except FileNotFoundError:
                    pass
        return total

    # In step with the adds, not with the clock: a merge is due each so many generations, whatever a seal waits for.
    upkeep = MaintenanceOptions(seal_idle_s=60, seal_age_s=3600, merge_generations=4, merge_bytes=16 << 20)
    schema = {"id": "string", "n": "int64", "data": {"type": "binary", "blob": True}}
    store = GenericStore.open(path, schema, gc_grace=0, maintenance=upkeep)
    for n in range(adds):
        store.add({"id": f"k{n % keys:05}", "n": n, "data": noise.randbytes(size)})
        if n % 50 == 49:
            store.flush()
            print(json.dumps([n + 1, resident(), stored()]), flush=True)
    stats = store.stats()
    assert stats.maintenance_error is None, stats.maintenance_error
    assert stats.rows == min(adds, keys), stats
    store.close()
    print(json.dumps(stats.base_rows), flush=True)
"""


@pytest.mark.soak
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
@pytest.mark.parametrize("keys", [500, 10_000], ids=["rewritten", "new"])
def test_memory_and_disk_do_not_creep(path: Path, keys: int) -> None:
    adds = 10_000
    with Child(WRITER, path, adds, keys, ADD_BYTES, deadline_s=3600) as child:
        samples: list[list[int]] = [json.loads(child.read()) for _ in range(adds // 50)]
        merged = json.loads(child.read())
        child.finish()
    _, memory, disk = (list(column) for column in zip(*samples, strict=True))
    live_growth = ADD_BYTES if keys == adds else 0
    print(  # noqa: T201 - the figures are what a long run is for
        f"{adds} adds of {ADD_BYTES} bytes to {keys} keys; slopes in bytes an add over the second half: "
        f"memory {slope(memory):.0f}, disk {slope(disk):.0f}, of which {live_growth} are live; "
        f"at the end (at most): memory {memory[-1] / 1e6:.0f} ({max(memory) / 1e6:.0f}) MB, "
        f"disk {disk[-1] / 1e6:.0f} ({max(disk) / 1e6:.0f}) MB"
    )
    assert merged > 0
    assert slope(memory) < 0.15 * ADD_BYTES, "memory grows with what was written"
    assert slope(disk) < 1.5 * live_growth + 0.15 * ADD_BYTES, "what was superseded stays on disk"
    assert max(memory) < 1 << 30, "a rewrite of files takes memory for a few of them, not for the table"
    assert max(disk) < 2 * keys * ADD_BYTES + (256 << 20), "a rewrite has the old files and the new ones on disk"
    with GenericStore.open_existing(path) as store:
        assert store.count() == keys


def slope(samples: list[int]) -> float:
    """Growth an add over the second half, of the lower envelope: merges and rewrites come and go above it."""
    half = samples[len(samples) // 2 :]
    width = len(half) // 5
    lowest = [min(half[first : first + width]) for first in range(0, 5 * width, width)]
    return statistics.linear_regression([width * 50 * window for window in range(5)], lowest).slope
