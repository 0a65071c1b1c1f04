//! The native class behind `GenericStore` and `AsyncGenericStore`.
//!
//! Each operation is one future (the second `impl`) with two faces of one line (the `pymethods`).
//! Arguments are read under the GIL before the future starts, so a future owns all it needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lance_context_core::GenericStore;
use lance_context_spec::{Error, MaintenanceOptions, OnConflict, OpenOptions, Query, ReadMode, Result, SchemaSpec};
use pyo3::prelude::*;

use crate::arrow::PyRecordBatch;
use crate::bridge::{self, Awaitable, Work};
use crate::handle::{Closable, Handle};
use crate::reports::{Done, PyDoctorReport, PyMergeReport, PyOptimizeReport, PyStats};
use crate::rows::{self, Row, Rows};
use crate::stream::PyStream;
use crate::{arrow, errors, filter};

/// How a store is opened. `None` means: as the store was created.
#[pyclass(frozen, name = "OpenOptions", module = "lance_context._native")]
pub struct PyOpenOptions(OpenOptions);

#[pymethods]
impl PyOpenOptions {
    #[new]
    #[pyo3(signature = (
        *, seal_on_add=None, fsync=None, gc_grace_s=None, read="sealed", read_only=false, writer_id=None,
        maintenance=None, storage_options=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of `open`")]
    fn new(
        py: Python<'_>,
        seal_on_add: Option<bool>,
        fsync: Option<bool>,
        gc_grace_s: Option<f64>,
        read: &str,
        read_only: bool,
        writer_id: Option<String>,
        maintenance: Option<&PyMaintenance>,
        storage_options: Option<BTreeMap<String, String>>,
    ) -> PyResult<Self> {
        let options = || {
            Ok(OpenOptions {
                seal_on_add,
                fsync,
                gc_grace: gc_grace_s.map(|seconds| duration("gc_grace", seconds)).transpose()?,
                read: read.parse()?,
                read_only,
                writer_id,
                maintenance: maintenance.map(|options| options.0.clone()),
                storage_options: storage_options.unwrap_or_default(),
                ..OpenOptions::default()
            })
        };
        options().map(Self).map_err(|error| errors::to_python(py, error))
    }
}

impl PyOpenOptions {
    /// A copy of the options.
    pub fn options(&self) -> OpenOptions {
        self.0.clone()
    }
}

/// What a handle does in the background.
#[pyclass(frozen, name = "Maintenance", module = "lance_context._native")]
pub struct PyMaintenance(MaintenanceOptions);

#[pymethods]
impl PyMaintenance {
    #[new]
    #[pyo3(signature = (*, seal_idle_s, seal_age_s, merge_generations, merge_bytes, compact_bytes, orphan_after_s))]
    fn new(
        py: Python<'_>,
        seal_idle_s: f64,
        seal_age_s: f64,
        merge_generations: usize,
        merge_bytes: u64,
        compact_bytes: u64,
        orphan_after_s: f64,
    ) -> PyResult<Self> {
        let options = || {
            Ok(MaintenanceOptions {
                seal_idle: duration("seal_idle_s", seal_idle_s)?,
                seal_age: duration("seal_age_s", seal_age_s)?,
                merge_generations,
                merge_bytes,
                compact_bytes,
                orphan_after: duration("orphan_after_s", orphan_after_s)?,
            })
        };
        options().map(Self).map_err(|error| errors::to_python(py, error))
    }
}

/// Seconds as a duration; negative ones and NaN are refused.
pub fn duration(argument: &'static str, seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| Error::InvalidArgument { argument: argument.into(), message: error.to_string() })
}

impl Closable for GenericStore {
    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn unsealed_rows(&self) -> u64 {
        self.unsealed_rows()
    }

    fn close(&self) -> impl Future<Output = Result<()>> + Send {
        self.close()
    }
}

/// An open store. It belongs to the process that opened it: in a forked child every method raises
/// `StateError(code="forked")`.
#[pyclass(frozen, weakref, module = "lance_context._native")]
pub struct Store(Handle<GenericStore>);

