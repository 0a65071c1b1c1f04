//! Shards of writers that are gone: somebody else seals, merges and trims them, and nobody alive is disturbed.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lance_context_core::StorageBase;
use lance_context_core::storage::{Location, Step};
use lance_context_spec::ReadMode::{Latest, Sealed};
use lance_context_spec::{MaintenanceOptions, OpenOptions};

use crate::faults::{CrashAt, HoldAt};
use crate::log::{self, events, everything, model, shard_directories};
use crate::support::{Place, in_dying_process, no_grace, run, spawn, within};

fn adopting() -> OpenOptions {
    let options = MaintenanceOptions {
        orphan_after: Duration::ZERO,
        seal_idle: Duration::from_secs(600),
        seal_age: Duration::from_secs(600),
        ..MaintenanceOptions::default()
    };
    OpenOptions { maintenance: Some(options), ..no_grace() }
}

/// A process with these events, half of them sealed, that dies.
fn dies(place: &Place, writer: &'static str, events_of: &'static [log::Event<'static>]) {
    let uri = place.uri();
    in_dying_process(async move {
        let store = log::try_open(Location::parse(&uri).unwrap(), Some(writer), no_grace()).await.unwrap();
        let (sealed, unsealed) = events_of.split_at(events_of.len() / 2);
        store.add(events(sealed)).await.unwrap();
        store.flush().await.unwrap();
        store.add(events(unsealed)).await.unwrap();
        // It goes with its runtime, not before.
        spawn(async move {
            let _store = store;
            pending::<()>().await;
        });
    });
}

async fn until_trimmed(place: &Place) {
    for _ in 0..6_000 {
        if generations(place) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} generations stay", generations(place));
}

/// Waits until the base table has all but so many rows, and upkeep has not failed by then.
async fn until_merged_but(store: &StorageBase, unmerged: u64) {
    for _ in 0..6_000 {
        let stats = store.stats().await.unwrap();
        assert_eq!(stats.maintenance_error, None);
        if stats.rows - stats.base_rows == unmerged {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody adopts: {:?}", store.stats().await.unwrap());
}

fn generations(place: &Place) -> usize {
    let entries = shard_directories(place).into_iter().flat_map(|shard| std::fs::read_dir(shard).unwrap());
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("_gen_")).count()
}

#[test]
fn a_dead_writers_shard_is_sealed_merged_and_trimmed_and_a_living_one_is_left_alone() {
    let place = Place::new();
    dies(&place, "dead", &[("d1", "1", 1), ("d2", "1", 2), ("d3", "1", 3), ("d4", "1", 4)]);
    dies(&place, "dead too", &[("t1", "2", 1), ("t2", "2", 2)]);
    run(async move {
        let idle = log::open(&place, Some("idle"), no_grace()).await;
        idle.add(events(&[("i1", "3", 1)])).await.unwrap();
        let reader = log::open(&place, None, adopting()).await;
        let store = log::open(&place, Some("alive"), adopting()).await;
        store.add(events(&[("a1", "3", 1)])).await.unwrap();
        until_merged_but(&reader, 2).await;
        until_trimmed(&place).await;
        assert_eq!(store.stats().await.unwrap().maintenance_error, None);
        // A fence would have made the handle claim and replay at its next write.
        idle.add(events(&[("i2", "3", 2)])).await.unwrap();
        assert_eq!(idle.unsealed_rows(), 2, "the idle writer was fenced");
        store.add(events(&[("a2", "3", 2)])).await.unwrap();
        assert_eq!(store.unsealed_rows(), 2, "the adopter lost its own shard");
        // The owner comes back.
        let back = log::open(&place, Some("dead"), no_grace()).await;
        back.add(events(&[("d5", "1", 5)])).await.unwrap();
        let dead = [("d1", "1", 1), ("d2", "1", 2), ("d3", "1", 3), ("d4", "1", 4), ("d5", "1", 5)];
        let others = [("t1", "2", 1), ("t2", "2", 2), ("i1", "3", 1), ("i2", "3", 2), ("a1", "3", 1), ("a2", "3", 2)];
        let wanted = model(&[&dead[..], &others[..]].concat());
        for handle in [&reader, &store, &idle, &back] {
            assert_eq!(everything(handle, Latest).await, wanted);
        }
        assert_eq!(shard_directories(&place).len(), 4, "the reader claimed a shard");
        for handle in [reader, store, idle, back] {
            handle.close().await.unwrap();
        }
        assert_eq!(everything(&log::open(&place, None, no_grace()).await, Sealed).await, wanted);
    });
}

/// What another writer merged, its dead owner does not take off its list. A shard is claimed when there is something to
/// do, and not at every look.
#[test]
fn what_is_merged_already_is_taken_off_a_dead_writers_list() {
    let place = Arc::new(Place::new());
    dies(&place, "dead", &[("d1", "1", 1), ("d2", "1", 2)]);
    run(async move {
        let first = log::open(&place, Some("dead"), no_grace()).await;
        first.flush().await.unwrap();
        first.close().await.unwrap();
        let observer = CrashAt::never();
        let location = Location::parse(&place.uri()).unwrap().observed(Arc::clone(&observer) as _);
        let store = log::try_open(location, Some("alive"), adopting()).await.unwrap();
        assert_eq!(store.merge().await.unwrap().generations, 2);
        assert_eq!((generations(&place), observer.seen(Step::Claim)), (2, 0), "nobody but an owner trims");
        store.add(events(&[("a1", "1", 3)])).await.unwrap();
        until_trimmed(&place).await;
        assert_eq!(observer.seen(Step::Claim), 2, "its own shard and the dead one's");
        // The next orphan is found by a later look, which leaves the first alone.
        let another = Arc::clone(&place);
        std::thread::spawn(move || dies(&another, "dead too", &[("t1", "2", 1), ("t2", "2", 2)])).join().unwrap();
        until_merged_but(&store, 1).await;
        assert_eq!(observer.seen(Step::Claim), 3);
        assert_eq!(everything(&store, Latest).await.len(), 5);
        store.close().await.unwrap();
    });
}

/// The owner was only slow, and claims its shard back while it is adopted: nobody fails, and upkeep goes on.
#[test]
fn an_owner_that_comes_back_during_its_adoption_has_its_shard() {
    for step in [Step::SealReplayed, Step::Trim] {
        let place = Arc::new(Place::new());
        dies(&place, "slow", &[("s1", "1", 1), ("s2", "1", 2)]);
        run(async move {
            let adopting_it = HoldAt::new(step);
            let location = Location::parse(&place.uri()).unwrap().observed(Arc::clone(&adopting_it) as _);
            let store = log::try_open(location, Some("alive"), adopting()).await.unwrap();
            store.add(events(&[("a1", "1", 3)])).await.unwrap();
            within(adopting_it.held()).await;
            let owner = log::open(&place, Some("slow"), no_grace()).await;
            owner.add(events(&[("s3", "1", 4)])).await.unwrap();
            adopting_it.release();
            let another = Arc::clone(&place);
            std::thread::spawn(move || dies(&another, "dead", &[("d1", "2", 1), ("d2", "2", 2)])).join().unwrap();
            until_merged_but(&store, 2).await;
            owner.add(events(&[("s4", "1", 5)])).await.unwrap();
            let slow = [("s1", "1", 1), ("s2", "1", 2), ("s3", "1", 4), ("s4", "1", 5)];
            let wanted = model(&[&slow[..], &[("a1", "1", 3), ("d1", "2", 1), ("d2", "2", 2)]].concat());
            for handle in [&store, &owner] {
                assert_eq!(everything(handle, Latest).await, wanted, "{step:?}");
            }
            for handle in [store, owner] {
                handle.close().await.unwrap();
            }
            assert_eq!(everything(&log::open(&place, None, no_grace()).await, Sealed).await, wanted, "{step:?}");
        });
    }
}

/// Silence alone does not make an orphan before its time.
#[test]
fn a_shard_that_was_written_to_lately_is_nobodys_to_adopt() {
    let place = Place::new();
    dies(&place, "lately", &[("d1", "1", 1), ("d2", "1", 2)]);
    dies(&place, "orphan", &[("o1", "1", 1), ("o2", "1", 2)]);
    run(async move {
        age_one_shard(&place);
        let patient =
            MaintenanceOptions { orphan_after: Duration::from_secs(1_800), ..adopting().maintenance.unwrap() };
        let store = log::open(&place, Some("alive"), OpenOptions { maintenance: Some(patient), ..no_grace() }).await;
        store.add(events(&[("a1", "1", 1)])).await.unwrap();
        until_merged_but(&store, 2).await;
        assert_eq!(everything(&store, Latest).await.len(), 5);
        store.close().await.unwrap();
    });
}

/// Makes every file of one of the shards long ago.
fn age_one_shard(place: &Place) {
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let shard = shard_directories(place).pop().unwrap();
    let mut directories = vec![shard];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
            }
        }
    }
}
