//! The one storage path: everything that touches lance.
//!
//! A [`StorageBase`] is one dataset with a key column: rows are added by key, the newest wins, or, in an append-only
//! store, the first stays and writers have [`shards`] of their own. Adds go
//! through one writer task ([`writer`]) that groups concurrent callers into one WAL write and is the
//! only place that seals. Reads assemble a [`snapshot`] in an order that cannot lose rows to a
//! concurrent seal, merge or collection. [`merge`] folds generations into the base table and removes
//! what no reader can need any more.

mod adopt;
mod base;
mod claim;
mod collect;
mod create;
mod disk;
mod doctor;
mod edit;
mod find;
mod fold;
mod fresh;
mod generations;
mod landed;
mod location;
mod lookup;
mod maintain;
mod merge;
mod meta;
mod optimize;
mod payload;
mod plan;
mod reach;
mod refusals;
mod scan;
mod shard;
mod shards;
mod snapshot;
mod sources;
mod staging;
mod stats;
mod steps;
mod tail;
mod torn;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::prelude::Expr;
use lance::Dataset;
use lance::dataset::mem_wal::scanner::DatasetCache;
use lance::session::Session;
use lance_context_spec::{
    Error, MergeReport, OnConflict, OpenOptions, OptimizeReport, ReadMode, Result, SchemaSpec, Stats,
};
use lance_io::object_store::ObjectStoreRegistry;
use tokio::runtime::Handle;
use uuid::Uuid;

pub use doctor::doctor;
pub use edit::Change;
pub use find::Found;
use location::Access;
pub use location::Location;
pub use plan::{Outcome, Plan, Planned, Stored};
pub use reach::Reach;
pub use scan::{RowStream, Scan};
pub use steps::{Step, StepObserver};

use crate::error::storage;
use crate::task;
use base::{Base, BaseView};
use disk::DiskProvider;
use edit::Edit;
use find::Wanted;
use generations::GENERATIONS;
use lookup::KeyMaps;
use maintain::Maintenance;
use meta::Meta;
use shards::Shards;
use writer::{Resident, Writer};

/// One atomic add takes at most this many rows.
pub const MAX_ADD_ROWS: usize = 100_000;

/// One atomic add takes at most this many bytes, unless it is a single row.
pub const MAX_ADD_BYTES: usize = 256 << 20;

/// Caches of metadata and index pages, shared by all stores of the process.
static SESSION: LazyLock<Arc<Session>> = LazyLock::new(|| {
    let stores = ObjectStoreRegistry::default();
    for scheme in [disk::SCHEME, disk::LOG_SCHEME] {
        stores.insert(scheme, Arc::new(DiskProvider));
    }
    Arc::new(Session::new(256 << 20, 256 << 20, Arc::new(stores)))
});

/// What a kind of store tells the storage about itself.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name, persisted.
    pub name: &'static str,
    /// The column by which rows are told apart, and replace each other unless the store is append-only.
    pub key: &'static str,
    /// Whether rows are never rewritten or deleted. Writers then have shards of their own, and of a key that was sent
    /// more than once, which should be the same row each time, one row is read: the merged one, else that of the
    /// shard with the smallest id.
    pub append_only: bool,
    /// Columns of strings by whose values rows are found ([`StorageBase::find`]).
    pub lookups: &'static [&'static str],
}

impl Kind {
    /// A kind whose rows replace each other by `key`, without lookup columns.
    #[must_use]
    pub const fn new(name: &'static str, key: &'static str) -> Self {
        Self { name, key, append_only: false, lookups: &[] }
    }

    /// The columns that have an index, the key first.
    fn indexed(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.key).chain(self.lookups.iter().copied())
    }
}

/// One dataset with a key column. Cheap to share behind an `Arc`; all methods take `&self`.
///
/// Dropping it without [`StorageBase::close`] lets its writer task seal and end in the background.
#[derive(Debug)]
pub struct StorageBase {
    inner: Arc<Inner>,
    writer: Writer,
}

