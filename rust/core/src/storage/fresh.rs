//! Scans of what the shards of an append-only store have beyond the base table.
//!
//! Lance knows nothing of a key that two shards have, and would prefer a fresh row to the merged one; so it is asked
//! shard by shard, without the base table. Without a condition it is not asked for memtables at all: they are many
//! small batches, each of which a query plan treats as a large one.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use datafusion::prelude::Expr;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use lance::dataset::mem_wal::scanner::InMemoryMemTableRef;
use lance::dataset::mem_wal::write::StoredBatch;

use super::Inner;
use super::find::gather;
use super::reach::Reach;
use super::snapshot::{Fresh, Memory, Snapshot};
use super::sources::Source;

/// Rows of memtables that become one batch.
const ROWS: usize = 8192;

/// Batches of a scan.
type Rows<'a> = BoxStream<'a, lance::Result<RecordBatch>>;

impl Inner {
    /// The rows beyond the base table that fulfil `condition`, each once, with at least `columns` and the key.
    pub(super) fn scan_fresh<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        columns: &'a [String],
        condition: Option<Expr>,
    ) -> impl Stream<Item = lance::Result<RecordBatch>> + Send + 'a {
        let shards = (0..snapshot.shards.len()).map(move |at| {
            let condition = condition.clone();
            self.scan_shard(snapshot, at, columns, condition).boxed()
        });
        futures::stream::iter(shards).then(|shard| shard).try_flatten()
    }

    async fn scan_shard<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        at: usize,
        columns: &'a [String],
        condition: Option<Expr>,
    ) -> lance::Result<Rows<'a>> {
        let Some(fresh) = snapshot.shards.get(at) else { return Ok(futures::stream::empty().boxed()) };
        let before = self.sources_before(snapshot, at);
        let mut scanner =
            self.shard_scanner(&snapshot.base.dataset, fresh.generations.clone()).with_memtable_filter_indexes(true);
        let Some(condition) = condition else {
            let memory = futures::stream::iter(self.rows_in_memory(fresh, columns)?);
            let memory = self.live(snapshot, memory, before.clone());
            if fresh.generations.sstables.is_empty() {
                return Ok(memory);
            }
            let rows = Box::pin(scanner.project(columns)?.try_into_stream()).await?;
            let before = before.into_iter().chain(self.memory_sources(fresh)).collect();
            return Ok(memory.chain(self.live(snapshot, rows.map_err(lance::Error::from), before)).boxed());
        };
        if let Some(memory) = &fresh.memory {
            scanner = scanner.with_in_memory_memtables(fresh.generations.shard_id, memory.tables.clone());
        }
        let rows = Box::pin(scanner.project(columns)?.filter_expr(condition).try_into_stream()).await?;
        Ok(self.live(snapshot, rows.map_err(lance::Error::from), before))
    }

    /// The rows that came after `since`, and perhaps some of those before, with at least `columns` and the key.
    pub(super) fn scan_since<'a>(&'a self, snapshot: &'a Snapshot, columns: &'a [String], since: &Reach) -> Rows<'a> {
        let unseen: Vec<_> =
            self.sources(snapshot).into_iter().filter_map(|at| Some((since.unseen(&at)?, at))).collect();
        let rows =
            unseen.into_iter().map(move |(from, source)| self.rows_from(snapshot, from, source, columns).boxed());
        futures::stream::iter(rows).then(|rows| rows).try_flatten().boxed()
    }

    /// The rows of one place beyond the base table, of memory those from row `from` on.
    async fn rows_from<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        from: u64,
        source: Source<'a>,
        columns: &'a [String],
    ) -> lance::Result<Rows<'a>> {
        let read = self.with_key(columns);
        match source {
            Source::Memory { table, last: Some(last), .. } => {
                let batches = stored_batches(table, Some(last));
                let mut rows = Vec::new();
                for (at, batch) in batches.iter().enumerate() {
                    let first = usize::try_from(from.saturating_sub(batch.row_offset)).unwrap_or(usize::MAX);
                    let end = usize::try_from((last + 1).saturating_sub(batch.row_offset)).unwrap_or(usize::MAX);
                    rows.extend((first..batch.num_rows.min(end)).map(|row| (at, row)));
                }
                let batches = batches.into_iter().map(|batch| &batch.data).collect();
                Ok(futures::stream::iter(pieces(vec![Arc::new((batches, rows))], read)).boxed())
            }
            Source::Generation { uri, .. } => {
                let generation = self.open_generation(&snapshot.base, &uri).await?;
                let mut scan = generation.scan();
                scan.project(&read)?;
                Ok(Box::pin(scan.try_into_stream()).await?.boxed())
            }
            Source::Memory { .. } | Source::Base => Ok(futures::stream::empty().boxed()),
        }
    }

    pub(super) fn with_key(&self, columns: &[String]) -> Vec<String> {
        let mut read = columns.to_vec();
        if !read.iter().any(|column| column == self.kind.key) {
            read.push(self.kind.key.to_owned());
        }
        read
    }

    /// `rows` without those whose keys are in a place before theirs.
    fn live<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        rows: impl Stream<Item = lance::Result<RecordBatch>> + Send + 'a,
        before: Vec<Source<'a>>,
    ) -> Rows<'a> {
        let before = Arc::new(before);
        let live = rows.and_then(move |batch| {
            let before = Arc::clone(&before);
            async move { self.unshadowed(&snapshot.base, batch, &before).await }.boxed()
        });
        live.boxed()
    }

    /// The rows of the memtables of a shard, of each key the newest, gathered as they are asked for.
    fn rows_in_memory<'a>(
        &self,
        fresh: &'a Fresh,
        columns: &[String],
    ) -> lance::Result<impl Iterator<Item = lance::Result<RecordBatch>> + Send + use<'a>> {
        let key = self.kind.key;
        let mut seen = HashSet::new();
        let mut held = Vec::new();
        for (table, last) in fresh.memory.iter().flat_map(Memory::tables) {
            let batches: Vec<&RecordBatch> = stored_batches(table, last).into_iter().map(|batch| &batch.data).collect();
            let mut rows = Vec::new();
            for (at, batch) in batches.iter().enumerate().rev() {
                let keys = batch.column_by_name(key).and_then(|column| column.as_string_opt::<i32>());
                let keys = keys.ok_or_else(|| lance::Error::internal("a memtable has no key column of strings"))?;
                rows.extend((0..keys.len()).rev().filter(|row| seen.insert(keys.value(*row))).map(|row| (at, row)));
            }
            rows.reverse();
            held.push(Arc::new((batches, rows)));
        }
        Ok(pieces(held, self.with_key(columns)))
    }
}

/// The batches of a memtable that begin at row `last` or before.
fn stored_batches(table: &InMemoryMemTableRef, last: Option<u64>) -> Vec<&StoredBatch> {
    let stored = (0..table.batch_store.len()).filter_map(|at| table.batch_store.get(at));
    stored.take_while(|batch| last.is_some_and(|last| batch.row_offset <= last)).collect()
}

/// Batches, and rows of them each given by its batch and its place in it.
type Held<'a> = Arc<(Vec<&'a RecordBatch>, Vec<(usize, usize)>)>;

/// `columns` of the rows of `held`, gathered as they are asked for.
fn pieces<'a>(
    held: Vec<Held<'a>>,
    columns: Vec<String>,
) -> impl Iterator<Item = lance::Result<RecordBatch>> + Send + use<'a> {
    let pieces = held.into_iter().flat_map(|held| {
        let starts = (0..held.1.len()).step_by(ROWS);
        starts.map(move |from| (Arc::clone(&held), from))
    });
    pieces.filter_map(move |(held, from)| {
        let (batches, rows) = &*held;
        gather(batches, &rows[from..rows.len().min(from + ROWS)], &columns).transpose()
    })
}
