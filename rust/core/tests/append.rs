//! Planned appends: what a plan read still holds when its rows are written, and many plans share one write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, poll};
use lance_context_core::StorageBase;
use lance_context_core::storage::{Location, MAX_ADD_ROWS, Plan, Planned, Stored};
use lance_context_spec::ReadMode::{Latest, Sealed};
use lance_context_spec::{Error, Kind, OpenOptions, Result};

use crate::faults::{Class, Fault, Faults, Operation, Rule};
use crate::log::{self, decode, events, everything, find, model};
use crate::support::{Place, no_grace, quiet, run, spawn, within};

/// Appends the next event of an item: its number is one more than there are. Says which it was.
struct Next {
    item: String,
    calls: AtomicUsize,
}

impl Next {
    fn of(item: &str) -> Arc<Self> {
        Arc::new(Self { item: item.to_owned(), calls: AtomicUsize::new(0) })
    }
}

async fn numbers(stored: &Stored<'_>, item: &str) -> Result<BTreeSet<i64>> {
    let columns = ["event_id", "item_id", "n"].map(str::to_owned);
    let rows = stored.find_many("item_id", &[item.to_owned()], &columns).await?;
    Ok(decode(&rows).into_values().map(|(_, n)| n).collect())
}

impl Plan for Next {
    fn plan<'a>(&'a self, stored: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>> {
        async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            let numbers = numbers(stored, &self.item).await?;
            let next = numbers.len() as i64 + 1;
            let event = format!("{}-{next}", self.item);
            let known = stored.get_many(std::slice::from_ref(&event), &["event_id".to_owned()]).await?;
            assert!(known[0].is_none(), "{event} is there, and {numbers:?} do not tell");
            Ok(Planned { rows: vec![events(&[(&event, &self.item, next)])], outcome: Box::new(next) })
        }
        .boxed()
    }
}

/// Appends one event unless it is there. Says whether it was new.
struct Once(&'static str);

impl Plan for Once {
    fn plan<'a>(&'a self, stored: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>> {
        async move {
            let known = stored.get_many(&[self.0.to_owned()], &["event_id".to_owned()]).await?;
            let is_new = known[0].is_none();
            let rows = if is_new { vec![events(&[(self.0, "1", 1)])] } else { Vec::new() };
            Ok(Planned { rows, outcome: Box::new(is_new) })
        }
        .boxed()
    }
}

/// Appends these rows, whatever is there.
struct Rows(Vec<RecordBatch>);

impl Plan for Rows {
    fn plan<'a>(&'a self, _: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>> {
        async move { Ok(Planned { rows: self.0.clone(), outcome: Box::new(()) }) }.boxed()
    }
}

struct Refuses;

impl Plan for Refuses {
    fn plan<'a>(&'a self, _: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>> {
        async move { Err(Error::InvalidQuery { message: "no".into() }) }.boxed()
    }
}

async fn append<T: 'static>(store: &StorageBase, plan: Arc<dyn Plan>) -> Result<T> {
    store.append(plan).await.map(|outcome| *outcome.downcast::<T>().unwrap())
}

async fn wal_entries(store: &StorageBase) -> u64 {
    store.stats().await.unwrap().wal_entries
}

async fn open_faulty(place: &Place, faults: &Arc<Faults>, writer: &str, options: OpenOptions) -> StorageBase {
    let location = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(faults) as _);
    log::try_open(location, Some(writer), options).await.unwrap()
}

#[test]
fn plans_that_wait_share_one_write_and_each_sees_those_before_it() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(0);
        let store = open_faulty(&place, &faults, "a", no_grace()).await;
        store.add(events(&[("1-1", "1", 1)])).await.unwrap();
        let before = wal_entries(&store).await;
        faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::Log).times(1)]);
        let plans: Vec<_> = (0..200).map(|n| Next::of(if n % 2 == 0 { "1" } else { "2" })).collect();
        let mut appends: FuturesUnordered<_> =
            plans.iter().map(|plan| append::<i64>(&store, Arc::clone(plan) as _)).collect();
        // Polled once, each has handed its plan over.
        assert!(poll!(appends.next()).is_pending());
        within(faults.held()).await;
        faults.heal();
        let numbers: Vec<i64> = within(appends.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(numbers.len(), 200);
        assert_eq!(wal_entries(&store).await, before + 2, "the first plan, and all the others");
        assert_eq!(find(&store, "item_id", "1", Latest).await.len(), 101);
        let twos: BTreeSet<i64> = find(&store, "item_id", "2", Latest).await.into_values().map(|(_, n)| n).collect();
        assert_eq!(twos, (1..=100).collect(), "two plans took one number");
        assert!(plans.iter().all(|plan| plan.calls.load(Ordering::Relaxed) == 1));
        store.close().await.unwrap();
        assert_eq!(everything(&log::open(&place, None, quiet()).await, Sealed).await.len(), 201);
    });
}