/// What the handle, its writer task and its reads share.
#[derive(Debug)]
struct Inner {
    location: Location,
    log_access: Access,
    kind: Kind,
    meta: Meta,
    schema: Arc<SchemaSpec>,
    read_only: bool,
    default_read: ReadMode,
    /// Where the handle was opened. Its writer may work elsewhere.
    runtime: Handle,
    base: Base,
    shards: Shards,
    key_maps: KeyMaps,
    resident: Resident,
    maintenance: Maintenance,
    max_memtable_bytes: usize,
    merging: tokio::sync::Mutex<()>,
    closed: AtomicBool,
    /// Whether the writer task has sealed and ended.
    ended: tokio::sync::Mutex<bool>,
}

impl StorageBase {
    /// Opens the store at `location`, creating it when `declared` is given and nothing is there.
    ///
    /// Opening claims nothing: a live writer elsewhere is not disturbed, and what a dead one left
    /// durable is readable at once.
    ///
    /// # Errors
    /// [`Error::SchemaMissing`] or [`Error::StoreNotFound`] when nothing is there,
    /// [`Error::NotAStore`] for anything foreign (not a byte of it is changed),
    /// [`Error::SchemaMismatch`] and [`Error::OptionMismatch`] when the declaration differs,
    /// [`Error::InvalidArgument`] for a writer's name where writers take turns.
    pub async fn open(
        location: Location,
        kind: Kind,
        declared: Option<SchemaSpec>,
        must_exist: bool,
        options: OpenOptions,
    ) -> Result<Self> {
        let own = own_shard(kind, &options)?;
        let (dataset, meta, access) = create::open_or_create(&location, kind, declared, must_exist, &options).await?;
        let store = location.given.as_str();
        let log_access = location.log_access(&access);
        let (object_store, base_path) = log_access.object_store(&SESSION).await.map_err(storage(store, "open"))?;
        let base = Base::new(store, dataset, kind, meta.gc_grace).await?;
        let shards = Shards::open(store, object_store, base_path, own, &base.seen()?.shards).await?;
        let inner = Arc::new(Inner {
            kind,
            schema: Arc::new(meta.schema.clone()),
            read_only: options.read_only,
            default_read: options.read,
            runtime: Handle::current(),
            base,
            shards,
            key_maps: KeyMaps::default(),
            resident: Resident::default(),
            maintenance: Maintenance::new(options.maintenance),
            max_memtable_bytes: options.max_memtable_bytes,
            merging: tokio::sync::Mutex::default(),
            closed: AtomicBool::new(false),
            ended: tokio::sync::Mutex::default(),
            log_access,
            location,
            meta,
        });
        let writer = Writer::start(Arc::clone(&inner));
        Ok(Self { inner, writer })
    }

