//! Visibility of the four durability words.

use std::sync::Arc;

use lance_context_core::GenericStore;
use lance_context_core::storage::Location;
use lance_context_spec::{Error, Query, ReadMode};

use crate::faults::{Class, Fault, Faults, Operation, Rule};
use crate::support::{Place, everything, expect, list, quiet, rows, run, schema, spawn, within};

#[test]
fn a_deferred_row_is_latest_at_once_and_sealed_after_a_flush() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        let other = place.open().await;
        store.add(rows(&[("a", 1)])).await.unwrap();
        assert_eq!(store.unsealed_rows(), 1);
        for handle in [&store, &other] {
            assert_eq!(everything(handle, ReadMode::Latest).await, expect(&[("a", 1)]));
            assert!(everything(handle, ReadMode::Sealed).await.is_empty());
        }
        store.flush().await.unwrap();
        assert_eq!(store.unsealed_rows(), 0);
        for handle in [&store, &other] {
            assert_eq!(everything(handle, ReadMode::Sealed).await, expect(&[("a", 1)]));
        }
    });
}

#[test]
fn flush_of_a_handle_that_never_wrote_seals_what_others_left() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        store.flush().await.unwrap();
        assert_eq!(store.stats().await.unwrap().wal_entries, 0, "an empty store is not claimed by a flush");
        let writer = place.open().await;
        writer.add(rows(&[("a", 1)])).await.unwrap();
        store.flush().await.unwrap();
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1)]));
        writer.add(rows(&[("b", 2)])).await.unwrap();
        assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 1), ("b", 2)]));
    });
}

/// A handle looks at its own memory before it looks at what is sealed.
#[test]
fn rows_that_are_sealed_between_two_looks_of_a_read_are_there_once() {
    for again in [false, true] {
        let place = Place::new();
        run(async move {
            let faults = Faults::new(1);
            let location = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
            let store = Arc::new(GenericStore::open_at(location, Some(schema()), quiet()).await.unwrap());
            store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
            store.flush().await.unwrap();
            store.add(rows(&[("b", 2), ("c", 2)])).await.unwrap();
            let mut allowed = vec![expect(&[("a", 1), ("b", 2), ("c", 2)])];
            faults.inject([Rule::new(Fault::Slow).on(Operation::Get).of(Class::ShardManifest).times(2)]);
            let (listing, counting) = (Arc::clone(&store), Arc::clone(&store));
            let latest = || Query { read: Some(ReadMode::Latest), ..Query::default() };
            let listing = spawn(async move { list(&listing, latest()).await });
            let counting = spawn(async move { counting.count(None, Some(ReadMode::Latest)).await });
            within(faults.held_up(2)).await;
            store.flush().await.unwrap();
            if again {
                store.add(rows(&[("c", 3), ("d", 3)])).await.unwrap();
                store.flush().await.unwrap();
                allowed.push(expect(&[("a", 1), ("b", 2), ("c", 3), ("d", 3)]));
            }
            faults.heal();
            let (listed, counted) = (within(listing).await.unwrap(), within(counting).await.unwrap().unwrap());
            let seen = listed.iter().cloned().collect();
            assert!(allowed.contains(&seen) && listed.len() == seen.len(), "{listed:?} is none of {allowed:?}");
            assert!(allowed.iter().any(|rows| rows.len() as u64 == counted), "{counted} rows, of {allowed:?}");
        });
    }
}

#[test]
fn concurrent_callers_share_writes_and_each_row_is_there_once() {
    let place = Place::new();
    run(async move {
        let store = Arc::new(place.open().await);
        let mut tasks = Vec::new();
        for task in 0..32 {
            let store = Arc::clone(&store);
            tasks.push(spawn(async move {
                for i in 0..20 {
                    store.add(rows(&[(format!("{task}-{i}").as_str(), i)])).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(everything(&store, ReadMode::Latest).await.len(), 640);
        let entries = store.stats().await.unwrap().wal_entries;
        assert!(entries < 640, "no two of 640 concurrent adds shared a WAL entry");
    });
}

#[test]
fn an_abandoned_add_is_written_whole() {
    let place = Place::new();
    run(async move {
        let store = Arc::new(place.open().await);
        let abandoned = {
            let store = Arc::clone(&store);
            spawn(async move { store.add(rows(&[("a", 1), ("b", 2)])).await })
        };
        tokio::task::yield_now().await;
        abandoned.abort();
        drop(abandoned.await);
        // It may land at any moment, so that one look must do.
        let seen = list(&store, Query { read: Some(ReadMode::Latest), ..Query::default() }).await;
        assert!(seen.is_empty() || seen.len() == 2, "half an add: {seen:?}");
        store.add(rows(&[("a", 1), ("b", 2)])).await.unwrap();
        assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 1), ("b", 2)]));
    });
}

#[test]
fn a_batch_beyond_one_atomic_add_is_refused_whole() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        let ids: Vec<String> = (0..=100_000).map(|i| i.to_string()).collect();
        let batch: Vec<(&str, i64)> = ids.iter().map(|id| (id.as_str(), 0)).collect();
        assert!(matches!(store.add(rows(&batch)).await, Err(Error::BatchTooLarge { .. })));
        assert!(everything(&store, ReadMode::Latest).await.is_empty());
        assert_eq!(store.add(rows(&[])).await.unwrap().count, 0);
    });
}

#[test]
fn the_memtable_is_sealed_before_it_outgrows_its_bound() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(quiet()).await;
        let ids: Vec<String> = (0..60_000).map(|i| i.to_string()).collect();
        let batch: Vec<(&str, i64)> = ids.iter().map(|id| (id.as_str(), 0)).collect();
        store.add(rows(&batch)).await.unwrap();
        assert_eq!(store.stats().await.unwrap().generations, 0);
        let ids: Vec<String> = (60_000..120_000).map(|i| i.to_string()).collect();
        let batch: Vec<(&str, i64)> = ids.iter().map(|id| (id.as_str(), 0)).collect();
        store.add(rows(&batch)).await.unwrap();
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.generations, stats.unsealed_rows), (1, 60_000));
        assert_eq!(store.count(None, Some(ReadMode::Latest)).await.unwrap(), 120_000);
    });
}

/// Opened generations are kept for the whole process.
#[test]
fn a_handle_that_cannot_read_any_more_holds_up_no_other() {
    let place = Place::new();
    run(async move {
        let writer = place.open().await;
        // More than comes with the end of a file.
        let names: Vec<_> = (0..4_000).map(|n| n.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
        writer.add(rows(&many)).await.unwrap();
        writer.flush().await.unwrap();
        let faults = Faults::new(1);
        let location = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
        let failing = GenericStore::open_at(location, Some(schema()), quiet()).await.unwrap();
        assert_eq!(failing.count(None, Some(ReadMode::Sealed)).await.unwrap(), 4_000);
        faults.inject([Rule::new(Fault::Before).on(Operation::Get).of(Class::Generation)]);
        failing.list(Query { read: Some(ReadMode::Sealed), ..Query::default() }).await.unwrap_err();
        let other = place.open().await;
        assert_eq!(everything(&other, ReadMode::Sealed).await, expect(&many));
        faults.heal();
    });
}
