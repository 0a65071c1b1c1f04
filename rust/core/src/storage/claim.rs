//! Taking a shard: the next epoch of its writer, with everything that its log holds replayed.

use std::sync::Arc;
use std::time::Duration;

use lance::dataset::mem_wal::{DatasetMemWalExt, ShardWriter, ShardWriterConfig};
use lance_context_spec::{Error, Result};

use super::shard::Shard;
use super::steps::Step;
use super::{Inner, SESSION, shards};
use crate::clock;
use crate::error::{lost_claim, storage};

/// How long to wait for a writer that is let go of.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a claim came to nothing.
pub(super) enum Unclaimed {
    /// Another writer was faster; claim again.
    Lost,
    Failed(Error),
}

/// A mapping for `Result::map_err` of what belongs to a claim.
pub(super) fn unclaimed(store: &str, operation: &'static str) -> impl Fn(lance::Error) -> Unclaimed {
    let failed = storage(store, operation);
    move |error| if lost_claim(&error) { Unclaimed::Lost } else { Unclaimed::Failed(failed(error)) }
}

/// What a claim replayed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replayed {
    pub rows: usize,
    pub batches: usize,
    pub bytes: usize,
}

/// Claims a shard. Whoever wrote to it is fenced.
pub(super) async fn claim(inner: &Inner, shard: &Shard) -> Result<Arc<ShardWriter>, Unclaimed> {
    let failed = unclaimed(inner.store(), "claim");
    quarantine(inner, shard).await.map_err(Unclaimed::Failed)?;
    let is_new = shard.manifest().await.map_err(Unclaimed::Failed)?.is_none();
    inner.before(Step::Claim).await;
    let dataset = Box::pin(inner.log_access.load(&SESSION)).await.map_err(&failed)?;
    let opening = dataset.mem_wal_writer(shard.id, config(inner, shard));
    let opened = Box::pin(opening).await;
    // A claim whose reply is lost has made the shard as well.
    if is_new {
        shards::announce();
    }
    Ok(Arc::new(opened.map_err(&failed)?))
}

/// What of the log is not sealed, `None` for nothing.
pub(super) async fn replayed(writer: &ShardWriter) -> lance::Result<Option<Replayed>> {
    let memory = writer.in_memory_memtable_refs().await?;
    let batches = &memory.active.batch_store;
    let replayed = Replayed { rows: batches.total_rows(), batches: batches.len(), bytes: batches.row_bytes() };
    Ok((!batches.is_empty()).then_some(replayed))
}

/// Puts a torn last entry aside, without which lance can claim nothing.
async fn quarantine(inner: &Inner, shard: &Shard) -> Result<()> {
    let Some(torn) = shard.torn_end().await? else { return Ok(()) };
    inner.before(Step::Quarantine).await;
    shard.quarantine(torn).await
}

fn config(inner: &Inner, shard: &Shard) -> ShardWriterConfig {
    ShardWriterConfig::new(shard.id)
        .with_max_wal_buffer_size(1)
        .with_max_memtable_rows(inner.meta.memtable_rows)
        .with_max_memtable_batches(inner.meta.memtable_batches)
        .with_max_memtable_size(4 << 30)
        .with_max_unflushed_memtable_bytes(16 << 30)
        .with_stats_log_interval(None)
}

/// Seals the rows of a shard's writer. Lance tries for ever, and what stood in its way is the error when time is up.
pub(super) async fn seal(inner: &Inner, shard: &Shard, writer: &ShardWriter) -> lance::Result<()> {
    let began = clock::since_boot();
    let freeze = async { Box::pin(writer.force_freeze_active()).await?.wait().await };
    let limit = inner.location.seal_timeout;
    match tokio::time::timeout(limit, freeze).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let cause = shard.refused(began).unwrap_or_else(|| "storage does not answer".to_owned());
            Err(lance::Error::io(format!("not sealed within {limit:?}: {cause}; the rows stay durable")))
        }
    }
}

/// Takes merged generations, up to that one, out of the manifest of a writer's shard.
pub(super) async fn trim(writer: &ShardWriter, merged: u64) -> lance::Result<()> {
    let manifests = writer.manifest_store();
    let trimmed = manifests.commit_update(writer.epoch(), |current| {
        let mut next = current.clone();
        next.version = current.next_version();
        next.sstables.retain(|sealed| sealed.generation > merged);
        next
    });
    trimmed.await.map(drop)
}

/// Lets go of a writer without sealing; its rows stay in the WAL.
pub(super) async fn release(inner: &Inner, writer: &ShardWriter) {
    // An abort waits for I/O in flight, which may be what hangs; the writer ends when that does.
    match tokio::time::timeout(ABORT_TIMEOUT, writer.abort()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(store = %inner.store(), %error, "a writer did not end cleanly"),
        Err(_) => tracing::warn!(store = %inner.store(), "a writer hangs in storage and is left to itself"),
    }
}
