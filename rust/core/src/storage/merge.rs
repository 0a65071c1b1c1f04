//! Folding generations into the base table, oldest first, a bounded number at a time.
//!
//! Deleted keys leave the base table in a commit of their own; our readers do not notice, because the
//! generations that delete them are still in force. Then the rows and the mark "merged up to generation N"
//! are one commit, so that a crash before it leaves the generations in force and a crash behind it leaves
//! generations that every reader skips. What follows (index, trim, collection) is repeated by the next
//! merge if it did not happen.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{ident, lit};
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::mem_wal::{LsmScanner, ShardSnapshot, TOMBSTONE, arrow_schema_with_field_ids};
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::write::merge_insert::UncommittedMergeInsert;
use lance::dataset::{CommitBuilder, MergeInsertBuilder, WhenMatched, WhenNotMatched};
use lance::index::DatasetIndexExt;
use lance_context_spec::{Error, MergeReport, Result};
use lance_index::mem_wal::CompactedSsTable;
use lance_index::optimize::OptimizeOptions;
use lance_table::format::key_existence::{FilterType, KeyExistenceFilter};
use xxhash_rust::xxh3::xxh3_128;

use super::base::{BaseView, fragment_bytes, key_index_name};
use super::steps::Step;
use super::writer::Writer;
use super::{GENERATIONS, Inner, SESSION};
use crate::clock;
use crate::error::{storage, vanished};

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
    let sealed = inner.shard.manifest().await?.and_then(|m| m.sstables.iter().map(|s| s.generation).max());
    let mut report = MergeReport::default();
    while let Some(pass) = merge_pass(inner).await? {
        report.generations += pass.generations;
        report.rows += pass.rows;
        report.deleted += pass.deleted;
        // What is sealed meanwhile is for the next merge, or this one might never end.
        if Some(pass.upto) >= sealed {
            break;
        }
    }
    let view = inner.base.latest().await?;
    let manifest = inner.shard.manifest().await?;
    if manifest.is_some_and(|m| m.sstables.iter().any(|s| s.generation <= view.merged)) {
        inner.before(Step::Trim).await;
        writer.trim(view.merged).await?;
    }
    inner.collect().await?;
    // Without it reads by key are slower, not wrong; the next merge tries again.
    inner.before(Step::Index).await;
    if let Err(error) = index(&view, inner.kind.key).await {
        tracing::warn!(store = %inner.store(), %error, "the key index does not cover the merged rows yet");
    }
    report.version = inner.base.latest().await?.dataset.version().version;
    Ok(report)
}

/// What one pass did.
struct Pass {
    generations: usize,
    upto: u64,
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
async fn merge_pass(inner: &Inner) -> Result<Option<Pass>> {
    let mut attempt = 1;
    loop {
        match try_pass(inner).await {
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

async fn try_pass(inner: &Inner) -> Result<Option<Pass>, Failed> {
    let Some(manifest) = inner.shard.manifest().await.map_err(Failed::Read)? else { return Ok(None) };
    let view = inner.base.latest().await.map_err(Failed::Read)?;
    let mut pending: Vec<_> = manifest.sstables.iter().filter(|s| s.generation > view.merged).collect();
    pending.sort_unstable_by_key(|sealed| sealed.generation);
    let mut taken = ShardSnapshot::new(inner.shard_id).with_current_generation(manifest.current_generation);
    let (mut bytes, mut upto) = (0, 0);
    for sealed in pending.into_iter().take(PASS_GENERATIONS) {
        bytes += inner.generation_bytes(&view, &sealed.path).await?;
        if bytes > PASS_BYTES && !taken.sstables.is_empty() {
            break;
        }
        taken = taken.with_sstable(sealed.generation, sealed.path.clone());
        upto = sealed.generation;
    }
    if taken.sstables.is_empty() {
        return Ok(None);
    }
    let generations = taken.sstables.len();
    let dead = dead_keys(inner, &view, &taken).await?;
    let (dataset, deleted) = delete(inner, &view.dataset, dead).await?;
    let rows = upsert(inner, dataset, taken, upto).await?;
    Ok(Some(Pass { generations, upto, rows, deleted }))
}

/// Whether another process merged, or merged and collected, while this one prepared.
pub(super) fn lost_to_another_merge(error: &lance::Error) -> bool {
    use lance::Error::{CommitConflict, IncompatibleTransaction, RetryableCommitConflict, TooMuchWriteContention};
    matches!(
        error.find_root(),
        CommitConflict { .. }
            | IncompatibleTransaction { .. }
            | RetryableCommitConflict { .. }
            | TooMuchWriteContention { .. }
    ) || error.to_string().contains("Stale SSTable compaction")
        || vanished(error)
}

impl Inner {
    /// Bytes of the rows of a generation.
    pub(super) async fn generation_bytes(&self, view: &BaseView, path: &str) -> lance::Result<u64> {
        let generation = self.open_generation(view, path).await?;
        Ok(generation.fragments().iter().map(fragment_bytes).sum())
    }

    async fn open_generation(&self, view: &BaseView, path: &str) -> lance::Result<Arc<Dataset>> {
        let uri = self.generation_uri(view, path);
        GENERATIONS.get_or_open(&uri, Some(Arc::clone(&SESSION)), view.dataset.store_params().cloned()).await
    }

    /// The newest rows of `generations` alone.
    fn merge_scanner(&self, dataset: &Dataset, generations: ShardSnapshot) -> LsmScanner {
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

/// The keys that `generations` delete and do not write again.
async fn dead_keys(inner: &Inner, view: &BaseView, generations: &ShardSnapshot) -> lance::Result<HashSet<String>> {
    let key = inner.kind.key;
    let mut dead = HashSet::new();
    for sealed in &generations.sstables {
        let generation = inner.open_generation(view, &sealed.path).await?;
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
    let scanner = inner.merge_scanner(&view.dataset, generations.clone()).project(&[key])?;
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

/// Commits the newest rows of `pending` and the mark that they are merged.
async fn upsert(inner: &Inner, dataset: Arc<Dataset>, pending: ShardSnapshot, upto: u64) -> lance::Result<u64> {
    let key = inner.kind.key;
    let scanner = inner.merge_scanner(&dataset, pending);
    let rows = first_of_each_key(Box::pin(scanner.try_into_stream()).await?, key);
    let mut builder = MergeInsertBuilder::try_new(Arc::clone(&dataset), vec![key.to_owned()])?;
    builder
        .when_matched(WhenMatched::UpdateAll)
        .when_not_matched(WhenNotMatched::InsertAll)
        .mark_sstables_as_compacted(vec![CompactedSsTable::new(inner.shard_id, upto)]);
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

/// Keeps the first row of each key; generations come newest first. Lance can hand out an older version
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

/// Brings the key index up to the merged rows, if it does not cover them.
pub(super) async fn index(view: &BaseView, key: &str) -> lance::Result<()> {
    if view.key_index(key).await?.is_some() {
        return Ok(());
    }
    let name = key_index_name(key);
    let mut dataset = view.dataset.as_ref().clone();
    let segments = dataset.load_indices().await?.iter().filter(|i| i.name == name).count();
    let options = if segments > INDEX_SEGMENTS { OptimizeOptions::merge(segments) } else { OptimizeOptions::append() };
    dataset.optimize_indices(&options.index_names(vec![name])).await
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
