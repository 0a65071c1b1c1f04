"""A cancelled write is there whole or not at all, a repeat is safe, and nobody complains on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lance_context import GenericStore
from tests.child import run

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import asyncio, random, sys
    from lance_context import AsyncGenericStore

    path, size, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    schema = {"id": "string", "data": {"type": "binary", "blob": True}}

    def batch(n):
        content = random.Random(n).randbytes
        return [{"id": f"r{n:03}-{part}", "data": content(size // 4)} for part in range(4)]

    async def main():
        async with AsyncGenericStore.open(path, schema=schema, read="latest") as store:
            cancelled = 0
            for n in range(rounds):
                rows = batch(n)
                task = asyncio.ensure_future(store.add(rows))
                # Cancel after a growing amount of other work on the loop: at another point of the write each time.
                for _ in range(n):
                    await store.count()
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    cancelled += 1
                there = await store.count(filter="id LIKE $p", params={"p": f"r{n:03}-%"})
                assert there in (0, 4), there
                await store.add(rows)
                found = await store.list(filter="id LIKE $p", params={"p": f"r{n:03}-%"}, columns=["data"])
                assert found == rows, [row["id"] for row in found]
            assert await store.count() == rounds * 4
            asyncio.ensure_future(store.add(batch(rounds))).cancel()
            leftover = asyncio.ensure_future(store.add(batch(rounds)))
            await asyncio.sleep(0)
            leftover.cancel()
            print(cancelled)

    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("size", "rounds"), [(200_000, 12), pytest.param(20_000_000, 30, marks=pytest.mark.soak)], ids=["small", "large"]
)
def test_cancel_then_retry(path: Path, size: int, rounds: int) -> None:
    end = run(SCRIPT, path, size, rounds, timeout_s=600)
    assert end.err == ""
    assert int(end.out) > 0, "no add was cancelled in time; the test shows nothing"
    with GenericStore.open(path) as store:
        assert store.count() in {rounds * 4, rounds * 4 + 4}


def test_a_loop_that_closes_before_the_write_ends(path: Path) -> None:
    end = run(
        """
        import asyncio, sys
        from lance_context import AsyncGenericStore, GenericStore

        async def main():
            store = await AsyncGenericStore.open(sys.argv[1], schema={"id": "string", "data": "binary"})
            keep.append(store)
            keep.append([asyncio.ensure_future(store.add({"id": str(n), "data": bytes(500_000)})) for n in range(8)])
            await asyncio.sleep(0)

        keep = []
        asyncio.run(main())
        asyncio.run(keep[0].flush())
        with GenericStore.open(sys.argv[1]) as store:
            assert store.count() <= 8
        """,
        path,
    )
    assert end.err == ""
