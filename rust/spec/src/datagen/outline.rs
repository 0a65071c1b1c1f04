//! The light part of an event: what decides streams, statuses and failures.
//!
//! Borrowed, so that a scan over many events hands it over without a copy.

use std::borrow::Cow;

use super::canonical::Canonical;
use super::event::{EventType, Status};
use super::position::{StepKind, StepPosition};
use super::row::DamagedEvent;
use crate::Value;

/// A borrowed [`StepPosition`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionRef<'a> {
    /// See [`StepPosition::step_name`].
    pub step_name: &'a str,
    /// See [`StepPosition::step_kind`].
    pub step_kind: StepKind,
    /// See [`StepPosition::step_index`].
    pub step_index: i64,
    /// See [`StepPosition::enclosing_step`].
    pub enclosing_step: Option<&'a str>,
    /// See [`StepPosition::selector_step`].
    pub selector_step: Option<&'a str>,
    /// See [`StepPosition::iteration`].
    pub iteration: Cow<'a, [i64]>,
}

impl PositionRef<'_> {
    /// The same position, owned.
    #[must_use]
    pub fn to_position(&self) -> StepPosition {
        StepPosition {
            step_name: self.step_name.to_owned(),
            step_kind: self.step_kind,
            step_index: self.step_index,
            enclosing_step: self.enclosing_step.map(str::to_owned),
            selector_step: self.selector_step.map(str::to_owned),
            iteration: self.iteration.to_vec(),
        }
    }

    pub(super) fn write_canonical(&self, out: &mut Canonical) {
        out.text(self.step_name);
        out.text(self.step_kind.name());
        out.number(self.step_index);
        out.optional(self.enclosing_step);
        out.optional(self.selector_step);
        out.raw(&(self.iteration.len() as u64).to_be_bytes());
        self.iteration.iter().for_each(|counter| out.number(*counter));
    }
}

/// An event without its value and the texts that only its item's own fold shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline<'a> {
    /// See [`super::Event::event_id`].
    pub event_id: &'a str,
    /// See [`super::Event::item_id`].
    pub item_id: &'a str,
    /// See [`super::Event::attempt`].
    pub attempt: i32,
    /// See [`super::Event::writer_epoch`].
    pub writer_epoch: &'a str,
    /// See [`super::Event::run_id`].
    pub run_id: &'a str,
    /// See [`super::Event::item_seq`].
    pub item_seq: i64,
    /// See [`super::Event::resumed_from`].
    pub resumed_from: Option<&'a str>,
    /// See [`super::Event::event_type`].
    pub event_type: EventType,
    /// See [`super::Event::position`].
    pub position: Option<PositionRef<'a>>,
    /// See [`super::Event::status`].
    pub status: Option<Status>,
    /// See [`super::Event::query_tags`].
    pub query_tags: Option<&'a str>,
    /// See [`super::Event::error_type`].
    pub error_type: Option<&'a str>,
    /// See [`super::Event::error_dump`].
    pub error_dump: Option<&'a str>,
    /// See [`super::Event::event_ts`].
    pub event_ts: i64,
}

impl Outline<'_> {
    /// Writes everything but the ids and the time.
    pub(super) fn write_canonical(&self, out: &mut Canonical) {
        out.text(self.event_type.name());
        out.number(i64::from(self.attempt));
        out.text(self.writer_epoch);
        out.text(self.run_id);
        out.number(self.item_seq);
        out.optional(self.resumed_from);
        out.raw(&[u8::from(self.position.is_some())]);
        if let Some(position) = &self.position {
            position.write_canonical(out);
        }
        out.optional(self.status.map(Status::name));
        out.optional(self.query_tags);
        out.optional(self.error_type);
        out.optional(self.error_dump);
    }
}

