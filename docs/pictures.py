"""Makes the pictures of the guides: an item tree as Jupyter shows it, light and dark, seen by Chromium.

    python docs/pictures.py

The log is a real one, of an agent that writes and translates an essay and does not get through.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from html import escape
from pathlib import Path
from typing import NamedTuple

from lance_context import DatagenItemId, DatagenStore, FencedError, ItemStream

ASSETS = Path(__file__).parent / "assets"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH = 900
DEADLINE_S = 120

CELL = """\
item = store.fold_item("rain")
covers = {item.blob_event_ids["cover"]: store.load_blob(item, "cover")}
HTML(store.item_tree("rain").html(images=covers))"""


class Scheme(NamedTuple):
    """The colours of Jupyter's themes."""

    ground: str
    text: str
    cell: str
    border: str
    prompt: str


SCHEMES = {
    "light": Scheme("#ffffff", "rgba(0,0,0,.87)", "#f5f5f5", "#e0e0e0", "#307fc1"),
    "dark": Scheme("#111111", "rgba(255,255,255,1)", "#212121", "#616161", "#64b5f6"),
}

LANGUAGES = {
    "de": "Regen beginnt als Streit zwischen warmer und kalter Luft und endet in irgendeiner Dachrinne.",
    "fr": "La pluie commence par une querelle entre l'air chaud et l'air froid, et finit dans une gouttière.",
    "la": "Pluvia.",
    "pt": None,
}


def main() -> None:
    """Writes a picture a scheme."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(
            f"no browser makes the pictures: none of {', '.join(BROWSERS)} is on the PATH (apt-get install chromium)"
        )
    with tempfile.TemporaryDirectory() as directory:
        tree = essay(Path(directory, "log"))
        for name, scheme in SCHEMES.items():
            page = Path(directory, f"{name}.html")
            page.write_text(page_html(scheme, tree), encoding="utf-8")
            picture = ASSETS / f"item-tree-{name}.png"
            take(browser, page, picture)
            print(f"{picture}: {picture.stat().st_size:,} bytes")


def take(browser: str, page: Path, picture: Path) -> None:
    """Takes a picture of a page, as high as the page is."""
    # Without its sandbox it runs as root too, and the page is ours.
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={page.parent}/browser",
    ]

    def look(*more: str) -> str:
        command = [browser, *options, *more, page.as_uri()]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout

    title = re.search(r"<title>(\d+)</title>", look(f"--window-size={WIDTH},100", "--dump-dom"))
    if title is None:
        raise RuntimeError(f"{browser} did not measure {page}")
    look(f"--window-size={WIDTH},{title[1]}", f"--screenshot={picture}")


def page_html(scheme: Scheme, output: str) -> str:
    """A page with one cell of a notebook and its output; its title is its height."""
    return f"""<!doctype html><meta charset="utf-8"><title></title>
<style>
body{{margin:0;padding:12px;background:{scheme.ground};color:{scheme.text};font:13px sans-serif}}
.cell{{display:grid;grid-template-columns:3em 1fr;gap:6px;margin-bottom:6px}}
.prompt{{font-family:monospace;color:{scheme.prompt};padding-top:6px}}
.source{{margin:0;padding:6px;background:{scheme.cell};border:1px solid {scheme.border};font-family:monospace}}
.output{{padding-top:4px;min-width:0}}
</style>
<div class="cell"><div class="prompt">[1]:</div><pre class="source">{escape(CELL)}</pre></div>
<div class="cell"><div class="prompt">[1]:</div><div class="output">{output}</div></div>
<script>document.title=Math.ceil(document.body.getBoundingClientRect().height)</script>
"""


def essay(path: Path) -> str:
    """What the cell shows of an agent at work."""
    with DatagenStore.open(path) as store:
        with (
            contextlib.suppress(TimeoutError),
            store.stream("rain", run_id="monday", query_tags={"kind": "essay"}) as item,
        ):
            item.once("plan", lambda: {"sections": ["origin", "effect", "talk"], "words": 1200, "tone": "plain"})
            refine(item)
        with store.stream("rain", run_id="tuesday") as item:
            refine(item)
            with item.step("paint") as step:
                step.set("cover", png(144, 72))
            with item.step("translate", step_kind="map_reduce"):
                first, second, *others = (item.child("language", number) for number in range(len(LANGUAGES)))
                store.run([first, *others], translate, run_id="tuesday", concurrency=1)
                store.run([first.child("quote", 0)], quote, run_id="tuesday")
                overtake(store, second)
                folded = store.fold_item("rain")
                assert folded is not None
                cover = folded.blob_event_ids["cover"]
                assert isinstance(cover, str)
                return store.item_tree("rain").html(images={cover: store.load_blob(folded, "cover")})


def refine(item: ItemStream) -> None:
    """Refines the text; the model fails once."""
    with item.step("refine", step_kind="loop") as frame:
        for number in range(4):
            with frame.step("draft", iteration=number) as step:
                if step.completed:
                    continue
                if number == 2 and item.attempt == 0:
                    raise TimeoutError("the model did not answer within 60 s")
                beginning = "Rain begins as a quarrel between warm air and cold, and ends in somebody's gutter."
                step.append("drafts", f"Draft {number}. {beginning} {'What it does there is another matter. ' * 3}")
                step.append("score", round(0.4 + 0.14 * number, 2))


def translate(child: ItemStream) -> None:
    """One language: it comes to something, to nothing, or to a failure."""
    language, text = list(LANGUAGES.items())[child.item_id.branch_idx or 0]
    child.once("language", str, language)
    with child.step("ask", attributes={"tokens": 412}) as step:
        if text is None:
            raise TimeoutError("the model did not answer within 60 s")
        step.set("text", text)
    if len(text) < 20:
        child.filter_out(reason="too short")


def overtake(store: DatagenStore, child: DatagenItemId) -> None:
    """An item that another process resumes, while the first one works on."""
    owner = store.open_stream(child, run_id="tuesday")
    with DatagenStore.open(store.uri, writer_id="other") as other, other.stream(child, run_id="tuesday") as item:
        item.once("language", str, list(LANGUAGES)[1])
    with contextlib.suppress(FencedError):
        store.append_checkpoint(owner.step_completed({"step_name": "ask"}))


def quote(child: ItemStream) -> None:
    """A quotation."""
    child.once("quote", str, "Regen ist die Tinte der Wolken.")


def png(width: int, height: int) -> bytes:
    """A picture of a sky."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = [bytes((60 + y, 110 + y, 190 + y // 2)) for y in range(height)]
    pixels = b"".join(b"\0" + colour * width for colour in row)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


if __name__ == "__main__":
    main()
