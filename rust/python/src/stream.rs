//! Rows of one snapshot, a batch at a time.

use std::sync::Arc;

use arrow::array::RecordBatch;
use lance_context_core::storage::RowStream;
use lance_context_spec::{Result, SchemaSpec};
use pyo3::prelude::*;
use tokio::sync::Mutex;

use crate::arrow::PyRecordBatch;
use crate::bridge::{self, Awaitable, Work};
use crate::rows::Rows;

/// Rows of a pinned snapshot. Reading ahead stops when it is collected.
#[pyclass(frozen, name = "Stream", module = "lance_context._native")]
pub struct PyStream {
    stream: Arc<Mutex<RowStream>>,
    spec: Arc<SchemaSpec>,
}

impl PyStream {
    pub fn new(stream: RowStream, spec: Arc<SchemaSpec>) -> Self {
        Self { stream: Arc::new(Mutex::new(stream)), spec }
    }

    fn rows(&self) -> impl Work<Option<Rows>> + use<> {
        let spec = Arc::clone(&self.spec);
        self.next(move |batch| Rows { batches: vec![batch], spec })
    }

    fn next<T, F>(&self, wrap: F) -> impl Work<Option<T>> + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(RecordBatch) -> T + Send + 'static,
    {
        let stream = Arc::clone(&self.stream);
        async move {
            let next: Option<Result<_>> = stream.lock().await.next().await;
            next.map(|batch| batch.map(wrap)).transpose()
        }
    }
}

#[pymethods]
impl PyStream {
    /// The next rows as dicts; `None` behind the last.
    fn next_rows(&self, py: Python<'_>) -> PyResult<Option<Rows>> {
        bridge::wait(py, self.rows())
    }

    /// Awaitable form of `next_rows`.
    fn next_rows_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, Option<Rows>>> {
        bridge::future(py, self.rows())
    }

    /// The next rows as Arrow columns; `None` behind the last.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatch>> {
        bridge::wait(py, self.next(PyRecordBatch))
    }

    /// Awaitable form of `next_batch`.
    fn next_batch_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, Option<PyRecordBatch>>> {
        bridge::future(py, self.next(PyRecordBatch))
    }
}
