//! One future, two ways to call it: blocking ([`wait`]) and awaitable ([`future`]).
//!
//! What takes long is spawned by the engine on the runtime of [`runtime`](crate::runtime). A blocking call polls what
//! is left on its own thread, which spares two switches of threads, and is also right inside a running event loop. A
//! panic in the future becomes an `InternalError`.
//! Cancellation (Ctrl-C, a cancelled asyncio task) drops the future; a write that has begun is owned
//! by the store and goes on.
//!
//! [`future`] does without `pyo3_async_runtimes::generic`: that one reports a panic as an exception
//! of its own, and prints a traceback when a result arrives after its event loop was closed.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use lance_context_spec::{Error, Result};
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, intern, type_hint_identifier, type_hint_subscript};

use crate::blocking::block_on;
use crate::errors;
use crate::runtime;

/// How long a blocking call goes without a look at pending signals.
const SLICE: Duration = Duration::from_millis(50);

/// What an operation does once its arguments are read.
pub trait Work<T>: Future<Output = Result<T>> + Send + 'static {}

impl<T, F: Future<Output = Result<T>> + Send + 'static> Work<T> for F {}

/// An awaitable that yields a `T`. Only its type hint tells it from a bare object.
pub struct Awaitable<'py, T> {
    promise: Bound<'py, PyAny>,
    result: PhantomData<T>,
}

impl<'py, T: IntoPyObject<'py>> IntoPyObject<'py> for Awaitable<'py, T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr =
        type_hint_subscript!(type_hint_identifier!("collections.abc", "Awaitable"), T::OUTPUT_TYPE);

    fn into_pyobject(self, _py: Python<'py>) -> PyResult<Self::Output> {
        Ok(self.promise)
    }
}

/// Runs `work` and blocks until it ends, with the GIL released.
///
/// Signal handlers run at least every 50 ms; when one raises (Ctrl-C), `work` is dropped and what the
/// handler raised is returned.
pub fn wait<T: Send + 'static>(py: Python<'_>, work: impl Work<T>) -> PyResult<T> {
    let runtime = runtime::handle(py).map_err(|error| errors::to_python(py, error))?;
    let outcome = py.detach(move || {
        let _entered = runtime.enter();
        block_on(Box::pin(outcome(work)), SLICE, || Python::attach(|py| py.check_signals()))
    })?;
    outcome.map_err(|error| errors::to_python(py, error))
}

/// Starts `work` and returns a future of the running asyncio loop.
///
/// Cancelling that future drops `work`. A result that arrives after the loop was closed is dropped
/// without a word: nobody is left who could await it.
pub fn future<T>(py: Python<'_>, work: impl Work<T>) -> PyResult<Awaitable<'_, T>>
where
    T: for<'py> IntoPyObject<'py> + Send + 'static,
{
    let runtime = runtime::handle(py).map_err(|error| errors::to_python(py, error))?;
    let event_loop = running_loop(py)?;
    let promise = event_loop.call_method0(intern!(py, "create_future"))?;

    let (to_loop, to_promise) = (event_loop.unbind(), promise.clone().unbind());
    let blocking = runtime.clone();
    let task = runtime.spawn(async move {
        let outcome = outcome(work).await;
        // Conversion waits for the GIL and can take long, so it must not occupy a worker thread.
        blocking.spawn_blocking(move || Python::try_attach(|py| settle_soon(py, &to_loop, &to_promise, outcome)));
    });

    let abort = task.abort_handle();
    let on_done =
        PyCFunction::new_closure(py, None, None, move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            abort.abort();
        })?;
    promise.call_method1(intern!(py, "add_done_callback"), (on_done,))?;
    Ok(Awaitable { promise, result: PhantomData })
}

async fn outcome<T>(work: impl Work<T>) -> Result<T> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        Err(Error::Internal { message: format!("panicked: {}", panic_message(&*panic)), source: None })
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET_RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET_RUNNING_LOOP.import(py, "asyncio", "get_running_loop")?.call0()
}

fn settle_soon<T>(py: Python<'_>, event_loop: &Py<PyAny>, promise: &Py<PyAny>, outcome: Result<T>)
where
    T: for<'py> IntoPyObject<'py>,
{
    let outcome = outcome.map_err(|error| errors::to_python(py, error)).and_then(|result| result.into_bound_py_any(py));
    let (setter, value) = match outcome {
        Ok(value) => (intern!(py, "set_result"), value),
        Err(error) => (intern!(py, "set_exception"), error.into_value(py).into_bound(py).into_any()),
    };
    let scheduled = wrap_pyfunction!(settle, py).and_then(|settle| {
        let event_loop = event_loop.bind(py);
        event_loop.call_method1(intern!(py, "call_soon_threadsafe"), (settle, promise, setter, value))
    });
    // The loop refuses only when it is closed.
    drop(scheduled);
}

/// Runs on the loop's own thread: the promise may have been cancelled in the meantime.
#[pyfunction]
fn settle(promise: &Bound<'_, PyAny>, setter: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if !promise.call_method0(intern!(promise.py(), "done"))?.is_truthy()? {
        promise.call_method1(setter, (value,))?;
    }
    Ok(())
}
