//! An event on its way in: keys and values become a typed event.
//!
//! The same reading serves incoming mappings and stored rows. It checks names, types and ranges, and that
//! what an event type needs is there; [`super::check`] has the rules that only new events must keep.

use super::cell::Cell;
use super::columns::EVENT_KEYS;
use super::event::{Event, EventType, FieldWrite, SCHEMA_VERSION, Status};
use super::ids::ItemId;
use super::position::{StepKind, StepPosition};
use super::row::json_text;
use crate::Value;
use crate::error::{Error, Result};
use crate::schema::suggest::closest;

/// What is wrong with an event, and with which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    pub(super) key: &'static str,
    pub(super) message: String,
}

impl Flaw {
    pub(super) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }

    pub(super) fn at(self, event: usize) -> Error {
        Error::InvalidEvent { event, key: self.key.to_owned(), message: self.message }
    }
}

/// The keys of one event as they were given. Null and missing are the same.
#[derive(Debug, Clone, Default)]
pub struct EventInput {
    pub(super) event_id: Option<String>,
    pub(super) item_id: Option<ItemId>,
    root_item_id: Option<String>,
    parent_item_id: Option<String>,
    pub(super) attempt: Option<i32>,
    writer_epoch: Option<String>,
    run_id: Option<String>,
    pub(super) item_seq: Option<i64>,
    checkpoint_id: Option<String>,
    resumed_from: Option<String>,
    event_type: Option<EventType>,
    step_name: Option<String>,
    step_kind: Option<StepKind>,
    step_index: Option<i64>,
    enclosing_step: Option<String>,
    selector_step: Option<String>,
    iteration: Option<Vec<i64>>,
    field_name: Option<String>,
    field_type: Option<String>,
    codec_version: Option<i32>,
    pub(super) value: Option<Cell>,
    status: Option<Status>,
    query_tags: Option<String>,
    config_hash: Option<String>,
    attributes: Option<String>,
    error_type: Option<String>,
    error_dump: Option<String>,
    traceback: Option<String>,
    event_ts: Option<i64>,
    schema_version: Option<i32>,
}

impl EventInput {
    /// Takes the value of `key` of event number `event` of a batch.
    ///
    /// # Errors
    /// `InvalidEvent` for an unknown key (with the closest known one) and for a value that it cannot have.
    pub fn set(&mut self, event: usize, key: &str, value: Value<'_>) -> Result<()> {
        let invalid = |message| Error::InvalidEvent { event, key: key.to_owned(), message };
        if key == "value" && value != Value::Null {
            return Err(invalid("the tagged value is set with `set_value`".to_owned()));
        }
        if !EVENT_KEYS.contains(&key) {
            let hint = closest(key, EVENT_KEYS).map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
            return Err(invalid(format!("unknown key{hint}; the keys are {}", EVENT_KEYS.join(", "))));
        }
        self.put(key, value).map_err(invalid)
    }

    /// Takes the tagged value.
    pub fn set_value(&mut self, value: Cell) {
        self.value = Some(value);
    }

    /// The typed event, number `event` of its batch.
    ///
    /// # Errors
    /// `InvalidEvent` for a missing key, a key that the event type does not have, and a `root_item_id` or
    /// `parent_item_id` that is not the item's.
    pub fn into_event(self, event: usize) -> Result<Event> {
        self.build().map_err(|flaw| flaw.at(event))
    }

