"""The demo's promise, on a part of the standard library."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet

if TYPE_CHECKING:
    from pathlib import Path


def test_the_demo(tmp_path: Path) -> None:
    end = subprocess.run(
        [sys.executable, "-m", "lance_context.cli", "demo", "--dir", tmp_path, "--modules", "25", "--seed", "3"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert end.returncode == 0, f"{end.stdout}\n{end.stderr}"
    assert end.stderr == ""
    assert end.stdout.count("SIGKILL") == 2
    assert "doubled 0 · steps re-run 0" in end.stdout
    assert "items that differ from the undisturbed run: 0" in end.stdout
    assert "planted_missing.py" in end.stdout
    table = pyarrow.parquet.read_table(tmp_path / "questions.parquet")
    assert 0 < table.num_rows < 25
    assert table.column_names[4:] == ["questions", "answers", "score"]
