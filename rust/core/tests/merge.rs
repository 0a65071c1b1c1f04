//! Merging: nothing lost, nothing doubled, readers follow.

use std::sync::Arc;

use lance_context_core::GenericStore;
use lance_context_core::storage::{Location, Step};
use lance_context_spec::{Query, ReadMode};

use crate::faults::{Class, Fault, Faults, HoldAt, Operation, Rule};
use crate::support::{
    Place, blob, everything, expect, fetch, get, no_grace, quiet, rows, run, schema, shard_directory, spawn, within,
};

#[test]
fn the_newest_row_wins_in_every_mix_of_tiers() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        store.add(rows(&[("a", 1), ("b", 1), ("a", 2)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.add(rows(&[("b", 3), ("c", 3)])).await.unwrap();
        store.flush().await.unwrap();
        store.add(rows(&[("c", 4), ("d", 4)])).await.unwrap();
        store.flush().await.unwrap();
        store.add(rows(&[("d", 5), ("a", 5)])).await.unwrap();
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 2), ("b", 3), ("c", 4), ("d", 4)]));
        let latest = expect(&[("a", 5), ("b", 3), ("c", 4), ("d", 5)]);
        assert_eq!(everything(&store, ReadMode::Latest).await, latest);
        let report = store.merge().await.unwrap();
        assert_eq!((report.generations, report.rows), (2, 3));
        assert_eq!(everything(&store, ReadMode::Latest).await, latest);
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        assert_eq!(everything(&store, ReadMode::Sealed).await, latest);
        let report = store.merge().await.unwrap();
        assert_eq!((report.generations, report.rows), (0, 0), "a second merge has nothing to do");
    });
}

#[test]
fn a_reader_follows_merges_and_collections_of_another_handle() {
    for (options, generations_kept) in [(no_grace(), 0), (quiet(), 6)] {
        let place = Place::new();
        run(async move {
            let writer = place.open_with(options.clone()).await;
            let reader = place.open_with(options).await;
            for round in 0..6 {
                let id = format!("row-{round}");
                writer.add(rows(&[(id.as_str(), round), ("same", round)])).await.unwrap();
                writer.flush().await.unwrap();
                assert_eq!(get(&reader, "same", ReadMode::Sealed).await, Some(round));
                if round % 2 == 1 {
                    writer.merge().await.unwrap();
                }
                let seen = everything(&reader, ReadMode::Sealed).await;
                assert_eq!(seen.len(), usize::try_from(round).unwrap() + 2);
                assert_eq!(seen["same"], round);
                assert_eq!(reader.stats().await.unwrap().version, writer.stats().await.unwrap().version);
            }
            assert_eq!(writer.stats().await.unwrap().generations, 0);
            assert_eq!(generation_directories(&place), generations_kept);
        });
    }
}

fn generation_directories(place: &Place) -> usize {
    let names = std::fs::read_dir(shard_directory(place)).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().contains("_gen_")).count()
}

/// A merge that is late with its collection takes log entries whose generation it did not merge, under a reader that has
/// read the first of them and knows of no generation.
#[test]
fn a_reader_under_whom_the_log_is_collected_looks_again() {
    let place = Place::new();
    run(async move {
        let (faults, trimming) = (Faults::new(1), HoldAt::new(Step::Trim));
        let of_writer = Location::parse(&place.uri()).unwrap().observed(Arc::clone(&trimming) as _);
        let writer = Arc::new(GenericStore::open_at(of_writer, Some(schema()), no_grace()).await.unwrap());
        writer.add(rows(&[("merged", 1)])).await.unwrap();
        writer.flush().await.unwrap();
        let merging = Arc::clone(&writer);
        let merging = spawn(async move { merging.merge().await });
        within(trimming.held()).await;
        writer.add(rows(&[("a", 2)])).await.unwrap();
        writer.add(rows(&[("b", 3)])).await.unwrap();

        let of_reader = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
        let reader = GenericStore::open_at(of_reader, Some(schema()), no_grace()).await.unwrap();
        faults.inject([Rule::new(Fault::Slow).on(Operation::Get).of(Class::Log).after(1).times(1)]);
        let reading = spawn(async move { everything(&reader, ReadMode::Latest).await });
        within(faults.held()).await;
        writer.flush().await.unwrap();
        writer.add(rows(&[("c", 4)])).await.unwrap();
        writer.flush().await.unwrap();
        trimming.release();
        within(merging).await.unwrap().unwrap();
        let stats = writer.stats().await.unwrap();
        assert_eq!((stats.generations, stats.base_rows, stats.wal_entries), (2, 1, 1), "{stats:?}");
        faults.heal();
        let seen = within(reading).await.unwrap();
        assert_eq!(seen, expect(&[("merged", 1), ("a", 2), ("b", 3), ("c", 4)]));
    });
}

