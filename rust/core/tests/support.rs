//! Stores in a temporary directory, rows by hand, and ways to end a handle without its consent.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use lance_context_core::GenericStore;
use lance_context_core::codec::{ColumnReader, RowEncoder};
use lance_context_spec::{Filter, OpenOptions, Query, ReadMode, SchemaSpec, Value};
use tempfile::TempDir;

pub const SCHEMA: &str = r#"{"id": "string", "n": "int64", "data": {"type": "binary", "blob": true}}"#;

pub fn schema() -> SchemaSpec {
    SchemaSpec::parse(SCHEMA).unwrap()
}

pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub fn uri(&self) -> String {
        self.dir.path().join("store").to_str().unwrap().to_owned()
    }

    pub async fn open(&self) -> GenericStore {
        self.open_with(quiet()).await
    }

    pub async fn open_with(&self, options: OpenOptions) -> GenericStore {
        GenericStore::open(&self.uri(), Some(schema()), options).await.unwrap()
    }
}

/// Options of a handle that does nothing by itself, so that a test sees each step.
pub fn quiet() -> OpenOptions {
    OpenOptions { maintenance: None, ..OpenOptions::default() }
}

/// The same, of a store whose superfluous files go at once.
pub fn no_grace() -> OpenOptions {
    OpenOptions { gc_grace: Some(std::time::Duration::ZERO), ..quiet() }
}

pub fn rows(rows: &[(&str, i64)]) -> RecordBatch {
    let mut encoder = RowEncoder::new(Arc::new(schema()), rows.len());
    for (id, n) in rows {
        encoder.set(0, Value::Str((*id).into())).unwrap();
        encoder.set(1, Value::Int(i128::from(*n))).unwrap();
        encoder.end_row().unwrap();
    }
    encoder.finish().unwrap()
}

pub fn blob(id: &str, bytes: &[u8]) -> RecordBatch {
    let mut encoder = RowEncoder::new(Arc::new(schema()), 1);
    encoder.set(0, Value::Str(id.into())).unwrap();
    encoder.set(2, Value::Bytes(bytes.into())).unwrap();
    encoder.end_row().unwrap();
    encoder.finish().unwrap()
}

pub fn sql(expression: &str) -> Option<Filter> {
    Some(Filter::Sql { expression: expression.to_owned(), params: Vec::new() })
}

pub async fn list(store: &GenericStore, query: Query) -> Vec<(String, i64)> {
    store.list(query).await.unwrap().iter().flat_map(decode).collect()
}

/// Id and `n` of all rows.
pub fn decode(batch: &RecordBatch) -> Vec<(String, i64)> {
    let numbers = ColumnReader::new(batch.column_by_name("n").unwrap().as_ref()).unwrap();
    let numbers = (0..batch.num_rows()).map(|row| match numbers.value(row) {
        Value::Int(n) => i64::try_from(n).unwrap(),
        other => panic!("n is {other:?}"),
    });
    keys(batch).into_iter().zip(numbers).collect()
}

pub async fn everything(store: &GenericStore, read: ReadMode) -> BTreeMap<String, i64> {
    let listed = list(store, Query { read: Some(read), ..Query::default() }).await;
    let map: BTreeMap<_, _> = listed.iter().cloned().collect();
    assert_eq!(map.len(), listed.len(), "a row came twice: {listed:?}");
    assert_eq!(store.count(None, Some(read)).await.unwrap(), map.len() as u64, "count and list differ");
    for (id, n) in &map {
        assert_eq!(get(store, id, read).await, Some(*n), "get and list differ for {id}");
    }
    map
}

pub async fn get(store: &GenericStore, id: &str, read: ReadMode) -> Option<i64> {
    store.get(id, None, Some(read)).await.unwrap().as_ref().map(number)
}

/// Column `n` of the first row.
pub fn number(batch: &RecordBatch) -> i64 {
    decode(batch)[0].1
}

/// The ids of all rows.
pub fn keys(batch: &RecordBatch) -> Vec<String> {
    let ids = batch.column_by_name("id").unwrap().as_string::<i32>();
    ids.iter().map(|id| id.unwrap().to_owned()).collect()
}

/// The blob of the row `id`.
pub async fn fetch(store: &GenericStore, id: &str) -> Vec<u8> {
    let columns = Some(vec!["data".to_owned()]);
    let row = store.get(id, columns, Some(ReadMode::Latest)).await.unwrap().unwrap();
    assert_eq!(row.schema().field(0).name(), "id");
    let reader = ColumnReader::new(row.column(1).as_ref()).unwrap();
    match reader.value(0) {
        Value::Bytes(bytes) => bytes.into_owned(),
        other => panic!("{other:?}"),
    }
}

pub fn expect(rows: &[(&str, i64)]) -> BTreeMap<String, i64> {
    rows.iter().map(|(id, n)| ((*id).to_owned(), *n)).collect()
}

/// Runs `work` on a runtime of its own and kills that runtime: as near to a crashed process as one
/// process gets. Nothing of the handle runs afterwards, not even its writer task.
pub fn in_dying_process<F: Future<Output = ()> + Send + 'static>(work: F) {
    let runtime = runtime();
    runtime.block_on(work);
    runtime.shutdown_background();
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()
        .unwrap()
}

/// The body of a test, on the runtime that products use.
pub fn run<F: Future<Output = ()> + Send + 'static>(work: F) {
    let runtime = runtime();
    runtime.block_on(async move { spawn(work).await.unwrap() });
}

/// A concurrent actor of a test.
#[expect(clippy::disallowed_methods, reason = "a test awaits or aborts what it starts")]
pub fn spawn<F>(work: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}

/// How many tasks the runtime of the test has.
pub fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Waits until so many tasks are left: those that are about to end have ended, and no other goes on.
pub async fn until_tasks(left: usize) {
    let fewer = async {
        while tasks() != left {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), fewer)
        .await
        .unwrap_or_else(|_| panic!("{} tasks go on, not {left}", tasks()));
}

/// The directory of the store's one shard.
pub fn shard_directory(place: &Place) -> std::path::PathBuf {
    std::fs::read_dir(place.dir.path().join("store/_mem_wal")).unwrap().next().unwrap().unwrap().path()
}

/// The files of the shard's manifests, all versions.
pub fn shard_manifests(place: &Place) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(shard_directory(place).join("manifest")).unwrap().map(|file| file.unwrap().path()).collect()
}

/// The outcome of what must end soon.
pub async fn within<F: Future>(work: F) -> F::Output {
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| panic!("it hangs"))
}
