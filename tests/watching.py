"""Waiting for something to happen in a directory, without a look at the clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.child import Child


def files_below(directory: Path) -> dict[str, int]:
    """Size of each file by its path relative to `directory`; files that vanish meanwhile are left out."""
    found: dict[str, int] = {}
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            try:
                found[os.path.relpath(path, directory)] = os.lstat(path).st_size
            except FileNotFoundError:
                continue
    return found


def await_changes(directory: Path, count: int, child: Child) -> None:
    """Look at `directory` until its files have changed `count` times; `child` is what changes them."""
    before = files_below(directory)
    while count > 0:
        if not child.is_running():
            pytest.fail("the child ended, and was to go on")
        now = files_below(directory)
        if now != before:
            before = now
            count -= 1