#[pymethods]
impl Store {
    /// Opens the store at `uri`; creates it from `schema` unless it must exist.
    #[staticmethod]
    #[pyo3(signature = (uri, schema, must_exist, options))]
    fn open(
        py: Python<'_>,
        uri: String,
        schema: Option<&str>,
        must_exist: bool,
        options: &PyOpenOptions,
    ) -> PyResult<Self> {
        bridge::wait(py, Self::opening(py, uri, schema, must_exist, options)?)
    }

    /// Awaitable form of `open`.
    #[staticmethod]
    #[pyo3(signature = (uri, schema, must_exist, options))]
    fn open_async<'py>(
        py: Python<'py>,
        uri: String,
        schema: Option<&str>,
        must_exist: bool,
        options: &PyOpenOptions,
    ) -> PyResult<Awaitable<'py, Self>> {
        bridge::future(py, Self::opening(py, uri, schema, must_exist, options)?)
    }

    /// Looks at the files of the store at `uri`.
    #[staticmethod]
    #[pyo3(signature = (uri, options, repair))]
    fn doctor(py: Python<'_>, uri: String, options: &PyOpenOptions, repair: bool) -> PyResult<PyDoctorReport> {
        bridge::wait(py, examining(uri, options, repair))
    }

    /// Awaitable form of `doctor`.
    #[staticmethod]
    #[pyo3(signature = (uri, options, repair))]
    fn doctor_async<'py>(
        py: Python<'py>,
        uri: String,
        options: &PyOpenOptions,
        repair: bool,
    ) -> PyResult<Awaitable<'py, PyDoctorReport>> {
        bridge::future(py, examining(uri, options, repair))
    }

    /// Adds one mapping, an iterable of mappings, or Arrow data; returns how many rows.
    #[pyo3(signature = (rows: "object", on_conflict))]
    fn add(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, on_conflict: &str) -> PyResult<usize> {
        bridge::wait(py, self.adding(rows, on_conflict)?)
    }

    /// Awaitable form of `add`; the rows are read before it returns.
    #[pyo3(signature = (rows: "object", on_conflict))]
    fn add_async<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        on_conflict: &str,
    ) -> PyResult<Awaitable<'py, usize>> {
        bridge::future(py, self.adding(rows, on_conflict)?)
    }

    /// Replaces some cells of the row of that id.
    #[pyo3(signature = (id, changes: "object"))]
    fn update(&self, py: Python<'_>, id: String, changes: &Bound<'_, PyAny>) -> PyResult<Done> {
        bridge::wait(py, self.updating(id, changes)?)
    }

    /// Awaitable form of `update`; the changes are read before it returns.
    #[pyo3(signature = (id, changes: "object"))]
    fn update_async<'py>(
        &self,
        py: Python<'py>,
        id: String,
        changes: &Bound<'py, PyAny>,
    ) -> PyResult<Awaitable<'py, Done>> {
        bridge::future(py, self.updating(id, changes)?)
    }

    /// Deletes the rows of those ids; returns how many there were.
    fn delete(&self, py: Python<'_>, ids: Vec<String>) -> PyResult<usize> {
        bridge::wait(py, self.deleting(py, ids)?)
    }

    /// Awaitable form of `delete`.
    fn delete_async<'py>(&self, py: Python<'py>, ids: Vec<String>) -> PyResult<Awaitable<'py, usize>> {
        bridge::future(py, self.deleting(py, ids)?)
    }

    /// Deletes the rows that match the filter of `query`; returns how many.
    fn delete_where(&self, py: Python<'_>, query: &PyQuery) -> PyResult<usize> {
        bridge::wait(py, self.deleting_where(py, query)?)
    }

    /// Awaitable form of `delete_where`.
    fn delete_where_async<'py>(&self, py: Python<'py>, query: &PyQuery) -> PyResult<Awaitable<'py, usize>> {
        bridge::future(py, self.deleting_where(py, query)?)
    }

    /// The rows that `query` asks for, ordered by id.
    fn list_rows(&self, py: Python<'_>, query: &PyQuery) -> PyResult<Rows> {
        bridge::wait(py, self.listing(py, query)?)
    }

    /// Awaitable form of `list_rows`.
    fn list_rows_async<'py>(&self, py: Python<'py>, query: &PyQuery) -> PyResult<Awaitable<'py, Rows>> {
        bridge::future(py, self.listing(py, query)?)
    }

    /// The rows that `query` asks for, in its order, as Arrow columns; at least one batch.
    fn table(&self, py: Python<'_>, query: &PyQuery) -> PyResult<Vec<PyRecordBatch>> {
        bridge::wait(py, self.tabulating(py, query)?)
    }

    /// Awaitable form of `table`.
    fn table_async<'py>(&self, py: Python<'py>, query: &PyQuery) -> PyResult<Awaitable<'py, Vec<PyRecordBatch>>> {
        bridge::future(py, self.tabulating(py, query)?)
    }

    /// The row of that id, or `None`.
    #[pyo3(signature = (id, columns, read))]
    fn get(
        &self,
        py: Python<'_>,
        id: String,
        columns: Option<Vec<String>>,
        read: Option<&str>,
    ) -> PyResult<Option<Row>> {
        bridge::wait(py, self.getting(py, id, columns, read)?)
    }

    /// Awaitable form of `get`.
    #[pyo3(signature = (id, columns, read))]
    fn get_async<'py>(
        &self,
        py: Python<'py>,
        id: String,
        columns: Option<Vec<String>>,
        read: Option<&str>,
    ) -> PyResult<Awaitable<'py, Option<Row>>> {
        bridge::future(py, self.getting(py, id, columns, read)?)
    }

    /// The rows of those ids, `None` where there is none.
    #[pyo3(signature = (ids, columns, read))]
    fn get_many(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        columns: Option<Vec<String>>,
        read: Option<&str>,
    ) -> PyResult<Vec<Option<Row>>> {
        bridge::wait(py, self.getting_many(py, ids, columns, read)?)
    }

    /// Awaitable form of `get_many`.
    #[pyo3(signature = (ids, columns, read))]
    fn get_many_async<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<String>,
        columns: Option<Vec<String>>,
        read: Option<&str>,
    ) -> PyResult<Awaitable<'py, Vec<Option<Row>>>> {
        bridge::future(py, self.getting_many(py, ids, columns, read)?)
    }

    /// Pins a snapshot and starts to read what `query` matches.
    fn stream(&self, py: Python<'_>, query: &PyQuery) -> PyResult<PyStream> {
        bridge::wait(py, self.streaming(py, query)?)
    }

    /// Awaitable form of `stream`.
    fn stream_async<'py>(&self, py: Python<'py>, query: &PyQuery) -> PyResult<Awaitable<'py, PyStream>> {
        bridge::future(py, self.streaming(py, query)?)
    }

    /// How many rows `query` matches, by its filter and visibility.
    fn count(&self, py: Python<'_>, query: &PyQuery) -> PyResult<u64> {
        bridge::wait(py, self.counting(py, query)?)
    }

    /// Awaitable form of `count`.
    fn count_async<'py>(&self, py: Python<'py>, query: &PyQuery) -> PyResult<Awaitable<'py, u64>> {
        bridge::future(py, self.counting(py, query)?)
    }

    /// Seals what is durable, and waits.
    fn flush(&self, py: Python<'_>) -> PyResult<Done> {
        bridge::wait(py, self.flushing(py)?)
    }

    /// Awaitable form of `flush`.
    fn flush_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, Done>> {
        bridge::future(py, self.flushing(py)?)
    }

    /// Folds sealed generations into the base table.
    fn merge(&self, py: Python<'_>) -> PyResult<PyMergeReport> {
        bridge::wait(py, self.merging(py)?)
    }

    /// Awaitable form of `merge`.
    fn merge_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, PyMergeReport>> {
        bridge::future(py, self.merging(py)?)
    }

    /// Merges, rewrites small files, removes versions older than `older_than_s` seconds.
    #[pyo3(signature = (older_than_s))]
    fn optimize(&self, py: Python<'_>, older_than_s: Option<f64>) -> PyResult<PyOptimizeReport> {
        bridge::wait(py, self.optimizing(py, older_than_s)?)
    }

    /// Awaitable form of `optimize`.
    #[pyo3(signature = (older_than_s))]
    fn optimize_async<'py>(
        &self,
        py: Python<'py>,
        older_than_s: Option<f64>,
    ) -> PyResult<Awaitable<'py, PyOptimizeReport>> {
        bridge::future(py, self.optimizing(py, older_than_s)?)
    }

    /// What is known of the store.
    fn stats(&self, py: Python<'_>) -> PyResult<PyStats> {
        bridge::wait(py, self.counters(py)?)
    }

    /// Awaitable form of `stats`.
    fn stats_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, PyStats>> {
        bridge::future(py, self.counters(py)?)
    }

    /// Seals and closes. Closing twice is fine.
    fn close(&self, py: Python<'_>) -> PyResult<Done> {
        bridge::wait(py, self.0.closing(py)?)
    }

    /// Awaitable form of `close`.
    fn close_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, Done>> {
        bridge::future(py, self.0.closing(py)?)
    }

    /// The schema as JSON, in tagged form.
    fn schema(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.0.store(py)?.schema().to_json())
    }

    /// Where the store is.
    #[getter]
    fn uri(&self) -> &str {
        self.0.uri()
    }

    /// Whether the handle is of no more use: closed, or of the parent process.
    #[getter]
    fn closed(&self) -> bool {
        self.0.closed()
    }

    /// Durable rows of this handle that are not sealed. No I/O.
    #[getter]
    fn unsealed_rows(&self) -> u64 {
        self.0.unsealed_rows()
    }
}

