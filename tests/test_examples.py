"""The example programs run, on a small real directory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_file_store(tmp_path: Path) -> None:
    source = Path(asyncio.__file__).parent
    store = tmp_path / "files"
    end = subprocess.run(
        [sys.executable, EXAMPLES / "file_store.py", source, "--store", store, "--limit", "24"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert end.returncode == 0, f"{end.stdout}\n{end.stderr}"
    assert end.stderr == ""
    assert "lost 0, doubled 0, different 0" in end.stdout
