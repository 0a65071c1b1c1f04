//! The writer task: the only place that claims a shard, puts rows, and seals.
//!
//! One task owns the order of puts and seals, so that a seal never overtakes a put (lance would export
//! a partial key index). Callers that arrive while a WAL write is under way are written together by the
//! next one. The lance writer is opened by the first write and kept; a fence by another writer is
//! answered by claiming the shard again, a bounded number of times.
//!
//! Lance notices a fence only when the slot that it writes to is taken, and slots are freed by
//! collection. So a put is acknowledged only if no other writer's entries can have been collected since
//! this one was last known to own the shard: within half of `gc_grace`, or verified behind the put.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use arrow::array::RecordBatch;
use lance::dataset::mem_wal::ShardWriter;
use lance_context_spec::{Error, Result};
use tokio::sync::{mpsc, oneshot};

use super::claim::Unclaimed;
use super::edit::Edit;
use super::landed::{Landed, precedes_claim};
use super::payload::{Payload, Source, coalesce, put_durably};
use super::plan::{Outcome, Plan, Plans};
use super::shards::Ownership;
use super::steps::Step;
use super::{Inner, MAX_ADD_BYTES, MAX_ADD_ROWS, claim, landed, maintain};
use crate::error::{fenced_by_peer, replicate, storage};
use crate::looking::Lookout;
use crate::{clock, task};

/// Adds that may wait for the task before callers wait for a place.
const QUEUE: usize = 1024;

/// So many plans share one write at most: the first of them waits for the last.
const GROUP_PLANS: usize = 256;

/// A memtable is sealed at this many batches or rows, or at the bytes that the handle was opened with.
const SEAL_BATCHES: usize = 8_000;
const SEAL_ROWS: usize = MAX_ADD_ROWS;

/// Lance seals at these, which lie above what this task lets a memtable reach. They also bound what a claim can
/// replay, so a store keeps the greatest that it was ever written under.
pub(super) const MEMTABLE_ROWS: usize = 2 * SEAL_ROWS;
pub(super) const MEMTABLE_BATCHES: usize = 2 * SEAL_BATCHES;

/// Fences answered by a new claim before the caller gets the error.
const CLAIM_ATTEMPTS: u32 = 12;

/// How long a background seal that failed waits before the next attempt.
const SEAL_RETRY: Duration = Duration::from_secs(5);

/// How long the task looks for the next command before it sleeps: as long as a caller takes to send small writes in a row.
const LOOKING: Duration = Duration::from_micros(150);

/// One writer of the process at a time looks.
static LOOKOUT: Lookout = Lookout::new();

type Reply<T = ()> = oneshot::Sender<Result<T>>;

pub(super) enum Command {
    Add(RecordBatch, Reply),
    Edit(Edit, Reply<usize>),
    Append(Arc<dyn Plan>, Reply<Outcome>),
    Flush(Reply),
    /// Drop merged generations, up to this one, from the shard manifest.
    Trim(u64, Reply),
    Close(Reply),
}

/// The sending half: hands work to the task and waits for its reply.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    inner: Arc<Inner>,
    commands: mpsc::Sender<Command>,
}

/// The open lance writer, as reads see it.
#[derive(Default)]
pub(super) struct Resident {
    writer: RwLock<Option<(Arc<ShardWriter>, Ownership)>>,
    unsealed_rows: AtomicU64,
}

impl std::fmt::Debug for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let epoch = self.writer().map(|writer| writer.epoch());
        f.debug_struct("Resident").field("epoch", &epoch).field("unsealed_rows", &self.unsealed_rows).finish()
    }
}

impl Resident {
    /// The open writer, if this handle has one.
    pub fn writer(&self) -> Option<Arc<ShardWriter>> {
        self.writer.read().ok()?.as_ref().map(|(writer, _)| Arc::clone(writer))
    }

    pub fn unsealed_rows(&self) -> u64 {
        self.unsealed_rows.load(Ordering::Acquire)
    }

    fn replace(&self, writer: Option<(Arc<ShardWriter>, Ownership)>) {
        if let Ok(mut slot) = self.writer.write() {
            *slot = writer;
        }
    }
}

