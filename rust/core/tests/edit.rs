//! Deletes, updates and conflicts: right in every mix of tiers, and never lost to another writer.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use lance_context_core::GenericStore;
use lance_context_core::codec::RowEncoder;
use lance_context_spec::{Error, OnConflict, Query, ReadMode, Value};

use crate::support::{
    Place, blob, everything, expect, fetch, get, list, no_grace, quiet, rows, run, schema, spawn, sql,
};

fn change(n: i64) -> RecordBatch {
    let mut encoder = RowEncoder::new(Arc::new(schema().only(&["n".to_owned()])), 1);
    encoder.set(0, Value::Int(n.into())).unwrap();
    encoder.end_row().unwrap();
    encoder.finish().unwrap()
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Everything that happens between two looks: nothing, a seal, or a merge.
async fn settle(store: &GenericStore, stage: usize) {
    if stage > 0 {
        store.flush().await.unwrap();
    }
    if stage > 1 {
        store.merge().await.unwrap();
    }
}

#[test]
fn a_deleted_row_is_gone_in_every_mix_of_tiers_and_can_come_back() {
    for first in 0..3 {
        for second in 0..3 {
            let place = Place::new();
            run(async move {
                let store = place.open_with(no_grace()).await;
                store.add(rows(&[("a", 1), ("b", 1), ("c", 1)])).await.unwrap();
                settle(&store, first).await;
                assert_eq!(store.delete(ids(&["a", "x", "c", "a"])).await.unwrap(), 2);
                assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("b", 1)]), "{first} {second}");
                assert_eq!(store.delete(ids(&["a"])).await.unwrap(), 0, "it is gone already");
                settle(&store, second).await;
                store.add(rows(&[("c", 2)])).await.unwrap();
                let wanted = expect(&[("b", 1), ("c", 2)]);
                assert_eq!(everything(&store, ReadMode::Latest).await, wanted, "{first} {second}");
                settle(&store, 2).await;
                assert_eq!(everything(&store, ReadMode::Sealed).await, wanted, "{first} {second}");
                assert_eq!(store.stats().await.unwrap().base_rows, 2, "{first} {second}");
                let reopened = place.open().await;
                assert_eq!(everything(&reopened, ReadMode::Sealed).await, wanted, "{first} {second}");
            });
        }
    }
}

#[test]
fn one_merge_deletes_upserts_and_says_so() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        store.add(rows(&[("a", 1), ("b", 1), ("c", 1)])).await.unwrap();
        settle(&store, 2).await;
        store.delete(ids(&["a", "b"])).await.unwrap();
        store.flush().await.unwrap();
        store.add(rows(&[("b", 2), ("d", 2)])).await.unwrap();
        store.flush().await.unwrap();
        store.delete(ids(&["d"])).await.unwrap();
        store.flush().await.unwrap();
        let reader = place.open_with(no_grace()).await;
        let wanted = expect(&[("b", 2), ("c", 1)]);
        assert_eq!(everything(&reader, ReadMode::Sealed).await, wanted);
        let report = store.merge().await.unwrap();
        assert_eq!((report.generations, report.rows, report.deleted), (3, 1, 1));
        assert_eq!(everything(&reader, ReadMode::Sealed).await, wanted);
        // A merge that only deletes.
        store.delete(ids(&["b", "c"])).await.unwrap();
        store.flush().await.unwrap();
        let report = store.merge().await.unwrap();
        assert_eq!((report.generations, report.rows, report.deleted), (1, 0, 2));
        assert_eq!(everything(&reader, ReadMode::Sealed).await, BTreeMap::new());
        assert_eq!(store.stats().await.unwrap().generations, 0);
    });
}

#[test]
fn delete_where_takes_the_latest_rows_and_only_those_that_match_now() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        store.add(rows(&[("a", 1), ("b", 1), ("c", 9)])).await.unwrap();
        settle(&store, 2).await;
        store.add(rows(&[("a", 9), ("d", 1)])).await.unwrap();
        assert_eq!(store.delete_where(&sql("n = 1").unwrap()).await.unwrap(), 2);
        assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 9), ("c", 9)]));
        let error = store.delete_where(&sql("nope = 1").unwrap()).await.unwrap_err();
        assert!(matches!(error, Error::QueryColumn { .. }), "{error}");
    });
}

