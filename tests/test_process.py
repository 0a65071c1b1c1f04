"""Interpreter exit, Ctrl-C, fork and event loops: bounded time, the right exit code, acknowledged rows kept."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lance_context import AsyncGenericStore, GenericStore
from tests.child import Child, Finished, run

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import SchemaDeclaration

ASYNC_SCRIPT = """
    import asyncio, sys
    from lance_context import AsyncGenericStore

    path, variant = sys.argv[1], int(sys.argv[2])
    schema = {"id": "string", "n": "int64"}
    rows = [{"id": str(n), "n": n} for n in range(10)]

    async def main():
        if variant == 0:
            async with AsyncGenericStore.open(path, schema=schema, read="latest") as store:
                await store.add(rows)
                assert await store.count() == 10
        elif variant == 1:
            store = await AsyncGenericStore.open(path, schema=schema, read="latest")
            await asyncio.gather(*(store.add(row) for row in rows))
            assert len(await store.list()) == 10
            await store.close()
        elif variant == 2:
            store = await AsyncGenericStore.open(path, schema=schema)
            await store.add(rows)
            keep.append(store)
        else:
            store = await AsyncGenericStore.open(path, schema=schema)
            await store.add(rows)
            keep.append(store)
            keep.append([asyncio.ensure_future(store.add({"id": f"late{n}"})) for n in range(5)])
            await asyncio.sleep(0)

    keep = []
    asyncio.run(main())
