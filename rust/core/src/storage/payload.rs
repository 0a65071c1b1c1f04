//! What one entry of the write-ahead log holds, where it comes from, and how it gets there.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use lance::dataset::mem_wal::ShardWriter;
use lance_context_spec::{Error, Result};

use super::Inner;
use super::edit::Edit;
use super::plan::Plans;

/// Batches smaller than this in sum are copied into one; larger ones are handed on as they are.
const CONCAT_BYTES: usize = 4 << 20;

/// What one WAL entry holds.
#[derive(Debug, Clone)]
pub(super) enum Payload {
    Rows(Vec<RecordBatch>),
    /// Batches of the key column: these rows are deleted.
    Keys(Vec<RecordBatch>),
}

impl Payload {
    pub fn batches(&self) -> &[RecordBatch] {
        match self {
            Self::Rows(batches) | Self::Keys(batches) => batches,
        }
    }

    pub fn rows(&self) -> usize {
        self.batches().iter().map(RecordBatch::num_rows).sum()
    }

    pub fn bytes(&self) -> usize {
        self.batches().iter().map(RecordBatch::get_array_memory_size).sum()
    }
}

/// Where a payload comes from: the same each time, or planned on what is stored.
pub(super) enum Source {
    Rows(Payload),
    Edit(Arc<Edit>),
    Plans(Arc<Plans>),
}

impl Source {
    pub async fn payload(&self, inner: &Inner) -> Result<Payload> {
        match self {
            Self::Rows(payload) => Ok(payload.clone()),
            Self::Edit(edit) => edit.plan(inner).await,
            Self::Plans(plans) => plans.payload(inner).await,
        }
    }
}

/// Waits until the rows are indexed as well as durable: a seal may follow.
pub(super) async fn put_durably(writer: &ShardWriter, payload: Payload) -> lance::Result<()> {
    let (_, watcher) = match payload {
        Payload::Rows(batches) => Box::pin(writer.put_no_wait(batches)).await?,
        Payload::Keys(batches) => Box::pin(writer.delete_no_wait(batches)).await?,
    };
    let Some(mut watcher) = watcher else {
        return Err(lance::Error::internal("a durable put returned nothing to wait for"));
    };
    watcher.wait().await?;
    watcher.wait_indexed().await
}

/// `group` as one batch where that costs little.
pub(super) fn coalesce(group: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let bytes: usize = group.iter().map(RecordBatch::get_array_memory_size).sum();
    let Some(first) = group.first() else { return Ok(Vec::new()) };
    if group.len() == 1 || bytes > CONCAT_BYTES {
        return Ok(group.to_vec());
    }
    let whole = concat_batches(&first.schema(), group).map_err(|e| Error::Internal {
        message: "batches of one store differ in schema".to_owned(),
        source: Some(Box::new(e)),
    })?;
    Ok(vec![whole])
}
