"""`GenericStore` against a list of dicts: whatever is done in whatever order, reads equal the model.

The model keeps every state that the acknowledged writes went through. A `latest` read shows the last of them; a
`sealed` read shows one of them, whole, and never an earlier one than the same handle has shown before.

A crash leaves on storage what is there at this moment, which is what a copy of the directory holds: the machine
goes on with the copy, and the handles end with the original. (A kill in the middle of an operation is the
business of `tests.test_kill`.)
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lance_context import AlreadyExistsError, GenericStore, NotFoundError, UnsealedRowsWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_context import Row, SchemaDeclaration

SCHEMA: SchemaDeclaration = {
    "id": "string",
    "n": "int64",
    "tag": "string",
    "data": {"type": "binary", "blob": True},
}
IDS = ["", "a", "b", "O'Brien", "nul\0byte", "caf\u00e9", "\N{GRINNING FACE}", "z" * 300]
TAGS = [None, "", "x", "y"]

ids = st.sampled_from(IDS)
some_ids = st.lists(ids, max_size=4)
tags = st.sampled_from(TAGS)
handles = st.integers(0, 1)
rows = st.lists(st.tuples(ids, tags, st.sampled_from([None, b"", b"\0\1"])), max_size=5)

# What a filter means to the store and to the model.
FILTERS: list[tuple[str | dict[str, object] | None, dict[str, object] | None, Callable[[Row], bool]]] = [
    (None, None, lambda row: True),
    ("n % 2 = 0", None, lambda row: row["n"] % 2 == 0),
    ({"tag": "x"}, None, lambda row: row["tag"] == "x"),
    ("tag IS NULL", None, lambda row: row["tag"] is None),
    ("tag != $tag", {"tag": "x"}, lambda row: row["tag"] not in (None, "x")),
    ("id = $id OR n < $n", {"id": "O'Brien", "n": 7}, lambda row: row["id"] == "O'Brien" or row["n"] < 7),
    ("id > 'a' AND data IS NOT NULL", None, lambda row: row["id"] > "a" and row["data"] is not None),
    ("false", None, lambda row: False),
]

State = dict[str, "Row"]


class StoreMachine(RuleBasedStateMachine):
    """Two handles of one store, and what they must show."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="stateful-"))
        self.crashes = 0
        self.states: list[State] = [{}]
        self.handles: list[GenericStore] = []
        # The index in `states` below which no sealed read of the handle may fall.
        self.floors: list[int] = []
        self.number = 0
        self.step = 0

    @initialize(grace=st.sampled_from([0, 300]))
    def create(self, grace: int) -> None:
        GenericStore.open(self.path, SCHEMA, gc_grace=grace).close()
        self.open_handles()

    @property
    def path(self) -> Path:
        return self.directory / str(self.crashes)

    @property
    def latest(self) -> State:
        return self.states[-1]

    def open_handles(self) -> None:
        self.handles = [GenericStore.open_existing(self.path, maintenance=None) for _ in range(2)]
        # All that was durable at open belongs to sealed reads.
        self.floors = [len(self.states) - 1] * 2

    def everybody_sees_all(self) -> None:
        self.floors = [len(self.states) - 1] * 2

    def acknowledged(self, state: State) -> None:
        if state != self.latest:
            self.states.append(state)

    def numbered(self, drawn: list[tuple[str, str | None, bytes | None]]) -> list[Row]:
        """Rows, each with a number that no other row ever had."""
        self.number += len(drawn)
        first = self.number - len(drawn)
        return [{"id": id, "n": first + i, "tag": tag, "data": data} for i, (id, tag, data) in enumerate(drawn)]

    @rule(handle=handles, drawn=rows)
    def add(self, handle: int, drawn: list[tuple[str, str | None, bytes | None]]) -> None:
        added = self.numbered(drawn)
        assert self.handles[handle].add(added).count == len(added)
        self.acknowledged(self.latest | {row["id"]: row for row in added})

    @rule(handle=handles, drawn=rows)
    def add_new(self, handle: int, drawn: list[tuple[str, str | None, bytes | None]]) -> None:
        added = self.numbered(drawn)
        names = [row["id"] for row in added]
        if len(set(names)) < len(names) or self.latest.keys() & set(names):
            with pytest.raises(AlreadyExistsError) as taken:
                self.handles[handle].add(added, on_conflict="error")
            assert taken.value.code == "row-exists"
        else:
            assert self.handles[handle].add(added, on_conflict="error").count == len(added)
            self.acknowledged(self.latest | {row["id"]: row for row in added})

    @rule(handle=handles, drawn=rows)
    def add_missing(self, handle: int, drawn: list[tuple[str, str | None, bytes | None]]) -> None:
        added = self.numbered(drawn)
        missing: State = {}
        for row in added:
            if row["id"] not in self.latest:
                missing.setdefault(row["id"], row)
        assert self.handles[handle].add(added, on_conflict="ignore").count == len(missing)
        self.acknowledged(self.latest | missing)

    @rule(handle=handles, id=ids, tag=tags)
    def update(self, handle: int, id: str, tag: str | None) -> None:
        self.number += 1
        changes: dict[str, object] = {"n": self.number, "tag": tag}
        if id not in self.latest:
            with pytest.raises(NotFoundError) as missing:
                self.handles[handle].update(id, changes)
            assert missing.value.code == "row-not-found"
        else:
            self.handles[handle].update(id, changes)
            self.acknowledged(self.latest | {id: self.latest[id] | changes})

    @rule(handle=handles, chosen=some_ids)
    def delete(self, handle: int, chosen: list[str]) -> None:
        dead = self.latest.keys() & set(chosen)
        assert self.handles[handle].delete(chosen).count == len(dead)
        self.acknowledged({id: row for id, row in self.latest.items() if id not in dead})

    @rule(handle=handles, chosen=st.sampled_from(FILTERS[1:]))
    def delete_where(
        self,
        handle: int,
        chosen: tuple[str | dict[str, object], dict[str, object] | None, Callable[[Row], bool]],
    ) -> None:
        filter, params, matches = chosen
        kept = {id: row for id, row in self.latest.items() if not matches(row)}
        deleted = self.handles[handle].delete_where(filter, params=params).count
        assert deleted == len(self.latest) - len(kept)
        self.acknowledged(kept)

    @rule(handle=handles)
    def flush(self, handle: int) -> None:
        self.handles[handle].flush()
        self.everybody_sees_all()

    @rule(handle=handles)
    def merge(self, handle: int) -> None:
        self.handles[handle].merge()

    @rule(handle=handles)
    def optimize(self, handle: int) -> None:
        self.handles[handle].optimize()

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = GenericStore.open_existing(self.path, maintenance=None)
        self.floors[handle] = len(self.states) - 1

    @precondition(lambda self: self.crashes < 4)
    @rule()
    def crash(self) -> None:
        before, original = self.handles, self.path
        self.crashes += 1
        shutil.copytree(original, self.path)
        self.open_handles()
        for handle in before:
            handle.close()

    @invariant()
    def latest_is_the_model(self) -> None:
        self.step += 1
        expected = [self.latest[id] for id in sorted(self.latest)]
        plain = [without_blob(row) for row in expected]
        for handle in self.handles:
            assert handle.list(read="latest") == plain
        handle = self.handles[self.step % len(self.handles)]
        filter, params, matches = FILTERS[self.step % len(FILTERS)]
        matching = [row for row in expected if matches(row)]
        names = [row["id"] for row in matching]

        assert handle.list(filter=filter, params=params, columns=["n", "tag", "data"], read="latest") == matching
        assert handle.count(filter, params=params, read="latest") == len(matching)
        columns = ["n", "tag", "data"] if self.step % 2 else None
        streamed = list(handle.iter(filter=filter, params=params, columns=columns, read="latest"))
        assert sorted((row["id"], row["n"]) for row in streamed) == [(row["id"], row["n"]) for row in matching]
        asked = [IDS[(self.step * 3 + i) % len(IDS)] for i in (0, 1, 0, 5)]
        known = {row["id"]: without_blob(row) for row in expected}
        assert handle.get_many(asked, read="latest") == [known.get(id) for id in asked]
        assert handle.get(asked[0], columns=["data"], read="latest") == (
            {"id": asked[0], "data": self.latest[asked[0]]["data"]} if asked[0] in known else None
        )
        assert handle.exists(asked[1], read="latest") == (asked[1] in known)

        limit, offset, after = self.step % 4, self.step % 3, IDS[self.step % len(IDS)]
        page = handle.list(filter=filter, params=params, columns=[], limit=limit, offset=offset, read="latest")
        assert [row["id"] for row in page] == names[offset : offset + limit]
        behind = handle.list(filter=filter, params=params, columns=[], limit=limit, after=after, read="latest")
        assert [row["id"] for row in behind] == [id for id in names if id > after][:limit]

    @invariant()
    def sealed_is_an_earlier_state_and_never_goes_back(self) -> None:
        for n, handle in enumerate(self.handles):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnsealedRowsWarning)
                shown = {row["id"]: row for row in handle.list(columns=["n", "tag", "data"], read="sealed")}
            later = range(self.floors[n], len(self.states))
            fitting = next((index for index in later if self.states[index] == shown), None)
            assert fitting is not None, f"handle {n} shows {shown}, which is no state from number {self.floors[n]} on"
            self.floors[n] = fitting

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()
        shutil.rmtree(self.directory)


def without_blob(row: Row) -> Row:
    return {column: value for column, value in row.items() if column != "data"}


@pytest.mark.parametrize("profile", ["short", pytest.param("soak", marks=pytest.mark.soak)])
def test_any_sequence_of_operations(profile: str) -> None:
    run_state_machine_as_test(StoreMachine, settings=settings.get_profile(profile))
