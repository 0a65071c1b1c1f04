"""What both twins of `run` share: which items, the count of how they ended, and the progress line. No I/O."""

# pyright: reportPrivateUsage=false
# A run knows more of its items than agents do.

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from lance_context._native import DatagenItemId
from lance_context.datagen_types import ItemIdLike, RunReport
from lance_context.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_context._item import BaseItem

LOG = logging.getLogger("lance_context.run")


class RunLimits(NamedTuple):
    """How many at once, and how many failures are enough."""

    concurrency: int
    max_failures: int | None


def run_limits(concurrency: int, max_failures: int | None) -> RunLimits:
    """Checks the limits of a run.

    Raises:
        ValueError: One is below 1.
    """
    if concurrency < 1:
        raise ValueError(f"`concurrency` is at least 1, not {concurrency}")
    if max_failures is not None and max_failures < 1:
        raise ValueError(f"`max_failures` is at least 1, or None for any number, not {max_failures}")
    return RunLimits(concurrency, max_failures)


def distinct(ids: Iterable[ItemIdLike]) -> list[DatagenItemId]:
    """Reads ids, each once: two workers on one item would fence each other.

    Raises:
        TypeError: It is a bare string, a sequence of its letters.
        ValueError: A text is no id.
    """
    if isinstance(ids, str | DatagenItemId):
        raise TypeError(f"`ids` takes an iterable of ids; did you mean [{str(ids)!r}]?")
    return list(dict.fromkeys(DatagenItemId(item_id) for item_id in ids))


def end_unmarked(item: BaseItem) -> None:
    """Marks an item as completed unless its worker marked it: what the return of a worker means."""
    if item._state.outcome is None:
        item.complete()


class Tally:
    """The items of a run: those that wait, and how the others ended. Threads may share it."""

    def __init__(self, given: int, pending: list[DatagenItemId], max_failures: int | None) -> None:
        self.total = len(pending)
        self.completed = self.filtered = self.failed = self.running = 0
        self._skipped = given - len(pending)
        self._waiting = deque(pending)
        self._max_failures = max_failures
        self._started_at = time.monotonic()
        self._lock = Lock()
        self._aborted = False

    @property
    def stopped(self) -> bool:
        """Whether there were enough failures."""
        return self._max_failures is not None and self.failed >= self._max_failures

    def start(self) -> DatagenItemId | None:
        """Takes the next item; ``None`` when no more are to be started."""
        with self._lock:
            if self._aborted or self.stopped or not self._waiting:
                return None
            self.running += 1
            return self._waiting.popleft()

    def abort(self) -> None:
        """Lets no more start."""
        self._aborted = True

    def ended(self, item: BaseItem) -> None:
        """Counts an item whose block was left without an error."""
        with self._lock:
            self.running -= 1
            outcome = item._state.outcome
            if outcome is not None and outcome.status == "filtered":
                self.filtered += 1
            else:
                self.completed += 1

    def raised(self, item: BaseItem, error: Exception) -> None:
        """Counts an item that raised; one that another run ended in the meantime is skipped."""
        with self._lock:
            self.running -= 1
            if isinstance(error, StateError) and error.code == "item-terminal" and not item._is_open:
                self._skipped += 1
                return
            self.failed += 1
        if not item._has_recorded(error):
            LOG.warning("item %s failed, which its log does not say: %s: %s", item.item_id, type(error).__name__, error)

    def gave_up(self) -> None:
        """Counts an item off that was interrupted."""
        with self._lock:
            self.running -= 1

    def report(self) -> RunReport:
        """Returns the report."""
        elapsed_s = time.monotonic() - self._started_at
        return RunReport(self.completed, self.filtered, self.failed, self._skipped, self.stopped, elapsed_s)


class ProgressLine:
    """Shows a tally while a run lasts, where rich is installed."""

    def __init__(self, tally: Tally, *, shown: bool) -> None:
        self._tally = tally
        self._update: Callable[[], None] | None = None
        self._close: Callable[[], None] | None = None
        if shown:
            self._open()

    def _open(self) -> None:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        except ImportError:
            return
        counts = TextColumn(
            "filtered {task.fields[filtered]} · failed {task.fields[failed]} · running {task.fields[running]}"
        )
        columns = (TextColumn("items"), BarColumn(), MofNCompleteColumn(), counts, TimeElapsedColumn())
        progress = Progress(*columns, console=Console(stderr=True))
        task = progress.add_task("items", total=self._tally.total, filtered=0, failed=0, running=0)
        progress.start()

        def update() -> None:
            tally = self._tally
            done = tally.completed + tally.filtered + tally.failed
            progress.update(task, completed=done, filtered=tally.filtered, failed=tally.failed, running=tally.running)

        self._update, self._close = update, progress.stop

    def update(self) -> None:
        """Shows the counts of now."""
        if self._update is not None:
            self._update()

    def close(self) -> None:
        """Leaves the last counts standing."""
        self.update()
        if self._close is not None:
            self._close()