#[test]
fn an_update_changes_its_columns_alone() {
    for stage in 0..3 {
        let place = Place::new();
        run(async move {
            let store = place.open_with(no_grace()).await;
            store.add(blob("a", b"bytes")).await.unwrap();
            settle(&store, stage).await;
            store.update("a", change(7)).await.unwrap();
            assert_eq!(get(&store, "a", ReadMode::Latest).await, Some(7));
            assert_eq!(fetch(&store, "a").await, b"bytes", "the blob went with the update");
            let error = store.update("b", change(7)).await.unwrap_err();
            assert!(matches!(&error, Error::RowNotFound { key, .. } if key == "b"), "{error}");
            assert_eq!(store.count(None, Some(ReadMode::Latest)).await.unwrap(), 1);
        });
    }
}

/// Each adds one to the same number, through two handles that fence each other all the time.
#[test]
fn no_update_is_lost_between_two_writers() {
    let place = Place::new();
    run(async move {
        let stores = [Arc::new(place.open().await), Arc::new(place.open().await)];
        stores[0].add(rows(&[("n", 0)])).await.unwrap();
        let tasks = stores.map(|store| {
            spawn(async move {
                let mut acknowledged = 0;
                for _ in 0..10 {
                    match increment(&store).await {
                        Ok(()) => acknowledged += 1,
                        Err(Error::WriterFenced { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
                acknowledged
            })
        });
        let mut wanted = 0;
        for task in tasks {
            wanted += task.await.unwrap();
        }
        assert_eq!(get(&place.open().await, "n", ReadMode::Latest).await, Some(wanted));
    });
}

async fn increment(store: &GenericStore) -> Result<(), Error> {
    let add_one = |stored: &RecordBatch| {
        let n = lance_context_core::codec::ColumnReader::new(stored.column_by_name("n").unwrap().as_ref())?;
        let Value::Int(n) = n.value(0) else { panic!("n is null") };
        Ok(rows(&[("n", i64::try_from(n).unwrap() + 1)]))
    };
    store.storage().update("n".to_owned(), Arc::new(add_one)).await
}

#[test]
fn conflicts_are_refused_or_ignored_whole() {
    for stage in 0..3 {
        let place = Place::new();
        run(async move {
            let store = place.open_with(no_grace()).await;
            store.add(rows(&[("a", 1), ("gone", 1)])).await.unwrap();
            store.delete(ids(&["gone"])).await.unwrap();
            settle(&store, stage).await;
            let error = store.insert(rows(&[("b", 2), ("a", 2), ("c", 2)]), OnConflict::Error).await.unwrap_err();
            assert!(matches!(&error, Error::RowExists { key, .. } if key == "a"), "{error}");
            let error = store.insert(rows(&[("b", 2), ("b", 3)]), OnConflict::Error).await.unwrap_err();
            assert!(matches!(&error, Error::RowExists { key, .. } if key == "b"), "{error}");
            assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 1)]), "something was written");
            let added = store.insert(rows(&[("b", 2), ("a", 2), ("b", 3), ("gone", 4)]), OnConflict::Ignore).await;
            assert_eq!(added.unwrap().count, 2);
            let wanted = expect(&[("a", 1), ("b", 2), ("gone", 4)]);
            assert_eq!(everything(&store, ReadMode::Latest).await, wanted);
            let added = store.insert(rows(&[("c", 5), ("a", 5)]), OnConflict::Replace).await;
            assert_eq!(added.unwrap().count, 2);
            assert_eq!(get(&store, "a", ReadMode::Latest).await, Some(5));
        });
    }
}

/// More keys than are looked up one by one.
#[test]
fn conflicts_of_a_large_batch_are_found_by_a_scan() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        let names: Vec<String> = (0..1_000).map(|i| format!("row-{i}")).collect();
        let batch = |from: usize, n: i64| {
            let batch: Vec<(&str, i64)> = names[from..].iter().map(|id| (id.as_str(), n)).collect();
            rows(&batch)
        };
        store.add(batch(900, 1)).await.unwrap();
        settle(&store, 2).await;
        store.add(batch(950, 2)).await.unwrap();
        assert_eq!(store.insert(batch(0, 3), OnConflict::Ignore).await.unwrap().count, 900);
        assert_eq!(get(&store, "row-899", ReadMode::Latest).await, Some(3));
        assert_eq!(get(&store, "row-900", ReadMode::Latest).await, Some(1));
        assert_eq!(get(&store, "row-950", ReadMode::Latest).await, Some(2));
        assert_eq!(store.delete(names.clone()).await.unwrap(), 1_000);
        assert_eq!(store.count(None, Some(ReadMode::Latest)).await.unwrap(), 0);
    });
}

