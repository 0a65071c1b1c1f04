//! The state behind a fold: the events of one item that count, which can be kept and continued.
//!
//! A state answers with a [`FoldedItem`] and a [`Head`]. It takes further events only when they continue
//! its tip stream, because only then nothing before them changes; for anything else it asks to be built
//! anew. Both ways give the same.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use super::event::{Event, EventType, Status};
use super::fold;
use super::folded::{FencedStream, FoldedItem};
use super::head::Head;
use super::ids::ItemId;
use super::problem::{Problem, ProblemKind};
use super::row::{DamagedEvent, Stored};
use super::stream::{self, Link};

/// Whether a state took events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Extension {
    /// It holds them.
    Continued,
    /// It is unchanged; build a new one from all events.
    Refold,
}

/// What counts of an item's log. Cheap to continue; holds its events without copying them.
#[derive(Debug, Clone)]
pub struct FoldState {
    pub(super) item_id: ItemId,
    pub(super) kept: Vec<Arc<Event>>,
    pub(super) fenced: Vec<FencedStream>,
    /// Those that no later event of the tip changes.
    pub(super) problems: Vec<Problem>,
    pub(super) max_attempt: i32,
    pub(super) max_seq: i64,
    tip_seq: i64,
    ascending: bool,
    ids: HashSet<String>,
    bytes: usize,
}

impl FoldState {
    /// The state after `stored`: any set of the item's rows in any order, repeats allowed. Rows of
    /// other items are left out. `None` when nothing is left.
    #[must_use]
    pub fn new(item_id: ItemId, stored: impl IntoIterator<Item = Stored>) -> Option<Self> {
        let mut events = Vec::new();
        let mut damaged = Vec::new();
        for row in stored {
            match row {
                Stored::Event(event) if event.item_id == item_id => events.push(event),
                Stored::Damaged(row) if row.item_id.as_deref().is_none_or(|id| id == item_id.as_str()) => {
                    damaged.push(row);
                }
                _ => {}
            }
        }
        if events.is_empty() && damaged.is_empty() {
            return None;
        }
        let seqs: Vec<i64> = damaged.iter().filter_map(|row| row.item_seq).collect();
        let attempts = events.iter().map(|event| event.attempt).chain(damaged.iter().filter_map(|row| row.attempt));
        let max_attempt = attempts.max().unwrap_or(0);
        let max_seq = events.iter().map(|event| event.item_seq).chain(seqs.iter().copied()).max().unwrap_or(0);
        let ids = events.iter().map(|event| event.event_id.clone()).collect();
        let bytes = held_bytes(&events);
        let chain = stream::resolve(events, &seqs);
        let mut problems = chain.problems;
        problems.extend(damaged.into_iter().map(unreadable));
        Some(Self {
            item_id,
            kept: chain.kept,
            fenced: chain.fenced,
            problems,
            max_attempt,
            max_seq,
            tip_seq: chain.tip_seq,
            ascending: chain.ascending,
            ids,
            bytes,
        })
    }

    /// Takes `more` events, in any order, when every one of them stands behind the last event of the tip
    /// stream, in that stream; otherwise it is left as it is. Rows of other items, and events that it keeps
    /// as they are, are left out.
    pub fn extend(&mut self, more: impl IntoIterator<Item = Stored>) -> Extension {
        let mut events = Vec::new();
        for row in more {
            match row {
                Stored::Event(event) if event.item_id == self.item_id && !self.keeps(&event) => events.push(event),
                Stored::Event(_) => {}
                Stored::Damaged(row) if row.item_id.as_deref().is_some_and(|id| id != self.item_id.as_str()) => {}
                Stored::Damaged(_) => return Extension::Refold,
            }
        }
        if events.is_empty() {
            return Extension::Continued;
        }
        events.sort_by_key(|event| event.item_seq);
        let Some(tip) = self.kept.last() else { return Extension::Refold };
        let mut last = self.tip_seq;
        let mut ids = HashSet::with_capacity(events.len());
        for event in &events {
            let continues = event.stream() == tip.stream() && event.item_seq > last;
            let fresh = !self.ids.contains(&event.event_id) && ids.insert(&event.event_id);
            if !(continues && fresh && self.ascending) {
                return Extension::Refold;
            }
            last = event.item_seq;
        }
        self.tip_seq = last;
        self.max_seq = self.max_seq.max(last);
        self.bytes += held_bytes(&events);
        self.ids.extend(events.iter().map(|event| event.event_id.clone()));
        self.kept.extend(events);
        Extension::Continued
    }

