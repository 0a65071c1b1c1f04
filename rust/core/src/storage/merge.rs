//! Folding generations into the base table.
//!
//! The rows and the mark "merged up to generation N" are one commit, so that a crash before it leaves
//! the generations in force and a crash behind it leaves generations that every reader skips. What
//! follows (index, trim, collection) is repeated by the next merge if it did not happen.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use lance::dataset::mem_wal::{LsmScanner, ShardSnapshot, arrow_schema_with_field_ids};
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::{CommitBuilder, MergeInsertBuilder, WhenMatched, WhenNotMatched};
use lance::index::DatasetIndexExt;
use lance_context_spec::{Error, MergeReport, Result};
use lance_index::mem_wal::CompactedSsTable;
use lance_index::optimize::OptimizeOptions;
use lance_table::format::key_existence::{FilterType, KeyExistenceFilter};
use xxhash_rust::xxh3::xxh3_128;

use super::base::{BaseView, key_index_name};
use super::writer::Writer;
use super::{Inner, SESSION};
use crate::clock;
use crate::error::{storage, vanished};

/// Index segments above this number are folded into one.
const INDEX_SEGMENTS: usize = 8;

/// Merges that collide with another process's start over on its result this often.
const ATTEMPTS: u32 = 8;

/// Merges every sealed generation, then removes what became superfluous.
pub(super) async fn merge(inner: &Inner, writer: &Writer) -> Result<MergeReport> {
    let _one_at_a_time = inner.merging.lock().await;
    let mut report = MergeReport::default();
    for attempt in 1..=ATTEMPTS {
        match merge_pending(inner).await {
            Ok((generations, rows)) => {
                report = MergeReport { generations, rows, ..report };
                break;
            }
            Err(Failed::Lance(e)) if lost_to_another_merge(&e) && attempt < ATTEMPTS => clock::back_off(attempt).await,
            Err(Failed::Lance(e)) => return Err(storage(inner.store(), "merge")(e)),
            Err(Failed::Read(e)) => return Err(e),
        }
    }
    let view = inner.base.latest().await?;
    let manifest = inner.shard.manifest().await?;
    if manifest.is_some_and(|m| m.sstables.iter().any(|s| s.generation <= view.merged)) {
        writer.trim(view.merged).await?;
    }
    inner.collect().await?;
    // Without it reads by key are slower, not wrong; the next merge tries again.
    if let Err(error) = index(&view, inner.kind.key).await {
        tracing::warn!(store = %inner.store(), %error, "the key index does not cover the merged rows yet");
    }
    report.version = inner.base.latest().await?.dataset.version().version;
    Ok(report)
}

enum Failed {
    Read(Error),
    Lance(lance::Error),
}

/// Commits what is pending; returns the number of generations and of rows written.
async fn merge_pending(inner: &Inner) -> Result<(usize, u64), Failed> {
    let Some(manifest) = inner.shard.manifest().await.map_err(Failed::Read)? else { return Ok((0, 0)) };
    let view = inner.base.latest().await.map_err(Failed::Read)?;
    let mut pending = ShardSnapshot::new(inner.shard_id).with_current_generation(manifest.current_generation);
    for sealed in manifest.sstables.iter().filter(|s| s.generation > view.merged) {
        pending = pending.with_sstable(sealed.generation, sealed.path.clone());
    }
    let Some(upto) = pending.sstables.iter().map(|s| s.generation).max() else { return Ok((0, 0)) };
    let generations = pending.sstables.len();
    let rows = commit(inner, &view, pending, upto).await.map_err(Failed::Lance)?;
    Ok((generations, rows))
}

/// Whether another process merged, or merged and collected, while this one prepared.
fn lost_to_another_merge(error: &lance::Error) -> bool {
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

/// Commits the newest rows of `pending` and the mark that they are merged.
async fn commit(inner: &Inner, view: &BaseView, pending: ShardSnapshot, upto: u64) -> lance::Result<u64> {
    let dataset = &view.dataset;
    let key = inner.kind.key;
    let schema = Arc::new(arrow::datatypes::Schema::from(dataset.schema()));
    let keys = vec![key.to_owned()];
    let scanner = LsmScanner::without_base_table(schema, dataset.uri(), vec![pending], keys.clone())
        .with_identity_schema(Arc::new(arrow_schema_with_field_ids(dataset.schema())))
        .with_session(Arc::clone(&SESSION))
        .with_sstable_cache(Inner::generation_cache());
    let scanner = match dataset.store_params() {
        Some(params) => scanner.with_store_params(params.clone()),
        None => scanner,
    };
    let rows = first_of_each_key(Box::pin(scanner.try_into_stream()).await?, key);
    let mut builder = MergeInsertBuilder::try_new(Arc::clone(dataset), keys)?;
    builder
        .when_matched(WhenMatched::UpdateAll)
        .when_not_matched(WhenNotMatched::InsertAll)
        .mark_sstables_as_compacted(vec![CompactedSsTable::new(inner.shard_id, upto)]);
    let prepared = Box::pin(builder.try_build()?.execute_uncommitted(rows)).await?;
    let mut transaction = prepared.transaction;
    exclude_other_merges(&mut transaction)?;
    let mut commit = CommitBuilder::new(Arc::clone(dataset));
    if let Some(affected) = prepared.affected_rows {
        commit = commit.with_affected_rows(affected);
    }
    Box::pin(commit.execute(transaction)).await?;
    Ok(prepared.stats.num_inserted_rows + prepared.stats.num_updated_rows)
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
    let Some(keys) = batch.column_by_name(key).and_then(|c| c.as_string_opt::<i32>()) else {
        return Err(DataFusionError::Internal(format!("merged rows have no `{key}` column of strings")));
    };
    let unseen: BooleanArray =
        keys.iter().map(|k| Some(seen.insert(xxh3_128(k.unwrap_or_default().as_bytes())))).collect();
    Ok(filter_record_batch(batch, &unseen)?)
}

/// Brings the key index up to the merged rows, if it does not cover them.
async fn index(view: &BaseView, key: &str) -> lance::Result<()> {
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
