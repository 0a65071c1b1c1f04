//! Storage fails: the caller hears of it, nothing acknowledged is lost, and it goes on when storage does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use lance_context_core::GenericStore;
use lance_context_core::storage::Location;
use lance_context_spec::{Error, Kind, OpenOptions, Query, ReadMode, Result};

use crate::faults::{Class, Fault, Faults, Operation, Rule};
use crate::support::{
    Place, decode, everything, expect, get, list, no_grace, quiet, rows, run, runtime, schema, shard_directory, spawn,
    within,
};

/// Long enough for a seal that works on a busy machine, short enough to wait for one that does not.
const SEAL_TIMEOUT: Duration = Duration::from_secs(10);

fn location(place: &Place, faults: &Arc<Faults>) -> Location {
    Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(faults) as _)
}

async fn open(place: &Place, faults: &Arc<Faults>, options: OpenOptions) -> Result<GenericStore> {
    GenericStore::open_at(location(place, faults), Some(schema()), options).await
}

#[track_caller]
fn storage_failed<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), Kind::Storage, "{error}");
    error.to_string()
}

#[test]
fn a_flush_that_fails_says_so_and_the_next_one_seals() {
    std::thread::scope(|scope| {
        for fault in [Fault::Before, Fault::Torn, Fault::Full] {
            scope.spawn(move || fail_flush(fault));
        }
    });
}

fn fail_flush(fault: Fault) {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(1);
        let location = location(&place, &faults).sealing_within(SEAL_TIMEOUT);
        let store = GenericStore::open_at(location, Some(schema()), quiet()).await.unwrap();
        let reader = place.open().await;
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        store.add(rows(&[("a", 2)])).await.unwrap();
        faults.inject([Rule::new(fault).on(Operation::Put).of(Class::Generation)]);
        let told = storage_failed(store.flush().await);
        assert!(told.contains(cause(fault)) && told.contains("_gen_"), "{fault:?}: {told}");
        let wanted = expect(&[("a", 2), ("b", 1)]);
        for handle in [&store, &reader] {
            assert_eq!(everything(handle, ReadMode::Latest).await, wanted, "{fault:?}");
            assert!(everything(handle, ReadMode::Sealed).await.is_empty(), "{fault:?}");
        }
        faults.heal();
        assert!(faults.count(fault) > 0);
        store.flush().await.unwrap();
        for handle in [&store, &reader, &place.open().await] {
            assert_eq!(everything(handle, ReadMode::Sealed).await, wanted, "{fault:?}");
        }
        store.add(rows(&[("c", 3)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        let wanted = expect(&[("a", 2), ("b", 1), ("c", 3)]);
        assert_eq!(everything(&reader, ReadMode::Sealed).await, wanted, "{fault:?}");
        assert_eq!(store.stats().await.unwrap().base_rows, 3, "{fault:?}");
    });
}

#[test]
fn rows_stay_readable_while_a_seal_is_slow() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(1);
        let store = Arc::new(open(&place, &faults, quiet()).await.unwrap());
        store.add(rows(&[("a", 1)])).await.unwrap();
        faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::Generation).times(1)]);
        let sealing = Arc::clone(&store);
        let sealing = spawn(async move { sealing.flush().await });
        within(faults.held()).await;
        for handle in [&*store, &place.open().await] {
            assert_eq!(everything(handle, ReadMode::Latest).await, expect(&[("a", 1)]));
        }
        faults.release();
        within(sealing).await.unwrap().unwrap();
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1)]));
    });
}

/// The runtime of a process is stopped at its exit, while other threads may be in calls.
#[test]
fn a_write_that_the_end_of_the_runtime_cuts_short_says_so() {
    let place = Place::new();
    let faults = Faults::new(1);
    let runtime = runtime();
    let store = runtime.block_on(open(&place, &faults, quiet())).unwrap();
    faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::Log)]);
    let entered = runtime.handle().clone();
    let adding = std::thread::spawn(move || {
        let _entered = entered.enter();
        block_on(store.add(rows(&[("a", 1)]))).map(drop)
    });
    runtime.block_on(within(faults.held()));
    runtime.shutdown_background();
    assert!(matches!(adding.join().unwrap(), Err(Error::RuntimeStopped)));
}

