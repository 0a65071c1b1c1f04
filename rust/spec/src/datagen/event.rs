//! One event of an item, with the columns of the log as typed fields.
//!
//! `root_item_id` and `parent_item_id` are no fields: they follow from the item id. Which fields an event
//! type has is checked where events come in (`check`), not here, because stored events are read as they
//! are.

use super::canonical::Canonical;
use super::cell::Cell;
use super::identity::{CheckpointId, event_id};
use super::ids::ItemId;
use super::outline::Outline;
use super::position::StepPosition;

/// The version of the event columns that this code writes.
pub const SCHEMA_VERSION: i32 = 1;

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// The item's first event.
    ItemCreated,
    /// A frame was entered.
    StepStarted,
    /// A field got a value that replaces what it had.
    FieldSet,
    /// A field got one more value.
    FieldAppend,
    /// A step ended; the fields of its checkpoint count.
    StepCompleted,
    /// The item ended.
    Terminal,
    /// A step, or the item outside any step, failed; the item goes on.
    Failed,
}

impl EventType {
    /// Every type.
    pub const ALL: [Self; 7] = [
        Self::ItemCreated,
        Self::StepStarted,
        Self::FieldSet,
        Self::FieldAppend,
        Self::StepCompleted,
        Self::Terminal,
        Self::Failed,
    ];

    /// The name, as stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ItemCreated => "ITEM_CREATED",
            Self::StepStarted => "STEP_STARTED",
            Self::FieldSet => "FIELD_SET",
            Self::FieldAppend => "FIELD_APPEND",
            Self::StepCompleted => "STEP_COMPLETED",
            Self::Terminal => "TERMINAL",
            Self::Failed => "FAILED",
        }
    }

    /// The type of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event_type| event_type.name() == name)
    }

    /// Whether events of this type stand at a position.
    #[must_use]
    pub const fn has_position(self) -> bool {
        !matches!(self, Self::ItemCreated | Self::Terminal)
    }

    /// What events of this type do to a field, if they are about one.
    #[must_use]
    pub const fn field_op(self) -> Option<FieldOp> {
        match self {
            Self::FieldSet => Some(FieldOp::Set),
            Self::FieldAppend => Some(FieldOp::Append),
            _ => None,
        }
    }
}

/// What a write does to a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum FieldOp {
    /// Replace what the field has.
    #[default]
    Set,
    /// Add a value behind those it has.
    Append,
}

impl FieldOp {
    /// The name, as people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Append => "append",
        }
    }

    /// The operation of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Set, Self::Append].into_iter().find(|op| op.name() == name)
    }

    /// The type of the event that does it.
    #[must_use]
    pub const fn event_type(self) -> EventType {
        match self {
            Self::Set => EventType::FieldSet,
            Self::Append => EventType::FieldAppend,
        }
    }
}

/// A status. An item is running, completed or filtered; `failed` stands on FAILED events only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Not ended.
    Running,
    /// Ended with its result.
    Completed,
    /// Ended because it is not wanted.
    Filtered,
    /// The status of a FAILED event.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Running, Self::Completed, Self::Filtered, Self::Failed];

    /// The name, as stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Filtered => "filtered",
            Self::Failed => "failed",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether an item of this status takes no more events.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Filtered)
    }
}

/// One write of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldWrite {
    /// The field.
    pub field_name: String,
    /// What its reader makes of it, as the caller names it.
    pub field_type: String,
    /// The version of the encoding behind `field_type`.
    pub codec_version: i32,
    /// Set or append.
    pub op: FieldOp,
    /// The value.
    pub value: Cell,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The key; see [`event_id`].
    pub event_id: String,
    /// Whose event it is.
    pub item_id: ItemId,
    /// Number of the try, from 0.
    pub attempt: i32,
    /// Tells apart streams of one attempt.
    pub writer_epoch: String,
    /// Whose run.
    pub run_id: String,
    /// Position in the stream, from 1.
    pub item_seq: i64,
    /// `attempt:writer_epoch:first_seq`; see [`CheckpointId`].
    pub checkpoint_id: String,
    /// On the first event of an attempt above 0: the last counted event that the resume folded.
    pub resumed_from: Option<String>,
    /// What happened.
    pub event_type: EventType,
    /// Where in the item's program.
    pub position: Option<StepPosition>,
    /// The field write of a FIELD_* event.
    pub field: Option<FieldWrite>,
    /// See [`Status`].
    pub status: Option<Status>,
    /// Filterable tags, a JSON object as exact text.
    pub query_tags: Option<String>,
    /// The fingerprint of the configuration.
    pub config_hash: Option<String>,
    /// Anything, as exact JSON text.
    pub attributes: Option<String>,
    /// The type of a failure.
    pub error_type: Option<String>,
    /// What it said.
    pub error_dump: Option<String>,
    /// Where it came from.
    pub traceback: Option<String>,
    /// When, in microseconds since 1970-01-01T00:00:00Z. Never decides anything.
    pub event_ts: i64,
    /// The version of the columns.
    pub schema_version: i32,
}

