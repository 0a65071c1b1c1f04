//! From the events that count to the state of the item.
//!
//! One pass over the kept events collects starts, completions, fields and failures; then completions are
//! put into their places and the fields written in that order. Linear in the events.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::event::{Event, EventType, FieldOp, FieldWrite, Status};
use super::folded::{Failure, FoldedField, FoldedItem, FoldedValue, TrajectoryEntry};
use super::ids::ItemId;
use super::json;
use super::position::StepPosition;
use super::problem::{Problem, ProblemKind};
use super::row::Stored;
use super::state::{FoldState, status_after};
use super::stream::{Link, missing_seq};
#[cfg(test)]
use super::work;

/// Folds an item from its stored rows: any set in any order, repeats allowed. `None` without any.
#[must_use]
pub fn fold(item_id: ItemId, stored: impl IntoIterator<Item = Stored>) -> Option<FoldedItem> {
    FoldState::new(item_id, stored).map(|state| state.item())
}

/// The item that `state` stands for.
pub(super) fn assemble(state: &FoldState) -> FoldedItem {
    let (counted, behind) = state.kept.split_at(state.counted());
    let steps = Steps::of(counted);
    let live = steps.live();
    let status = counted.last().map_or(Status::Running, |event| status_after(event));
    let failures: Vec<Failure> = steps.failures.iter().map(|(at, event)| steps.failure(*at, event)).collect();
    let mut problems = state.problems.clone();
    let fields = fields(&steps, &live, &mut problems);
    problems.extend(steps.problems());
    problems.extend(holes(state));
    problems.extend(behind.iter().map(|event| {
        let message = format!("{} behind the first TERMINAL", event.event_type.name());
        Problem::of(ProblemKind::AfterTerminal, event.item_seq, &event.event_id, message)
    }));
    problems.sort();
    problems.dedup();
    let created = steps.created.first();
    FoldedItem {
        item_id: state.item_id.clone(),
        status,
        failed: status == Status::Running && failures.iter().any(|failure| !failure.recovered),
        last_event_id: counted.last().map(|event| event.event_id.clone()),
        last_item_seq: state.max_seq,
        last_attempt: state.max_attempt,
        fields,
        trajectory: live.iter().map(|(place, completion)| steps.entry(*place, *completion)).collect(),
        started: steps.started(),
        completed: steps.completed(&live),
        open_frames: steps.open_frames(),
        query_tags: created.and_then(|event| event.query_tags.clone()),
        config_hash: created.and_then(|event| event.config_hash.clone()),
        attributes: attributes(created, counted.last()),
        created_at: created.copied().or(counted.first().map(|event| &**event)).map(|event| event.event_ts),
        updated_at: counted.last().map(|event| event.event_ts),
        run_ids: each_once(counted.iter().map(|event| event.run_id.as_str())).map(str::to_owned).collect(),
        failures,
        fenced: state.fenced.clone(),
        problems,
    }
}

/// The elements of `all` in the order of their first.
fn each_once<T: Copy + Eq + std::hash::Hash>(all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let mut seen = HashSet::new();
    all.filter(move |element| seen.insert(*element))
}

fn attributes(created: Option<&&Event>, last: Option<&std::sync::Arc<Event>>) -> Option<String> {
    let terminal = last.filter(|event| event.event_type == EventType::Terminal);
    let under = created.and_then(|event| event.attributes.as_deref());
    match (under, terminal.and_then(|event| event.attributes.as_deref())) {
        (Some(under), Some(over)) => Some(json::overlay(under, over)),
        (under, over) => over.or(under).map(str::to_owned),
    }
}

/// Holes within the kept streams.
fn holes(state: &FoldState) -> impl Iterator<Item = Problem> {
    state.kept.windows(2).filter_map(|pair| {
        let [before, event] = pair else { return None };
        let missing = i128::from(event.item_seq) - i128::from(before.item_seq) - 1;
        (before.stream() == event.stream() && missing > 0)
            .then(|| missing_seq(event.item_seq, &event.event_id, missing, before.item_seq))
    })
}

/// A STEP_COMPLETED with the field events of its checkpoint.
struct Completion<'a> {
    at: usize,
    event: &'a Event,
    fields: Vec<(&'a Event, &'a FieldWrite)>,
}

