//! A crash before any step of an append-only store with two writers: the next processes find everything that was
//! acknowledged, what was in flight whole or not at all, nothing twice, and go on.

use std::sync::{Arc, Mutex};

use lance_context_core::StorageBase;
use lance_context_core::storage::{Location, Step};
use lance_context_spec::ReadMode::{Latest, Sealed};

use crate::faults::{Class, CrashAt, Fault, Faults, Operation, Rule};
use crate::log::{self, Event, Events, events, everything, model, shard_directories};
use crate::support::{Place, in_dying_process, no_grace, run, spawn};

/// Nothing is deleted here.
const UNUSED: [Step; 1] = [Step::CommitDelete];

/// What the processes were promised, kept where their death cannot reach.
#[derive(Debug, Default)]
struct Ledger(Mutex<(Events, Events)>);

impl Ledger {
    async fn add(&self, store: &StorageBase, rows: &[Event<'_>]) {
        self.0.lock().unwrap().1 = model(rows);
        store.add(events(rows)).await.unwrap();
        let (acknowledged, in_flight) = &mut *self.0.lock().unwrap();
        acknowledged.append(in_flight);
    }

    /// The states in which the next process may find the store.
    fn allowed(&self, crashed_before: Step) -> Vec<Events> {
        let (acknowledged, in_flight) = &*self.0.lock().unwrap();
        let mut allowed = vec![acknowledged.clone()];
        // Nothing of a write exists before its put.
        if crashed_before != Step::Put {
            allowed.push(acknowledged.iter().chain(in_flight).map(|(k, v)| (k.clone(), v.clone())).collect());
        }
        allowed
    }
}

/// Takes every step at least once.
async fn act(uri: String, observer: Arc<CrashAt>, ledger: Arc<Ledger>) {
    let faults = Faults::new(0);
    let place = Location::parse(&uri).unwrap().wrapped(Arc::clone(&faults) as _).observed(observer);
    let open = async |writer| log::try_open(place.clone(), Some(writer), no_grace()).await.unwrap();
    let (a, b) = (open("a").await, open("b").await);
    ledger.add(&a, &[("e1", "1", 1), ("e2", "2", 2)]).await;
    ledger.add(&b, &[("e3", "1", 3)]).await;
    a.flush().await.unwrap();
    // Sent again, through the other shard.
    ledger.add(&b, &[("e1", "1", 1), ("e4", "2", 4)]).await;
    b.flush().await.unwrap();
    a.merge().await.unwrap();
    ledger.add(&b, &[("e2", "2", 2), ("e5", "1", 5)]).await;
    b.merge().await.unwrap();
    b.flush().await.unwrap();
    b.merge().await.unwrap();
    ledger.add(&a, &[("e6", "3", 6)]).await;

    let second = Arc::new(open("a").await);
    ledger.add(&second, &[("e7", "3", 7)]).await;
    // The machine dies in a put: half an entry, and nobody who hears of it.
    faults.inject([Rule::new(Fault::Torn).on(Operation::Put).of(Class::Log).times(1).held()]);
    let adding = spawn(async move { second.add(events(&[("never", "3", 0)])).await });
    faults.held().await;

    let third = open("a").await;
    ledger.add(&third, &[("e8", "1", 8)]).await;
    ledger.add(&b, &[("e9", "1", 9)]).await;
    third.optimize(None).await.unwrap();
    ledger.add(&third, &[("e10", "1", 10)]).await;
    third.flush().await.unwrap();
    third.optimize(None).await.unwrap();
    b.close().await.unwrap();
    third.close().await.unwrap();
    a.close().await.unwrap();
    adding.abort();
}

/// Lets the processes die before the `nth` occurrence of `step` and others carry on.
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
        let reader = log::open(&place, None, no_grace()).await;
        let mut found = everything(&reader, Latest).await;
        let allowed = ledger.allowed(step);
        assert!(allowed.contains(&found), "{case}: {found:?} is none of {allowed:?}");
        assert_eq!(everything(&reader, Sealed).await, found, "{case}: durable at open, yet hidden");
        let writers = [log::open(&place, Some("a"), no_grace()).await, log::open(&place, Some("b"), no_grace()).await];
        for (writer, event) in writers.iter().zip(["new-a", "new-b"]) {
            let sent = [(event, "4", 100), ("e1", "1", 1)];
            writer.add(events(&sent)).await.unwrap();
            found.extend(model(&sent));
            assert_eq!(everything(&reader, Latest).await, found, "{case}: after {event}");
        }
        for writer in &writers {
            writer.flush().await.unwrap();
            assert_eq!(everything(writer, Latest).await, found, "{case}: flushed");
            writer.merge().await.unwrap();
            assert_eq!(everything(&reader, Latest).await, found, "{case}: merged");
        }
        for writer in &writers {
            writer.optimize(None).await.unwrap();
        }
        assert_eq!(everything(&reader, Sealed).await, found, "{case}: optimized");
        let stats = reader.stats().await.unwrap();
        assert_eq!((stats.generations, stats.base_rows), (0, found.len() as u64), "{case}");
        assert_eq!(stats.fragments, 1, "{case}: fragments");
        assert_eq!(shard_directories(&place).len(), 2, "{case}: shards");
        assert!(stats.wal_entries <= 4, "{case}: {} log entries stay", stats.wal_entries);
    });
}

/// How often the steps come when nothing crashes, which is known to end well.
fn occurrences() -> Arc<CrashAt> {
    let (place, ledger, observer) = (Place::new(), Arc::new(Ledger::default()), CrashAt::never());
    let (acting, seen) = (act(place.uri(), Arc::clone(&observer), Arc::clone(&ledger)), Arc::clone(&observer));
    run(async move {
        acting.await;
        let reader = log::open(&place, None, no_grace()).await;
        let [wanted] = &ledger.allowed(Step::Put)[..] else { panic!("a write is left over") };
        assert_eq!(everything(&reader, Sealed).await, *wanted);
        assert_eq!(reader.stats().await.unwrap().quarantined, 1);
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

fn used() -> Vec<Step> {
    Step::ALL.into_iter().filter(|step| !UNUSED.contains(step)).collect()
}

#[test]
fn a_crash_before_any_step_of_two_writers_loses_nothing_first_half() {
    let steps = used();
    crash_before_each(&steps[..steps.len() / 2]);
}

#[test]
fn a_crash_before_any_step_of_two_writers_loses_nothing_second_half() {
    let steps = used();
    crash_before_each(&steps[steps.len() / 2..]);
}