#[test]
fn many_rows_are_fetched_in_the_order_of_their_ids() {
    for stage in 0..3 {
        let place = Place::new();
        run(async move {
            let store = place.open_with(no_grace()).await;
            store.add(rows(&[("a", 1), ("b", 2), ("c", 3)])).await.unwrap();
            settle(&store, stage).await;
            store.add(rows(&[("b", 4)])).await.unwrap();
            let found = store.get_many(ids(&["c", "x", "b", "a", "c"]), None, Some(ReadMode::Latest)).await.unwrap();
            let numbers: Vec<_> = found.iter().map(|row| row.as_ref().map(crate::support::number)).collect();
            assert_eq!(numbers, [Some(3), None, Some(4), Some(1), Some(3)]);
        });
    }
}

/// A stream is of one moment, and keeps its files through what happens meanwhile.
#[test]
fn a_stream_shows_its_snapshot_while_others_write_and_merge() {
    for wide in [false, true] {
        let place = Place::new();
        run(async move {
            let store = place.open_with(quiet()).await;
            for stage in 0..3 {
                let id = format!("r{stage}");
                store.add(if wide { blob(&id, &[stage; 10]) } else { rows(&[(id.as_str(), 1)]) }).await.unwrap();
                settle(&store, 2 - usize::from(stage)).await;
            }
            let columns = wide.then(|| vec!["data".to_owned()]);
            let query = Query { read: Some(ReadMode::Latest), columns, ..Query::default() };
            let mut stream = store.stream(query).await.unwrap();
            store.delete(ids(&["r0", "r1"])).await.unwrap();
            store.add(rows(&[("r9", 9)])).await.unwrap();
            settle(&store, 2).await;
            let mut seen = Vec::new();
            while let Some(batch) = stream.next().await {
                seen.extend(crate::support::keys(&batch.unwrap()));
            }
            seen.sort();
            assert_eq!(seen, ["r0", "r1", "r2"], "wide: {wide}");
            assert_eq!(store.count(None, Some(ReadMode::Latest)).await.unwrap(), 2);
        });
    }
}

/// Short pages and wide rows are read by key; the result is the same.
#[test]
fn short_pages_are_what_a_scan_would_give() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        let names: Vec<String> = (0..400).map(|i| format!("{i:03}")).collect();
        for (stage, part) in names.chunks(150).enumerate() {
            let batch: Vec<(&str, i64)> = part.iter().map(|id| (id.as_str(), id.parse().unwrap())).collect();
            store.add(rows(&batch)).await.unwrap();
            settle(&store, 2 - stage).await;
        }
        let page =
            |limit, offset| Query { limit: Some(limit), offset, read: Some(ReadMode::Latest), ..Query::default() };
        let all = list(&store, Query { read: Some(ReadMode::Latest), ..Query::default() }).await;
        assert_eq!(all.len(), 400);
        for (limit, offset) in [(1, 0), (10, 145), (256, 100), (257, 100), (300, 200), (5, 400)] {
            let wanted: Vec<_> = all.iter().skip(offset).take(limit).cloned().collect();
            assert_eq!(list(&store, page(limit, offset)).await, wanted, "{limit} {offset}");
        }
        let filtered = Query { filter: sql("n % 7 = 0"), after: Some("200".to_owned()), ..page(9, 2) };
        let wanted: Vec<_> = all.iter().filter(|(_, n)| n % 7 == 0 && *n > 200).skip(2).take(9).cloned().collect();
        assert_eq!(list(&store, filtered).await, wanted);
    });
}

/// The keys of a short page and their rows are read one after the other, and must be of one moment.
#[test]
fn a_page_is_of_one_moment_while_rows_come_and_go() {
    let place = Place::new();
    run(async move {
        let store = Arc::new(place.open_with(no_grace()).await);
        store.add(rows(&[("a", 0), ("b", 0)])).await.unwrap();
        let busy = Arc::clone(&store);
        let work = spawn(async move {
            for round in 1..=100 {
                busy.delete(ids(&["a", "b"])).await.unwrap();
                busy.add(rows(&[("a", round), ("b", round)])).await.unwrap();
            }
        });
        while !work.is_finished() {
            let page = Query { limit: Some(10), read: Some(ReadMode::Latest), ..Query::default() };
            let seen = list(&store, page).await;
            let numbers: Vec<i64> = seen.iter().map(|(_, n)| *n).collect();
            assert!(numbers.is_empty() || numbers.len() == 2 && numbers[0] == numbers[1], "half an add: {seen:?}");
            let found = store.get_many(ids(&["a", "b"]), None, Some(ReadMode::Latest)).await.unwrap();
            let found: Vec<_> = found.iter().flatten().map(crate::support::number).collect();
            assert!(found.is_empty() || found.len() == 2 && found[0] == found[1], "half an add: {found:?}");
        }
        work.await.unwrap();
    });
}
