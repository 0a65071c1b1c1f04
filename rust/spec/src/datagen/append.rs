//! May this batch be appended: the check of every write to the log.
//!
//! Pure: the caller holds the heads of the items concerned and the stored events that [`lookups`] names,
//! under its lock of those items. All or nothing; events that are stored already are recognised before
//! anything is refused.

use std::collections::HashMap;

use super::check;
use super::event::{Event, EventType, Status};
use super::head::Head;
use super::ids::ItemId;
use super::input::Flaw;
use super::row::Stored;
use crate::error::{Error, Result};

/// What the caller wants with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Append events of any kind.
    Append,
    /// Append one checkpoint.
    Checkpoint,
    /// Create items: one that exists is `ItemExists`.
    Open,
}

/// What to write of an accepted batch, and where its items end afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// For each event of the batch, whether it is not stored yet.
    pub new: Vec<bool>,
    /// The heads after the write of those items that get an event.
    pub heads: HashMap<ItemId, Head>,
}

impl Plan {
    /// How many events are to be written.
    #[must_use]
    pub fn new_count(&self) -> usize {
        self.new.iter().filter(|new| **new).count()
    }
}

/// The ids that the caller looks up before [`check_batch`]: those of events at or below their item's
/// greatest stored seq. An event behind it cannot be stored.
#[must_use]
pub fn lookups<'a>(events: &'a [Event], heads: &HashMap<ItemId, Head>) -> Vec<&'a str> {
    let may_be_stored = |event: &&Event| heads.get(&event.item_id).is_some_and(|head| event.item_seq <= head.max_seq);
    events.iter().filter(may_be_stored).map(|event| event.event_id.as_str()).collect()
}

/// Checks a batch against the `heads` of its items (an item without one was never created) and the
/// `stored` events by id.
///
/// # Errors
/// The first refusal; then nothing of the batch may be written. `InvalidEvent` for shapes and ids,
/// `ItemNotFound`, `ItemExists`, `StreamFenced`, `EventConflict`, `ItemTerminal`, `StreamGap`.
pub fn check_batch(
    events: &[Event],
    intent: Intent,
    heads: &HashMap<ItemId, Head>,
    stored: &HashMap<String, Stored>,
) -> Result<Plan> {
    for (at, event) in events.iter().enumerate() {
        check::event(event).map_err(|flaw| flaw.at(at))?;
    }
    if intent == Intent::Checkpoint {
        checkpoint(events)?;
    }
    let mut plan = Plan { new: Vec::with_capacity(events.len()), heads: HashMap::new() };
    let mut sent: HashMap<&str, &Event> = HashMap::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let known = match sent.get(event.event_id.as_str()) {
            Some(twin) => is_resent(event, twin)?,
            None => match stored.get(&event.event_id) {
                Some(Stored::Event(twin)) => is_resent(event, twin)?,
                Some(Stored::Damaged(_)) => return Err(conflict(event, "the stored event of this id is unreadable")),
                None => false,
            },
        };
        plan.new.push(!known);
        if !known {
            let head = plan.heads.get(&event.item_id).or_else(|| heads.get(&event.item_id));
            let head = next_head(head, event, intent, at)?;
            plan.heads.insert(event.item_id.clone(), head);
        }
        sent.insert(&event.event_id, event);
    }
    Ok(plan)
}

/// Whether `twin`, of the same id, is the same event.
fn is_resent(event: &Event, twin: &Event) -> Result<bool> {
    if twin.canonical_bytes() == event.canonical_bytes() {
        return Ok(true);
    }
    Err(conflict(event, "another event has this id"))
}

/// The head behind a new event.
fn next_head(head: Option<&Head>, event: &Event, intent: Intent, at: usize) -> Result<Head> {
    let Some(head) = head else {
        if event.event_type != EventType::ItemCreated {
            return Err(Error::ItemNotFound { item: event.item_id.to_string() });
        }
        return Ok(moved(event, event.item_seq));
    };
    if intent == Intent::Open && event.event_type == EventType::ItemCreated {
        return Err(Error::ItemExists { item: event.item_id.to_string() });
    }
    let continues = stream(head, event)?;
    if continues && event.item_seq <= head.last_seq {
        return Err(conflict(event, "another event of this stream has this item_seq"));
    }
    if head.status.is_terminal() {
        return Err(Error::ItemTerminal { item: event.item_id.to_string(), status: head.status.name() });
    }
    next_in_line(head, event, continues)?;
    if continues && event.resumed_from.is_some() {
        let flaw = Flaw::new("resumed_from", "only the first event of an attempt has it; leave it out");
        return Err(flaw.at(at));
    }
    if event.field.as_ref().is_some_and(|field| field.value.is_unloaded()) {
        return Err(Flaw::new("value", "a blob without its `bytes` cannot be written").at(at));
    }
    Ok(moved(event, head.max_seq.max(event.item_seq)))
}

