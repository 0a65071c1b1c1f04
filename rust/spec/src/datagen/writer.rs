//! The stream writer: stamps the events of one item in their order.
//!
//! Pure and client-side. It numbers events, builds their checkpoints and ids, and refuses what no stream
//! has; whether the item still belongs to the stream only the store can tell, at append. A refused call
//! changes nothing.

use std::collections::HashSet;

use super::check;
use super::config::config_hash;
use super::event::{Event, EventType, FieldWrite, SCHEMA_VERSION, Status};
use super::folded::FoldedItem;
use super::identity::{CheckpointId, event_id};
use super::ids::ItemId;
use super::input::Flaw;
use super::json;
use super::position::StepPosition;
use crate::error::{Error, Result};

/// A failure to record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureNote {
    /// The type of the error.
    pub error_type: String,
    /// What it said.
    pub error_dump: Option<String>,
    /// Where it came from.
    pub traceback: Option<String>,
}

/// Writes one stream of one item. Times are microseconds since 1970 UTC; `attributes` is JSON text.
#[derive(Debug, Clone)]
pub struct StreamWriter {
    item_id: ItemId,
    run_id: String,
    attempt: i32,
    writer_epoch: String,
    next_seq: i64,
    /// What the first event of a resumed stream names.
    resumed_from: Option<String>,
    created: bool,
    ended: Option<Status>,
    completed: HashSet<StepPosition>,
}

impl StreamWriter {
    /// The writer of an item's first stream, which begins with [`StreamWriter::item_created`].
    ///
    /// # Errors
    /// `InvalidArgument` for an empty run or an epoch that is empty or not printable.
    pub fn new(item_id: ItemId, run_id: &str, writer_epoch: &str) -> Result<Self> {
        check::not_empty("run_id", run_id).map_err(argument)?;
        check::writer_epoch(writer_epoch).map_err(argument)?;
        Ok(Self {
            item_id,
            run_id: run_id.to_owned(),
            attempt: 0,
            writer_epoch: writer_epoch.to_owned(),
            next_seq: 1,
            resumed_from: None,
            created: false,
            ended: None,
            completed: HashSet::new(),
        })
    }

    /// The writer of the attempt that goes on from `folded`, above every stored attempt and seq.
    ///
    /// # Errors
    /// `ItemTerminal` for an item that has ended, `WriterOrder` when its numbers are used up, otherwise
    /// as [`StreamWriter::new`].
    pub fn resuming(folded: &FoldedItem, run_id: &str, writer_epoch: &str) -> Result<Self> {
        let mut writer = Self::new(folded.item_id.clone(), run_id, writer_epoch)?;
        if folded.status.is_terminal() {
            return Err(writer.terminal(folded.status));
        }
        let attempt = folded.last_attempt.max(0).checked_add(1);
        let next_seq = folded.last_item_seq.max(0).checked_add(1).filter(|seq| *seq < i64::MAX);
        let (Some(attempt), Some(next_seq)) = (attempt, next_seq) else {
            return Err(writer.order("no attempt or item_seq is left above the stored ones"));
        };
        writer.attempt = attempt;
        writer.next_seq = next_seq;
        writer.resumed_from.clone_from(&folded.last_event_id);
        writer.created = true;
        Ok(writer)
    }

    /// The item's first event. `query_tags` is a JSON object, `config` any JSON, both as text.
    ///
    /// # Errors
    /// `WriterOrder` on a second call or a resumed writer; `InvalidArgument` for texts that are no such
    /// JSON.
    pub fn item_created(
        &mut self,
        query_tags: Option<String>,
        config: Option<&str>,
        attributes: Option<String>,
        event_ts: i64,
    ) -> Result<Event> {
        if self.created {
            return Err(self.order("item_created is the first event of a new item, and this stream is past it"));
        }
        if let Some(tags) = &query_tags {
            json::check_object(tags).map_err(|message| argument(Flaw::new("query_tags", message)))?;
        }
        let config_hash = config.map(config_hash).transpose()?;
        let attributes = json_attributes(attributes)?;
        let event = Event {
            status: Some(Status::Running),
            query_tags,
            config_hash,
            attributes,
            ..self.event(EventType::ItemCreated, 0, event_ts)
        };
        self.advance(1);
        self.created = true;
        Ok(event)
    }

    /// One STEP_STARTED, for a frame.
    ///
    /// # Errors
    /// `WriterOrder` before `item_created`, `ItemTerminal` after the end, `InvalidArgument` for a position
    /// that none can have.
    pub fn step_started(
        &mut self,
        position: &StepPosition,
        attributes: Option<String>,
        event_ts: i64,
    ) -> Result<Event> {
        self.check_step(position)?;
        let attributes = json_attributes(attributes)?;
        let event =
            Event { position: Some(position.clone()), attributes, ..self.event(EventType::StepStarted, 0, event_ts) };
        self.advance(1);
        Ok(event)
    }