"""


def test_forty_short_asyncio_scripts(tmp_path: Path) -> None:
    def one(n: int) -> Finished:
        return run(ASYNC_SCRIPT, tmp_path / str(n), n % 4, code=None)

    with ThreadPoolExecutor(4) as pool:
        finished = list(pool.map(one, range(40)))
    assert [str(end) for end in finished if (end.code, end.err) != (0, "")] == []
    for n in range(40):
        with GenericStore.open_existing(tmp_path / str(n)) as store:
            assert store.count(filter="n IS NOT NULL") == 10


@pytest.mark.parametrize(
    ("way", "code"),
    [("pass", 0), ("sys.exit(3)", 3), ("raise RuntimeError('on purpose')", 1), ("os._exit(4)", 4)],
    ids=["return", "sys.exit", "exception", "os._exit"],
)
@pytest.mark.parametrize("rows", [1, 500])
def test_exit_without_close(path: Path, way: str, code: int, rows: int) -> None:
    script = f"""
        import os, sys
        from lance_context import GenericStore

        store = GenericStore.open({str(path)!r}, schema={{"id": "string", "n": "int64"}})
        store.add({{"id": f"r{{n:03}}", "n": n}} for n in range({rows}))
        print("leaving", flush=True)
        {way}
    """
    with Child(script) as child:
        child.expect("leaving")
        child.finish(code, within_s=6)
    with GenericStore.open(path) as store:
        assert [row["n"] for row in store.list()] == list(range(rows))
        if not way.startswith("os"):
            assert store.stats().generations == 1, "interpreter exit seals"


@pytest.mark.parametrize("operation", ["add", "list", "merge"])
def test_ctrl_c(path: Path, operation: str) -> None:
    script = """
        import os, signal, sys, threading, time
        from lance_context import GenericStore

        # Whoever started the tests in the background may have had them ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        store = GenericStore.open(sys.argv[1], schema={"id": "string", "n": "int64"}, read="latest", gc_grace=0)
        store.add({"id": f"a{n:05}", "n": n} for n in range(3000))
        rounds = 0
        def add():
            store.add([{"id": f"b{rounds}-{n}", "n": n} for n in range(3000)])
        def merge():
            store.add({"id": f"c{rounds}", "n": rounds})
            store.flush()
            store.merge()
        operation = {"add": add, "list": store.list, "merge": merge}[sys.argv[2]]

        busy = threading.Event()
        pressed = None
        def press():
            global pressed
            busy.wait()
            pressed = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        presser = threading.Thread(target=press)
        presser.start()
        try:
            while rounds < 1_000:
                operation()
                rounds += 1
                if rounds == 2:
                    busy.set()
            sys.exit("no KeyboardInterrupt came")
        except KeyboardInterrupt:
            took = time.monotonic() - pressed
        presser.join()
        assert took < 5, took
        assert store.count(filter="id LIKE 'a%'") == 3000
        added = store.count(filter="id LIKE 'b%'")
        assert added % 3000 == 0, added
        store.add({"id": "after", "n": 1})
        store.flush()
        store.merge()
        assert store.get("after") == {"id": "after", "n": 1}
        store.close()
        print(took)
    """
    end = run(script, path, operation)
    assert end.err == ""
    assert float(end.out) < 5


def test_exit_while_threads_are_in_calls(path: Path) -> None:
    end = run(
        """
        import itertools, os, sys, threading
        from lance_context import GenericStore, LanceContextError

        store = GenericStore.open(sys.argv[1], schema={"id": "string"})
        started = threading.Barrier(5)

        def add(name):
            for n in itertools.count():
                try:
                    store.add({"id": f"{name}-{n}"})
                except LanceContextError as error:
                    os.write(1, f"ended {error.code}\\n".encode())
                    return
                os.write(1, f"acknowledged {name}-{n}\\n".encode())
                if n == 5:
                    started.wait()

        for name in "abcd":
            threading.Thread(target=add, args=(name,), daemon=True).start()
        started.wait()
        """,
        path,
    )
    assert end.err == ""
    said = [line.split() for line in end.out.splitlines()]
    assert {what for word, what in said if word == "ended"} <= {"closed", "runtime-stopped"}
    acknowledged = {what for word, what in said if word == "acknowledged"}
    assert len(acknowledged) >= 24
    with GenericStore.open_existing(path, read="latest") as store:
        assert {row["id"] for row in store.list()} >= acknowledged


def test_ctrl_c_while_storage_does_not_answer() -> None:
    end = run(
        """
        import os, signal, socket, threading
        from lance_context import GenericStore

        signal.signal(signal.SIGINT, signal.default_int_handler)
        server = socket.create_server(("127.0.0.1", 0))

        def press():
            asked, _ = server.accept()
            asked.recv(1)
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait()

        threading.Thread(target=press, daemon=True).start()
        options = {
            "aws_endpoint": f"http://127.0.0.1:{server.getsockname()[1]}",
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "id",
            "aws_secret_access_key": "key",
        }
        try:
            GenericStore.open("s3://bucket/store", schema={"id": "string"}, storage_options=options)
        except KeyboardInterrupt:
            print("interrupted")
        """,
        timeout_s=20,
    )
    assert end.out == "interrupted\n"


def test_handle_collected_just_before_exit(path: Path) -> None:
    end = run(
        """
        import sys, warnings
        warnings.simplefilter("ignore", ResourceWarning)
        from lance_context import GenericStore

        def main():
            store = GenericStore.open(sys.argv[1], schema={"id": "string"})
            store.add([{"id": str(n)} for n in range(100)])

        main()
        """,
        path,
    )
    assert end.err == ""
    with GenericStore.open_existing(path) as store:
        assert store.stats().generations == 1, "interpreter exit seals what a collected handle left"
        assert store.count() == 100


FORK = """
    import os, signal, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # Python's own warning about fork and threads
    from lance_context import GenericStore, StateError

    CHILD = (
        "import sys; from lance_context import GenericStore; store = GenericStore.open_existing(sys.argv[1]); "
        "assert store.get('parent') == {'id': 'parent', 'n': 1}; store.add({'id': 'child', 'n': 2}); store.close()"
    )
    path, variant = sys.argv[1], sys.argv[2]
    schema = {"id": "string", "n": "int64"}
    store = GenericStore.open(path, schema=schema, read="latest")
    store.add({"id": "parent", "n": 1})
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        if variant == "use":
            for use in (
                store.count,
                store.list,
                store.flush,
                lambda: store.add({"id": "child"}),
                lambda: GenericStore.open(path + "-other", schema=schema),
                lambda: GenericStore.open_existing(path),
            ):
                try:
                    use()
                except StateError as error:
                    assert error.code == "forked", error.code
                else:
                    os._exit(10)
            os._exit(0)
        elif variant == "exec":
            os.execv(sys.executable, [sys.executable, "-c", CHILD, path])
        else:
            sys.exit(0)  # runs the exit handlers in the child
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    store.add({"id": "after", "n": 3})
    assert store.count() == (3 if variant == "exec" else 2)
    assert store.get("parent") == {"id": "parent", "n": 1}
    store.close()
