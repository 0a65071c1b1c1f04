"""Items and item trees as HTML: bounded, escaped, collapsible without script, made without I/O.

The budget counts what is written; when it is used up, the rest is counted instead of shown.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from lance_context._html import framed
from lance_context.datagen_types import BlobRef

if TYPE_CHECKING:
    from lance_context._native import DatagenItemId
    from lance_context.datagen_types import Failure, FoldedField, FoldedItem, FoldedValue, StepPosition
    from lance_context.tree import ItemTree

BUDGET_BYTES = 900_000
PREVIEW_CHARS = 120
PREVIEW_NAME_CHARS = 40
PREVIEW_TRACEBACK_CHARS = 2000
PREVIEW_FIELDS = 12
PREVIEW_VALUES = 4
PREVIEW_STEPS = 20
OPEN_LEVELS = 2
MAX_NESTING = 60
"""Browsers stop nesting elements somewhere above this; deeper items are shown at this level."""
IMAGE_BYTES = 64 << 10

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}

_MARKS = {"running": "●", "completed": "✓", "filtered": "○", "failed": "✗"}


def tree_html(tree: ItemTree, images: Mapping[str, bytes]) -> str:
    """Renders a tree."""
    parts: list[str] = []
    left = BUDGET_BYTES
    shown = 0
    depth = 0
    for level, item_id, heading in _levels(tree):
        node = tree.nodes[str(item_id)]
        # Nothing is closed twice, and nothing is left open: each level that is left ends its element.
        closing = "</details>" * (depth - min(level, MAX_NESTING)) if shown else ""
        body = _item(node.item, images, below_parent=level > 0, open=level < OPEN_LEVELS)
        if (left := left - len(f"{closing}{heading}{body}".encode())) < 0:
            break
        parts += [closing, heading, body]
        shown += 1
        depth = min(level, MAX_NESTING) + 1
    parts.append("</details>" * depth)
    if shown < tree.total:
        parts.append(f"<p>showing {shown} of {tree.total} items</p>")
    return framed("".join(parts))


def item_html(item: FoldedItem) -> str:
    """Renders one item."""
    return framed(f"{_item(item, {}, below_parent=False, open=True)}</details>")


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


def _item(item: FoldedItem, images: Mapping[str, bytes], *, below_parent: bool, open: bool) -> str:
    """One item as an element that the caller closes."""
    status = "failed" if item.failed else item.status
    steps = f"{len(item.trajectory)} step{'' if len(item.trajectory) == 1 else 's'}"
    attempt = f", attempt {item.last_attempt}" if item.last_attempt else ""
    head = (
        f'<span title="{_short(str(item.item_id))}">{_short(_name(item.item_id, below_parent=below_parent))}</span> '
        f'<span class="lc-{status}">{_MARKS[status]} {status}</span> <span class="lc-note">{steps}{attempt}</span>'
    )
    rows = [*_states(item), *_fields(item.fields, images), *_notes(item)]
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<details{' open' if open else ''}><summary>{head}</summary>{table}"


def _name(item_id: DatagenItemId, *, below_parent: bool) -> str:
    """What tells an item from its neighbours: the key of a root, and the last segment below a parent."""
    if item_id.is_root:
        return item_id.source_key
    return str(item_id).rsplit("/", 1)[-1] if below_parent else str(item_id)


def _states(item: FoldedItem) -> Iterator[str]:
    """Where the item stands."""
    if item.last_failure is not None:
        yield _failure(item.last_failure, len(item.failures))
    if item.open_frames and not item.is_terminal:
        yield _row("within", _short(", ".join(_place(position) for position in item.open_frames)), note=True)
    if item.trajectory:
        yield _row("steps", _steps(entry.position for entry in item.trajectory), note=True)


def _failure(failure: Failure, count: int) -> str:
    said = f"{failure.error_type}: {failure.error_dump or ''}"
    place = f" in {_place(failure.position)}" if failure.step_name else ""
    others = f", the last of {count}" if count > 1 else ""
    html = f'{_short(said)}<span class="lc-note">{_short(place)}{others}</span>'
    if failure.traceback:
        end = failure.traceback[-PREVIEW_TRACEBACK_CHARS:]
        cut = "…" if len(end) < len(failure.traceback) else ""
        html = f"<details><summary>{html}</summary><pre>{cut}{escape(end.rstrip())}</pre></details>"
    label = "recovered" if failure.recovered else '<span class="lc-failed">failed</span>'
    return f"<tr><td>{label}</td><td>{html}</td></tr>"


def _steps(positions: Iterable[StepPosition]) -> str:
    """The names of steps with how often each completed, in the order of the first."""
    counts = Counter(_path(position) for position in positions)
    shown = [_short(f"{path} x{n}" if n > 1 else path) for path, n in list(counts.items())[:PREVIEW_STEPS]]
    if len(counts) > PREVIEW_STEPS:
        shown.append(f"showing {PREVIEW_STEPS} of {len(counts)} steps")
    return ", ".join(shown)


def _place(position: StepPosition) -> str:
    counters = list(position.get("iteration", ()))
    return f"{_path(position)}{counters if counters else ''}"


def _path(position: StepPosition) -> str:
    frame = position.get("enclosing_step")
    return position["step_name"] if frame is None else f"{frame}/{position['step_name']}"


def _fields(fields: Mapping[str, FoldedField], images: Mapping[str, bytes]) -> Iterator[str]:
    for name, field in sorted(fields.items())[:PREVIEW_FIELDS]:
        yield _row(name, _preview(field, images))
    if len(fields) > PREVIEW_FIELDS:
        yield _row("…", f"showing {PREVIEW_FIELDS} of {len(fields)} fields")


def _notes(item: FoldedItem) -> Iterator[str]:
    """What was noted about the item, and what is wrong with its log."""
    for name, noted in (("tags", item.query_tags), ("attributes", item.attributes)):
        if noted:
            yield _row(name, _short(_text(noted)), note=True)
    for stream in item.fenced[:PREVIEW_VALUES]:
        count = f"{len(stream.event_ids)} event{'' if len(stream.event_ids) == 1 else 's'}"
        yield _row("fenced", f"{count} of attempt {stream.attempt}, which another stream took over", note=True)
    for problem in item.problems[:PREVIEW_VALUES]:
        yield _row("problem", _short(f"{problem.kind}: {problem.message}"))


def _row(name: str, html: str, *, note: bool = False) -> str:
    marked = ' class="lc-note"' if note else ""
    return f"<tr{marked}><td>{_short(name, PREVIEW_NAME_CHARS)}</td><td>{html}</td></tr>"


def _preview(field: FoldedField, images: Mapping[str, bytes]) -> str:
    if field.op == "set":
        return _value(field.entries[-1], images)
    shown = "".join(
        f'<div class="lc-value"><span class="lc-note">{index}</span> {_value(entry, images)}</div>'
        for index, entry in enumerate(field.entries[:PREVIEW_VALUES])
    )
    if len(field.entries) > PREVIEW_VALUES:
        shown += f'<div class="lc-note">showing {PREVIEW_VALUES} of {len(field.entries)} values</div>'
    return shown


def _value(entry: FoldedValue, images: Mapping[str, bytes]) -> str:
    image = images.get(entry.event_id)
    if image is not None and (kind := _image_type(image)) is not None:
        data = base64.b64encode(image).decode()
        return f'<img alt="{_short(entry.field_type)}" src="data:{kind};base64,{data}">'
    value = entry.value
    size = value.size if isinstance(value, BlobRef) else len(value) if isinstance(value, bytes) else None
    return _short(_text(value)) if size is None else f'<span class="lc-note">{size:,} bytes</span>'


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _image_type(image: bytes) -> str | None:
    """The type of a small picture of a known kind; anything else is not shown, whatever its owner calls it."""
    if len(image) > IMAGE_BYTES:
        return None
    if image[:4] == b"RIFF" and image[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _SIGNATURES.items() if image.startswith(signature)), None)


def _short(text: str, chars: int = PREVIEW_CHARS) -> str:
    """The beginning of a text, in one line."""
    return escape(text if len(text) <= chars else f"{text[:chars]}…").replace("\n", " ↵ ")
