//! The native class behind `DatagenStore` and `AsyncDatagenStore`.
//!
//! Each operation is one future (the second `impl`) with two faces of one line (the `pymethods`).
//! Arguments are read under the GIL before the future starts, so a future owns all it needs.

use std::collections::BTreeMap;

use lance_context_core::DatagenStore;
use lance_context_core::datagen::EventPage;
use lance_context_spec::datagen::{Event, Intent};
use lance_context_spec::{Filter, Result};
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::event::{self, Events};
use super::folded::{PyFailures, PyFolded, PyFoldedList};
use super::item_id::{ItemIdArg, PyItemId};
use super::outlook::{PyOverview, PyTree};
use crate::bridge::{self, Awaitable, Work};
use crate::generic::{PyOpenOptions, duration};
use crate::handle::{Closable, Handle};
use crate::reports::{Done, PyDoctorReport, PyMergeReport, PyOptimizeReport, PyStats};
use crate::{errors, filter};

impl Closable for DatagenStore {
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

/// An open item log. It belongs to the process that opened it: in a forked child every method raises
/// `StateError(code="forked")`.
#[pyclass(frozen, weakref, module = "lance_context._native")]
pub struct Log(Handle<DatagenStore>);

#[pymethods]
impl Log {
    /// Opens the log at `uri`; creates it unless it must exist.
    #[staticmethod]
    fn open(py: Python<'_>, uri: String, must_exist: bool, options: &PyOpenOptions) -> PyResult<Self> {
        bridge::wait(py, opening(uri, must_exist, options))
    }

