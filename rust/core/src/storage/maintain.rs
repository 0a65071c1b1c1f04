//! Upkeep in the background, once a handle has written: merging, collecting, rewriting, cleaning.
//!
//! The writer task seals by itself when rows have waited long enough; this one does what costs more. It
//! wakes after each seal, and from time to time for what had to wait for `gc_grace`. One store of a process is at
//! work at a time. A failure is reported by `stats` and tried again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::Duration;

use lance_context_spec::{MaintenanceOptions, Result};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::writer::{Command, Writer};
use super::{Inner, adopt, merge, optimize};
use crate::error::{storage, vanished};
use crate::{clock, task};

/// Limits of the time between two looks at what has become old enough to go.
const TICK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long a failure is left alone.
const RETRY: Duration = Duration::from_secs(5);

/// Old versions are looked for when there are so many new ones.
const CLEAN_VERSIONS: u64 = 16;

/// Heavy work of all stores of the process.
static AT_WORK: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::const_new(1));

/// The upkeep of one handle.
#[derive(Debug)]
pub(super) struct Maintenance {
    pub options: Option<MaintenanceOptions>,
    signal: Arc<Signal>,
    running: Mutex<Option<JoinHandle<()>>>,
    last_error: Mutex<Option<String>>,
    /// The version of the table at which old ones were last looked for.
    cleaned_at: AtomicU64,
}

#[derive(Debug, Default)]
struct Signal {
    wake: Notify,
    ended: AtomicBool,
}

impl Signal {
    /// Waits for the end. Wakes that come meanwhile are for the work that is about to begin anyway.
    async fn ending(&self) {
        while !self.ended.load(Ordering::Acquire) {
            self.wake.notified().await;
        }
    }
}

impl Maintenance {
    pub fn new(options: Option<MaintenanceOptions>) -> Self {
        Self {
            options,
            signal: Arc::default(),
            running: Mutex::default(),
            last_error: Mutex::default(),
            cleaned_at: AtomicU64::new(0),
        }
    }

    /// Something was sealed.
    pub fn wake(&self) {
        self.signal.wake.notify_one();
    }

    /// Lets what is under way come to its end, and begins nothing more.
    pub async fn end(&self) {
        self.stop();
        let running = self.running.lock().ok().and_then(|mut running| running.take());
        if let Some(running) = running {
            // It fails only by a panic, which its own thread has printed.
            drop(running.await);
        }
    }

    /// As [`end`](Self::end), without waiting.
    pub fn stop(&self) {
        self.signal.ended.store(true, Ordering::Release);
        self.wake();
    }

    /// Notes how a piece of work went.
    pub fn report(&self, outcome: Result<()>) {
        if let Ok(mut last) = self.last_error.lock() {
            *last = outcome.err().map(|error| error.to_string());
        }
    }

    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().ok()?.clone()
    }
}

/// When the upkeep is due, by the clock that counts suspension.
#[derive(Debug)]
struct Schedule {
    tick: Duration,
    looked_at: Duration,
    failed_at: Option<Duration>,
}

impl Schedule {
    fn new(tick: Duration, now: Duration) -> Self {
        Self { tick, looked_at: now, failed_at: None }
    }

    /// How long it may sleep if nothing wakes it.
    fn until_next(&self, now: Duration) -> Duration {
        self.looked_at.saturating_add(self.tick).max(self.rested_at()).saturating_sub(now)
    }

    /// Whether a failure is to be left alone for now, whatever wakes it.
    fn rests(&self, now: Duration) -> bool {
        now < self.rested_at()
    }

    fn rested_at(&self) -> Duration {
        self.failed_at.map_or(Duration::ZERO, |at| at.saturating_add(RETRY))
    }

    /// Begins a pass; whether it also looks at what only becomes due by the time that passes.
    fn begin(&mut self, now: Duration) -> bool {
        let look = now >= self.looked_at.saturating_add(self.tick);
        if look {
            self.looked_at = now;
        }
        look
    }
}

/// Starts the upkeep of a handle that has claimed, unless it runs or is not wanted.
pub(super) fn start(inner: &Arc<Inner>, commands: &mpsc::WeakSender<Command>) {
    let maintenance = &inner.maintenance;
    let Some(options) = maintenance.options.clone() else { return };
    let Ok(mut running) = maintenance.running.lock() else { return };
    if running.is_none() && !maintenance.signal.ended.load(Ordering::Acquire) {
        let (store, commands, signal) = (Arc::downgrade(inner), commands.clone(), Arc::clone(&maintenance.signal));
        let tick = inner.meta.gc_grace.clamp(TICK.0, TICK.1);
        *running = Some(task::spawn_on(&inner.runtime, run(store, commands, signal, options, tick)));
    }
}

