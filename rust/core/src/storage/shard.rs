//! The shard as files show it: its manifest and its WAL, read without claiming anything.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use futures::TryStreamExt;
use lance::dataset::mem_wal::util::{
    manifest_filename, parse_bit_reversed_filename, shard_manifest_path, shard_wal_path, wal_entry_filename,
};
use lance::dataset::mem_wal::{ShardManifestStore, WalReadEntry, WalTailer};
use lance_context_spec::{Error, Result};
use lance_index::mem_wal::ShardManifest;
use lance_io::object_store::ObjectStore;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use uuid::Uuid;

use crate::clock;
use crate::error::{poisoned, storage, strip_locations};

/// Reads one shard's manifest and WAL.
#[derive(Debug)]
pub(super) struct Shard {
    store: String,
    pub object_store: Arc<ObjectStore>,
    manifests: ShardManifestStore,
    manifest_dir: Path,
    pub wal_dir: Path,
    tailer: WalTailer,
    known: RwLock<Option<Arc<ShardManifest>>>,
}

impl Shard {
    pub fn new(store: &str, object_store: Arc<ObjectStore>, base_path: Path, shard_id: Uuid) -> Self {
        Self {
            store: store.to_owned(),
            manifests: ShardManifestStore::new(Arc::clone(&object_store), &base_path, shard_id, 2),
            manifest_dir: shard_manifest_path(&base_path, &shard_id),
            wal_dir: shard_wal_path(&base_path, &shard_id),
            tailer: WalTailer::new(Arc::clone(&object_store), base_path, shard_id),
            object_store,
            known: RwLock::new(None),
        }
    }

    /// The newest manifest; `None` while nothing was ever written. Versions have no gaps, so that one
    /// existence probe for the next one proves the known one current.
    pub async fn manifest(&self) -> Result<Option<Arc<ShardManifest>>> {
        let failed = storage(&self.store, "read the shard manifest");
        let known = self.known.read().map_err(|_| poisoned())?.clone();
        if let Some(known) = known {
            let next = self.manifest_dir.clone().join(manifest_filename(known.next_version()).as_str());
            if !self.object_store.exists(&next).await.map_err(&failed)? {
                return Ok(Some(known));
            }
        }
        let Some(manifest) = self.manifests.latest().await.map_err(&failed)?.map(Arc::new) else { return Ok(None) };
        let mut known = self.known.write().map_err(|_| poisoned())?;
        if known.as_ref().is_none_or(|k| manifest.version > k.version) {
            *known = Some(Arc::clone(&manifest));
        }
        Ok(Some(manifest))
    }

    /// The last position of the WAL; 0 while nothing was ever written.
    pub async fn durable_position(&self) -> Result<u64> {
        if self.manifest().await?.is_none() {
            return Ok(0);
        }
        let next = self.tailer.next_position().await.map_err(storage(&self.store, "read the WAL"))?;
        Ok(next.saturating_sub(1))
    }

    /// The entry at `position`, or `None` where there is none. A last entry whose bytes do not decode
    /// counts as none: it was torn by a crash of the machine.
    pub async fn entry(&self, position: u64) -> Result<Option<WalReadEntry>> {
        let error = match self.tailer.read_entry(position).await {
            Ok(entry) => return Ok(entry),
            Err(error) => error,
        };
        // Lance reports a failed read and undecodable bytes alike; only the latter may end the log.
        let failed = storage(&self.store, "read the WAL");
        let path = |position| self.wal_dir.clone().join(wal_entry_filename(position).as_str());
        let read = async { self.object_store.inner.get(&path(position)).await?.bytes().await };
        read.await.map_err(|e| failed(lance::Error::from(e)))?;
        if !self.object_store.exists(&path(position + 1)).await.map_err(&failed)? {
            tracing::warn!(store = %self.store, position, %error, "the last WAL entry is torn; reading up to it");
            return Ok(None);
        }
        Err(Error::Damaged {
            store: self.store.clone(),
            message: format!("WAL entry {position}: {}", strip_locations(&error.to_string())),
            source: Some(Box::new(error)),
        })
    }

    /// The newest manifest that was already in force `grace` ago; `None` if there was none.
    pub async fn manifest_before(&self, grace: Duration) -> Result<Option<ShardManifest>> {
        let failed = storage(&self.store, "list the shard manifests");
        let listed = self.object_store.inner.list(Some(&self.manifest_dir)).try_collect::<Vec<_>>().await;
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let latest_ms = clock::wall_ms().saturating_sub(grace_ms);
        let version = listed
            .map_err(|e| failed(lance::Error::from(e)))?
            .into_iter()
            .filter(|file| file.last_modified.timestamp_millis() <= latest_ms)
            .filter_map(|file| parse_bit_reversed_filename(file.location.filename()?))
            .max();
        match version {
            Some(version) => self.manifests.read_version(version).await.map(Some).map_err(failed),
            None => Ok(None),
        }
    }

    /// WAL positions with the size and modification time of their files.
    pub async fn wal_files(&self) -> Result<Vec<(u64, object_store::ObjectMeta)>> {
        let listed = self.object_store.inner.list(Some(&self.wal_dir)).try_collect::<Vec<_>>().await;
        let files = listed.map_err(|e| storage(&self.store, "list the WAL")(lance::Error::from(e)))?;
        Ok(files
            .into_iter()
            .filter_map(|file| Some((parse_bit_reversed_filename(file.location.filename()?)?, file)))
            .collect())
    }

    /// Number and bytes of the WAL entries on storage.
    pub async fn wal_size(&self) -> Result<(u64, u64)> {
        let files = self.wal_files().await?;
        Ok((files.len() as u64, files.iter().map(|(_, file)| file.size).sum()))
    }
}
