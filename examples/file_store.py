"""Keep a directory tree in a store: one row a file, through a SIGKILL in the middle.

A worker process adds the files with eight concurrent tasks and reports each id when its `add` has returned.
When about half of them are acknowledged the parent kills it, opens the store, checks that nothing
acknowledged is missing, adds the rest itself, and compares every byte with the file system.

    python examples/file_store.py                      the standard library of the running Python
    python examples/file_store.py ~/notes --limit 500  any other directory
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import subprocess
import sys
import sysconfig
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lance_context import AsyncGenericStore, GenericStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {
    "id": "string",  # the path below the directory
    "module": "string",  # its first part: package or top-level file
    "size": "int64",
    "mtime": "timestamp",
    "text": "string",  # null where the bytes are not UTF-8
    "imports": {"type": "list", "item": "string"},  # null for what is not Python
    "content": {"type": "binary", "blob": True},  # left out of `list` unless asked for
}
TASKS = 8
PAGE = 200


def main() -> None:
    """Run the parent, or the worker that it started."""
    parser = argparse.ArgumentParser(description="Keep a directory tree in a store.")
    parser.add_argument("directory", nargs="?", type=Path, default=None, help="default: the standard library")
    parser.add_argument("--store", type=Path, help="where the store goes (default: a temporary directory)")
    parser.add_argument("--limit", type=int, help="take only the first so many files")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    files = dict(find_files(arguments.directory, arguments.limit))
    if not files:
        parser.error(f"no files in {arguments.directory}")
    if arguments.worker:
        asyncio.run(add_files(arguments.store, files, report=lambda name: print(name, flush=True)))
    elif arguments.store is not None:
        demonstrate(arguments.store, files)
    else:
        with tempfile.TemporaryDirectory(prefix="file-store-") as directory:
            demonstrate(Path(directory) / "files", files)


def find_files(directory: Path | None, limit: int | None) -> Iterator[tuple[str, Path]]:
    """Id and path of each file; of the standard library, its Python sources without tests and packages."""
    if directory is None:
        root = Path(sysconfig.get_path("stdlib"))
        skipped = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
        found = (path for path in root.rglob("*.py") if skipped.isdisjoint(path.relative_to(root).parts))
    else:
        root = directory
        found = root.rglob("*")
    paths = sorted(path for path in found if path.is_file() and not path.is_symlink())
    for path in paths[:limit]:
        # One line an id on the worker's output, whatever bytes a file name has.
        yield path.relative_to(root).as_posix().encode("utf-8", "backslashreplace").decode().replace("\n", "\\n"), path


def read_row(name: str, path: Path) -> dict[str, object]:
    """The row of one file."""
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = None
    return {
        "id": name,
        "module": name.split("/", maxsplit=1)[0].removesuffix(".py"),
        "size": len(content),
        "mtime": datetime.fromtimestamp(path.stat().st_mtime, UTC),
        "text": text,
        "imports": read_imports(text) if path.suffix == ".py" and text is not None else None,
        "content": content,
    }


def read_imports(source: str) -> list[str]:
    """The top-level names that a Python source imports, sorted; none if it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return sorted(names)


async def add_files(store_path: Path, files: dict[str, Path], report: Callable[[str], None]) -> None:
    """Add the files with concurrent tasks; `report` is called with each id once it is durable."""
    waiting = iter(files.items())
    async with AsyncGenericStore.open(store_path, schema=SCHEMA, gc_grace=0) as store:

        async def work() -> None:
            for name, path in waiting:
                await store.add(read_row(name, path))
                report(name)

        await asyncio.gather(*(work() for _ in range(TASKS)))


def add_until_killed(store_path: Path, enough: int) -> set[str]:
    """Start the worker, SIGKILL it when `enough` ids are acknowledged, and return all that were."""
    # The same arguments again give the worker the same directory and limit.
    command = [sys.executable, __file__, *sys.argv[1:], "--store", str(store_path), "--worker"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as worker:
        assert worker.stdout is not None
        acknowledged: set[str] = set()
        for line in worker.stdout:
            # A line without its end was cut off by the kill.
            if line.endswith("\n"):
                acknowledged.add(line[:-1])
            if len(acknowledged) == enough:
                worker.kill()
    if len(acknowledged) < enough:
        sys.exit(f"the worker ended by itself, with exit code {worker.returncode}")
    return acknowledged


def demonstrate(store_path: Path, files: dict[str, Path]) -> None:
    """Add, kill, reopen, finish, prove, merge and query."""
    started = time.monotonic()
    acknowledged = add_until_killed(store_path, max(1, len(files) // 2))
    print(f"killed the worker after {len(acknowledged)} of {len(files)} files were acknowledged")

    with GenericStore.open_existing(store_path) as store:
        there = {row["id"] for row in store.list(columns=["id"])}
    print(f"reopened: {len(there)} rows there, {len(acknowledged - there)} acknowledged rows missing")
    if not acknowledged <= there:
        sys.exit(f"lost: {sorted(acknowledged - there)}")

    rest = {name: path for name, path in files.items() if name not in there}
    asyncio.run(add_files(store_path, rest, report=lambda _: None))
    print(f"added the other {len(rest)} files with {TASKS} tasks")

    with GenericStore.open_existing(store_path) as store:
        total = prove(store, files)
        before = store.stats().generations
        report = store.merge()
        after = store.stats().generations
        print(f"merged {report.rows} rows: {before} generations before, {after} after")
        prove(store, files)
        print_largest(store, "asyncio")
    print(f"{len(files)} rows, {total / 1e6:.1f} MB, {time.monotonic() - started:.1f} s")


def prove(store: GenericStore, files: dict[str, Path]) -> int:
    """Compare the store with the file system: every file once, with its bytes. Returns the bytes."""
    seen: list[str] = []
    different: list[str] = []
    total = 0
    # Keyset paging: the blobs of one page at a time are in memory.
    while page := store.list(columns=["size", "content"], limit=PAGE, after=seen[-1] if seen else None):
        for row in page:
            seen.append(row["id"])
            total += row["size"]
            path = files.get(row["id"])
            if path is None or path.read_bytes() != row["content"]:
                different.append(row["id"])
    lost = files.keys() - set(seen)
    doubled = len(seen) - len(set(seen))
    print(f"checked against the files: lost {len(lost)}, doubled {doubled}, different {len(different)}")
    if lost or doubled or different:
        sys.exit(f"lost: {sorted(lost)}\ndifferent: {different}")
    return total


def print_largest(store: GenericStore, module: str) -> None:
    """The largest files that import a module."""
    rows = store.list(filter="array_has(imports, $module)", params={"module": module}, columns=["size", "mtime"])
    print(f"{len(rows)} files import {module}; the largest:")
    for row in sorted(rows, key=lambda row: row["size"], reverse=True)[:5]:
        print(f"  {row['size']:>8} bytes  {row['mtime']:%Y-%m-%d}  {row['id']}")


if __name__ == "__main__":
    main()
