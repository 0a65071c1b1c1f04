"""What notebooks show: bounded, escaped, readable on light and dark, and made without I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from html import escape
from typing import cast

from lance_context.types import StoreStats

SHOWN_COLUMNS = 50
SHOWN_CHARS = 200

_TABLE = '<table style="text-align:left;border-collapse:collapse">'


def store_html(title: str, schema: Mapping[str, object], unsealed_rows: int, stats: StoreStats | None) -> str:
    """Renders a store.

    Args:
        title: What the store is.
        schema: Its columns by name, in tagged form.
        unsealed_rows: Durable rows of the handle that are not sealed.
        stats: The counters as they were last read.
    """
    known = {"unsealed_rows": unsealed_rows} if stats is None else {**asdict(stats), "unsealed_rows": unsealed_rows}
    shown = [name for name, _ in zip(schema, range(SHOWN_COLUMNS), strict=False)]
    parts = [f"<p><code>{_short(title)}</code></p>", _table(("counter", "value"), known.items())]
    if schema:
        parts.append(_table(("column", "type"), ((name, _type_text(schema[name])) for name in shown)))
    if len(shown) < len(schema):
        parts.append(f"<p>showing {len(shown)} of {len(schema)} columns</p>")
    return f"<div>{''.join(parts)}</div>"


def _table(heads: tuple[str, str], rows: Iterable[tuple[str, object]]) -> str:
    head = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join(f"<tr><td>{_short(name)}</td><td>{_short(value)}</td></tr>" for name, value in rows)
    return f"{_TABLE}<tr>{head}</tr>{body}</table>"


def _type_text(declaration: object) -> str:
    if not isinstance(declaration, Mapping):
        return str(declaration)
    options = dict(cast("Mapping[str, object]", declaration))
    name, nullable = options.pop("type"), options.pop("nullable", True)
    told = ", ".join(f"{key}={json.dumps(value)}" for key, value in options.items())
    return f"{name}{f'({told})' if told else ''}{'' if nullable else ', not null'}"


def _short(value: object) -> str:
    text = str(value)
    return escape(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…")
