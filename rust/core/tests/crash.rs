//! What a dead process left is there, whoever looks.

use lance_context_spec::{OpenOptions, ReadMode};

use crate::support::{
    Place, everything, expect, in_dying_process, no_grace, quiet, rows, run, shard_directory, shard_manifests,
};

fn leave_behind(place: &Place, batch: &'static [(&'static str, i64)]) {
    let uri = place.uri();
    in_dying_process(async move {
        let store =
            lance_context_core::GenericStore::open(&uri, Some(crate::support::schema()), quiet()).await.unwrap();
        store.add(rows(batch)).await.unwrap();
        std::mem::forget(store);
    });
}

#[test]
fn rows_of_a_dead_writer_are_readable_without_another_write() {
    let place = Place::new();
    leave_behind(&place, &[("a", 1), ("b", 2)]);
    run(async move {
        let store = place.open().await;
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1), ("b", 2)]));
        assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 1), ("b", 2)]));
        assert_eq!(store.stats().await.unwrap().generations, 0, "reading must not claim or seal");
    });
}

#[test]
fn reading_what_a_live_writer_left_unsealed_does_not_fence_it() {
    let place = Place::new();
    run(async move {
        let writer = place.open().await;
        writer.add(rows(&[("a", 1)])).await.unwrap();
        let reader = place.open().await;
        assert_eq!(everything(&reader, ReadMode::Sealed).await, expect(&[("a", 1)]));
        writer.add(rows(&[("b", 2), ("a", 3)])).await.unwrap();
        assert_eq!(everything(&reader, ReadMode::Latest).await, expect(&[("a", 3), ("b", 2)]));
        assert_eq!(
            everything(&reader, ReadMode::Sealed).await,
            expect(&[("a", 1)]),
            "a sealed read shows what was there at open"
        );
        reader.close().await.unwrap();
        writer.add(rows(&[("c", 4)])).await.unwrap();
        writer.flush().await.unwrap();
        let all = expect(&[("a", 3), ("b", 2), ("c", 4)]);
        let late = place.open().await;
        assert_eq!(everything(&late, ReadMode::Sealed).await, all);
        assert_eq!(late.stats().await.unwrap().generations, 1, "the reader must not have sealed anything");
    });
}

#[test]
fn the_next_writer_seals_what_it_replays() {
    let place = Place::new();
    leave_behind(&place, &[("a", 1), ("b", 2)]);
    run(async move {
        let store = place.open().await;
        store.add(rows(&[("b", 3)])).await.unwrap();
        assert_eq!(store.stats().await.unwrap().generations, 1);
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1), ("b", 2)]));
        assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 1), ("b", 3)]));
    });
}

#[test]
fn fifty_careless_processes_lose_nothing_and_leave_a_bounded_log() {
    let place = Place::new();
    for i in 0..50 {
        let uri = place.uri();
        in_dying_process(async move {
            let store =
                lance_context_core::GenericStore::open(&uri, Some(crate::support::schema()), no_grace()).await.unwrap();
            store.add(rows(&[(format!("row-{i}").as_str(), i)])).await.unwrap();
            std::mem::forget(store);
        });
    }
    run(async move {
        let store = place.open_with(no_grace()).await;
        assert_eq!(everything(&store, ReadMode::Sealed).await.len(), 50);
        store.flush().await.unwrap();
        let report = store.merge().await.unwrap();
        assert_eq!(report.rows, 50);
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.base_rows, stats.generations), (50, 0));
        assert!(stats.wal_entries <= 2, "superfluous entries stay: {}", stats.wal_entries);
        assert_eq!(everything(&store, ReadMode::Sealed).await.len(), 50);
    });
}

#[test]
fn two_handles_take_turns_without_loss() {
    let place = Place::new();
    run(async move {
        let (one, two) = (place.open().await, place.open().await);
        let mut wanted = Vec::new();
        for i in 0..6 {
            let store = if i % 2 == 0 { &one } else { &two };
            let id = format!("row-{i}");
            store.add(rows(&[(id.as_str(), i), ("shared", i)])).await.unwrap();
            wanted.push((id, i));
        }
        let latest = everything(&one, ReadMode::Latest).await;
        assert_eq!(latest, everything(&two, ReadMode::Latest).await);
        for (id, i) in &wanted {
            assert_eq!(latest.get(id), Some(i));
        }
        assert_eq!(latest.get("shared"), Some(&5));
        one.close().await.unwrap();
        two.close().await.unwrap();
        let store = place.open().await;
        assert_eq!(everything(&store, ReadMode::Sealed).await, latest);
    });
}

#[test]
fn a_dropped_handle_seals_in_the_background() {
    let place = Place::new();
    run(async move {
        let reader = place.open().await;
        let store = place.open().await;
        store.add(rows(&[("a", 1)])).await.unwrap();
        drop(store);
        for _ in 0..2_000 {
            if reader.count(None, Some(ReadMode::Sealed)).await.unwrap() == 1 {
                assert_eq!(everything(&reader, ReadMode::Sealed).await, expect(&[("a", 1)]));
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the dropped handle never sealed");
    });
}

/// A crash behind the merge commit and before the trim: the shard manifest still lists the merged
/// generations, and must not let them shadow newer rows of the base table.
#[test]
fn generations_that_were_merged_and_not_trimmed_are_read_no_more() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        store.flush().await.unwrap();
        let untrimmed = shard_manifests(&place);
        store.merge().await.unwrap();
        store.close().await.unwrap();
        drop(store);
        for manifest in shard_manifests(&place) {
            if !untrimmed.contains(&manifest) {
                std::fs::remove_file(manifest).unwrap();
            }
        }
        // What a plain Lance writer does to the base table afterwards must not be hidden either.
        let mut base = lance::Dataset::open(&place.uri()).await.unwrap();
        base.delete("id = 'b'").await.unwrap();
        let store = place.open().await;
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1)]));
        store.add(rows(&[("a", 2)])).await.unwrap();
        store.flush().await.unwrap();
        let report = store.merge().await.unwrap();
        assert_eq!((report.generations, report.rows), (1, 1));
        assert_eq!(store.stats().await.unwrap().generations, 0);
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 2)]));
    });
}

