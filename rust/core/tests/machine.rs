//! Random operations through two handles of one store, against a dictionary.
//!
//! The model holds every state in which the store may be. While nothing fails that is one; an operation that fails
//! under faults leaves two, all of it or nothing of it, until a read tells which, and from then on it is that one.
//! `latest` reads must show a possible state, `sealed` reads one of the states that were, never an older one than
//! the same handle showed before.
//!
//! `PROPTEST_CASES` sets the number of cases, `LANCE_CONTEXT_SOAK=n` runs n times as many as usual from a new seed,
//! `LANCE_CONTEXT_SEED` repeats a run. A failure prints the seed and the shortest sequence found.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use lance_context_core::GenericStore;
use lance_context_core::storage::Location;
use lance_context_spec::{
    Error, Filter, Kind, MaintenanceOptions, OnConflict, OpenOptions, Query, ReadMode, Result, Value,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::faults::{Class, Fault, Faults, Operation, Rule};
use crate::support::{number, quiet, rows, runtime, schema, spawn, sql, within};

type Rows = BTreeMap<String, i64>;

/// So few keys that most writes replace something.
const KEYS: u8 = 6;

/// Longer than the first retry of a failed seal takes, so that some failures are made up for and some are not.
const SEAL_TIMEOUT: Duration = Duration::from_secs(2);

/// What sound storage always keeps.
const PATIENCE: Duration = Duration::from_secs(60);

const DEFAULT_SEED: u64 = 1;

#[derive(Clone)]
struct Case {
    setup: Setup,
    actions: Vec<Action>,
}

/// One line each, also where the caller asks for more.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setup = format!("{:?}\n", self.setup);
        let lines = self.actions.iter().map(|action| format!("{:?} by {}\n", action.op, u8::from(action.second) + 1));
        f.write_str(&std::iter::once(setup).chain(lines).collect::<String>())
    }
}

#[derive(Debug, Clone, Copy)]
struct Setup {
    in_memory: bool,
    seal_on_add: bool,
    /// Superfluous files go at once.
    no_grace: bool,
    /// Background work at every opportunity.
    maintained: bool,
    seed: u64,
}

#[derive(Debug, Clone)]
struct Action {
    second: bool,
    op: Op,
}

#[derive(Debug, Clone)]
enum Op {
    Add(Vec<u8>),
    Insert(Vec<u8>, OnConflict),
    Update(u8),
    Delete(Vec<u8>),
    DeleteWhere(Condition),
    Flush,
    Merge,
    Optimize,
    List(Page),
    Get(u8),
    GetMany(Vec<u8>),
    Count(Condition),
    Stream(Condition),
    /// The handle closes and is opened again when it is next needed.
    Reopen,
    /// Its process ends, and with it everything it had in memory.
    Crash,
    /// The same in the middle of an add: at its log entry, which fails like this.
    CrashInAdd(Vec<u8>, Fault),
    Harm(Harm),
    Heal,
}

#[derive(Debug, Clone, Copy)]
struct Page {
    condition: Option<Condition>,
    limit: Option<usize>,
    offset: usize,
    after: Option<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Condition {
    Remainder(i64, i64),
    Key(u8),
    KeyAbove(u8),
}

impl Condition {
    fn filter(self) -> Filter {
        match self {
            Self::Remainder(divisor, remainder) => sql(&format!("n % {divisor} = {remainder}")),
            Self::Key(number) => Some(Filter::Equals(vec![("id".into(), Value::Str(key(number).into()))])),
            Self::KeyAbove(number) => sql(&format!("id > '{}'", key(number))),
        }
        .unwrap()
    }

    fn holds(self, id: &str, n: i64) -> bool {
        match self {
            Self::Remainder(divisor, remainder) => n % divisor == remainder,
            Self::Key(number) => id == key(number),
            Self::KeyAbove(number) => *id > *key(number),
        }
    }

