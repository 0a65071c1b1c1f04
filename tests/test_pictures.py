"""The picture of the guide shows all that it is to show, and a missing browser is named."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from docs.pictures import ASSETS, SCHEMES, essay, page_html
from docs.pictures import __file__ as script
from lance_context._html import STATUS_COLOURS

if TYPE_CHECKING:
    from pathlib import Path


def test_the_tree_has_items_in_every_state(path: Path) -> None:
    html = essay(path)
    for status in STATUS_COLOURS:
        assert f'<span class="lc-{status}">' in html
    for part in ('src="data:image/png', "<td>recovered</td>", "<td>within</td><td>translate</td>", "quote:0"):
        assert part in html
    for scheme in SCHEMES.values():
        assert html in page_html(scheme, html)


def test_there_is_a_small_picture_of_each_scheme() -> None:
    sizes = {picture.stem: picture.stat().st_size for picture in ASSETS.glob("*.png")}
    assert sizes.keys() == {f"item-tree-{name}" for name in SCHEMES}
    assert max(sizes.values()) < 200_000


def test_a_missing_browser_is_named(tmp_path: Path) -> None:
    end = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={**os.environ, "PATH": str(tmp_path)}, check=False
    )
    assert end.returncode == 1
    assert "apt-get install chromium" in end.stderr
