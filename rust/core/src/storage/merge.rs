//! Folding generations into the base table, oldest first, a bounded number at a time.
//!
//! Deleted keys leave the base table in a commit of their own; our readers do not notice, because the
//! generations that delete them are still in force. Then the rows and the mark "merged up to generation N"
//! are one commit, so that a crash before it leaves the generations in force and a crash behind it leaves
//! generations that every reader skips. What follows (index, trim, collection) is repeated by the next
//! merge if it did not happen.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{ident, lit};
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::mem_wal::{LsmScanner, ShardSnapshot, TOMBSTONE, arrow_schema_with_field_ids};
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::write::merge_insert::UncommittedMergeInsert;
use lance::dataset::{CommitBuilder, MergeInsertBuilder, WhenMatched, WhenNotMatched};
use lance::index::DatasetIndexExt;
use lance_context_spec::{Error, MergeReport, Result};
use lance_index::mem_wal::{CompactedSsTable, SsTable};
use lance_index::optimize::OptimizeOptions;
use lance_table::format::key_existence::{FilterType, KeyExistenceFilter};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use super::base::{BaseView, fragment_bytes, index_name};
use super::steps::Step;
use super::writer::Writer;
use super::{Inner, Kind, SESSION};
use crate::clock;
use crate::error::{contended, storage, vanished};

/// Index segments above this number are folded into one.
const INDEX_SEGMENTS: usize = 8;

/// One pass merges at most this many generations and, unless a single one has more, this many bytes: lance holds
/// them in memory.
const PASS_GENERATIONS: usize = 8;
const PASS_BYTES: u64 = 256 << 20;

/// Merges that collide with another process's start over on its result this often.
const ATTEMPTS: u32 = 8;

/// Merges every generation that is sealed when it begins, then removes what became superfluous.
pub(super) async fn merge(inner: &Inner, writer: &Writer) -> Result<MergeReport> {
    let _one_at_a_time = inner.merging.lock().await;
    merge_alone(inner, writer).await
}

/// [`merge`] for a caller that holds the lock.
pub(super) async fn merge_alone(inner: &Inner, writer: &Writer) -> Result<MergeReport> {
    // What is sealed meanwhile is for the next merge, or this one might never end.
    let sealed = inner.sealed().await?;
    let mut report = MergeReport::default();
    while let Some(pass) = merge_pass(inner, &sealed).await? {
        report.generations += pass.generations;
        report.rows += pass.rows;
        report.deleted += pass.deleted;
    }
    let view = inner.base.latest().await?;
    let own = inner.shards.own();
    let merged = view.merged(own.id);
    // Other shards are trimmed by their owners, or by who adopts them.
    if inner.lists_merged(own, merged).await? {
        inner.before(Step::Trim).await;
        writer.trim(merged).await?;
    }
    inner.collect().await?;
    // Without it reads by key are slower, not wrong; the next merge tries again.
    inner.before(Step::Index).await;
    if let Err(error) = index(&view, inner.kind).await {
        tracing::warn!(store = %inner.store(), %error, "an index does not cover the merged rows yet");
    }
    report.version = inner.base.latest().await?.dataset.version().version;
    Ok(report)
}

/// The generations of each shard.
pub(super) type Sealed = BTreeMap<Uuid, Vec<SsTable>>;

/// What one pass did.
struct Pass {
    generations: usize,
    rows: u64,
    deleted: u64,
}

enum Failed {
    Read(Error),
    Lance(lance::Error),
}

impl From<lance::Error> for Failed {
    fn from(error: lance::Error) -> Self {
        Self::Lance(error)
    }
}

/// Merges the oldest pending generations; `None` if there are none.
async fn merge_pass(inner: &Inner, sealed: &Sealed) -> Result<Option<Pass>> {
    let mut attempt = 1;
    loop {
        match try_pass(inner, sealed).await {
            Ok(pass) => return Ok(pass),
            Err(Failed::Lance(e)) if lost_to_another_merge(&e) && attempt < ATTEMPTS => {
                clock::back_off(attempt).await;
                attempt += 1;
            }
            Err(Failed::Lance(e)) => return Err(storage(inner.store(), "merge")(e)),
            Err(Failed::Read(e)) => return Err(e),
        }
    }
}