    /// The uri as the caller gave it.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.inner.location.given
    }

    /// The persisted schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<SchemaSpec> {
        &self.inner.schema
    }

    /// The kind of store.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.inner.kind
    }

    /// Whether [`StorageBase::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    /// Rows that this handle made durable and did not seal yet. No I/O.
    #[must_use]
    pub fn unsealed_rows(&self) -> u64 {
        self.inner.resident.unsealed_rows()
    }

    /// Writes `batch` durably; when it returns, the rows survive a crash of the process, and with
    /// `seal_on_add` every reader sees them. Atomic: all rows or none. The newest row of a key wins,
    /// within the batch too.
    ///
    /// Cancellation: once the batch is handed to the writer task it is written whole, whether or not
    /// the caller still waits. Repeating it is safe.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`] above [`MAX_ADD_ROWS`] or [`MAX_ADD_BYTES`], [`Error::WriterFenced`]
    /// when another writer keeps the shard, [`Error::WriteUncertain`] when one took it in the middle of the
    /// write and left no sign of the batch, [`Error::Storage`] when storage failed and the outcome is unknown.
    pub async fn add(&self, batch: RecordBatch) -> Result<()> {
        self.inner.check_writable("add")?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        check_size(batch.num_rows(), batch.get_array_memory_size())?;
        self.writer.add(batch).await
    }

    /// Writes what `plan` makes of what is stored, atomically and durably, and returns what it says about it. Nothing of
    /// another caller of this handle, or of another writer to the same shard, comes between the plan's reads and the
    /// write. Plans that wait at the same time share one write, and each sees the rows of those before it.
    ///
    /// Cancellation: once the plan is handed to the writer task it is carried out, whether or not the caller still
    /// waits.
    ///
    /// # Errors
    /// What `plan` returns; else as [`StorageBase::add`].
    pub async fn append(&self, plan: Arc<dyn Plan>) -> Result<Outcome> {
        self.inner.check_writable("append")?;
        self.writer.append(plan).await
    }

    /// Writes the rows of `batch` whose keys are not stored yet, atomically and durably; returns how many.
    /// `on_conflict` says what becomes of the others; a key that comes twice in the batch is in conflict too.
    ///
    /// # Errors
    /// [`Error::RowExists`] with the first key that is taken, if that is an error; else as [`StorageBase::add`].
    pub async fn insert(&self, batch: RecordBatch, on_conflict: OnConflict) -> Result<usize> {
        if on_conflict == OnConflict::Replace {
            let count = batch.num_rows();
            return self.add(batch).await.map(|()| count);
        }
        self.inner.check_writable("add")?;
        check_size(batch.num_rows(), batch.get_array_memory_size())?;
        self.writer.edit(Edit::Insert(batch, on_conflict)).await
    }

    /// Replaces the newest row of `key` by what `change` makes of it. `change` is called again when another
    /// writer came in between.
    ///
    /// # Errors
    /// [`Error::RowNotFound`], what `change` returns, [`Error::Unsupported`] in an append-only store, else as
    /// [`StorageBase::add`].
    pub async fn update(&self, key: String, change: Change) -> Result<()> {
        self.inner.check_rewritable("update")?;
        self.writer.edit(Edit::Update(key, change)).await.map(drop)
    }

    /// Deletes the rows with `keys`, atomically and durably; returns how many there were.
    ///
    /// # Errors
    /// [`Error::BatchTooLarge`] above [`MAX_ADD_ROWS`] keys, [`Error::Unsupported`] in an append-only store, else as
    /// [`StorageBase::add`].
    pub async fn delete(&self, keys: Vec<String>) -> Result<usize> {
        self.inner.check_rewritable("delete")?;
        if keys.len() > MAX_ADD_ROWS {
            let (got, limit) = (format!("{} keys", keys.len()), format!("{MAX_ADD_ROWS} keys"));
            return Err(Error::BatchTooLarge { got, limit });
        }
        self.writer.edit(Edit::Delete(keys)).await
    }

    /// Deletes the latest rows that fulfil `filter`; returns how many. Atomic up to [`MAX_ADD_ROWS`] rows; more go
    /// in as many steps as it takes, and a failure in between leaves the later ones.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in an append-only store, else as [`StorageBase::list`] and [`StorageBase::add`].
    pub async fn delete_where(&self, filter: Expr) -> Result<usize> {
        self.inner.check_rewritable("delete_where")?;
        self.writer.edit(Edit::DeleteWhere(filter)).await
    }

    /// Seals every durable row of the shard, other writers' leftovers too, and waits for it.
    ///
    /// # Errors
    /// [`Error::Storage`] when the generation could not be written; the rows stay durable.
    pub async fn flush(&self) -> Result<()> {
        self.inner.check_writable("flush")?;
        self.writer.flush().await
    }

    /// Folds the sealed generations of every shard into the base table.
    ///
    /// # Errors
    /// [`Error::Storage`]; a merge that failed half-way is finished by the next one.
    pub async fn merge(&self) -> Result<MergeReport> {
        self.inner.check_writable("merge")?;
        let inner = Arc::clone(&self.inner);
        let writer = self.writer.clone();
        task::join(task::spawn(async move { merge::merge(&inner, &writer).await })).await
    }

    /// Merges, rewrites small fragments of the base table into larger ones, brings the key index up to date, and
    /// removes versions of the base table that are older than `older_than` (at least the store's `gc_grace`).
    /// Versions with a tag stay.
    ///
    /// # Errors
    /// [`Error::Storage`]; what was done until then stays done, and the next call finishes the rest.
    pub async fn optimize(&self, older_than: Option<Duration>) -> Result<OptimizeReport> {
        self.inner.check_writable("optimize")?;
        let inner = Arc::clone(&self.inner);
        let writer = self.writer.clone();
        task::join(task::spawn(async move { optimize::optimize(&inner, &writer, older_than).await })).await
    }

    /// Seals, ends the writer task, and refuses everything afterwards. Closing twice is fine, and each call
    /// returns when the handle has ended; an abandoned call is finished in the background.
    ///
    /// # Errors
    /// [`Error::Storage`] when the last rows could not be sealed; they stay durable.
    pub async fn close(&self) -> Result<()> {
        self.inner.closed.store(true, Ordering::Release);
        let inner = Arc::clone(&self.inner);
        let writer = self.writer.clone();
        let closing = async move {
            let mut ended = inner.ended.lock().await;
            if std::mem::replace(&mut *ended, true) {
                return Ok(());
            }
            inner.maintenance.end().await;
            writer.close().await
        };
        task::join(task::spawn(closing)).await
    }

    /// The declared types of `columns`, in that order, without metadata: what reads return.
    #[must_use]
    pub fn schema_of(&self, columns: &[String]) -> SchemaRef {
        self.inner.schema_of(columns)
    }

    /// The live rows that fulfil `scan`.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`] for a filter that fails on the data, [`Error::Storage`].
    pub async fn list(&self, scan: Scan) -> Result<Vec<RecordBatch>> {
        self.inner.check_open()?;
        let inner = Arc::clone(&self.inner);
        task::join(task::spawn(async move { inner.list(scan).await })).await
    }

    /// The live rows that fulfil `scan`, as one snapshot has them, in storage order and bounded memory. The page and
    /// order of `scan` do not apply.
    ///
    /// # Errors
    /// As [`StorageBase::list`].
    pub async fn stream(&self, scan: Scan) -> Result<RowStream> {
        self.stream_since(scan, None).await
    }

    /// As [`StorageBase::stream`] in an append-only store, leaving out what was there at an earlier read with the same
    /// `read` where that can be told, which takes a scan without a condition.
    ///
    /// # Errors
    /// As [`StorageBase::list`].
    pub async fn stream_since(&self, scan: Scan, since: Option<Reach>) -> Result<RowStream> {
        self.inner.check_open()?;
        let inner = Arc::clone(&self.inner);
        task::join(task::spawn(async move { inner.stream(scan, since).await })).await
    }

    /// How many live rows fulfil `filter`.
    ///
    /// # Errors
    /// As [`StorageBase::list`].
    pub async fn count(&self, filter: Option<Expr>, read: Option<ReadMode>) -> Result<u64> {
        self.inner.check_open()?;
        let inner = Arc::clone(&self.inner);
        task::join(task::spawn(async move { inner.count(filter, read).await })).await
    }

    /// The live row with `key`, as a one-row batch of `columns`.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn get(&self, key: &str, columns: Vec<String>, read: Option<ReadMode>) -> Result<Option<RecordBatch>> {
        self.inner.check_open()?;
        let inner = Arc::clone(&self.inner);
        let key = key.to_owned();
        task::join(task::spawn(async move { inner.get(&key, &columns, read).await })).await
    }

    /// The live rows with `keys`, as one snapshot has them, in that order.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn get_many(
        &self,
        keys: Vec<String>,
        columns: Vec<String>,
        read: Option<ReadMode>,
    ) -> Result<Vec<Option<RecordBatch>>> {
        self.inner.check_open()?;
        let inner = Arc::clone(&self.inner);
        task::join(task::spawn(async move { inner.get_many(&keys, &columns, read).await })).await
    }

    /// The live rows whose `column`, one of [`Kind::lookups`], has `value`; in no particular order. The cost grows with
    /// the rows that match, and a little with the number of generations.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another column, [`Error::Storage`].
    pub async fn find(
        &self,
        column: &str,
        value: &str,
        columns: Vec<String>,
        read: Option<ReadMode>,
    ) -> Result<Vec<RecordBatch>> {
        self.find_many(column, vec![value.to_owned()], columns, read).await
    }

    /// As [`StorageBase::find`], for rows that have one of `values`.
    ///
    /// # Errors
    /// As [`StorageBase::find`].
    pub async fn find_many(
        &self,
        column: &str,
        values: Vec<String>,
        columns: Vec<String>,
        read: Option<ReadMode>,
    ) -> Result<Vec<RecordBatch>> {
        Ok(self.find_since(column, values, columns, read, None).await?.rows)
    }

    /// As [`StorageBase::find_many`] in an append-only store, leaving out what was there at an earlier read with the
    /// same `read` where that can be told.
    ///
    /// # Errors
    /// As [`StorageBase::find`].
    pub async fn find_since(
        &self,
        column: &str,
        values: Vec<String>,
        columns: Vec<String>,
        read: Option<ReadMode>,
        since: Option<Reach>,
    ) -> Result<Found> {
        self.inner.check_open()?;
        let inner = Arc::clone(&self.inner);
        let column = column.to_owned();
        let finding = async move {
            let wanted = Wanted { column: &column, values: &values, columns: &columns };
            inner.find(wanted, read, since.as_ref()).await
        };
        task::join(task::spawn(finding)).await
    }

    /// What is known of the store.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn stats(&self) -> Result<Stats> {
        self.inner.check_open()?;
        let inner = Arc::clone(&self.inner);
        task::join(task::spawn(async move { inner.stats().await })).await
    }
}

