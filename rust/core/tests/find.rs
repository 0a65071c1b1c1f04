//! Rows by the value of a lookup column, against a plain model, over memory, generations and the base table.

use std::collections::BTreeMap;
use std::sync::Arc;

use lance_context_core::StorageBase;
use lance_context_core::storage::{Kind, Location};
use lance_context_spec::ReadMode::{self, Latest, Sealed};
use lance_context_spec::SchemaSpec;

use crate::log::{self, Events, LOG, decode, events, everything, find, model, scan};
use crate::support::{Place, no_grace, quiet, run};

fn of(all: &Events, item: &str) -> Events {
    all.iter().filter(|(_, (of, _))| of == item).map(|(event, row)| (event.clone(), row.clone())).collect()
}

fn of_root(all: &Events, root: &str) -> Events {
    all.iter()
        .filter(|(_, (item, _))| log::root(item) == root)
        .map(|(event, row)| (event.clone(), row.clone()))
        .collect()
}

async fn check(store: &StorageBase, all: &Events, items: &[String], read: ReadMode, when: &str) {
    for item in items {
        assert_eq!(find(store, "item_id", item, read).await, of(all, item), "{when}: {item}");
        let root = log::root(item);
        assert_eq!(find(store, "root_item_id", root, read).await, of_root(all, root), "{when}: root {root}");
    }
    assert_eq!(find(store, "item_id", "nobody", read).await, model(&[]));
    let some: Vec<String> = items.iter().step_by(2).cloned().chain(["nobody".to_owned()]).collect();
    let found = store.find_many("item_id", some.clone(), scan(read).columns, Some(read)).await.unwrap();
    let wanted: Events = some.iter().flat_map(|item| of(all, item)).collect();
    assert_eq!(decode(&found), wanted, "{when}: several at once");
    let none = store.find_many("item_id", Vec::new(), scan(read).columns, Some(read)).await.unwrap();
    assert_eq!(decode(&none), model(&[]));
}

#[test]
fn find_equals_the_model_in_every_mix_of_tiers() {
    let place = Place::new();
    run(async move {
        let writers = [log::open(&place, Some("a"), no_grace()).await, log::open(&place, Some("b"), no_grace()).await];
        let reader = log::open(&place, None, no_grace()).await;
        let items: Vec<String> =
            (0..7).map(|n| format!("{}{}", n % 3, if n < 3 { String::new() } else { format!("/s:{n}") })).collect();
        let mut all = Events::new();
        for round in 0..12_usize {
            for (at, writer) in writers.iter().enumerate() {
                let rows: Vec<_> = (0..10)
                    .map(|n| {
                        (format!("{round}-{at}-{n}"), items[(round * 7 + n * 3 + at) % items.len()].clone(), n as i64)
                    })
                    .collect();
                let rows: Vec<_> = rows.iter().map(|(event, item, n)| (event.as_str(), item.as_str(), *n)).collect();
                writer.add(events(&rows)).await.unwrap();
                all.extend(model(&rows));
            }
            match round {
                1 | 7 => writers[0].flush().await.unwrap(),
                2 | 9 => writers[1].flush().await.unwrap(),
                3 | 8 => drop(writers[0].merge().await.unwrap()),
                5 => drop(writers[1].optimize(None).await.unwrap()),
                _ => {}
            }
            for handle in [&writers[0], &reader] {
                check(handle, &all, &items, Latest, &format!("round {round}")).await;
            }
        }
        assert_eq!(everything(&reader, Latest).await, all);
        for writer in &writers {
            writer.close().await.unwrap();
        }
        check(&reader, &all, &items, Sealed, "closed").await;
        reader.optimize(None).await.unwrap();
        check(&reader, &all, &items, Sealed, "optimized").await;
        check(&log::open(&place, None, quiet()).await, &all, &items, Sealed, "reopened").await;
    });
}

/// Where rows are replaced, the value can move: the old row must not be found any more, in any mix of tiers.
#[test]
fn a_row_that_moved_or_went_is_not_found_under_its_old_value() {
    let place = Place::new();
    run(async move {
        let kind = Kind { name: "moving", append_only: false, ..LOG };
        let location = Location::parse(&place.uri()).unwrap();
        let store = StorageBase::open(location, kind, Some(log::schema()), false, no_grace()).await.unwrap();
        let mut all = Events::new();
        let items = ["1", "2", "3"].map(str::to_owned);
        for round in 0..20_i64 {
            let (event, item) = (format!("e{}", round % 5), items[(round * 2 / 3) as usize % 3].clone());
            store.add(events(&[(&event, "gone", -1), (&event, &item, round)])).await.unwrap();
            all.insert(event, (item, round));
            match round % 7 {
                1 => {
                    store.delete(vec!["e3".into()]).await.unwrap();
                    all.remove("e3");
                }
                2 => store.flush().await.unwrap(),
                4 => drop(store.merge().await.unwrap()),
                5 => drop(store.optimize(None).await.unwrap()),
                _ => {}
            }
            check(&store, &all, &items, Latest, &format!("round {round}")).await;
            assert_eq!(find(&store, "item_id", "gone", Latest).await, model(&[]), "round {round}");
        }
    });
}

