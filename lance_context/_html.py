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

STATUS_COLOURS = {"running": "#2b7bde", "completed": "#23903f", "filtered": "#77777f", "failed": "#e0403f"}
TEXT_SHARE = 35
"""How many percent of the page's own text colour are in a status's: so it is readable on any ground that text is."""


def _colour(status: str, colour: str) -> str:
    mixed = f"color-mix(in srgb,currentcolor {TEXT_SHARE}%,{colour})"
    # Browsers that cannot mix keep the first one.
    return f".lc-{status}{{font-weight:bold;color:{colour};color:{mixed}}}"


# Jupyter aligns, pads and stripes the tables of an output with rules that are more specific than a class is; in `:is`
# the id, which nothing has, makes these win.
_STYLE = f"""<style>
.lc{{font-family:var(--jp-code-font-family,monospace);line-height:1.5}}
:is(.lc,#lc) table{{margin:0;border-collapse:collapse;table-layout:auto;font-size:inherit;color:inherit}}
:is(.lc,#lc)>table{{margin-bottom:.5em}}
:is(.lc,#lc) :is(tr,td,th){{padding:0 1em 0 0;text-align:left;vertical-align:top;line-height:inherit;border:none;
background:none;overflow-wrap:anywhere}}
:is(.lc,#lc) :is(td,th):first-child{{white-space:nowrap}}
:is(.lc,#lc) :is(p,pre){{margin:0 0 .5em;padding:0;font:inherit;color:inherit;background:none}}
:is(.lc,#lc) pre{{white-space:pre-wrap}}
:is(.lc,#lc) img{{max-height:6em;vertical-align:top}}
:is(.lc,#lc) details>:is(table,pre,details){{margin-left:1.2em}}
.lc summary{{cursor:pointer}}
.lc details[open]{{padding-bottom:.3em}}
.lc details>details{{border-left:1px solid color-mix(in srgb,currentcolor 20%,transparent);padding-left:.4em}}
.lc-note{{opacity:.75}}
.lc-value{{padding-left:2ch;text-indent:-2ch}}
{"".join(_colour(status, colour) for status, colour in STATUS_COLOURS.items())}
</style>"""


def framed(html: str) -> str:
    """Puts what is shown into the one element that the style is for."""
    return f'{_STYLE}<div class="lc">{html}</div>'


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
    parts = [f"<p>{_short(title)}</p>", _table(("counter", "value"), known.items())]
    if schema:
        parts.append(_table(("column", "type"), ((name, _type_text(schema[name])) for name in shown)))
    if len(shown) < len(schema):
        parts.append(f"<p>showing {len(shown)} of {len(schema)} columns</p>")
    return framed("".join(parts))


def _table(heads: tuple[str, str], rows: Iterable[tuple[str, object]]) -> str:
    head = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join(f"<tr><td>{_short(name)}</td><td>{_short(value)}</td></tr>" for name, value in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


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
