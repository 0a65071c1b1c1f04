//! Deleting generations and WAL entries that nothing refers to any more.
//!
//! Only after `gc_grace`, so that a reader in another process that still holds the older manifest
//! finishes. What is superfluous is superfluous since the current shard manifest at the latest, so that
//! manifest's age, or the age of this handle's first sight of it, is the time it waited.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use lance::dataset::mem_wal::util::{manifest_filename, shard_base_path, shard_manifest_path};
use lance_context_spec::{Error, Result};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::Inner;
use crate::clock;
use crate::error::{storage, vanished};

/// When this handle first saw a path superfluous.
#[derive(Debug, Default)]
pub(super) struct Retired {
    since: Mutex<HashMap<Path, Instant>>,
}

impl Inner {
    /// Deletes what waited long enough.
    pub(super) async fn collect(&self) -> Result<()> {
        let failed = storage(self.store(), "collect");
        let Some(manifest) = self.shard.manifest().await? else { return Ok(()) };
        let root = self.base.latest().await?.dataset.branch_location().path;
        let shard_root = shard_base_path(&root, &self.shard_id);
        let listing = self.shard.object_store.inner.list_with_delimiter(Some(&shard_root)).await;
        let listing = listing.map_err(|e| failed(lance::Error::from(e)))?;
        let generations = listing.common_prefixes.into_iter().filter(|dir| {
            let name = dir.filename().unwrap_or_default();
            // Never at or above the current generation: a seal may be writing it.
            generation_number(name).is_some_and(|n| n < manifest.current_generation)
                && !manifest.sstables.iter().any(|sealed| sealed.path == name)
        });
        let entries = self.shard.wal_files().await?.into_iter().filter_map(|(position, file)| {
            // The last covered entry stays: writers probe for the end of the log from there.
            (position < manifest.replay_after_wal_entry_position).then_some(file.location)
        });
        let superfluous: Vec<_> = generations.map(|d| (d, true)).chain(entries.map(|f| (f, false))).collect();
        if superfluous.is_empty() {
            return Ok(());
        }
        let manifest_path =
            shard_manifest_path(&root, &self.shard_id).join(manifest_filename(manifest.version).as_str());
        let written = self.shard.object_store.inner.head(&manifest_path).await;
        let written = written.map_err(|e| failed(lance::Error::from(e)))?.last_modified.timestamp_millis();
        let grace_ms = i64::try_from(self.meta.gc_grace.as_millis()).unwrap_or(i64::MAX);
        let all_waited = clock::wall_ms().saturating_sub(written) > grace_ms;
        for (path, is_dir) in superfluous {
            if !(all_waited || self.retired.waited(&path, self.meta.gc_grace)?) {
                continue;
            }
            let deleted = if is_dir {
                self.shard.object_store.remove_dir_all(path.clone()).await
            } else {
                self.shard.object_store.delete(&path).await
            };
            match deleted {
                // Another process collects at the same time.
                Err(e) if vanished(&e) => {}
                outcome => outcome.map_err(&failed)?,
            }
            self.retired.forget(&path)?;
        }
        Ok(())
    }
}

impl Retired {
    fn waited(&self, path: &Path, grace: std::time::Duration) -> Result<bool> {
        let now = clock::now();
        let mut since = self.since.lock().map_err(|_| poisoned())?;
        Ok(now.duration_since(*since.entry(path.clone()).or_insert(now)) >= grace)
    }

    fn forget(&self, path: &Path) -> Result<()> {
        self.since.lock().map_err(|_| poisoned())?.remove(path);
        Ok(())
    }
}

/// `N` of a generation directory named `<hash>_gen_N`.
fn generation_number(name: &str) -> Option<u64> {
    name.rsplit_once("_gen_")?.1.parse().ok()
}

fn poisoned() -> Error {
    Error::Internal { message: "a lock is poisoned by an earlier panic".to_owned(), source: None }
}