    fn of(self, rows: &Rows) -> Rows {
        rows.iter().filter(|(id, n)| self.holds(id, **n)).map(|(id, n)| (id.clone(), *n)).collect()
    }
}

/// What fails.
#[derive(Debug, Clone, Copy)]
pub enum Harm {
    Everything,
    Log,
    ShardManifest,
    Generations,
    Base,
    Reads,
    Deletes,
}

impl Harm {
    pub fn rules(self) -> Vec<Rule> {
        let on = |fault, operation, class, chance| Rule::new(fault).on(operation).of(class).with_chance(chance);
        let (put, log, manifest) = (Operation::Put, Class::Log, Class::ShardManifest);
        match self {
            Self::Everything => {
                [Fault::Before, Fault::After, Fault::LostReply].map(|fault| Rule::new(fault).with_chance(0.03)).into()
            }
            Self::Log => {
                // A torn entry with the process alive is what no store leaves: see `CrashInAdd`.
                [Fault::Before, Fault::LostReply, Fault::Full].map(|f| on(f, put, log, 0.2)).into()
            }
            Self::ShardManifest => [Fault::Before, Fault::LostReply].map(|f| on(f, put, manifest, 0.3)).into(),
            Self::Generations => {
                [Fault::Before, Fault::After, Fault::Torn].map(|f| on(f, put, Class::Generation, 0.05)).into()
            }
            Self::Base => vec![
                on(Fault::Before, put, Class::BaseManifest, 0.3),
                on(Fault::LostReply, put, Class::BaseManifest, 0.3),
                on(Fault::Torn, put, Class::BaseData, 0.1),
                on(Fault::After, put, Class::BaseData, 0.1),
            ],
            Self::Reads => vec![
                Rule::new(Fault::Before).on(Operation::Get).with_chance(0.15),
                Rule::new(Fault::Before).on(Operation::List).with_chance(0.3),
                Rule::new(Fault::After).on(Operation::List).with_chance(0.3),
            ],
            Self::Deletes => {
                [Fault::Before, Fault::After].map(|f| Rule::new(f).on(Operation::Delete).with_chance(0.4)).into()
            }
        }
    }
}

fn key(number: u8) -> String {
    format!("k{number}")
}

/// A write with its values, the same in every possible state.
#[derive(Debug, Clone)]
enum Write {
    Add(Vec<(String, i64)>),
    Insert(Vec<(String, i64)>, OnConflict),
    Update(String, i64),
    Delete(Vec<String>),
    DeleteWhere(Condition),
}

/// What a write says it did.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Wrote(usize),
    Exists(String),
    Missing,
}

impl Write {
    /// The state behind the write, and what it says.
    fn apply(&self, before: &Rows) -> (Rows, Answer) {
        let mut after = before.clone();
        let answer = match self {
            Self::Add(added) => {
                after.extend(added.iter().cloned());
                Answer::Wrote(added.len())
            }
            Self::Insert(added, on_conflict) => {
                for (id, n) in added {
                    if !after.contains_key(id) {
                        after.insert(id.clone(), *n);
                    } else if *on_conflict == OnConflict::Error {
                        return (before.clone(), Answer::Exists(id.clone()));
                    }
                }
                Answer::Wrote(after.len() - before.len())
            }
            Self::Update(id, n) => match after.get_mut(id) {
                None => Answer::Missing,
                Some(stored) => {
                    *stored = *n;
                    Answer::Wrote(1)
                }
            },
            Self::Delete(ids) => {
                after.retain(|id, _| !ids.contains(id));
                Answer::Wrote(before.len() - after.len())
            }
            Self::DeleteWhere(condition) => {
                after.retain(|id, n| !condition.holds(id, *n));
                Answer::Wrote(before.len() - after.len())
            }
        };
        (after, answer)
    }

