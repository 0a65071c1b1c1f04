"""What a workload is, what it has to reach, and the clock."""

import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from adapters.base import Engine, Sizes

ENOUGH_MS = 5_000
"""Reads that have taken this long are not repeated further."""


@dataclass(frozen=True)
class Measurement:
    """`value` is the figure, in the workload's unit; `detail` explains it.

    `at_least`: the measurement was given up, and the figure is larger than `value`.
    """

    value: float
    detail: Mapping[str, float] = field(default_factory=dict[str, float])
    at_least: bool = False


@dataclass(frozen=True)
class Target:
    """What the figure has to reach: `times_peer` as good as the peer, or `limit` in the workload's unit.

    `limit_size` says for which size of the workload the limit was set; `beat_best` asks for more than the best
    alternative; `at_most` bounds details of the measurement.
    """

    text: str
    times_peer: float | None = None
    limit: float | None = None
    limit_size: int | None = None
    beat_best: bool = False
    at_most: Mapping[str, float] = field(default_factory=dict[str, float])


Run: TypeAlias = Callable[[Engine, Sizes, Path], Measurement]


@dataclass(frozen=True)
class Workload:
    """What is measured. Of a `unit` that ends in "/s" more is better; of any other, less.

    `size` is set where the figure grows with that many `size_unit`: figures for other sizes compare by one of them.
    `notes` says how details of the measurement are shown beside it.
    """

    key: str
    title: str
    run: Run
    target: Target
    dataset: str | None = None
    unit: str = "ms"
    engines: frozenset[str] = frozenset({"ours", "peer", "sqlite"})
    size: Callable[[Sizes], int] | None = None
    size_unit: str = "rows"
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def more_is_better(self) -> bool:
        """Whether the figure is a rate."""
        return self.unit.endswith("/s")


def elapsed_ms(action: Callable[[], object], bound_ms: int = 0) -> float:
    """How long one call takes.

    A call that takes longer than `bound_ms`, unless that is 0, ends the process by SIGALRM: a library may neither
    return to the interpreter nor let another thread run. The harness reports it as such.
    """
    signal.setitimer(signal.ITIMER_REAL, bound_ms / 1_000)
    try:
        start = time.perf_counter_ns()
        action()
        return (time.perf_counter_ns() - start) / 1e6
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def latencies(samples: Sequence[float]) -> Measurement:
    """The median, with the worst beside it."""
    ordered = sorted(samples)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Measurement(statistics.median(ordered), {"p99": p99, "max": ordered[-1], "samples": len(ordered)})


def each(count: int, action: Callable[[int], object]) -> Measurement:
    """The latencies of `action` with each number below `count`."""
    return latencies([elapsed_ms(partial(action, number)) for number in range(count)])


def repeated(count: int, action: Callable[[int], object], bound_ms: int) -> Measurement:
    """As `each`, for calls that may take minutes: each has a bound, and slow ones are repeated less often."""
    samples: list[float] = []
    while len(samples) < count and sum(samples) < ENOUGH_MS:
        samples.append(elapsed_ms(partial(action, len(samples)), bound_ms))
    measured = latencies(samples)
    return Measurement(measured.value, {**measured.detail, "first": samples[0]})
