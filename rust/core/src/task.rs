//! The one place that starts background tasks, so that no other module detaches work by accident.

use std::future::Future;
use std::sync::{PoisonError, RwLock};

use lance_context_spec::{Error, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Where writers work; `None` for where their stores are opened.
static WRITERS: RwLock<Option<Handle>> = RwLock::new(None);

/// Lets the writers of the stores that this process opens from here on work on that runtime.
///
/// With a single worker it wakes no second one at each step of a small write, which takes as long as the write, and what
/// reads does not hold it up (`docs/design/016-a-worker-for-writers.md`). It must live as long as the current runtime.
pub fn write_on(runtime: Handle) {
    *WRITERS.write().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
}

/// Runs `future` on the current runtime, detached from the caller's cancellation.
#[expect(clippy::disallowed_methods, reason = "the one place that may detach a task")]
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// The same on that runtime.
pub(crate) fn spawn_on<F>(runtime: &Handle, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    runtime.spawn(future)
}

/// The same where writers work.
pub(crate) fn spawn_writer<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match &*WRITERS.read().unwrap_or_else(PoisonError::into_inner) {
        Some(writers) => spawn_on(writers, future),
        None => spawn(future),
    }
}

/// Waits for a spawned operation. Spawning keeps lance's very large futures off the caller's stack and
/// lets an operation that has begun to write run to its end.
pub(crate) async fn join<T>(handle: JoinHandle<Result<T>>) -> Result<T> {
    match handle.await {
        Ok(outcome) => outcome,
        Err(e) if e.is_cancelled() => Err(Error::RuntimeStopped),
        Err(e) => Err(Error::Internal { message: format!("a task panicked: {e}"), source: Some(Box::new(e)) }),
    }
}

/// # Errors
/// [`Error::RuntimeStopped`] once the current runtime starts nothing any more.
pub(crate) async fn check_running() -> Result<()> {
    join(spawn(async { Ok(()) })).await
}
