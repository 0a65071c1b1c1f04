"""The stream writer: what it stamps, and what it refuses. No store."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import BaseModel, Field

from lance_context import DatagenStreamWriter, RowError, StateError, datagen_event_id

if TYPE_CHECKING:
    from lance_context import Event, FieldWrite, StepPosition

DRAFT: StepPosition = {"step_name": "draft"}


def new_writer() -> DatagenStreamWriter:
    writer = DatagenStreamWriter("5", run_id="r", writer_epoch="e")
    writer.item_created()
    return writer


def write(value: object) -> FieldWrite:
    return {"field_name": "f", "field_type": "t", "value": value}


def stamped(value: object) -> dict[str, Any]:
    """The cell of a value."""
    event = new_writer().step_completed(DRAFT, [write(value)])[0]
    cell = event.get("value")
    assert cell is not None
    return cell


def test_a_stream_is_numbered_and_its_ids_follow_from_the_places() -> None:
    writer = DatagenStreamWriter("5/expand:0", run_id="r", writer_epoch="e")
    assert (writer.next_seq, writer.attempt, writer.writer_epoch, writer.run_id) == (1, 0, "e", "r")
    before = datetime.now(UTC)
    events: list[Event] = [
        writer.item_created(query_tags={"kind": "essay"}, config={"model": "m"}),
        writer.step_started({"step_name": "refine", "step_kind": "loop"}),
        *writer.step_completed({"step_name": "draft", "iteration": (1, 0)}, [write("x"), {**write(1), "op": "append"}]),
        writer.item_failed(DRAFT, "ValueError", "no", "Traceback"),
        writer.item_terminal("filtered", attributes={"reason": "short"}),
    ]
    assert [event.get("event_type") for event in events] == [
        "ITEM_CREATED",
        "STEP_STARTED",
        "FIELD_SET",
        "FIELD_APPEND",
        "STEP_COMPLETED",
        "FAILED",
        "TERMINAL",
    ]
    assert [event.get("item_seq") for event in events] == list(range(1, 8))
    assert [event.get("checkpoint_id") for event in events] == [f"0:e:{n}" for n in (1, 2, 3, 3, 3, 6, 7)]
    for event, ordinal in zip(events, (0, 0, 0, 1, 2, 0, 0), strict=True):
        expected = datagen_event_id("5/expand:0", event.get("checkpoint_id", ""), ordinal)
        assert event.get("event_id") == expected
        assert (event.get("item_id"), event.get("root_item_id"), event.get("parent_item_id")) == (
            "5/expand:0",
            "5",
            "5",
        )
        assert (event.get("attempt"), event.get("run_id"), event.get("schema_version")) == (0, "r", 1)
        assert before <= event.get("event_ts", before) <= datetime.now(UTC)
        assert event.keys() == events[0].keys()
    assert events[0].get("query_tags") == {"kind": "essay"}
    assert (events[0].get("status"), events[5].get("status"), events[6].get("status")) == (
        "running",
        "failed",
        "filtered",
    )
    assert events[2].get("iteration") == [1, 0]
    assert events[6].get("attributes") == {"reason": "short"}
    assert (events[5].get("error_type"), events[5].get("error_dump"), events[5].get("traceback")) == (
        "ValueError",
        "no",
        "Traceback",
    )
    assert writer.next_seq == 8


def test_the_config_is_kept_as_a_fingerprint_of_its_meaning() -> None:
    def fingerprint(config: object) -> object:
        return DatagenStreamWriter("5", run_id="r").item_created(config=config).get("config_hash")

    # printf '{"a":"x","b":1}' | sha256sum
    expected = "cdab067e9f3beb32d1252cfd63e492592fecbf591b0d08cadb24bb17f3864246"
    assert fingerprint({"b": 1, "a": "x"}) == fingerprint({"a": "x", "b": 1}) == expected
    assert fingerprint({"a": "x", "b": 2}) != expected
    assert fingerprint(None) is None


def test_an_epoch_is_a_fresh_uuid7() -> None:
    epochs = [DatagenStreamWriter("5", run_id="r").writer_epoch for _ in range(3)]
    assert len(set(epochs)) == 3
    for epoch in epochs:
        parsed = uuid.UUID(epoch)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
        assert abs((parsed.int >> 80) / 1000 - datetime.now(UTC).timestamp()) < 60


class Plan(BaseModel):
    """A model with what models have."""

    title: str = Field(alias="Title")
    steps: list[int] = []


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("", {"kind": "str", "value": ""}),
        ("naïve \x00 💡", {"kind": "str", "value": "naïve \x00 💡"}),
        (7, {"kind": "int", "value": 7}),
        (-(2**63), {"kind": "int", "value": -(2**63)}),
        (2**63, {"kind": "json", "value": str(2**63)}),
        (1.0, {"kind": "float", "value": 1.0}),
        (math.inf, {"kind": "float", "value": math.inf}),
        (True, {"kind": "bool", "value": True}),
        (None, {"kind": "json", "value": "null"}),
        ([1, "a", None], {"kind": "json", "value": '[1,"a",null]'}),
        ((1.5,), {"kind": "json", "value": "[1.5]"}),
        ({"b": 1, "a": {}}, {"kind": "json", "value": '{"b":1,"a":{}}'}),
        (Plan(Title="t", steps=[1]), {"kind": "json", "value": '{"Title":"t","steps":[1]}'}),
        ([Plan(Title="t")], {"kind": "json", "value": '[{"Title":"t","steps":[]}]'}),
        (b"", {"kind": "blob", "bytes": b"", "size": 0, "checksum": "2d06800538d394c2"}),
        (bytearray(b"ab"), {"kind": "blob", "bytes": b"ab", "size": 2, "checksum": "a873719c24d5735c"}),
        (np.int32(3), {"kind": "int", "value": 3}),
        (np.float32(0.5), {"kind": "float", "value": 0.5}),
        (np.bool_(True), {"kind": "bool", "value": True}),
        (uuid.UUID(int=1), {"kind": "str", "value": "00000000-0000-0000-0000-000000000001"}),
    ],
    ids=str,
)
def test_native_values_are_tagged_by_their_type(value: object, cell: dict[str, Any]) -> None:
    assert stamped(value) == cell


def test_nan_is_a_float() -> None:
    cell = stamped(math.nan)
    assert cell["kind"] == "float"
    assert math.isnan(cell["value"])


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), {1: "a"}, [math.nan], Decimal("1.5"), datetime.now(UTC), "\ud800", [{"deep": {1, 2}}], Plan],
    ids=lambda value: type(value).__name__,
)
def test_what_no_field_can_hold_names_the_write_and_the_field(value: object) -> None:
    writer = new_writer()
    with pytest.raises(RowError, match="`f`") as raised:
        writer.step_completed(DRAFT, [write(1), write(value)])
    assert (raised.value.code, raised.value.row, raised.value.column) == ("invalid-event", 1, "value")
    assert writer.next_seq == 2, "a refused call changes nothing"
    assert len(writer.step_completed(DRAFT, [write(1)])) == 2


def test_unknown_and_missing_keys_are_named() -> None:
    writer = new_writer()
    with pytest.raises(RowError, match="codec") as raised:
        writer.step_completed(DRAFT, [write(1), {**write(1), "codec": 2}])  # type: ignore[typeddict-unknown-key]
    assert (raised.value.row, raised.value.column) == (1, "codec")
    with pytest.raises(RowError, match="missing") as raised:
        writer.step_completed(DRAFT, [{"field_name": "f", "value": 1}])  # type: ignore[typeddict-item]
    assert (raised.value.row, raised.value.column) == (0, "field_type")
    with pytest.raises(RowError, match="unknown key") as raised:
        writer.step_started({"step_name": "s", "index": 1})  # type: ignore[typeddict-unknown-key]
    assert raised.value.column == "index"
    with pytest.raises(RowError) as raised:
        writer.step_started({"step_kind": "loop"})  # type: ignore[typeddict-item]
    assert raised.value.column == "step_name"
    with pytest.raises(RowError, match="map_reduce") as raised:
        writer.step_started({"step_name": "s", "step_kind": "map"})  # type: ignore[typeddict-item]
    assert raised.value.column == "step_kind"
    assert writer.next_seq == 2


def test_the_same_position_twice_in_one_attempt() -> None:
    writer = new_writer()
    writer.step_completed(DRAFT)
    with pytest.raises(StateError, match="iteration") as raised:
        writer.step_completed({"step_name": "draft", "step_kind": "leaf", "step_index": 0, "iteration": []})
    assert raised.value.code == "repeated-position"
    assert len(writer.step_completed({"step_name": "draft", "iteration": [0]})) == 1
    assert len(writer.step_completed({"step_name": "draft", "enclosing_step": "refine"})) == 1


def test_a_writer_that_has_ended_refuses_everything() -> None:
    writer = new_writer()
    writer.item_terminal()
    calls = [
        lambda: writer.item_terminal("filtered"),
        lambda: writer.step_started(DRAFT),
        lambda: writer.step_completed(DRAFT),
        lambda: writer.item_failed(DRAFT, "E"),
    ]
    for call in calls:
        with pytest.raises(StateError) as raised:
            call()
        assert raised.value.code == "item-terminal"
    with pytest.raises(StateError) as raised:
        writer.item_created()
    assert raised.value.code == "writer-order"


def test_a_bare_writer_begins_with_the_creation() -> None:
    writer = DatagenStreamWriter("5", run_id="r")
    with pytest.raises(StateError) as raised:
        writer.step_completed(DRAFT)
    assert raised.value.code == "writer-order"


@pytest.mark.parametrize(
    "arguments", [{"run_id": ""}, {"run_id": "r", "writer_epoch": ""}, {"run_id": "r", "writer_epoch": "a\n"}]
)
def test_empty_and_unprintable_arguments(arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"run_id|writer_epoch"):
        DatagenStreamWriter("5", **arguments)


def test_bad_json_arguments_are_named() -> None:
    writer = DatagenStreamWriter("5", run_id="r")
    with pytest.raises(ValueError, match="query_tags"):
        writer.item_created(query_tags=[1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="attributes"):
        writer.item_created(attributes={1, 2})
    with pytest.raises(ValueError, match="config"):
        writer.item_created(config=math.nan)
    with pytest.raises(ValueError, match="status"):
        new_writer().item_terminal("failed")  # type: ignore[arg-type]
