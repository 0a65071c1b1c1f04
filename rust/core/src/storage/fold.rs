//! What a merge writes of its generations: of each key the first row that counts, unless that is a deletion.
//!
//! The generations are gone through twice, those that win first: for the keys, which decide, and then for the rows. Only
//! the keys are held. Rows are read in batches of bounded bytes, so that memory grows neither with a generation nor
//! with the width of a row, beyond a single one.
//!
//! Lance's own scanner is left out of it: it hides a row by the key index of a newer generation, and where that is
//! partial it hands out an older version as well, which a merge would make permanent.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{concat_batches, filter_record_batch, not};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use lance::Dataset;
use lance::dataset::mem_wal::{ShardSnapshot, TOMBSTONE};
use lance::dataset::scanner::{DatasetRecordBatchStream, Scanner};
use xxhash_rust::xxh3::xxh3_128;

use super::Inner;
use super::base::{BaseView, bytes_per_row};
use super::scan::{reorder, retyped};
use super::sources::Source;

/// Rows are read so many bytes at a time, and so many more are read ahead.
pub(super) const BATCH_BYTES: u64 = 16 << 20;

/// Rows of a batch at most, however narrow they are.
pub(super) const BATCH_ROWS: usize = 8192;

/// What the keys of some generations say.
pub(super) struct Survey {
    /// The keys of the rows to write.
    pub live: RecordBatch,
    /// The keys whose newest row is a deletion.
    pub dead: HashSet<String>,
    /// Hashes of the keys that the base table has and keeps.
    kept: HashSet<u128>,
}

/// So many rows of `dataset` are a batch.
pub(super) fn batch_rows(dataset: &Dataset) -> usize {
    let rows = BATCH_BYTES / bytes_per_row(dataset).max(1);
    usize::try_from(rows).unwrap_or(BATCH_ROWS).clamp(1, BATCH_ROWS)
}

/// The generations of a pass, those whose rows win first: shards by id, of each the newest first.
pub(super) async fn open(inner: &Inner, view: &BaseView, taken: &[ShardSnapshot]) -> lance::Result<Vec<Arc<Dataset>>> {
    let mut opened = Vec::new();
    for shard in taken {
        for sealed in shard.sstables.iter().rev() {
            let uri = inner.generation_uri(view, shard.shard_id, &sealed.path);
            opened.push(inner.open_generation(view, &uri).await?);
        }
    }
    Ok(opened)
}

/// Goes through the keys of `generations`.
pub(super) async fn survey(inner: &Inner, view: &BaseView, generations: &[Arc<Dataset>]) -> lance::Result<Survey> {
    let key = inner.kind.key;
    let (mut seen, mut kept) = (HashSet::new(), HashSet::new());
    let (mut live, mut dead) = (Vec::new(), HashSet::new());
    for generation in generations {
        let mut scan = generation.scan();
        scan.project(&[key, TOMBSTONE])?;
        let mut batches = Box::pin(scan.try_into_stream()).await?;
        while let Some(batch) = batches.try_next().await? {
            let first = first_of_each_key(&batch, key, &mut seen)?;
            let deleted = deletions(&first)?;
            let rows = reorder(&filter_record_batch(&first, &not(deleted)?)?, &[key.to_owned()])?;
            dead.extend(keys(&filter_record_batch(&first, deleted)?, key)?.iter().flatten().map(str::to_owned));
            live.push(if inner.kind.append_only { new_to_table(inner, view, rows, &mut kept).await? } else { rows });
        }
    }
    Ok(Survey { live: concat_batches(&key_schema(key), &live)?, dead, kept })
}

/// Of a batch of keys.
pub(super) fn key_schema(key: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(key, DataType::Utf8, false)]))
}

/// The keys of `rows` that the base table lacks; hashes of the others go to `kept`.
async fn new_to_table(
    inner: &Inner,
    view: &BaseView,
    rows: RecordBatch,
    kept: &mut HashSet<u128>,
) -> lance::Result<RecordBatch> {
    let fresh = inner.unshadowed(view, rows.clone(), &[Source::Base]).await?;
    if fresh.num_rows() < rows.num_rows() {
        let are_new: HashSet<u128> = hashes(keys(&fresh, inner.kind.key)?).collect();
        kept.extend(hashes(keys(&rows, inner.kind.key)?).filter(|hash| !are_new.contains(hash)));
    }
    Ok(fresh)
}

