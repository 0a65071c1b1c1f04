//! One row by key, newest tier first, without planning a query.
//!
//! Memory answers from its key index, a generation from a map of key hashes that is built once (a
//! generation never changes), the base table from its BTree. Every answer is checked against the key
//! itself, so that a hash collision costs a read and nothing else.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::UInt64Type;
use datafusion::prelude::{Expr, ident, lit};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::fragment::{FragReadConfig, FragmentReader};
use lance::dataset::mem_wal::TOMBSTONE;
use lance::dataset::mem_wal::scanner::InMemoryMemTableRef;
use lance_context_spec::{ReadMode, Result};
use lance_core::ROW_ADDR;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::{SargableQuery, ScalarIndex, SearchResult};
use moka::future::Cache;
use xxhash_rust::xxh3::xxh3_64;

use super::Inner;
use super::base::BaseView;
use super::edit::CONCURRENT_LOOKUPS;
use super::scan::{ATTEMPTS, reorder};
use super::snapshot::Snapshot;
use super::sources::{Source, row_at};
use crate::error::{storage, vanished};

/// Memory for key maps of generations, per handle: 16 bytes a row.
const KEY_MAP_BYTES: u64 = 64 << 20;

/// Open readers of fragments, per handle. Opening one costs several times what the read itself does.
const READERS: u64 = 128;

/// Open indexes of generations, per handle.
const INDEXES: u64 = 256;

/// What one tier knows of a key.
enum Found {
    Row(RecordBatch),
    Deleted,
    Nothing,
}

/// What reads by key or value keep: key maps of generations by uri, and readers by what they read.
pub(super) struct KeyMaps {
    kept: Cache<String, Arc<KeyMap>>,
    /// Indexes of generations by uri and column; `None` where a generation has none.
    pub(super) indexes: Cache<(String, String), Option<Arc<dyn ScalarIndex>>>,
    readers: Cache<ReaderKey, Arc<FragmentReader>>,
}

/// A table by uri and version (deletions differ between versions), a fragment of it, and columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ReaderKey {
    uri: String,
    version: u64,
    fragment: u64,
    columns: Vec<String>,
}

impl std::fmt::Debug for KeyMaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyMaps").field("kept", &self.kept.entry_count()).finish_non_exhaustive()
    }
}

impl Default for KeyMaps {
    fn default() -> Self {
        let weigh = |uri: &String, map: &Arc<KeyMap>| u32::try_from(uri.len() + map.0.len() * 16).unwrap_or(u32::MAX);
        Self {
            kept: Cache::builder().max_capacity(KEY_MAP_BYTES).weigher(weigh).build(),
            indexes: Cache::new(INDEXES),
            readers: Cache::new(READERS),
        }
    }
}

/// Key hash and row address of each newest row of a generation, ordered by hash.
#[derive(Debug)]
struct KeyMap(Vec<(u64, u64)>);

impl KeyMap {
    fn addresses(&self, hash: u64) -> impl Iterator<Item = u64> + '_ {
        let from = self.0.partition_point(|(h, _)| *h < hash);
        self.0[from..].iter().take_while(move |(h, _)| *h == hash).map(|(_, address)| *address)
    }
}

