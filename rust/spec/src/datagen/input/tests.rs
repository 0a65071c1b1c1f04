use std::borrow::Cow;

use super::super::columns::EVENT_KEYS;
use super::super::testing::foreign;
use super::super::{Cell, Event, EventType};
use super::EventInput;
use crate::{Error, Kind, Value};

fn text(text: &str) -> Value<'static> {
    Value::Str(Cow::Owned(text.to_owned()))
}

/// The keys of `event` as a writer's mapping has them.
fn keys(event: &Event) -> EventInput {
    let mut input = EventInput::default();
    for (key, value) in event.to_row() {
        if !key.starts_with("value_") {
            input.set(3, key, value.into_owned()).unwrap();
        }
    }
    if let Some(field) = &event.field {
        input.set_value(field.value.clone());
    }
    input
}

#[track_caller]
fn refused(result: crate::Result<impl std::fmt::Debug>, key: &str, part: &str) {
    let error: Error = result.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Row, "invalid-event"), "{error}");
    assert_eq!((error.row(), error.column()), (Some(3), Some(key)), "{error}");
    assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
}

#[test]
fn every_type_of_event_is_read_back_from_its_keys() {
    for event_type in EventType::ALL {
        let event = foreign(0, "e", 4, event_type);
        assert_eq!(keys(&event).into_event(3).unwrap(), event);
    }
}

#[test]
fn unknown_keys_are_named_with_the_closest_known_one() {
    let mut input = EventInput::default();
    refused(input.set(3, "item_sq", Value::Int(1)), "item_sq", "did you mean `item_seq`?");
    refused(input.set(3, "value_i64", Value::Int(1)), "value_i64", "unknown key");
    refused(input.set(3, "value", Value::Int(1)), "value", "set_value");
    for key in EVENT_KEYS {
        input.set(3, key, Value::Null).unwrap();
    }
}

#[test]
fn values_of_another_type_or_range_are_refused() {
    let cases = [
        ("event_id", Value::Int(1), "expected str, got int"),
        ("item_id", text("a:b"), "from_source_key"),
        ("attempt", Value::Int(1 << 31), "does not fit into 32 bits"),
        ("item_seq", text("1"), "expected int"),
        ("event_type", text("FIELD_SETT"), "did you mean `FIELD_SET`?"),
        ("step_kind", text("tree"), "map_reduce"),
        ("iteration", Value::Int(1), "list of int"),
        ("iteration", Value::List(vec![text("1")]), "expected int"),
        ("status", text("done"), "possible: running"),
        ("query_tags", text("{}"), "expected JSON, got str"),
        ("query_tags", Value::Json("{".into()), "JSON"),
        ("attributes", Value::Int(1), "JSON"),
        ("event_ts", Value::Timestamp { micros: 0, aware: false }, "naive"),
        ("schema_version", Value::Bool(true), "expected int"),
    ];
    for (key, value, part) in cases {
        refused(EventInput::default().set(3, key, value), key, part);
    }
}

#[test]
fn missing_keys_are_named() {
    let mut input = EventInput::default();
    refused(input.clone().into_event(3), "event_type", "missing");
    input.set(3, "event_type", text("FIELD_SET")).unwrap();
    let event = foreign(0, "e", 4, EventType::FieldSet);
    let mut missing = Vec::new();
    // Each refusal names the next missing key, until none is.
    while let Err(error) = input.clone().into_event(3) {
        let key = error.column().unwrap().to_owned();
        match event.to_row().into_iter().find(|(column, _)| *column == key) {
            Some((_, value)) => input.set(3, &key, value.into_owned()).unwrap(),
            None => input.set_value(Cell::Int(4)),
        }
        missing.push(key);
    }
    missing.sort();
    let expected = [
        "attempt",
        "checkpoint_id",
        "event_id",
        "event_ts",
        "field_name",
        "field_type",
        "item_id",
        "item_seq",
        "run_id",
        "schema_version",
        "step_name",
        "value",
        "writer_epoch",
    ];
    assert_eq!(missing, expected);
    assert_eq!(input.into_event(3).unwrap(), event);
}

#[test]
fn keys_of_another_event_type_are_refused() {
    let cases = [
        ("step_name", text("s")),
        ("step_kind", text("leaf")),
        ("step_index", Value::Int(0)),
        ("enclosing_step", text("s")),
        ("selector_step", text("s")),
        ("iteration", Value::List(vec![])),
        ("field_name", text("x")),
        ("field_type", text("x")),
        ("codec_version", Value::Int(0)),
    ];
    for (key, value) in cases {
        let mut input = keys(&foreign(0, "e", 1, EventType::ItemCreated));
        input.set(3, key, value).unwrap();
        refused(input.into_event(3), key, "ITEM_CREATED does not have it");
    }
    let mut input = keys(&foreign(0, "e", 1, EventType::StepStarted));
    input.set_value(Cell::Int(1));
    refused(input.into_event(3), "value", "STEP_STARTED does not have it");
}

#[test]
fn ancestors_are_those_of_the_item() {
    let cases = [("root_item_id", "6", "`5`"), ("parent_item_id", "5", "null")];
    for (key, given, right) in cases {
        let mut input = keys(&foreign(0, "e", 1, EventType::ItemCreated));
        input.set(3, key, text(given)).unwrap();
        refused(input.into_event(3), key, right);
    }
    let mut child = keys(&foreign(0, "e", 1, EventType::ItemCreated));
    child.set(3, "item_id", text("5/s:0")).unwrap();
    child.set(3, "parent_item_id", text("6")).unwrap();
    refused(child.into_event(3), "parent_item_id", "`5`");
}

#[test]
fn events_of_a_newer_release_are_refused() {
    for version in [0, 2] {
        let mut input = keys(&foreign(0, "e", 1, EventType::ItemCreated));
        input.set(3, "schema_version", Value::Int(version)).unwrap();
        refused(input.into_event(3), "schema_version", "upgrade");
    }
}
