"""The workloads, by the names that the performance targets use.

A dataset is a store that several workloads read. It is written once an engine, by one process, and every
measurement reads a fresh copy of it in a process of its own. A workload times its loop, then checks what the store
holds, and raises `CheckError` if that is wrong: a figure for a wrong result does not exist.

Latencies are in milliseconds, and smaller is better; rates are in rows a second. Row data is ready before the
clock starts. But for W1f all of it is one durability class: on return the rows survive a killed process, not a power
cut.
"""

import gc
import importlib.util
import random
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import data
from adapters.base import Answer, ArrowStore, Engine, Sizes, Store
from data import Row, check, check_blob, check_ids, check_row
from disk import disk_use
from item_workloads import ITEM_DATASETS, ITEM_WORKLOADS
from measure import Measurement, Target, Workload, each, elapsed_ms, latencies
from memory import peak_rss_bytes, reset_peak_rss, rss_bytes

FILTER = f"score > {data.SCORE_FLOOR}"
WITHOUT_VECTOR = ("id", "user", "score", "text")
_MEASURABLE_BLOB_BYTES = 10_000_000


# --- datasets ---------------------------------------------------------------------------------------------


def _fill(store: Store, sizes: Sizes) -> None:
    for start in range(0, sizes.rows, sizes.batch_rows):
        store.add(data.rows(range(start, min(start + sizes.batch_rows, sizes.rows))))
    store.flush()


def _rows(engine: Engine, sizes: Sizes, directory: Path) -> None:
    store = engine.create(directory)
    _fill(store, sizes)
    store.close()


def _merged(engine: Engine, sizes: Sizes, directory: Path) -> None:
    store = engine.create(directory)
    _fill(store, sizes)
    store.merge()
    store.close()


def _generations(engine: Engine, sizes: Sizes, directory: Path) -> None:
    store = engine.create(directory)
    for generation in range(sizes.generations):
        start = generation * sizes.generation_rows
        store.add(data.rows(range(start, start + sizes.generation_rows)))
        store.flush()
    store.close()


def _one_blob(engine: Engine, sizes: Sizes, directory: Path) -> None:
    store = engine.create(directory)
    store.add([data.blob_row(0, sizes.blob_bytes)])
    store.flush()
    store.close()


def _many_blobs(engine: Engine, sizes: Sizes, directory: Path) -> None:
    store = engine.create(directory)
    for start in range(0, sizes.listed_blobs, 10):
        numbers = range(start, min(start + 10, sizes.listed_blobs))
        store.add([data.blob_row(number, sizes.listed_blob_bytes) for number in numbers])
    store.flush()
    store.close()


DATASETS: Mapping[str, Callable[[Engine, Sizes, Path], None]] = {
    "rows": _rows,
    "merged": _merged,
    "generations": _generations,
    "blob": _one_blob,
    "blobs": _many_blobs,
    **ITEM_DATASETS,
}


# --- writing ----------------------------------------------------------------------------------------------


def _add_one(engine: Engine, sizes: Sizes, directory: Path, *, synced: bool = False) -> Measurement:
    rows = data.rows(range(sizes.adds))
    store = engine.create(directory, synced=synced)
    result = each(sizes.adds, lambda number: store.add([rows[number]]))
    store.flush()
    check_ids(store.list(), range(sizes.adds))
    check_row(store.get(data.row_id(sizes.adds - 1)), sizes.adds - 1)
    store.close()
    return result


