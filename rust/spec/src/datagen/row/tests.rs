use std::borrow::Cow;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::columns::{EVENT_KEYS, FIELD_WRITE_KEYS, OUTLINE_COLUMNS, POSITION_KEYS, columns};
use super::super::testing::{foreign, garbage, leaf, set};
use super::super::{Cell, Event, EventType, FieldWrite, ItemId, Outline, StepKind, StepPosition};
use super::{DamagedEvent, Stored};
use crate::{Kind, Value};

fn text(text: &str) -> Value<'static> {
    Value::Str(Cow::Owned(text.to_owned()))
}

/// An event with every optional part of its type.
fn full(event_type: EventType) -> Event {
    let mut event = foreign(1, "e", 4, event_type);
    event.item_id = ItemId::parse("a%2Fb/s:0").unwrap();
    event.resumed_from = Some("r".to_owned());
    event.attributes = Some(r#"{"n": 12345678901234567890.10}"#.to_owned());
    if event_type.has_position() {
        event.position = Some(StepPosition {
            step_name: "d".to_owned(),
            step_kind: StepKind::SubPipeline,
            step_index: 3,
            enclosing_step: Some("f".to_owned()),
            selector_step: Some(String::new()),
            iteration: vec![i64::MAX, 0],
        });
    }
    match event_type {
        EventType::ItemCreated => {
            event.query_tags = Some("{}".to_owned());
            event.config_hash = Some("h".to_owned());
        }
        EventType::Failed => {
            event.error_dump = Some("d".to_owned());
            event.traceback = Some("t".to_owned());
        }
        _ => {}
    }
    event
}

fn cells() -> [Cell; 7] {
    [
        Cell::Int(i64::MIN),
        Cell::Float(f64::from_bits(0xfff8_0000_0000_1234)),
        Cell::Bool(false),
        Cell::Str(String::new()),
        Cell::Json(" [1.0, 1e300] ".to_owned()),
        Cell::blob(vec![0, 255]),
        Cell::blob(vec![]),
    ]
}

fn with_value(value: Cell) -> Event {
    Event { field: Some(FieldWrite { value, codec_version: 7, ..set("x", 0) }), ..full(EventType::FieldSet) }
}

fn damaged(row: Vec<(&'static str, Value<'_>)>) -> DamagedEvent {
    match Stored::from_row(row) {
        Stored::Damaged(damaged) => damaged,
        Stored::Event(event) => panic!("{event:?}"),
    }
}

#[test]
fn every_event_reads_back_from_its_row() {
    let events = EventType::ALL.map(full).into_iter().chain(cells().map(with_value));
    for event in events {
        assert_eq!(Stored::from_row(event.to_row()), Stored::Event(Arc::new(event)));
    }
}

#[test]
fn a_row_has_declared_columns_only_and_all_that_are_required() {
    let columns = columns();
    for event in EventType::ALL.map(full).into_iter().chain(cells().map(with_value)) {
        let row = event.to_row();
        for (name, value) in &row {
            assert!(columns.iter().any(|column| column.name == *name), "{name}");
            assert_eq!(row.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
            assert_ne!(*value, Value::Null);
        }
        for column in columns.iter().filter(|column| !column.nullable) {
            assert!(row.iter().any(|(name, _)| *name == column.name), "{}", column.name);
        }
    }
}

#[test]
fn columns_and_keys_name_the_same_things() {
    let columns: Vec<String> = columns().into_iter().map(|column| column.name).collect();
    for key in EVENT_KEYS {
        assert_eq!(columns.iter().any(|name| name == key), key != "value", "{key}");
    }
    for column in &columns {
        assert_eq!(EVENT_KEYS.contains(&column.as_str()), !column.starts_with("value_"), "{column}");
    }
    assert_eq!(columns.len(), EVENT_KEYS.len() - 1 + 9);
    assert!(POSITION_KEYS.iter().all(|key| EVENT_KEYS.contains(key)));
    assert!(FIELD_WRITE_KEYS.iter().all(|key| *key == "op" || EVENT_KEYS.contains(key)));
    assert!(OUTLINE_COLUMNS.iter().all(|name| columns.iter().any(|column| column == name)));
}

#[test]
fn the_ancestors_are_stored_for_their_indexes() {
    let event = full(EventType::ItemCreated);
    let row = event.to_row();
    let cell = |name: &str| row.iter().find_map(|(column, value)| (*column == name).then(|| value.clone()));
    assert_eq!(cell("root_item_id"), Some(text("a%2Fb")));
    assert_eq!(cell("parent_item_id"), Some(text("a%2Fb")));
    let root =
        foreign(0, "e", 1, EventType::ItemCreated).to_row().into_iter().any(|(name, _)| name == "parent_item_id");
    assert!(!root);
}

#[test]
fn a_blob_that_was_not_read_is_unloaded_and_a_damaged_one_does_not_hide_its_event() {
    let event = with_value(Cell::blob(b"pixels".to_vec()));
    let without = event.to_row().into_iter().filter(|(column, _)| *column != "value_blob");
    assert_eq!(Stored::from_row(without), Stored::from(event.clone().without_blob_bytes()));
    let torn = event.to_row().into_iter().map(|(column, value)| match column {
        "value_blob" => (column, Value::Bytes(Cow::Borrowed(b"pixel"))),
        _ => (column, value),
    });
    let Stored::Event(torn) = Stored::from_row(torn) else { panic!("the event is readable") };
    let error = torn.field.as_ref().unwrap().value.verify(&torn.event_id).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Format, "blob-damaged"));
    event.field.unwrap().value.verify(&event.event_id).unwrap();
}