/// The manifest that names the generation is written, and the reply to it lost.
#[test]
fn a_seal_whose_reply_is_lost_is_not_done_twice() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(1);
        let store = open(&place, &faults, no_grace()).await.unwrap();
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        faults.inject([Rule::new(Fault::LostReply).of(Class::ShardManifest).times(1)]);
        store.flush().await.unwrap();
        assert_eq!(faults.count(Fault::LostReply), 1);
        store.add(rows(&[("a", 2)])).await.unwrap();
        store.flush().await.unwrap();
        assert_eq!(store.stats().await.unwrap().generations, 2);
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 2), ("b", 1)]));
        store.merge().await.unwrap();
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 2), ("b", 1)]));
    });
}

/// A put of an older value landed, its reply is lost, and meanwhile another writer wrote a newer one.
#[test]
fn a_write_whose_reply_is_lost_never_comes_back_over_a_newer_one() {
    for collected in [false, true] {
        let place = Place::new();
        run(async move {
            let faults = Faults::new(1);
            let options = if collected { no_grace() } else { quiet() };
            let one = Arc::new(open(&place, &faults, options.clone()).await.unwrap());
            let two = place.open_with(options.clone()).await;
            one.add(rows(&[("other", 0)])).await.unwrap();
            faults.inject([Rule::new(Fault::LostReply).on(Operation::Put).of(Class::Log).times(1).held()]);
            let adding = Arc::clone(&one);
            let adding = spawn(async move { adding.add(rows(&[("a", 1)])).await });
            within(faults.held()).await;
            two.add(rows(&[("a", 2)])).await.unwrap();
            if collected {
                two.flush().await.unwrap();
                two.merge().await.unwrap();
            }
            faults.release();
            match within(adding).await.unwrap() {
                Ok(_) => {}
                // Its traces are gone with the log.
                Err(Error::WriteUncertain { .. }) if collected => {}
                Err(e) => panic!("collected {collected}: {e}"),
            }
            let wanted = expect(&[("a", 2), ("other", 0)]);
            for handle in [&*one, &two, &place.open_with(options).await] {
                assert_eq!(everything(handle, ReadMode::Latest).await, wanted, "collected {collected}");
            }
            one.add(rows(&[("b", 3)])).await.unwrap();
            one.flush().await.unwrap();
            let wanted = expect(&[("a", 2), ("b", 3), ("other", 0)]);
            assert_eq!(everything(&two, ReadMode::Sealed).await, wanted, "collected {collected}");
        });
    }
}

/// A put that stands still while another writer takes the shard: into a slot that is taken it fails and is written
/// anew, into one that was freed by collection it must not be acknowledged.
#[test]
fn a_write_that_stands_still_over_a_claim_is_not_lost_silently() {
    for collected in [false, true] {
        let place = Place::new();
        run(async move {
            let faults = Faults::new(1);
            let options = if collected { no_grace() } else { quiet() };
            let one = Arc::new(open(&place, &faults, options.clone()).await.unwrap());
            let two = place.open_with(options.clone()).await;
            one.add(rows(&[("a", 0)])).await.unwrap();
            faults.inject([Rule::new(Fault::Slow).on(Operation::Put).of(Class::Log).times(1)]);
            let adding = Arc::clone(&one);
            let adding = spawn(async move { adding.add(rows(&[("a", 1), ("b", 1)])).await });
            within(faults.held()).await;
            two.add(rows(&[("a", 2), ("c", 2)])).await.unwrap();
            if collected {
                two.flush().await.unwrap();
                two.merge().await.unwrap();
            }
            faults.release();
            let wanted = match within(adding).await.unwrap() {
                Ok(_) => expect(&[("a", 1), ("b", 1), ("c", 2)]),
                Err(Error::WriteUncertain { .. }) if collected => expect(&[("a", 2), ("c", 2)]),
                Err(e) => panic!("collected {collected}: {e}"),
            };
            for handle in [&*one, &two, &place.open_with(options).await] {
                assert_eq!(everything(handle, ReadMode::Latest).await, wanted, "collected {collected}");
            }
        });
    }
}

