"""The same item log in SQLite: a table of events, folded in Python, counted in SQL.

SQLite lets one writer in at a time, so one connection in one thread is its fastest way to ingest.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeAlias
from uuid import NAMESPACE_OID, uuid5

from adapters.base import Answer, ItemWriter
from item_data import RUN_ID, STEP, Counts, ItemState, Program, Step, Tree

_SCHEMA = """
CREATE TABLE events (
    event_id TEXT PRIMARY KEY, item_id TEXT NOT NULL, root_item_id TEXT NOT NULL, parent_item_id TEXT,
    item_seq INTEGER NOT NULL, run_id TEXT NOT NULL, checkpoint_id TEXT NOT NULL, event_type TEXT NOT NULL,
    step_name TEXT, iteration INTEGER, field_name TEXT, field_type TEXT, value TEXT, status TEXT,
    event_ts TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX by_item ON events (item_id, item_seq);
CREATE INDEX by_root ON events (root_item_id, item_id, item_seq);
"""
_INSERT = """
INSERT INTO events (
    event_id, item_id, root_item_id, parent_item_id, item_seq, run_id, checkpoint_id, event_type,
    step_name, iteration, field_name, field_type, value, status
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FOLDED = "item_id, parent_item_id, event_type, iteration, field_name, value, status"
_OF_ITEM = f"SELECT {_FOLDED} FROM events WHERE item_id = ? ORDER BY item_seq"
_OF_ROOT = f"SELECT {_FOLDED} FROM events WHERE root_item_id = ? ORDER BY item_id, item_seq"
_COMPLETED = "SELECT count(*) FROM events WHERE event_type = 'TERMINAL' AND status = 'completed'"
_STEPS = "SELECT step_name, count(*) FROM events WHERE event_type = 'STEP_COMPLETED' GROUP BY step_name"

_Stored: TypeAlias = tuple[str, str | None, str, int | None, str | None, str | None, str | None]


class SqliteItem:
    def __init__(self, connection: sqlite3.Connection, item_id: str) -> None:
        self._connection = connection
        self._item_id = item_id
        self._root, *below = item_id.split("/")
        self._parent = item_id.rpartition("/")[0] if below else None
        self._seq = 0

    def create(self) -> None:
        self._write([("ITEM_CREATED", None, None, None, None, None, "running")])

    def checkpoint(self, step: Step) -> None:
        types = {"set": "FIELD_SET", "append": "FIELD_APPEND"}
        fields = [
            (types[field.op], STEP, step.number, field.name, field.kind, json.dumps(field.value), None)
            for field in step.fields
        ]
        self._write([*fields, ("STEP_COMPLETED", STEP, step.number, None, None, None, None)])

    def complete(self) -> None:
        self._write([("TERMINAL", None, None, None, None, None, "completed")])

    def _write(self, events: Sequence[tuple[object, ...]]) -> None:
        checkpoint = f"0:bench:{self._seq + 1}"
        stamped: list[tuple[object, ...]] = []
        for event in events:
            self._seq += 1
            event_id = str(uuid5(NAMESPACE_OID, f"{self._item_id} {self._seq}"))
            of_item = (event_id, self._item_id, self._root, self._parent, self._seq, RUN_ID, checkpoint)
            stamped.append((*of_item, *event))
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, stamped)
        self._connection.execute("COMMIT")


class SqliteLog:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def create_table(self) -> None:
        self._connection.executescript(_SCHEMA)

    def start(self, item_id: str) -> ItemWriter:
        item = SqliteItem(self._connection, item_id)
        item.create()
        return item

    def ingest(self, program: Program, concurrency: int) -> None:
        for item_id, steps in program.items():
            item = self.start(item_id)
            for step in steps:
                item.checkpoint(step)
            item.complete()

    def fold(self, item_id: str) -> Answer[ItemState | None]:
        events: list[_Stored] = self._connection.execute(_OF_ITEM, (item_id,)).fetchall()
        state = _folded(events) if events else None
        return lambda: state

    def overview(self) -> Answer[Counts]:
        ((completed,),) = self._connection.execute(_COMPLETED)
        counts = Counts("items", completed, dict(self._connection.execute(_STEPS)))
        return lambda: counts

    def tree(self, root: str, max_items: int) -> Answer[Tree]:
        items: dict[str, ItemState] = {}
        children: dict[str, list[str]] = {}
        events: Iterable[_Stored] = self._connection.execute(_OF_ROOT, (root,))
        for item_id, of_item in groupby(events, key=lambda event: event[0]):
            stored = list(of_item)
            items[item_id] = _folded(stored)
            children.setdefault(item_id, [])
            if (parent := stored[0][1]) is not None:
                children.setdefault(parent, []).append(item_id)
        return lambda: Tree(items, children)

    def maintain(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.execute("VACUUM")

    def close(self) -> None:
        self._connection.close()


def _folded(events: Sequence[_Stored]) -> ItemState:
    """Field writes count with their step's completion, which is in the same transaction."""
    status = "running"
    steps: list[int] = []
    fields: dict[str, list[object]] = {}
    for _, _, event_type, iteration, field_name, value, ended in events:
        match event_type:
            case "FIELD_SET" if field_name is not None and value is not None:
                fields[field_name] = [json.loads(value)]
            case "FIELD_APPEND" if field_name is not None and value is not None:
                fields.setdefault(field_name, []).append(json.loads(value))
            case "STEP_COMPLETED" if iteration is not None:
                steps.append(iteration)
            case "TERMINAL" if ended is not None:
                status = ended
            case _:
                pass
    return ItemState(status, steps, fields)
