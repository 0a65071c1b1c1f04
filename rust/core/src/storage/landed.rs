//! What became of a put that did not simply succeed (`docs/design/004-interrupted-writes.md`).

use std::time::Duration;

use lance::dataset::mem_wal::ShardWriter;
use lance_context_spec::{Error, Result};

use super::Inner;
use crate::clock;
use crate::error::storage;

/// The claim behind an entry is waited for this often.
const LOOKS: u32 = 12;

/// What became of a put that failed with a fence.
pub(super) enum Landed {
    No,
    /// It is in the log, and the claim that fenced its writer replayed it.
    BeforeClaim,
    Unknown,
}

/// What became of a put that failed with a fence. Its reply may have been lost: lance then reports
/// the fence that it found when it looked again, with the entry written all the same.
pub(super) async fn landed(inner: &Inner, writer: &ShardWriter) -> Result<Landed> {
    let position = writer.wal_stats().next_wal_entry_position;
    match inner.shards.own().entry(position).await? {
        Some(entry) if !entry.batches.is_empty() && entry.writer_epoch == writer.epoch() => {
            let kept = precedes_claim(inner, writer, position + 1).await?;
            Ok(if kept { Landed::BeforeClaim } else { Landed::Unknown })
        }
        Some(_) => Ok(Landed::No),
        None => {
            // Whatever lay before the replay position may be collected, this entry too.
            let sealed = inner.shards.own().manifest().await?.map_or(0, |m| m.replay_after_wal_entry_position);
            Ok(if position <= sealed { Landed::Unknown } else { Landed::No })
        }
    }
}

/// Whether the last entry of `writer`, which lost the shard since, lies before the claim that took it,
/// so that the claim replayed it. `behind` is the position behind that entry.
///
/// The claim leaves an empty entry of the next epoch at the end of the WAL: right behind a put that
/// came before it. A put that came later, into a slot freed by collection, has no such neighbour.
pub(super) async fn precedes_claim(inner: &Inner, writer: &ShardWriter, behind: u64) -> Result<bool> {
    for attempt in 0..LOOKS {
        if let Some(entry) = inner.shards.own().entry(behind).await? {
            return Ok(entry.batches.is_empty() && entry.writer_epoch == writer.epoch() + 1);
        }
        clock::back_off(attempt).await;
    }
    Ok(false)
}

/// The error of a put that began then and failed without a fence: what storage answered, which lance may not say.
pub(super) fn failed(inner: &Inner, began: Duration, error: lance::Error) -> Error {
    let failed = storage(inner.store(), "add")(error);
    match (inner.shards.own().refused(began), failed) {
        (Some(refused), Error::Storage { store, operation, retryable, source, .. }) => {
            let advice = "whether the rows were kept is unknown; read them back, or add them again";
            Error::Storage { store, operation, message: format!("{refused}; {advice}"), retryable, source }
        }
        (_, failed) => failed,
    }
}