/// What the error of `fault` says.
fn cause(fault: Fault) -> &'static str {
    match fault {
        Fault::Full => "No space left on device",
        Fault::Unsynced => "Input/output error",
        Fault::LostReply => "no reply to the create",
        Fault::Torn => "injected: Torn",
        _ => "injected: Before",
    }
}

/// Lance tries again, and a file that the first try left is all that it then speaks of.
#[test]
fn a_write_that_storage_refuses_says_what_storage_said() {
    for fault in [Fault::Unsynced, Fault::LostReply, Fault::Before, Fault::Full] {
        for fsync in [false, true] {
            let place = Place::new();
            run(async move {
                let faults = Faults::new(1);
                let options = OpenOptions { fsync: Some(fsync), ..quiet() };
                let store = open(&place, &faults, options.clone()).await.unwrap();
                store.add(rows(&[("a", 1)])).await.unwrap();
                let rule = Rule::new(fault).on(Operation::Put).of(Class::Log);
                // What is not there is tried until lance gives up.
                let leaves_a_file = matches!(fault, Fault::Unsynced | Fault::LostReply);
                faults.inject([if leaves_a_file { rule.times(1) } else { rule }]);
                let error = store.add(rows(&[("a", 2)])).await.unwrap_err();
                faults.heal();
                let (told, code) = (error.to_string(), error.code());
                assert_eq!((code, error.retryable()), ("storage", true), "{fault:?}: {told}");
                assert!(told.contains(cause(fault)), "{fault:?}: {told}");
                assert!(told.contains("storage refused `_mem_wal/"), "{fault:?}: {told}");
                assert!(told.contains("whether the rows were kept is unknown"), "{fault:?}: {told}");
                assert!(std::error::Error::source(&error).is_some(), "{fault:?}: the engine's error is lost");
                // What was refused is whole or not there, and the same in every handle.
                let seen = everything(&store, ReadMode::Latest).await;
                assert!(seen == expect(&[("a", 1)]) || seen == expect(&[("a", 2)]), "{fault:?}: {seen:?}");
                assert_eq!(everything(&place.open_with(quiet()).await, ReadMode::Latest).await, seen, "{fault:?}");
                store.add(rows(&[("b", 3)])).await.unwrap();
                assert_eq!(get(&store, "b", ReadMode::Latest).await, Some(3), "{fault:?}");
            });
        }
    }
}

#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(1);
        let store = open(&place, &faults, no_grace()).await.unwrap();
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.add(rows(&[("b", 2)])).await.unwrap();
        let wanted = expect(&[("a", 1), ("b", 2)]);
        faults.inject([Rule::new(Fault::Full)]);
        let failures = [
            storage_failed(store.add(rows(&[("c", 3)])).await),
            storage_failed(store.delete(vec!["a".to_owned()]).await),
            storage_failed(store.flush().await),
            storage_failed(store.merge().await),
        ];
        for failure in failures {
            assert!(failure.contains("No space left on device"), "{failure}");
        }
        let elsewhere = Place::new();
        let failure = storage_failed(open(&elsewhere, &faults, quiet()).await);
        assert!(failure.contains("No space left on device"), "{failure}");
        assert_eq!(everything(&store, ReadMode::Latest).await, wanted);
        assert_eq!(everything(&place.open_with(no_grace()).await, ReadMode::Latest).await, wanted);
        faults.heal();
        assert_eq!(everything(&store, ReadMode::Latest).await, wanted);
        store.add(rows(&[("c", 3)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 1), ("b", 2), ("c", 3)]));
        open(&elsewhere, &faults, quiet()).await.unwrap();
    });
}