impl Inner {
    pub(super) async fn get(
        &self,
        key: &str,
        columns: &[String],
        read: Option<ReadMode>,
    ) -> Result<Option<RecordBatch>> {
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot(read).await?;
            match self.get_snapshot(&snapshot, key, columns).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome.map_err(storage(self.store(), "read")),
            }
        }
    }

    /// The rows with `keys` as one snapshot has them, in that order.
    pub(super) async fn get_many(
        &self,
        keys: &[String],
        columns: &[String],
        read: Option<ReadMode>,
    ) -> Result<Vec<Option<RecordBatch>>> {
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot(read).await?;
            match self.get_many_from(&snapshot.base, &self.sources(&snapshot), keys, columns).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome.map_err(storage(self.store(), "read")),
            }
        }
    }

    /// As [`Inner::get_from`], for each of `keys`.
    pub(super) async fn get_many_from(
        &self,
        view: &BaseView,
        sources: &[Source<'_>],
        keys: &[String],
        columns: &[String],
    ) -> lance::Result<Vec<Option<RecordBatch>>> {
        let lookups = (0..keys.len()).map(|at| async move {
            let Some(key) = keys.get(at) else { return Ok(None) };
            self.get_from(view, sources, key, columns).await
        });
        futures::stream::iter(lookups).buffered(CONCURRENT_LOOKUPS).try_collect().await
    }

    pub(super) async fn get_snapshot(
        &self,
        snapshot: &Snapshot,
        key: &str,
        columns: &[String],
    ) -> lance::Result<Option<RecordBatch>> {
        self.get_from(&snapshot.base, &self.sources(snapshot), key, columns).await
    }

    /// The row with `key` in the first of `sources` that has the key.
    pub(super) async fn get_from(
        &self,
        view: &BaseView,
        sources: &[Source<'_>],
        key: &str,
        columns: &[String],
    ) -> lance::Result<Option<RecordBatch>> {
        for source in sources {
            let found = match source {
                Source::Memory { table, last, .. } => probe_memory(table, *last, key, columns)?,
                Source::Generation { uri, .. } => self.probe_generation(view, uri, key, columns).await?,
                Source::Base => match self.probe_base(view, key, columns).await? {
                    Some(row) => Found::Row(row),
                    None => Found::Nothing,
                },
            };
            match found {
                Found::Row(row) => return Ok(Some(row)),
                Found::Deleted => return Ok(None),
                Found::Nothing => {}
            }
        }
        Ok(None)
    }

    /// Whether a generation has a row of `key`, or its deletion.
    pub(super) async fn generation_holds(&self, view: &BaseView, uri: &str, key: &str) -> lance::Result<bool> {
        let map = self.key_map(view, uri).await?;
        if map.addresses(xxh3_64(key.as_bytes())).next().is_none() {
            return Ok(false);
        }
        let columns = [self.kind.key.to_owned()];
        Ok(!matches!(self.probe_generation(view, uri, key, &columns).await?, Found::Nothing))
    }

    /// Hash and address of each key of a generation.
    async fn key_map(&self, view: &BaseView, uri: &str) -> lance::Result<Arc<KeyMap>> {
        if let Some(map) = self.key_maps.kept.get(uri).await {
            return Ok(map);
        }
        let generation = self.open_generation(view, uri).await?;
        let map = Arc::new(read_key_map(&generation, self.kind.key).await?);
        self.key_maps.kept.insert(uri.to_owned(), Arc::clone(&map)).await;
        Ok(map)
    }

    async fn probe_generation(
        &self,
        view: &BaseView,
        uri: &str,
        key: &str,
        columns: &[String],
    ) -> lance::Result<Found> {
        let map = self.key_map(view, uri).await?;
        let addresses: Vec<u64> = map.addresses(xxh3_64(key.as_bytes())).collect();
        if addresses.is_empty() {
            return Ok(Found::Nothing);
        }
        let mut wanted = vec![self.kind.key.to_owned(), TOMBSTONE.to_owned()];
        wanted.extend(columns.iter().filter(|c| *c != self.kind.key).cloned());
        let generation = self.open_generation(view, uri).await?;
        let Some(row) = self.take(&generation, &addresses, &wanted, key).await? else { return Ok(Found::Nothing) };
        if row.column_by_name(TOMBSTONE).and_then(|c| c.as_boolean_opt()).is_some_and(|dead| dead.value(0)) {
            return Ok(Found::Deleted);
        }
        Ok(Found::Row(reorder(&row, columns)?))
    }

    async fn probe_base(&self, view: &BaseView, key: &str, columns: &[String]) -> lance::Result<Option<RecordBatch>> {
        let Some(index) = view.index(self.kind.key).await? else {
            let filter: Expr = ident(self.kind.key).eq(lit(key));
            let mut scan = view.dataset.scan();
            scan.project(columns)?.filter_expr(filter);
            let row = scan.try_into_batch().await?;
            return Ok(matching_row(&row, self.kind.key, key).map(|row| reorder(&row, columns)).transpose()?);
        };
        let query = SargableQuery::Equals(ScalarValue::Utf8(Some(key.to_owned())));
        let mut addresses = Vec::new();
        for segment in &index.segments {
            let (SearchResult::Exact(rows) | SearchResult::AtMost(rows) | SearchResult::AtLeast(rows)) =
                segment.search(&query, &NoOpMetricsCollector).await?;
            addresses.extend(rows.true_rows().row_addrs().into_iter().flatten().map(u64::from));
        }
        // The index still lists rows of fragments that a rewrite has replaced.
        addresses.retain(|address| view.dataset.fragments().iter().any(|fragment| fragment.id == address >> 32));
        let row = self.take(&view.dataset, &addresses, columns, key).await?;
        Ok(row.map(|row| reorder(&row, columns)).transpose()?)
    }

    /// The row with `key` among those at `addresses`, which a collision or a deletion may have made none.
    /// `columns` must hold the key column.
    async fn take(
        &self,
        dataset: &Dataset,
        addresses: &[u64],
        columns: &[String],
        key: &str,
    ) -> lance::Result<Option<RecordBatch>> {
        for address in addresses {
            let reader = self.reader(dataset, address >> 32, columns).await?;
            #[expect(clippy::cast_possible_truncation, reason = "the lower half of an address is the row's offset")]
            let rows = reader.take_as_batch(&[*address as u32], None).await?;
            if let Some(row) = matching_row(&rows, self.kind.key, key) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// A reader of `columns` of a fragment, kept for the next read.
    pub(super) async fn reader(
        &self,
        dataset: &Dataset,
        fragment: u64,
        columns: &[String],
    ) -> lance::Result<Arc<FragmentReader>> {
        let wanted = ReaderKey {
            uri: dataset.uri().to_owned(),
            version: dataset.version().version,
            fragment,
            columns: columns.to_vec(),
        };
        if let Some(reader) = self.key_maps.readers.get(&wanted).await {
            return Ok(reader);
        }
        let reader = Arc::new(open_reader(dataset, fragment, columns).await?);
        self.key_maps.readers.insert(wanted, Arc::clone(&reader)).await;
        Ok(reader)
    }
}

async fn open_reader(dataset: &Dataset, fragment: u64, columns: &[String]) -> lance::Result<FragmentReader> {
    let missing = || lance::Error::internal(format!("an index names fragment {fragment}, which the table lacks"));
    let found = usize::try_from(fragment).ok().and_then(|id| dataset.get_fragment(id)).ok_or_else(missing)?;
    found.open(&dataset.schema().project(columns)?, FragReadConfig::default()).await
}

fn matching_row(rows: &RecordBatch, key_column: &str, key: &str) -> Option<RecordBatch> {
    let keys = rows.column_by_name(key_column)?.as_any().downcast_ref::<StringArray>()?;
    let row = (0..keys.len()).rev().find(|row| keys.value(*row) == key)?;
    Some(rows.slice(row, 1))
}

async fn read_key_map(generation: &Dataset, key: &str) -> lance::Result<KeyMap> {
    let mut scan = generation.scan();
    scan.project(&[key])?.with_row_address();
    let mut rows = scan.try_into_stream().await?;
    let mut map = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        let keys = batch.column_by_name(key).and_then(|c| c.as_string_opt::<i32>().cloned());
        let addresses = batch.column_by_name(ROW_ADDR).and_then(|c| c.as_primitive_opt::<UInt64Type>().cloned());
        let (Some(keys), Some(addresses)) = (keys, addresses) else {
            return Err(lance::Error::internal(format!("a generation has no `{key}` column of strings")));
        };
        map.extend(keys.iter().flatten().map(|k| xxh3_64(k.as_bytes())).zip(addresses.values().iter().copied()));
    }
    map.sort_unstable();
    Ok(KeyMap(map))
}

/// `last`: the last row that counts.
fn probe_memory(table: &InMemoryMemTableRef, last: Option<u64>, key: &str, columns: &[String]) -> lance::Result<Found> {
    let Some(last) = last else { return Ok(Found::Nothing) };
    let wanted = [ScalarValue::Utf8(Some(key.to_owned()))];
    let Some(position) = table.index_store.pk_newest_visible(&wanted, last) else { return Ok(Found::Nothing) };
    let Some((batch, row)) = row_at(table, position) else { return Ok(Found::Nothing) };
    let row = batch.slice(row, 1);
    let dead = row.column_by_name(TOMBSTONE).and_then(|c| c.as_any().downcast_ref::<BooleanArray>());
    if dead.is_some_and(|dead| dead.value(0)) {
        return Ok(Found::Deleted);
    }
    Ok(Found::Row(reorder(&row, columns)?))
}
