//! Creating, repairing and refusing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use lance_context_core::GenericStore;
use lance_context_core::storage::{Location, Step};
use lance_context_spec::{Error, OpenOptions, ReadMode, SchemaSpec};

use crate::faults::{Fault, Faults, HoldAt, Rule};
use crate::log;
use crate::support::{Place, everything, expect, no_grace, quiet, rows, run, schema, spawn, within};

/// Every file and directory below `path`, with its bytes.
pub fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.display().to_string(), Vec::new()));
            found.extend(contents(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Whatever a creation waits for, another process may create the store meanwhile: then both have it.
#[test]
fn whoever_is_overtaken_while_creating_opens_what_is_there() {
    run(async {
        for nth in 0..64 {
            let place = Place::new();
            let faults = Faults::new(0);
            faults.inject([Rule::new(Fault::Slow).after(nth).times(1).held()]);
            let wrapped = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
            let mut slow = spawn(log::try_open(wrapped, Some("slow"), no_grace()));
            tokio::select! {
                () = faults.held() => {}
                opened = &mut slow => {
                    opened.unwrap().unwrap();
                    assert!(nth > 8, "a creation asks the store more often than {nth} times");
                    return;
                }
            }
            let fast = log::open(&place, Some("fast"), no_grace()).await;
            fast.add(log::events(&[("e1", "1", 1)])).await.unwrap();
            fast.flush().await.unwrap();
            fast.merge().await.unwrap();
            fast.add(log::events(&[("e2", "1", 2)])).await.unwrap();
            faults.release();
            let slow = slow.await.unwrap().unwrap_or_else(|error| panic!("held up at request {nth}: {error}"));
            slow.add(log::events(&[("e3", "2", 3)])).await.unwrap();
            let wanted = log::model(&[("e1", "1", 1), ("e2", "1", 2), ("e3", "2", 3)]);
            for handle in [&slow, &fast] {
                assert_eq!(log::everything(handle, ReadMode::Latest).await, wanted, "held up at request {nth}");
            }
        }
        panic!("a creation has no end");
    });
}

/// Lance overwrites what comes between its look and its first commit.
#[test]
fn whoever_is_overtaken_while_creating_overwrites_nothing() {
    for step in [Step::CreateTable, Step::CreateIndex, Step::CreateLog] {
        let place = Place::new();
        run(async move {
            let creating = HoldAt::new(step);
            let location = Location::parse(&place.uri()).unwrap().observed(Arc::clone(&creating) as _);
            let slow = spawn(GenericStore::open_at(location, Some(schema()), no_grace()));
            within(creating.held()).await;
            let fast = place.open_with(no_grace()).await;
            fast.add(rows(&[("a", 1)])).await.unwrap();
            fast.flush().await.unwrap();
            fast.merge().await.unwrap();
            creating.release();
            let slow = within(slow).await.unwrap().unwrap();
            slow.add(rows(&[("b", 2)])).await.unwrap();
            for handle in [&slow, &fast, &place.open().await] {
                assert_eq!(everything(handle, ReadMode::Latest).await, expect(&[("a", 1), ("b", 2)]), "{step:?}");
            }
        });
    }
}

#[test]
fn a_foreign_directory_is_refused_and_not_a_byte_of_it_changes() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("store")).unwrap();
    fs::write(place.dir.path().join("store/notes.txt"), "mine").unwrap();
    let before = contents(place.dir.path());
    run(async move {
        let error = GenericStore::open(&place.uri(), Some(schema()), quiet()).await.unwrap_err();
        assert!(matches!(error, Error::NotAStore { .. }), "{error}");
        assert_eq!(contents(place.dir.path()), before);
    });
}

#[test]
fn a_directory_that_only_looks_like_a_half_made_store_is_refused() {
    for (directory, file) in [("data", "mine.csv"), ("_versions", "notes.txt"), ("_transactions", "log")] {
        let place = Place::new();
        let path = place.dir.path().join("store").join(directory);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(file), "mine").unwrap();
        let before = contents(place.dir.path());
        run(async move {
            let error = GenericStore::open(&place.uri(), Some(schema()), quiet()).await.unwrap_err();
            assert!(matches!(error, Error::NotAStore { .. }), "{directory}: {error}");
            assert_eq!(contents(place.dir.path()), before, "{directory}");
        });
    }
}

#[test]
fn a_lance_dataset_of_someone_else_is_refused_and_unchanged() {
    let place = Place::new();
    run(async move {
        let batch = rows(&[("a", 1)]);
        let reader = arrow::array::RecordBatchIterator::new(vec![Ok(batch.clone())], batch.schema());
        lance::Dataset::write(reader, &place.uri(), None).await.unwrap();
        let before = contents(place.dir.path());
        let error = GenericStore::open(&place.uri(), Some(schema()), quiet()).await.unwrap_err();
        assert!(matches!(error, Error::NotAStore { .. }), "{error}");
        assert_eq!(contents(place.dir.path()), before);
    });
}