/// The shard that a handle writes to.
fn own_shard(kind: Kind, options: &OpenOptions) -> Result<Uuid> {
    match &options.writer_id {
        None => Ok(shards::default_shard()),
        Some(writer_id) if kind.append_only => shards::shard_of(writer_id),
        Some(_) => Err(Error::InvalidArgument {
            argument: "writer_id".into(),
            message: format!(
                "rows of a `{}` store replace each other, so its writers take turns; leave it out",
                kind.name
            ),
        }),
    }
}

fn check_size(rows: usize, bytes: usize) -> Result<()> {
    if rows > MAX_ADD_ROWS {
        let (got, limit) = (format!("{rows} rows"), format!("{MAX_ADD_ROWS} rows"));
        return Err(Error::BatchTooLarge { got, limit });
    }
    if rows > 1 && bytes > MAX_ADD_BYTES {
        let (got, limit) = (format!("{bytes} bytes"), format!("{MAX_ADD_BYTES} bytes"));
        return Err(Error::BatchTooLarge { got, limit });
    }
    Ok(())
}

impl Inner {
    async fn before(&self, step: Step) {
        self.location.before(step).await;
    }

    fn store(&self) -> &str {
        &self.location.given
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed { store: self.store().to_owned() });
        }
        Ok(())
    }

    fn check_writable(&self, operation: &'static str) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            return Err(Error::ReadOnly { store: self.store().to_owned(), operation });
        }
        Ok(())
    }

    /// As [`Inner::check_writable`], for what changes or removes rows.
    fn check_rewritable(&self, operation: &'static str) -> Result<()> {
        self.check_writable(operation)?;
        if self.kind.append_only {
            let message =
                format!("`{operation}` changes rows, and those of a `{}` store are never rewritten", self.kind.name);
            return Err(Error::Unsupported { message });
        }
        Ok(())
    }

    /// Path of a generation's dataset, the key of every cache about it.
    fn generation_uri(&self, view: &BaseView, shard_id: Uuid, path: &str) -> String {
        let root = view.dataset.uri().trim_end_matches('/');
        format!("{root}/_mem_wal/{shard_id}/{path}")
    }

    async fn open_generation(&self, view: &BaseView, uri: &str) -> lance::Result<Arc<Dataset>> {
        GENERATIONS.get_or_open(uri, Some(Arc::clone(&SESSION)), view.dataset.store_params().cloned()).await
    }

    fn generation_cache() -> Arc<dyn DatasetCache> {
        Arc::clone(&*GENERATIONS) as Arc<dyn DatasetCache>
    }
}