#[test]
fn a_row_that_is_no_event_says_what_is_wrong_and_keeps_what_can_be_read() {
    let event = with_value(Cell::Int(1));
    let changes: [(&str, Value<'static>, &str); 12] = [
        ("event_type", text("FIELD_GET"), "FIELD_GET"),
        ("event_type", Value::Null, "event_type"),
        ("writer_epoch", Value::Null, "writer_epoch"),
        ("step_kind", text("tree"), "tree"),
        ("field_name", Value::Null, "field_name"),
        ("value_kind", Value::Null, "value"),
        ("value_kind", text("str"), "str"),
        ("value_kind", text("blob"), "blob"),
        ("value_i64", Value::Null, "missing"),
        ("value_i64", text("1"), "value_i64"),
        ("schema_version", Value::Int(99), "upgrade"),
        ("root_item_id", text("z"), "root_item_id"),
    ];
    for (column, value, part) in changes {
        let mut row = event.to_row();
        row.iter_mut().filter(|(name, _)| *name == column).for_each(|(_, cell)| *cell = value.clone());
        let damaged = damaged(row);
        assert!(damaged.message.contains(part), "`{part}` is not in: {}", damaged.message);
        let known = (damaged.event_id.as_ref(), damaged.item_id.as_deref(), damaged.attempt, damaged.item_seq);
        assert_eq!(known, (Some(&event.event_id), Some("a%2Fb/s:0"), Some(1), Some(4)));
    }
    let mut row = event.to_row();
    row.iter_mut().filter(|(name, _)| *name == "item_id").for_each(|(_, cell)| *cell = text("a:b"));
    assert_eq!(damaged(row).item_id.as_deref(), Some("a:b"), "kept as it is");
    assert_eq!(
        Stored::from_row([]),
        Stored::Damaged(DamagedEvent {
            message: "`event_type`: missing; every event has it".to_owned(),
            ..DamagedEvent::default()
        })
    );
}

#[test]
fn the_null_of_json_is_the_value_null_and_no_attribute() {
    let event = with_value(Cell::Json("null".to_owned()));
    let nulled = event.to_row().into_iter().map(|(column, value)| match column {
        "value_json" => (column, Value::Null),
        "attributes" => (column, Value::Json("null".into())),
        _ => (column, value),
    });
    assert_eq!(Stored::from_row(nulled), Stored::from(Event { attributes: None, ..event.clone() }));
}

#[test]
fn columns_of_a_newer_release_are_passed_over() {
    let event = foreign(0, "e", 1, EventType::ItemCreated);
    let mut row = event.to_row();
    row.push(("weather", text("fine")));
    assert_eq!(Stored::from_row(row), Stored::from(event));
}

#[test]
fn canonical_bytes_tell_every_field_apart_but_not_the_time() {
    let events: Vec<Event> = EventType::ALL.map(full).into_iter().chain(cells().map(with_value)).collect();
    for (at, event) in events.iter().enumerate() {
        let bytes = event.canonical_bytes();
        for other in &events[at + 1..] {
            assert_ne!(bytes, other.canonical_bytes());
        }
        assert_eq!(bytes, Event { event_ts: 99, ..event.clone() }.canonical_bytes());
        assert_eq!(bytes, event.clone().without_blob_bytes().canonical_bytes());
        let some = || Some("changed".to_owned());
        let changed = [
            Event { event_id: "changed".to_owned(), ..event.clone() },
            Event { item_id: ItemId::parse("z").unwrap(), ..event.clone() },
            Event { attempt: 8, ..event.clone() },
            Event { writer_epoch: "changed".to_owned(), ..event.clone() },
            Event { run_id: "changed".to_owned(), ..event.clone() },
            Event { item_seq: 99, ..event.clone() },
            Event { checkpoint_id: "changed".to_owned(), ..event.clone() },
            Event { resumed_from: some(), ..event.clone() },
            Event { position: Some(leaf("changed")), ..event.clone() },
            Event { field: Some(set("changed", 0)), ..event.clone() },
            Event { status: Some(super::super::Status::Filtered), ..event.clone() },
            Event { query_tags: some(), ..event.clone() },
            Event { config_hash: some(), ..event.clone() },
            Event { attributes: some(), ..event.clone() },
            Event { error_type: some(), ..event.clone() },
            Event { error_dump: some(), ..event.clone() },
            Event { traceback: some(), ..event.clone() },
            Event { schema_version: 2, ..event.clone() },
        ];
        for other in changed {
            assert_ne!(bytes, other.canonical_bytes(), "{other:?}");
        }
    }
}

proptest! {
    #[test]
    fn an_outline_reads_from_the_row_as_from_the_event(events in garbage()) {
        for event in &events {
            let row = event.to_row();
            let part: Vec<_> = row.iter().filter(|(column, _)| OUTLINE_COLUMNS.contains(column)).map(|(c, v)| (*c, v)).collect();
            let outline = Outline::from_row(part);
            match Stored::from_row(event.to_row()) {
                Stored::Event(event) => prop_assert_eq!(outline, Ok(event.outline())),
                Stored::Damaged(damaged) => {
                    prop_assert!(event.position.is_some() != event.event_type.has_position(), "{:?}", damaged);
                    prop_assert!(outline.map_or_else(|damaged| damaged.item_seq, |o| Some(o.item_seq)) == Some(event.item_seq));
                }
            }
        }
    }
}
