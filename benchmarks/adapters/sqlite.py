"""SQLite from the standard library: journal_mode=WAL, one connection a thread.

With synchronous=NORMAL what was committed survives a killed process, with synchronous=FULL a power cut too.
Vectors are packed float32 in a BLOB column.
"""

import sqlite3
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path

from adapters.base import Engine, ItemLog, Store
from adapters.sqlite_log import SqliteLog
from adapters.worker import serve
from data import Row, as_numbers

_PLAIN = ("id", "user", "score", "vec", "text")
_TABLE = 'CREATE TABLE rows (id TEXT PRIMARY KEY, "user" TEXT, score REAL, vec BLOB, text TEXT, blob BLOB)'
_INSERT = "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?)"


def connected(path: Path, *, synced: bool = False) -> sqlite3.Connection:
    """A connection with the settings of these figures."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}")
    return connection


def _packed(row: Row) -> tuple[object, ...]:
    vec = array("f", as_numbers(row["vec"])).tobytes()
    return row["id"], row["user"], row["score"], vec, row["text"], row["blob"]


def _unpacked(names: Sequence[str], cells: tuple[object, ...]) -> Row:
    row: Row = dict(zip(names, cells, strict=True))
    if isinstance(vec := row.get("vec"), bytes):
        numbers = array("f")
        numbers.frombytes(vec)
        row["vec"] = numbers.tolist()
    return row


class SqliteStore:
    def __init__(self, path: Path, *, synced: bool = False) -> None:
        self._path = path / "store.sqlite"
        self._synced = synced
        self._of_thread = threading.local()
        self._opened: list[sqlite3.Connection] = []

    @property
    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = connected(self._path, synced=self._synced)
            self._of_thread.connection = connection
            self._opened.append(connection)
        return connection

    def create_table(self) -> None:
        self._connection.execute(_TABLE)

    def add(self, rows: Sequence[Row]) -> None:
        packed = [_packed(row) for row in rows]
        if len(packed) == 1:
            self._connection.execute(_INSERT, packed[0])
            return
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, packed)
        self._connection.execute("COMMIT")

    def flush(self) -> None:
        """Nothing is held back."""

    def merge(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def list(self, *, where: str | None = None, columns: Sequence[str] | None = None) -> list[Row]:
        names = _PLAIN if columns is None else columns
        chosen = ", ".join(f'"{name}"' for name in names)
        query = f"SELECT {chosen} FROM rows" + (f" WHERE {where}" if where else "")
        return [_unpacked(names, cells) for cells in self._connection.execute(query)]

    def get(self, id: str, columns: Sequence[str] | None = None) -> Row | None:
        names = _PLAIN if columns is None else columns
        chosen = ", ".join(f'"{name}"' for name in names)
        cells = self._connection.execute(f"SELECT {chosen} FROM rows WHERE id = ?", (id,)).fetchone()
        return None if cells is None else _unpacked(names, cells)

    def close(self) -> None:
        for connection in self._opened:
            connection.close()


class Sqlite:
    module = "sqlite3"

    def versions(self) -> dict[str, str]:
        return {"sqlite": sqlite3.sqlite_version}

    def create(self, path: Path, *, readable_on_return: bool = False, synced: bool = False) -> Store:
        path.mkdir(parents=True, exist_ok=True)
        store = SqliteStore(path, synced=synced)
        store.create_table()
        return store

    def reopen(self, path: Path) -> Store:
        return SqliteStore(path)

    def create_log(self, path: Path) -> ItemLog:
        path.mkdir(parents=True, exist_ok=True)
        log = SqliteLog(connected(path / "log.sqlite"))
        log.create_table()
        return log

    def reopen_log(self, path: Path, *, read_only: bool = True) -> ItemLog:
        return SqliteLog(connected(path / "log.sqlite"))


if __name__ == "__main__":
    engine: Engine = Sqlite()
    serve(engine)