async fn try_pass(inner: &Inner, sealed: &Sealed) -> Result<Option<Pass>, Failed> {
    let view = inner.base.latest().await.map_err(Failed::Read)?;
    let taken = take(inner, &view, sealed).await?;
    if taken.is_empty() {
        return Ok(None);
    }
    let generations = taken.iter().map(|shard| shard.sstables.len()).sum();
    let dead = dead_keys(inner, &view, &taken).await?;
    let (dataset, deleted) = delete(inner, &view.dataset, dead).await?;
    let rows = insert(inner, dataset, taken).await?;
    Ok(Some(Pass { generations, rows, deleted }))
}

/// The generations of one pass, by shard in the order of their ids: of each shard its oldest ones.
async fn take(inner: &Inner, view: &BaseView, sealed: &Sealed) -> lance::Result<Vec<ShardSnapshot>> {
    let pending = sealed.iter().map(|(shard_id, generations)| {
        let merged = view.merged(*shard_id);
        let pending = generations.iter().filter(move |sealed| sealed.generation > merged);
        pending.enumerate().map(|(turn, sealed)| (turn, *shard_id, sealed))
    });
    let mut pending: Vec<_> = pending.flatten().collect();
    pending.sort_by_key(|(turn, shard_id, _)| (*turn, *shard_id));
    let mut taken: BTreeMap<Uuid, ShardSnapshot> = BTreeMap::new();
    let mut bytes = 0;
    for (_, shard_id, sealed) in pending.into_iter().take(PASS_GENERATIONS) {
        bytes += inner.generation_bytes(view, shard_id, &sealed.path).await?;
        if bytes > PASS_BYTES && !taken.is_empty() {
            break;
        }
        let shard = taken.remove(&shard_id).unwrap_or_else(|| ShardSnapshot::new(shard_id));
        let shard = shard.with_current_generation(sealed.generation + 1);
        taken.insert(shard_id, shard.with_sstable(sealed.generation, sealed.path.clone()));
    }
    Ok(taken.into_values().collect())
}

/// Whether another process merged, or merged and collected, while this one prepared.
pub(super) fn lost_to_another_merge(error: &lance::Error) -> bool {
    contended(error) || error.to_string().contains("Stale SSTable compaction") || vanished(error)
}

impl Inner {
    /// The generations that every shard lists, oldest first.
    pub(super) async fn sealed(&self) -> Result<Sealed> {
        let mut sealed = Sealed::new();
        for shard in self.shards.of(&*self.base.latest().await?)? {
            let Some(manifest) = shard.manifest().await? else { continue };
            let mut generations = manifest.sstables.clone();
            generations.sort_unstable_by_key(|sealed| sealed.generation);
            sealed.insert(shard.id, generations);
        }
        Ok(sealed)
    }

    /// Bytes of the rows of a generation.
    pub(super) async fn generation_bytes(&self, view: &BaseView, shard_id: Uuid, path: &str) -> lance::Result<u64> {
        let generation = self.open_generation(view, &self.generation_uri(view, shard_id, path)).await?;
        Ok(generation.fragments().iter().map(fragment_bytes).sum())
    }

    /// The newest rows of a shard's `generations` alone.
    pub(super) fn shard_scanner(&self, dataset: &Dataset, generations: ShardSnapshot) -> LsmScanner {
        let schema = Arc::new(Schema::from(dataset.schema()));
        let keys = vec![self.kind.key.to_owned()];
        let scanner = LsmScanner::without_base_table(schema, dataset.uri(), vec![generations], keys)
            .with_identity_schema(Arc::new(arrow_schema_with_field_ids(dataset.schema())))
            .with_session(Arc::clone(&SESSION))
            .with_sstable_cache(Self::generation_cache());
        match dataset.store_params() {
            Some(params) => scanner.with_store_params(params.clone()),
            None => scanner,
        }
    }
}

