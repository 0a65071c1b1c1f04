//! The overview: every item's status, failures and completed steps in one pass over outlines.
//!
//! Events may come in any order, of all items mixed, and repeated. What is kept of each is small, and
//! texts that many events share are kept once. An item comes out as its own fold would have it; events
//! that cannot be read are counted and change nothing else.
//!
//! Events may also come after an answer: then only their items are looked at anew.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::canonical::Canonical;
use super::event::{EventType, Status};
use super::folded::Failure;
use super::ids::ItemId;
use super::outline::Outline;
use super::position::StepPosition;
use super::row::DamagedEvent;
use super::stream::{self, Link};

/// Most failures shown of one group.
const MAX_SAMPLES: usize = 5;

/// What an item takes beside its id and events, its summary included; and a text or position that events share.
const ITEM_BYTES: usize = 512;
const SHARED_BYTES: usize = 128;

/// Counts over all items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overview {
    /// All items.
    pub items: u64,
    /// Those that have not ended, failed ones included.
    pub running: u64,
    /// Those that ended completed.
    pub completed: u64,
    /// Those that ended filtered.
    pub filtered: u64,
    /// Those that are running and have a failure whose position has not completed since.
    pub failed: u64,
    /// The failures of all items, recovered ones included.
    pub failures: u64,
    /// The failures by the type of the error.
    pub failures_by_error_type: BTreeMap<String, FailureGroup>,
    /// The failures by run.
    pub failures_by_run: BTreeMap<String, FailureGroup>,
    /// How many positions of each step name have completed.
    pub completed_steps: BTreeMap<String, u64>,
    /// Stored rows that are no readable event.
    pub unreadable: u64,
}

/// Failures that have something in common.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FailureGroup {
    /// How many.
    pub count: u64,
    /// The first few, by item and place, without traceback.
    pub samples: Vec<Failure>,
}

impl FailureGroup {
    fn add(&mut self, failure: &Failure) {
        self.count += 1;
        if self.samples.len() < MAX_SAMPLES {
            self.samples.push(failure.clone());
        }
    }
}

/// What one item's events say without their values; see [`super::FoldedItem`] for the fields.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemSummary {
    /// The item.
    pub item_id: ItemId,
    /// Running, completed or filtered.
    pub status: Status,
    /// Whether it is running and has a failure that has not been recovered.
    pub failed: bool,
    /// The run of the last counted event.
    pub run_id: Option<String>,
    /// The runs of the counted events, in the order of their first.
    pub run_ids: Vec<String>,
    /// When it was created, in microseconds since 1970 UTC.
    pub created_at: Option<i64>,
    /// The time of the last counted event, in microseconds since 1970 UTC.
    pub updated_at: Option<i64>,
    /// The tags, a JSON object as exact text.
    pub query_tags: Option<String>,
    /// The failures in order, without traceback and attributes.
    pub failures: Vec<Failure>,
    /// How many positions of each step name have completed.
    pub completed_steps: BTreeMap<String, u64>,
}

/// Takes outlines and tells the overview.
#[derive(Debug, Default)]
pub struct OverviewBuilder {
    items: HashMap<Box<str>, Item>,
    texts: HashSet<Arc<str>>,
    positions: HashMap<Box<[u8]>, Arc<StepPosition>>,
    /// The keys of rows that are no readable event, and how many had none.
    unreadable: HashSet<Box<str>>,
    nameless: u64,
    bytes: usize,
}

/// The events of an item so far.
#[derive(Debug)]
struct Item {
    item_id: ItemId,
    marks: Vec<Mark>,
    /// What they came to, as long as no more came.
    summary: Option<ItemSummary>,
    was_summed_up: bool,
}

/// What is kept of an event. Equal positions are one allocation, so that they compare by address.
#[derive(Debug)]
struct Mark {
    event_id: Box<str>,
    attempt: i32,
    event_type: EventType,
    status: Option<Status>,
    writer_epoch: Arc<str>,
    run_id: Arc<str>,
    item_seq: i64,
    resumed_from: Option<Box<str>>,
    position: Option<Arc<StepPosition>>,
    event_ts: i64,
    texts: Option<Box<Texts>>,
}

/// The texts that few events have.
#[derive(Debug)]
struct Texts {
    query_tags: Option<String>,
    error_type: Option<String>,
    error_dump: Option<String>,
}

