//! The stream writer, pure, and the ids and hashes that go with it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lance_context_spec::datagen::{self, Event, FailureNote, FoldedItem, ItemId, Status, StreamWriter};
use lance_context_spec::{Error, Result};
use pyo3::prelude::*;

use super::event::PyEventBatch;
use super::field::{self, PyFieldList};
use super::folded::PyFolded;
use super::item_id::ItemIdArg;
use super::{cell, position};
use crate::errors;
use crate::value::Fault;

/// The id of event number `ordinal` of a checkpoint.
#[pyfunction]
pub fn datagen_event_id(item_id: ItemIdArg, checkpoint_id: &str, ordinal: i64) -> String {
    datagen::event_id(item_id.0.as_str(), checkpoint_id, ordinal)
}

/// The fingerprint of a configuration.
fn config_hash(config: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = json_argument("config", Some(config))?.unwrap_or_else(|| "null".to_owned());
    datagen::config_hash(&text).map_err(|error| errors::to_python(config.py(), error))
}

/// Writes one stream of one item. Times are microseconds since 1970 UTC.
#[pyclass(frozen, name = "StreamWriter", module = "lance_context._native")]
pub struct PyStreamWriter(Mutex<StreamWriter>);

#[pymethods]
impl PyStreamWriter {
    #[new]
    fn new(py: Python<'_>, item_id: ItemIdArg, run_id: &str, writer_epoch: &str) -> PyResult<Self> {
        Self::holding(py, StreamWriter::new(item_id.0, run_id, writer_epoch))
    }

    /// The writer of the attempt behind a folded item, of which these parts matter.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "the parts of a folded item")]
    fn resuming(
        py: Python<'_>,
        item_id: ItemIdArg,
        status: &str,
        last_attempt: i32,
        last_item_seq: i64,
        last_event_id: Option<String>,
        run_id: &str,
        writer_epoch: &str,
    ) -> PyResult<Self> {
        let folded = head(item_id.0, status, last_attempt, last_item_seq, last_event_id);
        Self::holding(py, folded.and_then(|folded| StreamWriter::resuming(&folded, run_id, writer_epoch)))
    }

    /// ITEM_CREATED.
    #[pyo3(signature = (query_tags: "object", config: "object", attributes: "object", event_ts))]
    fn item_created(
        &self,
        py: Python<'_>,
        query_tags: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyAny>>,
        attributes: Option<&Bound<'_, PyAny>>,
        event_ts: i64,
    ) -> PyResult<PyEventBatch> {
        let query_tags = json_argument("query_tags", query_tags)?;
        let config = json_argument("config", config)?;
        let attributes = json_argument("attributes", attributes)?;
        one(py, self.lock().item_created(query_tags, config.as_deref(), attributes, event_ts))
    }

    /// STEP_STARTED.
    #[pyo3(signature = (position: "object", attributes: "object", event_ts))]
    fn step_started(
        &self,
        position: &Bound<'_, PyAny>,
        attributes: Option<&Bound<'_, PyAny>>,
        event_ts: i64,
    ) -> PyResult<PyEventBatch> {
        let (at, attributes) = (position::read(position)?, json_argument("attributes", attributes)?);
        one(position.py(), self.lock().step_started(&at, attributes, event_ts))
    }

    /// FIELD_* of an iterable of field writes, then STEP_COMPLETED.
    #[pyo3(signature = (position: "object", fields: "object", attributes: "object", event_ts))]
    fn step_completed(
        &self,
        position: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyAny>,
        attributes: Option<&Bound<'_, PyAny>>,
        event_ts: i64,
    ) -> PyResult<PyEventBatch> {
        let at = position::read(position)?;
        let fields = match fields.cast::<PyFieldList>() {
            Ok(list) => list.get().writes(),
            Err(_) => field::read(fields)?,
        };
        let attributes = json_argument("attributes", attributes)?;
        let stamped = self.lock().step_completed(&at, fields, attributes, event_ts);
        stamped.map(PyEventBatch).map_err(|error| errors::to_python(position.py(), error))
    }

    /// TERMINAL.
    #[pyo3(signature = (status, attributes: "object", event_ts))]
    fn item_terminal(
        &self,
        py: Python<'_>,
        status: &str,
        attributes: Option<&Bound<'_, PyAny>>,
        event_ts: i64,
    ) -> PyResult<PyEventBatch> {
        let attributes = json_argument("attributes", attributes)?;
        one(py, known(status).and_then(|status| self.lock().item_terminal(status, attributes, event_ts)))
    }

