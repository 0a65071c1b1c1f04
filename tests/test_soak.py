"""The long forms: hundreds of kills against an oracle of acknowledged rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lance_context import GenericStore
from tests.child import Child

if TYPE_CHECKING:
    from pathlib import Path

WRITER = """
    import random, sys
    from lance_context import GenericStore

    path, round_, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    choose = random.Random(seed)
    store = GenericStore.open(path, schema={"id": "string", "round": "int64", "n": "int64"}, gc_grace=0)
    for n in range(100_000):
        key = f"k{choose.randrange(500):03}"
        store.add({"id": key, "round": round_, "n": n})
        print(f"{key} {n}", flush=True)
        if n % 5 == choose.randrange(5):
            store.flush()
        if n % 11 == choose.randrange(11):
            store.merge()
"""


@pytest.mark.soak
@pytest.mark.parametrize("rounds", [200])
def test_kill_loop(path: Path, rounds: int) -> None:
    newest: dict[str, tuple[int, int]] = {}
    choose = random.Random(rounds)
    for round_ in range(rounds):
        with Child(WRITER, path, round_, round_) as child:
            lines = [child.read() for _ in range(choose.randrange(1, 40))]
            lines += child.kill()
        for line in lines:
            key, n = line.split()
            newest[key] = (round_, int(n))
        with GenericStore.open_existing(path) as store:
            rows = store.list()
        found = {row["id"]: (row["round"], row["n"]) for row in rows}
        assert len(found) == len(rows), "no row twice"
        for key, version in newest.items():
            assert found[key] >= version, f"round {round_}: {key} is older than acknowledged"
        # A row written but not yet acknowledged when the process died may be there; it is the model's now.
        newest = found