impl OverviewBuilder {
    /// Takes one event.
    pub fn push(&mut self, outline: &Outline<'_>) {
        let writer_epoch = self.text(outline.writer_epoch);
        let run_id = self.text(outline.run_id);
        let position = outline.position.as_ref().map(|position| {
            let mut key = Canonical::default();
            position.write_canonical(&mut key);
            if let Some(known) = self.positions.get(key.bytes()) {
                return Arc::clone(known);
            }
            let position = Arc::new(position.to_position());
            self.bytes += SHARED_BYTES + 2 * key.bytes().len();
            self.positions.insert(key.into_bytes().into_boxed_slice(), Arc::clone(&position));
            position
        });
        let texts = (outline.query_tags, outline.error_type, outline.error_dump);
        let mark = Mark {
            event_id: outline.event_id.into(),
            attempt: outline.attempt,
            event_type: outline.event_type,
            status: outline.status,
            writer_epoch,
            run_id,
            item_seq: outline.item_seq,
            resumed_from: outline.resumed_from.map(Into::into),
            position,
            event_ts: outline.event_ts,
            texts: (texts != (None, None, None)).then(|| {
                Box::new(Texts {
                    query_tags: outline.query_tags.map(str::to_owned),
                    error_type: outline.error_type.map(str::to_owned),
                    error_dump: outline.error_dump.map(str::to_owned),
                })
            }),
        };
        let bytes = mark.bytes();
        match self.item(outline.item_id) {
            Some(item) => {
                item.marks.push(mark);
                item.summary = None;
                self.bytes += bytes;
            }
            None => self.count_unreadable(Some(outline.event_id)),
        }
    }

    /// Takes a row that is no event. Its item is counted if its id can be read.
    pub fn push_damaged(&mut self, damaged: &DamagedEvent) {
        self.count_unreadable(damaged.event_id.as_deref());
        if let Some(item_id) = &damaged.item_id {
            self.item(item_id);
        }
    }

    fn count_unreadable(&mut self, key: Option<&str>) {
        match key {
            Some(key) if self.unreadable.insert(key.into()) => self.bytes += SHARED_BYTES + key.len(),
            Some(_) => {}
            None => self.nameless += 1,
        }
    }

    /// The items in the order of their ids.
    #[must_use]
    pub fn summaries(&mut self) -> Vec<&ItemSummary> {
        for item in self.items.values_mut() {
            self.bytes -= item.sum_up();
        }
        let mut summaries: Vec<&ItemSummary> = self.items.values().filter_map(|item| item.summary.as_ref()).collect();
        summaries.sort_by(|a, b| a.item_id.cmp(&b.item_id));
        summaries
    }

    /// The overview.
    #[must_use]
    pub fn overview(&mut self) -> Overview {
        let unreadable = self.unreadable.len() as u64 + self.nameless;
        Overview { unreadable, ..Overview::of(self.summaries()) }
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn item(&mut self, text: &str) -> Option<&mut Item> {
        if !self.items.contains_key(text) {
            let item_id = ItemId::read(text).ok()?;
            self.bytes += ITEM_BYTES + 2 * text.len();
            let item = Item { item_id, marks: Vec::new(), summary: None, was_summed_up: false };
            self.items.insert(text.into(), item);
        }
        self.items.get_mut(text)
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.bytes += SHARED_BYTES + text.len();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

impl Overview {
    /// The overview of these items; `unreadable` is left at 0.
    #[must_use]
    pub fn of<'a>(summaries: impl IntoIterator<Item = &'a ItemSummary>) -> Self {
        let mut overview = Self::default();
        for item in summaries {
            overview.items += 1;
            match item.status {
                Status::Completed => overview.completed += 1,
                Status::Filtered => overview.filtered += 1,
                Status::Running | Status::Failed => overview.running += 1,
            }
            overview.failed += u64::from(item.failed);
            for failure in &item.failures {
                overview.failures += 1;
                overview.failures_by_error_type.entry(failure.error_type.clone()).or_default().add(failure);
                overview.failures_by_run.entry(failure.run_id.clone()).or_default().add(failure);
            }
            for (step, count) in &item.completed_steps {
                *overview.completed_steps.entry(step.clone()).or_default() += count;
            }
        }
        overview
    }
}

/// The completions of one position.
struct Completions {
    count: u64,
    last: usize,
    last_stream: (i32, Arc<str>),
    repeated: bool,
}

impl Item {
    /// Makes the summary if there is none; returns how many bytes became free.
    fn sum_up(&mut self) -> usize {
        if self.summary.is_some() {
            return 0;
        }
        let freed = if self.was_summed_up { self.drop_repeats() } else { 0 };
        self.was_summed_up = true;
        self.summary = Some(summary(&self.item_id, &self.marks));
        freed
    }

    /// Events that come after an answer may have come before it, too. Returns the bytes of what was dropped.
    fn drop_repeats(&mut self) -> usize {
        let repeated = stream::repeats(&self.marks.iter().collect::<Vec<_>>(), &mut Vec::new());
        let mut repeated = repeated.into_iter();
        let mut freed = 0;
        self.marks.retain(|mark| {
            let dropped = repeated.next().unwrap_or(false);
            freed += if dropped { mark.bytes() } else { 0 };
            !dropped
        });
        freed
    }
}

fn summary(item_id: &ItemId, marks: &[Mark]) -> ItemSummary {
    let kept = stream::resolve(marks.iter().collect(), &[]).kept;
    let end = kept.iter().position(|mark| mark.event_type == EventType::Terminal).map_or(kept.len(), |at| at + 1);
    let counted = &kept[..end];
    let completions = completions(counted);
    let created = counted.iter().find(|mark| mark.event_type == EventType::ItemCreated);
    let status = counted.last().map_or(Status::Running, |mark| match (mark.event_type, mark.status) {
        (EventType::Terminal, Some(Status::Filtered)) => Status::Filtered,
        (EventType::Terminal, _) => Status::Completed,
        _ => Status::Running,
    });
    let failures: Vec<Failure> = counted
        .iter()
        .enumerate()
        .filter(|(_, mark)| mark.event_type == EventType::Failed)
        .map(|(at, mark)| {
            let done = mark.position.as_ref().and_then(|position| completions.get(&Arc::as_ptr(position)));
            mark.failure(item_id, done.is_some_and(|(_, done)| done.last > at))
        })
        .collect();
    let mut completed_steps = BTreeMap::new();
    for (position, done) in completions.values() {
        let times = if done.repeated { done.count } else { 1 };
        *completed_steps.entry(position.step_name.clone()).or_default() += times;
    }
    let mut runs = HashSet::new();
    let run_ids = counted.iter().filter(|mark| runs.insert(&mark.run_id)).map(|mark| mark.run_id.to_string());
    ItemSummary {
        item_id: item_id.clone(),
        status,
        failed: status == Status::Running && failures.iter().any(|failure| !failure.recovered),
        run_id: counted.last().map(|mark| mark.run_id.to_string()),
        run_ids: run_ids.collect(),
        created_at: created.or(counted.first()).map(|mark| mark.event_ts),
        updated_at: counted.last().map(|mark| mark.event_ts),
        query_tags: created.and_then(|mark| mark.texts.as_ref()?.query_tags.clone()),
        failures,
        completed_steps,
    }
}

type ByPosition<'a> = HashMap<*const StepPosition, (&'a StepPosition, Completions)>;

fn completions<'a>(counted: &[&'a Mark]) -> ByPosition<'a> {
    let mut completions: ByPosition<'a> = HashMap::new();
    for (at, mark) in counted.iter().enumerate() {
        let (EventType::StepCompleted, Some(position)) = (mark.event_type, &mark.position) else { continue };
        let stream = (mark.attempt, Arc::clone(&mark.writer_epoch));
        match completions.get_mut(&Arc::as_ptr(position)) {
            Some((_, done)) => {
                done.count += 1;
                done.last = at;
                done.repeated |= done.last_stream == stream;
                done.last_stream = stream;
            }
            None => {
                let done = Completions { count: 1, last: at, last_stream: stream, repeated: false };
                completions.insert(Arc::as_ptr(position), (position, done));
            }
        }
    }
    completions
}

