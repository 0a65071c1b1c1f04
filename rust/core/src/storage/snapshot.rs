//! One consistent view of all tiers, assembled in the only order that loses nothing.
//!
//! For each shard memory first, then its manifest; the base table last: a generation sealed or merged in between
//! is then seen twice rather than not at all, and two rules drop the second sight of it: generations
//! that the base table already holds, and generations that memory still holds. If the base table then announces
//! shards that were not looked at, all is looked at again.

use std::cmp::Reverse;
use std::iter;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lance::dataset::mem_wal::ShardSnapshot;
use lance::dataset::mem_wal::scanner::{InMemoryMemTableRef, InMemoryMemTables};
use lance::dataset::mem_wal::write::BatchStore;
use lance_context_spec::{Error, ReadMode, Result};
use lance_index::mem_wal::ShardManifest;
use uuid::Uuid;

use super::Inner;
use super::base::BaseView;
use super::shard::Shard;
use super::shards::CONCURRENT;
use super::sources::last_visible_row;
use crate::clock;
use crate::error::{fenced_by_peer, storage};

/// A very busy sealer can invalidate the tail between two looks at the manifest, and new writers the list of shards;
/// then look again.
const ATTEMPTS: u32 = 64;

/// What one read works on.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub base: Arc<BaseView>,
    /// The shards that have rows which the base table lacks, ordered by id.
    pub shards: Vec<Fresh>,
    /// Every shard that was ever written to.
    pub looked: Vec<Looked>,
}

/// Who wrote to a shard last, and the generation that its next seal gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked {
    pub id: Uuid,
    pub epoch: u64,
    pub generation: u64,
}

/// What a shard has that is not merged.
#[derive(Debug)]
pub(super) struct Fresh {
    pub generations: ShardSnapshot,
    pub memory: Option<Memory>,
}

/// A shard as it was before the base table was looked at.
struct Seen {
    shard_id: Uuid,
    manifest: Arc<ShardManifest>,
    memory: Option<InMemoryMemTables>,
}

/// What reading the WAL tail found.
enum Tail {
    Rows(Option<InMemoryMemTables>),
    /// A seal came in between; what was read may have a hole.
    Moved,
}

/// The in-memory tier of a snapshot.
pub(super) struct Memory {
    pub tables: InMemoryMemTables,
    /// The last row of the active memtable that was there; it goes on growing.
    last: Option<u64>,
}

impl Memory {
    fn new(tables: InMemoryMemTables) -> Self {
        Self { last: last_visible_row(&tables.active), tables }
    }

    /// The memtables, the newest first, each with its last row.
    pub fn tables(&self) -> impl Iterator<Item = (&InMemoryMemTableRef, Option<u64>)> {
        let mut frozen: Vec<_> = self.tables.frozen.iter().map(|table| (table, last_visible_row(table))).collect();
        frozen.sort_by_key(|(table, _)| Reverse(table.generation));
        iter::once((&self.tables.active, self.last)).chain(frozen)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("generation", &self.tables.active.generation).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// The same, for lance too: scans of it see nothing that is added to the active memtables from here on.
    pub fn pinned(mut self) -> Result<Self> {
        for memory in self.shards.iter_mut().filter_map(|fresh| fresh.memory.as_mut()) {
            pin(&mut memory.tables)?;
            memory.last = last_visible_row(&memory.tables.active);
        }
        Ok(self)
    }
}

/// Lance bounds all that it reads of a memtable by the batches in its store, its key index too.
fn pin(memory: &mut InMemoryMemTables) -> Result<()> {
    let active = &mut memory.active;
    let visible = active.index_store.visible_count().min(active.batch_store.len());
    let batches = BatchStore::with_capacity(visible.max(1));
    for batch in (0..visible).filter_map(|at| active.batch_store.get(at)) {
        batches.append(batch.data.clone()).map_err(|_| Error::Internal {
            message: "a memtable's batches do not fit a store of their number".to_owned(),
            source: None,
        })?;
    }
    active.batch_store = Arc::new(batches);
    Ok(())
}

impl Inner {
    /// A snapshot of what `read` may see.
    pub(super) async fn snapshot(&self, read: Option<ReadMode>) -> Result<Snapshot> {
        let read = read.unwrap_or(self.default_read);
        let mut known = self.base.seen()?;
        for _ in 0..ATTEMPTS {
            let shards = self.shards.of(&known)?;
            let looks = shards.into_iter().map(|shard| async move { self.look_at(&shard, read).await });
            let seen: Vec<Option<Seen>> = futures::stream::iter(looks).buffered(CONCURRENT).try_collect().await?;
            let base = self.base.latest().await?;
            if base.shards == known.shards {
                let seen = || seen.iter().flatten();
                let looked = seen().map(Seen::looked).collect();
                let shards = seen().filter_map(|seen| seen.over(&base)).collect();
                return Ok(Snapshot { base, shards, looked });
            }
            known = base;
        }
        Err(self.restless("new shards came"))
    }

