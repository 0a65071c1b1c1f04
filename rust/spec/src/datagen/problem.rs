//! What a fold found wrong with a log. A problem never stops the fold.

/// What kind of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The log has no ITEM_CREATED that counts.
    NoItemCreated,
    /// A second ITEM_CREATED; the first one counts.
    RepeatedItemCreated,
    /// Places in the stream that no event has.
    MissingSeq,
    /// Two events of one stream at one place; the smaller id counts.
    DuplicateSeq,
    /// Two contents of one event; the one of smaller canonical bytes counts.
    ConflictingEvent,
    /// A stream does not say where it resumed, or names an event that no earlier attempt has.
    UnknownResume,
    /// A position completed twice within one attempt; all completions count.
    RepeatedPosition,
    /// A field event's position is not the one that its checkpoint completes.
    MixedCheckpoint,
    /// An append to a field that another position had set; the values restart with it.
    AppendAfterSet,
    /// An event behind the first TERMINAL; it does not count.
    AfterTerminal,
    /// A stored row that is no readable event.
    UnreadableEvent,
}

impl ProblemKind {
    /// The name, a stable word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoItemCreated => "no_item_created",
            Self::RepeatedItemCreated => "repeated_item_created",
            Self::MissingSeq => "missing_seq",
            Self::DuplicateSeq => "duplicate_seq",
            Self::ConflictingEvent => "conflicting_event",
            Self::UnknownResume => "unknown_resume",
            Self::RepeatedPosition => "repeated_position",
            Self::MixedCheckpoint => "mixed_checkpoint",
            Self::AppendAfterSet => "append_after_set",
            Self::AfterTerminal => "after_terminal",
            Self::UnreadableEvent => "unreadable_event",
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// The place concerned, if it is about one.
    pub item_seq: Option<i64>,
    /// The event concerned, if it is about one.
    pub event_id: Option<String>,
    /// What was found, for people.
    pub message: String,
}

impl Problem {
    /// A problem of the item as a whole.
    pub(super) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, item_seq: None, event_id: None, message: message.into() }
    }

    /// A problem of one event.
    pub(super) fn of(kind: ProblemKind, item_seq: i64, event_id: &str, message: impl Into<String>) -> Self {
        Self { kind, item_seq: Some(item_seq), event_id: Some(event_id.to_owned()), message: message.into() }
    }
}