impl Writer {
    /// Starts the task. It claims nothing until the first command.
    pub fn start(inner: Arc<Inner>) -> Self {
        let (commands, queue) = mpsc::channel(QUEUE);
        let lane = Lane {
            inner: Arc::clone(&inner),
            commands: commands.downgrade(),
            rows: 0,
            batches: 0,
            bytes: 0,
            first_at: Duration::ZERO,
            last_at: Duration::ZERO,
            retry_at: Duration::ZERO,
            owned_at: Duration::ZERO,
        };
        drop(task::spawn_writer(lane.run(queue)));
        Self { inner, commands }
    }

    /// The sending half again, while the handle lives.
    pub fn revive(inner: Arc<Inner>, commands: &mpsc::WeakSender<Command>) -> Option<Self> {
        Some(Self { commands: commands.upgrade()?, inner })
    }

    pub async fn add(&self, batch: RecordBatch) -> Result<()> {
        self.ask(|reply| Command::Add(batch, reply)).await
    }

    /// Returns how many rows were written or deleted.
    pub async fn edit(&self, edit: Edit) -> Result<usize> {
        self.ask(|reply| Command::Edit(edit, reply)).await
    }

    pub async fn append(&self, plan: Arc<dyn Plan>) -> Result<Outcome> {
        self.ask(|reply| Command::Append(plan, reply)).await
    }

    pub async fn flush(&self) -> Result<()> {
        self.ask(Command::Flush).await
    }

    pub async fn trim(&self, merged: u64) -> Result<()> {
        self.ask(|reply| Command::Trim(merged, reply)).await
    }

    pub async fn close(&self) -> Result<()> {
        self.ask(Command::Close).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(command(reply)).await.is_ok()
            && let Ok(outcome) = answer.await
        {
            return outcome;
        }
        self.inner.check_open()?;
        task::check_running().await?;
        Err(Error::Internal { message: "the writer task ended; open the store again".to_owned(), source: None })
    }
}

/// What the task does next.
enum Next {
    Command(Command),
    SealDue,
    /// Every sender is gone.
    End,
}

/// The task's own state: what the active memtable holds.
struct Lane {
    inner: Arc<Inner>,
    commands: mpsc::WeakSender<Command>,
    rows: usize,
    batches: usize,
    bytes: usize,
    /// When the first and the last unsealed row were written.
    first_at: Duration,
    last_at: Duration,
    /// No background seal before this.
    retry_at: Duration,
    /// When, by the clock that counts suspension, the shard was last known to be this writer's.
    owned_at: Duration,
}

