//! What a fold returns: plain data, equal for equal sets of events.

use std::collections::BTreeMap;

use super::cell::Cell;
use super::event::{FieldOp, Status};
use super::ids::ItemId;
use super::position::StepPosition;
use super::problem::Problem;
use crate::error::{Error, Result};

/// The latest state of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedItem {
    /// The item.
    pub item_id: ItemId,
    /// Running, completed or filtered.
    pub status: Status,
    /// Whether it is running and has a failure whose position has not completed since.
    pub failed: bool,
    /// The last counted event; a resume names it.
    pub last_event_id: Option<String>,
    /// The greatest seq over all stored events, fenced ones included.
    pub last_item_seq: i64,
    /// The greatest attempt over all stored events, fenced ones included.
    pub last_attempt: i32,
    /// The fields by name.
    pub fields: BTreeMap<String, FoldedField>,
    /// The completed positions in place order.
    pub trajectory: Vec<TrajectoryEntry>,
    /// The positions that have a STEP_STARTED, each once, in the order of their first.
    pub started: Vec<StepPosition>,
    /// The positions that have completed, each once, in place order.
    pub completed: Vec<StepPosition>,
    /// The positions started since they last completed, outermost first: where a resume re-enters.
    pub open_frames: Vec<StepPosition>,
    /// The tags, a JSON object as exact text.
    pub query_tags: Option<String>,
    /// The fingerprint of the configuration that the item was started with.
    pub config_hash: Option<String>,
    /// The attributes of ITEM_CREATED with those of TERMINAL laid over them, as JSON text.
    pub attributes: Option<String>,
    /// The time of ITEM_CREATED, or of the first counted event without one, in microseconds since 1970 UTC.
    pub created_at: Option<i64>,
    /// The time of the last counted event, in microseconds since 1970 UTC.
    pub updated_at: Option<i64>,
    /// The runs of the counted events, each once, in the order of their first.
    pub run_ids: Vec<String>,
    /// The failures in order, recovered ones included.
    pub failures: Vec<Failure>,
    /// The events of streams, or ends of streams, that another stream replaced, by attempt and epoch.
    pub fenced: Vec<FencedStream>,
    /// What is wrong with the log, sorted.
    pub problems: Vec<Problem>,
}

impl FoldedItem {
    /// The newest failure.
    #[must_use]
    pub fn last_failure(&self) -> Option<&Failure> {
        self.failures.last()
    }

    /// The item itself when its log has no problems.
    ///
    /// # Errors
    /// `ItemDamaged` naming the first problems.
    pub fn strict(self) -> Result<Self> {
        if self.problems.is_empty() {
            return Ok(self);
        }
        let shown = self.problems.iter().take(5).map(|problem| format!("{}: {}", problem.kind.name(), problem.message));
        let mut problems = shown.collect::<Vec<_>>().join("; ");
        if let Some(more) = self.problems.len().checked_sub(5).filter(|more| *more > 0) {
            problems = format!("{problems}; and {more} more");
        }
        Err(Error::ItemDamaged { item: self.item_id.to_string(), problems })
    }

    /// The events that hold the blobs of the fields that have any, by field name.
    #[must_use]
    pub fn blob_event_ids(&self) -> BTreeMap<&str, BlobIds<'_>> {
        let blobs = |field: &'_ FoldedField| {
            field.values.iter().filter(|value| matches!(value.cell, Cell::Blob { .. })).count() > 0
        };
        let fields = self.fields.iter().filter(|(_, field)| blobs(field));
        fields.map(|(name, field)| (name.as_str(), field.blob_ids())).collect()
    }
}

/// A field's latest state.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedField {
    /// Whether it was set, or appended to.
    pub op: FieldOp,
    /// The one value that was set, or all that were appended, in place order. Never empty.
    pub values: Vec<FoldedValue>,
}

impl FoldedField {
    /// The newest value.
    #[must_use]
    pub fn newest(&self) -> Option<&FoldedValue> {
        self.values.last()
    }

    fn blob_ids(&self) -> BlobIds<'_> {
        let mut ids: Vec<_> = self
            .values
            .iter()
            .filter(|value| matches!(value.cell, Cell::Blob { .. }))
            .map(|value| value.event_id.as_str())
            .collect();
        match (self.op, ids.pop()) {
            (FieldOp::Set, Some(id)) => BlobIds::One(id),
            (_, last) => {
                ids.extend(last);
                BlobIds::Many(ids)
            }
        }
    }
}

/// One value of a field, with where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedValue {
    /// The value.
    pub cell: Cell,
    /// What its reader makes of it.
    pub field_type: String,
    /// The version of the encoding behind `field_type`.
    pub codec_version: i32,
    /// The position that wrote it.
    pub step: StepPosition,
    /// The event that holds it.
    pub event_id: String,
}

/// Which events hold the blobs of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobIds<'a> {
    /// The event of a field that was set.
    One(&'a str),
    /// The events of the blobs among the values of a field that was appended to, in place order.
    Many(Vec<&'a str>),
}

/// A completed position.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectoryEntry {
    /// The position.
    pub position: StepPosition,
    /// The attempt whose completion counts.
    pub attempt: i32,
    /// The seq of that completion.
    pub item_seq: i64,
    /// The seq of the position's earliest completion, which orders the trajectory.
    pub place: i64,
    /// Whose run completed it.
    pub run_id: String,
    /// The completion.
    pub event_id: String,
    /// Its attributes, as JSON text.
    pub attributes: Option<String>,
    /// Its time, in microseconds since 1970 UTC.
    pub event_ts: i64,
}

/// A failure of a step, or of the item outside any step.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The item.
    pub item_id: ItemId,
    /// Where it happened.
    pub position: StepPosition,
    /// The type of the error.
    pub error_type: String,
    /// What it said.
    pub error_dump: Option<String>,
    /// Where it came from; left out by the overview.
    pub traceback: Option<String>,
    /// Its attributes, as JSON text; left out by the overview.
    pub attributes: Option<String>,
    /// Whose run.
    pub run_id: String,
    /// The attempt.
    pub attempt: i32,
    /// Its place.
    pub item_seq: i64,
    /// The event.
    pub event_id: String,
    /// Its time, in microseconds since 1970 UTC.
    pub event_ts: i64,
    /// Whether its position has completed since.
    pub recovered: bool,
}

/// The events of one stream that do not count because another stream replaced them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FencedStream {
    /// The stream's attempt.
    pub attempt: i32,
    /// The stream's epoch.
    pub writer_epoch: String,
    /// The seq of the first fenced event.
    pub first_seq: i64,
    /// The seq of the last one.
    pub last_seq: i64,
    /// The fenced events, by seq.
    pub event_ids: Vec<String>,
}
