//! The shards of a store: the one that this handle writes to, and those that it reads.
//!
//! Only stores whose rows are never rewritten have more than one. Each writer name has a shard of its own, which
//! its first claim makes; readers find it by listing, at most [`STALE`] later, and at once in the process that made it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, RwLock};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use lance::dataset::mem_wal::util::mem_wal_path;
use lance_context_spec::{Error, Result};
use lance_io::object_store::ObjectStore;
use object_store::path::Path;
use uuid::Uuid;

use super::shard::Shard;
use crate::clock;
use crate::error::{poisoned, storage};

/// A list of shards is good for so long.
const STALE: Duration = Duration::from_secs(1);

/// Shards are looked at together, so many at a time.
pub(super) const CONCURRENT: usize = 16;

/// The longest name of a writer.
const MAX_WRITER_ID_BYTES: usize = 255;

/// How many shards this process has made.
static MADE: AtomicU64 = AtomicU64::new(0);

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

/// The ids of the shards that `root` holds, in order.
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

/// Tells the readers of this process that a shard was made.
pub(super) fn announce() {
    MADE.fetch_add(1, Ordering::Release);
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
    /// Whether there can be others.
    are_many: bool,
    known: RwLock<Known>,
}

#[derive(Debug)]
struct Known {
    shards: BTreeMap<Uuid, Arc<Shard>>,
    listed_at: Duration,
    made: u64,
}

impl Shards {
    /// Lists the shards and notes how far each log goes.
    pub async fn open(
        store: &str,
        object_store: Arc<ObjectStore>,
        root: Path,
        own: Uuid,
        are_many: bool,
    ) -> Result<Self> {
        let (made, listed_at) = (MADE.load(Ordering::Acquire), clock::since_boot());
        let mut ids = if are_many {
            let listed = list(&object_store, &root).await;
            listed.map_err(|e| storage(store, "list the shards")(lance::Error::from(e)))?
        } else {
            Vec::new()
        };
        if !ids.contains(&own) {
            ids.push(own);
        }
        let opened = futures::stream::iter(ids.into_iter().map(|id| {
            let mut shard = Shard::new(store, Arc::clone(&object_store), root.clone(), id);
            async move {
                shard.opened_at = shard.durable_position().await?;
                Ok::<_, Error>((id, Arc::new(shard)))
            }
        }));
        let shards: BTreeMap<_, _> = opened.buffer_unordered(CONCURRENT).try_collect().await?;
        let own = shards.get(&own).cloned().ok_or_else(poisoned)?;
        let known = RwLock::new(Known { shards, listed_at, made });
        Ok(Self { store: store.to_owned(), object_store, root, own, are_many, known })
    }

    /// The shard that this handle writes to.
    pub fn own(&self) -> &Arc<Shard> {
        &self.own
    }

    /// Every shard, ordered by id.
    pub async fn all(&self) -> Result<Vec<Arc<Shard>>> {
        if !self.are_many {
            return Ok(vec![Arc::clone(&self.own)]);
        }
        let (made, now) = (MADE.load(Ordering::Acquire), clock::since_boot());
        {
            let known = self.known.read().map_err(|_| poisoned())?;
            if known.made == made && now.saturating_sub(known.listed_at) < STALE {
                return Ok(known.shards.values().cloned().collect());
            }
        }
        let listed = list(&self.object_store, &self.root).await;
        let ids = listed.map_err(|e| storage(&self.store, "list the shards")(lance::Error::from(e)))?;
        let mut known = self.known.write().map_err(|_| poisoned())?;
        for id in ids {
            // What came later than the handle has nothing that was durable when it was opened.
            let new = || Arc::new(Shard::new(&self.store, Arc::clone(&self.object_store), self.root.clone(), id));
            known.shards.entry(id).or_insert_with(new);
        }
        (known.listed_at, known.made) = (now.max(known.listed_at), made.max(known.made));
        Ok(known.shards.values().cloned().collect())
    }
}