impl Lane {
    async fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        let mut carried = None;
        loop {
            let command = match carried.take() {
                Some(command) => command,
                None => match self.next(&mut queue).await {
                    Next::Command(command) => command,
                    Next::SealDue => {
                        self.seal_in_background().await;
                        continue;
                    }
                    Next::End => break,
                },
            };
            match command {
                Command::Add(batch, reply) => {
                    let mut group = vec![(batch, reply)];
                    carried = gather(&mut queue, &mut group);
                    self.add(group).await;
                }
                Command::Edit(edit, reply) => answer(reply, self.edit(edit).await),
                Command::Append(plan, reply) => {
                    let mut group = vec![(plan, reply)];
                    carried = gather_plans(&mut queue, &mut group);
                    self.append(group).await;
                }
                Command::Flush(reply) => answer(reply, self.flush().await),
                Command::Trim(merged, reply) => answer(reply, self.trim(merged).await),
                Command::Close(reply) => {
                    queue.close();
                    answer(reply, self.close().await);
                }
            }
        }
        self.inner.maintenance.stop();
        // The handle was dropped without a close: seal for the readers, best effort.
        if let Err(error) = self.close().await {
            tracing::warn!(store = %self.inner.store(), %error, "rows stay durable and unsealed");
        }
    }

    async fn next(&self, queue: &mut mpsc::Receiver<Command>) -> Next {
        if let Some(command) = look_for(queue).await {
            return Next::Command(command);
        }
        let received = match self.seal_due_in() {
            None => queue.recv().await,
            Some(wait) => match tokio::time::timeout(wait, queue.recv()).await {
                Ok(received) => received,
                Err(_) => return Next::SealDue,
            },
        };
        received.map_or(Next::End, Next::Command)
    }

    /// How long unsealed rows may wait for company.
    fn seal_due_in(&self) -> Option<Duration> {
        let options = self.inner.maintenance.options.as_ref()?;
        if self.rows == 0 {
            return None;
        }
        let idle_at = self.last_at.saturating_add(options.seal_idle);
        let due = idle_at.min(self.first_at.saturating_add(options.seal_age)).max(self.retry_at);
        Some(due.saturating_sub(clock::since_boot()))
    }

    /// Seals because of the time that passed. Claims nothing: rows of a lost shard are the new owner's to seal.
    async fn seal_in_background(&mut self) {
        if let Err(error) = self.close_seal().await {
            self.retry_at = clock::since_boot() + SEAL_RETRY;
            tracing::warn!(store = %self.inner.store(), %error, "rows stay durable and unsealed for now");
            // A seal that succeeds wakes the upkeep, whose own outcome takes the place of this one.
            self.inner.maintenance.report(Err(error));
        }
    }

    /// Writes a group as one WAL entry and tells every caller.
    async fn add(&mut self, group: Vec<(RecordBatch, Reply)>) {
        let (batches, replies): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let outcome = match coalesce(&batches) {
            Ok(batches) => self.write(&Source::Rows(Payload::Rows(batches))).await,
            Err(e) => Err(e),
        };
        let outcome = self.seal_added(outcome.map(drop)).await;
        let mut replies = replies.into_iter();
        let first = replies.next();
        for reply in replies {
            answer(reply, outcome.as_ref().copied().map_err(replicate));
        }
        if let Some(reply) = first {
            answer(reply, outcome);
        }
    }

    /// Applies an edit, in as many WAL entries as it needs.
    async fn edit(&mut self, edit: Edit) -> Result<usize> {
        let is_repeated = edit.is_repeated();
        let source = Source::Edit(Arc::new(edit));
        let mut count = 0;
        loop {
            let written = self.write(&source).await?;
            count += written;
            if written < MAX_ADD_ROWS || !is_repeated {
                break;
            }
        }
        self.seal_added(Ok(())).await?;
        Ok(count)
    }

    /// Writes what the plans of a group come to, in as few WAL entries as it takes, and tells every caller.
    async fn append(&mut self, mut group: Vec<(Arc<dyn Plan>, Reply<Outcome>)>) {
        while !group.is_empty() {
            let plans = Arc::new(Plans::new(group.iter().map(|(plan, _)| Arc::clone(plan)).collect()));
            let written = self.write(&Source::Plans(Arc::clone(&plans))).await.map(drop);
            let written = self.seal_added(written).await;
            let results = plans.take_results();
            match written {
                Ok(()) if results.is_empty() => return,
                Ok(()) => {
                    let told: Vec<_> = group.drain(..results.len().min(group.len())).zip(results).collect();
                    let told: Vec<_> = told
                        .into_iter()
                        .map(|((plan, reply), result)| (reply, result.map(|outcome| plan.written(outcome))))
                        .collect();
                    for (reply, result) in told {
                        answer(reply, result);
                    }
                }
                // A plan can also have failed because of rows that were to be written with it.
                Err(error) => {
                    let failed = if results.is_empty() { group.len() } else { results.len() };
                    for (_, reply) in group.drain(..failed.min(group.len())) {
                        answer(reply, Err(replicate(&error)));
                    }
                }
            }
        }
    }

    async fn seal_added(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_ok() && self.inner.meta.seal_on_add { self.flush().await } else { outcome }
    }

    /// Writes what `source` gives as one WAL entry and returns its number of rows. Whenever another writer came
    /// in between, the payload is asked for again.
    async fn write(&mut self, source: &Source) -> Result<usize> {
        for attempt in 0..CLAIM_ATTEMPTS {
            let writer = self.writer().await?;
            if !self.owns(&writer).await? {
                self.discard().await;
                clock::back_off(attempt).await;
                continue;
            }
            let payload = source.payload(&self.inner).await?;
            if payload.rows() == 0 {
                return Ok(0);
            }
            if self.is_full_with(&payload) {
                self.flush().await?;
            }
            // A flush may have had to claim anew; then the plan is of another time.
            if !self.inner.resident.writer().is_some_and(|resident| Arc::ptr_eq(&resident, &writer)) {
                continue;
            }
            self.inner.before(Step::Put).await;
            let began = clock::since_boot();
            let put = put_durably(&writer, payload.clone()).await;
            self.inner.before(Step::Acknowledge).await;
            match put {
                Ok(()) if self.owns(&writer).await? => {
                    self.grow(payload.rows(), payload.batches().len(), payload.bytes());
                    return Ok(payload.rows());
                }
                Ok(()) => {
                    let kept = precedes_claim(&self.inner, &writer, writer.wal_stats().next_wal_entry_position).await;
                    self.discard().await;
                    return if kept? { Ok(payload.rows()) } else { Err(self.uncertain()) };
                }
                Err(e) if fenced_by_peer(&e) => {
                    let landed = landed::landed(&self.inner, &writer).await;
                    self.discard().await;
                    match landed? {
                        // Written anew, behind the other writer's rows.
                        Landed::No => clock::back_off(attempt).await,
                        Landed::BeforeClaim => return Ok(payload.rows()),
                        Landed::Unknown => return Err(self.uncertain()),
                    }
                }
                Err(e) => {
                    self.discard().await;
                    return Err(landed::failed(&self.inner, began, e));
                }
            }
        }
        Err(self.fenced())
    }

    fn is_full_with(&self, payload: &Payload) -> bool {
        self.rows > 0
            && (self.rows + payload.rows() > SEAL_ROWS
                || self.batches + payload.batches().len() > SEAL_BATCHES
                || self.bytes.saturating_add(payload.bytes()) > self.inner.max_memtable_bytes)
    }

    /// Whether the shard is still `writer`'s, looking at storage only when it was not known lately.
    async fn owns(&mut self, writer: &ShardWriter) -> Result<bool> {
        let now = clock::since_boot();
        if now.saturating_sub(self.owned_at) < self.inner.meta.gc_grace / 2 {
            return Ok(true);
        }
        let owner = self.inner.shards.own().manifest().await?.map_or(0, |manifest| manifest.writer_epoch);
        if owner == writer.epoch() {
            self.owned_at = now;
        }
        Ok(owner == writer.epoch())
    }

    fn grow(&mut self, rows: usize, batches: usize, bytes: usize) {
        self.last_at = clock::since_boot();
        if self.rows == 0 {
            self.first_at = self.last_at;
        }
        self.rows += rows;
        self.batches += batches;
        self.bytes += bytes;
        self.inner.resident.unsealed_rows.store(self.rows as u64, Ordering::Release);
    }

    fn reset(&mut self) {
        (self.rows, self.batches, self.bytes) = (0, 0, 0);
        self.inner.resident.unsealed_rows.store(0, Ordering::Release);
    }

    fn uncertain(&self) -> Error {
        Error::WriteUncertain { store: self.inner.store().to_owned() }
    }

    fn fenced(&self) -> Error {
        Error::WriterFenced { store: self.inner.store().to_owned(), attempts: CLAIM_ATTEMPTS }
    }

    /// The open writer, claiming the shard if there is none. What a claim replays is sealed at once, so
    /// that unsealed rows do not pile up over many short-lived processes.
    async fn writer(&mut self) -> Result<Arc<ShardWriter>> {
        for attempt in 0..CLAIM_ATTEMPTS {
            if let Some(writer) = self.inner.resident.writer() {
                return Ok(writer);
            }
            match self.claim().await {
                Ok(writer) => return Ok(writer),
                Err(Unclaimed::Lost) => {
                    self.discard().await;
                    clock::back_off(attempt).await;
                }
                Err(Unclaimed::Failed(e)) => {
                    self.discard().await;
                    return Err(e);
                }
            }
        }
        Err(self.fenced())
    }

    async fn claim(&mut self) -> Result<Arc<ShardWriter>, Unclaimed> {
        let inner = Arc::clone(&self.inner);
        let failed = |operation| claim::unclaimed(inner.store(), operation);
        let claimed_at = clock::since_boot();
        let writer = claim::claim(&inner, inner.shards.own()).await?;
        self.owned_at = claimed_at;
        let owned = Ownership::of(&inner.location.lance_uri, inner.shards.own().id);
        inner.resident.replace(Some((Arc::clone(&writer), owned)));
        maintain::start(&inner, &self.commands);
        if let Some(replayed) = claim::replayed(&writer).await.map_err(failed("claim"))? {
            self.grow(replayed.rows, replayed.batches, replayed.bytes);
            inner.before(Step::SealReplayed).await;
            self.try_seal().await.map_err(failed("seal"))?;
            self.reset();
        }
        Ok(writer)
    }

    /// Seals what this or a dead writer left durable. Claims only if there is something to seal.
    ///
    /// A stalled writer can find its seal committed after another one took the shard and its files were collected;
    /// so a seal counts only if the shard is still known to be this writer's.
    async fn flush(&mut self) -> Result<()> {
        if self.inner.resident.writer().is_none() && !self.inner.shards.own().has_unsealed_rows().await? {
            return Ok(());
        }
        for attempt in 0..CLAIM_ATTEMPTS {
            let writer = self.writer().await?;
            match self.try_seal().await {
                Ok(()) if !self.owns(&writer).await? => {
                    self.discard().await;
                    if !self.inner.shards.own().has_unsealed_rows().await? {
                        return Ok(());
                    }
                }
                // The other writer's claim has replayed and sealed these rows, or this one will.
                Err(e) if fenced_by_peer(&e) => {
                    self.discard().await;
                    clock::back_off(attempt).await;
                    if !self.inner.shards.own().has_unsealed_rows().await? {
                        return Ok(());
                    }
                }
                outcome => return self.sealed(outcome).await,
            }
        }
        Err(self.fenced())
    }

    async fn try_seal(&mut self) -> lance::Result<()> {
        let Some(writer) = self.inner.resident.writer() else { return Ok(()) };
        self.inner.before(Step::Seal).await;
        claim::seal(&self.inner, self.inner.shards.own(), &writer).await
    }

    /// A failed seal poisons the lance writer: the next write claims anew and replays the WAL.
    async fn sealed(&mut self, outcome: lance::Result<()>) -> Result<()> {
        match outcome {
            Ok(()) => {
                self.reset();
                self.inner.maintenance.wake();
                Ok(())
            }
            Err(e) => {
                self.discard().await;
                Err(storage(self.inner.store(), "seal")(e))
            }
        }
    }

    async fn trim(&mut self, merged: u64) -> Result<()> {
        let writer = self.writer().await?;
        match claim::trim(&writer, merged).await {
            Ok(()) => Ok(()),
            // The other writer trims at its own next merge.
            Err(e) if fenced_by_peer(&e) => {
                self.discard().await;
                Ok(())
            }
            Err(e) => Err(storage(self.inner.store(), "trim")(e)),
        }
    }

    async fn close(&mut self) -> Result<()> {
        let outcome = if self.rows > 0 { self.close_seal().await } else { Ok(()) };
        self.discard().await;
        outcome
    }

    async fn close_seal(&mut self) -> Result<()> {
        match self.try_seal().await {
            // The rows belong to the writer that took over; its claim has replayed them.
            Err(e) if fenced_by_peer(&e) => {
                self.discard().await;
                Ok(())
            }
            outcome => self.sealed(outcome).await,
        }
    }

    /// Lets go of the lance writer without sealing; its rows stay in the WAL.
    async fn discard(&mut self) {
        if let Some(writer) = self.inner.resident.writer() {
            self.inner.resident.replace(None);
            claim::release(&self.inner, &writer).await;
        }
        self.reset();
    }
}

