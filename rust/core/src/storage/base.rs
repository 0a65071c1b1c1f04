//! The base table as this handle last saw it, and how it notices that there is a newer version.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use lance::Dataset;
use lance::dataset::mem_wal::DatasetMemWalExt;
use lance::dataset::statistics::DatasetStatisticsExt;
use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_context_spec::Result;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::ScalarIndex;
use lance_table::format::Fragment;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::{Kind, shards, torn};
use crate::clock;
use crate::error::{poisoned, storage};

/// Name of the BTree on a column.
pub(super) fn index_name(column: &str) -> String {
    format!("{column}_btree")
}

/// One version of the base table with what reads need to know about it.
#[derive(Debug)]
pub(super) struct BaseView {
    pub dataset: Arc<Dataset>,
    /// The shards that it announces.
    pub shards: BTreeSet<Uuid>,
    merged: HashMap<Uuid, u64>,
    indexes: HashMap<&'static str, OnceCell<Option<ColumnIndex>>>,
    column_bytes: OnceCell<HashMap<u32, u64>>,
}

/// The opened segments of the index on a column; together they cover every fragment.
pub(super) struct ColumnIndex {
    pub segments: Vec<Arc<dyn ScalarIndex>>,
}

impl std::fmt::Debug for ColumnIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnIndex").field("segments", &self.segments.len()).finish()
    }
}

impl BaseView {
    /// `indexed`: the columns that have an index.
    pub async fn new(dataset: Arc<Dataset>, indexed: impl Iterator<Item = &'static str>) -> lance::Result<Self> {
        let details = dataset.mem_wal_index_details().await?;
        let marks = details.into_iter().flat_map(|details| details.compacted_sstables);
        let merged = marks.map(|mark| (mark.shard_id, mark.generation)).collect();
        let indexes = indexed.map(|column| (column, OnceCell::new())).collect();
        let shards = shards::announced(dataset.config());
        Ok(Self { dataset, shards, merged, indexes, column_bytes: OnceCell::new() })
    }

    /// The newest generation of a shard whose rows are in this version; it and older ones must not be read again.
    pub fn merged(&self, shard_id: Uuid) -> u64 {
        self.merged.get(&shard_id).copied().unwrap_or(0)
    }

    /// Whether `columns` of a row have more than `limit` bytes on storage, on average.
    pub async fn is_wider(&self, columns: &[String], limit: u64) -> lance::Result<bool> {
        // The sizes of whole files are at hand; those of columns are in the files.
        if bytes_per_row(&self.dataset) <= limit {
            return Ok(false);
        }
        let sizes = self.column_bytes.get_or_try_init(|| self.read_column_bytes()).await?;
        let fields = self.dataset.schema().project(columns)?.field_ids();
        let of_field = |id: i32| u32::try_from(id).ok().and_then(|id| sizes.get(&id).copied()).unwrap_or(0);
        Ok(fields.into_iter().map(of_field).sum::<u64>() / physical_rows(&self.dataset) > limit)
    }

    async fn read_column_bytes(&self) -> lance::Result<HashMap<u32, u64>> {
        let sizes = self.dataset.calculate_data_stats().await?.fields;
        Ok(sizes.into_iter().map(|field| (field.id, field.bytes_on_disk)).collect())
    }

    /// The index on `column`, or `None` where there is none and while some fragment is not covered by it.
    pub async fn index(&self, column: &str) -> lance::Result<Option<&ColumnIndex>> {
        let Some(index) = self.indexes.get(column) else { return Ok(None) };
        index.get_or_try_init(|| self.open_index(column)).await.map(Option::as_ref)
    }

    async fn open_index(&self, column: &str) -> lance::Result<Option<ColumnIndex>> {
        let name = index_name(column);
        let indices = self.dataset.load_indices().await?;
        let mut segments = Vec::new();
        let mut covered = BTreeSet::new();
        for index in indices.iter().filter(|index| index.name == name) {
            let Some(fragments) = &index.fragment_bitmap else { return Ok(None) };
            if fragments.is_empty() {
                continue;
            }
            covered.extend(fragments.iter().map(u64::from));
            segments.push(self.dataset.open_scalar_index(column, &index.uuid, &NoOpMetricsCollector).await?);
        }
        let complete = self.dataset.fragments().iter().all(|fragment| covered.contains(&fragment.id));
        Ok(complete.then_some(ColumnIndex { segments }))
    }
}