/// The completions of one position, in order.
#[derive(Default)]
struct Group {
    completions: Vec<usize>,
    /// Whether two of them are of one stream.
    repeated: bool,
}

/// What the counted events say about steps. Events are named by their index (`at`).
#[derive(Default)]
struct Steps<'a> {
    created: Vec<&'a Event>,
    starts: Vec<(usize, &'a StepPosition)>,
    completions: Vec<Completion<'a>>,
    groups: HashMap<&'a StepPosition, Group>,
    failures: Vec<(usize, &'a Event)>,
    /// Field events of another position than their checkpoint completes.
    mixed: Vec<&'a Event>,
}

type Checkpoint<'a> = (i32, &'a str, &'a str);

impl<'a> Steps<'a> {
    fn of(counted: &'a [std::sync::Arc<Event>]) -> Self {
        let mut steps = Self::default();
        let mut checkpoints: HashMap<Checkpoint<'a>, usize> = HashMap::new();
        let mut others: HashMap<(Checkpoint<'a>, &StepPosition), usize> = HashMap::new();
        for (at, event) in counted.iter().enumerate() {
            #[cfg(test)]
            work::tick();
            match (event.event_type, &event.position) {
                (EventType::ItemCreated, _) => steps.created.push(event),
                (EventType::StepStarted, Some(position)) => steps.starts.push((at, position)),
                (EventType::Failed, _) => steps.failures.push((at, event)),
                (EventType::StepCompleted, Some(position)) => {
                    let completion = steps.completions.len();
                    if *checkpoints.entry(checkpoint(event)).or_insert(completion) != completion {
                        others.entry((checkpoint(event), position)).or_insert(completion);
                    }
                    steps.complete(at, event, position);
                }
                _ => {}
            }
        }
        for event in counted {
            let completion = checkpoints.get(&checkpoint(event)).copied();
            if let (Some(field), Some(first)) = (&event.field, completion) {
                let other = || others.get(&(checkpoint(event), event.position.as_ref()?)).copied();
                steps.attach(event, field, first, other);
            }
        }
        steps
    }

    fn complete(&mut self, at: usize, event: &'a Event, position: &'a StepPosition) {
        let group = self.groups.entry(position).or_default();
        let last = group.completions.last().map(|completion| self.completions[*completion].event);
        group.repeated |=
            last.is_some_and(|last| (last.attempt, &last.writer_epoch) == (event.attempt, &event.writer_epoch));
        group.completions.push(self.completions.len());
        self.completions.push(Completion { at, event, fields: Vec::new() });
    }

    /// Gives a field event to the first completion of its checkpoint, or to the `other` one of its own
    /// position that a damaged log may have.
    fn attach(&mut self, event: &'a Event, field: &'a FieldWrite, first: usize, other: impl Fn() -> Option<usize>) {
        let mut completion = first;
        if self.completions[first].event.position != event.position {
            match other() {
                Some(own) => completion = own,
                None => self.mixed.push(event),
            }
        }
        self.completions[completion].fields.push((event, field));
    }

    fn group(&self, position: Option<&StepPosition>) -> Option<&Group> {
        self.groups.get(position?)
    }

    /// The completions that count, in place order, each with the one whose place it takes.
    fn live(&self) -> Vec<(usize, usize)> {
        let live = self.completions.iter().enumerate().filter_map(|(place, completion)| {
            let group = self.group(completion.event.position.as_ref())?;
            if group.repeated {
                return Some((place, place));
            }
            let earliest = group.completions.first() == Some(&place);
            earliest.then_some((place, *group.completions.last()?))
        });
        live.collect()
    }

    fn entry(&self, place: usize, completion: usize) -> TrajectoryEntry {
        let event = self.completions[completion].event;
        TrajectoryEntry {
            position: event.position.clone().unwrap_or_default(),
            attempt: event.attempt,
            item_seq: event.item_seq,
            place: self.completions[place].event.item_seq,
            run_id: event.run_id.clone(),
            event_id: event.event_id.clone(),
            attributes: event.attributes.clone(),
            event_ts: event.event_ts,
        }
    }

    fn failure(&self, at: usize, event: &Event) -> Failure {
        Failure {
            item_id: event.item_id.clone(),
            position: event.position.clone().unwrap_or_else(StepPosition::root),
            error_type: event.error_type.clone().unwrap_or_default(),
            error_dump: event.error_dump.clone(),
            traceback: event.traceback.clone(),
            attributes: event.attributes.clone(),
            run_id: event.run_id.clone(),
            attempt: event.attempt,
            item_seq: event.item_seq,
            event_id: event.event_id.clone(),
            event_ts: event.event_ts,
            recovered: self.completes_after(at, event.position.as_ref()),
        }
    }

    /// Whether the position completes behind event `at`.
    fn completes_after(&self, at: usize, position: Option<&StepPosition>) -> bool {
        let last = self.group(position).and_then(|group| group.completions.last());
        last.is_some_and(|completion| self.completions[*completion].at > at)
    }

    fn started(&self) -> Vec<StepPosition> {
        each_once(self.starts.iter().map(|(_, position)| *position)).cloned().collect()
    }

    fn completed(&self, live: &[(usize, usize)]) -> Vec<StepPosition> {
        let positions = live.iter().filter_map(|(_, completion)| self.completions[*completion].event.position.as_ref());
        each_once(positions).cloned().collect()
    }

    /// In the order of the first start since the position completed, which is from the outside in.
    fn open_frames(&self) -> Vec<StepPosition> {
        let open = self.starts.iter().filter(|(at, position)| !self.completes_after(*at, Some(position)));
        each_once(open.map(|(_, position)| *position)).cloned().collect()
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.created.is_empty() {
            problems.push(Problem::new(ProblemKind::NoItemCreated, "no ITEM_CREATED counts"));
        }
        problems.extend(self.created.iter().skip(1).map(|event| {
            let message = "a second ITEM_CREATED";
            Problem::of(ProblemKind::RepeatedItemCreated, event.item_seq, &event.event_id, message)
        }));
        problems.extend(self.groups.iter().filter(|(_, group)| group.repeated).map(|(position, _)| {
            let message = format!("`{position}` completed more than once within one attempt");
            Problem::new(ProblemKind::RepeatedPosition, message)
        }));
        problems.extend(self.mixed.iter().map(|event| {
            let message = "the event stands at another position than its checkpoint completes";
            Problem::of(ProblemKind::MixedCheckpoint, event.item_seq, &event.event_id, message)
        }));
        problems
    }
}

fn checkpoint(event: &Event) -> Checkpoint<'_> {
    (event.attempt, &event.writer_epoch, &event.checkpoint_id)
}

/// The fields after the writes of the live completions, one after another.
fn fields(steps: &Steps<'_>, live: &[(usize, usize)], problems: &mut Vec<Problem>) -> BTreeMap<String, FoldedField> {
    let mut fields: BTreeMap<String, FoldedField> = BTreeMap::new();
    for (_, completion) in live {
        let completion = &steps.completions[*completion];
        for (event, write) in &completion.fields {
            #[cfg(test)]
            work::tick();
            let value = FoldedValue {
                cell: write.value.clone(),
                field_type: write.field_type.clone(),
                codec_version: write.codec_version,
                step: completion.event.position.clone().unwrap_or_default(),
                event_id: event.event_id.clone(),
            };
            match fields.get_mut(&write.field_name) {
                Some(field) => apply(field, write, value, event, problems),
                None => {
                    fields.insert(write.field_name.clone(), FoldedField { op: write.op, values: vec![value] });
                }
            }
        }
    }
    fields
}

/// One more write of a field.
fn apply(field: &mut FoldedField, write: &FieldWrite, value: FoldedValue, event: &Event, problems: &mut Vec<Problem>) {
    if write.op == FieldOp::Append && field.op == FieldOp::Append {
        field.values.push(value);
        return;
    }
    if write.op == FieldOp::Append && field.newest().is_some_and(|set| set.step != value.step) {
        let message = format!("append to `{}`, which another position had set; its values restart", write.field_name);
        problems.push(Problem::of(ProblemKind::AppendAfterSet, event.item_seq, &event.event_id, message));
    }
    *field = FoldedField { op: write.op, values: vec![value] };
}

#[cfg(test)]
mod tests;