    /// The FIELD_* events of `fields` in their order, then STEP_COMPLETED, which has the attributes: one
    /// checkpoint.
    ///
    /// # Errors
    /// `RepeatedPosition` when the position has completed in this attempt; otherwise as
    /// [`StreamWriter::step_started`].
    pub fn step_completed(
        &mut self,
        position: &StepPosition,
        fields: Vec<FieldWrite>,
        attributes: Option<String>,
        event_ts: i64,
    ) -> Result<Vec<Event>> {
        self.check_step(position)?;
        let attributes = json_attributes(attributes)?;
        if self.completed.contains(position) {
            return Err(Error::RepeatedPosition { item: self.item_id.to_string(), position: position.to_string() });
        }
        let mut events = Vec::with_capacity(fields.len() + 1);
        let mut ordinal = 0;
        for field in fields {
            check::field_write(&field).map_err(argument)?;
            let event_type = field.op.event_type();
            events.push(Event {
                position: Some(position.clone()),
                field: Some(field),
                ..self.event(event_type, ordinal, event_ts)
            });
            ordinal += 1;
        }
        events.push(Event {
            position: Some(position.clone()),
            attributes,
            ..self.event(EventType::StepCompleted, ordinal, event_ts)
        });
        self.advance(ordinal + 1);
        self.completed.insert(position.clone());
        Ok(events)
    }

    /// The last event; `status` is completed or filtered.
    ///
    /// # Errors
    /// As [`StreamWriter::step_started`]; `InvalidArgument` for another status.
    pub fn item_terminal(&mut self, status: Status, attributes: Option<String>, event_ts: i64) -> Result<Event> {
        if !status.is_terminal() {
            let message = format!("an item ends `completed` or `filtered`, not `{}`", status.name());
            return Err(argument(Flaw::new("status", message)));
        }
        self.check_open()?;
        let attributes = json_attributes(attributes)?;
        let event = Event { status: Some(status), attributes, ..self.event(EventType::Terminal, 0, event_ts) };
        self.advance(1);
        self.ended = Some(status);
        Ok(event)
    }

    /// One FAILED at `position`, which does not end the item.
    ///
    /// # Errors
    /// As [`StreamWriter::step_started`]; `InvalidArgument` without an error type.
    pub fn item_failed(
        &mut self,
        position: &StepPosition,
        failure: FailureNote,
        attributes: Option<String>,
        event_ts: i64,
    ) -> Result<Event> {
        self.check_step(position)?;
        let attributes = json_attributes(attributes)?;
        check::not_empty("error_type", &failure.error_type).map_err(argument)?;
        let event = Event {
            position: Some(position.clone()),
            status: Some(Status::Failed),
            attributes,
            error_type: Some(failure.error_type),
            error_dump: failure.error_dump,
            traceback: failure.traceback,
            ..self.event(EventType::Failed, 0, event_ts)
        };
        self.advance(1);
        Ok(event)
    }

    /// The item.
    #[must_use]
    pub const fn item_id(&self) -> &ItemId {
        &self.item_id
    }

    /// Whose run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The number of the try.
    #[must_use]
    pub const fn attempt(&self) -> i32 {
        self.attempt
    }

    /// The stream's epoch.
    #[must_use]
    pub fn writer_epoch(&self) -> &str {
        &self.writer_epoch
    }

    /// The seq of the event that comes next.
    #[must_use]
    pub const fn next_seq(&self) -> i64 {
        self.next_seq
    }

    /// How the stream ended, if it has.
    #[must_use]
    pub const fn ended(&self) -> Option<Status> {
        self.ended
    }

    /// An event with everything stamped; `ordinal` counts within the checkpoint at `next_seq`.
    fn event(&self, event_type: EventType, ordinal: i64, event_ts: i64) -> Event {
        let checkpoint =
            CheckpointId { attempt: self.attempt, writer_epoch: &self.writer_epoch, first_seq: self.next_seq };
        let checkpoint_id = checkpoint.text();
        Event {
            event_id: event_id(self.item_id.as_str(), &checkpoint_id, ordinal),
            item_id: self.item_id.clone(),
            attempt: self.attempt,
            writer_epoch: self.writer_epoch.clone(),
            run_id: self.run_id.clone(),
            item_seq: self.next_seq.saturating_add(ordinal),
            checkpoint_id,
            resumed_from: self.resumed_from.clone().filter(|_| ordinal == 0),
            event_type,
            position: None,
            field: None,
            status: None,
            query_tags: None,
            config_hash: None,
            attributes: None,
            error_type: None,
            error_dump: None,
            traceback: None,
            event_ts,
            schema_version: SCHEMA_VERSION,
        }
    }

    fn advance(&mut self, events: i64) {
        self.next_seq = self.next_seq.saturating_add(events);
        self.resumed_from = None;
    }

    fn check_open(&self) -> Result<()> {
        match self.ended {
            Some(status) => Err(self.terminal(status)),
            None if !self.created => Err(self.order("a new item begins with item_created")),
            None => Ok(()),
        }
    }

    fn check_step(&self, position: &StepPosition) -> Result<()> {
        self.check_open()?;
        check::position_fields(position).map_err(argument)
    }

    fn terminal(&self, status: Status) -> Error {
        Error::ItemTerminal { item: self.item_id.to_string(), status: status.name() }
    }

    fn order(&self, message: &str) -> Error {
        Error::WriterOrder { item: self.item_id.to_string(), message: message.to_owned() }
    }
}

/// Attributes that are JSON; its null is none.
fn json_attributes(attributes: Option<String>) -> Result<Option<String>> {
    let Some(text) = attributes else { return Ok(None) };
    json::check(&text).map_err(|message| argument(Flaw::new("attributes", message)))?;
    Ok(json::not_null(text))
}

fn argument(flaw: Flaw) -> Error {
    Error::InvalidArgument { argument: flaw.key.to_owned(), message: flaw.message }
}

#[cfg(test)]
mod tests;
