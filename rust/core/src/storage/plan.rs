//! Appends that are planned on what is stored, several in one WAL write.
//!
//! The writer task takes the plans that wait and asks one after another for its rows, each on the latest rows and on
//! what the plans before it in the same write will add. Then it puts them all at once. Nobody is answered before the
//! put is durable, because a plan may have found that there is nothing to do only on account of rows that another one
//! is about to write. If the put is fenced, all of them are planned again.

use std::any::Any;
use std::sync::{Arc, Mutex as SyncMutex};

use arrow::array::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use lance::dataset::mem_wal::scanner::InMemoryMemTables;
use lance_context_spec::{Error, ReadMode, Result};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::find::Wanted;
use super::payload::{Payload, coalesce};
use super::scan::ATTEMPTS;
use super::snapshot::Snapshot;
use super::sources::{Source, last_visible_row};
use super::tail::Tail;
use super::{Inner, MAX_ADD_BYTES, MAX_ADD_ROWS, check_size};
use crate::error::{poisoned, storage, vanished};

/// What a plan tells its caller.
pub type Outcome = Box<dyn Any + Send>;

/// What a plan comes to.
pub struct Planned {
    /// Batches with every column of the store, in their order; none where there is nothing to write.
    pub rows: Vec<RecordBatch>,
    /// Handed to the caller once the rows are durable.
    pub outcome: Outcome,
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows: usize = self.rows.iter().map(RecordBatch::num_rows).sum();
        f.debug_struct("Planned").field("rows", &rows).finish_non_exhaustive()
    }
}

/// A write that depends on what is stored.
pub trait Plan: Send + Sync {
    /// What to write, given what is stored. Called while this handle owns its shard, and called again whenever another
    /// writer came in between or the rows do not fit into the same write; only the last call counts, and it must not
    /// build on what an earlier one returned. While it runs nothing else is written.
    ///
    /// # Errors
    /// Whatever the caller is to get; nothing of this plan is written then.
    fn plan<'a>(&'a self, stored: &'a Stored<'a>) -> BoxFuture<'a, Result<Planned>>;

    /// Called once the rows are durable, plan by plan in the order of the writes, before anybody is answered; returns
    /// what the caller gets.
    fn written(&self, outcome: Outcome) -> Outcome {
        outcome
    }
}

/// What a plan can read: the latest rows of every shard, and those that plans before it in the same write will add.
pub struct Stored<'a> {
    inner: &'a Inner,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    planned: SyncMutex<Option<Tail>>,
}

impl std::fmt::Debug for Stored<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored").field("store", &self.inner.store()).finish_non_exhaustive()
    }
}

impl<'a> Stored<'a> {
    fn new(inner: &'a Inner) -> Self {
        Self { inner, snapshot: Mutex::default(), planned: SyncMutex::default() }
    }

    /// The epoch of this handle's claim on its shard. It changes whenever another writer may have written to the shard.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.inner.resident.writer().map_or(0, |writer| writer.epoch())
    }

    /// The shard that the rows go to.
    #[must_use]
    pub fn shard_id(&self) -> Uuid {
        self.inner.shards.own().id
    }

    /// The rows with `keys`, in that order.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn get_many(&self, keys: &[String], columns: &[String]) -> Result<Vec<Option<RecordBatch>>> {
        let mut attempt = 1;
        loop {
            let (snapshot, planned) = (self.snapshot().await?, self.planned()?);
            let sources = self.sources(&snapshot, planned.as_ref());
            match self.inner.get_many_from(&snapshot.base, &sources, keys, columns).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt = self.again(attempt).await,
                outcome => return outcome.map_err(storage(self.inner.store(), "read")),
            }
        }
    }

    /// The rows whose `column`, one of the store's lookup columns, has one of `values`; in no particular order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another column, [`Error::Storage`].
    pub async fn find_many(&self, column: &str, values: &[String], columns: &[String]) -> Result<Vec<RecordBatch>> {
        self.inner.check_lookup(column)?;
        let wanted = Wanted { column, values, columns };
        let mut attempt = 1;
        loop {
            let (snapshot, planned) = (self.snapshot().await?, self.planned()?);
            let sources = self.sources(&snapshot, planned.as_ref());
            match self.inner.find_in(&snapshot.base, &sources, wanted, None).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt = self.again(attempt).await,
                outcome => return outcome.map_err(storage(self.inner.store(), "read")),
            }
        }
    }

    /// One snapshot for all plans of a write: nobody else writes to this shard meanwhile.
    async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let mut kept = self.snapshot.lock().await;
        if let Some(snapshot) = &*kept {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(self.inner.snapshot(Some(ReadMode::Latest)).await?);
        *kept = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Files of the snapshot were collected by another process: the next read takes another one.
    async fn again(&self, attempt: u32) -> u32 {
        *self.snapshot.lock().await = None;
        attempt + 1
    }

    fn planned(&self) -> Result<Option<InMemoryMemTables>> {
        let planned = self.planned.lock().map_err(|_| poisoned())?;
        Ok(planned.as_ref().map(|rows| rows.memtables(u64::MAX)))
    }

    /// What will be written is newer than everything, and where rows are never replaced it is the last that counts.
    fn sources<'s>(&self, snapshot: &'s Snapshot, planned: Option<&'s InMemoryMemTables>) -> Vec<Source<'s>> {
        let mut sources = self.inner.sources(snapshot);
        if let Some(planned) = planned {
            let at = if self.inner.kind.append_only { sources.len() } else { 0 };
            sources.insert(
                at,
                Source::Memory {
                    shard_id: self.shard_id(),
                    table: &planned.active,
                    last: last_visible_row(&planned.active),
                },
            );
        }
        sources
    }

    /// Lets later plans see `rows`.
    fn add(&self, rows: &[RecordBatch], plans: usize) -> Result<()> {
        let Some(rows) = whole(rows)? else { return Ok(()) };
        let mut planned = self.planned.lock().map_err(|_| poisoned())?;
        let tail = match planned.as_mut() {
            Some(tail) => tail,
            None => planned.insert(Tail::new(self.inner.kind, &*self.inner.base.seen()?, 0, plans)?),
        };
        tail.append_rows(rows)
    }
}