    async fn send(&self, store: &GenericStore) -> Result<Answer> {
        let batch = |added: &[(String, i64)]| {
            let added: Vec<_> = added.iter().map(|(id, n)| (id.as_str(), *n)).collect();
            rows(&added)
        };
        let sent = match self {
            Self::Add(added) => store.add(batch(added)).await.map(|added| added.count),
            Self::Insert(added, on_conflict) => store.insert(batch(added), *on_conflict).await.map(|added| added.count),
            Self::Update(id, n) => {
                let changes = rows(&[(id.as_str(), *n)]).project(&[1]).unwrap();
                store.update(id, changes).await.map(|()| 1)
            }
            Self::Delete(ids) => store.delete(ids.clone()).await,
            Self::DeleteWhere(condition) => store.delete_where(&condition.filter()).await,
        };
        match sent {
            Ok(count) => Ok(Answer::Wrote(count)),
            Err(Error::RowExists { key, .. }) => Ok(Answer::Exists(key)),
            Err(Error::RowNotFound { .. }) => Ok(Answer::Missing),
            Err(e) => Err(e),
        }
    }
}

/// A handle, in a process of its own as far as one process can have several.
struct Process {
    runtime: Option<Runtime>,
    store: Arc<GenericStore>,
    /// Sealed reads have shown this state of the history, or every reader must see it.
    sealed: usize,
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
    directory: TempDir,
    faults: Arc<Faults>,
    faulty: bool,
    processes: [Option<Process>; 2],
    next_value: i64,
    /// The states that are possible.
    possible: Vec<Rows>,
    /// The states that were possible behind each write, the present ones last.
    history: Vec<Vec<Rows>>,
}