/// Keeps neither the handle nor its writer task alive while it waits.
async fn run(
    store: Weak<Inner>,
    commands: mpsc::WeakSender<Command>,
    signal: Arc<Signal>,
    options: MaintenanceOptions,
    tick: Duration,
) {
    let mut schedule = Schedule::new(tick, clock::since_boot());
    loop {
        // Woken, or time for another look at what has become old.
        let until_next = schedule.until_next(clock::since_boot());
        drop(tokio::time::timeout(until_next, signal.wake.notified()).await);
        if signal.ended.load(Ordering::Acquire) {
            return;
        }
        if schedule.rests(clock::since_boot()) {
            continue;
        }
        // Another store may be long at work, and a close does not wait for it.
        let permit = tokio::select! {
            permit = AT_WORK.acquire() => permit,
            () = signal.ending() => return,
        };
        let Ok(_permit) = permit else { return };
        let Some(inner) = store.upgrade() else { return };
        let Some(writer) = Writer::revive(Arc::clone(&inner), &commands) else { return };
        let look = schedule.begin(clock::since_boot());
        let outcome = upkeep(&inner, &writer, &options, look).await;
        schedule.failed_at = outcome.is_err().then(clock::since_boot);
        if let Err(error) = &outcome {
            tracing::warn!(store = %inner.store(), %error, "maintenance failed and is tried again");
        }
        inner.maintenance.report(outcome);
    }
}

/// `look`: also at what only becomes due by the time that passes.
async fn upkeep(inner: &Inner, writer: &Writer, options: &MaintenanceOptions, look: bool) -> Result<()> {
    if look && inner.is_orphaned(options.orphan_after).await? {
        writer.flush().await?;
    }
    if look {
        adopt::adopt(inner, writer, options.orphan_after).await?;
    }
    let (generations, bytes) = inner.pending().await?;
    if generations >= options.merge_generations || bytes >= options.merge_bytes {
        merge::merge(inner, writer).await?;
    } else if look {
        inner.collect().await?;
    }
    let Ok(_alone) = inner.merging.try_lock() else { return Ok(()) };
    let view = inner.base.latest().await?;
    if optimize::is_fragmented(&view, options.compact_bytes) {
        optimize::compact(inner, options.compact_bytes).await?;
    }
    let version = inner.base.latest().await?.dataset.version().version;
    if version >= inner.maintenance.cleaned_at.load(Ordering::Relaxed) + CLEAN_VERSIONS {
        optimize::clean(inner, inner.meta.gc_grace).await?;
        inner.prune_manifests().await?;
        inner.remove_staged().await?;
        inner.maintenance.cleaned_at.store(version, Ordering::Relaxed);
    }
    Ok(())
}

impl Inner {
    /// Whether whoever took the shard from this handle left rows unsealed and has been silent for `silence`. It may be
    /// alive: then it claims the shard again when it writes.
    async fn is_orphaned(&self, silence: Duration) -> Result<bool> {
        let shard = self.shards.own();
        let Some(manifest) = shard.manifest().await? else { return Ok(false) };
        let owned = self.resident.writer().is_some_and(|writer| writer.epoch() == manifest.writer_epoch);
        Ok(!owned && shard.silent_for().await? >= silence && shard.has_unsealed_rows().await?)
    }

    /// Number and bytes of the generations of all shards that are not merged.
    pub(super) async fn pending(&self) -> Result<(usize, u64)> {
        let sealed = self.sealed().await?;
        let view = self.base.latest().await?;
        let (mut generations, mut bytes) = (0, 0);
        for (shard_id, sealed) in sealed {
            for sealed in sealed.into_iter().filter(|sealed| sealed.generation > view.merged(shard_id)) {
                match self.generation_bytes(&view, shard_id, &sealed.path).await {
                    Ok(size) => (generations, bytes) = (generations + 1, bytes + size),
                    // Another process merged and collected it meanwhile.
                    Err(e) if vanished(&e) => {}
                    Err(e) => return Err(storage(self.store(), "look at the generations")(e)),
                }
            }
        }
        Ok((generations, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_secs(1);

    #[test]
    fn a_look_is_taken_each_tick_and_a_wake_in_between_takes_none() {
        let mut schedule = Schedule::new(TICK, Duration::ZERO);
        assert_eq!(schedule.until_next(Duration::ZERO), TICK);
        assert!(!schedule.begin(TICK / 2), "woken before it was time");
        assert_eq!(schedule.until_next(TICK / 2), TICK / 2);
        assert!(schedule.begin(TICK));
        assert_eq!(schedule.until_next(TICK), TICK);
    }

    /// The pass that failed was long under way, so that the next look is overdue.
    #[test]
    fn a_failure_is_slept_out_and_not_spun_out() {
        let failed_at = 100 * TICK;
        let schedule = Schedule { failed_at: Some(failed_at), ..Schedule::new(TICK, Duration::ZERO) };
        for elapsed in [Duration::ZERO, RETRY / 2, RETRY - Duration::from_nanos(1)] {
            let now = failed_at + elapsed;
            assert!(schedule.rests(now), "tried again after {elapsed:?}");
            assert_eq!(schedule.until_next(now), RETRY - elapsed);
        }
        assert!(!schedule.rests(failed_at + RETRY));
        assert_eq!(schedule.until_next(failed_at + RETRY), Duration::ZERO);
    }
}
