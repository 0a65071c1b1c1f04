"""The peer: `lance-context` 0.6.7 from PyPI, in a virtual environment of its own.

It shares our import name, so it is imported by string and typed by the protocols below and in `peer_log`, which state
what the adapter uses. Its blobs cross as base64 text both ways, its `list` cannot leave columns out, and its `id` has
to be declared non-nullable.
"""

import importlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, cast

from adapters.base import Answer, Engine, ItemLog, Rows, Store
from adapters.peer_log import PeerLog
from adapters.worker import serve
from data import DIM, Row

_SCHEMA: dict[str, object] = {
    "id": {"type": "string", "nullable": False},
    "user": "string",
    "score": "float32",
    "vec": {"type": "vector", "dim": DIM},
    "text": "string",
    "blob": {"type": "binary", "blob": True},
}


class _Handle(Protocol):
    def add(self, rows: Iterable[Mapping[str, object]]) -> int: ...
    def list(self, *, limit: int | None = None, filter: str | None = None) -> list[Row]: ...
    def get(self, id: str, *, columns: Sequence[str] | None = None) -> Row | None: ...
    def flush(self) -> None: ...
    def cleanup_wal(self) -> int: ...


class _HandleType(Protocol):
    def open(self, uri: str, schema: Mapping[str, object], *, seal_on_add: bool = False) -> _Handle: ...
    def open_existing(self, uri: str) -> _Handle: ...


class _Table(Protocol):
    def to_pylist(self) -> list[Row]: ...


class _TableType(Protocol):
    def from_pylist(self, mapping: Sequence[Row]) -> _Table: ...


_tables = cast("_TableType", importlib.import_module("pyarrow").Table)
_handles = cast("_HandleType", importlib.import_module("lance_context").GenericStore)


def _encoded(row: Row) -> Row:
    content = row["blob"]
    return {**row, "blob": b64encode(content).decode()} if isinstance(content, bytes) else row


class PeerStore:
    def __init__(self, handle: _Handle) -> None:
        self._handle = handle

    def add(self, rows: Sequence[Row]) -> None:
        self._handle.add([_encoded(row) for row in rows])

    def flush(self) -> None:
        self._handle.flush()

    def merge(self) -> None:
        self._handle.cleanup_wal()

    def list(self, *, where: str | None = None, columns: Sequence[str] | None = None) -> list[Row]:
        if columns is not None:
            raise NotImplementedError("the peer's list has no projection")
        return self._handle.list(filter=where)

    def get(self, id: str, columns: Sequence[str] | None = None) -> Row | None:
        row = self._handle.get(id, columns=columns)
        if row is not None and isinstance(content := row.get("blob"), str):
            row["blob"] = b64decode(content)
        return row

    def arrow(self) -> Answer[Rows]:
        return _tables.from_pylist(self._handle.list()).to_pylist

    def close(self) -> None:
        del self._handle


class Peer:
    module = "lance_context"

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("lance-context", "pyarrow")}

    def create(self, path: Path, *, readable_on_return: bool = False, synced: bool = False) -> Store:
        if synced:
            raise NotImplementedError("the peer syncs nothing")
        return PeerStore(_handles.open(str(path), _SCHEMA, seal_on_add=readable_on_return))

    def reopen(self, path: Path) -> Store:
        return PeerStore(_handles.open_existing(str(path)))

    def create_log(self, path: Path) -> ItemLog:
        return PeerLog(path)

    def reopen_log(self, path: Path, *, read_only: bool = True) -> ItemLog:
        return PeerLog(path)


if __name__ == "__main__":
    engine: Engine = Peer()
    serve(engine)
