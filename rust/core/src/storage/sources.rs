//! The places where a snapshot's rows are, in the order in which they win.
//!
//! A key's live row is the one in the first place that has the key. Where rows are replaced that is the newest:
//! memory, then generations from the newest to the oldest, then the base table. Where they never are, a key that was
//! sent twice has two rows that should be the same, and what is merged stays: the base table, then the shards by id,
//! each from its newest rows to its oldest.

use std::collections::HashSet;
use std::iter;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::prelude::{ident, lit};
use datafusion::scalar::ScalarValue;
use futures::TryStreamExt;
use lance::dataset::mem_wal::scanner::InMemoryMemTableRef;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::btree::BTreeIndex;
use uuid::Uuid;

use super::Inner;
use super::base::BaseView;
use super::snapshot::{Fresh, Memory, Snapshot};

/// A place where rows are.
#[derive(Clone)]
pub(super) enum Source<'a> {
    Memory {
        shard_id: Uuid,
        table: &'a InMemoryMemTableRef,
        /// The last row that counts.
        last: Option<u64>,
    },
    Generation {
        shard_id: Uuid,
        generation: u64,
        uri: String,
    },
    Base,
}

/// The last row of a memtable that a read may see.
pub(super) fn last_visible_row(table: &InMemoryMemTableRef) -> Option<u64> {
    let visible = table.index_store.visible_count().min(table.batch_store.len());
    let last = table.batch_store.get(visible.checked_sub(1)?)?;
    (last.row_offset + last.num_rows as u64).checked_sub(1)
}

/// The batch that has the row at `position`, and where in it the row is.
pub(super) fn row_at(table: &InMemoryMemTableRef, position: u64) -> Option<(&RecordBatch, usize)> {
    // Batches lie one behind another: the wanted one is the last that starts at or before the position.
    let (mut low, mut high) = (0, table.batch_store.len());
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        match table.batch_store.get(middle) {
            Some(batch) if batch.row_offset <= position => low = middle,
            _ => high = middle,
        }
    }
    let batch = table.batch_store.get(low)?;
    let row = usize::try_from(position.checked_sub(batch.row_offset)?).ok()?;
    (row < batch.num_rows).then_some((&batch.data, row))
}