#[test]
fn readers_and_a_merging_writer_agree_at_every_moment() {
    let place = Place::new();
    run(async move {
        let writer = Arc::new(place.open_with(no_grace()).await);
        let reader = place.open_with(no_grace()).await;
        let busy = Arc::clone(&writer);
        let work = spawn(async move {
            for round in 0..30_i64 {
                let ids: Vec<String> = (0..4).map(|i| format!("{round}-{i}")).collect();
                let batch: Vec<(&str, i64)> = ids.iter().map(|id| (id.as_str(), round)).collect();
                busy.add(rows(&batch)).await.unwrap();
                busy.flush().await.unwrap();
                if round % 3 == 2 {
                    busy.merge().await.unwrap();
                }
            }
        });
        let mut last = 0;
        while !work.is_finished() {
            let seen = reader.count(None, None).await.unwrap();
            assert!(seen >= last, "rows vanished: {last} then {seen}");
            assert_eq!(seen % 4, 0, "half a batch is visible");
            last = seen;
        }
        work.await.unwrap();
        assert_eq!(reader.count(None, None).await.unwrap(), 120);
        assert_eq!(writer.count(None, Some(ReadMode::Latest)).await.unwrap(), 120);
    });
}

#[test]
fn a_merge_keeps_the_grace_of_other_readers() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        for round in 0..3 {
            store.add(rows(&[("a", round)])).await.unwrap();
            store.flush().await.unwrap();
        }
        store.merge().await.unwrap();
        assert_eq!(store.stats().await.unwrap().wal_entries, 3, "log entries went within the grace time");
        assert_eq!(generation_directories(&place), 3, "generations went within the grace time");
    });
}

#[test]
fn a_blob_survives_every_tier_and_never_comes_with_a_list() {
    let place = Place::new();
    run(async move {
        let bytes: Vec<u8> = (0..4_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let store = place.open_with(no_grace()).await;
        store.add(blob("b", &bytes)).await.unwrap();
        for stage in ["memtable", "generation", "base"] {
            assert_eq!(fetch(&store, "b").await, bytes, "{stage}");
            let listed = store.list(Query { read: Some(ReadMode::Latest), ..Query::default() }).await.unwrap();
            assert!(listed[0].column_by_name("data").is_none(), "{stage}");
            match stage {
                "memtable" => store.flush().await.unwrap(),
                _ => drop(store.merge().await.unwrap()),
            }
        }
        store.close().await.unwrap();
        let store = GenericStore::open_existing(&place.uri(), quiet()).await.unwrap();
        assert_eq!(fetch(&store, "b").await, bytes, "reopened");
    });
}

/// Two processes merge the same store at once, one of them a generation more than the other. Lance by itself
/// lets both insert a key that is new to both, as long as they update no row in common.
#[test]
fn concurrent_merges_of_two_handles_double_nothing() {
    let place = Place::new();
    run(async move {
        let one = Arc::new(place.open().await);
        let two = Arc::new(place.open().await);
        let mut wanted = 0;
        for round in 0..12 {
            let ids: Vec<String> = (0..4).map(|i| format!("{round}-{i}")).collect();
            let mut merges = Vec::new();
            for id in &ids {
                one.add(rows(&[(id.as_str(), round)])).await.unwrap();
                one.flush().await.unwrap();
                for store in [&one, &two] {
                    let store = Arc::clone(store);
                    merges.push(spawn(async move { store.merge().await }));
                }
            }
            wanted += ids.len();
            for merge in merges {
                merge.await.unwrap().unwrap();
            }
            assert_eq!(everything(&two, ReadMode::Sealed).await.len(), wanted, "round {round}");
        }
    });
}

/// Lance exports a partial key index when a memtable is frozen before its last batch is indexed; superseded rows
/// come back then, and a merge makes them permanent. Large batches sealed at once are where it shows.
#[test]
fn large_adds_that_are_sealed_at_once_double_nothing() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        let ids: Vec<String> =
            (0..90_000_u64).map(|i| format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        for round in 0..4 {
            let batch: Vec<(&str, i64)> = ids.iter().map(|id| (id.as_str(), round)).collect();
            store.add(rows(&batch)).await.unwrap();
            store.flush().await.unwrap();
            assert_eq!(store.count(None, None).await.unwrap(), 90_000, "round {round}, sealed");
            if round % 2 == 1 {
                store.merge().await.unwrap();
                assert_eq!(store.count(None, None).await.unwrap(), 90_000, "round {round}, merged");
                assert_eq!(store.stats().await.unwrap().base_rows, 90_000, "round {round}");
            }
        }
    });
}