/// The keys that the generations delete and do not write again.
async fn dead_keys(inner: &Inner, view: &BaseView, taken: &[ShardSnapshot]) -> lance::Result<HashSet<String>> {
    let key = inner.kind.key;
    let mut dead = HashSet::new();
    // Where there can be more than one shard, nothing is deleted.
    let [generations] = taken else { return Ok(dead) };
    if inner.kind.append_only {
        return Ok(dead);
    }
    for sealed in &generations.sstables {
        let uri = inner.generation_uri(view, generations.shard_id, &sealed.path);
        let generation = inner.open_generation(view, &uri).await?;
        let mut scan = generation.scan();
        scan.project(&[key])?.filter_expr(ident(TOMBSTONE).eq(lit(true)));
        let mut deleted = scan.try_into_stream().await?;
        while let Some(batch) = deleted.try_next().await? {
            dead.extend(keys(&batch, key)?.iter().flatten().map(str::to_owned));
        }
    }
    if dead.is_empty() {
        return Ok(dead);
    }
    let scanner = inner.shard_scanner(&view.dataset, generations.clone()).project(&[key])?;
    let mut live = Box::pin(scanner.try_into_stream()).await?;
    while let Some(batch) = live.try_next().await? {
        for alive in keys(&batch, key)?.iter().flatten() {
            dead.remove(alive);
        }
    }
    Ok(dead)
}

/// Commits the table without the rows of `dead`; returns it and how many rows that were.
async fn delete(inner: &Inner, dataset: &Arc<Dataset>, dead: HashSet<String>) -> lance::Result<(Arc<Dataset>, u64)> {
    if dead.is_empty() {
        return Ok((Arc::clone(dataset), 0));
    }
    let key = inner.kind.key;
    let schema = Arc::new(Schema::new(vec![Field::new(key, DataType::Utf8, false)]));
    let column = Arc::new(StringArray::from_iter_values(dead));
    let batch = RecordBatch::try_new(schema, vec![column])?;
    let mut builder = MergeInsertBuilder::try_new(Arc::clone(dataset), vec![key.to_owned()])?;
    builder.when_matched(WhenMatched::Delete).when_not_matched(WhenNotMatched::DoNothing);
    let prepared = Box::pin(builder.try_build()?.execute_uncommitted_batches(vec![batch])).await?;
    if prepared.stats.num_deleted_rows == 0 {
        return Ok((Arc::clone(dataset), 0));
    }
    let deleted = prepared.stats.num_deleted_rows;
    inner.before(Step::CommitDelete).await;
    Ok((Arc::new(commit(dataset, prepared).await?), deleted))
}

/// Commits the newest rows of the taken generations and the marks that they are merged. Where rows are never replaced,
/// what the table has stays, and so does the first of several shards' rows of a key.
async fn insert(inner: &Inner, dataset: Arc<Dataset>, taken: Vec<ShardSnapshot>) -> lance::Result<u64> {
    let key = inner.kind.key;
    let newest = |shard: &ShardSnapshot| shard.sstables.iter().map(|sealed| sealed.generation).max().unwrap_or(0);
    let marks = taken.iter().map(|shard| CompactedSsTable::new(shard.shard_id, newest(shard))).collect();
    let mut shards = Vec::with_capacity(taken.len());
    for shard in taken {
        shards.push(Box::pin(inner.shard_scanner(&dataset, shard).try_into_stream()).await?);
    }
    let schema = shards.first().map(|rows| rows.schema());
    let schema = schema.ok_or_else(|| lance::Error::internal("a merge of nothing"))?;
    let rows = RecordBatchStreamAdapter::new(schema, futures::stream::iter(shards).flatten());
    let rows = first_of_each_key(Box::pin(rows), key);
    let mut builder = MergeInsertBuilder::try_new(Arc::clone(&dataset), vec![key.to_owned()])?;
    builder
        .when_matched(if inner.kind.append_only { WhenMatched::DoNothing } else { WhenMatched::UpdateAll })
        .when_not_matched(WhenNotMatched::InsertAll)
        .mark_sstables_as_compacted(marks);
    let prepared = Box::pin(builder.try_build()?.execute_uncommitted(rows)).await?;
    let rows = prepared.stats.num_inserted_rows + prepared.stats.num_updated_rows;
    inner.before(Step::CommitMerge).await;
    commit(&dataset, prepared).await?;
    Ok(rows)
}