/// Torn by a crash of the machine: the bytes behind it never reached the disk.
#[test]
fn a_torn_last_entry_ends_the_log_and_is_put_aside_by_the_next_claim() {
    let place = Place::new();
    leave_behind(&place, &[("a", 1)]);
    leave_behind(&place, &[("b", 2)]);
    let entries = wal_entries(&place);
    tear(&entries[entries.len() - 1]);
    run(async move {
        let store = place.open().await;
        assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 1)]));
        assert_eq!(store.stats().await.unwrap().quarantined, 0, "reading must not move anything");
        store.add(rows(&[("c", 3)])).await.unwrap();
        store.flush().await.unwrap();
        assert_eq!(store.stats().await.unwrap().quarantined, 1);
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1), ("c", 3)]));
        let reopened = place.open().await;
        assert_eq!(everything(&reopened, ReadMode::Latest).await, expect(&[("a", 1), ("c", 3)]));
    });
}

/// What lies behind it was acknowledged, so that no claim may pass over it.
#[test]
fn a_torn_entry_in_the_middle_ends_reads_and_forbids_claims() {
    let place = Place::new();
    leave_behind(&place, &[("a", 1)]);
    run(async move {
        let writer = place.open().await;
        for (id, n) in [("b", 2), ("c", 3), ("d", 4)] {
            writer.add(rows(&[(id, n)])).await.unwrap();
        }
        std::mem::forget(writer);
        let entries = wal_entries(&place);
        tear(&entries[entries.len() - 2]);
        let before = entries.len();
        let store = place.open().await;
        assert_eq!(everything(&store, ReadMode::Latest).await, expect(&[("a", 1), ("b", 2)]));
        for outcome in [store.add(rows(&[("e", 5)])).await.map(drop), store.flush().await] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, lance_context_spec::Error::Damaged { .. }), "{error}");
        }
        assert_eq!(wal_entries(&place).len(), before, "a refused claim left something behind");
        assert_eq!(store.stats().await.unwrap().quarantined, 0);
    });
}

/// An entry that is there and cannot be read is not an end of the log.
#[test]
fn an_unreadable_last_entry_is_an_error_and_a_flush_does_not_pretend() {
    let place = Place::new();
    leave_behind(&place, &[("a", 1)]);
    run(async move {
        let store = place.open().await;
        let entries = wal_entries(&place);
        let last = &entries[entries.len() - 1];
        std::fs::remove_file(last).unwrap();
        // A link to itself: there, and every read of it fails.
        std::os::unix::fs::symlink(last, last).unwrap();
        for outcome in [store.count(None, Some(ReadMode::Latest)).await.map(drop), store.flush().await] {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), lance_context_spec::Kind::Storage, "{error}");
        }
    });
}

/// Each process lives for one row: collection must not depend on how long a handle was there.
#[test]
fn short_lived_handles_collect_what_earlier_ones_left() {
    let place = Place::new();
    run(async move {
        let grace = std::time::Duration::from_secs(3600);
        for round in 0..8 {
            let options = OpenOptions { gc_grace: Some(grace), ..quiet() };
            let store = place.open_with(options).await;
            store.add(rows(&[("a", round)])).await.unwrap();
            store.flush().await.unwrap();
            store.merge().await.unwrap();
            let entries = store.stats().await.unwrap().wal_entries;
            assert!(entries <= 4, "round {round} left {entries} entries");
            store.close().await.unwrap();
            // What this process wrote becomes older than the grace time.
            for manifest in shard_manifests(&place) {
                let file = std::fs::File::options().write(true).open(manifest).unwrap();
                file.set_modified(file.metadata().unwrap().modified().unwrap() - 2 * grace).unwrap();
            }
        }
    });
}

/// WAL files by position.
fn wal_entries(place: &Place) -> Vec<std::path::PathBuf> {
    let mut entries: Vec<_> = std::fs::read_dir(shard_directory(place).join("wal"))
        .unwrap()
        .filter_map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            Some((lance::dataset::mem_wal::util::parse_bit_reversed_filename(name)?, path))
        })
        .collect();
    entries.sort();
    entries.into_iter().map(|(_, path)| path).collect()
}

fn tear(path: &std::path::Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

/// A writer that slept while another one claimed, sealed and collected finds its next slot in the log
/// free again. What it puts there is never replayed, so it must not be acknowledged as it is.
#[test]
fn a_writer_whose_fence_was_collected_loses_nothing() {
    let place = Place::new();
    run(async move {
        let sleeper = place.open_with(no_grace()).await;
        let other = place.open_with(no_grace()).await;
        sleeper.add(rows(&[("a", 1)])).await.unwrap();
        sleeper.flush().await.unwrap();
        for round in 0..3 {
            other.add(rows(&[("b", round)])).await.unwrap();
            other.flush().await.unwrap();
        }
        other.merge().await.unwrap();
        sleeper.add(rows(&[("c", 3)])).await.unwrap();
        sleeper.flush().await.unwrap();
        let wanted = expect(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(everything(&other, ReadMode::Sealed).await, wanted);
        assert_eq!(everything(&place.open().await, ReadMode::Latest).await, wanted);
    });
}