fn examining(uri: String, options: &PyOpenOptions, repair: bool) -> impl Work<PyDoctorReport> + use<> {
    let options = options.0.clone();
    async move { GenericStore::doctor(&uri, options, repair).await.map(PyDoctorReport) }
}

impl Store {
    fn opening(
        py: Python<'_>,
        uri: String,
        schema: Option<&str>,
        must_exist: bool,
        options: &PyOpenOptions,
    ) -> PyResult<impl Work<Self>> {
        let schema = schema.map(SchemaSpec::parse).transpose().map_err(|error| errors::to_python(py, error))?;
        let options = options.0.clone();
        Ok(async move {
            let store = if must_exist {
                GenericStore::open_existing(&uri, options).await?
            } else {
                GenericStore::open(&uri, schema, options).await?
            };
            Ok(Self(Handle::new(store, uri)))
        })
    }

    fn adding(&self, rows: &Bound<'_, PyAny>, on_conflict: &str) -> PyResult<impl Work<usize> + use<>> {
        let store = self.0.store(rows.py())?;
        let on_conflict: OnConflict = on_conflict.parse().map_err(|error| errors::to_python(rows.py(), error))?;
        let batch = match arrow::read(rows)? {
            Some(batches) => arrow::conform(rows.py(), store.schema(), &batches)?,
            None => rows::encode(rows, store.schema())?,
        };
        Ok(async move { Ok(store.insert(batch, on_conflict).await?.count) })
    }

