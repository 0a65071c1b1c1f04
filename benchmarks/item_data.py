"""The items that the log workloads write and expect back: one root with children, each a run of equal steps.

Like a row, a step depends on its item and its number alone.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from data import SEED, check, prose

RUN_ID = "bench"
ROOT = "0"
STEP = "draft"
EVENTS_A_STEP = 4
"""Three fields, and the step's completion."""

Status: TypeAlias = Literal["running", "completed"]
Value: TypeAlias = str | float | int


@dataclass(frozen=True)
class Field:
    """One write of a field; `kind` names the type of its value."""

    name: str
    kind: Literal["str", "float", "int"]
    op: Literal["set", "append"]
    value: Value


@dataclass(frozen=True)
class Step:
    """One completed step: `STEP` for the `number`-th time."""

    number: int
    fields: Sequence[Field]


@dataclass(frozen=True)
class ItemState:
    """What an item folds into: the numbers of its steps in order, and its fields' values, oldest first."""

    status: str
    steps: Sequence[int]
    fields: Mapping[str, Sequence[object]]


@dataclass(frozen=True)
class Counts:
    """What an overview says: how many `counted` things have completed, and how many steps of each name."""

    counted: Literal["items", "roots"]
    completed: int
    steps: Mapping[str, int]


@dataclass(frozen=True)
class Tree:
    """Folded items by id, and the children of each."""

    items: Mapping[str, ItemState]
    children: Mapping[str, Sequence[str]]


Program: TypeAlias = Mapping[str, Sequence[Step]]
"""The steps of each item, by id; parents come before their children."""


def child_id(number: int) -> str:
    """The root's child of that number."""
    return f"{ROOT}/expand:{number}"


def steps(item_id: str, count: int) -> list[Step]:
    """The first `count` steps of an item: a growing list of texts, and two fields that each step sets anew."""
    return [_step(item_id, number) for number in range(count)]


def _step(item_id: str, number: int) -> Step:
    rng = random.Random(f"{SEED} {item_id} {number}")
    return Step(
        number,
        (
            Field("texts", "str", "append", prose(rng)),
            Field("score", "float", "set", rng.random()),
            Field("tokens", "int", "set", rng.randrange(1_000)),
        ),
    )


def program(children: int, steps_each: int) -> Program:
    """The root and its children."""
    ids = [ROOT, *map(child_id, range(children))]
    return {item_id: steps(item_id, steps_each) for item_id in ids}


def check_item(got: ItemState | None, item_id: str, count: int, status: Status) -> None:
    """`got` is that item after `count` steps."""
    if got is None:
        check(False, f"`{item_id}` is missing")
        return
    taken = steps(item_id, count)
    values: dict[str, list[object]] = {}
    for step in taken:
        for field in step.fields:
            kept = values.get(field.name, []) if field.op == "append" else []
            values[field.name] = [*kept, field.value]
    check(got.status == status, f"`{item_id}` is {got.status} instead of {status}")
    numbers = [step.number for step in taken]
    check(list(got.steps) == numbers, f"`{item_id}` has the steps {list(got.steps)} instead of {numbers}")
    found = {name: list(field) for name, field in got.fields.items()}
    wrong = sorted(name for name in found.keys() | values.keys() if found.get(name) != values.get(name))
    check(not wrong, f"`{item_id}`: the fields {wrong} differ from what was written")


def check_counts(got: Counts, children: int, steps_each: int) -> None:
    """`got` counts the root and its children."""
    completed = 1 if got.counted == "roots" else 1 + children
    check(got.completed == completed, f"{got.completed} {got.counted} have completed instead of {completed}")
    taken = {STEP: (1 + children) * steps_each}
    check(dict(got.steps) == taken, f"the overview counts the steps {dict(got.steps)} instead of {taken}")


def check_tree(got: Tree, children: int, steps_each: int) -> None:
    """`got` has the root and its children, each folded and linked."""
    ids = [child_id(number) for number in range(children)]
    check(set(got.items) == {ROOT, *ids}, f"the tree has {len(got.items)} items instead of {1 + children}")
    for item_id in (ROOT, *ids):
        check_item(got.items[item_id], item_id, steps_each, "completed")
        expected = sorted(ids) if item_id == ROOT else []
        linked = sorted(got.children[item_id])
        check(linked == expected, f"`{item_id}` has {len(linked)} children instead of {len(expected)}")
