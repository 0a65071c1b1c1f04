//! The one place that starts background tasks, so that no other module detaches work by accident.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use lance_context_spec::{Error, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Where writers work; none for where their stores are opened.
static WRITERS: RwLock<Vec<Handle>> = RwLock::new(Vec::new());

/// Lets the writers of the stores that this process opens from here on work on these runtimes, by turns.
///
/// A writer hands each small write on to other tasks and back. On a runtime with a single worker that wakes no other
/// worker, which would take as long as the write (`docs/design/016-workers-for-writers.md`). The runtimes must live as
/// long as the one on which stores are opened.
pub fn write_on(runtimes: Vec<Handle>) {
    *WRITERS.write().unwrap_or_else(PoisonError::into_inner) = runtimes;
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

/// The same where the next writer works.
pub(crate) fn spawn_writer<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let writers = WRITERS.read().unwrap_or_else(PoisonError::into_inner);
    let turn = TURN.fetch_add(1, Ordering::Relaxed).checked_rem(writers.len());
    match turn.and_then(|turn| writers.get(turn)) {
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use lance_context_spec::{MaintenanceOptions, OpenOptions, SchemaSpec, Value};
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Notify;

    use super::*;
    use crate::GenericStore;
    use crate::codec::RowEncoder;
    use crate::storage::{Location, Step, StepObserver};

    /// What a process has one of.
    static TOLD: Mutex<()> = Mutex::new(());

    fn runtime(name: &str) -> Runtime {
        let builder = &mut Builder::new_multi_thread();
        builder.worker_threads(1).thread_name(name).thread_stack_size(8 << 20).enable_all().build().unwrap()
    }

    fn here() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    #[test]
    fn writers_work_where_they_are_told_to_by_turns() {
        let _told = TOLD.lock().unwrap();
        let (opened, one, two) = (runtime("opened"), runtime("one"), runtime("two"));
        let at_work = || opened.block_on(async { spawn_writer(async { here() }).await.unwrap() });
        assert_eq!(at_work(), "opened");
        write_on(vec![one.handle().clone(), two.handle().clone()]);
        let mut names: Vec<_> = (0..4).map(|_| at_work()).collect();
        names.sort();
        assert_eq!(names, ["one", "one", "two", "two"]);
        write_on(Vec::new());
        assert_eq!(at_work(), "opened");
    }

    /// Where each step was taken.
    #[derive(Debug, Default)]
    struct Places {
        steps: Mutex<Vec<(Step, String)>>,
        merged: Notify,
    }

    impl StepObserver for Places {
        fn before(&self, step: Step) -> BoxFuture<'_, ()> {
            async move {
                self.steps.lock().unwrap().push((step, here()));
                if step == Step::CommitMerge {
                    self.merged.notify_one();
                }
            }
            .boxed()
        }
    }

    #[test]
    fn a_writer_leaves_the_upkeep_to_where_its_store_was_opened() {
        let _told = TOLD.lock().unwrap();
        let (opened, writers) = (runtime("opened"), runtime("writers"));
        let (directory, places) = (tempfile::tempdir().unwrap(), Arc::new(Places::default()));
        let schema = SchemaSpec::parse(r#"{"id": "string"}"#).unwrap();
        let mut encoder = RowEncoder::new(Arc::new(schema.clone()), 1);
        encoder.set(0, Value::Str("a".into())).unwrap();
        encoder.end_row().unwrap();
        let row = encoder.finish().unwrap();
        let maintenance = MaintenanceOptions { merge_generations: 1, ..MaintenanceOptions::default() };
        let options = OpenOptions { maintenance: Some(maintenance), ..OpenOptions::default() };
        write_on(vec![writers.handle().clone()]);
        opened.block_on(async {
            let uri = directory.path().join("store").to_str().unwrap().to_owned();
            let location = Location::parse(&uri).unwrap().observed(Arc::clone(&places) as _);
            let store = GenericStore::open_at(location, Some(schema), options).await.unwrap();
            store.add(row).await.unwrap();
            store.flush().await.unwrap();
            tokio::time::timeout(Duration::from_secs(60), places.merged.notified()).await.unwrap();
            store.close().await.unwrap();
        });
        write_on(Vec::new());
        let steps = places.steps.lock().unwrap();
        let taken = |step: Step| steps.iter().find(|(taken, _)| *taken == step).unwrap().1.as_str();
        assert_eq!(
            [Step::Claim, Step::Put, Step::Seal, Step::CommitMerge].map(taken),
            ["writers", "writers", "writers", "opened"]
        );
    }
}