/// The rows that `survey` found, as `table` has them.
pub(super) fn rows(
    generations: Vec<Arc<Dataset>>,
    survey: Survey,
    table: &Dataset,
    key: &'static str,
) -> SendableRecordBatchStream {
    let schema = Arc::new(Schema::from(table.schema()));
    let columns: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let opened = stream::iter(generations).then(move |generation| {
        let columns = columns.clone();
        async move { read(&generation, columns).await }
    });
    let (target, mut seen) = (Arc::clone(&schema), survey.kept);
    let rows = opened.try_flatten().map(move |batch| live_rows(&batch?, key, &mut seen, &target));
    let rows = rows.map_err(|e: lance::Error| DataFusionError::External(Box::new(e)));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

async fn read(generation: &Dataset, mut columns: Vec<String>) -> lance::Result<DatasetRecordBatchStream> {
    columns.push(TOMBSTONE.to_owned());
    let mut scan = generation.scan();
    bound(&mut scan, generation).project(&columns)?;
    Box::pin(scan.try_into_stream()).await
}

/// Lance decodes a batch of rows for each processor ahead, and reads gigabytes of them, unless it is told.
fn bound<'a>(scan: &'a mut Scanner, dataset: &Dataset) -> &'a mut Scanner {
    scan.batch_size(batch_rows(dataset)).batch_readahead(1).fragment_readahead(1).io_buffer_size(BATCH_BYTES)
}

/// The rows of `batch` that are the first of their keys and no deletions, as batches of `schema`.
fn live_rows(
    batch: &RecordBatch,
    key: &str,
    seen: &mut HashSet<u128>,
    schema: &SchemaRef,
) -> lance::Result<RecordBatch> {
    let first = first_of_each_key(batch, key, seen)?;
    let rows = filter_record_batch(&first, &not(deletions(&first)?)?)?;
    let columns = schema.fields().iter().map(|field| {
        let column = rows.column_by_name(field.name());
        let column = column.ok_or_else(|| lance::Error::internal(format!("a generation lacks `{}`", field.name())))?;
        Ok(retyped(column, field.data_type())?)
    });
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<lance::Result<_>>()?)?)
}

fn first_of_each_key(batch: &RecordBatch, key: &str, seen: &mut HashSet<u128>) -> lance::Result<RecordBatch> {
    let unseen: BooleanArray = hashes(keys(batch, key)?).map(|hash| Some(seen.insert(hash))).collect();
    Ok(filter_record_batch(batch, &unseen)?)
}

fn hashes(keys: &StringArray) -> impl Iterator<Item = u128> {
    keys.iter().map(|key| xxh3_128(key.unwrap_or_default().as_bytes()))
}

fn keys<'a>(batch: &'a RecordBatch, key: &str) -> lance::Result<&'a StringArray> {
    let keys = batch.column_by_name(key).and_then(|column| column.as_string_opt::<i32>());
    keys.ok_or_else(|| lance::Error::internal(format!("merged rows have no `{key}` column of strings")))
}

fn deletions(batch: &RecordBatch) -> lance::Result<&BooleanArray> {
    let deletions = batch.column_by_name(TOMBSTONE).and_then(|column| column.as_boolean_opt());
    let deletions = deletions.filter(|deletions| deletions.null_count() == 0);
    deletions.ok_or_else(|| lance::Error::internal("a generation does not say which of its rows are deletions"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_row_of_a_key_passes_across_batches() {
        let batch = |ids: &[&str]| {
            RecordBatch::try_from_iter([("id", Arc::new(StringArray::from(ids.to_vec())) as _)]).unwrap()
        };
        let mut seen = HashSet::new();
        let kept = first_of_each_key(&batch(&["a", "b", "a"]), "id", &mut seen).unwrap();
        assert_eq!(kept, batch(&["a", "b"]));
        let kept = first_of_each_key(&batch(&["b", "c"]), "id", &mut seen).unwrap();
        assert_eq!(kept, batch(&["c"]));
    }
}