    /// Whether it keeps `event`, with the same content and time.
    fn keeps(&self, event: &Event) -> bool {
        let at = self.kept.binary_search_by_key(&event.item_seq, |kept| kept.item_seq);
        self.ascending && at.is_ok_and(|at| self.kept.get(at).is_some_and(|kept| **kept == *event))
    }

    /// Whose state it is.
    #[must_use]
    pub const fn item_id(&self) -> &ItemId {
        &self.item_id
    }

    /// How many events count, those behind a TERMINAL included.
    #[must_use]
    pub fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The folded item.
    #[must_use]
    pub fn item(&self) -> FoldedItem {
        fold::assemble(self)
    }

    /// The head, which the next append is checked against.
    #[must_use]
    pub fn head(&self) -> Head {
        let end = self.kept[..self.counted()].last();
        let tip = self.kept.last();
        Head {
            attempt: tip.map_or(self.max_attempt, |tip| tip.attempt),
            writer_epoch: tip.map_or_else(String::new, |tip| tip.writer_epoch.clone()),
            last_event_id: end.map(|event| event.event_id.clone()),
            last_seq: self.tip_seq,
            max_seq: self.max_seq,
            status: end.map_or(Status::Running, |event| status_after(event)),
        }
    }

    /// How many of the kept events count: those up to the first TERMINAL.
    pub(super) fn counted(&self) -> usize {
        let terminal = self.kept.iter().position(|event| event.event_type == EventType::Terminal);
        terminal.map_or(self.kept.len(), |at| at + 1)
    }
}

/// The status of an item whose last counted event is `event`.
pub(super) fn status_after(event: &Event) -> Status {
    match (event.event_type, event.status) {
        (EventType::Terminal, Some(Status::Filtered)) => Status::Filtered,
        (EventType::Terminal, _) => Status::Completed,
        _ => Status::Running,
    }
}

/// The events, and the copies of their ids.
fn held_bytes(events: &[Arc<Event>]) -> usize {
    events.iter().map(|event| event.held_bytes() + event.event_id.len()).sum()
}

fn unreadable(row: DamagedEvent) -> Problem {
    Problem {
        kind: ProblemKind::UnreadableEvent,
        item_seq: row.item_seq,
        event_id: row.event_id,
        message: format!("a stored event cannot be read: {}", row.message),
    }
}

impl Link for Arc<Event> {
    fn attempt(&self) -> i32 {
        self.attempt
    }

    fn epoch(&self) -> &str {
        &self.writer_epoch
    }

    fn seq(&self) -> i64 {
        self.item_seq
    }

    fn id(&self) -> &str {
        &self.event_id
    }

    fn resumed_from(&self) -> Option<&str> {
        self.resumed_from.as_deref()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.canonical_bytes() == other.canonical_bytes()
    }

    /// Beyond the canonical bytes, copies of one event differ in their time and in whether the blob is
    /// loaded; these decide too, so that the result does not depend on the order of the copies.
    fn compare(&self, other: &Self) -> Ordering {
        let by_content = self.canonical_bytes().cmp(&other.canonical_bytes());
        by_content
            .then(self.event_ts.cmp(&other.event_ts))
            .then(self.blob_bytes().is_none().cmp(&other.blob_bytes().is_none()))
            .then(self.blob_bytes().cmp(&other.blob_bytes()))
    }
}

#[cfg(test)]
mod tests;
