"""The workloads of the item log, and the logs that they read.

An item is created, takes steps of three fields each, one checkpoint a step, and is completed. Everything is in one log
with one root: the log that reads are measured on is as its writer left it, without maintenance.
"""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import data
import item_data
from adapters.base import Answer, Engine, ItemLog, ItemWriter, Sizes
from disk import disk_use
from item_data import EVENTS_A_STEP, ROOT, ItemState, check_counts, check_item, check_tree, child_id
from measure import Measurement, Target, Workload, each, elapsed_ms, repeated

T = TypeVar("T")


def _start(log: ItemLog, sizes: Sizes) -> tuple[ItemWriter, Measurement]:
    """The root takes its steps; how long each took."""
    steps = item_data.steps(ROOT, sizes.item_steps)
    writer = log.start(ROOT)
    return writer, each(len(steps), lambda number: writer.checkpoint(steps[number]))


def _timed_reads(
    count: int, sizes: Sizes, read: Callable[[int], Answer[T]], verify: Callable[[int, T], None]
) -> Measurement:
    found: list[Answer[T]] = []
    result = repeated(count, lambda number: found.append(read(number)), sizes.bound_ms)
    for number, answer in enumerate(found):
        verify(number, answer())
    return result


def _ingest(log: ItemLog, sizes: Sizes) -> float:
    """The root and its children, side by side; how long it took."""
    program = item_data.program(sizes.children, sizes.child_steps)
    return elapsed_ms(lambda: log.ingest(program, sizes.callers))


# --- datasets ---------------------------------------------------------------------------------------------


def _one_item(engine: Engine, sizes: Sizes, directory: Path) -> None:
    log = engine.create_log(directory)
    _start(log, sizes)
    log.close()


def _many_items(engine: Engine, sizes: Sizes, directory: Path) -> None:
    log = engine.create_log(directory)
    _ingest(log, sizes)
    log.close()


ITEM_DATASETS: Mapping[str, Callable[[Engine, Sizes, Path], None]] = {
    "item": _one_item,
    "items": _many_items,
}


# --- one item ---------------------------------------------------------------------------------------------


def _append_checkpoints(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    log = engine.create_log(directory)
    _, result = _start(log, sizes)
    check_item(log.fold(ROOT)(), ROOT, sizes.item_steps, "running")
    log.close()
    return result


def _fold_own(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    log = engine.create_log(directory)
    _start(log, sizes)
    result = _timed_reads(
        sizes.folds,
        sizes,
        lambda _: log.fold(ROOT),
        lambda _, item: check_item(item, ROOT, sizes.item_steps, "running"),
    )
    log.close()
    return result


def _open_and_fold(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    opened: list[ItemLog] = []
    found: list[Answer[ItemState | None]] = []
    open_ms = elapsed_ms(lambda: opened.append(engine.reopen_log(directory)))
    fold_ms = elapsed_ms(lambda: found.append(opened[0].fold(ROOT)), sizes.bound_ms)
    check_item(found[0](), ROOT, sizes.item_steps, "running")
    opened[0].close()
    return Measurement(open_ms + fold_ms, {"open_ms": open_ms, "fold_ms": fold_ms})


# --- many items -------------------------------------------------------------------------------------------


def _ingest_items(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    log = engine.create_log(directory)
    elapsed = _ingest(log, sizes)
    check_counts(log.overview()(), sizes.children, sizes.child_steps)
    for item_id in (ROOT, child_id(sizes.children - 1)):
        check_item(log.fold(item_id)(), item_id, sizes.child_steps, "completed")
    log.close()
    return Measurement(sizes.items / elapsed * 1_000, {"items": sizes.items, "elapsed_ms": elapsed})


def _fold_one(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    rng = random.Random(data.SEED)
    ids = [child_id(rng.randrange(sizes.children)) for _ in range(sizes.folds)]
    log = engine.reopen_log(directory)
    result = _timed_reads(
        len(ids),
        sizes,
        lambda number: log.fold(ids[number]),
        lambda number, item: check_item(item, ids[number], sizes.child_steps, "completed"),
    )
    log.close()
    return Measurement(result.value, {**result.detail, "items": sizes.items})


def _overview(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    log = engine.reopen_log(directory)
    result = _timed_reads(
        sizes.lists,
        sizes,
        lambda _: log.overview(),
        lambda _, counts: check_counts(counts, sizes.children, sizes.child_steps),
    )
    log.close()
    return result


def _tree(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    log = engine.reopen_log(directory)
    result = _timed_reads(
        sizes.lists,
        sizes,
        lambda _: log.tree(ROOT, sizes.items),
        lambda _, tree: check_tree(tree, sizes.children, sizes.child_steps),
    )
    log.close()
    return result


def _disk(engine: Engine, sizes: Sizes, directory: Path) -> Measurement:
    before = disk_use(directory)
    log = engine.reopen_log(directory, read_only=False)
    maintain_ms = elapsed_ms(log.maintain)
    check_counts(log.overview()(), sizes.children, sizes.child_steps)
    log.close()
    after = disk_use(directory)
    return Measurement(
        after.disk_bytes / 1e6,
        {
            "files": after.files,
            "mb_before": before.disk_bytes / 1e6,
            "files_before": before.files,
            "maintain_ms": maintain_ms,
        },
    )


def _item_events(sizes: Sizes) -> int:
    return 1 + sizes.item_steps * EVENTS_A_STEP


def _items(sizes: Sizes) -> int:
    return sizes.items


ITEM_WORKLOADS = (
    Workload(
        "W8a",
        "append a checkpoint of 3 fields, p50",
        _append_checkpoints,
        Target("<= 0.5 ms, >= 15x peer", 15, limit=0.5),
    ),
    Workload(
        "W8f",
        "fold that item, by its writer, p50",
        _fold_own,
        Target("<= 1.5 ms for 801, >= 1,000x peer", 1_000, limit=1.5, limit_size=801),
        size=_item_events,
        size_unit="events",
    ),
    Workload(
        "W8g",
        "open its log and fold it",
        _open_and_fold,
        Target("<= 15 ms", limit=15),
        "item",
        size=_item_events,
        size_unit="events",
    ),
    Workload(
        "W8b",
        "ingest items of 5 checkpoints",
        _ingest_items,
        Target(">= 800 items/s, >= 55x peer", 55, limit=800),
        unit="items/s",
        size=_items,
        size_unit="items",
    ),
    Workload(
        "W8cf",
        "fold one item of that log, p50",
        _fold_one,
        Target("<= 2 ms", limit=2),
        "items",
        notes={"items": "{:,.0f} items"},
    ),
    Workload(
        "W8co",
        "overview of that log",
        _overview,
        Target("<= 6 ms for 501", limit=6, limit_size=501),
        "items",
        size=_items,
        size_unit="items",
    ),
    Workload(
        "W8ct",
        "item_tree of its root",
        _tree,
        Target("<= 60 ms for 501", limit=60, limit_size=501),
        "items",
        size=_items,
        size_unit="items",
    ),
    Workload(
        "W8d",
        "disk after maintenance of that log",
        _disk,
        Target("<= 12 MB for 501, <= 200 files", limit=12, limit_size=501, at_most={"files": 200}),
        "items",
        unit="MB",
        size=_items,
        size_unit="items",
        notes={"files": "files {:,.0f}"},
    ),
)
