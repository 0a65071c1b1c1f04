//! Append-only stores whose writers have shards of their own: nobody fences anybody, every reader sees every row once.

use datafusion::prelude::{ident, lit};
use lance_context_core::StorageBase;
use lance_context_core::storage::{Kind, Location, Scan};
use lance_context_spec::{Error, OnConflict, OpenOptions, ReadMode};

use crate::log::{self, LOG, decode, events, everything, find, model, scan, shard_directories};
use crate::support::{Place, in_dying_process, no_grace, quiet, run, spawn};

use ReadMode::{Latest, Sealed};

#[test]
fn two_writers_never_fence_each_other_and_every_reader_sees_both() {
    let place = Place::new();
    run(async move {
        let (a, b) = (log::open(&place, Some("a"), no_grace()).await, log::open(&place, Some("b"), no_grace()).await);
        let reader = log::open(&place, None, no_grace()).await;
        let mut wanted = Vec::new();
        for round in 0..6 {
            let (one, other) = (format!("a{round}"), format!("b{round}"));
            a.add(events(&[(&one, "5", round)])).await.unwrap();
            b.add(events(&[(&other, "7/x:0", round)])).await.unwrap();
            wanted.push((one, "5", round));
            wanted.push((other, "7/x:0", round));
            let wanted: Vec<_> = wanted.iter().map(|(event, item, n)| (event.as_str(), *item, *n)).collect();
            for handle in [&a, &b, &reader] {
                assert_eq!(everything(handle, Latest).await, model(&wanted), "round {round}");
            }
            match round {
                1 => a.flush().await.unwrap(),
                2 => drop(b.merge().await.unwrap()),
                3 => b.flush().await.unwrap(),
                4 => drop(reader.merge().await.unwrap()),
                _ => {}
            }
        }
        // Neither lost its shard: what is unsealed is still in its own memory.
        assert_eq!((a.unsealed_rows(), b.unsealed_rows()), (4, 2));
        assert_eq!(shard_directories(&place).len(), 2, "the reader made no shard");
        assert_eq!(find(&reader, "root_item_id", "7", Latest).await.len(), 6);
        for handle in [&a, &b] {
            handle.close().await.unwrap();
        }
        let stats = reader.stats().await.unwrap();
        assert_eq!(stats.rows, 12);
        reader.merge().await.unwrap();
        let stats = reader.stats().await.unwrap();
        assert_eq!((stats.base_rows, stats.generations), (12, 0));
        assert_eq!(everything(&reader, Sealed).await.len(), 12);
    });
}

#[test]
fn four_writers_at_once_with_merges_and_reopens_lose_and_double_nothing() {
    let place = Place::new();
    run(async move {
        let place = std::sync::Arc::new(place);
        let names = ["a", "b", "c", "d"];
        let writers = names.map(|name| {
            let place = std::sync::Arc::clone(&place);
            spawn(async move {
                let mut store = log::open(&place, Some(name), no_grace()).await;
                for n in 0..24_i64 {
                    let event = format!("{name}{n}");
                    store.add(events(&[(&event, name, n)])).await.unwrap();
                    let own = find(&store, "item_id", name, Latest).await;
                    assert_eq!(own.len() as i64, n + 1, "{name} misses some of its own: {own:?}");
                    match n % 8 {
                        3 => store.flush().await.unwrap(),
                        5 => drop(store.merge().await.unwrap()),
                        7 => {
                            store.close().await.unwrap();
                            store = log::open(&place, Some(name), no_grace()).await;
                        }
                        _ => {}
                    }
                }
                store.close().await.unwrap();
            })
        });
        for writer in writers {
            writer.await.unwrap();
        }
        let reader = log::open(&place, None, no_grace()).await;
        assert_eq!(everything(&reader, Sealed).await.len(), 4 * 24);
        reader.merge().await.unwrap();
        let stats = reader.stats().await.unwrap();
        assert_eq!((stats.base_rows, stats.generations), (4 * 24, 0));
        assert_eq!(everything(&reader, Sealed).await.len(), 4 * 24);
        assert_eq!(shard_directories(&place).len(), 4);
    });
}

