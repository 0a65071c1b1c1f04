//! A crash before any step of any operation: the next process finds everything that was acknowledged, what was in
//! flight whole or not at all, nothing twice, and goes on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use lance_context_core::GenericStore;
use lance_context_core::storage::{Location, Step};
use lance_context_spec::ReadMode;

use crate::faults::{Class, CrashAt, Fault, Faults, Operation, Rule};
use crate::support::{Place, everything, in_dying_process, no_grace, rows, run, schema, spawn};

const CREATION: [Step; 3] = [Step::CreateTable, Step::CreateIndex, Step::CreateLog];
const WRITES: [Step; 6] = [Step::Quarantine, Step::Claim, Step::SealReplayed, Step::Put, Step::Acknowledge, Step::Seal];
const MERGES: [Step; 4] = [Step::CommitDelete, Step::CommitMerge, Step::Trim, Step::Collect];
const UPKEEP: [Step; 3] = [Step::Index, Step::Compact, Step::Clean];
/// Only an append-only store takes it: see `shard_steps`.
const SHARDS: [Step; 1] = [Step::Announce];

#[derive(Debug, Clone)]
enum Write {
    Add(&'static [(&'static str, i64)]),
    Update(&'static str, i64),
    Delete(&'static [&'static str]),
}

impl Write {
    fn apply(&self, rows: &mut BTreeMap<String, i64>) {
        match self {
            Self::Add(added) => rows.extend(added.iter().map(|(id, n)| ((*id).to_owned(), *n))),
            Self::Update(id, n) => drop(rows.insert((*id).to_owned(), *n)),
            Self::Delete(ids) => rows.retain(|id, _| !ids.contains(&id.as_str())),
        }
    }

    async fn send(&self, store: &GenericStore) -> lance_context_spec::Result<()> {
        match self {
            Self::Add(added) => store.add(rows(added)).await.map(drop),
            Self::Update(id, n) => store.update(id, change(id, *n)).await,
            Self::Delete(ids) => store.delete(ids.iter().map(|id| (*id).to_owned()).collect()).await.map(drop),
        }
    }
}

fn change(id: &str, n: i64) -> RecordBatch {
    rows(&[(id, n)]).project(&[1]).unwrap()
}

/// What a process was promised, kept where its death cannot reach.
#[derive(Debug, Default)]
struct Ledger(Mutex<Promises>);

#[derive(Debug, Default)]
struct Promises {
    acknowledged: BTreeMap<String, i64>,
    in_flight: Option<Write>,
}

impl Ledger {
    async fn write(&self, store: &GenericStore, write: Write) {
        self.0.lock().unwrap().in_flight = Some(write.clone());
        write.send(store).await.unwrap();
        let mut promises = self.0.lock().unwrap();
        write.apply(&mut promises.acknowledged);
        promises.in_flight = None;
    }

    /// The states in which the next process may find the store.
    fn allowed(&self, crashed_before: Step) -> Vec<BTreeMap<String, i64>> {
        let promises = self.0.lock().unwrap();
        let mut allowed = vec![promises.acknowledged.clone()];
        // Nothing of a write exists before its put.
        if let Some(write) = &promises.in_flight
            && crashed_before != Step::Put
        {
            let mut whole = promises.acknowledged.clone();
            write.apply(&mut whole);
            allowed.push(whole);
        }
        allowed
    }
}

/// Takes every step at least once.
async fn act(uri: String, observer: Arc<CrashAt>, ledger: Arc<Ledger>) {
    let faults = Faults::new(0);
    let place = Location::parse(&uri).unwrap().wrapped(Arc::clone(&faults) as _).observed(observer);
    let open = || GenericStore::open_at(place.clone(), Some(schema()), no_grace());
    let store = open().await.unwrap();
    ledger.write(&store, Write::Add(&[("a", 1), ("b", 1), ("c", 1), ("b", 2)])).await;
    store.flush().await.unwrap();
    ledger.write(&store, Write::Add(&[("d", 3), ("a", 3)])).await;
    store.flush().await.unwrap();
    store.merge().await.unwrap();
    ledger.write(&store, Write::Delete(&["b", "nobody"])).await;
    ledger.write(&store, Write::Update("c", 5)).await;
    store.flush().await.unwrap();
    store.merge().await.unwrap();
    ledger.write(&store, Write::Add(&[("b", 6), ("e", 6)])).await;
    ledger.write(&store, Write::Delete(&["d"])).await;

    let second = Arc::new(open().await.unwrap());
    ledger.write(&second, Write::Add(&[("f", 8)])).await;
    // The machine dies in a put: half an entry, and nobody who hears of it.
    faults.inject([Rule::new(Fault::Torn).on(Operation::Put).of(Class::Log).times(1).held()]);
    let adding = spawn(async move { second.add(rows(&[("g", 9), ("a", 9)])).await });
    faults.held().await;

    let third = open().await.unwrap();
    ledger.write(&third, Write::Add(&[("h", 10), ("f", 10)])).await;
    third.optimize(None).await.unwrap();
    ledger.write(&third, Write::Add(&[("a", 11)])).await;
    third.flush().await.unwrap();
    third.optimize(None).await.unwrap();
    ledger.write(&third, Write::Delete(&["h"])).await;
    third.close().await.unwrap();
    store.close().await.unwrap();
    adding.abort();
}