    /// Awaitable form of `open`.
    #[staticmethod]
    fn open_async<'py>(
        py: Python<'py>,
        uri: String,
        must_exist: bool,
        options: &PyOpenOptions,
    ) -> PyResult<Awaitable<'py, Self>> {
        bridge::future(py, opening(uri, must_exist, options))
    }

    /// Looks at the files of the log at `uri`.
    #[staticmethod]
    fn doctor(py: Python<'_>, uri: String, options: &PyOpenOptions, repair: bool) -> PyResult<PyDoctorReport> {
        bridge::wait(py, examining(uri, options, repair))
    }

    /// Awaitable form of `doctor`.
    #[staticmethod]
    fn doctor_async<'py>(
        py: Python<'py>,
        uri: String,
        options: &PyOpenOptions,
        repair: bool,
    ) -> PyResult<Awaitable<'py, PyDoctorReport>> {
        bridge::future(py, examining(uri, options, repair))
    }

    /// Appends one event, an iterable of events or a batch of the writer; returns how many came and how many were new.
    /// `intent` is `append`, `checkpoint` or `open`.
    #[pyo3(signature = (events: "object", intent))]
    fn append(&self, events: &Bound<'_, PyAny>, intent: &str) -> PyResult<(usize, usize)> {
        bridge::wait(events.py(), self.appending(events, intent)?)
    }

    /// Awaitable form of `append`; the events are read before it returns.
    #[pyo3(signature = (events: "object", intent))]
    fn append_async<'py>(&self, events: &Bound<'py, PyAny>, intent: &str) -> PyResult<Awaitable<'py, (usize, usize)>> {
        bridge::future(events.py(), self.appending(events, intent)?)
    }

    /// The latest state of an item, or `None`; `strict` raises on problems.
    fn fold_item(
        &self,
        py: Python<'_>,
        item_id: ItemIdArg,
        load_blobs: bool,
        strict: bool,
    ) -> PyResult<Option<PyFolded>> {
        bridge::wait(py, self.folding(py, item_id, load_blobs, strict)?)
    }

    /// Awaitable form of `fold_item`.
    fn fold_item_async<'py>(
        &self,
        py: Python<'py>,
        item_id: ItemIdArg,
        load_blobs: bool,
        strict: bool,
    ) -> PyResult<Awaitable<'py, Option<PyFolded>>> {
        bridge::future(py, self.folding(py, item_id, load_blobs, strict)?)
    }

    /// The last event of an item that counts, or `None`.
    fn last_event_id(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<Option<String>> {
        bridge::wait(py, self.reading_head(py, item_id)?)
    }

    /// Awaitable form of `last_event_id`.
    fn last_event_id_async<'py>(
        &self,
        py: Python<'py>,
        item_id: ItemIdArg,
    ) -> PyResult<Awaitable<'py, Option<String>>> {
        bridge::future(py, self.reading_head(py, item_id)?)
    }

    /// The events of an item by attempt, epoch and seq, without blob bytes.
    fn item_events(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<Events> {
        bridge::wait(py, self.reading_item(py, item_id)?)
    }

    /// Awaitable form of `item_events`.
    fn item_events_async<'py>(&self, py: Python<'py>, item_id: ItemIdArg) -> PyResult<Awaitable<'py, Events>> {
        bridge::future(py, self.reading_item(py, item_id)?)
    }

    /// The events of a root item and all below it, without blob bytes.
    fn root_events(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<Events> {
        bridge::wait(py, self.reading_root(py, item_id)?)
    }

    /// Awaitable form of `root_events`.
    fn root_events_async<'py>(&self, py: Python<'py>, item_id: ItemIdArg) -> PyResult<Awaitable<'py, Events>> {
        bridge::future(py, self.reading_root(py, item_id)?)
    }

    /// The failures of an item in order.
    fn item_failures(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<PyFailures> {
        bridge::wait(py, self.failing(py, item_id)?)
    }

    /// Awaitable form of `item_failures`.
    fn item_failures_async<'py>(&self, py: Python<'py>, item_id: ItemIdArg) -> PyResult<Awaitable<'py, PyFailures>> {
        bridge::future(py, self.failing(py, item_id)?)
    }

    /// Folded items ordered by id.
    #[pyo3(signature = (filter: "object", params: "object", limit, after))]
    fn items(
        &self,
        py: Python<'_>,
        filter: Option<&Bound<'_, PyAny>>,
        params: Option<&Bound<'_, PyAny>>,
        limit: Option<usize>,
        after: Option<ItemIdArg>,
    ) -> PyResult<PyFoldedList> {
        bridge::wait(py, self.listing(py, filter::read(filter, params)?, limit, after)?)
    }

    /// Awaitable form of `items`.
    #[pyo3(signature = (filter: "object", params: "object", limit, after))]
    fn items_async<'py>(
        &self,
        py: Python<'py>,
        filter: Option<&Bound<'py, PyAny>>,
        params: Option<&Bound<'py, PyAny>>,
        limit: Option<usize>,
        after: Option<ItemIdArg>,
    ) -> PyResult<Awaitable<'py, PyFoldedList>> {
        bridge::future(py, self.listing(py, filter::read(filter, params)?, limit, after)?)
    }

    /// The items that have failed and not recovered.
    fn failed_items(&self, py: Python<'_>) -> PyResult<PyFoldedList> {
        bridge::wait(py, self.listing_failed(py)?)
    }

    /// Awaitable form of `failed_items`.
    fn failed_items_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, PyFoldedList>> {
        bridge::future(py, self.listing_failed(py)?)
    }

    /// Those of `item_ids` that have not ended, in that order.
    fn pending(&self, py: Python<'_>, item_ids: Vec<ItemIdArg>) -> PyResult<Vec<PyItemId>> {
        bridge::wait(py, self.choosing(py, item_ids)?)
    }

    /// Awaitable form of `pending`.
    fn pending_async<'py>(&self, py: Python<'py>, item_ids: Vec<ItemIdArg>) -> PyResult<Awaitable<'py, Vec<PyItemId>>> {
        bridge::future(py, self.choosing(py, item_ids)?)
    }

    /// The status of those of `item_ids` that exist, by id text.
    fn root_item_statuses(&self, py: Python<'_>, item_ids: Vec<ItemIdArg>) -> PyResult<BTreeMap<String, String>> {
        bridge::wait(py, self.looking_up(py, item_ids)?)
    }

    /// Awaitable form of `root_item_statuses`.
    fn root_item_statuses_async<'py>(
        &self,
        py: Python<'py>,
        item_ids: Vec<ItemIdArg>,
    ) -> PyResult<Awaitable<'py, BTreeMap<String, String>>> {
        bridge::future(py, self.looking_up(py, item_ids)?)
    }

    /// Counts over all items.
    fn overview(&self, py: Python<'_>) -> PyResult<PyOverview> {
        bridge::wait(py, self.surveying(py)?)
    }

    /// Awaitable form of `overview`.
    fn overview_async<'py>(&self, py: Python<'py>) -> PyResult<Awaitable<'py, PyOverview>> {
        bridge::future(py, self.surveying(py)?)
    }

    /// A page of events behind a cursor, each with its own, and the cursor to go on from, if anything is behind.
    fn events_since(&self, py: Python<'_>, cursor: Option<String>) -> PyResult<Page> {
        bridge::wait(py, self.following(py, cursor)?)
    }

    /// Awaitable form of `events_since`.
    fn events_since_async<'py>(&self, py: Python<'py>, cursor: Option<String>) -> PyResult<Awaitable<'py, Page>> {
        bridge::future(py, self.following(py, cursor)?)
    }

    /// The bytes of the blob of an event.
    fn get_blob(&self, py: Python<'_>, event_id: String) -> PyResult<Blob> {
        bridge::wait(py, self.loading(py, event_id)?)
    }

    /// Awaitable form of `get_blob`.
    fn get_blob_async<'py>(&self, py: Python<'py>, event_id: String) -> PyResult<Awaitable<'py, Blob>> {
        bridge::future(py, self.loading(py, event_id)?)
    }

    /// The items at and below one.
    fn item_tree(
        &self,
        py: Python<'_>,
        root: ItemIdArg,
        max_items: usize,
        max_depth: Option<usize>,
    ) -> PyResult<PyTree> {
        bridge::wait(py, self.linking(py, root, max_items, max_depth)?)
    }

    /// Awaitable form of `item_tree`.
    fn item_tree_async<'py>(
        &self,
        py: Python<'py>,
        root: ItemIdArg,
        max_items: usize,
        max_depth: Option<usize>,
    ) -> PyResult<Awaitable<'py, PyTree>> {
        bridge::future(py, self.linking(py, root, max_items, max_depth)?)
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