/// Every way to read, from every tier, by a handle that knows the store and by one that has yet to open it.
#[test]
fn a_read_that_fails_is_an_error_and_never_an_empty_result() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(1);
        let store = open(&place, &faults, no_grace()).await.unwrap();
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.add(rows(&[("b", 2), ("c", 2)])).await.unwrap();
        store.flush().await.unwrap();
        store.add(rows(&[("d", 3)])).await.unwrap();
        let reader = open(&place, &faults, quiet()).await.unwrap();
        for handle in [&store, &reader] {
            faults.inject([Rule::new(Fault::Before).on(Operation::Get)]);
            for read in [ReadMode::Latest, ReadMode::Sealed] {
                let query = || Query { read: Some(read), ..Query::default() };
                storage_failed(handle.list(query()).await);
                storage_failed(handle.count(None, Some(read)).await);
                storage_failed(handle.get_many(vec!["a".into(), "d".into()], None, Some(read)).await);
                storage_failed(handle.stream(query()).await);
                for id in ["a", "b", "c", "d", "nobody"] {
                    storage_failed(handle.get(id, None, Some(read)).await);
                }
            }
            storage_failed(handle.stats().await);
            faults.heal();
            let wanted = expect(&[("a", 1), ("b", 2), ("c", 2), ("d", 3)]);
            assert_eq!(everything(handle, ReadMode::Latest).await, wanted);
        }
        for operation in [Operation::Get, Operation::List] {
            for class in [Class::Log, Class::ShardManifest, Class::Generation, Class::BaseData, Class::BaseManifest] {
                fails_or_is_right(&place, &faults, Rule::new(Fault::Before).on(operation).of(class)).await;
            }
        }
    });
}

async fn fails_or_is_right(place: &Place, faults: &Arc<Faults>, rule: Rule) {
    faults.inject([rule.clone()]);
    let opened = open(place, faults, quiet()).await;
    if let Ok(store) = opened {
        match store.list(Query { read: Some(ReadMode::Latest), ..Query::default() }).await {
            Ok(batches) => assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 4, "{rule:?}"),
            Err(e) => assert_eq!(e.kind(), Kind::Storage, "{rule:?}: {e}"),
        }
        match store.get("d", None, Some(ReadMode::Latest)).await {
            Ok(row) => assert!(row.is_some(), "{rule:?}"),
            Err(e) => assert_eq!(e.kind(), Kind::Storage, "{rule:?}: {e}"),
        }
    } else {
        storage_failed(opened);
    }
    faults.heal();
}

/// One or two requests of a read fail, each in turn: the read is right or an error. Lance tries most of them again.
#[test]
fn a_read_that_stumbles_is_right_or_an_error() {
    let place = Place::new();
    run(async move {
        let faults = Faults::new(1);
        let store = open(&place, &faults, quiet()).await.unwrap();
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.add(rows(&[("b", 2), ("c", 2)])).await.unwrap();
        store.flush().await.unwrap();
        store.add(rows(&[("d", 3)])).await.unwrap();
        store.add(rows(&[("e", 4)])).await.unwrap();
        let wanted: Vec<_> = expect(&[("a", 1), ("b", 2), ("c", 2), ("d", 3), ("e", 4)]).into_iter().collect();
        for (operation, times) in [(Operation::Get, 1), (Operation::Get, 2), (Operation::List, 1)] {
            let mut injected = 0;
            for skipped in 0.. {
                let case = format!("{operation:?} number {skipped}, {times} times");
                faults.inject([Rule::new(Fault::Before).on(operation).after(skipped).times(times)]);
                let read = async {
                    let reader = open(&place, &faults, quiet()).await?;
                    let batches = reader.list(Query { read: Some(ReadMode::Latest), ..Query::default() }).await?;
                    let sealed = reader.count(None, Some(ReadMode::Sealed)).await?;
                    Ok::<_, Error>((batches.iter().flat_map(decode).collect::<Vec<_>>(), sealed))
                };
                match read.await {
                    Ok((latest, sealed)) => assert_eq!((&latest, sealed), (&wanted, 5), "{case}"),
                    Err(e) => assert_eq!(e.kind(), Kind::Storage, "{case}: {e}"),
                }
                let before = std::mem::replace(&mut injected, faults.count(Fault::Before));
                if injected == before {
                    assert!(skipped > 0, "{case}: nothing failed");
                    break;
                }
            }
        }
    });
}