impl Machine {
    fn new(setup: Setup) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("store");
        let name = directory.path().file_name().unwrap().to_str().unwrap();
        let uri = if setup.in_memory { format!("memory://{name}") } else { path.to_str().unwrap().to_owned() };
        let faults = Faults::new(setup.seed);
        let location = Location::parse(&uri).unwrap().wrapped(Arc::clone(&faults) as _).sealing_within(SEAL_TIMEOUT);
        Self {
            setup,
            location,
            directory,
            faults,
            faulty: false,
            processes: [None, None],
            next_value: 0,
            possible: vec![Rows::new()],
            history: vec![vec![Rows::new()]],
        }
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
            seal_on_add: Some(self.setup.seal_on_add),
            gc_grace: self.setup.no_grace.then_some(Duration::ZERO),
            maintenance: self.setup.maintained.then_some(eager),
            ..quiet()
        }
    }

    /// Whether an operation may fail like this now.
    fn tolerates(&self, error: &Error) -> bool {
        // A machine that is busy with other things may not seal in time either.
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

    /// The handle, opened if it is not; `None` if that failed as it may.
    fn process(&mut self, second: bool) -> Option<&Process> {
        let slot = usize::from(second);
        if self.processes[slot].is_none() {
            let runtime = runtime();
            let opening = GenericStore::open_at(self.location.clone(), Some(schema()), self.options());
            let opened = runtime.block_on(within(opening));
            let store = Arc::new(self.accept(opened)?);
            // Everything durable at open is in sealed reads.
            let sealed = self.history.len() - 1;
            self.processes[slot] = Some(Process { runtime: Some(runtime), store, sealed });
        }
        self.processes[slot].as_ref()
    }

    fn on<T, F: Future<Output = Result<T>>>(
        &mut self,
        second: bool,
        work: impl FnOnce(Arc<GenericStore>) -> F,
    ) -> Option<Result<T>> {
        let process = self.process(second)?;
        Some(process.block_on(work(Arc::clone(&process.store))))
    }

    fn step(&mut self, Action { second, op }: Action) {
        match op {
            Op::Add(keys) => {
                let added = self.valued(keys);
                self.write(second, Write::Add(added));
            }
            Op::Insert(keys, on_conflict) => {
                let added = self.valued(keys);
                self.write(second, Write::Insert(added, on_conflict));
            }
            Op::Update(number) => {
                let mut changed = self.valued(vec![number]);
                let (id, n) = changed.remove(0);
                self.write(second, Write::Update(id, n));
            }
            Op::Delete(keys) => self.write(second, Write::Delete(keys.into_iter().map(key).collect())),
            Op::DeleteWhere(condition) => self.write(second, Write::DeleteWhere(condition)),
            Op::Flush => self.flush(second),
            Op::Merge => {
                if let Some(merged) = self.on(second, |store| async move { store.merge().await }) {
                    self.accept(merged);
                }
            }
            Op::Optimize => {
                if let Some(optimized) = self.on(second, |store| async move { store.optimize(None).await }) {
                    self.accept(optimized);
                }
            }
            Op::List(page) => self.list(second, page),
            Op::Get(number) => {
                let ids = vec![key(number)];
                let got = self.read(second, |store| async move {
                    Ok(vec![store.get(&key(number), None, Some(ReadMode::Latest)).await?])
                });
                self.saw_rows(&ids, got);
            }
            Op::GetMany(keys) => {
                let ids: Vec<_> = keys.into_iter().map(key).collect();
                let got = self.read(second, |store| {
                    let ids = ids.clone();
                    async move { store.get_many(ids, None, Some(ReadMode::Latest)).await }
                });
                self.saw_rows(&ids, got);
            }
            Op::Count(condition) => {
                let count = self.read(second, |store| async move {
                    store.count(Some(condition.filter()), Some(ReadMode::Latest)).await
                });
                self.saw(count, |rows| condition.of(rows).len() as u64);
            }
            Op::Stream(condition) => {
                let streamed = self.read(second, |store| async move {
                    let filter = Some(condition.filter());
                    let mut stream = store.stream(Query { filter, ..latest() }).await?;
                    let mut batches = Vec::new();
                    while let Some(batch) = stream.next().await {
                        batches.push(batch?);
                    }
                    Ok(unique(decode(&batches)))
                });
                self.saw(streamed, |rows| condition.of(rows));
            }
            Op::Reopen => {
                if let Some(process) = self.processes[usize::from(second)].take() {
                    self.accept(process.block_on(process.store.close()));
                }
            }
            Op::Crash => self.processes[usize::from(second)] = None,
            Op::CrashInAdd(keys, fault) => {
                let added = self.valued(keys);
                self.crash_in(second, Write::Add(added), fault);
            }
            Op::Harm(harm) => {
                self.faults.inject(harm.rules());
                self.faulty = true;
            }
            Op::Heal => self.heal(),
        }
        self.observe(second);
    }

    fn heal(&mut self) {
        self.faults.heal();
        self.faulty = false;
    }

    /// Each key with a value that no other write has.
    fn valued(&mut self, keys: Vec<u8>) -> Vec<(String, i64)> {
        let values = self.next_value..;
        let valued: Vec<_> = keys.into_iter().map(key).zip(values).collect();
        self.next_value += i64::try_from(valued.len()).unwrap();
        valued
    }

    fn write(&mut self, second: bool, write: Write) {
        let sent = self.on(second, |store| {
            let write = write.clone();
            async move { write.send(&store).await }
        });
        if let Some(sent) = sent {
            self.settle(&write, sent);
        }
    }

    /// What is possible behind a write that ended like this.
    fn settle(&mut self, write: &Write, sent: Result<Answer>) {
        match sent {
            Ok(answer) => {
                let outcomes = self.possible.iter().map(|before| write.apply(before));
                let possible: Vec<_> = outcomes.filter(|(_, said)| *said == answer).map(|(after, _)| after).collect();
                assert!(!possible.is_empty(), "{write:?} answered {answer:?} in {:?}", self.possible);
                self.now(possible);
                if self.setup.seal_on_add && matches!(answer, Answer::Wrote(_)) {
                    self.everything_is_sealed();
                }
            }
            // Fenced in every attempt, so that nothing was written in any; unless it was the seal behind the write.
            Err(e) if self.tolerates(&e) && e.kind() == Kind::Fenced && !self.setup.seal_on_add => {
                assert!(matches!(e, Error::WriterFenced { .. } | Error::WriteUncertain { .. }), "{e}");
                if matches!(e, Error::WriteUncertain { .. }) {
                    self.may_have_happened(write);
                }
            }
            Err(e) if self.tolerates(&e) => self.may_have_happened(write),
            Err(e) => panic!("{write:?} failed: {e} ({:?})", e.kind()),
        }
    }

    /// Ends the process at the first log entry that `write` puts: its own, or that of a claim.
    fn crash_in(&mut self, second: bool, write: Write, fault: Fault) {
        self.heal();
        if self.process(second).is_none() {
            return;
        }
        let process = self.processes[usize::from(second)].take().unwrap();
        self.faults.inject([Rule::new(fault).on(Operation::Put).of(Class::Log).times(1).held()]);
        let (store, sent, faults) = (Arc::clone(&process.store), write.clone(), Arc::clone(&self.faults));
        let sent = process.block_on(async move {
            let sending = spawn(async move { sent.send(&store).await });
            tokio::select! {
                () = faults.held() => None,
                // The slot was taken, so that nothing could be torn or lost.
                sent = sending => Some(sent.unwrap()),
            }
        });
        drop(process);
        self.heal();
        match sent {
            Some(sent) => self.settle(&write, sent),
            None if fault == Fault::LostReply => self.may_have_happened(&write),
            None => {}
        }
    }

    fn may_have_happened(&mut self, write: &Write) {
        let mut possible = self.possible.clone();
        possible.extend(self.possible.iter().map(|before| write.apply(before).0));
        self.now(possible);
    }

    fn now(&mut self, mut possible: Vec<Rows>) {
        possible.sort();
        possible.dedup();
        self.history.push(possible.clone());
        self.possible = possible;
    }

    fn flush(&mut self, second: bool) {
        let flushed = self.on(second, |store| async move { store.flush().await });
        if flushed.and_then(|flushed| self.accept(flushed)).is_some() {
            self.everything_is_sealed();
        }
    }

    fn everything_is_sealed(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            process.sealed = self.history.len() - 1;
        }
    }

    /// A read. What another process collects under it may make it fail, and then it can be repeated.
    fn read<T, F: Future<Output = Result<T>>>(
        &mut self,
        second: bool,
        work: impl Fn(Arc<GenericStore>) -> F,
    ) -> Option<T> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.on(second, &work)? {
                Err(e) if self.setup.maintained && self.setup.no_grace && e.kind() == Kind::Storage && attempt < 20 => {
                }
                outcome => return self.accept(outcome),
            }
        }
    }

    /// What was read must be so in some possible state, and the others are ruled out.
    fn saw<T: PartialEq + std::fmt::Debug>(&mut self, seen: Option<T>, of: impl Fn(&Rows) -> T) {
        let Some(seen) = seen else { return };
        let before = self.possible.clone();
        self.possible.retain(|rows| of(rows) == seen);
        assert!(!self.possible.is_empty(), "a read showed {seen:?}, but the store can only be one of {before:?}");
        *self.history.last_mut().unwrap() = self.possible.clone();
    }

    fn saw_rows(&mut self, ids: &[String], got: Option<Vec<Option<RecordBatch>>>) {
        let got = got.map(|got| got.into_iter().map(|row| row.map(|row| number(&row))).collect::<Vec<_>>());
        self.saw(got, |rows| ids.iter().map(|id| rows.get(id).copied()).collect());
    }

    fn list(&mut self, second: bool, page: Page) {
        let listed = self.read(second, |store| async move {
            let query = Query {
                filter: page.condition.map(Condition::filter),
                limit: page.limit,
                offset: page.offset,
                after: page.after.map(key),
                ..latest()
            };
            Ok(decode(&store.list(query).await?))
        });
        self.saw(listed, |rows| {
            let rows = page.condition.map_or_else(|| rows.clone(), |condition| condition.of(rows));
            let after = page.after.map(key);
            let rows = rows.into_iter().filter(|(id, _)| after.as_ref().is_none_or(|after| id > after));
            rows.skip(page.offset).take(page.limit.unwrap_or(usize::MAX)).collect::<Vec<_>>()
        });
    }

    /// The whole store, by both kinds of reads.
    fn observe(&mut self, second: bool) {
        let seen = self.read(second, |store| async move {
            let seen = unique(decode(&store.list(latest()).await?));
            let count = store.count(None, Some(ReadMode::Latest)).await?;
            assert_eq!(count, seen.len() as u64, "count and list differ: {seen:?}");
            Ok(seen)
        });
        self.saw(seen, Rows::clone);
        let query = || Query { read: Some(ReadMode::Sealed), ..Query::default() };
        let sealed = self.read(second, |store| async move { Ok(unique(decode(&store.list(query()).await?))) });
        let (Some(sealed), Some(process)) = (sealed, self.processes[usize::from(second)].as_mut()) else { return };
        let from = process.sealed;
        let found = (from..self.history.len()).find(|state| self.history[*state].contains(&sealed));
        let states = || self.history[from..].iter().map(|states| format!("\n{states:?}")).collect::<String>();
        process.sealed = found.unwrap_or_else(|| panic!("a sealed read showed {sealed:?}, none of{}", states()));
    }

    /// Storage works again: every row is where it belongs, once.
    fn finish(mut self) {
        self.heal();
        self.location = self.location.clone().sealing_within(PATIENCE);
        self.processes = [None, None];
        for second in [false, true] {
            self.step(Action { second, op: Op::Add(vec![0]) });
        }
        self.step(Action { second: true, op: Op::Flush });
        self.step(Action { second: true, op: Op::Optimize });
        // The first handle gives up its part in maintenance.
        self.step(Action { second: false, op: Op::Reopen });
        self.step(Action { second: true, op: Op::Flush });
        self.step(Action { second: true, op: Op::Optimize });
        let [model] = &self.possible[..] else { panic!("two states are left: {:?}", self.possible) };
        let model = model.clone();
        let stats = self.read(true, |store| async move { store.stats().await }).unwrap();
        assert_eq!((stats.generations, stats.unsealed_rows), (0, 0));
        assert_eq!(stats.base_rows, model.len() as u64, "rows of the base table");
        if self.setup.no_grace && !self.setup.maintained {
            assert!(stats.wal_entries <= 2, "{} log entries stay", stats.wal_entries);
        }
        if self.setup.no_grace && !self.setup.maintained && !self.setup.in_memory {
            assert_eq!(self.generations_on_disk(), Vec::<String>::new());
        }
    }

    fn generations_on_disk(&self) -> Vec<String> {
        let shards = std::fs::read_dir(self.directory.path().join("store/_mem_wal")).unwrap();
        let entries = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains("_gen_")).collect()
    }
}

