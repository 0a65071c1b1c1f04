"""The peer's item log.

Its handle refuses a second thread while one writes, and handles of one log fence one another: it ingests from one
thread. Its positions have no iteration, so a step's number is its index; its overview counts root items only; it has
no maintenance.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypedDict, cast

from adapters.base import Answer, ItemWriter
from item_data import RUN_ID, STEP, Counts, ItemState, Program, Step, Tree

_Event = Mapping[str, object]


class _Tagged(TypedDict):
    kind: str
    value: object


class _Field(TypedDict, total=False):
    value: _Tagged
    values: Sequence[_Tagged]


class _Position(TypedDict):
    step_index: int


class _Folded(TypedDict):
    status: str
    fields: Mapping[str, _Field]
    completed: Sequence[_Position]


class _Node(TypedDict):
    item: _Folded
    children: Sequence[str]


class _Tree(TypedDict):
    nodes: Mapping[str, _Node]


class _Overview(TypedDict):
    completed: int
    completed_steps: Mapping[str, int]


class _Writer(Protocol):
    def step_completed(
        self, position: Mapping[str, object], fields: Sequence[Mapping[str, object]]
    ) -> Sequence[_Event]: ...
    def item_terminal(self, terminal: str) -> _Event: ...


class _Handle(Protocol):
    def open_stream(
        self, item_id: str, *, run_id: str, writer_epoch: str, parent_item_id: str | None = None
    ) -> _Writer: ...
    def append(self, events: Iterable[_Event]) -> int: ...
    def append_checkpoint(self, events: Iterable[_Event]) -> int: ...
    def fold_item(self, item_id: str) -> _Folded | None: ...
    def overview(self) -> _Overview: ...
    def item_tree(self, root_item_id: str) -> _Tree: ...


class _HandleType(Protocol):
    def open(self, uri: str) -> _Handle: ...


_handles = cast("_HandleType", importlib.import_module("lance_context").DatagenStore)


class PeerItem:
    def __init__(self, handle: _Handle, item_id: str) -> None:
        parent = item_id.rpartition("/")[0] or None
        self._handle = handle
        self._writer = handle.open_stream(item_id, run_id=RUN_ID, writer_epoch="bench", parent_item_id=parent)

    def checkpoint(self, step: Step) -> None:
        writes = [
            {
                "name": field.name,
                "field_type": field.kind,
                "codec_version": 0,
                "op": field.op,
                "value": {"kind": field.kind, "value": field.value},
            }
            for field in step.fields
        ]
        position = {"step_name": STEP, "step_kind": "leaf", "index": step.number}
        self._handle.append_checkpoint(self._writer.step_completed(position, writes))

    def complete(self) -> None:
        self._handle.append([self._writer.item_terminal("completed")])


class PeerLog:
    def __init__(self, path: Path) -> None:
        self._handle = _handles.open(str(path))

    def start(self, item_id: str) -> ItemWriter:
        return PeerItem(self._handle, item_id)

    def ingest(self, program: Program, concurrency: int) -> None:
        for item_id, steps in program.items():
            item = self.start(item_id)
            for step in steps:
                item.checkpoint(step)
            item.complete()

    def fold(self, item_id: str) -> Answer[ItemState | None]:
        folded = self._handle.fold_item(item_id)
        return lambda: None if folded is None else _state(folded)

    def overview(self) -> Answer[Counts]:
        overview = self._handle.overview()
        return lambda: Counts("roots", overview["completed"], overview["completed_steps"])

    def tree(self, root: str, max_items: int) -> Answer[Tree]:
        tree = self._handle.item_tree(root)
        return lambda: Tree(
            {item_id: _state(node["item"]) for item_id, node in tree["nodes"].items()},
            {item_id: node["children"] for item_id, node in tree["nodes"].items()},
        )

    def maintain(self) -> None:
        """There is none."""

    def close(self) -> None:
        del self._handle


def _state(folded: _Folded) -> ItemState:
    return ItemState(
        folded["status"],
        [position["step_index"] for position in folded["completed"]],
        {name: _values(field) for name, field in folded["fields"].items()},
    )


def _values(field: _Field) -> list[object]:
    entries = field["values"] if "values" in field else [field["value"]] if "value" in field else []
    return [entry["value"] for entry in entries]
