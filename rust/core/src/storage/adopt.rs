//! Shards that their writers left: somebody else seals and trims them, and the owner, if it is alive after all, claims
//! its shard back at its next write.

use std::sync::Arc;
use std::time::Duration;

use lance::dataset::mem_wal::ShardWriter;
use lance_context_spec::Result;

use super::claim::{self, Unclaimed};
use super::shard::Shard;
use super::shards::Ownership;
use super::steps::Step;
use super::writer::Writer;
use super::{Inner, merge};
use crate::error::{fenced_by_peer, storage};

/// Claims, seals, merges and trims the shards that nobody in this process owns, that were silent for `silence`, and that
/// have something to be done. Only for a handle that has claimed its own.
pub(super) async fn adopt(inner: &Inner, writer: &Writer, silence: Duration) -> Result<()> {
    let mut adopted = Vec::new();
    let mut outcome = take_all(inner, silence, &mut adopted).await;
    if outcome.is_ok() && !adopted.is_empty() {
        outcome = merge::merge(inner, writer).await.map(drop);
    }
    for (shard, writer) in &adopted {
        if outcome.is_ok() {
            outcome = trim(inner, shard, writer).await;
        }
        claim::release(inner, writer).await;
    }
    outcome
}

async fn take_all(inner: &Inner, silence: Duration, adopted: &mut Vec<(Arc<Shard>, Arc<ShardWriter>)>) -> Result<()> {
    for shard in inner.shards.of(&*inner.base.latest().await?)? {
        if inner.is_abandoned(&shard, silence).await?
            && let Some(writer) = take(inner, &shard).await?
        {
            adopted.push((shard, writer));
        }
    }
    Ok(())
}

/// Claims a shard and seals what its log holds; `None` if somebody else does.
async fn take(inner: &Inner, shard: &Shard) -> Result<Option<Arc<ShardWriter>>> {
    tracing::info!(store = %inner.store(), shard = %shard.id, "a shard without a living writer is adopted");
    let writer = match claim::claim(inner, shard).await {
        Ok(writer) => writer,
        Err(Unclaimed::Lost) => return Ok(None),
        Err(Unclaimed::Failed(error)) => return Err(error),
    };
    let sealed = async {
        if claim::replayed(&writer).await?.is_some() {
            inner.before(Step::SealReplayed).await;
            claim::seal(inner, shard, &writer).await?;
        }
        Ok(())
    };
    match sealed.await {
        Ok(()) => Ok(Some(writer)),
        Err(error) => {
            claim::release(inner, &writer).await;
            if fenced_by_peer(&error) { Ok(None) } else { Err(storage(inner.store(), "adopt")(error)) }
        }
    }
}

async fn trim(inner: &Inner, shard: &Shard, writer: &ShardWriter) -> Result<()> {
    let merged = inner.base.latest().await?.merged(shard.id);
    if !inner.lists_merged(shard, merged).await? {
        return Ok(());
    }
    inner.before(Step::Trim).await;
    match claim::trim(writer, merged).await {
        Err(error) if !fenced_by_peer(&error) => Err(storage(inner.store(), "trim")(error)),
        _ => Ok(()),
    }
}

impl Inner {
    /// Whether a shard of another writer is without one and has something to be done.
    async fn is_abandoned(&self, shard: &Shard, silence: Duration) -> Result<bool> {
        if shard.id == self.shards.own().id || Ownership::is_claimed(&self.location.lance_uri, shard.id) {
            return Ok(false);
        }
        if shard.manifest().await?.is_none() || shard.silent_for().await? < silence {
            return Ok(false);
        }
        let merged = self.base.latest().await?.merged(shard.id);
        Ok(self.lists_merged(shard, merged).await? || shard.has_unsealed_rows().await?)
    }

    /// Whether a shard still lists generations up to `merged`.
    pub(super) async fn lists_merged(&self, shard: &Shard, merged: u64) -> Result<bool> {
        let manifest = shard.manifest().await?;
        Ok(manifest.is_some_and(|m| m.sstables.iter().any(|sealed| sealed.generation <= merged)))
    }
}
