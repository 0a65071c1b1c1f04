//! An append-only store with lookup columns, and ways to look at it from every side.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use lance_context_core::StorageBase;
use lance_context_core::codec::RowEncoder;
use lance_context_core::storage::{Kind, Location, Scan};
use lance_context_spec::{OpenOptions, ReadMode, Result, SchemaSpec, Value};

use crate::support::Place;

pub const LOG: Kind = Kind { name: "log", key: "event_id", append_only: true, lookups: &["item_id", "root_item_id"] };

/// Event, item, number.
pub type Event<'a> = (&'a str, &'a str, i64);

/// Item and number by event.
pub type Events = BTreeMap<String, (String, i64)>;

pub fn schema() -> SchemaSpec {
    let json = r#"{
        "event_id": "string", "item_id": {"type": "string", "nullable": false}, "root_item_id": "string",
        "n": "int64", "data": {"type": "binary", "blob": true}
    }"#;
    SchemaSpec::parse_keyed("event_id", json).unwrap()
}

/// The root of an item is what its id has before the first `/`.
pub fn root(item: &str) -> &str {
    item.split('/').next().unwrap()
}

pub fn events(events: &[Event<'_>]) -> RecordBatch {
    let mut encoder = RowEncoder::new(Arc::new(schema()), events.len());
    for (event, item, n) in events {
        encoder.set(0, Value::Str((*event).into())).unwrap();
        encoder.set(1, Value::Str((*item).into())).unwrap();
        encoder.set(2, Value::Str(root(item).into())).unwrap();
        encoder.set(3, Value::Int(i128::from(*n))).unwrap();
        encoder.end_row().unwrap();
    }
    encoder.finish().unwrap()
}

pub fn model(events: &[Event<'_>]) -> Events {
    events.iter().map(|(event, item, n)| ((*event).to_owned(), ((*item).to_owned(), *n))).collect()
}

pub async fn open(place: &Place, writer: Option<&str>, options: OpenOptions) -> StorageBase {
    try_open(Location::parse(&place.uri()).unwrap(), writer, options).await.unwrap()
}

pub async fn try_open(location: Location, writer: Option<&str>, options: OpenOptions) -> Result<StorageBase> {
    let options = OpenOptions { writer_id: writer.map(str::to_owned), ..options };
    StorageBase::open(location, LOG, Some(schema()), false, options).await
}

fn columns(batch: &RecordBatch) -> Vec<(String, String, i64)> {
    let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().clone();
    let (events, items) = (text("event_id"), text("item_id"));
    let numbers = batch.column_by_name("n").unwrap().as_primitive::<Int64Type>();
    let row = |row: usize| (events.value(row).to_owned(), items.value(row).to_owned(), numbers.value(row));
    (0..batch.num_rows()).map(row).collect()
}

pub fn decode<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> Events {
    let rows: Vec<_> = batches.into_iter().flat_map(columns).collect();
    let unique: Events = rows.iter().map(|(event, item, n)| (event.clone(), (item.clone(), *n))).collect();
    assert_eq!(unique.len(), rows.len(), "an event came twice: {rows:?}");
    unique
}

pub fn scan(read: ReadMode) -> Scan {
    let columns = schema().default_projection();
    Scan { filter: None, columns, order: Vec::new(), limit: None, after: None, offset: 0, read: Some(read) }
}

/// Every event, by every way to read.
pub async fn everything(store: &StorageBase, read: ReadMode) -> Events {
    let all = decode(&store.list(scan(read)).await.unwrap());
    assert_eq!(store.count(None, Some(read)).await.unwrap(), all.len() as u64, "count and list differ: {all:?}");
    let mut streamed = store.stream(scan(read)).await.unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = streamed.next().await {
        batches.push(batch.unwrap());
    }
    assert_eq!(decode(&batches), all, "stream and list differ");
    let keys: Vec<String> = all.keys().cloned().collect();
    let got = store.get_many(keys.clone(), scan(read).columns, Some(read)).await.unwrap();
    assert_eq!(decode(got.iter().flatten()), all, "get_many and list differ");
    let mut items: Vec<String> = all.values().map(|(item, _)| item.clone()).collect();
    items.sort();
    items.dedup();
    for item in &items {
        let wanted: Events =
            all.iter().filter(|(_, (of, _))| of == item).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(find(store, "item_id", item, read).await, wanted, "find and list differ for {item}");
    }
    let found = store.find_many("item_id", items, scan(read).columns, Some(read)).await.unwrap();
    assert_eq!(decode(&found), all, "find_many and list differ");
    all
}

pub async fn find(store: &StorageBase, column: &str, value: &str, read: ReadMode) -> Events {
    decode(&store.find(column, value, scan(read).columns, Some(read)).await.unwrap())
}

/// The directories of the store's shards, by name.
pub fn shard_directories(place: &Place) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(place.dir.path().join("store/_mem_wal")).unwrap();
    let mut directories: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    directories.sort();
    directories
}
