//! The head of an item: what an append is checked against.

use super::event::Status;

/// Where an item's log ends. It follows from the fold and from every accepted append alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The tip stream's attempt.
    pub attempt: i32,
    /// The tip stream's epoch; empty when not one stored row is readable.
    pub writer_epoch: String,
    /// The last counted event; a resume names it.
    pub last_event_id: Option<String>,
    /// The tip stream's greatest seq.
    pub last_seq: i64,
    /// The greatest seq over all stored events, fenced ones included.
    pub max_seq: i64,
    /// Running, or how the item ended.
    pub status: Status,
}
