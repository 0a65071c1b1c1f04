//! The shard as files show it: its manifest and its WAL, read without claiming anything.

use std::io::Cursor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use arrow::ipc::reader::StreamReader;
use bytes::Bytes;
use futures::TryStreamExt;
use lance::dataset::mem_wal::util::{
    manifest_filename, parse_bit_reversed_filename, shard_base_path, shard_manifest_path, shard_wal_path,
    wal_entry_filename,
};
use lance::dataset::mem_wal::{ShardManifestStore, WalReadEntry, WalTailer};
use lance_context_spec::{Error, Result};
use lance_index::mem_wal::ShardManifest;
use lance_io::object_store::ObjectStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt};
use uuid::Uuid;

use super::tail::TailCache;
use super::{refusals, torn};
use crate::clock;
use crate::error::{poisoned, storage, strip_locations, vanished};

/// Where undecodable WAL entries go, under the store's root.
pub(super) const QUARANTINE: &str = "_quarantine";

/// How a finished Arrow stream ends: a continuation mark and a message of no bytes.
/// <https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format>
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// What lies at a position of the WAL.
pub(super) enum Slot {
    Free,
    Entry(Box<WalReadEntry>),
    /// A file that is no entry, and why.
    Torn(lance::Error),
}

/// Reads one shard's manifest and WAL.
#[derive(Debug)]
pub(super) struct Shard {
    store: String,
    pub id: Uuid,
    /// Last WAL position that was durable when the handle was opened: what a sealed read may show of the unsealed
    /// tail.
    pub opened_at: u64,
    /// The tail up to there, and all of it.
    pub overlay: TailCache,
    pub tail: TailCache,
    root: Path,
    /// The torn entry that was last warned about.
    warned_of: AtomicU64,
    pub object_store: Arc<ObjectStore>,
    pub manifests: ShardManifestStore,
    manifest_dir: Path,
    pub wal_dir: Path,
    tailer: WalTailer,
    known: RwLock<Option<Arc<ShardManifest>>>,
}