    /// Takes the value of a known key; keys that no event has are passed over.
    pub(super) fn put(&mut self, key: &str, value: Value<'_>) -> std::result::Result<(), String> {
        if value == Value::Null {
            return Ok(());
        }
        match key {
            "event_id" => self.event_id = Some(text(value)?),
            "item_id" => self.item_id = Some(ItemId::read(&text(value)?)?),
            "root_item_id" => self.root_item_id = Some(text(value)?),
            "parent_item_id" => self.parent_item_id = Some(text(value)?),
            "attempt" => self.attempt = Some(integer(value)?),
            "writer_epoch" => self.writer_epoch = Some(text(value)?),
            "run_id" => self.run_id = Some(text(value)?),
            "item_seq" => self.item_seq = Some(integer(value)?),
            "checkpoint_id" => self.checkpoint_id = Some(text(value)?),
            "resumed_from" => self.resumed_from = Some(text(value)?),
            "event_type" => {
                self.event_type = Some(named(value, EventType::parse, EventType::ALL.map(EventType::name))?)
            }
            "event_ts" => self.event_ts = Some(instant(value)?),
            "schema_version" => self.schema_version = Some(integer(value)?),
            _ => self.put_content(key, value)?,
        }
        Ok(())
    }

    fn put_content(&mut self, key: &str, value: Value<'_>) -> std::result::Result<(), String> {
        match key {
            "step_name" => self.step_name = Some(text(value)?),
            "step_kind" => self.step_kind = Some(named(value, StepKind::parse, StepKind::ALL.map(StepKind::name))?),
            "step_index" => self.step_index = Some(integer(value)?),
            "enclosing_step" => self.enclosing_step = Some(text(value)?),
            "selector_step" => self.selector_step = Some(text(value)?),
            "iteration" => self.iteration = Some(integers(value)?),
            "field_name" => self.field_name = Some(text(value)?),
            "field_type" => self.field_type = Some(text(value)?),
            "codec_version" => self.codec_version = Some(integer(value)?),
            "status" => self.status = Some(named(value, Status::parse, Status::ALL.map(Status::name))?),
            "query_tags" => self.query_tags = json_text(value)?,
            "config_hash" => self.config_hash = Some(text(value)?),
            "attributes" => self.attributes = json_text(value)?,
            "error_type" => self.error_type = Some(text(value)?),
            "error_dump" => self.error_dump = Some(text(value)?),
            "traceback" => self.traceback = Some(text(value)?),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn build(mut self) -> std::result::Result<Event, Flaw> {
        let event_type = required(self.event_type.take(), "event_type")?;
        let item_id = required(self.item_id.take(), "item_id")?;
        self.check_ancestors(&item_id)?;
        let position = self.take_position(event_type)?;
        let field = self.take_field(event_type)?;
        let schema_version = required(self.schema_version, "schema_version")?;
        if !(1..=SCHEMA_VERSION).contains(&schema_version) {
            let message = format!("version {schema_version}, this release knows 1 to {SCHEMA_VERSION}; upgrade it");
            return Err(Flaw::new("schema_version", message));
        }
        Ok(Event {
            event_id: required(self.event_id, "event_id")?,
            item_id,
            attempt: required(self.attempt, "attempt")?,
            writer_epoch: required(self.writer_epoch, "writer_epoch")?,
            run_id: required(self.run_id, "run_id")?,
            item_seq: required(self.item_seq, "item_seq")?,
            checkpoint_id: required(self.checkpoint_id, "checkpoint_id")?,
            resumed_from: self.resumed_from,
            event_type,
            position,
            field,
            status: self.status,
            query_tags: self.query_tags,
            config_hash: self.config_hash,
            attributes: self.attributes,
            error_type: self.error_type,
            error_dump: self.error_dump,
            traceback: self.traceback,
            event_ts: required(self.event_ts, "event_ts")?,
            schema_version,
        })
    }

    fn check_ancestors(&self, item_id: &ItemId) -> std::result::Result<(), Flaw> {
        let root = item_id.root();
        if self.root_item_id.as_deref().is_some_and(|given| given != root.as_str()) {
            return Err(Flaw::new("root_item_id", format!("the root of `{item_id}` is `{root}`; leave it out")));
        }
        let parent = item_id.parent();
        let wrong = |given: &str| parent.as_ref().is_none_or(|parent| parent.as_str() != given);
        if self.parent_item_id.as_deref().is_some_and(wrong) {
            let right = parent.map_or_else(|| "null".to_owned(), |parent| format!("`{parent}`"));
            return Err(Flaw::new("parent_item_id", format!("the parent of `{item_id}` is {right}; leave it out")));
        }
        Ok(())
    }

    fn take_position(&mut self, event_type: EventType) -> std::result::Result<Option<StepPosition>, Flaw> {
        if event_type.has_position() {
            return Ok(Some(StepPosition {
                step_name: needed(self.step_name.take(), "step_name", event_type)?,
                step_kind: self.step_kind.unwrap_or_default(),
                step_index: self.step_index.unwrap_or_default(),
                enclosing_step: self.enclosing_step.take(),
                selector_step: self.selector_step.take(),
                iteration: self.iteration.take().unwrap_or_default(),
            }));
        }
        refuse(self.step_name.is_some(), "step_name", event_type)?;
        refuse(self.step_kind.is_some(), "step_kind", event_type)?;
        refuse(self.step_index.is_some(), "step_index", event_type)?;
        refuse(self.enclosing_step.is_some(), "enclosing_step", event_type)?;
        refuse(self.selector_step.is_some(), "selector_step", event_type)?;
        refuse(self.iteration.is_some(), "iteration", event_type)?;
        Ok(None)
    }

    fn take_field(&mut self, event_type: EventType) -> std::result::Result<Option<FieldWrite>, Flaw> {
        if let Some(op) = event_type.field_op() {
            return Ok(Some(FieldWrite {
                field_name: needed(self.field_name.take(), "field_name", event_type)?,
                field_type: needed(self.field_type.take(), "field_type", event_type)?,
                codec_version: self.codec_version.unwrap_or_default(),
                op,
                value: needed(self.value.take(), "value", event_type)?,
            }));
        }
        refuse(self.field_name.is_some(), "field_name", event_type)?;
        refuse(self.field_type.is_some(), "field_type", event_type)?;
        refuse(self.codec_version.is_some(), "codec_version", event_type)?;
        refuse(self.value.is_some(), "value", event_type)?;
        Ok(None)
    }
}

fn required<T>(value: Option<T>, key: &'static str) -> std::result::Result<T, Flaw> {
    value.ok_or_else(|| Flaw::new(key, "missing; every event has it"))
}

fn needed<T>(value: Option<T>, key: &'static str, event_type: EventType) -> std::result::Result<T, Flaw> {
    value.ok_or_else(|| Flaw::new(key, format!("missing; {} has it", event_type.name())))
}

pub(super) fn refuse(given: bool, key: &'static str, event_type: EventType) -> std::result::Result<(), Flaw> {
    if given { Err(Flaw::new(key, format!("{} does not have it; leave it out", event_type.name()))) } else { Ok(()) }
}

fn text(value: Value<'_>) -> std::result::Result<String, String> {
    match value {
        Value::Str(text) => Ok(text.into_owned()),
        other => Err(format!("expected str, got {}", other.kind_name())),
    }
}

fn integer<T: TryFrom<i128>>(value: Value<'_>) -> std::result::Result<T, String> {
    match value {
        Value::Int(number) => {
            T::try_from(number).map_err(|_| format!("`{number}` does not fit into {} bits", size_of::<T>() * 8))
        }
        other => Err(format!("expected int, got {}", other.kind_name())),
    }
}

fn integers(value: Value<'_>) -> std::result::Result<Vec<i64>, String> {
    match value {
        Value::List(items) => items.into_iter().map(integer).collect(),
        other => Err(format!("expected a list of int, got {}", other.kind_name())),
    }
}

fn instant(value: Value<'_>) -> std::result::Result<i64, String> {
    match value {
        Value::Timestamp { micros, aware: true } => Ok(micros),
        other => Err(format!("expected an aware datetime, got {}", other.kind_name())),
    }
}

fn named<T, const N: usize>(
    value: Value<'_>,
    parse: fn(&str) -> Option<T>,
    known: [&'static str; N],
) -> std::result::Result<T, String> {
    let name = text(value)?;
    parse(&name).ok_or_else(|| {
        let hint = closest(&name, known).map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
        format!("unknown `{name}`{hint}; possible: {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests;
