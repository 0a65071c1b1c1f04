//! Events as rows of the store, and back.
//!
//! Reading is tolerant: a row that is no event becomes a [`DamagedEvent`], which its item's fold reports,
//! and never an error for other items.

use std::borrow::Cow;
use std::sync::Arc;

use super::cell::Cell;
use super::event::Event;
use super::input::EventInput;
use super::json;
use crate::Value;

/// A stored row that is not a readable event, with what of it could be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DamagedEvent {
    /// Its key.
    pub event_id: Option<String>,
    /// The text of its item's id.
    pub item_id: Option<String>,
    /// Its attempt.
    pub attempt: Option<i32>,
    /// Its place.
    pub item_seq: Option<i64>,
    /// What cannot be read.
    pub message: String,
}

/// What a stored row is.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// An event.
    Event(Arc<Event>),
    /// A row that is none.
    Damaged(DamagedEvent),
}

impl From<Event> for Stored {
    fn from(event: Event) -> Self {
        Self::Event(Arc::new(event))
    }
}

impl Stored {
    /// Reads a row given as named cells; columns that no event has are passed over. A blob column that
    /// was not read leaves the blob unloaded.
    #[must_use]
    pub fn from_row<'a>(row: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Self {
        let mut input = EventInput::default();
        let mut parts = ValueParts::default();
        let mut item_id = None;
        let mut flaw = None;
        for (column, value) in row {
            if let ("item_id", Value::Str(text)) = (column, &value) {
                item_id = Some(text.clone().into_owned());
            }
            let taken = if column.starts_with("value_") { parts.put(column, value) } else { input.put(column, value) };
            if let Err(message) = taken {
                flaw.get_or_insert_with(|| format!("`{column}`: {message}"));
            }
        }
        match parts.cell() {
            Ok(cell) => input.value = cell,
            Err(message) => drop(flaw.get_or_insert_with(|| format!("`value`: {message}"))),
        }
        let mut damaged = DamagedEvent {
            event_id: input.event_id.clone(),
            item_id,
            attempt: input.attempt,
            item_seq: input.item_seq,
            message: String::new(),
        };
        let event = match flaw {
            Some(flaw) => Err(flaw),
            None => input.build().map_err(|flaw| format!("`{}`: {}", flaw.key, flaw.message)),
        };
        event.map_or_else(
            |message| {
                damaged.message = message;
                Self::Damaged(damaged)
            },
            Self::from,
        )
    }
}

impl Event {
    /// The event as named cells of the storage columns; columns that are not named are null.
    #[must_use]
    pub fn to_row(&self) -> Vec<(&'static str, Value<'_>)> {
        let mut row = Vec::with_capacity(28);
        row.extend([
            ("event_id", text(&self.event_id)),
            ("item_id", text(self.item_id.as_str())),
            ("root_item_id", Value::Str(Cow::Owned(self.item_id.root().to_string()))),
            ("attempt", Value::Int(self.attempt.into())),
            ("writer_epoch", text(&self.writer_epoch)),
            ("run_id", text(&self.run_id)),
            ("item_seq", Value::Int(self.item_seq.into())),
            ("checkpoint_id", text(&self.checkpoint_id)),
            ("event_type", text(self.event_type.name())),
            ("event_ts", Value::Timestamp { micros: self.event_ts, aware: true }),
            ("schema_version", Value::Int(self.schema_version.into())),
        ]);
        if let Some(parent) = self.item_id.parent() {
            row.push(("parent_item_id", Value::Str(Cow::Owned(parent.to_string()))));
        }
        let texts = [
            ("resumed_from", &self.resumed_from),
            ("config_hash", &self.config_hash),
            ("error_type", &self.error_type),
            ("error_dump", &self.error_dump),
            ("traceback", &self.traceback),
        ];
        row.extend(texts.into_iter().filter_map(|(column, value)| Some((column, text(value.as_ref()?)))));
        let jsons = [("query_tags", &self.query_tags), ("attributes", &self.attributes)];
        row.extend(jsons.into_iter().filter_map(|(column, value)| Some((column, json_value(value.as_ref()?)))));
        row.extend(self.status.map(|status| ("status", text(status.name()))));
        self.push_position(&mut row);
        self.push_field(&mut row);
        row
    }

