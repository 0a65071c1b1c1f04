//! Deleting generations and WAL entries that nothing refers to any more.
//!
//! Only what was superfluous `gc_grace` ago already, so that a reader in another process that still holds
//! an older manifest finishes. Old shard manifests stay on storage and tell what that is, so that it does
//! not matter how long the collecting process lives.

use lance::dataset::mem_wal::util::shard_base_path;
use lance_context_spec::Result;

use super::Inner;
use super::shard::Shard;
use super::steps::Step;
use crate::error::{storage, vanished};

impl Inner {
    /// Deletes what waited long enough, of every shard.
    pub(super) async fn collect(&self) -> Result<()> {
        for shard in self.shards.of(&*self.base.latest().await?)? {
            self.collect_shard(&shard).await?;
        }
        Ok(())
    }

    async fn collect_shard(&self, shard: &Shard) -> Result<()> {
        let failed = storage(self.store(), "collect");
        let Some(before) = shard.manifest_before(self.meta.gc_grace).await? else { return Ok(()) };
        let root = self.base.seen()?.dataset.branch_location().path;
        let shard_root = shard_base_path(&root, &shard.id);
        let listing = shard.object_store.inner.list_with_delimiter(Some(&shard_root)).await;
        let listing = listing.map_err(|e| failed(lance::Error::from(e)))?;
        let generations = listing.common_prefixes.into_iter().filter(|dir| {
            let name = dir.filename().unwrap_or_default();
            // Never at or above the current generation: a seal may be writing it.
            generation_number(name).is_some_and(|n| n < before.current_generation)
                && !before.sstables.iter().any(|sealed| sealed.path == name)
        });
        let entries = shard.wal_files().await?.into_iter().filter_map(|(position, file)| {
            // The last covered entry stays: writers probe for the end of the log from there.
            (position < before.replay_after_wal_entry_position).then_some(file.location)
        });
        let superfluous: Vec<_> = generations.map(|d| (d, true)).chain(entries.map(|f| (f, false))).collect();
        for (path, is_dir) in superfluous {
            self.before(Step::Collect).await;
            let deleted = if is_dir {
                shard.object_store.remove_dir_all(path).await
            } else {
                shard.object_store.delete(&path).await
            };
            match deleted {
                // Another process collects at the same time.
                Err(e) if vanished(&e) => {}
                outcome => outcome.map_err(&failed)?,
            }
        }
        Ok(())
    }
}

/// `N` of a generation directory named `<hash>_gen_N`.
pub(super) fn generation_number(name: &str) -> Option<u64> {
    name.rsplit_once("_gen_")?.1.parse().ok()
}
