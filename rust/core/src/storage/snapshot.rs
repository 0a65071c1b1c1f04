//! One consistent view of all tiers, assembled in the only order that loses nothing.
//!
//! Memory first, then the shard manifest, the base table last: a generation sealed or merged in between
//! is then seen twice rather than not at all, and two rules drop the second sight of it: generations
//! that the base table already holds, and generations that memory still holds.

use std::sync::Arc;

use lance::dataset::mem_wal::ShardSnapshot;
use lance::dataset::mem_wal::scanner::InMemoryMemTables;
use lance::dataset::mem_wal::write::BatchStore;
use lance_context_spec::{Error, ReadMode, Result};
use lance_index::mem_wal::ShardManifest;

use super::Inner;
use super::base::BaseView;
use crate::clock;
use crate::error::{fenced_by_peer, storage};

/// A very busy sealer can invalidate the tail between two looks at the manifest; then look again.
const ATTEMPTS: u32 = 64;

/// What one read works on.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub base: Arc<BaseView>,
    pub shard: ShardSnapshot,
    pub memory: Option<Memory>,
}

/// What reading the WAL tail found.
enum Tail {
    Rows(Option<InMemoryMemTables>),
    /// A seal came in between; what was read may have a hole.
    Moved,
}

/// The in-memory tier of a snapshot.
pub(super) struct Memory(pub InMemoryMemTables);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("generation", &self.0.active.generation).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// The same, deaf to what is added to the active memtable from here on: for reads of more than one step.
    ///
    /// Lance bounds all that it reads of a memtable by the batches in its store, its key index too.
    pub fn pinned(mut self) -> Result<Self> {
        if let Some(Memory(memory)) = &mut self.memory {
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
        }
        Ok(self)
    }
}

impl Inner {
    /// A snapshot of what `read` may see.
    pub(super) async fn snapshot(&self, read: Option<ReadMode>) -> Result<Snapshot> {
        let read = read.unwrap_or(self.default_read);
        for attempt in 0..ATTEMPTS {
            if let Some(snapshot) = self.try_snapshot(read).await? {
                return Ok(snapshot);
            }
            clock::back_off(attempt).await;
        }
        Err(Error::Storage {
            store: self.store().to_owned(),
            operation: "read",
            message: "the shard was sealed between every two looks at it; read again".to_owned(),
            retryable: true,
            source: None,
        })
    }

    /// `None`: the WAL moved under the read.
    async fn try_snapshot(&self, read: ReadMode) -> Result<Option<Snapshot>> {
        let own = match read {
            ReadMode::Latest => self.own_memory().await?,
            ReadMode::Sealed => None,
        };
        let Some(manifest) = self.shard.manifest().await? else {
            return Ok(Some(self.with_base(None, None).await?));
        };
        // Another writer's claim makes what this handle's own writer holds in memory stale.
        let own = own.filter(|(epoch, _)| *epoch == manifest.writer_epoch);
        let memory = match own {
            Some((_, memory)) => Some(memory),
            None => match self.unsealed_tail(read, &manifest).await? {
                Tail::Rows(memory) => memory,
                Tail::Moved => return Ok(None),
            },
        };
        Ok(Some(self.with_base(Some(&manifest), memory).await?))
    }

    /// What `read` may see of the WAL behind `manifest`.
    async fn unsealed_tail(&self, read: ReadMode, manifest: &ShardManifest) -> Result<Tail> {
        let (cache, until) = match read {
            ReadMode::Sealed => (&self.overlay, self.opened_at),
            ReadMode::Latest => (&self.tail, u64::MAX),
        };
        let after = manifest.replay_after_wal_entry_position;
        if until <= after {
            cache.clear().await;
            return Ok(Tail::Rows(None));
        }
        // Only the table's schema is asked of it, and that never changes.
        let view = self.base.seen()?;
        let rows = cache.load(self, &view, manifest, until).await?;
        // A seal may have let the WAL be trimmed while it was read.
        let unmoved = self.shard.manifest().await?.is_some_and(|m| m.replay_after_wal_entry_position == after);
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

    async fn with_base(&self, manifest: Option<&ShardManifest>, memory: Option<InMemoryMemTables>) -> Result<Snapshot> {
        let base = self.base.latest().await?;
        let mut shard = ShardSnapshot::new(self.shard_id);
        if let Some(manifest) = manifest {
            let in_memory = memory.as_ref().map_or(u64::MAX, |m| m.active.generation);
            shard = shard.with_current_generation(manifest.current_generation);
            for sealed in &manifest.sstables {
                if sealed.generation > base.merged && sealed.generation < in_memory {
                    shard = shard.with_sstable(sealed.generation, sealed.path.clone());
                }
            }
        }
        Ok(Snapshot { base, shard, memory: memory.map(Memory) })
    }
}
