"""The long form of a store's life: memory and disk stay bounded however much is written.

Hundreds of kills and the large blobs are the long forms of `tests.test_kill` and `tests.test_blobs`.
"""

from __future__ import annotations

import json
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
@pytest.mark.skipif("not __import__('os').path.exists('/proc/self/statm')", reason="memory is read from /proc")
@pytest.mark.parametrize("keys", [500, 5000], ids=["rewritten", "new"])
def test_memory_and_disk_do_not_creep(path: Path, keys: int) -> None:
    adds = 5000
    with Child(WRITER, path, adds, keys, ADD_BYTES, deadline_s=3600) as child:
        samples: list[list[int]] = [json.loads(child.read()) for _ in range(adds // 50)]
        merged = json.loads(child.read())
        child.finish()
    second_half = samples[len(samples) // 2 :]
    written = [n for n, _, _ in second_half]
    memory = statistics.linear_regression(written, [resident for _, resident, _ in second_half]).slope
    disk = statistics.linear_regression(written, [stored for _, _, stored in second_half]).slope
    live_growth = ADD_BYTES if keys == adds else 0
    print(  # noqa: T201 - the figures are what a long run is for
        f"{adds} adds of {ADD_BYTES} bytes to {keys} keys, slopes in bytes an add over the second half: "
        f"memory {memory:.0f}, disk {disk:.0f} ({live_growth} of them live); at the end: memory "
        f"{samples[-1][1] / 1e6:.0f} MB (peak {max(s[1] for s in samples) / 1e6:.0f}), "
        f"disk {samples[-1][2] / 1e6:.0f} MB"
    )
    assert merged > 0
    assert memory < 0.05 * ADD_BYTES, "memory grows with what was written"
    assert disk < live_growth + 0.1 * ADD_BYTES, "what was superseded stays on disk"
    live = min(adds, keys) * ADD_BYTES
    assert max(stored for _, _, stored in samples) < 4 * live + (128 << 20)
    with GenericStore.open_existing(path) as store:
        assert store.count() == min(adds, keys)
