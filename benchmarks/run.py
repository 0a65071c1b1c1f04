"""Compares lance-context with the peer (`lance-context` 0.6.7 from PyPI) and the best alternative.

    make bench                                             everything, three repetitions
    python benchmarks/run.py --only W1,W5 --repeat 5       some workloads (`W9` means all whose names begin so)
    python benchmarks/run.py --scale 10 --peer-scale 1     50,000 rows for ours, 5,000 for the peer
    python benchmarks/run.py --scale 0.05 --blob-mb 1      a quick check that everything works
    python benchmarks/run.py --blob-mb 120                 the large blob that the targets were set with

The interpreter that runs this needs a release build of lance-context, and numpy for W3a. The peer is installed
into `.venvs/peer` when first needed. Every measurement is a process of its own and checks what it read or wrote;
engines take turns within a repetition, and the table shows medians. Quote the ratios: absolute times belong to
one machine. "best" is SQLite, where SQLite can do the same work.

The peer gets a smaller item log, which the notes of the table show: its reads take minutes at the full size, and
longer by item the more there are. A read that takes more than a minute is given up, and shown as "> 60,000".

Files: `workloads.py` what is measured, `item_workloads.py` the same for the item log, `measure.py` the clock,
`data.py` the rows, `item_data.py` the items, `adapters/` what an engine does, `harness.py` processes and stores,
`report.py` table and results file.

Exit status: 0 all results were right (targets met or not), 1 some engine failed or answered wrongly, 2 bad usage.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from adapters.base import Sizes
from harness import BENCHMARKS, EngineError, Runner, own_python, peer_python
from measure import Workload
from report import Outcome, commit, machine, results, save, table
from workloads import WORKLOADS

ENGINES = ("ours", "peer", "sqlite")


class Options(argparse.Namespace):
    only: str
    repeat: int
    scale: float
    peer_scale: float | None
    peer_children: int
    bound_s: float
    blob_mb: float
    peer: bool
    engines: str
    scratch: Path | None
    out: Path | None


def _options(arguments: Sequence[str] | None) -> tuple[Options, list[Workload], list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="W1,W3", help="these workloads instead of all")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="repetitions, at least 3 to be quoted")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is 5,000 rows, or 500 items")
    parser.add_argument("--peer-scale", type=float, help="another scale for the peer; default: the same")
    parser.add_argument(
        "--peer-children",
        type=int,
        default=50,
        metavar="N",
        help="at most so many items below the root for the peer, whose reads of 500 take minutes; default: %(default)s",
    )
    parser.add_argument("--blob-mb", type=float, default=20, help="size of the blob of W7w and W7r")
    parser.add_argument("--bound-s", type=float, default=60, help="give up on a read of the item log after so long")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True, help="measure the peer")
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--scratch", type=Path, help="directory for the stores, on the disk to measure")
    parser.add_argument("--out", type=Path, help="results file; default: one in benchmarks/results")
    options = parser.parse_args(arguments, namespace=Options())
    if min(options.repeat, options.peer_children) < 1 or min(options.scale, options.blob_mb, options.bound_s) <= 0:
        parser.error("--repeat, --peer-children, --scale, --blob-mb and --bound-s have to be positive")
    try:
        chosen = _chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    engines = [name for name in options.engines.split(",") if name != "peer" or options.peer]
    if strange := set(engines) - set(ENGINES):
        parser.error(f"unknown engine {sorted(strange)}; there are {', '.join(ENGINES)}")
    return options, chosen, engines


def _sizes(options: Options, engine: str) -> Sizes:
    if engine != "peer":
        return Sizes.scaled(options.scale, options.blob_mb, options.bound_s)
    scale = options.scale if options.peer_scale is None else options.peer_scale
    sizes = Sizes.scaled(scale, options.blob_mb, options.bound_s)
    return replace(sizes, children=min(sizes.children, options.peer_children))


def _chosen(only: str) -> list[Workload]:
    if not only:
        return list(WORKLOADS.values())
    keys: set[str] = set()
    for name in only.split(","):
        found = {name} & WORKLOADS.keys() or {key for key in WORKLOADS if key.startswith(name)}
        if not name or not found:
            raise ValueError(f"unknown workload `{name}`; there are {', '.join(WORKLOADS)}")
        keys |= found
    return [workload for key, workload in WORKLOADS.items() if key in keys]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run(workload: Workload, runners: Sequence[Runner], repeat: int) -> Outcome:
    outcome = Outcome(workload, {runner.engine: runner.sizes for runner in runners})
    taking_part = [runner for runner in runners if runner.engine in workload.engines]
    for repetition in range(repeat):
        for runner in taking_part:
            if runner.engine in outcome.failures or outcome.at_least(runner.engine):
                continue
            samples = outcome.measured.setdefault(runner.engine, [])
            try:
                samples.append(runner.measure(workload))
            except EngineError as error:
                outcome.failures[runner.engine] = str(error)
                _say(f"FAILED {error}")
            else:
                more = "more than " if samples[-1].at_least else ""
                value = f"{more}{samples[-1].value:.3f} {workload.unit}"
                _say(f"{workload.key} {repetition + 1}/{repeat} {runner.engine}: {value}")
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for and returns the exit status."""
    options, chosen, engines = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="lance-context-bench-", dir=options.scratch) as directory:
        scratch = Path(directory)
        runners: list[Runner] = []
        for engine in engines:
            python = peer_python() if engine == "peer" else own_python()
            runners.append(Runner(engine, python, _sizes(options, engine), scratch))
        try:
            versions = {runner.engine: runner.versions() for runner in runners}
        except EngineError as error:
            _say(f"{error}\nIs it installed for {own_python()}? `--engines` leaves an engine out.")
            return 1
        facts: dict[str, object] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit(BENCHMARKS),
            "machine": machine(scratch),
            "versions": versions,
            "repeat": options.repeat,
            "sizes": {runner.engine: asdict(runner.sizes) for runner in runners},
        }
        outcomes = [_run(workload, runners, options.repeat) for workload in chosen]
    print(table(outcomes, engines))
    peer_scale = "" if options.peer_scale is None else f", of the peer {options.peer_scale:g}"
    print(f"\nscale {options.scale:g}{peer_scale}")
    print(f"written to {save(results(outcomes, facts), options.out, BENCHMARKS / 'results')}")
    failed = [outcome.workload.key for outcome in outcomes if outcome.failures]
    if failed:
        _say(f"wrong or no result: {', '.join(failed)} (see FAILED above)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