def _add_readable(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    rows = data.rows(range(sizes.fresh_adds))
    store = engine.create(directory, readable_on_return=True)
    samples: list[float] = []
    for number, row in enumerate(rows):
        samples.append(elapsed_ms(partial(store.add, [row])))
        check_row(store.get(data.row_id(number)), number)
    check_ids(store.list(), range(sizes.fresh_adds))
    store.close()
    return latencies(samples)


def _add_concurrently(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    total = sizes.callers * sizes.adds_per_caller
    rows = data.rows(range(total))
    store = engine.create(directory)
    ready = threading.Barrier(sizes.callers + 1)

    def caller(index: int) -> None:
        mine = rows[index :: sizes.callers]
        store.add([mine[0]])  # opens whatever the engine keeps a thread
        ready.wait()
        for row in mine[1:]:
            store.add([row])

    with ThreadPoolExecutor(sizes.callers) as pool:
        calls = [pool.submit(caller, index) for index in range(sizes.callers)]
        ready.wait()
        start = time.perf_counter()
        for call in calls:
            call.result()
        seconds = time.perf_counter() - start
    store.flush()
    check_ids(store.list(), range(total))
    check_row(store.get(data.row_id(total - 1)), total - 1)
    store.close()
    return Measurement((total - sizes.callers) / seconds, {"rows": total, "callers": sizes.callers})


def _timed_batches(engine: Engine, sizes: Sizes, directory: Path, convert: Callable[[Row], Row]) -> Measurement:
    total = sizes.batches * sizes.batch_rows
    rows = [convert(data.row(number)) for number in range(total)]
    store = engine.create(directory)
    result = each(
        sizes.batches,
        lambda batch: store.add(rows[batch * sizes.batch_rows : (batch + 1) * sizes.batch_rows]),
    )
    store.flush()
    check_ids(store.list(), range(total))
    for number in (0, total // 2, total - 1):
        check_row(store.get(data.row_id(number)), number)
    store.close()
    return result


def _add_batches(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    return _timed_batches(engine, sizes, directory, lambda row: row)


def _add_arrays(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    if importlib.util.find_spec("numpy") is None:
        raise RuntimeError("install numpy beside lance-context to measure numpy vectors")
    import numpy as np

    def convert(row: Row) -> Row:
        packed = array("f", data.as_numbers(row["vec"]))
        return {**row, "vec": np.frombuffer(packed, dtype=np.float32)}

    return _timed_batches(engine, sizes, directory, convert)


def _add_blob(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    store = engine.create(directory)
    store.add([data.row(1)])
    row = data.blob_row(0, sizes.blob_bytes)
    gc.collect()
    reset_peak_rss()
    before = rss_bytes()
    elapsed = elapsed_ms(lambda: store.add([row]))
    grown = peak_rss_bytes() - before
    store.flush()
    check_blob(store.get(data.row_id(0), ["blob"]), 0, sizes.blob_bytes)
    store.close()
    # The caller's own copy is one blob: the store's promise counts it.
    return _with_rss(elapsed, grown, 1 + grown / sizes.blob_bytes, sizes)


def _with_rss(elapsed: float, grown: int, in_blobs: float, sizes: Sizes) -> Measurement:
    told = {"rss_in_blobs": in_blobs} if sizes.blob_bytes >= _MEASURABLE_BLOB_BYTES else {}
    return Measurement(elapsed, {"rss_grown_bytes": grown, **told})


# --- reading ----------------------------------------------------------------------------------------------


def _timed_lists(
    store: Store, sizes: Sizes, where: str | None = None, columns: Sequence[str] | None = None
) -> tuple[Measurement, list[Row]]:
    samples: list[float] = []
    found: list[Row] = []
    for _ in range(sizes.lists):
        found = []
        gc.collect()
        start = time.perf_counter_ns()
        found = store.list(where=where, columns=columns)
        samples.append((time.perf_counter_ns() - start) / 1e6)
    measured = latencies(samples)
    return Measurement(measured.value, {**measured.detail, "rows": len(found)}), found


def _check_some(found: Sequence[Row], *, with_vector: bool = True) -> None:
    for row in found[:: max(1, len(found) // 100)]:
        check_row(row, int(str(row["id"]).removeprefix("row-")), with_vector=with_vector)


def _list_all(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    store = engine.reopen(directory)
    result, found = _timed_lists(store, sizes)
    check_ids(found, range(sizes.rows))
    _check_some(found)
    store.close()
    return result


def _list_without_vector(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    store = engine.reopen(directory)
    result, found = _timed_lists(store, sizes, columns=WITHOUT_VECTOR)
    check_ids(found, range(sizes.rows))
    _check_some(found, with_vector=False)
    store.close()
    return result


def _table_all(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    store = engine.reopen(directory)
    if not isinstance(store, ArrowStore):
        raise TypeError(f"`{engine.module}` gives no Arrow")
    answers: list[Answer[list[Row]]] = []

    def table(_: int) -> None:
        answers.clear()  # one table at a time
        answers.append(store.arrow())

    result = each(sizes.lists, table)
    found = answers[0]()
    check_ids(found, range(sizes.rows))
    _check_some(found)
    store.close()
    return Measurement(result.value, {**result.detail, "rows": len(found)})


def _list_matching(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    expected = [number for number in range(sizes.rows) if data.score(number) > data.SCORE_FLOOR]
    check(len(expected) > 0, "no row matches the filter: raise the scale")
    store = engine.reopen(directory)
    result, found = _timed_lists(store, sizes, where=FILTER)
    check_ids(found, expected)
    _check_some(found)
    store.close()
    return result


def _list_beside_blobs(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    store = engine.reopen(directory)
    result, found = _timed_lists(store, sizes)
    check_ids(found, range(sizes.listed_blobs))
    _check_some(found)
    store.close()
    return result


def _timed_gets(store: Store, sizes: Sizes, stored: int) -> Measurement:
    rng = random.Random(data.SEED)
    numbers = [rng.randrange(stored) for _ in range(sizes.gets)]
    found: list[Row | None] = []
    result = each(len(numbers), lambda index: found.append(store.get(data.row_id(numbers[index]))))
    for number, row in zip(numbers, found, strict=True):
        check_row(row, number)
    check(store.get("row-none") is None, "a row that was never added is found")
    return result


def _get_each(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    store = engine.reopen(directory)
    result = _timed_gets(store, sizes, sizes.rows)
    store.close()
    return result


def _get_among_generations(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    pending = len(list(directory.glob("_mem_wal/*/*_gen_*")))
    check(pending >= sizes.generations, f"{pending} generations are left of {sizes.generations}")
    store = engine.reopen(directory)
    result = _timed_gets(store, sizes, sizes.generations * sizes.generation_rows)
    store.close()
    return Measurement(result.value, {**result.detail, "generations": pending})


def _get_blob(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    store = engine.reopen(directory)
    gc.collect()
    reset_peak_rss()
    before = rss_bytes()
    found: list[Row | None] = []
    elapsed = elapsed_ms(lambda: found.append(store.get(data.row_id(0), ["blob"])))
    grown = peak_rss_bytes() - before
    check_blob(found[0], 0, sizes.blob_bytes)
    store.close()
    return _with_rss(elapsed, grown, grown / sizes.blob_bytes, sizes)


# --- starting ---------------------------------------------------------------------------------------------


def _import_module(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    program = f"import time; t = time.perf_counter(); import {engine.module}; print(time.perf_counter() - t)"
    directory.mkdir(parents=True, exist_ok=True)
    samples: list[float] = []
    for _ in range(6):
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=directory
        )
        samples.append(float(done.stdout) * 1_000)
    return latencies(samples[1:])  # the first one reads the library from disk


def _reopen(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    number = sizes.rows // 3
    found: list[tuple[Store, Row | None]] = []

    def first_get() -> None:
        store = engine.reopen(directory)
        found.append((store, store.get(data.row_id(number))))

    elapsed = elapsed_ms(first_get)
    store, row = found[0]
    check_row(row, number)
    store.close()
    return Measurement(elapsed)


def _installed_size(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    spec = importlib.util.find_spec(engine.module)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"`{engine.module}` is no installed package")
    package = Path(spec.origin).parent
    # A repaired wheel has the system libraries that it brings along in a directory beside the package.
    parts = [package, package.with_name(f"{package.name}.libs")]
    found = [disk_use(part) for part in parts if part.exists()]
    return Measurement(sum(one.size_bytes for one in found) / 1e6, {"files": sum(one.files for one in found)})


_LANCE = frozenset({"ours", "peer"})
_OURS = frozenset({"ours"})
_RSS = {"rss_in_blobs": "RSS {:.1f} blobs"}

_ALL = (
    Workload("W1", "durable single-row add, p50", _add_one, Target(">= 5x peer", 5)),
    Workload(
        "W1f",
        "the same, fsynced, p50",
        partial(_add_one, synced=True),
        Target("none: an fsync is the disk's"),
        engines=frozenset({"ours", "sqlite"}),
    ),
    Workload("W1s", "the same, readable on return", _add_readable, Target(">= 40x peer", 40)),
    Workload(
        "W2",
        "single-row adds, 32 callers",
        _add_concurrently,
        Target(">= 20x peer, > best", 20, beat_best=True),
        unit="rows/s",
    ),
    Workload(
        "W3",
        "batch of rows, list vectors",
        _add_batches,
        Target(">= 19x peer", 19),
        engines=_LANCE,
        size=lambda sizes: sizes.batch_rows,
    ),
    Workload(
        "W3a",
        "the same, numpy vectors",
        _add_arrays,
        Target("<= 6 ms for 1,000", limit=6, limit_size=1_000),
        engines=_OURS,
        size=lambda sizes: sizes.batch_rows,
    ),
    Workload(
        "W4",
        "list all rows, with vectors",
        _list_all,
        Target(">= 12x peer", 12),
        "rows",
        engines=_LANCE,
        size=lambda sizes: sizes.rows,
    ),
    Workload(
        "W4n",
        "the same without the vector",
        _list_without_vector,
        Target("<= 60 ms for 50k", limit=60, limit_size=50_000),
        "rows",
        engines=_OURS,
        size=lambda sizes: sizes.rows,
    ),
    Workload(
        "W4a",
        "the same, with vectors, to Arrow",
        _table_all,
        Target("<= 100 ms for 50k", limit=100, limit_size=50_000),
        "rows",
        engines=_LANCE,
        size=lambda sizes: sizes.rows,
    ),
    Workload("W5", "get by id, merged, p50", _get_each, Target(">= 15x peer", 15), "merged"),
    Workload("W5u", "get by id, unmerged, p50", _get_each, Target(">= 15x peer", 15), "rows"),
    Workload(
        "W5g",
        "get by id, many generations, p50",
        _get_among_generations,
        Target(">= 70x peer", 70),
        "generations",
        engines=_LANCE,
    ),
    Workload("W6", "filter, 1 % of the rows", _list_matching, Target(">= 6x peer", 6), "merged", engines=_LANCE),
    Workload(
        "W7w",
        "add one row with a blob",
        _add_blob,
        Target(">= 9x peer, RSS < 3 blobs", 9, at_most={"rss_in_blobs": 3}),
        notes=_RSS,
    ),
    Workload("W7r", "get that blob", _get_blob, Target(">= 13x peer", 13), "blob", notes=_RSS),
    Workload("W7l", "list rows with blobs left out", _list_beside_blobs, Target("<= 2 ms", limit=2), "blobs"),
    *ITEM_WORKLOADS,
    Workload("W9i", "import the package", _import_module, Target("<= 60 ms", limit=60)),
    Workload("W9r", "reopen and first get", _reopen, Target("<= 15 ms", limit=15), "merged"),
    Workload(
        "W9s",
        "installed size of the package",
        _installed_size,
        Target("<= 90 MB", limit=90),
        unit="MB",
        engines=_LANCE,
    ),
)

WORKLOADS: Mapping[str, Workload] = {workload.key: workload for workload in _ALL}