impl Event {
    /// The parts that the overview and the choice of streams look at.
    #[must_use]
    pub fn outline(&self) -> Outline<'_> {
        Outline {
            event_id: &self.event_id,
            item_id: self.item_id.as_str(),
            attempt: self.attempt,
            writer_epoch: &self.writer_epoch,
            run_id: &self.run_id,
            item_seq: self.item_seq,
            resumed_from: self.resumed_from.as_deref(),
            event_type: self.event_type,
            position: self.position.as_ref().map(StepPosition::borrowed),
            status: self.status,
            query_tags: self.query_tags.as_deref(),
            error_type: self.error_type.as_deref(),
            error_dump: self.error_dump.as_deref(),
            event_ts: self.event_ts,
        }
    }

    /// Bytes that two events share exactly when they are the same event: everything but `event_ts`, a
    /// blob by size and checksum. The parts of the outline come first, so that comparing the bytes of
    /// two events is comparing their outlines, then the rest.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Canonical::default();
        self.outline().write_canonical(&mut out);
        out.text(&self.event_id);
        out.text(self.item_id.as_str());
        out.text(&self.checkpoint_id);
        out.raw(&[u8::from(self.field.is_some())]);
        if let Some(field) = &self.field {
            out.text(&field.field_name);
            out.text(&field.field_type);
            out.number(i64::from(field.codec_version));
            out.text(field.op.name());
            field.value.write_canonical(&mut out);
        }
        for text in [&self.config_hash, &self.attributes, &self.traceback] {
            out.optional(text.as_deref());
        }
        out.number(i64::from(self.schema_version));
        out.into_bytes()
    }

    /// The id that an event at this place must have; `None` when the checkpoint id is not one of this
    /// event's stream at or before its seq.
    #[must_use]
    pub fn computed_id(&self) -> Option<String> {
        let checkpoint = CheckpointId::parse(&self.checkpoint_id)?;
        let ordinal = self.item_seq.checked_sub(checkpoint.first_seq)?;
        let fits = checkpoint.attempt == self.attempt
            && checkpoint.writer_epoch == self.writer_epoch
            && checkpoint.first_seq >= 1
            && ordinal >= 0;
        fits.then(|| event_id(self.item_id.as_str(), &self.checkpoint_id, ordinal))
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let texts = [
            Some(&self.event_id),
            Some(&self.writer_epoch),
            Some(&self.run_id),
            Some(&self.checkpoint_id),
            self.resumed_from.as_ref(),
            self.query_tags.as_ref(),
            self.config_hash.as_ref(),
            self.attributes.as_ref(),
            self.error_type.as_ref(),
            self.error_dump.as_ref(),
            self.traceback.as_ref(),
        ];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>() + self.item_id.as_str().len();
        let field = self.field.as_ref().map_or(0, |field| {
            let value = match &field.value {
                Cell::Str(text) | Cell::Json(text) => text.len(),
                Cell::Blob { bytes, checksum, .. } => bytes.as_ref().map_or(0, Vec::len) + checksum.len(),
                Cell::Int(_) | Cell::Float(_) | Cell::Bool(_) => 0,
            };
            field.field_name.len() + field.field_type.len() + value
        });
        let step = self.position.as_ref().map_or(0, |position| position.step_name.len());
        size_of::<Self>() + texts + field + step
    }

    /// The event without a blob's bytes: what reads return unless asked for them.
    #[must_use]
    pub fn without_blob_bytes(mut self) -> Self {
        if let Some(field) = &mut self.field
            && let Cell::Blob { bytes, .. } = &mut field.value
        {
            *bytes = None;
        }
        self
    }

    /// The bytes of the event's blob, when it has one that is loaded.
    #[must_use]
    pub fn blob_bytes(&self) -> Option<&[u8]> {
        match &self.field.as_ref()?.value {
            Cell::Blob { bytes, .. } => bytes.as_deref(),
            _ => None,
        }
    }
}