/// `rows` as one batch; `None` for none.
fn whole(rows: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    let Some(first) = rows.first() else { return Ok(None) };
    let whole = arrow::compute::concat_batches(&first.schema(), rows).map_err(|e| Error::Internal {
        message: "batches of one plan differ in schema".to_owned(),
        source: Some(Box::new(e)),
    })?;
    Ok((whole.num_rows() > 0).then_some(whole))
}

/// The plans of one WAL write.
pub(super) struct Plans {
    plans: Vec<Arc<dyn Plan>>,
    /// What became of the first of them; the others did not fit.
    results: SyncMutex<Vec<Result<Outcome>>>,
}

impl Plans {
    pub fn new(plans: Vec<Arc<dyn Plan>>) -> Self {
        Self { plans, results: SyncMutex::default() }
    }

    /// The rows of as many plans as go into one write.
    ///
    /// Boxed, because the compiler loses track of what is `Send` through the task's many layers.
    pub fn payload<'a>(&'a self, inner: &'a Inner) -> BoxFuture<'a, Result<Payload>> {
        async move {
            let stored = Stored::new(inner);
            let (mut all, mut results) = (Vec::new(), Vec::with_capacity(self.plans.len()));
            let (mut rows, mut bytes) = (0, 0);
            for plan in &self.plans {
                let planned = match plan.plan(&stored).await.and_then(checked) {
                    Ok(planned) => planned,
                    Err(error) => {
                        results.push(Err(error));
                        continue;
                    }
                };
                let (more_rows, more_bytes) = size(&planned.rows);
                if rows > 0 && (rows + more_rows > MAX_ADD_ROWS || bytes + more_bytes > MAX_ADD_BYTES) {
                    break;
                }
                (rows, bytes) = (rows + more_rows, bytes + more_bytes);
                stored.add(&planned.rows, self.plans.len())?;
                all.extend(planned.rows.into_iter().filter(|batch| batch.num_rows() > 0));
                results.push(Ok(planned.outcome));
            }
            *self.results.lock().map_err(|_| poisoned())? = results;
            Ok(Payload::Rows(coalesce(&all)?))
        }
        .boxed()
    }

    /// What the last call of [`Plans::payload`] came to, plan by plan.
    pub fn take_results(&self) -> Vec<Result<Outcome>> {
        self.results.lock().map(|mut results| std::mem::take(&mut *results)).unwrap_or_default()
    }
}

fn size(rows: &[RecordBatch]) -> (usize, usize) {
    let bytes = rows.iter().map(RecordBatch::get_array_memory_size).sum();
    (rows.iter().map(RecordBatch::num_rows).sum(), bytes)
}

/// A plan's rows go into one write, or it is refused.
fn checked(planned: Planned) -> Result<Planned> {
    let (rows, bytes) = size(&planned.rows);
    check_size(rows, bytes)?;
    Ok(planned)
}
