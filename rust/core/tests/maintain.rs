//! Upkeep: bounded merges, rewrites, old versions, and the background that does them by itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lance_context_core::GenericStore;
use lance_context_core::storage::Location;
use lance_context_spec::{Error, MaintenanceOptions, OpenOptions, ReadMode, Stats};

use crate::faults::{Class, Fault, Faults, Operation, Rule};
use crate::support::{Place, everything, get, no_grace, quiet, rows, run, schema, tasks, until_tasks, within};

/// A condition that background work brings about.
async fn eventually(store: &GenericStore, what: &str, holds: impl Fn(&Stats) -> bool) -> Stats {
    for _ in 0..6_000 {
        let stats = store.stats().await.unwrap();
        if holds(&stats) {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} never came: {:?}", store.stats().await.unwrap());
}

fn eager() -> MaintenanceOptions {
    MaintenanceOptions { seal_idle: Duration::from_millis(1), merge_generations: 2, ..MaintenanceOptions::default() }
}

#[test]
fn more_generations_than_one_pass_takes_are_merged_in_several() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        for round in 0..20 {
            store.add(rows(&[("same", round), (format!("row-{round}").as_str(), round)])).await.unwrap();
            store.flush().await.unwrap();
        }
        let before = store.stats().await.unwrap();
        assert_eq!(before.generations, 20);
        assert!(before.generation_bytes > 0);
        let report = store.merge().await.unwrap();
        assert_eq!((report.generations, report.rows), (20, 20 + 3), "three passes of at most eight");
        assert_eq!(get(&store, "same", ReadMode::Sealed).await, Some(19));
        assert_eq!(everything(&store, ReadMode::Sealed).await.len(), 21);
        assert_eq!(store.stats().await.unwrap().generations, 0);
    });
}

fn empty_directories(below: &Path) -> Vec<PathBuf> {
    let inside: Vec<_> = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path()).collect();
    if inside.is_empty() {
        return vec![below.to_owned()];
    }
    inside.iter().filter(|path| path.is_dir()).flat_map(|path| empty_directories(path)).collect()
}

#[test]
fn optimize_leaves_one_file_one_version_and_every_row() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        let reader = place.open_with(no_grace()).await;
        for round in 0..10 {
            store.add(rows(&[("same", round), (format!("row-{round}").as_str(), round)])).await.unwrap();
            store.flush().await.unwrap();
            store.merge().await.unwrap();
        }
        store.delete(vec!["row-3".to_owned()]).await.unwrap();
        store.flush().await.unwrap();
        let report = store.optimize(None).await.unwrap();
        assert_eq!((report.generations, report.fragments_added), (1, 1));
        assert!(report.fragments_removed >= 9 && report.versions_removed > 0, "{report:?}");
        for handle in [&store, &reader, &place.open().await] {
            let all = everything(handle, ReadMode::Sealed).await;
            assert_eq!((all.len(), all["same"]), (10, 9));
        }
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.fragments, stats.versions, stats.base_rows), (1, 1, 10), "{stats:?}");
        assert_eq!(empty_directories(place.dir.path()), Vec::<PathBuf>::new());
        // What was rewritten can be overwritten and deleted like anything else.
        store.add(rows(&[("row-1", 100)])).await.unwrap();
        store.delete(vec!["row-2".to_owned()]).await.unwrap();
        store.flush().await.unwrap();
        store.optimize(None).await.unwrap();
        let all = everything(&reader, ReadMode::Sealed).await;
        assert_eq!((all.len(), all["row-1"]), (9, 100));
    });
}

/// Each of the files is in a segment of the key index of its own.
#[test]
fn optimize_makes_one_file_of_a_few() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        for round in 0..4 {
            store.add(rows(&[("same", round), (format!("row-{round}").as_str(), round)])).await.unwrap();
            store.flush().await.unwrap();
            store.merge().await.unwrap();
        }
        assert_eq!(store.stats().await.unwrap().fragments, 4);
        store.optimize(None).await.unwrap();
        assert_eq!(store.stats().await.unwrap().fragments, 1);
        assert_eq!(everything(&store, ReadMode::Sealed).await.len(), 5);
    });
}

#[test]
fn optimize_keeps_versions_within_the_grace_time() {
    let place = Place::new();
    run(async move {
        let store = place.open().await;
        store.add(rows(&[("a", 1)])).await.unwrap();
        store.flush().await.unwrap();
        let report = store.optimize(Some(Duration::ZERO)).await.unwrap();
        assert_eq!(report.versions_removed, 0);
    });
}