fn latest() -> Query {
    Query { read: Some(ReadMode::Latest), ..Query::default() }
}

fn decode(batches: &[RecordBatch]) -> Vec<(String, i64)> {
    batches.iter().flat_map(crate::support::decode).collect()
}

fn unique(rows: Vec<(String, i64)>) -> Rows {
    let unique: Rows = rows.iter().cloned().collect();
    assert_eq!(unique.len(), rows.len(), "a row came twice: {rows:?}");
    unique
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    vec(0..KEYS, 1..=3)
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        (2..4_i64).prop_flat_map(|divisor| (0..divisor).prop_map(move |rest| Condition::Remainder(divisor, rest))),
        (0..KEYS).prop_map(Condition::Key),
        (0..KEYS).prop_map(Condition::KeyAbove),
    ]
}

fn page() -> impl Strategy<Value = Page> {
    let parts = (prop::option::of(condition()), prop::option::of(0..4_usize), 0..3_usize, prop::option::of(0..KEYS));
    parts.prop_map(|(condition, limit, offset, after)| Page { condition, limit, offset, after })
}

pub fn harm() -> impl Strategy<Value = Harm> {
    use Harm::{Base, Deletes, Everything, Generations, Log, Reads, ShardManifest};
    prop::sample::select(vec![Everything, Log, ShardManifest, Generations, Base, Reads, Deletes])
}