"""


@pytest.mark.parametrize("variant", ["use", "exec", "exit"])
def test_fork_after_use(path: Path, variant: str) -> None:
    end = run(FORK, path, variant, timeout_s=60)
    assert end.err == ""
    with GenericStore.open(path) as store:
        ids = [row["id"] for row in store.list()]
    assert ids == (["after", "child", "parent"] if variant == "exec" else ["after", "parent"])


def test_sync_store_inside_a_running_loop(path: Path) -> None:
    end = run(
        """
        import asyncio, sys
        from lance_context import AsyncGenericStore, GenericStore

        async def main(path):
            with GenericStore.open(path, schema={"id": "string"}, read="latest") as store:
                store.add({"id": "a"})
                async with AsyncGenericStore.open(path, read="latest") as twin:
                    assert await twin.count() == 1
                    store.add({"id": "b"})
                    assert await twin.count() == store.count() == 2

        asyncio.run(main(sys.argv[1]))
        asyncio.run(main(sys.argv[1] + "-second"))
        """,
        path,
    )
    assert end.err == ""


def test_one_store_in_two_loops(path: Path) -> None:
    end = run(
        """
        import asyncio, sys, threading
        from lance_context import AsyncGenericStore

        async def opened():
            return await AsyncGenericStore.open(sys.argv[1], schema={"id": "string"}, read="latest")

        store = asyncio.run(opened())

        async def write(name):
            await asyncio.gather(*(store.add({"id": f"{name}{n}"}) for n in range(10)))

        threads = [threading.Thread(target=asyncio.run, args=(write(name),)) for name in "abcd"]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

        async def check():
            assert await store.count() == 40
            await store.close()

        asyncio.run(check())
        """,
        path,
    )
    assert end.err == ""


def test_uvloop(path: Path) -> None:
    end = run(
        """
        import asyncio, sys, threading
        import uvloop
        from lance_context import AsyncGenericStore

        async def main(path, name):
            async with AsyncGenericStore.open(path, schema={"id": "string", "raw": "binary"}, read="latest") as store:
                await asyncio.gather(*(store.add({"id": f"{name}{n}"}) for n in range(20)))
                late = asyncio.ensure_future(store.add({"id": f"{name}-late", "raw": b"x" * 5_000_000}))
                await asyncio.sleep(0)
                late.cancel()
                await asyncio.gather(late, return_exceptions=True)
                assert [row["id"] async for row in store.iter(filter="id = 'a3'")] == ["a3"]
                assert await store.count(filter="raw IS NULL") >= 20

        uvloop.run(main(sys.argv[1], "a"))
        others = [threading.Thread(target=uvloop.run, args=(main(sys.argv[1], name),)) for name in "bc"]
        for thread in others: thread.start()
        for thread in others: thread.join()

        async def leave():
            store = await AsyncGenericStore.open(sys.argv[1], read="latest")
            counting = asyncio.ensure_future(store.count())
            await store.close()
            await asyncio.gather(counting, return_exceptions=True)

        uvloop.run(leave())
        """,
        path,
    )
    assert end.err == ""
    with GenericStore.open_existing(path) as store:
        assert store.count(filter="raw IS NULL") == 60


def test_a_handle_cannot_be_pickled(path: Path) -> None:
    with GenericStore.open(path, schema={"id": "string"}) as store:
        for copying in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled; pass its uri"):
                copying(store)


def test_the_async_store_in_this_process(path: Path) -> None:
    import asyncio

    async def main() -> None:
        schema: SchemaDeclaration = {"id": "string", "n": "int64"}
        async with AsyncGenericStore.open(path, schema=schema) as store:
            assert (await store.add([{"id": "a", "n": 1}, {"id": "b", "n": 2}])).count == 2
            await store.flush()
            assert await store.list(filter="n > $n", params={"n": 1}) == [{"id": "b", "n": 2}]
            assert await store.get("a", columns=["n"]) == {"id": "a", "n": 1}
            assert (await store.merge()).rows == 2
            assert (await store.stats()).base_rows == 2
            assert list(store.schema()) == ["id", "n"]
        assert store.closed
        again = await AsyncGenericStore.open_existing(path)
        assert await again.count() == 2
        await again.close()
        await again.close()

    asyncio.run(main())