    fn push_position<'a>(&'a self, row: &mut Vec<(&'static str, Value<'a>)>) {
        let Some(position) = &self.position else { return };
        row.extend([
            ("step_name", text(&position.step_name)),
            ("step_kind", text(position.step_kind.name())),
            ("step_index", Value::Int(position.step_index.into())),
            ("iteration", Value::List(position.iteration.iter().map(|n| Value::Int((*n).into())).collect())),
        ]);
        let frames = [("enclosing_step", &position.enclosing_step), ("selector_step", &position.selector_step)];
        row.extend(frames.into_iter().filter_map(|(column, value)| Some((column, text(value.as_ref()?)))));
    }

    fn push_field<'a>(&'a self, row: &mut Vec<(&'static str, Value<'a>)>) {
        let Some(field) = &self.field else { return };
        row.extend([
            ("field_name", text(&field.field_name)),
            ("field_type", text(&field.field_type)),
            ("codec_version", Value::Int(field.codec_version.into())),
            ("value_kind", text(field.value.kind())),
        ]);
        match &field.value {
            Cell::Int(v) => row.push(("value_i64", Value::Int((*v).into()))),
            Cell::Float(v) => row.push(("value_f64", Value::Float(*v))),
            Cell::Bool(v) => row.push(("value_bool", Value::Bool(*v))),
            Cell::Str(v) => row.push(("value_str", text(v))),
            Cell::Json(v) => row.push(("value_json", json_value(v))),
            Cell::Blob { bytes, size, checksum } => {
                row.extend(bytes.as_ref().map(|bytes| ("value_blob", Value::Bytes(Cow::Borrowed(bytes)))));
                row.extend([("value_size", Value::Int((*size).into())), ("value_checksum", text(checksum))]);
            }
        }
    }
}

/// The `value_*` columns of a row.
#[derive(Default)]
struct ValueParts {
    kind: Option<String>,
    content: Option<Cell>,
    bytes: Option<Vec<u8>>,
    size: Option<i64>,
    checksum: Option<String>,
}

impl ValueParts {
    fn put(&mut self, column: &str, value: Value<'_>) -> Result<(), String> {
        let got = value.kind_name();
        match (column, value) {
            (_, Value::Null) => {}
            ("value_kind", Value::Str(v)) => self.kind = Some(v.into_owned()),
            ("value_i64", value) => self.content = Some(Cell::tagged("int", value)?),
            ("value_f64", value) => self.content = Some(Cell::tagged("float", value)?),
            ("value_bool", value) => self.content = Some(Cell::tagged("bool", value)?),
            ("value_str", value) => self.content = Some(Cell::tagged("str", value)?),
            ("value_json", value) => self.content = Some(Cell::tagged("json", value)?),
            ("value_blob", Value::Bytes(v)) => self.bytes = Some(v.into_owned()),
            ("value_size", Value::Int(v)) => self.size = i64::try_from(v).ok(),
            ("value_checksum", Value::Str(v)) => self.checksum = Some(v.into_owned()),
            ("value_kind" | "value_blob" | "value_size" | "value_checksum", _) => return Err(format!("got {got}")),
            _ => {}
        }
        Ok(())
    }

    /// The cell. A blob's bytes are not compared with its checksum here: a damaged blob must not hide
    /// the rest of its event, and [`Cell::verify`] tells when it is loaded.
    fn cell(self) -> Result<Option<Cell>, String> {
        let Some(kind) = self.kind else { return Ok(None) };
        if kind == "blob" {
            let (Some(size), Some(checksum)) = (self.size, self.checksum) else {
                return Err("a blob without `value_size` or `value_checksum`".to_owned());
            };
            return Ok(Some(Cell::Blob { bytes: self.bytes, size, checksum }));
        }
        match self.content {
            Some(cell) if cell.kind() == kind => Ok(Some(cell)),
            // The JSON form of rows has one null only.
            None if kind == "json" => Ok(Some(Cell::Json("null".to_owned()))),
            Some(cell) => Err(format!("the kind is `{kind}` and the value is {}", cell.kind())),
            None => Err(format!("a value of kind `{kind}` is missing")),
        }
    }
}

fn text(text: &str) -> Value<'_> {
    Value::Str(Cow::Borrowed(text))
}

fn json_value(text: &str) -> Value<'_> {
    Value::Json(Cow::Borrowed(text))
}

/// The exact text of a JSON cell. The null of JSON is no value, as in the JSON form of rows.
pub(super) fn json_text(value: Value<'_>) -> Result<Option<String>, String> {
    match value {
        Value::Json(text) => {
            json::check(&text)?;
            Ok(json::not_null(text.into_owned()))
        }
        other => Err(format!("expected JSON, got {}", other.kind_name())),
    }
}

#[cfg(test)]
mod tests;