/// The plan was made before the other handle wrote; its rows would take a number that is gone.
#[test]
fn a_plan_is_made_anew_after_a_fence() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(0);
        // With this much grace a writer does not look whether it was fenced before it plans.
        let first = Arc::new(open_faulty(&place, &faults, "same", quiet()).await);
        assert_eq!(append::<i64>(&first, Next::of("1")).await.unwrap(), 1);
        faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::Log).times(1)]);
        let (plan, handle) = (Next::of("1"), Arc::clone(&first));
        let late = spawn({
            let plan = Arc::clone(&plan);
            async move { append::<i64>(&handle, plan).await }
        });
        within(faults.held()).await;
        let second = log::open(&place, Some("same"), quiet()).await;
        assert_eq!(append::<i64>(&second, Next::of("1")).await.unwrap(), 2);
        faults.heal();
        assert_eq!(within(late).await.unwrap().unwrap(), 3);
        assert_eq!(plan.calls.load(Ordering::Relaxed), 2);
        let wanted = model(&[("1-1", "1", 1), ("1-2", "1", 2), ("1-3", "1", 3)]);
        assert_eq!(everything(&first, Latest).await, wanted);
        assert_eq!(everything(&second, Latest).await, wanted);
    });
}

#[test]
fn handles_of_one_name_never_take_one_number_twice() {
    let place = Place::new();
    run(async move {
        let place = Arc::new(place);
        let writers = [0, 1].map(|_| {
            let place = Arc::clone(&place);
            spawn(async move {
                let store = log::open(&place, Some("same"), no_grace()).await;
                let mut taken = Vec::new();
                while taken.len() < 15 {
                    match append::<i64>(&store, Next::of("1")).await {
                        Ok(number) => taken.push(number),
                        Err(e) => assert_eq!(e.kind(), Kind::Fenced, "{e}"),
                    }
                }
                store.close().await.unwrap();
                taken
            })
        });
        let mut taken = Vec::new();
        for writer in writers {
            taken.extend(writer.await.unwrap());
        }
        let unique: BTreeSet<i64> = taken.iter().copied().collect();
        assert_eq!(unique.len(), taken.len(), "{taken:?}");
        let all = everything(&log::open(&place, None, quiet()).await, Latest).await;
        let numbers: BTreeSet<i64> = all.values().map(|(_, n)| *n).collect();
        assert_eq!(numbers, (1..=all.len() as i64).collect(), "acknowledged {unique:?}");
        assert!(unique.is_subset(&numbers));
    });
}

#[test]
fn a_plan_that_fails_takes_nobody_with_it() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(0);
        let store = open_faulty(&place, &faults, "a", no_grace()).await;
        append::<bool>(&store, Arc::new(Once("e0"))).await.unwrap();
        let before = wal_entries(&store).await;
        let refused = append::<()>(&store, Arc::new(Refuses)).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Query);
        assert!(!append::<bool>(&store, Arc::new(Once("e0"))).await.unwrap());
        append::<()>(&store, Arc::new(Rows(vec![events(&[])]))).await.unwrap();
        assert_eq!(wal_entries(&store).await, before, "nothing to write was written");
        let too_many: Vec<_> = (0..=MAX_ADD_ROWS / 8).map(|_| events(&[("many", "1", 1); 8])).collect();
        let error = append::<()>(&store, Arc::new(Rows(too_many))).await.unwrap_err();
        assert!(matches!(error, Error::BatchTooLarge { .. }), "{error}");
        faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::Log).times(1)]);
        let mut first = append::<bool>(&store, Arc::new(Once("e1"))).boxed();
        assert!(poll!(&mut first).is_pending());
        within(faults.held()).await;
        let mut good = append::<bool>(&store, Arc::new(Once("e2"))).boxed();
        let mut bad = append::<()>(&store, Arc::new(Refuses)).boxed();
        let mut again = append::<bool>(&store, Arc::new(Once("e2"))).boxed();
        assert!(poll!(&mut good).is_pending() && poll!(&mut bad).is_pending() && poll!(&mut again).is_pending());
        faults.heal();
        assert!(within(first).await.unwrap() && within(good).await.unwrap());
        assert_eq!(within(bad).await.unwrap_err().kind(), Kind::Query);
        assert!(!within(again).await.unwrap(), "it did not see the plan before it");
        assert_eq!(everything(&store, Latest).await.len(), 3);
    });
}