/// What cannot be read for a moment is not torn: a claim must not put aside what was acknowledged.
#[test]
fn a_claim_that_stumbles_puts_nothing_aside() {
    for times in 1..4 {
        for skipped in 0.. {
            let place = Place::new();
            let faults = Faults::new(1);
            let injecting = Arc::clone(&faults);
            run(async move {
                let case = format!("{times} times from {skipped}");
                let silent = open(&place, &injecting, quiet()).await.unwrap();
                silent.add(rows(&[("a", 1)])).await.unwrap();
                silent.add(rows(&[("b", 2)])).await.unwrap();
                let store = open(&place, &injecting, quiet()).await.unwrap();
                let rule = Rule::new(Fault::Before).on(Operation::Get).of(Class::Log);
                injecting.inject([rule.after(skipped).times(times)]);
                let added = store.add(rows(&[("c", 3)])).await;
                injecting.heal();
                let mut wanted = expect(&[("a", 1), ("b", 2)]);
                match added {
                    Ok(_) => drop(wanted.insert("c".to_owned(), 3)),
                    Err(e) => assert_eq!(e.kind(), Kind::Storage, "{case}: {e}"),
                }
                for handle in [&store, &silent, &place.open().await] {
                    assert_eq!(everything(handle, ReadMode::Latest).await, wanted, "{case}");
                }
                assert_eq!(store.stats().await.unwrap().quarantined, 0, "{case}");
            });
            if faults.count(Fault::Before) == 0 {
                assert!(skipped > 1, "nothing failed");
                break;
            }
        }
    }
}

#[test]
fn a_merge_that_cannot_commit_is_finished_by_the_next_one() {
    let cases = [
        (Fault::Before, Class::BaseManifest),
        (Fault::LostReply, Class::BaseManifest),
        (Fault::Before, Class::BaseData),
        (Fault::Full, Class::BaseData),
        (Fault::After, Class::BaseData),
        (Fault::Torn, Class::BaseData),
        (Fault::Before, Class::ShardManifest),
        (Fault::LostReply, Class::ShardManifest),
    ];
    for (fault, class) in cases {
        for skipped in 0..3 {
            let place = Place::new();
            run(async move {
                let case = format!("{fault:?} of {class:?} number {skipped}");
                let faults = Faults::new(1);
                let store = open(&place, &faults, no_grace()).await.unwrap();
                store.add(rows(&[("a", 1), ("b", 1), ("c", 1)])).await.unwrap();
                store.flush().await.unwrap();
                store.merge().await.unwrap();
                store.add(rows(&[("b", 2), ("d", 2)])).await.unwrap();
                store.delete(vec!["c".to_owned()]).await.unwrap();
                store.flush().await.unwrap();
                let wanted = expect(&[("a", 1), ("b", 2), ("d", 2)]);
                faults.inject([Rule::new(fault).on(Operation::Put).of(class).after(skipped)]);
                if let Err(e) = store.merge().await {
                    assert_eq!(e.kind(), Kind::Storage, "{case}: {e}");
                    assert!(faults.count(fault) > 0, "{case}: {e}");
                }
                assert_eq!(everything(&store, ReadMode::Sealed).await, wanted, "{case}");
                let reader = place.open_with(no_grace()).await;
                assert_eq!(everything(&reader, ReadMode::Sealed).await, wanted, "{case}");
                faults.heal();
                store.merge().await.unwrap();
                let stats = store.stats().await.unwrap();
                assert_eq!((stats.generations, stats.base_rows), (0, 3), "{case}");
                for handle in [&store, &reader] {
                    assert_eq!(everything(handle, ReadMode::Sealed).await, wanted, "{case}");
                }
            });
        }
    }
}

#[test]
fn a_collection_that_fails_is_said_and_made_up_for() {
    for fault in [Fault::Before, Fault::After] {
        let place = Place::new();
        run(async move {
            let faults = Faults::new(1);
            let store = open(&place, &faults, no_grace()).await.unwrap();
            for n in 0..3 {
                store.add(rows(&[("a", n)])).await.unwrap();
                store.flush().await.unwrap();
            }
            faults.inject([Rule::new(fault).on(Operation::Delete)]);
            storage_failed(store.merge().await);
            assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 2)]), "{fault:?}");
            faults.heal();
            store.merge().await.unwrap();
            assert_eq!(everything(&store, ReadMode::Sealed).await, expect(&[("a", 2)]), "{fault:?}");
            let stats = store.stats().await.unwrap();
            assert_eq!((stats.generations, stats.wal_entries), (0, 1), "{fault:?}");
            let names = std::fs::read_dir(shard_directory(&place)).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("_gen_")).collect();
            assert!(left.is_empty(), "{fault:?}: {left:?}");
        });
    }
}

