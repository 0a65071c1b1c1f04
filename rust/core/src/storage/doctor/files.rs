//! How the doctor reaches the files: its own way, past every cache of the process.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use futures::TryStreamExt;
use lance::Dataset;
use lance::session::Session;
use lance_context_spec::doctor::code;
use lance_context_spec::{Error, OpenOptions, Result};
use lance_io::object_store::ObjectStore;
use lance_table::io::deletion::deletion_file_path;
use object_store::ObjectMeta;
use object_store::path::Path;
use uuid::Uuid;

use super::{Exam, Stopped};
use crate::error::storage;
use crate::storage::create::is_vacant;
use crate::storage::location::Access;
use crate::storage::shard::Shard;
use crate::storage::shards::{default_shard, list as list_shards};
use crate::storage::{Kind, Location, SESSION};

/// Bytes of each of a look's own caches.
const CACHE_BYTES: usize = 64 << 20;

/// A store's files.
pub(super) struct Files {
    pub store: String,
    /// The directory, for local stores.
    pub directory: Option<PathBuf>,
    pub kind: Kind,
    pub key: &'static str,
    pub access: Access,
    pub session: Arc<Session>,
    pub object_store: Arc<ObjectStore>,
    pub root: Path,
    /// The store's shards that have a directory.
    pub shard_ids: Vec<Uuid>,
    /// The one that is looked at.
    pub shard_id: Uuid,
    pub shard: Shard,
}

impl Files {
    /// `fsync` makes what a repair writes reach the device.
    pub async fn open(location: &Location, kind: Kind, options: &OpenOptions, fsync: bool) -> Result<Self> {
        let store = location.given.clone();
        let not_found = || Error::StoreNotFound { store: store.clone() };
        if let Some(path) = &location.path {
            // What has a log was a store, whatever became of its table.
            let had_log = path.join("_mem_wal").is_dir();
            if !had_log && is_vacant(&store, path)? {
                return Err(not_found());
            }
        }
        let access = location.access(fsync, &options.storage_options)?;
        let session = Arc::new(Session::new(CACHE_BYTES, CACHE_BYTES, SESSION.store_registry()));
        let opened = location.log_access(&access).object_store(&session).await;
        let (object_store, root) = opened.map_err(storage(&store, "look at the store"))?;
        if location.path.is_none() {
            let first = object_store.inner.list(Some(&root)).try_next().await;
            if first.map_err(|e| storage(&store, "look at the store")(lance::Error::from(e)))?.is_none() {
                return Err(not_found());
            }
        }
        let shard_id = default_shard();
        let shard_ids = match list_shards(&object_store, &root).await {
            Ok(ids) if kind.append_only => ids,
            Ok(_) => vec![shard_id],
            Err(e) => return Err(storage(&store, "list the shards")(lance::Error::from(e))),
        };
        let shard = Shard::new(&store, Arc::clone(&object_store), root.clone(), shard_id);
        let directory = location.path.clone();
        Ok(Self {
            store,
            directory,
            kind,
            key: kind.key,
            access,
            session,
            object_store,
            root,
            shard_ids,
            shard_id,
            shard,
        })
    }

    /// The same, looking at another shard.
    pub fn at(&self, shard_id: Uuid) -> Self {
        Self {
            store: self.store.clone(),
            directory: self.directory.clone(),
            kind: self.kind,
            key: self.key,
            access: self.access.clone(),
            session: Arc::clone(&self.session),
            object_store: Arc::clone(&self.object_store),
            root: self.root.clone(),
            shard_ids: self.shard_ids.clone(),
            shard_id,
            shard: Shard::new(&self.store, Arc::clone(&self.object_store), self.root.clone(), shard_id),
        }
    }

    /// `what` with the shard's name, where there can be several.
    pub fn of_shard(&self, what: &str) -> String {
        if self.kind.append_only { format!("{what} of shard {}", self.shard_id) } else { what.to_owned() }
    }

    /// Whether any shard has a manifest.
    pub async fn have_manifests(&self) -> lance::Result<bool> {
        for shard_id in &self.shard_ids {
            if !self.at(*shard_id).shard.manifests.list_versions().await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the table.
    pub async fn table(&self) -> lance::Result<Dataset> {
        self.access.load(&self.session).await
    }

    /// Opens a generation by the name of its directory.
    pub async fn generation(&self, name: &str) -> lance::Result<Dataset> {
        let uri = format!("{}/_mem_wal/{}/{name}", self.access.uri.trim_end_matches('/'), self.shard_id);
        Access { uri, params: self.access.params.clone() }.load(&self.session).await
    }

    /// `path` as seen from the store's directory.
    pub fn relative(&self, path: &Path) -> String {
        match path.prefix_match(&self.root) {
            Some(parts) => parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"),
            None => path.to_string(),
        }
    }

    /// Every file below `directory`; none where there is no such directory.
    pub async fn list(&self, directory: &Path) -> Result<Vec<ObjectMeta>, Stopped> {
        match self.object_store.inner.list(Some(directory)).try_collect::<Vec<_>>().await {
            Ok(found) => Ok(found),
            Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }

    /// The files that the rows of a dataset can be in, by path.
    pub async fn row_files(&self, root: &Path) -> Result<HashMap<Path, ObjectMeta>, Stopped> {
        let mut found = HashMap::new();
        for directory in ["data", "_deletions"] {
            let listed = self.list(&root.clone().join(directory)).await?;
            found.extend(listed.into_iter().map(|file| (file.location.clone(), file)));
        }
        Ok(found)
    }
}

/// The files of rows and of deletions that a version refers to, with their sizes where it knows them. Files that lie
/// outside the dataset are not looked at.
pub(super) fn referenced(dataset: &Dataset) -> Vec<(Path, Option<u64>)> {
    let root = dataset.branch_location().path;
    let mut files = Vec::new();
    for fragment in dataset.fragments().iter() {
        for file in fragment.referenced_lance_files().filter(|file| file.base_id.is_none()) {
            let size = file.file_size_bytes.get().map(NonZeroU64::get);
            files.push((dataset.data_dir().join(file.path.as_str()), size));
        }
        if let Some(deletion) = fragment.deletion_file.as_ref().filter(|deletion| deletion.base_id.is_none()) {
            files.push((deletion_file_path(&root, fragment.id, deletion), None));
        }
    }
    files
}

/// Reports what `dataset` refers to and what is not there as it should be; says whether all is.
pub(super) fn check_files(
    files: &Files,
    dataset: &Dataset,
    present: &HashMap<Path, ObjectMeta>,
    exam: &mut Exam,
) -> bool {
    let mut whole = true;
    for (path, size) in referenced(dataset) {
        match present.get(&path) {
            None => {
                let message = "rows of the store are in this file, and it is not there; restore it from a backup";
                exam.error(code::FILE_MISSING, files.relative(&path), message);
            }
            Some(found) if size.is_some_and(|size| size != found.size) => {
                let message = format!(
                    "it has {} bytes and was written with {}; restore it from a backup",
                    found.size,
                    size.unwrap_or_default()
                );
                exam.error(code::FILE_SIZE, files.relative(&path), message);
            }
            Some(_) => continue,
        }
        whole = false;
    }
    whole
}