/// A projection without key and value, and values that need no quoting here.
#[test]
fn found_rows_have_the_columns_that_were_asked_for() {
    let place = Place::new();
    run(async move {
        let store = log::open(&place, None, no_grace()).await;
        let odd = ["x' OR 1=1 --", "a\\b", "tab\t", "\u{1f600}", ""];
        for (n, item) in odd.iter().enumerate() {
            store.add(events(&[(&format!("e{n}"), item, n as i64)])).await.unwrap();
            if n == 1 {
                store.flush().await.unwrap();
                store.merge().await.unwrap();
            }
        }
        for read in [Latest, Sealed] {
            if read == Sealed {
                store.flush().await.unwrap();
            }
            for (n, item) in odd.iter().enumerate() {
                let found = store.find("item_id", item, vec!["n".into()], Some(read)).await.unwrap();
                assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1, "{item}");
                assert_eq!(found[0].schema().fields().len(), 1);
                let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(found[0].column(0));
                assert_eq!(numbers.value(0), n as i64, "{item}");
            }
        }
    });
}

/// The indexes are there for every Lance reader, in generations too, and cover what is merged.
#[test]
fn lookup_columns_are_indexed_in_every_tier() {
    use lance::dataset::builder::DatasetBuilder;
    use lance::index::DatasetIndexExt;
    let place = Place::new();
    run(async move {
        let store = log::open(&place, Some("a"), no_grace()).await;
        store.add(events(&[("e1", "1", 1), ("e2", "2", 2)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.add(events(&[("e3", "1", 3)])).await.unwrap();
        store.flush().await.unwrap();
        let shard = &log::shard_directories(&place)[0];
        let entries = std::fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().path());
        let generation = entries.filter(|path| path.to_str().unwrap().contains("_gen_")).last().unwrap();
        for (path, names) in [
            (place.uri(), vec!["event_id_btree", "item_id_btree", "root_item_id_btree"]),
            (generation.to_str().unwrap().to_owned(), vec!["item_id_btree", "root_item_id_btree"]),
        ] {
            let dataset = DatasetBuilder::from_uri(&path).load().await.unwrap();
            let indices = dataset.load_indices().await.unwrap();
            let mut covered = BTreeMap::new();
            for index in indices.iter().filter(|index| index.name.ends_with("_btree")) {
                let fragments = index.fragment_bitmap.as_ref().map_or(0, |fragments| fragments.len());
                *covered.entry(index.name.clone()).or_insert(0) += fragments;
            }
            assert_eq!(covered.keys().map(String::as_str).collect::<Vec<_>>(), names, "{path}");
            assert!(covered.values().all(|fragments| *fragments == 1), "{path}: {covered:?}");
        }
    });
}

/// A store with another key and no lookup columns is a store like any other.
#[test]
fn the_key_can_have_another_name() {
    let place = Place::new();
    run(async move {
        let kind = Kind::new("keyed", "event_id");
        let location = || Location::parse(&place.uri()).unwrap();
        let open = || StorageBase::open(location(), kind, Some(log::schema()), false, no_grace());
        let store = open().await.unwrap();
        store.add(events(&[("e1", "1", 1), ("e2", "1", 2)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.add(events(&[("e2", "1", 3)])).await.unwrap();
        store.update("e1".into(), Arc::new(|_| Ok(events(&[("e1", "1", 4)])))).await.unwrap();
        store.delete(vec!["e2".into()]).await.unwrap();
        assert_eq!(decode(&store.list(scan(Latest)).await.unwrap()), model(&[("e1", "1", 4)]));
        store.close().await.unwrap();
        let store = open().await.unwrap();
        assert_eq!(store.schema().key(), "event_id");
        assert_eq!(decode(&store.list(scan(Sealed)).await.unwrap()), model(&[("e1", "1", 4)]));
        let generic = SchemaSpec::parse(r#"{"id": "string"}"#).unwrap();
        let other = StorageBase::open(location(), Kind::new("generic", "id"), Some(generic), false, quiet()).await;
        let said = other.unwrap_err().to_string();
        assert!(said.contains("it is a `keyed` store, and was opened as `generic`"), "{said}");
    });
}
