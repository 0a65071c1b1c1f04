"""Items and item trees as HTML: bounded, escaped, collapsible without script, made without I/O.

Colours are named by CSS variables that follow the light or dark scheme of the page. The budget counts what is
written; when it is used up, the rest is counted instead of shown.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from lance_context.datagen_types import BlobRef

if TYPE_CHECKING:
    from lance_context._native import DatagenItemId
    from lance_context.datagen_types import FoldedField, FoldedItem, FoldedValue
    from lance_context.tree import ItemTree

BUDGET_BYTES = 900_000
PREVIEW_CHARS = 120
PREVIEW_FIELDS = 12
PREVIEW_VALUES = 4
PREVIEW_STEPS = 20
OPEN_LEVELS = 2
MAX_NESTING = 60
"""Browsers stop nesting elements somewhere above this; deeper items are shown at this level."""
IMAGE_BYTES = 64 << 10

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}

_STYLE = """<style>
.lc-tree{font-family:monospace;line-height:1.5;--lc-run:#0550ae;--lc-done:#1a7f37;--lc-out:#6e7781;--lc-bad:#cf222e}
@media (prefers-color-scheme:dark){.lc-tree{--lc-run:#79c0ff;--lc-done:#56d364;--lc-out:#8b949e;--lc-bad:#ff7b72}}
html[theme=dark] .lc-tree,[data-jp-theme-light=false] .lc-tree,.vscode-dark .lc-tree
{--lc-run:#79c0ff;--lc-done:#56d364;--lc-out:#8b949e;--lc-bad:#ff7b72}
.lc-tree details details{margin-left:1.3em}.lc-tree summary{cursor:pointer}
.lc-tree table{margin-left:1.3em;border-collapse:collapse}
.lc-tree td{padding:0 .8em 0 0;text-align:left;vertical-align:top}
.lc-running{color:var(--lc-run)}.lc-completed{color:var(--lc-done)}
.lc-filtered{color:var(--lc-out)}.lc-failed{color:var(--lc-bad)}
.lc-tree img{max-height:6em}
</style>"""


def tree_html(tree: ItemTree, images: Mapping[str, bytes]) -> str:
    """Renders a tree."""
    parts = [_STYLE, '<div class="lc-tree">']
    left = BUDGET_BYTES
    shown = 0
    depth = 0
    for level, item_id, heading in _levels(tree):
        node = tree.nodes[str(item_id)]
        # Nothing is closed twice, and nothing is left open: each level that is left ends its element.
        closing = "</details>" * (depth - min(level, MAX_NESTING)) if shown else ""
        body = _item(node.item, images, open=level < OPEN_LEVELS)
        if (left := left - len(f"{closing}{heading}{body}".encode())) < 0:
            break
        parts += [closing, heading, body]
        shown += 1
        depth = min(level, MAX_NESTING) + 1
    parts.append("</details>" * depth)
    if shown < tree.total:
        parts.append(f"<p>showing {shown} of {tree.total} items</p>")
    parts.append("</div>")
    return "".join(parts)


def item_html(item: FoldedItem) -> str:
    """Renders one item."""
    return f'{_STYLE}<div class="lc-tree">{_item(item, {}, open=True)}</details></div>'


def _levels(tree: ItemTree) -> Iterator[tuple[int, DatagenItemId, str]]:
    """The items in preorder, with their level, and the heading of the orphans in front of the first one."""
    waiting: list[tuple[int, DatagenItemId, str]] = []
    for at, item_id in reversed(list(enumerate(tree.orphans))):
        waiting.append((0, item_id, "<p>without a parent in the log:</p>" if at == 0 else ""))
    waiting += [(0, item_id, "") for item_id in reversed(tree.roots)]
    while waiting:
        level, item_id, heading = waiting.pop()
        yield level, item_id, heading
        waiting += [(level + 1, child, "") for child in reversed(tree.nodes[str(item_id)].children)]


def _item(item: FoldedItem, images: Mapping[str, bytes], *, open: bool) -> str:
    """One item as an element that the caller closes."""
    status = "failed" if item.failed else item.status
    steps = f"{len(item.trajectory)} step{'' if len(item.trajectory) == 1 else 's'}"
    attempt = f", attempt {item.last_attempt}" if item.last_attempt else ""
    head = f'{_short(str(item.item_id))} <span class="lc-{status}">● {status}</span> {steps}{attempt}'
    rows = [_row(name, _preview(field, images)) for name, field in _first(item.fields)]
    if len(item.fields) > PREVIEW_FIELDS:
        rows.append(_row("…", f"showing {PREVIEW_FIELDS} of {len(item.fields)} fields"))
    if item.last_failure is not None:
        said = f"{item.last_failure.error_type}: {item.last_failure.error_dump or ''}"
        rows.append(_row(f"failed in {item.last_failure.step_name or 'the item'}", _short(said)))
    rows += [
        _row("problem", _short(f"{problem.kind}: {problem.message}")) for problem in item.problems[:PREVIEW_VALUES]
    ]
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<details{' open' if open else ''}><summary>{head}</summary>{table}"


def _first(fields: Mapping[str, FoldedField]) -> list[tuple[str, FoldedField]]:
    return sorted(fields.items())[:PREVIEW_FIELDS]


def _row(name: str, html: str) -> str:
    return f"<tr><td>{_short(name)}</td><td>{html}</td></tr>"


def _preview(field: FoldedField, images: Mapping[str, bytes]) -> str:
    shown = "<br>".join(_value(entry, images) for entry in field.entries[:PREVIEW_VALUES])
    if len(field.entries) > PREVIEW_VALUES:
        shown += f"<br>showing {PREVIEW_VALUES} of {len(field.entries)} values"
    return shown


def _value(entry: FoldedValue, images: Mapping[str, bytes]) -> str:
    image = images.get(entry.event_id)
    if image is not None and (kind := _image_type(image)) is not None:
        data = base64.b64encode(image).decode()
        return f'<img alt="{_short(entry.field_type)}" src="data:{kind};base64,{data}">'
    value = entry.value
    if isinstance(value, BlobRef):
        return f"{value.size:,} bytes"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _image_type(image: bytes) -> str | None:
    """The type of a small picture of a known kind; anything else is not shown, whatever its owner calls it."""
    if len(image) > IMAGE_BYTES:
        return None
    if image[:4] == b"RIFF" and image[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _SIGNATURES.items() if image.startswith(signature)), None)


def _short(text: str) -> str:
    return escape(text if len(text) <= PREVIEW_CHARS else f"{text[:PREVIEW_CHARS]}…")
