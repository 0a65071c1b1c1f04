//! The one place that starts background tasks, so that no other module detaches work by accident.

use std::future::Future;

use lance_context_spec::{Error, Result};
use tokio::task::JoinHandle;

/// Runs `future` on the current runtime, detached from the caller's cancellation.
#[expect(clippy::disallowed_methods, reason = "the one place that may detach a task")]
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
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