fn op(faults: bool) -> BoxedStrategy<Op> {
    let conflicts = prop::sample::select(vec![OnConflict::Error, OnConflict::Ignore]);
    let deaths = prop::sample::select(vec![Fault::Before, Fault::LostReply, Fault::Torn]);
    let usual = prop_oneof![
        16 => keys().prop_map(Op::Add),
        6 => (keys(), conflicts).prop_map(|(keys, on_conflict)| Op::Insert(keys, on_conflict)),
        6 => (0..KEYS).prop_map(Op::Update),
        6 => keys().prop_map(Op::Delete),
        4 => condition().prop_map(Op::DeleteWhere),
        8 => Just(Op::Flush),
        6 => Just(Op::Merge),
        2 => Just(Op::Optimize),
        6 => page().prop_map(Op::List),
        1 => (0..KEYS).prop_map(Op::Get),
        2 => keys().prop_map(Op::GetMany),
        2 => condition().prop_map(Op::Count),
        2 => condition().prop_map(Op::Stream),
        4 => Just(Op::Reopen),
        4 => Just(Op::Crash),
        2 => (keys(), deaths).prop_map(|(keys, fault)| Op::CrashInAdd(keys, fault)),
    ];
    if !faults {
        return usual.boxed();
    }
    prop_oneof![70 => usual, 12 => harm().prop_map(Op::Harm), 4 => Just(Op::Heal)].boxed()
}