/// Lets a process die before the `nth` occurrence of `step` and another one carry on.
fn crash(step: Step, nth: u32) {
    let place = Place::new();
    let (uri, ledger, observer) = (place.uri(), Arc::new(Ledger::default()), CrashAt::new(step, nth));
    let promised = Arc::clone(&ledger);
    in_dying_process(async move {
        let acting = spawn(act(uri, Arc::clone(&observer), promised));
        tokio::select! {
            () = observer.crashed() => {}
            outcome = acting => panic!("{step:?} number {nth} was never reached: {outcome:?}"),
        }
    });
    run(async move {
        let case = format!("crashed before {step:?} number {nth}");
        let store = place.open_with(no_grace()).await;
        let mut model = everything(&store, ReadMode::Latest).await;
        let allowed = ledger.allowed(step);
        assert!(allowed.contains(&model), "{case}: {model:?} is none of {allowed:?}");
        assert_eq!(everything(&store, ReadMode::Sealed).await, model, "{case}: durable at open, yet hidden");
        carry_on(&store, &mut model, &case).await;
        store.close().await.unwrap();
        let reopened = place.open_with(no_grace()).await;
        assert_eq!(everything(&reopened, ReadMode::Sealed).await, model, "{case}: reopened");
    });
}

/// Everything works on the store that a crash has left, and merges into exactly `model`.
async fn carry_on(store: &GenericStore, model: &mut BTreeMap<String, i64>, case: &str) {
    for write in [
        Write::Add(&[("a", 101), ("new", 101)]),
        Write::Add(&[("gone", 102)]),
        Write::Update("new", 103),
        Write::Delete(&["gone", "c"]),
    ] {
        write.send(store).await.unwrap();
        write.apply(model);
        assert_eq!(everything(store, ReadMode::Latest).await, *model, "{case}: after {write:?}");
    }
    store.flush().await.unwrap();
    assert_eq!(everything(store, ReadMode::Sealed).await, *model, "{case}: flushed");
    store.merge().await.unwrap();
    assert_eq!(everything(store, ReadMode::Sealed).await, *model, "{case}: merged");
    store.optimize(None).await.unwrap();
    assert_eq!(everything(store, ReadMode::Sealed).await, *model, "{case}: optimized");
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.generations, stats.unsealed_rows), (0, 0), "{case}");
    assert_eq!(stats.base_rows, model.len() as u64, "{case}: rows of the base table");
    assert_eq!(stats.fragments, 1, "{case}: fragments");
    assert!(stats.wal_entries <= 2, "{case}: {} log entries stay", stats.wal_entries);
}

/// How often the steps come when nothing crashes, which is known to end well.
fn occurrences() -> Arc<CrashAt> {
    let (place, ledger, observer) = (Place::new(), Arc::new(Ledger::default()), CrashAt::never());
    let (acting, seen) = (act(place.uri(), Arc::clone(&observer), Arc::clone(&ledger)), Arc::clone(&observer));
    run(async move {
        acting.await;
        let store = place.open_with(no_grace()).await;
        let [wanted] = &ledger.allowed(Step::Put)[..] else { panic!("a write is left over") };
        assert_eq!(everything(&store, ReadMode::Sealed).await, *wanted);
        assert_eq!(store.stats().await.unwrap().quarantined, 1);
    });
    seen
}

/// The first and the last occurrence of each step; all of them in a long run.
fn crash_before_each(steps: &[Step]) {
    let observer = occurrences();
    for step in steps {
        let count = observer.seen(*step);
        assert!(count > 0, "{step:?} is never reached");
        for nth in 1..=count {
            if nth == 1 || nth == count || std::env::var_os("LANCE_CONTEXT_SOAK").is_some() {
                crash(*step, nth);
            }
        }
    }
}

#[test]
fn every_step_is_tried() {
    let tried = [&CREATION[..], &WRITES[..], &MERGES[..], &UPKEEP[..], &SHARDS[..]].concat();
    assert!(Step::ALL.iter().all(|step| tried.contains(step)), "some of {:?} is not in {tried:?}", Step::ALL);
}

#[test]
fn a_crash_before_any_step_of_creation_is_repaired() {
    crash_before_each(&CREATION);
}

#[test]
fn a_crash_before_any_step_of_a_write_loses_nothing() {
    crash_before_each(&WRITES);
}

#[test]
fn a_crash_before_any_step_of_a_merge_loses_nothing() {
    crash_before_each(&MERGES);
}

#[test]
fn a_crash_before_any_step_of_upkeep_loses_nothing() {
    crash_before_each(&UPKEEP);
}