fn opening(uri: String, must_exist: bool, options: &PyOpenOptions) -> impl Work<Log> + use<> {
    let options = options.options();
    async move {
        let store = if must_exist {
            DatagenStore::open_existing(&uri, options).await?
        } else {
            DatagenStore::open(&uri, options).await?
        };
        Ok(Log(Handle::new(store, uri)))
    }
}

fn examining(uri: String, options: &PyOpenOptions, repair: bool) -> impl Work<PyDoctorReport> + use<> {
    let options = options.options();
    async move { DatagenStore::doctor(&uri, options, repair).await.map(PyDoctorReport) }
}

impl Log {
    /// The handle, for the end of the process.
    pub fn handle(&self) -> &Handle<DatagenStore> {
        &self.0
    }

    fn appending(&self, events: &Bound<'_, PyAny>, intent: &str) -> PyResult<impl Work<(usize, usize)> + use<>> {
        let store = self.0.store(events.py())?;
        let events = event::read(events)?;
        let intent = match intent {
            "checkpoint" => Intent::Checkpoint,
            "open" => Intent::Open,
            _ => Intent::Append,
        };
        Ok(async move {
            let appended = store.append(events, intent).await?;
            Ok((appended.count, appended.new))
        })
    }

    fn folding(
        &self,
        py: Python<'_>,
        item_id: ItemIdArg,
        load_blobs: bool,
        strict: bool,
    ) -> PyResult<impl Work<Option<PyFolded>> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move {
            let Some(item) = store.fold_item(&item_id.0, load_blobs).await? else { return Ok(None) };
            Ok(Some(PyFolded(if strict { item.strict()? } else { item })))
        })
    }

    fn reading_head(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<impl Work<Option<String>> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.last_event_id(&item_id.0).await })
    }

    fn reading_item(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<impl Work<Events> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.item_events(&item_id.0).await.map(Events) })
    }

    fn reading_root(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<impl Work<Events> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.root_events(&item_id.0).await.map(Events) })
    }

    fn failing(&self, py: Python<'_>, item_id: ItemIdArg) -> PyResult<impl Work<PyFailures> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.item_failures(&item_id.0).await.map(PyFailures) })
    }

    fn listing(
        &self,
        py: Python<'_>,
        filter: Option<Filter>,
        limit: Option<usize>,
        after: Option<ItemIdArg>,
    ) -> PyResult<impl Work<PyFoldedList> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move {
            let after = after.as_ref().map(|after| &after.0);
            store.items(filter.as_ref(), limit, after).await.map(PyFoldedList)
        })
    }

    fn listing_failed(&self, py: Python<'_>) -> PyResult<impl Work<PyFoldedList> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.failed_items().await.map(PyFoldedList) })
    }

    fn choosing(&self, py: Python<'_>, item_ids: Vec<ItemIdArg>) -> PyResult<impl Work<Vec<PyItemId>> + use<>> {
        let store = self.0.store(py)?;
        let item_ids = item_ids.into_iter().map(|id| id.0).collect();
        Ok(async move { Ok(store.pending(item_ids).await?.into_iter().map(PyItemId).collect()) })
    }

    fn looking_up(
        &self,
        py: Python<'_>,
        item_ids: Vec<ItemIdArg>,
    ) -> PyResult<impl Work<BTreeMap<String, String>> + use<>> {
        let store = self.0.store(py)?;
        let item_ids = item_ids.into_iter().map(|id| id.0).collect();
        Ok(async move {
            let statuses = store.root_item_statuses(item_ids).await?;
            Ok(statuses.into_iter().map(|(id, status)| (id.to_string(), status)).collect())
        })
    }

    fn surveying(&self, py: Python<'_>) -> PyResult<impl Work<PyOverview> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.overview().await.map(PyOverview) })
    }

    fn following(&self, py: Python<'_>, cursor: Option<String>) -> PyResult<impl Work<Page> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.events_since(cursor.as_deref()).await.map(Page) })
    }

    fn loading(&self, py: Python<'_>, event_id: String) -> PyResult<impl Work<Blob> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.get_blob(&event_id).await.map(Blob) })
    }

    fn linking(
        &self,
        py: Python<'_>,
        root: ItemIdArg,
        max_items: usize,
        max_depth: Option<usize>,
    ) -> PyResult<impl Work<PyTree> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.item_tree(&root.0, max_items, max_depth).await.map(PyTree) })
    }

    fn flushing(&self, py: Python<'_>) -> PyResult<impl Work<Done> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.flush().await.map(|()| Done) })
    }

    fn merging(&self, py: Python<'_>) -> PyResult<impl Work<PyMergeReport> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.merge().await.map(PyMergeReport) })
    }

    fn optimizing(&self, py: Python<'_>, older_than_s: Option<f64>) -> PyResult<impl Work<PyOptimizeReport> + use<>> {
        let store = self.0.store(py)?;
        let older_than = older_than_s.map(|seconds| duration("older_than", seconds)).transpose();
        let older_than = older_than.map_err(|error| errors::to_python(py, error))?;
        Ok(async move { store.optimize(older_than).await.map(PyOptimizeReport) })
    }

    fn counters(&self, py: Python<'_>) -> PyResult<impl Work<PyStats> + use<>> {
        let store = self.0.store(py)?;
        Ok(async move { store.stats().await.map(PyStats) })
    }
}

/// Events with their cursors, and the cursor of the next page: a tuple.
pub struct Page(EventPage);

impl<'py> IntoPyObject<'py> for Page {
    type Target = pyo3::types::PyTuple;
    type Output = Bound<'py, pyo3::types::PyTuple>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = <(Vec<String>, Events, Option<String>) as IntoPyObject<'_>>::OUTPUT_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let (cursors, events): (Vec<String>, Vec<Event>) = self.0.events.into_iter().unzip();
        (cursors, Events(events), self.0.next).into_pyobject(py)
    }
}

/// Bytes that become `bytes`, where a `Vec<u8>` would become a list.
pub struct Blob(Vec<u8>);

impl<'py> IntoPyObject<'py> for Blob {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = std::convert::Infallible;

    const OUTPUT_TYPE: PyStaticExpr = <&[u8] as IntoPyObject<'_>>::OUTPUT_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> std::result::Result<Self::Output, Self::Error> {
        Ok(PyBytes::new(py, &self.0))
    }
}