/// The same name is the same shard, in another handle too: then the two take turns.
#[test]
fn a_name_is_one_shard() {
    let place = Place::new();
    run(async move {
        let first = log::open(&place, Some("same"), no_grace()).await;
        first.add(events(&[("e1", "1", 1)])).await.unwrap();
        let second = log::open(&place, Some("same"), no_grace()).await;
        second.add(events(&[("e2", "1", 2)])).await.unwrap();
        first.add(events(&[("e3", "1", 3)])).await.unwrap();
        assert_eq!(shard_directories(&place).len(), 1);
        let wanted = model(&[("e1", "1", 1), ("e2", "1", 2), ("e3", "1", 3)]);
        for handle in [&first, &second] {
            assert_eq!(everything(handle, Latest).await, wanted);
        }
    });
}

/// What is sent a second time differs here, which it should not, so that one can tell which of the two is read.
#[test]
fn a_key_that_was_sent_through_two_shards_is_read_once_in_any_order_of_merges() {
    for first_sealed in ["a", "b"] {
        let place = Place::new();
        run(async move {
            let smaller = smaller_shard(&place).await;
            let (a, b) =
                (log::open(&place, Some("a"), no_grace()).await, log::open(&place, Some("b"), no_grace()).await);
            a.add(events(&[("twice", "1", 100), ("only-a", "1", 1)])).await.unwrap();
            b.add(events(&[("twice", "1", 200), ("only-b", "1", 2)])).await.unwrap();
            let reader = log::open(&place, None, no_grace()).await;
            let with = |n: i64| model(&[("twice", "1", n), ("only-a", "1", 1), ("only-b", "1", 2)]);
            let of = |name: &str| if name == "a" { 100 } else { 200 };
            for handle in [&a, &b, &reader] {
                assert_eq!(everything(handle, Latest).await, with(of(smaller)), "the smaller shard wins");
            }
            // A filter that only the hidden row fulfils brings it back in no read.
            let hidden = ident("n").eq(lit(of(if smaller == "a" { "b" } else { "a" })));
            let filtered = Scan { filter: Some(hidden.clone()), ..scan(Latest) };
            assert_eq!(decode(&reader.list(filtered.clone()).await.unwrap()), model(&[]));
            assert_eq!(reader.count(Some(hidden.clone()), Some(Latest)).await.unwrap(), 0);
            let (first, second) = if first_sealed == "a" { (&a, &b) } else { (&b, &a) };
            first.flush().await.unwrap();
            assert_eq!(everything(&reader, Latest).await, with(of(smaller)), "{first_sealed} is sealed");
            first.merge().await.unwrap();
            let merged = of(first_sealed);
            for handle in [&a, &b, &reader] {
                assert_eq!(everything(handle, Latest).await, with(merged), "what is merged wins");
            }
            second.flush().await.unwrap();
            for handle in [&a, &b, &reader] {
                assert_eq!(everything(handle, Sealed).await, with(merged), "both are sealed");
            }
            second.merge().await.unwrap();
            for handle in [&a, &b, &reader, &log::open(&place, None, quiet()).await] {
                assert_eq!(everything(handle, Sealed).await, with(merged), "both are merged");
            }
            let stats = reader.stats().await.unwrap();
            assert_eq!((stats.base_rows, stats.generations), (3, 0));
        });
    }
}

/// The writer, `a` or `b`, whose shard has the smaller id.
async fn smaller_shard(place: &Place) -> &'static str {
    let other = Place::new();
    let a = log::open(&other, Some("a"), quiet()).await;
    a.add(events(&[("e", "1", 1)])).await.unwrap();
    let name = |directory: &std::path::PathBuf| directory.file_name().unwrap().to_owned();
    let of_a = name(&shard_directories(&other)[0]);
    let b = log::open(&other, Some("b"), quiet()).await;
    b.add(events(&[("e", "1", 1)])).await.unwrap();
    assert!(!place.dir.path().join("store").exists());
    if name(&shard_directories(&other)[0]) == of_a { "a" } else { "b" }
}

