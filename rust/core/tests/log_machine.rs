//! Random operations through three handles, with two shards among them, of an append-only store, while storage fails.
//!
//! Rows are never rewritten, so that the model is a set: events that must be there, and events of failed writes that
//! may be, until a read tells. What a `latest` read has shown must stay, and what a handle's `sealed` read has shown too.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lance_context_core::StorageBase;
use lance_context_core::storage::{Location, Plan, Planned, Stored};
use lance_context_spec::ReadMode::{self, Latest, Sealed};
use lance_context_spec::{Error, Kind, MaintenanceOptions, OpenOptions, Result};
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::faults::{Class, Fault, Faults, Operation, Rule};
use crate::log::{self, decode, events, scan};
use crate::machine::{Harm, explore_with, harm};
use crate::support::{quiet, runtime, spawn, within};

type Set = BTreeSet<u16>;

/// Longer than the first retry of a failed seal takes.
const SEAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Two of the handles take turns at one shard.
const WRITERS: [&str; 3] = ["a", "b", "b"];

#[derive(Clone)]
struct Case {
    setup: Setup,
    actions: Vec<(usize, Op)>,
}

/// One line each, also where the caller asks for more.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.actions.iter().map(|(by, op)| format!("{op:?} by {by}\n"));
        f.write_str(&std::iter::once(format!("{:?}\n", self.setup)).chain(lines).collect::<String>())
    }
}

#[derive(Debug, Clone, Copy)]
struct Setup {
    in_memory: bool,
    no_grace: bool,
    maintained: bool,
    seed: u64,
}

#[derive(Debug, Clone)]
enum Op {
    /// New events, and old ones that are sent again.
    Add(u16, Vec<prop::sample::Index>),
    /// The next event, or an old one, unless it is there.
    Append(Option<prop::sample::Index>),
    Flush,
    Merge,
    Optimize,
    Reopen,
    Crash,
    /// The process dies in the first log entry of an add, which fails like this.
    CrashInAdd(Fault),
    Harm(Harm),
    Heal,
}

fn row(event: u16) -> (String, String, i64) {
    (format!("e{event:04}"), format!("{}/s:{}", event % 2, event % 3), i64::from(event))
}

fn batch(set: impl IntoIterator<Item = u16>) -> arrow::array::RecordBatch {
    let rows: Vec<_> = set.into_iter().map(row).collect();
    events(&rows.iter().map(|(event, item, n)| (event.as_str(), item.as_str(), *n)).collect::<Vec<_>>())
}

fn set(rows: &log::Events) -> Set {
    for (event, (item, n)) in rows {
        let wanted = row(u16::try_from(*n).unwrap());
        assert_eq!((event, item), (&wanted.0, &wanted.1), "a row of two events");
    }
    rows.values().map(|(_, n)| u16::try_from(*n).unwrap()).collect()
}

struct Once(u16);

impl Plan for Once {
    fn plan<'a>(&'a self, stored: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>> {
        async move {
            let (event, item, _) = row(self.0);
            let columns = scan(Latest).columns;
            let known = stored.get_many(std::slice::from_ref(&event), &columns).await?[0].is_some();
            let found = decode(&stored.find_many("item_id", &[item], &columns).await?);
            assert_eq!(found.contains_key(&event), known, "find and get of a plan differ");
            let rows = if known { Vec::new() } else { vec![batch([self.0])] };
            Ok(Planned { rows, outcome: Box::new(!known) })
        }
        .boxed()
    }
}

struct Process {
    runtime: Option<Runtime>,
    store: Arc<StorageBase>,
    /// What its sealed reads must show.
    sealed: Set,
}

impl Process {
    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(within(work))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

struct Machine {
    setup: Setup,
    location: Location,
    _directory: TempDir,
    faults: Arc<Faults>,
    faulty: bool,
    processes: [Option<Process>; 3],
    next: u16,
    there: Set,
    perhaps: Set,
}

impl Machine {
    fn new(setup: Setup) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("store");
        let name = directory.path().file_name().unwrap().to_str().unwrap();
        let uri = if setup.in_memory { format!("memory://{name}") } else { path.to_str().unwrap().to_owned() };
        let faults = Faults::new(setup.seed);
        let location = Location::parse(&uri).unwrap().wrapped(Arc::clone(&faults) as _).sealing_within(SEAL_TIMEOUT);
        let (there, perhaps) = (Set::new(), Set::new());
        let processes = [None, None, None];
        Self { setup, location, _directory: directory, faults, faulty: false, processes, next: 0, there, perhaps }
    }

    fn options(&self) -> OpenOptions {
        let eager = MaintenanceOptions {
            seal_idle: Duration::ZERO,
            seal_age: Duration::ZERO,
            merge_generations: 2,
            merge_bytes: 1 << 20,
            compact_bytes: 1 << 20,
            orphan_after: Duration::ZERO,
        };
        OpenOptions {
            gc_grace: self.setup.no_grace.then_some(Duration::ZERO),
            maintenance: self.setup.maintained.then_some(eager),
            ..quiet()
        }
    }

