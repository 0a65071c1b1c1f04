//! What is known of a store, counted in its files.

use lance_context_spec::{ReadMode, Result, Stats};

use super::{Inner, shard};
use crate::error::storage;

impl Inner {
    pub(super) async fn stats(&self) -> Result<Stats> {
        let view = self.base.latest().await?;
        let (mut wal_entries, mut wal_bytes) = (0, 0);
        for shard in self.shards.of(&view)? {
            let (entries, bytes) = shard.wal_size().await?;
            (wal_entries, wal_bytes) = (wal_entries + entries, wal_bytes + bytes);
        }
        let shard = self.shards.own();
        let base_rows = view.dataset.count_rows(None).await.map_err(storage(self.store(), "stats"))?;
        let (generations, generation_bytes) = self.pending().await?;
        Ok(Stats {
            rows: self.count(None, Some(ReadMode::Latest)).await?,
            base_rows: base_rows as u64,
            fragments: view.dataset.fragments().len(),
            generations,
            generation_bytes,
            unsealed_rows: self.resident.unsealed_rows(),
            wal_bytes,
            wal_entries,
            version: view.dataset.version().version,
            versions: shard.count_files("_versions", ".manifest").await?,
            quarantined: shard.count_files(shard::QUARANTINE, ".arrow").await?,
            seal_on_add: self.meta.seal_on_add,
            fsync: self.meta.fsync,
            maintenance_error: self.maintenance.last_error(),
        })
    }
}