/// One pass takes the generations of both: the key is in the stream twice.
#[test]
fn a_key_of_two_shards_is_merged_once_in_one_pass() {
    let place = Place::new();
    run(async move {
        let (a, b) = (log::open(&place, Some("a"), no_grace()).await, log::open(&place, Some("b"), no_grace()).await);
        for (store, n) in [(&a, 1), (&b, 1)] {
            store.add(events(&[("twice", "1", n)])).await.unwrap();
            store.flush().await.unwrap();
        }
        let report = a.merge().await.unwrap();
        assert_eq!((report.generations, report.rows), (2, 1));
        assert_eq!(everything(&b, Sealed).await, model(&[("twice", "1", 1)]));
        // And once more, now that it is merged.
        b.add(events(&[("twice", "1", 1), ("new", "1", 2)])).await.unwrap();
        b.flush().await.unwrap();
        let report = b.merge().await.unwrap();
        assert_eq!((report.generations, report.rows), (1, 1));
        assert_eq!(everything(&a, Sealed).await, model(&[("twice", "1", 1), ("new", "1", 2)]));
        assert_eq!(a.stats().await.unwrap().base_rows, 2);
    });
}

#[test]
fn more_generations_than_one_pass_takes_are_merged_over_all_shards() {
    let place = Place::new();
    run(async move {
        let stores = [log::open(&place, Some("a"), no_grace()).await, log::open(&place, Some("b"), no_grace()).await];
        for n in 0..11_i64 {
            for (store, name) in stores.iter().zip(["a", "b"]) {
                let event = format!("{name}{n}");
                store.add(events(&[(&event, name, n)])).await.unwrap();
                store.flush().await.unwrap();
            }
        }
        assert_eq!(stores[0].stats().await.unwrap().generations, 22);
        let report = stores[0].merge().await.unwrap();
        assert_eq!((report.generations, report.rows), (22, 22), "three passes of at most eight");
        assert_eq!(everything(&stores[1], Sealed).await.len(), 22);
        // Only the owner trims its shard; nobody else fenced it.
        let left = |name: &str| {
            let shards = shard_directories(&place);
            let generations = shards.iter().map(|shard| {
                let entries = std::fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().file_name());
                entries.filter(|entry| entry.to_string_lossy().contains(name)).count()
            });
            let mut counts: Vec<_> = generations.collect();
            counts.sort_unstable();
            counts
        };
        assert_eq!(left("_gen_"), [0, 11]);
        stores[1].merge().await.unwrap();
        assert_eq!(left("_gen_"), [0, 0]);
        assert_eq!(stores[1].stats().await.unwrap().wal_entries, 2, "each shard keeps its anchor");
    });
}