fn cases(faults: bool, maintained: bool, length: usize) -> impl Strategy<Value = Case> {
    let setup = (prop::bool::weighted(0.25), prop::bool::weighted(0.2), any::<bool>(), any::<u64>()).prop_map(
        move |(in_memory, seal_on_add, no_grace, seed)| Setup { in_memory, seal_on_add, no_grace, maintained, seed },
    );
    let action = (prop::bool::weighted(0.3), op(faults)).prop_map(|(second, op)| Action { second, op });
    (setup, vec(action, length / 2..=length)).prop_map(|(setup, actions)| Case { setup, actions })
}

/// Runs `usual` cases, or as many as the environment says, in so many threads: most of a failing operation is waiting.
fn explore<S: Strategy<Value = Case>>(usual: u64, threads: u64, strategy: impl Fn() -> S + Sync) {
    explore_with(usual, threads, strategy, play);
}

/// The same for other machines: `play` runs a case and returns its faults.
pub fn explore_with<C: fmt::Debug, S: Strategy<Value = C>>(
    usual: u64,
    threads: u64,
    strategy: impl Fn() -> S + Sync,
    play: fn(C) -> Arc<Faults>,
) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let soak = number("LANCE_CONTEXT_SOAK");
    let new_seed = || soak.map(|_| RandomState::new().hash_one(0) / 2);
    let first_seed = number("LANCE_CONTEXT_SEED").or_else(new_seed).unwrap_or(DEFAULT_SEED);
    let cases = number("PROPTEST_CASES").unwrap_or(usual * soak.unwrap_or(1)).div_ceil(threads);
    let strategy = &strategy;
    std::thread::scope(|scope| {
        for seed in first_seed..first_seed + threads {
            scope.spawn(move || explore_from(seed, u32::try_from(cases).unwrap(), &strategy(), play));
        }
    });
}

fn play(case: Case) -> Arc<Faults> {
    let mut machine = Machine::new(case.setup);
    let faults = Arc::clone(&machine.faults);
    for action in case.actions {
        machine.step(action);
    }
    machine.finish();
    faults
}

fn explore_from<C: fmt::Debug>(seed: u64, cases: u32, strategy: &impl Strategy<Value = C>, play: fn(C) -> Arc<Faults>) {
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 1000,
        max_shrink_time: 60_000,
        ..ProptestConfig::default()
    };
    let injected = RefCell::new(BTreeMap::<Fault, u64>::new());
    let outcome = TestRunner::new(config).run(strategy, |case| {
        let faults = play(case);
        for ((.., fault), count) in faults.injected() {
            *injected.borrow_mut().entry(fault).or_default() += count;
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("seed {seed}, {cases} cases: {failure}");
    }
    println!("seed {seed}, {cases} cases, injected: {:?}", injected.borrow());
}

#[test]
fn any_sequence_of_operations_equals_the_model() {
    explore(24, 1, || cases(false, false, 40));
}

#[test]
fn any_sequence_of_operations_equals_the_model_while_storage_fails() {
    explore(24, 4, || cases(true, false, 40));
}

#[test]
fn any_sequence_of_operations_equals_the_model_while_maintenance_races_it() {
    explore(16, 2, || cases(false, true, 60));
}