/// Bytes of the data files of a fragment, as far as the table knows them.
pub(super) fn fragment_bytes(fragment: &Fragment) -> u64 {
    fragment.files.iter().filter_map(|file| file.file_size_bytes.get()).map(NonZeroU64::get).sum()
}

/// Bytes of a row of `dataset` on storage, on average; 0 where there is none.
pub(super) fn bytes_per_row(dataset: &Dataset) -> u64 {
    dataset.fragments().iter().map(fragment_bytes).sum::<u64>() / physical_rows(dataset)
}

/// Deleted ones included; 1 where there is none.
fn physical_rows(dataset: &Dataset) -> u64 {
    let rows: usize = dataset.fragments().iter().filter_map(|fragment| fragment.physical_rows).sum();
    (rows as u64).max(1)
}

/// The newest known version, shared by all reads of a handle.
#[derive(Debug)]
pub(super) struct Base {
    store: String,
    kind: Kind,
    gc_grace: Duration,
    current: RwLock<(Arc<BaseView>, Instant)>,
}

impl Base {
    pub async fn new(store: &str, dataset: Dataset, kind: Kind, gc_grace: Duration) -> Result<Self> {
        let view = BaseView::new(Arc::new(dataset), kind.indexed()).await.map_err(storage(store, "open"))?;
        Ok(Self { store: store.to_owned(), kind, gc_grace, current: RwLock::new((Arc::new(view), clock::now())) })
    }

    /// The newest version on storage: one existence probe for the next one, a reload only if it exists.
    ///
    /// Versions are numbered without gaps, but old ones are cleaned up after `gc_grace`; a view that was
    /// not confirmed within half of that could miss its successor, so it is reloaded without a probe.
    pub async fn latest(&self) -> Result<Arc<BaseView>> {
        let (view, confirmed) = self.known()?;
        let started = clock::now();
        let failed = storage(&self.store, "read the base table");
        if started.duration_since(confirmed) < self.gc_grace / 2 {
            let location = view.dataset.manifest_location();
            let root = view.dataset.branch_location().path;
            let next = location.naming_scheme.manifest_path(&root, location.version + 1);
            let object_store = view.dataset.object_store(None).await.map_err(&failed)?;
            if !object_store.exists(&next).await.map_err(&failed)? {
                self.publish(&view, started)?;
                return Ok(view);
            }
        }
        let mut dataset = view.dataset.as_ref().clone();
        let object_store = dataset.object_store(None).await.map_err(&failed)?;
        let (root, read) = (dataset.branch_location().path, dataset.version().version);
        torn::check_newest(&object_store, &root, Some(read)).await.map_err(&failed)?;
        dataset.checkout_latest().await.map_err(&failed)?;
        if dataset.version().version == view.dataset.version().version {
            self.publish(&view, started)?;
            return Ok(view);
        }
        let view = Arc::new(BaseView::new(Arc::new(dataset), self.kind.indexed()).await.map_err(&failed)?);
        self.publish(&view, started)?;
        Ok(view)
    }

    /// The newest version that was seen, without a look at storage.
    pub fn seen(&self) -> Result<Arc<BaseView>> {
        self.known().map(|(view, _)| view)
    }

    fn known(&self) -> Result<(Arc<BaseView>, Instant)> {
        self.current.read().map(|known| known.clone()).map_err(|_| poisoned())
    }

    /// Never goes back: reads race each other here.
    fn publish(&self, view: &Arc<BaseView>, confirmed: Instant) -> Result<()> {
        let mut current = self.current.write().map_err(|_| poisoned())?;
        if view.dataset.version().version >= current.0.dataset.version().version {
            *current = (Arc::clone(view), confirmed.max(current.1));
        }
        Ok(())
    }
}