/// Each put of a creation fails in turn; the next open repairs what is half made.
#[test]
fn a_creation_that_fails_anywhere_is_said_or_made_up_for() {
    for fault in [Fault::Before, Fault::After, Fault::LostReply] {
        for skipped in 0.. {
            let place = Place::new();
            let faults = Faults::new(1);
            let injecting = Arc::clone(&faults);
            run(async move {
                injecting.inject([Rule::new(fault).on(Operation::Put).after(skipped).times(1)]);
                if let Err(e) = open(&place, &injecting, quiet()).await {
                    assert_eq!(e.kind(), Kind::Storage, "{fault:?} number {skipped}: {e}");
                }
                injecting.heal();
                let store = open(&place, &injecting, quiet()).await.unwrap();
                store.add(rows(&[("a", 1)])).await.unwrap();
                store.flush().await.unwrap();
                store.merge().await.unwrap();
                assert_eq!(get(&store, "a", ReadMode::Sealed).await, Some(1), "{fault:?} number {skipped}");
                assert_eq!(list(&store, Query::default()).await.len(), 1, "{fault:?} number {skipped}");
            });
            if faults.count(fault) == 0 {
                assert!(skipped > 0, "{fault:?} never came");
                break;
            }
        }
    }
}

/// Each put from the first write to the last clean-up fails in turn. What is refused is not there, or whole.
#[test]
fn a_write_that_fails_anywhere_is_whole_or_absent() {
    let tried: u64 = std::thread::scope(|scope| {
        let sweeps = [Fault::Before, Fault::After, Fault::LostReply].map(|fault| {
            // Most of the time is spent waiting for lance to try again.
            let lanes = (0..4)
                .map(|lane| scope.spawn(move || (lane..).step_by(4).map_while(|n| fail_put(fault, n)).sum::<u64>()));
            lanes.collect::<Vec<_>>()
        });
        sweeps.into_iter().flatten().map(|lane| lane.join().unwrap()).sum()
    });
    assert!(tried > 30, "only {tried} puts were made to fail");
}

/// Adds, seals and merges while put number `skipped` fails; `None` if there are not so many.
fn fail_put(fault: Fault, skipped: u64) -> Option<u64> {
    let place = Place::new();
    let faults = Faults::new(1);
    let injecting = Arc::clone(&faults);
    run(async move {
        let case = format!("{fault:?} number {skipped}");
        let store = open(&place, &injecting, no_grace()).await.unwrap();
        injecting.inject([Rule::new(fault).on(Operation::Put).after(skipped).times(1)]);
        let mut model = BTreeMap::new();
        for n in 0..2 {
            let only = format!("only-{n}");
            let mut whole = model.clone();
            whole.extend(expect(&[("a", n), ("b", n), (only.as_str(), n)]));
            let added = store.add(rows(&[("a", n), ("b", n), (only.as_str(), n)])).await;
            let seen = everything(&store, ReadMode::Latest).await;
            match added {
                Ok(_) => assert_eq!(seen, whole, "{case}"),
                Err(e) => {
                    assert_eq!(e.kind(), Kind::Storage, "{case}: {e}");
                    assert!(seen == model || seen == whole, "{case}: {seen:?}");
                }
            }
            model = seen;
            for outcome in [store.flush().await, store.merge().await.map(drop)] {
                if let Err(e) = outcome {
                    assert_eq!(e.kind(), Kind::Storage, "{case}: {e}");
                }
                assert_eq!(everything(&store, ReadMode::Latest).await, model, "{case}");
            }
        }
        injecting.heal();
        store.flush().await.unwrap();
        store.optimize(None).await.unwrap();
        for handle in [&store, &place.open_with(no_grace()).await] {
            assert_eq!(everything(handle, ReadMode::Sealed).await, model, "{case}");
        }
        assert_eq!(store.stats().await.unwrap().base_rows, model.len() as u64, "{case}");
    });
    (faults.count(fault) > 0).then_some(1)
}