    /// FAILED.
    #[pyo3(signature = (position: "object", error_type, error_dump, traceback, attributes: "object", event_ts))]
    fn item_failed(
        &self,
        position: &Bound<'_, PyAny>,
        error_type: String,
        error_dump: Option<String>,
        traceback: Option<String>,
        attributes: Option<&Bound<'_, PyAny>>,
        event_ts: i64,
    ) -> PyResult<PyEventBatch> {
        let (at, attributes) = (position::read(position)?, json_argument("attributes", attributes)?);
        let failure = FailureNote { error_type, error_dump, traceback };
        one(position.py(), self.lock().item_failed(&at, failure, attributes, event_ts))
    }

    /// The text of the item's id.
    #[getter]
    fn item_id(&self) -> super::item_id::PyItemId {
        super::item_id::PyItemId(self.lock().item_id().clone())
    }

    /// Whose run.
    #[getter]
    fn run_id(&self) -> String {
        self.lock().run_id().to_owned()
    }

    /// The number of the try.
    #[getter]
    fn attempt(&self) -> i32 {
        self.lock().attempt()
    }

    /// The stream's epoch.
    #[getter]
    fn writer_epoch(&self) -> String {
        self.lock().writer_epoch().to_owned()
    }

    /// The seq of the event that comes next.
    #[getter]
    fn next_seq(&self) -> i64 {
        self.lock().next_seq()
    }
}

impl PyStreamWriter {
    fn holding(py: Python<'_>, writer: Result<StreamWriter>) -> PyResult<Self> {
        writer.map(|writer| Self(Mutex::new(writer))).map_err(|error| errors::to_python(py, error))
    }

    fn lock(&self) -> MutexGuard<'_, StreamWriter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fold of a batch alone: of an item that it creates.
#[pyfunction]
pub fn fold_batch(batch: &PyEventBatch) -> Option<PyFolded> {
    let item_id = batch.0.first()?.item_id.clone();
    datagen::fold(item_id, batch.0.iter().cloned().map(Into::into)).map(PyFolded)
}

fn one(py: Python<'_>, event: Result<Event>) -> PyResult<PyEventBatch> {
    event.map(|event| PyEventBatch(vec![event])).map_err(|error| errors::to_python(py, error))
}

fn known(status: &str) -> Result<Status> {
    let message = || format!("unknown `{status}`; possible: {}", Status::ALL.map(Status::name).join(", "));
    Status::parse(status).ok_or_else(|| Error::InvalidArgument { argument: "status".to_owned(), message: message() })
}

/// The exact text of an argument that takes any JSON; `None` where it is `None`.
pub fn json_argument(argument: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(object) = object else { return Ok(None) };
    let message = match cell::json_text(object) {
        Ok(text) => return Ok(Some(text)),
        Err(Fault::WrongType(got)) => format!("{got} is no JSON"),
        Err(Fault::OutOfRange(message)) => message,
        Err(Fault::Raised(error)) => return Err(error),
    };
    let error = Error::InvalidArgument { argument: argument.to_owned(), message };
    Err(errors::to_python(object.py(), error))
}

/// A folded item of which only the head matters.
fn head(
    item_id: ItemId,
    status: &str,
    last_attempt: i32,
    last_item_seq: i64,
    last_event_id: Option<String>,
) -> Result<FoldedItem> {
    Ok(FoldedItem {
        item_id,
        status: known(status)?,
        failed: false,
        last_event_id,
        last_item_seq,
        last_attempt,
        fields: BTreeMap::new(),
        trajectory: Vec::new(),
        started: Vec::new(),
        completed: Vec::new(),
        open_frames: Vec::new(),
        query_tags: None,
        config_hash: None,
        attributes: None,
        created_at: None,
        updated_at: None,
        run_ids: Vec::new(),
        failures: Vec::new(),
        fenced: Vec::new(),
        problems: Vec::new(),
    })
}

/// Whether an item that was started with the configuration of hash `stored` may go on with `config`.
#[pyfunction]
#[pyo3(signature = (item_id, stored, config: "object"))]
pub fn check_config(item_id: ItemIdArg, stored: Option<&str>, config: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(config) = config else { return Ok(()) };
    let given = config_hash(config)?;
    datagen::check_config(&item_id.0, stored, Some(&given)).map_err(|error| errors::to_python(config.py(), error))
}
