"""From repeated measurements to a table, a verdict and a results file that names no machine."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from adapters.base import Sizes
from workloads import Measurement, Workload

MEASURABLE_BLOB_BYTES = 10_000_000


@dataclass
class Outcome:
    """All repetitions of one workload, by engine, and what went wrong."""

    workload: Workload
    sizes: Mapping[str, Sizes]
    measured: dict[str, list[Measurement]] = field(default_factory=dict[str, list[Measurement]])
    failures: dict[str, str] = field(default_factory=dict[str, str])

    def figure(self, engine: str) -> float | None:
        """The median over the repetitions; None if the engine did not run or failed once."""
        samples = self.measured.get(engine)
        if not samples or engine in self.failures:
            return None
        return statistics.median(one.value for one in samples)

    def rows(self, engine: str) -> int | None:
        """The rows that the time was spent on, where it is proportional to them."""
        return None if self.workload.rows is None else self.workload.rows(self.sizes[engine])

    def ratio(self, other: str) -> float | None:
        """How many times better than `other` ours is, by row where the sizes differ."""
        ours, theirs = self.figure("ours"), self.figure(other)
        if ours is None or theirs is None:
            return None
        if self.workload.unit != "ms":
            return ours / theirs
        scale = (self.rows("ours") or 1) / (self.rows(other) or 1)
        return theirs * scale / ours

    def rss_in_blobs(self, engine: str) -> float | None:
        """The worst memory peak as a multiple of the blob; None where the blob is too small to tell."""
        samples = self.measured.get(engine, [])
        if self.sizes[engine].blob_bytes < MEASURABLE_BLOB_BYTES:
            return None
        return max((one.detail["rss_in_blobs"] for one in samples if "rss_in_blobs" in one.detail), default=None)

    def met(self) -> bool | None:
        """Whether the target is reached; None where the run cannot tell."""
        target, ours = self.workload.target, self.figure("ours")
        if ours is None:
            return None
        verdicts: list[bool | None] = []
        if target.times_peer is not None:
            ratio = self.ratio("peer")
            verdicts.append(None if ratio is None else ratio >= target.times_peer)
        if target.limit is not None:
            share = 1.0 if target.limit_rows is None else (self.rows("ours") or 1) / target.limit_rows
            verdicts.append(ours <= target.limit * share)
        if target.beat_best:
            ratio = self.ratio("sqlite")
            verdicts.append(None if ratio is None else ratio > 1)
        if target.rss_in_blobs is not None:
            rss = self.rss_in_blobs("ours")
            verdicts.append(None if rss is None else rss < target.rss_in_blobs)
        return False if False in verdicts else None if None in verdicts else True


def table(outcomes: Sequence[Outcome], engines: Sequence[str]) -> str:
    """One line a workload. Ratios say how many times better ours is."""
    head = ["", "workload", "unit", "ours", "peer", "best", "vs peer", "vs best", "target", "met", "notes"]
    lines = [head, *(_line(outcome, engines) for outcome in outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    right = {3, 4, 5, 6, 7}
    text = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([text[0], "-" * max(map(len, text)), *text[1:]])


def _line(outcome: Outcome, engines: Sequence[str]) -> list[str]:
    workload = outcome.workload
    met = outcome.met()
    return [
        workload.key,
        workload.title,
        workload.unit,
        *(_cell(outcome, engine, engines) for engine in ("ours", "peer", "sqlite")),
        _times(outcome.ratio("peer")),
        _times(outcome.ratio("sqlite")),
        workload.target.text,
        "-" if met is None else "yes" if met else "no",
        _notes(outcome),
    ]


def _cell(outcome: Outcome, engine: str, engines: Sequence[str]) -> str:
    if engine in outcome.failures:
        return "FAILED"
    figure = outcome.figure(engine)
    if figure is None:
        return "n/a" if engine in engines and engine not in outcome.workload.engines else "-"
    return f"{figure:,.0f}" if figure >= 1_000 else f"{figure:.1f}" if figure >= 10 else f"{figure:.3f}"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:,.0f}x" if ratio >= 20 else f"{ratio:.2g}x"


def _notes(outcome: Outcome) -> str:
    notes: list[str] = []
    rows = {engine: outcome.rows(engine) for engine in outcome.measured}
    if len(set(rows.values())) > 1:
        notes += [f"{engine} {count:,} rows" for engine, count in rows.items() if count is not None]
    elif count := next(iter(rows.values()), None):
        notes.append(f"{count:,} rows")
    for engine in outcome.measured:
        if (rss := outcome.rss_in_blobs(engine)) is not None:
            notes.append(f"{engine} RSS {rss:.1f} blobs")
    return ", ".join(notes)


def results(outcomes: Sequence[Outcome], facts: Mapping[str, object]) -> dict[str, object]:
    """What goes into the results file: facts, sizes, every repetition, and the figures of the table."""
    return {**facts, "workloads": {outcome.workload.key: _result(outcome) for outcome in outcomes}}


def _result(outcome: Outcome) -> dict[str, object]:
    workload = outcome.workload
    return {
        "title": workload.title,
        "unit": workload.unit,
        "target": workload.target.text,
        "met": outcome.met(),
        "times_better_than_peer": outcome.ratio("peer"),
        "times_better_than_best": outcome.ratio("sqlite"),
        "engines": {
            engine: {
                "median": outcome.figure(engine),
                "rows": outcome.rows(engine),
                "repetitions": [asdict(one) for one in samples],
                "failure": outcome.failures.get(engine),
            }
            for engine, samples in outcome.measured.items()
        },
    }


def machine(scratch: Path) -> dict[str, object]:
    """What decides absolute times, and nothing that identifies the machine."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_1m": round(os.getloadavg()[0], 2),
        "filesystem": _filesystem(scratch),
        "system": platform.system().lower(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }


def _filesystem(path: Path) -> str:
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    where = path.resolve()
    found = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    inside = [(point, kind) for point, kind in found if where.is_relative_to(point)]
    return max(inside, key=lambda one: len(one[0]), default=("", "unknown"))[1]


def commit(repository: Path) -> str:
    """The commit under test, with a mark if the tree differs from it; `unknown` outside a checkout."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def save(content: Mapping[str, object], out: Path | None, default_directory: Path) -> Path:
    """Writes the results file, by default `<date>-<system>-<architecture>-<cores>cpu.json`, and returns its path."""
    if out is None:
        facts = machine(default_directory.parent)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
        out = default_directory / f"{stamp}-{facts['system']}-{facts['architecture']}-{facts['cores']}cpu.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n")
    return out