impl<'a> Outline<'a> {
    /// Reads a row given as named cells of at least the columns of [`super::OUTLINE_COLUMNS`]; others are
    /// passed over. A row whose value alone is unreadable has an outline.
    ///
    /// # Errors
    /// What can be read of a row that is no event.
    pub fn from_row(row: impl IntoIterator<Item = (&'a str, &'a Value<'a>)>) -> Result<Self, DamagedEvent> {
        let mut cells = Cells::default();
        let mut flaw = None;
        for (column, value) in row {
            if cells.put(column, value).is_none() {
                flaw.get_or_insert_with(|| format!("`{column}`: {} is not possible", value.kind_name()));
            }
        }
        let damaged = DamagedEvent {
            event_id: cells.event_id.map(str::to_owned),
            item_id: cells.item_id.map(str::to_owned),
            attempt: cells.attempt,
            item_seq: cells.item_seq,
            message: String::new(),
        };
        match flaw {
            Some(message) => Err(DamagedEvent { message, ..damaged }),
            None => cells.outline().map_err(|key| DamagedEvent { message: format!("`{key}`: missing"), ..damaged }),
        }
    }
}

#[derive(Default)]
struct Cells<'a> {
    event_id: Option<&'a str>,
    item_id: Option<&'a str>,
    attempt: Option<i32>,
    writer_epoch: Option<&'a str>,
    run_id: Option<&'a str>,
    item_seq: Option<i64>,
    resumed_from: Option<&'a str>,
    event_type: Option<EventType>,
    step_name: Option<&'a str>,
    step_kind: Option<StepKind>,
    step_index: Option<i64>,
    enclosing_step: Option<&'a str>,
    selector_step: Option<&'a str>,
    iteration: Option<Vec<i64>>,
    status: Option<Status>,
    query_tags: Option<&'a str>,
    error_type: Option<&'a str>,
    error_dump: Option<&'a str>,
    event_ts: Option<i64>,
}

impl<'a> Cells<'a> {
    /// Takes a cell; `None` for one that its column cannot have.
    fn put(&mut self, column: &str, value: &'a Value<'a>) -> Option<()> {
        match (column, value) {
            (_, Value::Null) => {}
            ("event_id", value) => self.event_id = Some(text(value)?),
            ("item_id", value) => self.item_id = Some(text(value)?),
            ("attempt", value) => self.attempt = Some(integer(value)?),
            ("writer_epoch", value) => self.writer_epoch = Some(text(value)?),
            ("run_id", value) => self.run_id = Some(text(value)?),
            ("item_seq", value) => self.item_seq = Some(integer(value)?),
            ("resumed_from", value) => self.resumed_from = Some(text(value)?),
            ("event_type", value) => self.event_type = Some(EventType::parse(text(value)?)?),
            ("step_name", value) => self.step_name = Some(text(value)?),
            ("step_kind", value) => self.step_kind = Some(StepKind::parse(text(value)?)?),
            ("step_index", value) => self.step_index = Some(integer(value)?),
            ("enclosing_step", value) => self.enclosing_step = Some(text(value)?),
            ("selector_step", value) => self.selector_step = Some(text(value)?),
            ("iteration", Value::List(items)) => {
                self.iteration = Some(items.iter().map(integer).collect::<Option<_>>()?)
            }
            ("iteration", _) => return None,
            ("status", value) => self.status = Some(Status::parse(text(value)?)?),
            ("query_tags", Value::Json(tags)) => self.query_tags = Some(&**tags).filter(|tags| tags.trim() != "null"),
            ("query_tags", _) => return None,
            ("error_type", value) => self.error_type = Some(text(value)?),
            ("error_dump", value) => self.error_dump = Some(text(value)?),
            ("event_ts", Value::Timestamp { micros, .. }) => self.event_ts = Some(*micros),
            ("event_ts", _) => return None,
            _ => {}
        }
        Some(())
    }

    /// The outline, or the column that is missing.
    fn outline(self) -> Result<Outline<'a>, &'static str> {
        let event_type = self.event_type.ok_or("event_type")?;
        let position = if event_type.has_position() {
            Some(PositionRef {
                step_name: self.step_name.ok_or("step_name")?,
                step_kind: self.step_kind.unwrap_or_default(),
                step_index: self.step_index.unwrap_or_default(),
                enclosing_step: self.enclosing_step,
                selector_step: self.selector_step,
                iteration: Cow::Owned(self.iteration.unwrap_or_default()),
            })
        } else {
            None
        };
        Ok(Outline {
            event_id: self.event_id.ok_or("event_id")?,
            item_id: self.item_id.ok_or("item_id")?,
            attempt: self.attempt.ok_or("attempt")?,
            writer_epoch: self.writer_epoch.ok_or("writer_epoch")?,
            run_id: self.run_id.ok_or("run_id")?,
            item_seq: self.item_seq.ok_or("item_seq")?,
            resumed_from: self.resumed_from,
            event_type,
            position,
            status: self.status,
            query_tags: self.query_tags,
            error_type: self.error_type,
            error_dump: self.error_dump,
            event_ts: self.event_ts.ok_or("event_ts")?,
        })
    }
}

fn text<'a>(value: &'a Value<'a>) -> Option<&'a str> {
    if let Value::Str(text) = value { Some(text) } else { None }
}

fn integer<T: TryFrom<i128>>(value: &Value<'_>) -> Option<T> {
    if let Value::Int(number) = value { T::try_from(*number).ok() } else { None }
}