impl Shard {
    pub fn new(store: &str, object_store: Arc<ObjectStore>, base_path: Path, shard_id: Uuid) -> Self {
        Self {
            store: store.to_owned(),
            id: shard_id,
            opened_at: 0,
            overlay: TailCache::default(),
            tail: TailCache::default(),
            root: base_path.clone(),
            warned_of: AtomicU64::new(0),
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
        let manifest = match self.manifests.latest().await {
            Ok(Some(manifest)) => Arc::new(manifest),
            Ok(None) => return Ok(None),
            Err(e) => return Err(failed(self.unread(e).await)),
        };
        let mut known = self.known.write().map_err(|_| poisoned())?;
        if known.as_ref().is_none_or(|k| manifest.version > k.version) {
            *known = Some(Arc::clone(&manifest));
        }
        Ok(Some(manifest))
    }

    /// Why the newest manifest could not be read: lance reports a failed read and undecodable bytes alike.
    async fn unread(&self, error: lance::Error) -> lance::Error {
        let Ok(versions) = self.manifests.list_versions().await else { return error };
        match versions.last() {
            Some(newest) => self.unread_version(*newest, error).await,
            None => error,
        }
    }

    async fn unread_version(&self, version: u64, error: lance::Error) -> lance::Error {
        let path = self.manifest_dir.clone().join(manifest_filename(version).as_str());
        torn::check_shard(&self.object_store, &path).await.err().unwrap_or(error)
    }

    /// The last position of the WAL; 0 while nothing was ever written.
    pub async fn durable_position(&self) -> Result<u64> {
        if self.manifest().await?.is_none() {
            return Ok(0);
        }
        let next = self.tailer.next_position().await.map_err(storage(&self.store, "read the WAL"))?;
        Ok(next.saturating_sub(1))
    }

    /// The entry at `position`, or `None` where there is none: the end of the log. A torn entry ends it too.
    pub async fn entry(&self, position: u64) -> Result<Option<WalReadEntry>> {
        match self.look(position).await? {
            Slot::Free => Ok(None),
            Slot::Entry(entry) => Ok(Some(*entry)),
            Slot::Torn(error) => {
                if self.warned_of.swap(position, Ordering::Relaxed) != position {
                    tracing::warn!(store = %self.store, position, %error, "a WAL entry is torn; reading up to it");
                }
                Ok(None)
            }
        }
    }

    /// Whether the WAL holds rows behind what is sealed. Claims nothing.
    pub async fn has_unsealed_rows(&self) -> Result<bool> {
        let Some(manifest) = self.manifest().await? else { return Ok(false) };
        let mut position = manifest.replay_after_wal_entry_position + 1;
        while let Some(entry) = self.entry(position).await? {
            if !entry.batches.is_empty() {
                return Ok(true);
            }
            position += 1;
        }
        // What cannot be decoded is something to see to: a claim puts it aside, or says that it cannot.
        self.has_entry(position).await
    }

    /// Whether there is a file at `position`, an entry or not.
    pub async fn has_entry(&self, position: u64) -> Result<bool> {
        let path = self.wal_path(position);
        self.object_store.exists(&path).await.map_err(storage(&self.store, "read the WAL"))
    }

    /// What lies at `position`.
    pub async fn look(&self, position: u64) -> Result<Slot> {
        let error = match self.tailer.read_entry(position).await {
            Ok(entry) => return Ok(entry.map_or(Slot::Free, |entry| Slot::Entry(Box::new(entry)))),
            Err(error) => error,
        };
        // Lance reports a failed read and undecodable bytes alike, and the failure may be over by now.
        let failed = storage(&self.store, "read the WAL");
        let read = async { self.object_store.inner.get(&self.wal_path(position)).await?.bytes().await };
        let bytes = read.await.map_err(|e| failed(lance::Error::from(e)))?;
        if is_whole(bytes) { Err(failed(error)) } else { Ok(Slot::Torn(error)) }
    }

    /// Whether the file at `position` ends like a whole entry; `None` where there is none. Cheap, and no proof.
    async fn looks_whole(&self, position: u64) -> Result<Option<bool>> {
        let options = GetOptions { range: Some(GetRange::Suffix(8)), ..GetOptions::default() };
        let read = async { self.object_store.inner.get_opts(&self.wal_path(position), options).await?.bytes().await };
        match read.await {
            Ok(end) => Ok(Some(end.as_ref() == END_OF_STREAM)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            // A file too short for the range; or one that cannot be read, which the full look will say.
            Err(_) => Ok(Some(false)),
        }
    }

    /// The position of the last entry with rows, if it cannot be decoded.
    ///
    /// # Errors
    /// [`Error::Damaged`] if an entry before that cannot: what lies behind it would be lost with it.
    pub async fn torn_end(&self) -> Result<Option<u64>> {
        let Some(manifest) = self.manifest().await? else { return Ok(None) };
        let mut torn: Option<(u64, lance::Error)> = None;
        let mut position = manifest.replay_after_wal_entry_position + 1;
        while let Some(whole) = self.looks_whole(position).await? {
            if torn.is_some() || !whole {
                match (self.look(position).await?, torn.take()) {
                    (Slot::Torn(error), None) => torn = Some((position, error)),
                    (Slot::Torn(_), Some((first, error))) => return Err(self.damaged(first, error)),
                    // Claims that failed because of the torn entry have left empty ones behind it.
                    (Slot::Entry(entry), earlier) if entry.batches.is_empty() => torn = earlier,
                    (Slot::Entry(_), Some((first, error))) => return Err(self.damaged(first, error)),
                    (Slot::Entry(_) | Slot::Free, earlier) => torn = earlier,
                }
            }
            position += 1;
        }
        Ok(torn.map(|(position, _)| position))
    }

    fn damaged(&self, position: u64, error: lance::Error) -> Error {
        Error::Damaged {
            store: self.store.clone(),
            message: format!(
                "WAL entry {position} is torn and others follow it: {}; reads end before it; nobody can write until the \
                 doctor has put it aside: `GenericStore.doctor(uri, repair=True)`",
                strip_locations(&error.to_string())
            ),
            source: Some(Box::new(error)),
        }
    }

    /// Moves the file at `position` out of the log.
    pub async fn quarantine(&self, position: u64) -> Result<()> {
        self.put_aside(&self.wal_path(position), &wal_entry_filename(position)).await
    }

    /// Moves a manifest out of the shard. Only for a newest one that cannot be read.
    pub async fn quarantine_manifest(&self, version: u64) -> Result<()> {
        let name = manifest_filename(version);
        self.put_aside(&self.manifest_dir.clone().join(name.as_str()), &name).await
    }

    async fn put_aside(&self, from: &Path, name: &str) -> Result<()> {
        let failed = storage(&self.store, "quarantine");
        let directory = self.root.clone().join(QUARANTINE);
        let mut to = directory.clone().join(format!("{}-{name}", self.id));
        // The same place can be torn again.
        for times in 2.. {
            if !self.object_store.exists(&to).await.map_err(&failed)? {
                break;
            }
            to = directory.clone().join(format!("{}-{times}-{name}", self.id));
        }
        match self.object_store.inner.rename(from, &to).await {
            // Another process was faster.
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(failed(lance::Error::from(e))),
            Ok(()) => {
                tracing::warn!(store = %self.store, file = %to, "a torn file was put aside");
                Ok(())
            }
        }
    }

    /// What of the shard storage refused to write last since then, by the clock that counts suspension, and why.
    pub fn refused(&self, since: Duration) -> Option<String> {
        let directory = shard_base_path(&self.root, &self.id);
        let (path, cause) = refusals::last_below(&self.object_store.store_prefix, &directory, since)?;
        let file = path.as_ref().strip_prefix(self.root.as_ref()).unwrap_or(path.as_ref());
        Some(format!("storage refused `{}`: {cause}", file.trim_start_matches('/')))
    }

    /// How many files with that ending lie in a directory of the store.
    pub async fn count_files(&self, directory: &str, ending: &str) -> Result<usize> {
        let listed = self.object_store.inner.list(Some(&self.root.clone().join(directory)));
        let found =
            |files, file: ObjectMeta| async move { Ok(files + usize::from(file.location.as_ref().ends_with(ending))) };
        listed.try_fold(0, found).await.map_err(|e| storage(&self.store, "list files")(lance::Error::from(e)))
    }

    fn wal_path(&self, position: u64) -> Path {
        self.wal_dir.clone().join(wal_entry_filename(position).as_str())
    }

    /// The newest manifest that was already in force `grace` ago; `None` if there was none, or if it is gone.
    pub async fn manifest_before(&self, grace: Duration) -> Result<Option<ShardManifest>> {
        let failed = storage(&self.store, "read the shard manifests");
        let Some(newest) = self.manifest().await? else { return Ok(None) };
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let latest_ms = clock::wall_ms().saturating_sub(grace_ms);
        // Versions are written one after another: those up to `old` are old enough, those from `young` on are not.
        let (mut old, mut young) = (0, newest.version + 1);
        while young - old > 1 {
            let middle = u64::midpoint(old, young);
            let path = self.manifest_dir.clone().join(manifest_filename(middle).as_str());
            match self.object_store.inner.head(&path).await {
                Ok(file) if file.last_modified.timestamp_millis() > latest_ms => young = middle,
                // Only old versions are ever removed.
                Ok(_) | Err(object_store::Error::NotFound { .. }) => old = middle,
                Err(e) => return Err(failed(lance::Error::from(e))),
            }
        }
        if old == 0 {
            return Ok(None);
        }
        match self.manifests.read_version(old).await {
            Err(e) if vanished(&e) => Ok(None),
            Err(e) => Err(failed(self.unread_version(old, e).await)),
            Ok(manifest) => Ok(Some(manifest)),
        }
    }

    /// How long ago the last manifest or WAL entry was written.
    pub async fn silent_for(&self) -> Result<Duration> {
        let Some(newest) = self.manifest().await? else { return Ok(Duration::ZERO) };
        let last = self.durable_position().await?;
        let manifest = self.manifest_dir.clone().join(manifest_filename(newest.version).as_str());
        let mut written_ms = i64::MIN;
        for path in [manifest, self.wal_path(last)] {
            match self.object_store.inner.head(&path).await {
                Ok(file) => written_ms = written_ms.max(file.last_modified.timestamp_millis()),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(storage(&self.store, "look at the shard")(lance::Error::from(e))),
            }
        }
        let silent_ms = clock::wall_ms().saturating_sub(written_ms);
        Ok(Duration::from_millis(u64::try_from(silent_ms).unwrap_or(0)))
    }

    /// Removes manifests that no writer, however stalled, can still build on.
    pub async fn prune_manifests(&self) -> Result<()> {
        let Some(newest) = self.manifest().await? else { return Ok(()) };
        let pruned = self.manifests.prune_versions_before(newest.version).await;
        pruned.map(drop).map_err(storage(&self.store, "prune the shard manifests"))
    }

    /// WAL positions with the size and modification time of their files.
    pub async fn wal_files(&self) -> Result<Vec<(u64, ObjectMeta)>> {
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

/// Whether an entry can be decoded to its end.
fn is_whole(entry: Bytes) -> bool {
    entry.ends_with(&END_OF_STREAM)
        && StreamReader::try_new(Cursor::new(entry), None).is_ok_and(|mut batches| batches.all(|batch| batch.is_ok()))
}