async fn commit(dataset: &Arc<Dataset>, prepared: UncommittedMergeInsert) -> lance::Result<Dataset> {
    let mut transaction = prepared.transaction;
    exclude_other_merges(&mut transaction)?;
    let mut commit = CommitBuilder::new(Arc::clone(dataset));
    if let Some(affected) = prepared.affected_rows {
        commit = commit.with_affected_rows(affected);
    }
    Box::pin(commit.execute(transaction)).await
}

/// Makes the commit conflict with every other merge since its snapshot.
///
/// Lance rebases a merge over a concurrent one when they change no common row, and then both insert the
/// keys that were new to both. Its filter of inserted keys would tell, but the indexed path leaves it out;
/// here every merge claims to have inserted one and the same key.
fn exclude_other_merges(transaction: &mut Transaction) -> lance::Result<()> {
    let Operation::Update { inserted_rows_filter, .. } = &mut transaction.operation else {
        return Err(lance::Error::internal("a merge prepared something other than an update"));
    };
    *inserted_rows_filter =
        Some(KeyExistenceFilter { field_ids: Vec::new(), filter: FilterType::ExactSet(HashSet::from([0])) });
    Ok(())
}

/// Keeps the first row of each key; the generations of a shard come newest first. Lance can hand out an older version
/// as well when a generation's key index is partial, and merging it would make the duplicate permanent.
fn first_of_each_key(rows: SendableRecordBatchStream, key: &'static str) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let mut seen = HashSet::new();
    let kept = rows.and_then(move |batch| {
        let kept = keep_unseen(&batch, key, &mut seen);
        async move { kept }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, kept))
}

fn keep_unseen(batch: &RecordBatch, key: &str, seen: &mut HashSet<u128>) -> Result<RecordBatch, DataFusionError> {
    let keys = keys(batch, key).map_err(|e| DataFusionError::External(Box::new(e)))?;
    let unseen: BooleanArray =
        keys.iter().map(|k| Some(seen.insert(xxh3_128(k.unwrap_or_default().as_bytes())))).collect();
    Ok(filter_record_batch(batch, &unseen)?)
}

fn keys<'a>(batch: &'a RecordBatch, key: &str) -> lance::Result<&'a StringArray> {
    let keys = batch.column_by_name(key).and_then(|c| c.as_string_opt::<i32>());
    keys.ok_or_else(|| lance::Error::internal(format!("merged rows have no `{key}` column of strings")))
}

/// Brings the indexes up to the merged rows, where they do not cover them.
pub(super) async fn index(view: &BaseView, kind: Kind) -> lance::Result<()> {
    let mut dataset = view.dataset.as_ref().clone();
    for column in kind.indexed() {
        if view.index(column).await?.is_some() {
            continue;
        }
        let name = index_name(column);
        let segments = dataset.load_indices().await?.iter().filter(|i| i.name == name).count();
        let options =
            if segments > INDEX_SEGMENTS { OptimizeOptions::merge(segments) } else { OptimizeOptions::append() };
        dataset.optimize_indices(&options.index_names(vec![name])).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{RecordBatch, StringArray};

    use super::*;

    #[test]
    fn only_the_first_row_of_a_key_passes_across_batches() {
        let batch = |ids: &[&str]| {
            RecordBatch::try_from_iter([("id", Arc::new(StringArray::from(ids.to_vec())) as _)]).unwrap()
        };
        let mut seen = HashSet::new();
        let kept = keep_unseen(&batch(&["a", "b", "a"]), "id", &mut seen).unwrap();
        assert_eq!(kept, batch(&["a", "b"]));
        let kept = keep_unseen(&batch(&["b", "c"]), "id", &mut seen).unwrap();
        assert_eq!(kept, batch(&["c"]));
    }
}