    /// Whether an operation may fail like this now.
    fn tolerates(&self, error: &Error) -> bool {
        self.faulty && matches!(error.kind(), Kind::Storage | Kind::Fenced)
            || error.to_string().contains("not sealed within")
    }

    #[track_caller]
    fn accept<T>(&self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(e) if self.tolerates(&e) => None,
            Err(e) => panic!("{e} ({:?})", e.kind()),
        }
    }

    fn process(&mut self, by: usize) -> Option<&mut Process> {
        if self.processes[by].is_none() {
            let runtime = runtime();
            let (location, options) = (self.location.clone(), self.options());
            let opening = async move { spawn(log::try_open(location, Some(WRITERS[by]), options)).await.unwrap() };
            let opened = runtime.block_on(within(opening));
            let store = Arc::new(self.accept(opened)?);
            self.processes[by] = Some(Process { runtime: Some(runtime), store, sealed: self.there.clone() });
        }
        self.processes[by].as_mut()
    }

    fn on<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &mut self,
        by: usize,
        work: impl FnOnce(Arc<StorageBase>) -> F,
    ) -> Option<Result<T>> {
        let process = self.process(by)?;
        let work = work(Arc::clone(&process.store));
        Some(process.block_on(async move { spawn(work).await.unwrap() }))
    }

    fn fresh(&mut self, count: u16) -> Vec<u16> {
        self.next += count;
        (self.next - count..self.next).collect()
    }

    fn old(&self, index: prop::sample::Index) -> Option<u16> {
        (self.next > 0).then(|| index.index(usize::from(self.next)) as u16)
    }

    /// What became of a write of `sent`.
    fn settle<T>(&mut self, sent: &[u16], outcome: Result<T>) {
        match outcome {
            Ok(_) => self.there.extend(sent),
            Err(e) if self.tolerates(&e) => {
                if !matches!(e, Error::WriterFenced { .. }) {
                    self.perhaps.extend(sent);
                }
            }
            Err(e) => panic!("{sent:?} failed: {e} ({:?})", e.kind()),
        }
    }

    fn step(&mut self, by: usize, op: Op) {
        match op {
            Op::Add(count, again) => {
                let mut sent = self.fresh(count);
                sent.extend(again.into_iter().filter_map(|index| self.old(index)).collect::<Vec<_>>());
                let rows = batch(sent.iter().copied());
                if let Some(added) = self.on(by, |store| async move { store.add(rows).await }) {
                    self.settle(&sent, added);
                }
            }
            Op::Append(again) => {
                let event = again.and_then(|index| self.old(index)).unwrap_or_else(|| self.fresh(1)[0]);
                let (there, perhaps) = (self.there.contains(&event), self.perhaps.contains(&event));
                let appended = self.on(by, |store| async move {
                    store.append(Arc::new(Once(event))).await.map(|new| *new.downcast::<bool>().unwrap())
                });
                let Some(appended) = appended else { return };
                if let Ok(is_new) = &appended {
                    assert!(perhaps || *is_new != there, "event {event} is new: {is_new}, and there: {there}");
                }
                self.settle(&[event], appended);
            }
            Op::Flush => {
                if let Some(flushed) = self.on(by, |store| async move { store.flush().await }) {
                    self.accept(flushed);
                }
            }
            Op::Merge => {
                if let Some(merged) = self.on(by, |store| async move { store.merge().await }) {
                    self.accept(merged);
                }
            }
            Op::Optimize => {
                if let Some(optimized) = self.on(by, |store| async move { store.optimize(None).await }) {
                    self.accept(optimized);
                }
            }
            Op::Reopen => {
                if let Some(process) = self.processes[by].take() {
                    let store = Arc::clone(&process.store);
                    self.accept(
                        process.block_on(async move { spawn(async move { store.close().await }).await.unwrap() }),
                    );
                }
            }
            Op::Crash => self.processes[by] = None,
            Op::CrashInAdd(fault) => self.crash_in_add(by, fault),
            Op::Harm(harm) => {
                self.faults.inject(harm.rules());
                self.faulty = true;
            }
            Op::Heal => self.heal(),
        }
        self.observe(by);
    }

    fn heal(&mut self) {
        self.faults.heal();
        self.faulty = false;
    }

    fn crash_in_add(&mut self, by: usize, fault: Fault) {
        self.heal();
        if self.process(by).is_none() {
            return;
        }
        let sent = self.fresh(1);
        let process = self.processes[by].take().unwrap();
        self.faults.inject([Rule::new(fault).on(Operation::Put).of(Class::Log).times(1).held()]);
        let (store, rows, faults) = (Arc::clone(&process.store), batch(sent.iter().copied()), Arc::clone(&self.faults));
        let outcome = process.block_on(async move {
            let sending = spawn(async move { store.add(rows).await });
            tokio::select! {
                () = faults.held() => None,
                sent = sending => Some(sent.unwrap()),
            }
        });
        drop(process);
        self.heal();
        match outcome {
            Some(outcome) => self.settle(&sent, outcome),
            None if fault == Fault::LostReply => self.perhaps.extend(sent),
            None => {}
        }
    }

    /// A read. What another process collects under it may make it fail, and then it can be repeated.
    fn read(&mut self, by: usize, read: ReadMode) -> Option<Set> {
        for attempt in 0.. {
            let seen = self.on(by, |store| async move { all(&store, read).await })?;
            match seen {
                Err(e) if self.setup.maintained && self.setup.no_grace && e.kind() == Kind::Storage && attempt < 20 => {
                }
                outcome => return self.accept(outcome),
            }
        }
        None
    }

    fn observe(&mut self, by: usize) {
        if let Some(seen) = self.read(by, Latest) {
            let lost: Set = self.there.difference(&seen).copied().collect();
            assert!(lost.is_empty(), "handle {by} has lost {lost:?} and shows {seen:?}");
            let made_up: Vec<_> =
                seen.iter().filter(|e| !self.there.contains(e) && !self.perhaps.contains(e)).collect();
            assert!(made_up.is_empty(), "handle {by} shows {made_up:?}, which nobody has written");
            self.there = seen;
            self.perhaps.clear();
        }
        let Some(sealed) = self.read(by, Sealed) else { return };
        let (there, perhaps) = (self.there.clone(), self.perhaps.clone());
        let Some(process) = self.processes[by].as_mut() else { return };
        assert!(sealed.is_superset(&process.sealed), "a sealed read shrinks from {:?} to {sealed:?}", process.sealed);
        assert!(sealed.iter().all(|e| there.contains(e) || perhaps.contains(e)), "{sealed:?} of {there:?}");
        process.sealed = sealed;
    }

    /// Storage works again: every row is where it belongs, once.
    fn finish(mut self) {
        self.heal();
        self.location = self.location.clone().sealing_within(Duration::from_secs(60));
        self.processes = [None, None, None];
        for by in 0..2 {
            self.step(by, Op::Add(1, Vec::new()));
            self.step(by, Op::Flush);
            self.step(by, Op::Optimize);
        }
        // Those that take part in maintenance have ended it.
        for by in 0..2 {
            self.step(by, Op::Reopen);
        }
        self.step(2, Op::Optimize);
        let stats = self.on(2, |store| async move { store.stats().await }).unwrap().unwrap();
        assert_eq!((stats.generations, stats.base_rows), (0, self.there.len() as u64));
    }
}

