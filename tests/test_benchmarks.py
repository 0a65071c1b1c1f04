"""The workloads that no other test runs do run, small, and every engine's answers are right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent.parent / "benchmarks" / "run.py"


def run(out: Path, *arguments: str) -> tuple[str, dict[str, dict[str, dict[str, object]]]]:
    """Returns the table, and what each engine measured, by workload."""
    end = subprocess.run(
        [sys.executable, RUN, "--repeat", "1", "--scratch", out, "--out", out / "results.json", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert end.returncode == 0, f"{end.stdout}\n{end.stderr}"
    workloads = json.loads((out / "results.json").read_text())["workloads"]
    return end.stdout, {key: workload["engines"] for key, workload in workloads.items()}


@pytest.mark.parametrize("engine", ["ours", "sqlite"])
def test_item_workloads(tmp_path: Path, engine: str) -> None:
    table, measured = run(tmp_path, "--only", "W8", "--engines", engine, "--scale", "0.01")
    assert measured.keys() == {"W8a", "W8f", "W8g", "W8b", "W8cf", "W8co", "W8ct", "W8d"}, table
    for key, engines in measured.items():
        assert engines.keys() == {engine}, key
        assert engines[engine]["failure"] is None, key
        assert engines[engine]["at_least"] is False, key


def test_arrow_table(tmp_path: Path) -> None:
    _, measured = run(tmp_path, "--only", "W4a", "--engines", "ours", "--scale", "0.05")
    assert measured.keys() == {"W4a"}
    assert measured["W4a"]["ours"]["failure"] is None


def test_installed_size(tmp_path: Path) -> None:
    _, measured = run(tmp_path, "--only", "W9s", "--engines", "ours")
    (one,) = measured["W9s"].values()
    assert isinstance(one["median"], float)
    assert one["median"] > 1  # the engine is a part of it


def test_slow_read_is_given_up(tmp_path: Path) -> None:
    """Folding a thousand events takes longer than a millisecond, so that all repetitions but the first are left out."""
    arguments = ("--only", "W8ct", "--engines", "sqlite", "--scale", "0.1", "--bound-s", "0.001", "--repeat", "3")
    table, measured = run(tmp_path, *arguments)
    (one,) = measured["W8ct"].values()
    assert one["at_least"] is True
    assert one["median"] == 1
    assert one["repetitions"] == [{"value": 1, "detail": {}, "at_least": True}]
    assert "> 1.000" in table
