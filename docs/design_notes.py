"""The design notes in the navigation, in the order of their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> None:
    """Appends a section with every note that there is."""
    notes = sorted(path.name for path in Path(config.docs_dir, "design").glob("*.md"))
    assert config.nav is not None
    config.nav.append({"Design notes": [f"design/{name}" for name in notes]})