/// Every event by every way to read.
async fn all(store: &StorageBase, read: ReadMode) -> Result<Set> {
    let all = set(&decode(&store.list(scan(read)).await?));
    if read == Latest {
        let count = store.count(None, Some(read)).await?;
        assert_eq!(count, all.len() as u64, "count and list differ: {all:?}");
        let mut found = Set::new();
        for root in ["0", "1"] {
            let rows = store.find("root_item_id", root, scan(read).columns, Some(read)).await?;
            found.append(&mut set(&decode(&rows)));
        }
        assert_eq!(found, all, "find and list differ");
    }
    Ok(all)
}

fn op(faults: bool) -> BoxedStrategy<Op> {
    let any_event = any::<prop::sample::Index>;
    let deaths = prop::sample::select(vec![Fault::Before, Fault::LostReply, Fault::Torn]);
    let usual = prop_oneof![
        12 => (0..3_u16, vec(any_event(), 0..3)).prop_map(|(count, again)| Op::Add(count, again)),
        8 => prop::option::of(any_event()).prop_map(Op::Append),
        8 => Just(Op::Flush),
        6 => Just(Op::Merge),
        2 => Just(Op::Optimize),
        4 => Just(Op::Reopen),
        4 => Just(Op::Crash),
        2 => deaths.prop_map(Op::CrashInAdd),
    ];
    if !faults {
        return usual.boxed();
    }
    prop_oneof![46 => usual, 10 => harm().prop_map(Op::Harm), 4 => Just(Op::Heal)].boxed()
}

fn cases(faults: bool, maintained: bool, length: usize) -> impl Strategy<Value = Case> {
    let setup = (prop::bool::weighted(0.25), any::<bool>(), any::<u64>())
        .prop_map(move |(in_memory, no_grace, seed)| Setup { in_memory, no_grace, maintained, seed });
    (setup, vec((0..3_usize, op(faults)), length / 2..=length)).prop_map(|(setup, actions)| Case { setup, actions })
}

fn play(case: Case) -> Arc<Faults> {
    let mut machine = Machine::new(case.setup);
    let faults = Arc::clone(&machine.faults);
    for (by, op) in case.actions {
        machine.step(by, op);
    }
    machine.finish();
    faults
}

#[test]
fn any_sequence_of_appends_equals_the_model() {
    explore_with(16, 1, || cases(false, false, 30), play);
}

#[test]
fn any_sequence_of_appends_equals_the_model_while_storage_fails() {
    explore_with(16, 4, || cases(true, false, 30), play);
}

#[test]
fn any_sequence_of_appends_equals_the_model_while_maintenance_races_it() {
    explore_with(12, 2, || cases(false, true, 40), play);
}