impl Mark {
    fn bytes(&self) -> usize {
        let texts = self.texts.as_ref().map_or(0, |texts| {
            let all = [&texts.query_tags, &texts.error_type, &texts.error_dump];
            size_of::<Texts>() + all.into_iter().flatten().map(String::len).sum::<usize>()
        });
        size_of::<Self>() + self.event_id.len() + self.resumed_from.as_ref().map_or(0, |id| id.len()) + texts
    }

    fn outline(&self) -> Outline<'_> {
        let texts = self.texts.as_ref();
        Outline {
            event_id: &self.event_id,
            item_id: "",
            attempt: self.attempt,
            writer_epoch: &self.writer_epoch,
            run_id: &self.run_id,
            item_seq: self.item_seq,
            resumed_from: self.resumed_from.as_deref(),
            event_type: self.event_type,
            position: self.position.as_ref().map(|position| position.borrowed()),
            status: self.status,
            query_tags: texts.and_then(|texts| texts.query_tags.as_deref()),
            error_type: texts.and_then(|texts| texts.error_type.as_deref()),
            error_dump: texts.and_then(|texts| texts.error_dump.as_deref()),
            event_ts: self.event_ts,
        }
    }

    fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Canonical::default();
        self.outline().write_canonical(&mut out);
        out.into_bytes()
    }

    fn failure(&self, item_id: &ItemId, recovered: bool) -> Failure {
        let texts = self.texts.as_ref();
        Failure {
            item_id: item_id.clone(),
            position: self.position.as_deref().cloned().unwrap_or_else(StepPosition::root),
            error_type: texts.and_then(|texts| texts.error_type.clone()).unwrap_or_default(),
            error_dump: texts.and_then(|texts| texts.error_dump.clone()),
            traceback: None,
            attributes: None,
            run_id: self.run_id.to_string(),
            attempt: self.attempt,
            item_seq: self.item_seq,
            event_id: self.event_id.to_string(),
            event_ts: self.event_ts,
            recovered,
        }
    }
}

impl Link for &Mark {
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

    fn compare(&self, other: &Self) -> Ordering {
        self.canonical_bytes().cmp(&other.canonical_bytes()).then(self.event_ts.cmp(&other.event_ts))
    }
}

#[cfg(test)]
mod tests;
