//! The shards of a store: the one that this handle writes to, and those that it reads.
//!
//! Only stores whose rows are never rewritten have more than one. Each writer name has a shard of its own. Its first
//! claim announces the shard in the table's configuration before there is anything in it, so that whoever knows the
//! newest version of the table knows every shard, and no reader has to list directories.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, RwLock};

use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::mem_wal::util::mem_wal_path;
use lance_context_spec::{Error, Result};
use lance_io::object_store::ObjectStore;
use object_store::path::Path;
use uuid::Uuid;

use super::Inner;
use super::base::BaseView;
use super::shard::Shard;
use super::steps::Step;
use crate::clock;
use crate::error::{contended, poisoned, storage};

/// Prefix of the table's configuration keys that announce a shard; its id follows.
const ANNOUNCED: &str = "lance-context:shard:";

/// Writers that announce their shards at the same moment take turns; one of them tries this often.
const ANNOUNCE_ATTEMPTS: u32 = 16;

/// Shards are looked at together, so many at a time.
pub(super) const CONCURRENT: usize = 16;

/// The longest name of a writer.
const MAX_WRITER_ID_BYTES: usize = 255;

/// The shards that live handles of this process own, by store, with how many handles say so.
static OWNED: LazyLock<Mutex<HashMap<(String, Uuid), usize>>> = LazyLock::new(Mutex::default);

/// The shard of writers without a name.
pub(super) fn default_shard() -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, b"shard-0")
}

/// The shard of the writer with that name.
///
/// # Errors
/// [`Error::InvalidArgument`] for an empty name or one that is too long.
pub(super) fn shard_of(writer_id: &str) -> Result<Uuid> {
    if writer_id.is_empty() || writer_id.len() > MAX_WRITER_ID_BYTES {
        let message = format!("a writer's name has 1 to {MAX_WRITER_ID_BYTES} bytes, this one has {}", writer_id.len());
        return Err(Error::InvalidArgument { argument: "writer_id".into(), message });
    }
    // The prefix keeps names apart from the default shard's.
    Ok(Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("writer-{writer_id}").as_bytes()))
}

/// The shards that a table's configuration announces.
pub(super) fn announced(config: &HashMap<String, String>) -> BTreeSet<Uuid> {
    config.keys().filter_map(|key| Uuid::parse_str(key.strip_prefix(ANNOUNCED)?).ok()).collect()
}

/// The entry of a table's configuration that announces a shard.
pub(super) fn announcement(shard_id: Uuid) -> [(String, String); 1] {
    [(format!("{ANNOUNCED}{shard_id}"), "true".to_owned())]
}

/// Announces `shard`, unless somebody did.
pub(super) async fn announce(inner: &Inner, shard: &Shard) -> Result<()> {
    let mut attempt = 0;
    loop {
        let view = inner.base.latest().await?;
        if view.shards.contains(&shard.id) {
            return Ok(());
        }
        inner.before(Step::Announce).await;
        let mut dataset: Dataset = view.dataset.as_ref().clone();
        match dataset.update_config(announcement(shard.id)).await {
            Ok(_) => return Ok(()),
            Err(error) if contended(&error) && attempt < ANNOUNCE_ATTEMPTS => clock::back_off(attempt).await,
            Err(error) => return Err(storage(inner.store(), "announce a shard")(error)),
        }
        attempt += 1;
    }
}

/// The ids of the shards that have a directory in `root`, in order.
pub(super) async fn list(object_store: &ObjectStore, root: &Path) -> object_store::Result<Vec<Uuid>> {
    let listing = match object_store.inner.list_with_delimiter(Some(&mem_wal_path(root))).await {
        Ok(listing) => listing,
        Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let names = listing.common_prefixes.iter().filter_map(|directory| directory.filename());
    let mut ids: Vec<Uuid> = names.filter_map(|name| Uuid::parse_str(name).ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Says that a live handle of this process owns a shard, until it is dropped.
#[derive(Debug)]
pub(super) struct Ownership(String, Uuid);

impl Ownership {
    pub fn of(store: &str, shard_id: Uuid) -> Self {
        if let Ok(mut owned) = OWNED.lock() {
            *owned.entry((store.to_owned(), shard_id)).or_default() += 1;
        }
        Self(store.to_owned(), shard_id)
    }

    /// Whether somebody in this process says so.
    pub fn is_claimed(store: &str, shard_id: Uuid) -> bool {
        OWNED.lock().is_ok_and(|owned| owned.contains_key(&(store.to_owned(), shard_id)))
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        let Ok(mut owned) = OWNED.lock() else { return };
        let key = (self.0.clone(), self.1);
        if let Some(count) = owned.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                owned.remove(&key);
            }
        }
    }
}

/// The shards of a store, as one handle knows them.
#[derive(Debug)]
pub(super) struct Shards {
    store: String,
    object_store: Arc<ObjectStore>,
    root: Path,
    own: Arc<Shard>,
    known: RwLock<BTreeMap<Uuid, Arc<Shard>>>,
}

impl Shards {
    /// Notes how far the logs of this handle's `own` shard and of the `announced` ones go.
    pub async fn open(
        store: &str,
        object_store: Arc<ObjectStore>,
        root: Path,
        own: Uuid,
        announced: &BTreeSet<Uuid>,
    ) -> Result<Self> {
        let ids: BTreeSet<Uuid> = announced.iter().copied().chain([own]).collect();
        let opened = futures::stream::iter(ids.into_iter().map(|id| {
            let mut shard = Shard::new(store, Arc::clone(&object_store), root.clone(), id);
            async move {
                shard.opened_at = shard.durable_position().await?;
                Ok::<_, Error>((id, Arc::new(shard)))
            }
        }));
        let shards: BTreeMap<_, _> = opened.buffer_unordered(CONCURRENT).try_collect().await?;
        let own = shards.get(&own).cloned().ok_or_else(poisoned)?;
        Ok(Self { store: store.to_owned(), object_store, root, own, known: RwLock::new(shards) })
    }

    /// The shard that this handle writes to.
    pub fn own(&self) -> &Arc<Shard> {
        &self.own
    }

    /// This handle's own shard and those that `view` announces, ordered by id. What is written elsewhere after `view`
    /// was current is in no other shard than these and those that a later view announces.
    pub fn of(&self, view: &BaseView) -> Result<Vec<Arc<Shard>>> {
        if view.shards.iter().all(|id| *id == self.own.id) {
            return Ok(vec![Arc::clone(&self.own)]);
        }
        let ids: BTreeSet<Uuid> = view.shards.iter().copied().chain([self.own.id]).collect();
        let known = self.known.read().map_err(|_| poisoned())?;
        let shards: Option<Vec<_>> = ids.iter().map(|id| known.get(id).cloned()).collect();
        drop(known);
        if let Some(shards) = shards {
            return Ok(shards);
        }
        let mut known = self.known.write().map_err(|_| poisoned())?;
        // What came later than the handle has nothing that was durable when it was opened.
        let new = |id| Arc::new(Shard::new(&self.store, Arc::clone(&self.object_store), self.root.clone(), id));
        Ok(ids.into_iter().map(|id| Arc::clone(known.entry(id).or_insert_with(|| new(id)))).collect())
    }
}