/// What a dead writer left is readable at once, by a handle that was open before and by a new one.
#[test]
fn rows_of_a_dead_writer_are_read_without_a_claim() {
    let place = Place::new();
    let uri = place.uri();
    in_dying_process(async move {
        let location = Location::parse(&uri).unwrap();
        let store = log::try_open(location, Some("dead"), quiet()).await.unwrap();
        store.add(events(&[("e1", "1", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.add(events(&[("e2", "1", 2)])).await.unwrap();
        std::mem::forget(store);
    });
    run(async move {
        let reader = log::open(&place, None, quiet()).await;
        let wanted = model(&[("e1", "1", 1), ("e2", "1", 2)]);
        assert_eq!(everything(&reader, Latest).await, wanted);
        assert_eq!(everything(&reader, Sealed).await, wanted, "durable when the handle was opened");
        assert_eq!(shard_directories(&place).len(), 1, "a reader claims nothing");
        let again = log::open(&place, Some("dead"), quiet()).await;
        again.add(events(&[("e3", "1", 3)])).await.unwrap();
        let wanted = model(&[("e1", "1", 1), ("e2", "1", 2), ("e3", "1", 3)]);
        assert_eq!(everything(&reader, Latest).await, wanted);
    });
}

/// A sealed read shows of each shard what was durable at open, and never less.
#[test]
fn sealed_reads_are_a_prefix_of_every_shard() {
    let place = Place::new();
    run(async move {
        let (a, b) = (log::open(&place, Some("a"), quiet()).await, log::open(&place, Some("b"), quiet()).await);
        a.add(events(&[("a1", "1", 1)])).await.unwrap();
        let reader = log::open(&place, None, quiet()).await;
        a.add(events(&[("a2", "1", 2)])).await.unwrap();
        b.add(events(&[("b1", "1", 3)])).await.unwrap();
        assert_eq!(everything(&reader, Sealed).await, model(&[("a1", "1", 1)]));
        b.flush().await.unwrap();
        assert_eq!(everything(&reader, Sealed).await, model(&[("a1", "1", 1), ("b1", "1", 3)]));
        a.flush().await.unwrap();
        let all = model(&[("a1", "1", 1), ("a2", "1", 2), ("b1", "1", 3)]);
        assert_eq!(everything(&reader, Sealed).await, all);
        a.merge().await.unwrap();
        assert_eq!(everything(&reader, Sealed).await, all);
    });
}

#[test]
fn pages_go_over_all_shards_and_tiers() {
    let place = Place::new();
    run(async move {
        let (a, b) = (log::open(&place, Some("a"), no_grace()).await, log::open(&place, Some("b"), no_grace()).await);
        for n in 0..30_i64 {
            let event = format!("e{n:02}");
            let store = if n % 3 == 0 { &a } else { &b };
            store.add(events(&[(&event, "1", n)])).await.unwrap();
            match n {
                8 => drop((a.flush().await.unwrap(), b.flush().await.unwrap(), a.merge().await.unwrap())),
                17 => b.flush().await.unwrap(),
                _ => {}
            }
        }
        let mut after = None;
        for page in 0..6_i64 {
            let scan = Scan { limit: Some(5), after: after.clone(), ..scan(Latest) };
            let keys: Vec<String> = decode(&a.list(scan).await.unwrap()).into_keys().collect();
            assert_eq!(keys, (page * 5..page * 5 + 5).map(|n| format!("e{n:02}")).collect::<Vec<_>>());
            after = keys.last().cloned();
        }
        let offset = Scan { limit: Some(4), offset: 7, ..scan(Latest) };
        assert_eq!(decode(&b.list(offset).await.unwrap()).into_keys().next().unwrap(), "e07");
    });
}

#[test]
fn append_only_stores_add_and_insert_and_refuse_the_rest() {
    let place = Place::new();
    run(async move {
        let store = log::open(&place, Some("a"), quiet()).await;
        let other = log::open(&place, Some("b"), quiet()).await;
        other.add(events(&[("e1", "1", 1)])).await.unwrap();
        assert_eq!(store.insert(events(&[("e1", "1", 1), ("e2", "1", 2)]), OnConflict::Ignore).await.unwrap(), 1);
        let taken = store.insert(events(&[("e1", "1", 1)]), OnConflict::Error).await.unwrap_err();
        assert!(matches!(taken, Error::RowExists { key, .. } if key == "e1"));
        let refused = [
            store.update("e1".into(), std::sync::Arc::new(|row| Ok(row.clone()))).await,
            store.delete(vec!["e1".into()]).await.map(drop),
            store.delete_where(ident("n").eq(lit(1))).await.map(drop),
        ];
        for refusal in refused {
            let error = refusal.unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains("never rewritten"), "{error}");
        }
        let error = store.find("n", "1", vec!["event_id".into()], None).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert_eq!(everything(&store, Latest).await, model(&[("e1", "1", 1), ("e2", "1", 2)]));
    });
}

#[test]
fn a_name_is_refused_where_writers_take_turns_and_where_it_is_none() {
    let place = Place::new();
    run(async move {
        let location = || Location::parse(&place.uri()).unwrap();
        for name in ["", "x".repeat(256).as_str()] {
            let error = log::try_open(location(), Some(name), quiet()).await.unwrap_err();
            assert!(matches!(&error, Error::InvalidArgument { argument, .. } if argument == "writer_id"), "{error}");
        }
        let named = OpenOptions { writer_id: Some("a".into()), ..quiet() };
        let kind = Kind { append_only: false, ..LOG };
        let error = StorageBase::open(location(), kind, Some(log::schema()), false, named).await.unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument { argument, .. } if argument == "writer_id"), "{error}");
        assert!(!place.dir.path().join("store").exists(), "a refusal made something");
        drop(log::open(&place, Some("a/../b c\u{e9}"), quiet()).await);
    });
}
