//! Folded items as dicts, from which the Python package makes its frozen classes.

use lance_context_spec::datagen::{
    BlobIds, Cell, Failure, FencedStream, FieldWrite, FoldedField, FoldedItem, FoldedValue, Problem, StepPosition,
    TrajectoryEntry,
};
use pyo3::inspect::PyStaticExpr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::{type_hint_identifier, type_hint_subscript};

use super::item_id::PyItemId;
use super::{cell, position};
use crate::rows::ROW_TYPE;
use crate::{json, timestamp};

/// A folded item that becomes a dict.
pub struct PyFolded(pub FoldedItem);

impl<'py> IntoPyObject<'py> for PyFolded {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = ROW_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        item(py, &self.0)
    }
}

/// Folded items that become a list of dicts.
pub struct PyFoldedList(pub Vec<FoldedItem>);

impl<'py> IntoPyObject<'py> for PyFoldedList {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(type_hint_identifier!("builtins", "list"), ROW_TYPE);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        each(py, &self.0, item)
    }
}

/// Failures that become a list of dicts.
pub struct PyFailures(pub Vec<Failure>);

impl<'py> IntoPyObject<'py> for PyFailures {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(type_hint_identifier!("builtins", "list"), ROW_TYPE);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        each(py, &self.0, failure)
    }
}

/// The keys of `lance_context.FoldedItem`.
pub fn item<'py>(py: Python<'py>, item: &FoldedItem) -> PyResult<Bound<'py, PyDict>> {
    let folded = PyDict::new(py);
    folded.set_item(intern!(py, "item_id"), Py::new(py, PyItemId(item.item_id.clone()))?)?;
    folded.set_item(intern!(py, "status"), item.status.name())?;
    folded.set_item(intern!(py, "failed"), item.failed)?;
    folded.set_item(intern!(py, "last_event_id"), &item.last_event_id)?;
    folded.set_item(intern!(py, "last_item_seq"), item.last_item_seq)?;
    folded.set_item(intern!(py, "last_attempt"), item.last_attempt)?;
    let fields = PyDict::new(py);
    for (name, written) in &item.fields {
        fields.set_item(name, field(py, written)?)?;
    }
    folded.set_item(intern!(py, "fields"), fields)?;
    folded.set_item(intern!(py, "trajectory"), each(py, &item.trajectory, entry)?)?;
    folded.set_item(intern!(py, "started"), each(py, &item.started, position::write)?)?;
    folded.set_item(intern!(py, "completed"), each(py, &item.completed, position::write)?)?;
    folded.set_item(intern!(py, "open_frames"), each(py, &item.open_frames, position::write)?)?;
    folded.set_item(intern!(py, "query_tags"), json(py, item.query_tags.as_deref())?)?;
    folded.set_item(intern!(py, "config_hash"), &item.config_hash)?;
    folded.set_item(intern!(py, "attributes"), json(py, item.attributes.as_deref())?)?;
    folded.set_item(intern!(py, "blob_event_ids"), blob_ids(py, item)?)?;
    folded.set_item(intern!(py, "created_at"), instant(py, item.created_at)?)?;
    folded.set_item(intern!(py, "updated_at"), instant(py, item.updated_at)?)?;
    folded.set_item(intern!(py, "run_ids"), &item.run_ids)?;
    folded.set_item(intern!(py, "failures"), each(py, &item.failures, failure)?)?;
    folded.set_item(intern!(py, "fenced"), each(py, &item.fenced, fenced)?)?;
    folded.set_item(intern!(py, "problems"), each(py, &item.problems, problem)?)?;
    Ok(folded)
}

fn each<'py, T>(
    py: Python<'py>,
    all: &[T],
    write: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, all.iter().map(|one| write(py, one)).collect::<PyResult<Vec<_>>>()?)
}

fn field<'py>(py: Python<'py>, field: &FoldedField) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    written.set_item(intern!(py, "op"), field.op.name())?;
    written.set_item(intern!(py, "entries"), each(py, &field.values, folded_value)?)?;
    Ok(written)
}

fn folded_value<'py>(py: Python<'py>, folded: &FoldedValue) -> PyResult<Bound<'py, PyDict>> {
    let FoldedValue { cell, field_type, codec_version, step, event_id } = folded;
    value_parts(py, cell, (field_type, *codec_version), step, event_id)
}

/// The keys of `lance_context.FoldedValue` for a write that was just stamped; a blob is left out.
pub fn value<'py>(
    py: Python<'py>,
    write: &FieldWrite,
    step: &StepPosition,
    event_id: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let unloaded = match &write.value {
        Cell::Blob { size, checksum, .. } => &Cell::Blob { bytes: None, size: *size, checksum: checksum.clone() },
        other => other,
    };
    value_parts(py, unloaded, (&write.field_type, write.codec_version), step, event_id)
}