#[test]
fn nothing_is_created_without_a_schema() {
    let place = Place::new();
    run(async move {
        let error = GenericStore::open(&place.uri(), None, quiet()).await.unwrap_err();
        assert!(matches!(error, Error::SchemaMissing { .. }), "{error}");
        let error = GenericStore::open_existing(&place.uri(), quiet()).await.unwrap_err();
        assert!(matches!(error, Error::StoreNotFound { .. }), "{error}");
        assert_eq!(contents(place.dir.path()), Vec::new());
    });
}

/// Creation is several commits. Taking the last ones away again leaves what a crash between them leaves.
#[test]
fn every_half_made_table_is_repaired_by_the_next_open() {
    for versions_kept in 0..=3 {
        let place = Place::new();
        run(async move {
            place.open().await.close().await.unwrap();
            let versions = place.dir.path().join("store/_versions");
            let mut files: Vec<_> = fs::read_dir(&versions).unwrap().map(|e| e.unwrap().path()).collect();
            files.retain(|f| f.extension().is_some_and(|e| e == "manifest"));
            // Newest first: names count down.
            files.sort();
            assert!(files.len() >= 3, "creation is three commits: {files:?}");
            for file in &files[..files.len() - versions_kept.min(files.len())] {
                fs::remove_file(file).unwrap();
            }
            for file in fs::read_dir(&versions).unwrap().map(|e| e.unwrap().path()) {
                if file.extension().is_none_or(|e| e != "manifest") {
                    fs::remove_file(file).unwrap();
                }
            }
            if versions_kept == 0 {
                let _ = fs::remove_dir_all(place.dir.path().join("store/_indices"));
            }
            let store = place.open().await;
            store.add(rows(&[("a", 1)])).await.unwrap();
            store.flush().await.unwrap();
            store.merge().await.unwrap();
            assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1)]));
        });
    }
}

#[test]
fn two_creators_at_once_make_one_store() {
    let place = Place::new();
    run(async move {
        let (one, two) = tokio::join!(place.open(), place.open());
        one.add(rows(&[("a", 1)])).await.unwrap();
        two.add(rows(&[("b", 2)])).await.unwrap();
        assert_eq!(everything(&one, ReadMode::Latest).await, expect(&[("a", 1), ("b", 2)]));
    });
}

#[test]
fn another_schema_or_a_contradicting_option_is_refused() {
    let place = Place::new();
    run(async move {
        let sealing = OpenOptions { seal_on_add: Some(true), ..quiet() };
        place.open_with(sealing).await.close().await.unwrap();
        let other = SchemaSpec::parse(r#"{"id": "string", "n": "int32"}"#).unwrap();
        let error = GenericStore::open(&place.uri(), Some(other), quiet()).await.unwrap_err();
        assert!(matches!(error, Error::SchemaMismatch { .. }), "{error}");
        let deferring = OpenOptions { seal_on_add: Some(false), ..quiet() };
        let error = GenericStore::open(&place.uri(), None, deferring).await.unwrap_err();
        assert!(matches!(error, Error::OptionMismatch { option: "seal_on_add", .. }), "{error}");
        let store = GenericStore::open(&place.uri(), None, quiet()).await.unwrap();
        store.add(rows(&[("a", 1)])).await.unwrap();
        assert_eq!(store.unsealed_rows(), 0, "the stored mode must be restored");
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1)]));
    });
}

#[test]
fn a_read_only_handle_refuses_to_write_and_a_closed_one_everything() {
    let place = Place::new();
    run(async move {
        place.open().await.close().await.unwrap();
        let options = OpenOptions { read_only: true, ..quiet() };
        let store = GenericStore::open_existing(&place.uri(), options).await.unwrap();
        assert!(matches!(store.add(rows(&[("a", 1)])).await, Err(Error::ReadOnly { .. })));
        assert!(matches!(store.flush().await, Err(Error::ReadOnly { .. })));
        assert!(matches!(store.merge().await, Err(Error::ReadOnly { .. })));
        store.close().await.unwrap();
        store.close().await.unwrap();
        assert!(matches!(store.count(None, None).await, Err(Error::Closed { .. })));
        assert!(matches!(store.get("a", None, None).await, Err(Error::Closed { .. })));
    });
}

#[test]
fn a_path_of_any_characters_works() {
    for name in ["plain", "we ird", "per%20cent", "ha#sh", "ques?tion", "naïve", "plus+&=;'"] {
        let place = Place::new();
        run(async move {
            let uri = place.dir.path().join(name).to_str().unwrap().to_owned();
            let store = GenericStore::open(&uri, Some(schema()), quiet()).await.unwrap();
            store.add(rows(&[("a", 1)])).await.unwrap();
            store.flush().await.unwrap();
            store.merge().await.unwrap();
            store.add(rows(&[("b", 2)])).await.unwrap();
            let other = GenericStore::open_existing(&uri, quiet()).await.unwrap();
            for handle in [&store, &other] {
                assert_eq!(everything(handle, ReadMode::Latest).await, expect(&[("a", 1), ("b", 2)]), "{name}");
            }
            assert!(std::path::Path::new(&uri).join("_mem_wal").is_dir(), "{name}");
        });
    }
}
