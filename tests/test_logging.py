"""What the engine has to say goes to `logging`, and no handler can hold the engine up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.child import run

if TYPE_CHECKING:
    from pathlib import Path

# The log of a store that ends in the middle of an entry: the next reader warns.
TORN = """
import logging, os, sys, threading, time
from pathlib import Path
from lance_context import GenericStore

writers = []  # a writer that is collected would seal what it has in memory

def torn(path):
    store = GenericStore.open(path, schema={"id": "string"}, maintenance=None)
    store.add({"id": "a"})
    store.add({"id": "b"})
    writers.append(store)
    entries = sorted(Path(path).glob("_mem_wal/*/wal/*.arrow"), key=lambda entry: int(entry.stem[::-1], 2))
    os.truncate(entries[-1], entries[-1].stat().st_size // 2)
    return GenericStore.open_existing(path, read="latest")
"""


def test_warnings_are_log_records(path: Path) -> None:
    done = run(
        TORN
        + """
records = []
arrived = threading.Event()

class Handler(logging.Handler):
    def emit(self, record):
        records.append(record)
        arrived.set()

logging.getLogger("lance_context").addHandler(Handler())
logging.getLogger("lance_context").propagate = False
reader = torn(sys.argv[1])
assert [row["id"] for row in reader.list()] == ["a"]
assert arrived.wait(60)
record = records[0]
print(record.name)
print(record.levelname)
print(record.getMessage())
os._exit(0)
""",
        path,
    )
    name, level, message = done.out.splitlines()[:3]
    assert name == "lance_context.storage.shard"
    assert level == "WARNING"
    assert "torn" in message
    assert f"store={path}" in message
    assert done.err == ""


def test_a_handler_that_hangs_holds_nothing_up(path: Path) -> None:
    done = run(
        TORN
        + """
hanging = threading.Event()
released = threading.Event()

class Handler(logging.Handler):
    def createLock(self):
        self.lock = None
    def acquire(self):
        pass
    def release(self):
        pass
    def emit(self, record):
        hanging.set()
        released.wait()

logging.getLogger("lance_context").addHandler(Handler())
logging.getLogger("lance_context").propagate = False
reader = torn(sys.argv[1])
reader.list()
assert hanging.wait(60)
for _ in range(20):
    assert [row["id"] for row in reader.list()] == ["a"]
print("read on")
released.set()
os._exit(0)
""",
        path,
    )
    assert done.out == "read on\n"


def test_a_handler_that_uses_a_store(path: Path) -> None:
    done = run(
        TORN
        + """
arrived = threading.Event()
log = GenericStore.open(sys.argv[1] + "-log", schema={"id": "string", "text": "string"}, read="latest")

class Handler(logging.Handler):
    def emit(self, record):
        log.add({"id": str(record.created), "text": record.getMessage()})
        arrived.set()

logging.getLogger("lance_context").addHandler(Handler())
logging.getLogger("lance_context").propagate = False
torn(sys.argv[1]).list()
assert arrived.wait(60)
print("torn" in log.list()[0]["text"])
os._exit(0)
""",
        path,
    )
    assert done.out == "True\n"


def test_records_arrive_before_the_end(path: Path) -> None:
    done = run(
        TORN
        + """
import warnings
warnings.simplefilter("ignore", ResourceWarning)
logging.basicConfig(format="%(name)s|%(levelname)s", stream=sys.stdout)
torn(sys.argv[1]).list()
sys.exit(0)
""",
        path,
    )
    assert "lance_context.storage.shard|WARNING" in done.out.splitlines()
