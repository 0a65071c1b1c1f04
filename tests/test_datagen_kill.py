"""An agent is killed at any moment and resumed: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lance_context import DatagenStore
from tests.child import Child, module
from tests.killed_agent import ITEMS, expected, steps

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import Finding

AGENT = module("tests.killed_agent")
KEYS = [str(n) for n in range(ITEMS)]


def completed_steps(store: DatagenStore) -> Counter[str]:
    """How often each position completed, over all streams."""
    return Counter(
        f"{event.get('item_id')} "
        f"{'' if event.get('enclosing_step') is None else str(event.get('enclosing_step')) + '/'}"
        f"{event.get('step_name')} {event.get('iteration')}"
        for _, event in store.events()
        if event.get("event_type") == "STEP_COMPLETED"
    )


def check(path: Path, acked: Counter[str]) -> None:
    """What was acknowledged is there, once, and every item folds without a problem."""
    assert [step for step, count in acked.items() if count > 1] == [], "a step was done again"
    with DatagenStore.open_existing(path, read_only=True) as store:
        done = completed_steps(store)
        assert set(acked) <= set(done)
        assert [step for step, count in done.items() if count > 1] == []
        for key in KEYS:
            folded = store.fold_item(key, strict=True)
            if folded is not None:
                assert folded.failures == []
                drafts = folded.values("drafts", str)
                assert drafts == expected(key)["drafts"][: len(drafts)]


def errors_found(path: Path) -> list[Finding]:
    """What the doctor finds wrong; files that wait to be collected are not."""
    return [finding for finding in DatagenStore.doctor(path) if finding.severity == "error"]


@pytest.mark.parametrize("rounds", [20, pytest.param(300, marks=pytest.mark.soak)])
def test_killed_and_resumed(path: Path, rounds: int) -> None:
    choose = random.Random(rounds)
    acked: Counter[str] = Counter()
    DatagenStore.open(path, gc_grace=0).close()
    total = sum(1 for key in KEYS for _ in steps(key))
    per_round = max(1, total // rounds)
    for round in range(rounds):
        with Child(AGENT, path, f"run {round}", "", *KEYS) as child:
            # The first round dies at once, the others after a few steps.
            for _ in range(0 if round == 0 else choose.randrange(per_round + 1)):
                line = child.read()
                if line.startswith("end"):
                    break
                acked[line] += 1
            acked.update(line for line in child.kill() if not line.startswith("end"))
        check(path, acked)
    with Child(AGENT, path, "last run", "", *KEYS) as child:
        rest = child.finish().splitlines()
    acked.update(rest[:-1])
    check(path, acked)
    assert rest[-1].startswith("end ")
    assert rest[-1].endswith(" 0"), "no item failed"
    with DatagenStore.open_existing(path, read_only=True) as store:
        done = completed_steps(store)
        for key in KEYS:
            assert set(steps(key)) <= set(done)
            item = store.fold_item(key, strict=True)
            assert item is not None
            wanted = expected(key)
            assert (item.status, item.value("outline"), item.value("last")) == (
                "completed",
                wanted["outline"],
                wanted["last"],
            )
            assert item.values("drafts", str) == wanted["drafts"]
            assert len(item.values("covers")) == wanted["covers"]
            assert store.load_blob(item, "covers", 0) == wanted["drafts"][0].encode() * 20
    assert errors_found(path) == []


def test_two_processes_write_one_log(path: Path) -> None:
    DatagenStore.open(path, gc_grace=0).close()
    keys = {"a": [f"a{n}" for n in range(8)], "b": [f"b{n}" for n in range(8)]}
    with (
        Child(AGENT, path, "run a", "a", *keys["a"]) as first,
        Child(AGENT, path, "run b", "b", *keys["b"]) as second,
        DatagenStore.open_existing(path, read_only=True) as notebook,
    ):
        acked: set[str] = set()
        for _ in range(21):
            acked |= {first.read(), second.read()}
            assert acked <= set(completed_steps(notebook)), "durable steps are seen at once, a new writer's too"
        for child in (first, second):
            assert child.finish().splitlines()[-1] == "end 8 0 0"
        overview = notebook.overview()
        assert (overview.items, overview.completed, overview.failures) == (16, 16, 0)
        for key in (*keys["a"], *keys["b"]):
            item = notebook.fold_item(key, strict=True)
            assert item is not None
            assert item.values("drafts", str) == expected(key)["drafts"]
            assert item.fenced == [], "writers with ids of their own do not fence each other"
    assert errors_found(path) == []


def test_a_second_process_takes_over_a_stopped_ones_item(path: Path) -> None:
    DatagenStore.open(path, gc_grace=0).close()
    with Child(AGENT, path, "run a", "a", "0") as first:
        first.read()
        first.stop()
        with Child(AGENT, path, "run b", "b", "0") as second:
            assert second.finish().splitlines()[-1] == "end 1 0 0"
        first.resume()
        assert first.finish().splitlines()[-1] == "end 0 0 1", "it finds that it was overtaken"
    with DatagenStore.open_existing(path, read_only=True) as store:
        item = store.fold_item("0")
        assert item is not None
        assert (item.status, item.values("drafts", str), item.last_attempt) == ("completed", expected("0")["drafts"], 1)
        assert store.overview().completed == 1
