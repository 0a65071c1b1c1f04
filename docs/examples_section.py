"""For the reference: the section that docstrings call `Example` is shown as examples, code and output apart."""

from __future__ import annotations

import re

import griffe


class ExamplesSection(griffe.Extension):
    """Gives the section the name that the parser knows."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Renames it before the docstring is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^(\s*)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