/// A plan that found its event among rows that are then not written must not say that all is well.
#[test]
fn a_write_that_fails_fails_every_plan_of_it() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(0);
        let store = open_faulty(&place, &faults, "a", no_grace()).await;
        append::<bool>(&store, Arc::new(Once("e0"))).await.unwrap();
        let put = || Rule::new(Fault::Slow).on(Operation::Put).of(Class::Log);
        faults.inject([put().times(1), Rule::new(Fault::Before).on(Operation::Put).of(Class::Log)]);
        let mut first = append::<bool>(&store, Arc::new(Once("e1"))).boxed();
        assert!(poll!(&mut first).is_pending());
        within(faults.held()).await;
        let mut waiting: Vec<_> =
            ["e2", "e2", "e1"].map(|event| append::<bool>(&store, Arc::new(Once(event))).boxed()).into();
        for append in &mut waiting {
            assert!(poll!(append).is_pending());
        }
        faults.release();
        assert!(within(first).await.unwrap());
        for append in waiting {
            assert_eq!(within(append).await.unwrap_err().kind(), Kind::Storage);
        }
        faults.heal();
        assert!(append::<bool>(&store, Arc::new(Once("e3"))).await.unwrap());
        assert!(!append::<bool>(&store, Arc::new(Once("e1"))).await.unwrap());
        let all = everything(&store, Latest).await;
        assert!(["e0", "e1", "e3"].iter().all(|event| all.contains_key(*event)), "{all:?}");
    });
}

#[test]
fn plans_that_do_not_fit_into_one_write_take_several() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(0);
        let store = open_faulty(&place, &faults, "a", no_grace()).await;
        append::<bool>(&store, Arc::new(Once("first"))).await.unwrap();
        let before = wal_entries(&store).await;
        let many = |name: &str| {
            let names: Vec<_> = (0..MAX_ADD_ROWS / 5 * 2).map(|n| format!("{name}{n}")).collect();
            Arc::new(Rows(vec![events(&names.iter().map(|event| (event.as_str(), name, 1)).collect::<Vec<_>>())]))
        };
        faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::Log).times(1)]);
        let mut appends: FuturesUnordered<_> =
            ["a", "b", "c", "d", "e"].iter().map(|name| append::<()>(&store, many(name))).collect();
        assert!(poll!(appends.next()).is_pending());
        within(faults.held()).await;
        faults.heal();
        let done: Vec<_> = within(appends.collect::<Vec<_>>()).await;
        assert!(done.iter().all(Result::is_ok) && done.len() == 5, "{done:?}");
        assert_eq!(wal_entries(&store).await, before + 3, "one, and two pairs");
        assert_eq!(store.count(None, Some(Latest)).await.unwrap(), 1 + 5 * (MAX_ADD_ROWS as u64 / 5 * 2));
    });
}

/// Where rows are replaced, the rows of a plan before it are the newest.
#[test]
fn a_plan_sees_rows_that_another_one_replaces() {
    struct Increment;
    impl Plan for Increment {
        fn plan<'a>(&'a self, stored: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>> {
            async move {
                let columns = ["event_id", "item_id", "n"].map(str::to_owned);
                let known = stored.get_many(&["count".to_owned()], &columns).await?;
                let n = decode(known.iter().flatten()).into_values().next().map_or(0, |(_, n)| n);
                Ok(Planned { rows: vec![events(&[("count", "1", n + 1)])], outcome: Box::new(n + 1) })
            }
            .boxed()
        }
    }
    let place = Place::new();
    run(async move {
        let kind = lance_context_core::storage::Kind { append_only: false, ..log::LOG };
        let location = Location::parse(&place.uri()).unwrap();
        let store = StorageBase::open(location, kind, Some(log::schema()), false, no_grace()).await.unwrap();
        let appends: FuturesUnordered<_> = (0..60).map(|_| append::<i64>(&store, Arc::new(Increment))).collect();
        let numbers: BTreeSet<i64> = appends.collect::<Vec<_>>().await.into_iter().map(Result::unwrap).collect();
        assert_eq!(numbers, (1..=60).collect());
        assert_eq!(find(&store, "item_id", "1", Latest).await, model(&[("count", "1", 60)]));
    });
}