/// What comes while the callers who were just answered may send more.
async fn look_for(queue: &mut mpsc::Receiver<Command>) -> Option<Command> {
    let turn = LOOKOUT.begin(clock::now() + LOOKING)?;
    loop {
        match queue.try_recv() {
            Ok(command) => return Some(command),
            Err(_) if !turn.goes_on() => return None,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Takes the adds that already wait, up to one atomic add's limits; returns the first other command.
fn gather(queue: &mut mpsc::Receiver<Command>, group: &mut Vec<(RecordBatch, Reply)>) -> Option<Command> {
    let size = |batch: &RecordBatch| (batch.num_rows(), batch.get_array_memory_size());
    let (mut rows, mut bytes) = group.first().map_or((0, 0), |(batch, _)| size(batch));
    while let Ok(command) = queue.try_recv() {
        let Command::Add(batch, reply) = command else { return Some(command) };
        let (more_rows, more_bytes) = size(&batch);
        if rows + more_rows > MAX_ADD_ROWS || bytes + more_bytes > MAX_ADD_BYTES {
            return Some(Command::Add(batch, reply));
        }
        rows += more_rows;
        bytes += more_bytes;
        group.push((batch, reply));
    }
    None
}

/// Takes the plans that already wait; returns the first other command.
fn gather_plans(
    queue: &mut mpsc::Receiver<Command>,
    group: &mut Vec<(Arc<dyn Plan>, Reply<Outcome>)>,
) -> Option<Command> {
    while group.len() < GROUP_PLANS {
        match queue.try_recv() {
            Ok(Command::Append(plan, reply)) => group.push((plan, reply)),
            Ok(command) => return Some(command),
            Err(_) => break,
        }
    }
    None
}

/// A caller that went away needs no answer.
fn answer<T>(reply: Reply<T>, outcome: Result<T>) {
    drop(reply.send(outcome));
}