    fn updating(&self, id: String, changes: &Bound<'_, PyAny>) -> PyResult<impl Work<Done> + use<>> {
        let store = self.0.store(changes.py())?;
        let changes = rows::encode_changes(changes, store.schema())?;
        Ok(async move { store.update(&id, changes).await.map(|()| Done) })
    }

    fn deleting(&self, py: Python<'_>, ids: Vec<String>) -> PyResult<impl Work<usize> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.delete(ids).await })
    }

    fn deleting_where(&self, py: Python<'_>, query: &PyQuery) -> PyResult<impl Work<usize> + use<>> {
        let store = self.0.store(py)?;
        let missing = || Error::InvalidArgument { argument: "filter".into(), message: "it is required".into() };
        let filter = query.0.filter.clone().ok_or_else(|| errors::to_python(py, missing()))?;
        Ok(async move { store.delete_where(&filter).await })
    }

    fn streaming(&self, py: Python<'_>, query: &PyQuery) -> PyResult<impl Work<PyStream> + use<>> {
        let (store, query) = (self.0.store(py)?, query.0.clone());
        Ok(async move {
            let stream = store.stream(query).await?;
            Ok(PyStream::new(stream, Arc::clone(store.schema())))
        })
    }

    fn getting_many(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        columns: Option<Vec<String>>,
        read: Option<&str>,
    ) -> PyResult<impl Work<Vec<Option<Row>>> + use<>> {
        let store = self.0.store(py)?;
        let read = read_mode(py, read)?;
        Ok(async move {
            let rows = store.get_many(ids, columns, read).await?;
            let spec = store.schema();
            Ok(rows.into_iter().map(|row| row.map(|batch| Row { batch, spec: Arc::clone(spec) })).collect())
        })
    }