impl Inner {
    /// Where `snapshot` has rows, the first that wins first.
    pub(super) fn sources<'a>(&self, snapshot: &'a Snapshot) -> Vec<Source<'a>> {
        let fresh = snapshot.shards.iter().flat_map(|fresh| self.fresh_sources(&snapshot.base, fresh));
        if self.kind.append_only {
            iter::once(Source::Base).chain(fresh).collect()
        } else {
            fresh.chain(iter::once(Source::Base)).collect()
        }
    }

    /// What wins over every row of the shard at that place in `snapshot`, where rows are never replaced.
    pub(super) fn sources_before<'a>(&self, snapshot: &'a Snapshot, shard: usize) -> Vec<Source<'a>> {
        let before = snapshot.shards.iter().take(shard);
        iter::once(Source::Base).chain(before.flat_map(|fresh| self.fresh_sources(&snapshot.base, fresh))).collect()
    }

    fn fresh_sources<'a>(&self, view: &BaseView, fresh: &'a Fresh) -> Vec<Source<'a>> {
        let shard_id = fresh.generations.shard_id;
        let generations = fresh.generations.sstables.iter().rev();
        let generations = generations.map(|sealed| Source::Generation {
            shard_id,
            generation: sealed.generation,
            uri: self.generation_uri(view, shard_id, &sealed.path),
        });
        self.memory_sources(fresh).chain(generations).collect()
    }

    /// The memtables of a shard, the newest first.
    pub(super) fn memory_sources<'a>(&self, fresh: &'a Fresh) -> impl Iterator<Item = Source<'a>> + use<'a> {
        let shard_id = fresh.generations.shard_id;
        let memory = fresh.memory.iter().flat_map(Memory::tables);
        memory.map(move |(table, last)| Source::Memory { shard_id, table, last })
    }

    /// The rows of `batch` whose keys are in none of `earlier`. It must have the key column.
    pub(super) async fn unshadowed(
        &self,
        view: &BaseView,
        batch: RecordBatch,
        earlier: &[Source<'_>],
    ) -> lance::Result<RecordBatch> {
        if earlier.is_empty() || batch.num_rows() == 0 {
            return Ok(batch);
        }
        let column = batch.column_by_name(self.kind.key).and_then(|column| column.as_string_opt::<i32>());
        let column = column.ok_or_else(|| lance::Error::internal("rows came without their keys"))?;
        let mut alive: Vec<usize> = (0..column.len()).collect();
        for source in earlier {
            let keys: Vec<&str> = alive.iter().map(|row| column.value(*row)).collect();
            let mut held = self.holds(view, source, &keys).await?.into_iter();
            alive.retain(|_| !held.next().unwrap_or(false));
        }
        if alive.len() == batch.num_rows() {
            return Ok(batch);
        }
        let mut kept = vec![false; batch.num_rows()];
        for row in alive {
            if let Some(kept) = kept.get_mut(row) {
                *kept = true;
            }
        }
        Ok(filter_record_batch(&batch, &BooleanArray::from(kept))?)
    }

    /// Which of `keys` a source has a row of, a deletion included. Of the base table only where rows are never
    /// replaced: elsewhere its index still names rows that are gone.
    async fn holds(&self, view: &BaseView, source: &Source<'_>, keys: &[&str]) -> lance::Result<Vec<bool>> {
        match source {
            Source::Memory { table, last, .. } => {
                let held = |key: &&str| {
                    let key = ScalarValue::Utf8(Some((*key).to_owned()));
                    last.is_some_and(|last| table.index_store.pk_contains_key(&key, last))
                };
                Ok(keys.iter().map(held).collect())
            }
            Source::Generation { uri, .. } => {
                let mut held = Vec::with_capacity(keys.len());
                for key in keys {
                    held.push(self.generation_holds(view, uri, key).await?);
                }
                Ok(held)
            }
            Source::Base => self.base_holds(view, keys).await,
        }
    }

    async fn base_holds(&self, view: &BaseView, keys: &[&str]) -> lance::Result<Vec<bool>> {
        let mut held = vec![false; keys.len()];
        let segments = view.index(self.kind.key).await?.map(|index| index.segments.as_slice());
        let trees = segments.and_then(|segments| {
            segments.iter().map(|segment| segment.as_any().downcast_ref::<BTreeIndex>()).collect::<Option<Vec<_>>>()
        });
        let Some(trees) = trees else { return self.base_holds_unindexed(view, keys).await };
        let wanted: Vec<_> = keys.iter().map(|key| ScalarValue::Utf8(Some((*key).to_owned()))).collect();
        for tree in trees {
            let found = tree.contains_keys(&wanted, &NoOpMetricsCollector).await?;
            held.iter_mut().zip(found).for_each(|(held, found)| *held |= found);
        }
        Ok(held)
    }

    /// While the index does not cover the last merge: lance reads what it does not cover.
    async fn base_holds_unindexed(&self, view: &BaseView, keys: &[&str]) -> lance::Result<Vec<bool>> {
        let key = self.kind.key;
        let mut scan = view.dataset.scan();
        scan.project(&[key])?.filter_expr(ident(key).in_list(keys.iter().map(|key| lit(*key)).collect(), false));
        let mut found = HashSet::new();
        let mut rows = Box::pin(scan.try_into_stream()).await?;
        while let Some(batch) = rows.try_next().await? {
            let column = batch.column_by_name(key).and_then(|column| column.as_string_opt::<i32>());
            found.extend(column.into_iter().flat_map(|keys| keys.iter()).flatten().map(str::to_owned));
        }
        Ok(keys.iter().map(|key| found.contains(*key)).collect())
    }
}
