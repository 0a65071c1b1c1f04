//! The base table's own upkeep: fewer and larger files, complete indexes, no versions that nobody reads.

use std::time::Duration;

use lance::Dataset;
use lance::dataset::cleanup::CleanupPolicy;
use lance::dataset::index::frag_reuse::cleanup_frag_reuse_index;
use lance::dataset::optimize::{CompactionMetrics, CompactionOptions, compact_files};
use lance::index::DatasetIndexExt;
use lance_context_spec::{OptimizeReport, Result};
use lance_index::optimize::OptimizeOptions;
use lance_table::format::Fragment;

use super::Inner;
use super::base::{BaseView, bytes_per_row, fragment_bytes, index_name};
use super::fold::{BATCH_BYTES, batch_rows};
use super::merge::{self, lost_to_another_merge};
use super::steps::Step;
use super::writer::Writer;
use crate::clock;
use crate::error::{storage, vanished};

/// Fragments are rewritten into ones of about this size.
const FRAGMENT_BYTES: u64 = 256 << 20;

/// So many small fragments are always too many; a few are when together they outweigh the largest of them, so that
/// each row is rewritten a number of times that grows with the logarithm of the table.
const FEW_FRAGMENTS: usize = 8;
const MANY_FRAGMENTS: usize = 64;

/// Rewrites that collide with another process's commit start over this often.
const ATTEMPTS: u32 = 4;

pub(super) async fn optimize(inner: &Inner, writer: &Writer, older_than: Option<Duration>) -> Result<OptimizeReport> {
    let _one_at_a_time = inner.merging.lock().await;
    let merged = merge::merge_alone(inner, writer).await?;
    let compacted = compact(inner, FRAGMENT_BYTES).await?;
    let removed = clean(inner, older_than.unwrap_or_default().max(inner.meta.gc_grace)).await?;
    inner.prune_manifests().await?;
    inner.remove_staged().await?;
    Ok(OptimizeReport {
        generations: merged.generations,
        fragments_removed: compacted.fragments_removed,
        fragments_added: compacted.fragments_added,
        versions_removed: removed.0,
        bytes_removed: removed.1,
        version: inner.base.latest().await?.dataset.version().version,
    })
}

/// Whether a rewrite into fragments of `target_bytes` is worth its while.
pub(super) fn is_fragmented(view: &BaseView, target_bytes: u64) -> bool {
    let small: Vec<u64> =
        view.dataset.fragments().iter().map(fragment_bytes).filter(|bytes| *bytes < target_bytes / 2).collect();
    let (all, largest) = (small.iter().sum::<u64>(), small.iter().copied().max().unwrap_or(0));
    small.len() >= MANY_FRAGMENTS || small.len() >= FEW_FRAGMENTS && all - largest >= largest
}

/// Rewrites small fragments into ones of about `target_bytes`. The caller holds the merge lock.
pub(super) async fn compact(inner: &Inner, target_bytes: u64) -> Result<CompactionMetrics> {
    let mut attempt = 1;
    loop {
        match try_compact(inner, target_bytes).await {
            Err(e) if lost_to_another_merge(&e) && attempt < ATTEMPTS => {
                clock::back_off(attempt).await;
                attempt += 1;
            }
            outcome => return outcome.map_err(storage(inner.store(), "compact")),
        }
    }
}