    fn optimizing(&self, py: Python<'_>, older_than_s: Option<f64>) -> PyResult<impl Work<PyOptimizeReport> + use<>> {
        let store = self.0.store(py)?;
        let older_than = older_than_s.map(|seconds| duration("older_than", seconds)).transpose();
        let older_than = older_than.map_err(|error| errors::to_python(py, error))?;
        Ok(async move { store.optimize(older_than).await.map(PyOptimizeReport) })
    }

    fn listing(&self, py: Python<'_>, query: &PyQuery) -> PyResult<impl Work<Rows> + use<>> {
        let (store, query) = (self.0.store(py)?, query.0.clone());
        Ok(async move {
            let spec = Arc::clone(store.schema());
            store.list(query).await.map(|batches| Rows { batches, spec })
        })
    }

    fn tabulating(&self, py: Python<'_>, query: &PyQuery) -> PyResult<impl Work<Vec<PyRecordBatch>> + use<>> {
        let (store, query) = (self.0.store(py)?, query.0.clone());
        Ok(async move { Ok(store.table(query).await?.into_iter().map(PyRecordBatch).collect()) })
    }

    fn getting(
        &self,
        py: Python<'_>,
        id: String,
        columns: Option<Vec<String>>,
        read: Option<&str>,
    ) -> PyResult<impl Work<Option<Row>> + use<>> {
        let store = self.0.store(py)?;
        let read = read_mode(py, read)?;
        Ok(async move {
            let spec = Arc::clone(store.schema());
            Ok(store.get(&id, columns, read).await?.map(|batch| Row { batch, spec }))
        })
    }

    fn counting(&self, py: Python<'_>, query: &PyQuery) -> PyResult<impl Work<u64> + use<>> {
        let store = self.0.store(py)?;
        let (filter, read) = (query.0.filter.clone(), query.0.read);
        Ok(async move { store.count(filter, read).await })
    }

    fn flushing(&self, py: Python<'_>) -> PyResult<impl Work<Done> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.flush().await.map(|()| Done) })
    }

    fn merging(&self, py: Python<'_>) -> PyResult<impl Work<PyMergeReport> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.merge().await.map(PyMergeReport) })
    }

    fn counters(&self, py: Python<'_>) -> PyResult<impl Work<PyStats> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.stats().await.map(PyStats) })
    }

    /// The handle, for the end of the process.
    pub fn handle(&self) -> &Handle<GenericStore> {
        &self.0
    }
}

/// What a `list` or a `count` asks for.
#[pyclass(frozen, name = "Query", module = "lance_context._native")]
pub struct PyQuery(Query);

#[pymethods]
impl PyQuery {
    #[new]
    #[pyo3(signature = (*, filter: "object" = None, params: "object" = None, columns=None, order_by=None, limit=None, offset=0, after=None, read=None))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of `list`")]
    fn new(
        py: Python<'_>,
        filter: Option<&Bound<'_, PyAny>>,
        params: Option<&Bound<'_, PyAny>>,
        columns: Option<Vec<String>>,
        order_by: Option<Vec<String>>,
        limit: Option<usize>,
        offset: usize,
        after: Option<String>,
        read: Option<&str>,
    ) -> PyResult<Self> {
        let filter = filter::read(filter, params)?;
        let order_by = order_by.unwrap_or_default();
        Ok(Self(Query { filter, columns, order_by, limit, offset, after, read: read_mode(py, read)? }))
    }
}

fn read_mode(py: Python<'_>, read: Option<&str>) -> PyResult<Option<ReadMode>> {
    read.map(str::parse).transpose().map_err(|error| errors::to_python(py, error))
}