#[test]
fn rows_are_sealed_and_merged_without_anybody_asking() {
    let place = Place::new();
    run(async move {
        let reader = place.open_with(no_grace()).await;
        let store = place.open_with(OpenOptions { maintenance: Some(eager()), ..no_grace() }).await;
        for round in 0..4 {
            store.add(rows(&[(format!("row-{round}").as_str(), round)])).await.unwrap();
            eventually(&reader, "the seal", |stats| stats.rows == stats.base_rows + rows_sealed(stats)).await;
            eventually(&store, "sealed rows", |stats| stats.unsealed_rows == 0).await;
        }
        let stats = eventually(&store, "the merge", |stats| stats.generations < 2 && stats.base_rows >= 3).await;
        assert_eq!(stats.maintenance_error, None);
        assert_eq!(everything(&reader, ReadMode::Sealed).await.len(), 4);
        store.close().await.unwrap();
    });
}

fn rows_sealed(stats: &Stats) -> u64 {
    stats.rows - stats.base_rows
}

/// The longest times that can be said, and rows that are added under them.
#[test]
fn times_without_end_are_no_overflow() {
    let place = Place::new();
    run(async move {
        let never = MaintenanceOptions { seal_idle: Duration::MAX, seal_age: Duration::MAX, ..eager() };
        let store = place.open_with(OpenOptions { maintenance: Some(never), ..no_grace() }).await;
        for round in 0..3 {
            store.add(rows(&[("a", round)])).await.unwrap();
        }
        assert_eq!(store.unsealed_rows(), 3);
        store.close().await.unwrap();
    });
}

/// A handle that never wrote has no upkeep: it neither seals nor claims.
#[test]
fn a_handle_that_only_reads_does_nothing_in_the_background() {
    let place = Place::new();
    run(async move {
        let writer = place.open().await;
        writer.add(rows(&[("a", 1)])).await.unwrap();
        let before = tasks();
        let reader = place.open_with(OpenOptions { maintenance: Some(eager()), ..quiet() }).await;
        assert_eq!(get(&reader, "a", ReadMode::Latest).await, Some(1));
        // Its writer task, which waits for a command.
        until_tasks(before + 1).await;
        let stats = reader.stats().await.unwrap();
        assert_eq!((stats.generations, stats.base_rows), (0, 0));
        writer.add(rows(&[("b", 1)])).await.unwrap();
        assert_eq!(writer.unsealed_rows(), 2, "the writer was fenced");
    });
}

#[test]
fn files_of_crashed_writes_go_when_they_are_old_and_nothing_else_does() {
    let place = Place::new();
    run(async move {
        let store = place.open_with(no_grace()).await;
        store.add(rows(&[("a", 1)])).await.unwrap();
        store.flush().await.unwrap();
        let root = place.dir.path().join("store");
        let wal = crate::support::shard_directory(&place).join("wal");
        let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (name, old) in [("0110.arrow#1", true), ("0111.arrow#7", false), ("0111.arrow#x", true)] {
            let file = std::fs::File::create(wal.join(name)).unwrap();
            if old {
                file.set_modified(long_ago).unwrap();
            }
        }
        let staged = root.join("_versions/.tmpAbCdEf");
        std::fs::File::create(&staged).unwrap().set_modified(long_ago).unwrap();
        store.optimize(None).await.unwrap();
        assert!(!wal.join("0110.arrow#1").exists() && !staged.exists(), "staged files stay");
        assert!(wal.join("0111.arrow#7").exists(), "a write may be under way");
        assert!(wal.join("0111.arrow#x").exists(), "that is no staged file");
        assert_eq!(everything(&store, ReadMode::Latest).await.len(), 1);
    });
}

