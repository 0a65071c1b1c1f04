//! What the engine has to say, as records of Python's `logging`.
//!
//! Events of this package go to the logger `lance_context.<module>`. They are handed over by a thread of their own
//! through a bounded queue: a worker of the engine never waits for the GIL or for a handler of the user's. What does
//! not fit into the queue is counted, and the count is logged.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Records that may wait for a slow handler.
const QUEUE: usize = 1024;

/// The crates whose events are passed on.
const OURS: &str = "lance_context_";

struct Record {
    logger: String,
    level: u8,
    message: String,
}

struct Bridge {
    records: SyncSender<Record>,
    ended: Receiver<()>,
}

static BRIDGE: Mutex<Option<Bridge>> = Mutex::new(None);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Starts to pass events on. Once a process is enough.
pub fn start() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let (records, queue) = mpsc::sync_channel(QUEUE);
        let (end, ended) = mpsc::sync_channel(1);
        let spawned = thread::Builder::new().name("lance-context-log".into()).spawn(move || {
            for record in queue {
                emit(record);
            }
            // The receiver is gone when nobody waited for the end.
            let _ = end.send(());
        });
        // Without a thread or with another subscriber in place, events go nowhere, as they did before.
        if spawned.is_ok() {
            *BRIDGE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Bridge { records, ended });
            let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Forward));
        }
    });
}

/// Passes on what waits, for at most `limit`, and nothing afterwards.
pub fn stop(py: Python<'_>, limit: Duration) {
    let Some(Bridge { records, ended }) = BRIDGE.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    drop(records);
    // An elapsed limit means that a handler hangs; the process is ending.
    let _ = py.detach(move || ended.recv_timeout(limit));
}

struct Forward;

impl<S: Subscriber> Layer<S> for Forward {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with(OURS) && *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        let record = Record {
            logger: logger(metadata.target()),
            level: level(*metadata.level()),
            message: format!("{}{}", text.message, text.fields),
        };
        let bridge = BRIDGE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bridge) = &*bridge
            && let Err(TrySendError::Full(_)) = bridge.records.try_send(record)
        {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// `lance_context_core::storage::writer` logs as `lance_context.storage.writer`.
fn logger(target: &str) -> String {
    let module = target.split_once("::").map_or("", |(_, module)| module);
    std::iter::once("lance_context")
        .chain(module.split("::").filter(|part| !part.is_empty()))
        .collect::<Vec<_>>()
        .join(".")
}

/// <https://docs.python.org/3/library/logging.html#logging-levels>
const fn level(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        _ => 10,
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a `String` cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

fn emit(record: Record) {
    let lost = DROPPED.swap(0, Ordering::Relaxed);
    // An interpreter that is gone has nobody to tell, and what a handler of the user's raises is the handler's affair:
    // `logging` reports it itself.
    let _ = Python::try_attach(|py| {
        if lost > 0 {
            let message = format!("{lost} messages were dropped, because a logging handler is slow");
            drop(log(py, &Record { logger: "lance_context".into(), level: level(Level::WARN), message }));
        }
        drop(log(py, &record));
    });
}

fn log(py: Python<'_>, record: &Record) -> PyResult<()> {
    let logger = py.import(intern!(py, "logging"))?.call_method1(intern!(py, "getLogger"), (&record.logger,))?;
    logger.call_method1(intern!(py, "log"), (record.level, "%s", &record.message)).map(drop)
}
