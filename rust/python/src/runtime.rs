//! The tokio runtime of the process, and those of its writers.
//!
//! Ours, not the stock one of pyo3-async-runtimes, because it must be stopped with the GIL released
//! before the interpreter goes away, and because a forked child must be told: the parent's worker threads
//! do not exist there, their locks and caches are in whatever state they were, and joining them would hang.
//!
//! The slot is only ever locked by a thread that holds the GIL, and never across a release of it.
//! `os.fork` holds the GIL too, so a child never inherits a locked slot.

use std::mem;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lance_context_core::{clock, task};
use lance_context_spec::{Error, Result};
use pyo3::Python;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::log;

/// Plans over deeply nested filters recurse; tokio's default of 2 MiB is too small for debug builds.
const THREAD_STACK_BYTES: usize = 8 << 20;

/// So many runtimes for writers at most: stores share them, and a seal of one holds up those beside it.
const WRITERS: usize = 8;

enum Slot {
    Idle,
    Running { runtime: Runtime, writers: Vec<Runtime>, pid: u32 },
    Stopped,
}

static SLOT: Mutex<Slot> = Mutex::new(Slot::Idle);

/// The runtime of this process; started at the first call.
///
/// # Errors
///
/// [`Error::Forked`] in a child of the process that started it, [`Error::RuntimeStopped`] once [`stop`] ran.
pub fn handle(_gil: Python<'_>) -> Result<Handle> {
    let mut slot = SLOT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*slot {
        Slot::Running { runtime, pid, .. } if *pid == process::id() => Ok(runtime.handle().clone()),
        Slot::Running { .. } => Err(Error::Forked),
        Slot::Stopped => Err(Error::RuntimeStopped),
        Slot::Idle => {
            let cores = thread::available_parallelism().map_or(2, usize::from);
            let runtime = start(cores.max(2))?;
            let writers = (0..cores.clamp(2, WRITERS)).map(|_| start(1)).collect::<Result<Vec<_>>>()?;
            task::write_on(writers.iter().map(|writers| writers.handle().clone()).collect());
            log::start();
            let handle = runtime.handle().clone();
            *slot = Slot::Running { runtime, writers, pid: process::id() };
            Ok(handle)
        }
    }
}

/// Stops the runtimes for good, after `last` ran. Everything ends within `limit`, twice at most.
pub fn stop<F>(py: Python<'_>, limit: Duration, last: F)
where
    F: Future<Output = ()> + Send,
{
    let slot = mem::replace(&mut *SLOT.lock().unwrap_or_else(PoisonError::into_inner), Slot::Stopped);
    match slot {
        Slot::Running { runtime, writers, pid } if pid == process::id() => py.detach(move || {
            // An elapsed limit is the caller's own: at exit there is nobody left to tell.
            let _ = runtime.block_on(async { tokio::time::timeout(limit, last).await });
            let end = clock::now() + limit;
            // First the one by which callers tell why their writes were cut short.
            runtime.shutdown_timeout(limit);
            for writers in writers {
                writers.shutdown_timeout(end.saturating_duration_since(clock::now()));
            }
        }),
        parents @ Slot::Running { .. } => mem::forget(parents),
        Slot::Idle | Slot::Stopped => {}
    }
}

fn start(workers: usize) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("lance-context")
        .thread_stack_size(THREAD_STACK_BYTES)
        .enable_all()
        .build()
        .map_err(|error| Error::Internal {
            message: format!("no runtime could be started: {error}"),
            source: Some(Box::new(error)),
        })
}