fn moved(event: &Event, max_seq: i64) -> Head {
    Head {
        attempt: event.attempt,
        writer_epoch: event.writer_epoch.clone(),
        last_event_id: Some(event.event_id.clone()),
        last_seq: event.item_seq,
        max_seq,
        status: match (event.event_type, event.status) {
            (EventType::Terminal, Some(status)) => status,
            _ => Status::Running,
        },
    }
}

/// Whether the event continues the head's stream; otherwise it begins an attempt that resumed the head.
fn stream(head: &Head, event: &Event) -> Result<bool> {
    let owner = || format!("attempt {}, epoch `{}` does", head.attempt, head.writer_epoch);
    let fenced = |message| Error::StreamFenced {
        item: event.item_id.to_string(),
        attempt: event.attempt,
        writer_epoch: event.writer_epoch.clone(),
        message,
    };
    if event.attempt < head.attempt {
        return Err(fenced(owner()));
    }
    if event.attempt == head.attempt {
        return if event.writer_epoch == head.writer_epoch { Ok(true) } else { Err(fenced(owner())) };
    }
    if event.resumed_from != head.last_event_id {
        let last = head.last_event_id.as_deref().unwrap_or("none");
        return Err(fenced(format!("{}, and went on since this one resumed, to event {last}", owner())));
    }
    Ok(false)
}

/// A stream goes on one by one. A new attempt begins behind what it resumed, leaving no hole behind all
/// that is stored; it need not stand behind fenced events that its resume could not see.
fn next_in_line(head: &Head, event: &Event, continues: bool) -> Result<()> {
    let first = head.last_seq.saturating_add(1);
    let last = if continues { first } else { first.max(head.max_seq.saturating_add(1)) };
    if (first..=last).contains(&event.item_seq) {
        return Ok(());
    }
    Err(Error::StreamGap { item: event.item_id.to_string(), expected: last, got: event.item_seq })
}

fn conflict(event: &Event, message: &str) -> Error {
    Error::EventConflict {
        item: event.item_id.to_string(),
        event_id: event.event_id.clone(),
        item_seq: event.item_seq,
        message: message.to_owned(),
    }
}

/// One STEP_COMPLETED, only FIELD_* beside it, and one item, checkpoint, stream and position throughout.
fn checkpoint(events: &[Event]) -> Result<()> {
    let Some(first) = events.first() else {
        return Err(Flaw::new("event_type", "a checkpoint has one STEP_COMPLETED, this one has no event").at(0));
    };
    let mut completions = 0;
    for (at, event) in events.iter().enumerate() {
        let differs = |key| Flaw::new(key, "differs from the checkpoint's first event; send one checkpoint a call");
        let flaw = match event.event_type {
            _ if event.item_id != first.item_id => differs("item_id"),
            _ if event.checkpoint_id != first.checkpoint_id => differs("checkpoint_id"),
            EventType::StepCompleted if completions > 0 => {
                Flaw::new("event_type", "a second STEP_COMPLETED; a checkpoint has one")
            }
            EventType::StepCompleted | EventType::FieldSet | EventType::FieldAppend => {
                completions += usize::from(event.event_type == EventType::StepCompleted);
                if event.position == first.position {
                    continue;
                }
                differs("step_name")
            }
            other => Flaw::new(
                "event_type",
                format!("{} does not belong into a checkpoint; send it with `append`", other.name()),
            ),
        };
        return Err(flaw.at(at));
    }
    if completions == 0 {
        let flaw = Flaw::new("event_type", "the checkpoint has no STEP_COMPLETED; end it with one");
        return Err(flaw.at(events.len() - 1));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