fn value_parts<'py>(
    py: Python<'py>,
    cell: &Cell,
    (field_type, codec_version): (&str, i32),
    step: &StepPosition,
    event_id: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    written.set_item(intern!(py, "kind"), cell.kind())?;
    written.set_item(intern!(py, "value"), cell::untag(py, cell)?)?;
    if let Cell::Blob { size, checksum, .. } = cell {
        written.set_item(intern!(py, "size"), size)?;
        written.set_item(intern!(py, "checksum"), checksum)?;
    }
    written.set_item(intern!(py, "field_type"), field_type)?;
    written.set_item(intern!(py, "codec_version"), codec_version)?;
    written.set_item(intern!(py, "step"), position::write(py, step)?)?;
    written.set_item(intern!(py, "event_id"), event_id)?;
    Ok(written)
}

fn entry<'py>(py: Python<'py>, entry: &TrajectoryEntry) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    written.set_item(intern!(py, "position"), position::write(py, &entry.position)?)?;
    written.set_item(intern!(py, "attempt"), entry.attempt)?;
    written.set_item(intern!(py, "item_seq"), entry.item_seq)?;
    written.set_item(intern!(py, "place"), entry.place)?;
    written.set_item(intern!(py, "run_id"), &entry.run_id)?;
    written.set_item(intern!(py, "event_id"), &entry.event_id)?;
    written.set_item(intern!(py, "attributes"), json(py, entry.attributes.as_deref())?)?;
    written.set_item(intern!(py, "event_ts"), timestamp::write(py, entry.event_ts, true)?)?;
    Ok(written)
}

/// The keys of `lance_context.Failure`.
pub fn failure<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    written.set_item(intern!(py, "item_id"), Py::new(py, PyItemId(failure.item_id.clone()))?)?;
    written.set_item(intern!(py, "position"), position::write(py, &failure.position)?)?;
    written.set_item(intern!(py, "error_type"), &failure.error_type)?;
    written.set_item(intern!(py, "error_dump"), &failure.error_dump)?;
    written.set_item(intern!(py, "traceback"), &failure.traceback)?;
    written.set_item(intern!(py, "attributes"), json(py, failure.attributes.as_deref())?)?;
    written.set_item(intern!(py, "run_id"), &failure.run_id)?;
    written.set_item(intern!(py, "attempt"), failure.attempt)?;
    written.set_item(intern!(py, "item_seq"), failure.item_seq)?;
    written.set_item(intern!(py, "event_id"), &failure.event_id)?;
    written.set_item(intern!(py, "event_ts"), timestamp::write(py, failure.event_ts, true)?)?;
    written.set_item(intern!(py, "recovered"), failure.recovered)?;
    Ok(written)
}

fn fenced<'py>(py: Python<'py>, stream: &FencedStream) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    written.set_item(intern!(py, "attempt"), stream.attempt)?;
    written.set_item(intern!(py, "writer_epoch"), &stream.writer_epoch)?;
    written.set_item(intern!(py, "first_seq"), stream.first_seq)?;
    written.set_item(intern!(py, "last_seq"), stream.last_seq)?;
    written.set_item(intern!(py, "event_ids"), &stream.event_ids)?;
    Ok(written)
}

fn problem<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    written.set_item(intern!(py, "kind"), problem.kind.name())?;
    written.set_item(intern!(py, "item_seq"), problem.item_seq)?;
    written.set_item(intern!(py, "event_id"), &problem.event_id)?;
    written.set_item(intern!(py, "message"), &problem.message)?;
    Ok(written)
}

fn blob_ids<'py>(py: Python<'py>, item: &FoldedItem) -> PyResult<Bound<'py, PyDict>> {
    let ids = PyDict::new(py);
    for (name, blobs) in item.blob_event_ids() {
        match blobs {
            BlobIds::One(id) => ids.set_item(name, id)?,
            BlobIds::Many(many) => ids.set_item(name, many)?,
        }
    }
    Ok(ids)
}

fn json<'py>(py: Python<'py>, text: Option<&str>) -> PyResult<Option<Bound<'py, PyAny>>> {
    text.map(|text| json::write(py, text)).transpose()
}

fn instant(py: Python<'_>, micros: Option<i64>) -> PyResult<Option<Bound<'_, PyAny>>> {
    micros.map(|micros| Ok(timestamp::write(py, micros, true)?.into_any())).transpose()
}
