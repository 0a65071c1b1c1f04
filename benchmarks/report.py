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
from measure import Measurement, Workload


@dataclass
class Outcome:
    """All repetitions of one workload, by engine, and what went wrong."""

    workload: Workload
    sizes: Mapping[str, Sizes]
    measured: dict[str, list[Measurement]] = field(default_factory=dict[str, list[Measurement]])
    failures: dict[str, str] = field(default_factory=dict[str, str])

    def figure(self, engine: str) -> float | None:
        """The median over the repetitions, see also `at_least`; None if the engine did not run or failed once."""
        samples = self.measured.get(engine)
        if not samples or engine in self.failures:
            return None
        return statistics.median(one.value for one in samples)

    def at_least(self, engine: str) -> bool:
        """Whether the engine was given up on, so that its figure is larger than what stands for it."""
        return any(one.at_least for one in self.measured.get(engine, []))

    def size(self, engine: str) -> int | None:
        """How much work the figure is for, where it is proportional to that."""
        return None if self.workload.size is None else self.workload.size(self.sizes[engine])

    def ratio(self, other: str) -> float | None:
        """How many times better than `other` ours is, by size where the sizes differ.

        Where `at_least` holds for the other, so it does for the ratio.
        """
        ours, theirs = self.figure("ours"), self.figure(other)
        if ours is None or theirs is None or self.at_least("ours"):
            return None
        if self.workload.more_is_better:
            return ours / theirs
        scale = (self.size("ours") or 1) / (self.size(other) or 1)
        return theirs * scale / ours

    def worst(self, engine: str, detail: str) -> float | None:
        """The largest value of a detail; None where the measurements do not tell."""
        samples = self.measured.get(engine, [])
        return max((one.detail[detail] for one in samples if detail in one.detail), default=None)

    def met(self) -> bool | None:
        """Whether the target is reached; None where the run cannot tell, or where there is none."""
        target, ours = self.workload.target, self.figure("ours")
        if ours is None:
            return None
        verdicts: list[bool | None] = []
        if target.times_peer is not None:
            verdicts.append(self._better(target.times_peer, "peer"))
        if target.limit is not None:
            share = 1.0 if target.limit_size is None else (self.size("ours") or 1) / target.limit_size
            limit = target.limit * share
            verdicts.append(ours >= limit if self.workload.more_is_better else ours <= limit)
        if target.beat_best:
            verdicts.append(self._better(1, "sqlite"))
        for detail, bound in target.at_most.items():
            found = self.worst("ours", detail)
            verdicts.append(None if found is None else found <= bound)
        return False if False in verdicts else None if None in verdicts or not verdicts else True

    def _better(self, times: float, other: str) -> bool | None:
        ratio = self.ratio(other)
        if ratio is None:
            return None
        return ratio >= times or (None if self.at_least(other) else False)


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
        *(_times(outcome, other) for other in ("peer", "sqlite")),
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
    text = f"{figure:,.0f}" if figure >= 1_000 else f"{figure:.1f}" if figure >= 10 else f"{figure:.3f}"
    return f"> {text}" if outcome.at_least(engine) else text


def _times(outcome: Outcome, other: str) -> str:
    ratio = outcome.ratio(other)
    if ratio is None:
        return "-"
    text = f"{ratio:,.0f}x" if ratio >= 20 else f"{ratio:.2g}x"
    return f"> {text}" if outcome.at_least(other) else text


def _notes(outcome: Outcome) -> str:
    notes: list[str] = []
    sizes = {engine: outcome.size(engine) for engine in outcome.measured}
    unit = outcome.workload.size_unit
    if len(set(sizes.values())) > 1:
        notes += [f"{engine} {count:,} {unit}" for engine, count in sizes.items() if count is not None]
    elif count := next(iter(sizes.values()), None):
        notes.append(f"{count:,} {unit}")
    for detail, text in outcome.workload.notes.items():
        for engine in outcome.measured:
            if (found := outcome.worst(engine, detail)) is not None:
                notes.append(f"{engine} {text.format(found)}")
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
                "at_least": outcome.at_least(engine),
                "size": outcome.size(engine),
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