async fn try_compact(inner: &Inner, target_bytes: u64) -> lance::Result<CompactionMetrics> {
    let view = inner.base.latest().await.map_err(|e| lance::Error::wrapped(Box::new(e)))?;
    let mut options = CompactionOptions { defer_index_remap: true, ..CompactionOptions::default() };
    let rows = target_bytes / bytes_per_row(&view.dataset).max(1);
    let rows = usize::try_from(rows).unwrap_or(usize::MAX).max(1);
    options.target_rows_per_fragment = rows.min(options.target_rows_per_fragment);
    // One rewrite at a time, reading a bounded number of bytes.
    options.num_threads = Some(1);
    options.batch_size = Some(batch_rows(&view.dataset));
    options.io_buffer_size = Some(BATCH_BYTES);
    let mut dataset = view.dataset.as_ref().clone();
    let is_small = |fragment: &&Fragment| fragment.physical_rows < Some(options.target_rows_per_fragment);
    // Lance makes no one fragment of two that different segments of an index cover.
    if view.dataset.fragments().iter().filter(is_small).count() > 1 {
        for column in inner.kind.indexed() {
            if !is_one_segment(column, &dataset).await? {
                fold_index(inner, column, &mut dataset).await?;
            }
        }
    }
    inner.before(Step::Compact).await;
    let metrics = Box::pin(compact_files(&mut dataset, options, None)).await?;
    if metrics.fragments_removed > 0 {
        for column in inner.kind.indexed() {
            fold_index(inner, column, &mut dataset).await?;
        }
        cleanup_frag_reuse_index(&mut dataset).await?;
    }
    Ok(metrics)
}

/// Whether one segment of the index on `column` covers every fragment.
async fn is_one_segment(column: &str, dataset: &Dataset) -> lance::Result<bool> {
    let name = index_name(column);
    let segments = dataset.load_indices().await?;
    let mut covered = segments.iter().filter(|index| index.name == name).filter_map(|i| i.fragment_bitmap.as_ref());
    let all = dataset.fragments();
    Ok(covered.any(|covered| all.iter().all(|f| u32::try_from(f.id).is_ok_and(|id| covered.contains(id)))))
}

/// Makes the index on `column` one segment that covers every fragment.
async fn fold_index(inner: &Inner, column: &str, dataset: &mut Dataset) -> lance::Result<()> {
    inner.before(Step::Index).await;
    let name = index_name(column);
    let segments = dataset.load_indices().await?.iter().filter(|index| index.name == name).count();
    dataset.optimize_indices(&OptimizeOptions::merge(segments.max(1)).index_names(vec![name])).await
}

impl Inner {
    /// Removes shard manifests that nobody needs.
    pub(super) async fn prune_manifests(&self) -> Result<()> {
        for shard in self.shards.of(&*self.base.latest().await?)? {
            shard.prune_manifests().await?;
        }
        Ok(())
    }
}

/// Removes versions of the base table, and files that only they have, that nobody can have begun to read within
/// `age`; returns their number and the bytes. Files of a commit in preparation stay.
pub(super) async fn clean(inner: &Inner, age: Duration) -> Result<(u64, u64)> {
    let view = inner.base.latest().await?;
    match try_clean(inner, &view, age).await {
        // Another process removes the same.
        Err(e) if vanished(&e) => Ok((0, 0)),
        outcome => outcome.map_err(storage(inner.store(), "clean up")),
    }
}

async fn try_clean(inner: &Inner, view: &BaseView, age: Duration) -> lance::Result<(u64, u64)> {
    let versions = view.dataset.versions().await?;
    let Some(kept) = oldest_kept(versions.iter().map(|v| (v.version, v.timestamp)), clock::ago(age)) else {
        return Ok((0, 0));
    };
    inner.before(Step::Clean).await;
    let policy = CleanupPolicy {
        before_version: Some(kept),
        delete_unverified: false,
        error_if_tagged_old_versions: false,
        ..CleanupPolicy::default()
    };
    let removed = view.dataset.cleanup_with_policy(policy).await?;
    Ok((removed.old_versions, removed.bytes_removed))
}

/// The version that was the newest at `cutoff`: a read may have begun on it since then, however old it is itself.
fn oldest_kept<T: PartialOrd>(versions: impl Iterator<Item = (u64, T)>, cutoff: T) -> Option<u64> {
    versions.filter(|(_, written)| *written <= cutoff).map(|(version, _)| version).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_current_at_the_cutoff_is_kept() {
        let versions = [(3, 10), (1, 0), (2, 5)];
        for (cutoff, kept) in [(-1, None), (0, Some(1)), (4, Some(1)), (5, Some(2)), (9, Some(2)), (100, Some(3))] {
            assert_eq!(oldest_kept(versions.into_iter(), cutoff), kept, "{cutoff}");
        }
    }
}
