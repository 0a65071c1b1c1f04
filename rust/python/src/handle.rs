//! One open store behind a native class: which process may use it, and how it ends.
//!
//! A handle belongs to the process that opened it: in a forked child every use is `Error::Forked`. One that is
//! collected unclosed closes in the background; [`shutdown`] closes what is open at interpreter exit and waits for
//! both kinds.

use std::mem;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, future};
use lance_context_spec::{Error, Result};
use pyo3::prelude::*;
use tokio::runtime::Handle as Runtime;
use tokio::task::JoinHandle;

use crate::bridge::Work;
use crate::datagen::Log;
use crate::generic::Store;
use crate::reports::Done;
use crate::{errors, log, runtime};

/// A store of the engine that a handle can hold.
pub trait Closable: Send + Sync + 'static {
    /// Whether it was closed.
    fn is_closed(&self) -> bool;
    /// Durable rows of it that are not sealed. No I/O.
    fn unsealed_rows(&self) -> u64;
    /// Seals and closes.
    fn close(&self) -> impl Future<Output = Result<()>> + Send;
}

/// An open store.
pub struct Handle<S: Closable> {
    /// Taken by `drop` alone.
    store: Option<Arc<S>>,
    uri: String,
    pid: u32,
    runtime: Runtime,
}

impl<S: Closable> Handle<S> {
    /// Holds `store`, on a thread of the engine's runtime.
    pub fn new(store: S, uri: String) -> Self {
        Self { store: Some(Arc::new(store)), uri, pid: process::id(), runtime: Runtime::current() }
    }

    /// The store, unless this process is a fork of the one that opened it.
    pub fn store(&self, py: Python<'_>) -> PyResult<Arc<S>> {
        self.alive().cloned().map_err(|error| errors::to_python(py, error))
    }

    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Whether the handle is of no more use: closed, or of the parent process.
    pub fn closed(&self) -> bool {
        self.alive().map_or(true, |store| store.is_closed())
    }

    pub fn unsealed_rows(&self) -> u64 {
        self.alive().map_or(0, |store| store.unsealed_rows())
    }

    /// Seals and closes. Closing twice is fine.
    pub fn closing(&self, py: Python<'_>) -> PyResult<impl Work<Done> + use<S>> {
        let store = self.store(py)?;
        Ok(async move { store.close().await.map(|()| Done) })
    }

    fn alive(&self) -> Result<&Arc<S>> {
        match &self.store {
            Some(store) if self.pid == process::id() => Ok(store),
            _ => Err(Error::Forked),
        }
    }

    fn close_soon(&self) -> Option<JoinHandle<()>> {
        let store = Arc::clone(self.alive().ok()?);
        Some(self.runtime.spawn(async move {
            if let Err(error) = store.close().await {
                tracing::warn!(%error, "an unclosed store could not be closed");
            }
        }))
    }
}

impl<S: Closable> Drop for Handle<S> {
    /// Closes an open store in the background. In a forked child it leaks instead: the store's tasks
    /// and locks belong to threads that do not exist there.
    fn drop(&mut self) {
        let closing = if self.closed() { None } else { self.close_soon() };
        let Some(store) = self.store.take() else { return };
        if self.pid != process::id() {
            mem::forget(store);
            return;
        }
        let _entered = self.runtime.enter();
        drop(store);
        if let Some(closing) = closing {
            let mut unfinished = CLOSING.lock().unwrap_or_else(PoisonError::into_inner);
            unfinished.retain(|task| !task.is_finished());
            unfinished.push(closing);
        }
    }
}

/// Closes of handles that were collected unclosed and that may still run.
static CLOSING: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// An open store of any kind.
#[derive(FromPyObject)]
pub enum AnyStore {
    Generic(Py<Store>),
    Log(Py<Log>),
}

/// Closes `stores` and stops the runtime for good; at interpreter exit. Each step takes at most `limit_s`.
#[pyfunction]
pub fn shutdown(py: Python<'_>, stores: Vec<AnyStore>, limit_s: f64) {
    let closes = stores.iter().filter_map(|store| match store {
        AnyStore::Generic(store) => store.get().handle().close_soon(),
        AnyStore::Log(store) => store.get().handle().close_soon(),
    });
    let collected = mem::take(&mut *CLOSING.lock().unwrap_or_else(PoisonError::into_inner));
    let closed = future::join(future::join_all(closes), future::join_all(collected));
    // Best effort: a store that could not be sealed is durable all the same.
    let limit = Duration::try_from_secs_f64(limit_s).unwrap_or_default();
    runtime::stop(py, limit, closed.map(drop));
    log::stop(py, limit);
}
