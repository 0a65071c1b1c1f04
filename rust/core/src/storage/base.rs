//! The base table as this handle last saw it, and how it notices that there is a newer version.

use std::num::NonZeroU64;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use lance::Dataset;
use lance::dataset::mem_wal::DatasetMemWalExt;
use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_context_spec::Result;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::ScalarIndex;
use lance_table::format::Fragment;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::clock;
use crate::error::{poisoned, storage};

/// Name of the BTree on the key column.
pub(super) fn key_index_name(key: &str) -> String {
    format!("{key}_btree")
}

/// One version of the base table with what reads need to know about it.
#[derive(Debug)]
pub(super) struct BaseView {
    pub dataset: Arc<Dataset>,
    /// The newest generation whose rows are in this version; older ones must not be read again.
    pub merged: u64,
    key_index: OnceCell<Option<KeyIndex>>,
}

/// The opened segments of the key index; together they cover every fragment.
pub(super) struct KeyIndex {
    pub segments: Vec<Arc<dyn ScalarIndex>>,
}

impl std::fmt::Debug for KeyIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyIndex").field("segments", &self.segments.len()).finish()
    }
}

impl BaseView {
    pub async fn new(dataset: Arc<Dataset>, shard_id: Uuid) -> lance::Result<Self> {
        let merged = dataset
            .mem_wal_index_details()
            .await?
            .and_then(|details| {
                details.compacted_sstables.iter().find(|c| c.shard_id == shard_id).map(|c| c.generation)
            })
            .unwrap_or(0);
        Ok(Self { dataset, merged, key_index: OnceCell::new() })
    }

    /// Bytes of a row on storage, on average; 0 where there is none.
    pub fn bytes_per_row(&self) -> u64 {
        let fragments = self.dataset.fragments();
        let rows: usize = fragments.iter().filter_map(|fragment| fragment.physical_rows).sum();
        fragments.iter().map(fragment_bytes).sum::<u64>() / (rows as u64).max(1)
    }

    /// The key index, or `None` while some fragment is not covered by it.
    pub async fn key_index(&self, key: &str) -> lance::Result<Option<&KeyIndex>> {
        self.key_index.get_or_try_init(|| self.open_key_index(key)).await.map(Option::as_ref)
    }

    async fn open_key_index(&self, key: &str) -> lance::Result<Option<KeyIndex>> {
        let name = key_index_name(key);
        let indices = self.dataset.load_indices().await?;
        let mut segments = Vec::new();
        let mut covered = std::collections::BTreeSet::new();
        for index in indices.iter().filter(|index| index.name == name) {
            let Some(fragments) = &index.fragment_bitmap else { return Ok(None) };
            if fragments.is_empty() {
                continue;
            }
            covered.extend(fragments.iter().map(u64::from));
            segments.push(self.dataset.open_scalar_index(key, &index.uuid, &NoOpMetricsCollector).await?);
        }
        let complete = self.dataset.fragments().iter().all(|fragment| covered.contains(&fragment.id));
        Ok(complete.then_some(KeyIndex { segments }))
    }
}

/// Bytes of the data files of a fragment, as far as the table knows them.
pub(super) fn fragment_bytes(fragment: &Fragment) -> u64 {
    fragment.files.iter().filter_map(|file| file.file_size_bytes.get()).map(NonZeroU64::get).sum()
}

/// The newest known version, shared by all reads of a handle.
#[derive(Debug)]
pub(super) struct Base {
    store: String,
    shard_id: Uuid,
    gc_grace: Duration,
    current: RwLock<(Arc<BaseView>, Instant)>,
}

impl Base {
    pub async fn new(store: &str, dataset: Dataset, shard_id: Uuid, gc_grace: Duration) -> Result<Self> {
        let view = BaseView::new(Arc::new(dataset), shard_id).await.map_err(storage(store, "open"))?;
        Ok(Self { store: store.to_owned(), shard_id, gc_grace, current: RwLock::new((Arc::new(view), clock::now())) })
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
        dataset.checkout_latest().await.map_err(&failed)?;
        if dataset.version().version == view.dataset.version().version {
            self.publish(&view, started)?;
            return Ok(view);
        }
        let view = Arc::new(BaseView::new(Arc::new(dataset), self.shard_id).await.map_err(&failed)?);
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
