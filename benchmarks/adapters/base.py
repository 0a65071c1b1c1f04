"""What an engine has to offer, how much work it gets, and the requests its process answers.

An adapter implements `Engine`, `Store` and `ItemLog` over one library and ends with `adapters.worker.serve(engine)`.
Conversions that a user of the library would have to write (base64, packed vectors) belong to the adapter and are
timed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, TypedDict, TypeVar, runtime_checkable

from data import Row
from item_data import Counts, ItemState, Program, Step, Tree

T = TypeVar("T")

Answer: TypeAlias = Callable[[], T]
"""What a read returned, held in the library's own form; calling it converts that into the form that is checked."""


Rows: TypeAlias = list[Row]


class Store(Protocol):
    """One opened store. Only `add` is called from several threads at once."""

    def add(self, rows: Sequence[Row]) -> None:
        """Durable against a killed process on return."""
        ...

    def flush(self) -> None:
        """What was added is readable through this handle and any other."""
        ...

    def merge(self) -> None:
        """Folds what was flushed into the base table."""
        ...

    def list(self, *, where: str | None = None, columns: Sequence[str] | None = None) -> list[Row]:
        """All rows that match, without blobs; `columns` where the library can project."""
        ...

    def get(self, id: str, columns: Sequence[str] | None = None) -> Row | None:
        """One row; without blobs unless `columns` names them."""
        ...

    def close(self) -> None:
        """Lets go of the store."""
        ...


@runtime_checkable
class ArrowStore(Store, Protocol):
    """A store whose rows can be had as Arrow."""

    def arrow(self) -> Answer[Rows]:
        """All rows, without blobs."""
        ...


class ItemWriter(Protocol):
    """One item at work. What a call wrote is durable against a killed process on return, all of it or none."""

    def checkpoint(self, step: Step) -> None:
        """Writes the fields of a step and its completion."""
        ...

    def complete(self) -> None:
        """Ends the item."""
        ...


class ItemLog(Protocol):
    """One opened item log, used from one thread."""

    def start(self, item_id: str) -> ItemWriter:
        """Creates an item."""
        ...

    def ingest(self, program: Program, concurrency: int) -> None:
        """Starts, writes and completes items the way that the library is fastest at, up to so many at once.

        Each step is durable before the next one of its item begins.
        """
        ...

    def fold(self, item_id: str) -> Answer[ItemState | None]:
        """The item's latest state."""
        ...

    def overview(self) -> Answer[Counts]:
        """The whole log, counted."""
        ...

    def tree(self, root: str, max_items: int) -> Answer[Tree]:
        """The root and what is below it, folded and linked."""
        ...

    def maintain(self) -> None:
        """Makes the log as small as the library can."""
        ...

    def close(self) -> None:
        """Lets go of the log."""
        ...


class Engine(Protocol):
    """A library under test."""

    @property
    def module(self) -> str:
        """What a user imports."""
        ...

    def versions(self) -> dict[str, str]:
        """The library, and what decides its speed."""
        ...

    def create(self, path: Path, *, readable_on_return: bool = False, synced: bool = False) -> Store:
        """A new store for the benchmark row.

        `readable_on_return`: `add` needs no flush to be seen. `synced`: what was added survives a power cut.
        """
        ...

    def reopen(self, path: Path) -> Store:
        """A store that another process wrote."""
        ...

    def create_log(self, path: Path) -> ItemLog:
        """A new item log."""
        ...

    def reopen_log(self, path: Path, *, read_only: bool = True) -> ItemLog:
        """An item log that another process wrote; `read_only` where the library knows the difference."""
        ...


@dataclass(frozen=True)
class Sizes:
    """How much work each workload does."""

    rows: int
    batch_rows: int
    batches: int
    adds: int
    fresh_adds: int
    callers: int
    adds_per_caller: int
    gets: int
    lists: int
    generations: int
    generation_rows: int
    blob_bytes: int
    listed_blobs: int
    listed_blob_bytes: int
    item_steps: int
    children: int
    child_steps: int
    folds: int
    bound_ms: int

    @property
    def items(self) -> int:
        """The root and its children."""
        return 1 + self.children

    @staticmethod
    def scaled(scale: float, blob_mb: float, bound_s: float) -> "Sizes":
        """`scale` 1 is the default run; above 1 only what grows with the data grows."""
        part = min(scale, 1.0)
        rows = max(200, round(5_000 * scale))
        return Sizes(
            rows=rows,
            batch_rows=min(1_000, rows),
            batches=max(2, round(5 * part)),
            adds=max(20, round(500 * scale)),
            fresh_adds=max(5, round(50 * part)),
            callers=32,
            adds_per_caller=max(2, round(50 * part)),
            gets=max(20, round(200 * part)),
            lists=3,
            generations=max(3, round(50 * part)),
            generation_rows=20,
            blob_bytes=max(1, round(blob_mb * 1_000_000)),
            listed_blobs=max(5, round(200 * part)),
            listed_blob_bytes=max(10_000, round(1_000_000 * part)),
            item_steps=max(10, round(200 * part)),
            children=max(5, round(500 * scale)),
            child_steps=5,
            folds=max(5, round(50 * part)),
            bound_ms=max(1, round(bound_s * 1_000)),
        )


class Request(TypedDict):
    """`action`: `versions`, `prepare` (dataset `name` in `directory`) or `measure` (workload `name`)."""

    action: str
    name: str
    directory: str
    sizes: dict[str, int]