/// The shard's last writer died with unsealed rows; the handle that it was taken from sees to them.
#[test]
fn rows_of_a_silent_writer_are_adopted() {
    let place = Place::new();
    run(async move {
        let adopting = MaintenanceOptions { orphan_after: Duration::ZERO, ..MaintenanceOptions::default() };
        let store = place.open_with(OpenOptions { maintenance: Some(adopting), ..no_grace() }).await;
        store.add(rows(&[("a", 1)])).await.unwrap();
        let late = place.open_with(no_grace()).await;
        late.add(rows(&[("c", 3)])).await.unwrap();
        std::mem::forget(late);
        let reader = place.open_with(no_grace()).await;
        for _ in 0..6_000 {
            if reader.stats().await.unwrap().generations == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(reader.stats().await.unwrap().generations, 2, "nobody sealed the last row");
        store.close().await.unwrap();
    });
}

#[test]
fn a_closed_handle_has_ended_its_upkeep() {
    let place = Place::new();
    run(async move {
        let before = tasks();
        let store = place.open_with(OpenOptions { maintenance: Some(eager()), ..no_grace() }).await;
        for round in 0..10 {
            store.add(rows(&[("a", round)])).await.unwrap();
            store.flush().await.unwrap();
        }
        assert!(tasks() > before);
        store.close().await.unwrap();
        until_tasks(before).await;
    });
}

/// Merges fail; the seals that go on are no sign that they do not.
#[test]
fn what_went_wrong_with_a_merge_is_said_until_one_succeeds() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(1);
        let location = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
        let options = OpenOptions { maintenance: Some(eager()), ..no_grace() };
        let store = GenericStore::open_at(location, Some(schema()), options).await.unwrap();
        faults.inject([Rule::new(Fault::Full).on(Operation::Put).of(Class::BaseData)]);
        let mut round = 0;
        while store.stats().await.unwrap().maintenance_error.is_none() {
            round += 1;
            store.add(rows(&[("a", round)])).await.unwrap();
            eventually(&store, "the seal", |stats| stats.unsealed_rows == 0).await;
        }
        store.add(rows(&[("b", 1)])).await.unwrap();
        let stats = eventually(&store, "the seal", |stats| stats.unsealed_rows == 0).await;
        let error = stats.maintenance_error.unwrap();
        assert!(error.contains("merge failed") && error.contains("No space left on device"), "{error}");
        faults.heal();
        store.add(rows(&[("c", 1)])).await.unwrap();
        eventually(&store, "the merge", |stats| stats.maintenance_error.is_none() && stats.base_rows == 3).await;
        store.close().await.unwrap();
    });
}

/// One store of the process is at work at a time, and a close waits for its own work alone.
#[test]
fn a_close_does_not_wait_for_the_work_of_another_store() {
    let (place, elsewhere) = (Place::new(), Place::new());
    run(async move {
        let faults = Faults::new(1);
        let location = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
        let options = OpenOptions { maintenance: Some(eager()), ..no_grace() };
        let working = GenericStore::open_at(location, Some(schema()), options.clone()).await.unwrap();
        faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::BaseData).times(1)]);
        for round in 0..2 {
            working.add(rows(&[("a", round)])).await.unwrap();
            working.flush().await.unwrap();
        }
        within(faults.held()).await;
        let waiting = elsewhere.open_with(options).await;
        for round in 0..2 {
            waiting.add(rows(&[("a", round)])).await.unwrap();
            waiting.flush().await.unwrap();
        }
        within(waiting.close()).await.unwrap();
        faults.release();
        eventually(&working, "the merge", |stats| stats.base_rows == 1).await;
        working.close().await.unwrap();
    });
}

/// The directory's name holds what a uri would have to escape.
#[test]
fn synced_stores_work_anywhere_on_a_disk() {
    for name in ["plain", "a b", "50%20#?", "na\u{ef}ve \u{1f600}"] {
        for fsync in [true, false] {
            let dir = tempfile::TempDir::new().unwrap();
            let uri = dir.path().join(name).to_str().unwrap().to_owned();
            run(async move {
                let options = OpenOptions { fsync: Some(fsync), ..no_grace() };
                let store = GenericStore::open(&uri, Some(crate::support::schema()), options).await.unwrap();
                store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
                store.delete(vec!["b".to_owned()]).await.unwrap();
                store.flush().await.unwrap();
                store.add(rows(&[("c", 1)])).await.unwrap();
                store.optimize(None).await.unwrap();
                assert_eq!(everything(&store, ReadMode::Latest).await.len(), 2, "{name}");
                store.close().await.unwrap();
                let store = GenericStore::open_existing(&uri, quiet()).await.unwrap();
                assert_eq!(store.stats().await.unwrap().fsync, fsync);
                assert_eq!(everything(&store, ReadMode::Sealed).await.len(), 2, "{name}");
                store.add(rows(&[("d", 1)])).await.unwrap();
                assert_eq!(everything(&store, ReadMode::Latest).await.len(), 3, "{name}");
                let error = GenericStore::open(&uri, None, OpenOptions { fsync: Some(!fsync), ..quiet() });
                assert!(matches!(error.await.unwrap_err(), Error::OptionMismatch { option: "fsync", .. }));
                assert!(dir.path().join(name).join("_mem_wal").is_dir(), "{name}: the store lies elsewhere");
            });
        }
    }
}

#[test]
fn nothing_in_memory_can_be_synced() {
    run(async move {
        let location = Location::parse("memory://synced").unwrap();
        let options = OpenOptions { fsync: Some(true), ..quiet() };
        let error = GenericStore::open_at(location, Some(crate::support::schema()), options).await.unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument { argument, .. } if argument == "fsync"), "{error}");
    });
}