    /// What `read` may see of a shard; `None` while nothing was ever written to it.
    async fn look_at(&self, shard: &Shard, read: ReadMode) -> Result<Option<Seen>> {
        for attempt in 0..ATTEMPTS {
            let own = match read {
                ReadMode::Latest if shard.id == self.shards.own().id => self.own_memory().await?,
                _ => None,
            };
            let Some(manifest) = shard.manifest().await? else { return Ok(None) };
            // Another writer's claim makes what this handle's own writer holds in memory stale.
            let memory = match own.filter(|(epoch, _)| *epoch == manifest.writer_epoch) {
                Some((_, memory)) => Tail::Rows(Some(memory)),
                None => self.unsealed_tail(shard, read, &manifest).await?,
            };
            if let Tail::Rows(memory) = memory {
                return Ok(Some(Seen { shard_id: shard.id, manifest, memory }));
            }
            clock::back_off(attempt).await;
        }
        Err(self.restless("the shard was sealed"))
    }

    fn restless(&self, what: &str) -> Error {
        Error::Storage {
            store: self.store().to_owned(),
            operation: "read",
            message: format!("{what} between every two looks; read again"),
            retryable: true,
            source: None,
        }
    }

    /// What `read` may see of the WAL behind `manifest`.
    async fn unsealed_tail(&self, shard: &Shard, read: ReadMode, manifest: &ShardManifest) -> Result<Tail> {
        let (cache, until) = match read {
            ReadMode::Sealed => (&shard.overlay, shard.opened_at),
            ReadMode::Latest => (&shard.tail, u64::MAX),
        };
        let after = manifest.replay_after_wal_entry_position;
        if until <= after {
            cache.clear().await;
            return Ok(Tail::Rows(None));
        }
        // Only the table's schema is asked of it, and that never changes.
        let view = self.base.seen()?;
        let rows = cache.load(shard, self.kind, &view, manifest, until).await?;
        // A seal may have let the WAL be trimmed while it was read.
        let unmoved = shard.manifest().await?.is_some_and(|m| m.replay_after_wal_entry_position == after);
        Ok(if unmoved { Tail::Rows(rows) } else { Tail::Moved })
    }

    async fn own_memory(&self) -> Result<Option<(u64, InMemoryMemTables)>> {
        let Some(writer) = self.resident.writer() else { return Ok(None) };
        match writer.in_memory_memtable_refs().await {
            Ok(memory) => Ok(Some((writer.epoch(), memory))),
            Err(e) if fenced_by_peer(&e) => Ok(None),
            Err(e) => Err(storage(self.store(), "read the memtable")(e)),
        }
    }
}

impl Seen {
    fn looked(&self) -> Looked {
        let (epoch, generation) = (self.manifest.writer_epoch, self.manifest.current_generation);
        Looked { id: self.shard_id, epoch, generation }
    }

    /// What of it `base` lacks.
    fn over(&self, base: &BaseView) -> Option<Fresh> {
        let (merged, manifest) = (base.merged(self.shard_id), &self.manifest);
        let in_memory = self.memory.as_ref().map_or(u64::MAX, |memory| memory.active.generation);
        let mut generations = ShardSnapshot::new(self.shard_id).with_current_generation(manifest.current_generation);
        for sealed in &manifest.sstables {
            if sealed.generation > merged && sealed.generation < in_memory {
                generations = generations.with_sstable(sealed.generation, sealed.path.clone());
            }
        }
        let has_rows = self.memory.is_some() || !generations.sstables.is_empty();
        has_rows.then(|| Fresh { generations, memory: self.memory.clone().map(Memory::new) })
    }
}
