//! Folded items as the frozen classes of the Python package.

use lance_context_spec::datagen::{
    BlobIds, Cell, Failure, FencedStream, FieldWrite, FoldedField, FoldedItem, FoldedValue, Problem, StepPosition,
    TrajectoryEntry,
};
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::{IntoPyObjectExt, type_hint_identifier, type_hint_subscript};

use super::item_id::PyItemId;
use super::record::Record;
use super::{cell, position};
use crate::rows::PausedCollector;
use crate::{json, timestamp};

pub const MODULE: &str = "lance_context.datagen_types";

const FOLDED_ITEM: PyStaticExpr = type_hint_identifier!("lance_context.datagen_types", "FoldedItem");
const FAILURE: PyStaticExpr = type_hint_identifier!("lance_context.datagen_types", "Failure");

static ITEM: Record<21> = Record::new(
    MODULE,
    "FoldedItem",
    [
        "item_id",
        "status",
        "failed",
        "last_event_id",
        "last_item_seq",
        "last_attempt",
        "fields",
        "trajectory",
        "started",
        "completed",
        "open_frames",
        "query_tags",
        "config_hash",
        "attributes",
        "blob_event_ids",
        "created_at",
        "updated_at",
        "run_ids",
        "failures",
        "fenced",
        "problems",
    ],
);
static FIELD: Record<2> = Record::new(MODULE, "FoldedField", ["op", "entries"]);
static VALUE: Record<6> =
    Record::new(MODULE, "FoldedValue", ["value", "kind", "field_type", "codec_version", "step", "event_id"]);
static BLOB: Record<3> = Record::new(MODULE, "BlobRef", ["event_id", "size", "checksum"]);
static ENTRY: Record<8> = Record::new(
    MODULE,
    "TrajectoryEntry",
    ["position", "attempt", "item_seq", "place", "run_id", "event_id", "attributes", "event_ts"],
);
static FAILED: Record<12> = Record::new(
    MODULE,
    "Failure",
    [
        "item_id",
        "position",
        "error_type",
        "error_dump",
        "traceback",
        "attributes",
        "run_id",
        "attempt",
        "item_seq",
        "event_id",
        "event_ts",
        "recovered",
    ],
);
static FENCED: Record<5> =
    Record::new(MODULE, "FencedStream", ["attempt", "writer_epoch", "first_seq", "last_seq", "event_ids"]);
static PROBLEM: Record<4> = Record::new(MODULE, "Problem", ["kind", "item_seq", "event_id", "message"]);

/// A folded item that becomes a `FoldedItem`.
pub struct PyFolded(pub FoldedItem);

impl<'py> IntoPyObject<'py> for PyFolded {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = FOLDED_ITEM;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let _collector = PausedCollector::new(py)?;
        item(py, &self.0)
    }
}

/// Folded items that become a list of `FoldedItem`.
pub struct PyFoldedList(pub Vec<FoldedItem>);

impl<'py> IntoPyObject<'py> for PyFoldedList {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(type_hint_identifier!("builtins", "list"), FOLDED_ITEM);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let _collector = PausedCollector::new(py)?;
        each(py, &self.0, item)
    }
}

/// Failures that become a list of `Failure`.
pub struct PyFailures(pub Vec<Failure>);

impl<'py> IntoPyObject<'py> for PyFailures {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(type_hint_identifier!("builtins", "list"), FAILURE);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        each(py, &self.0, failure)
    }
}

/// A `FoldedItem`.
pub fn item<'py>(py: Python<'py>, item: &FoldedItem) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    for (name, written) in &item.fields {
        fields.set_item(name, field(py, written)?)?;
    }
    let values = [
        PyItemId(item.item_id.clone()).into_bound_py_any(py)?,
        item.status.name().into_bound_py_any(py)?,
        item.failed.into_bound_py_any(py)?,
        item.last_event_id.as_deref().into_bound_py_any(py)?,
        item.last_item_seq.into_bound_py_any(py)?,
        item.last_attempt.into_bound_py_any(py)?,
        fields.into_any(),
        each(py, &item.trajectory, entry)?.into_any(),
        each(py, &item.started, step)?.into_any(),
        each(py, &item.completed, step)?.into_any(),
        each(py, &item.open_frames, step)?.into_any(),
        json(py, item.query_tags.as_deref())?,
        item.config_hash.as_deref().into_bound_py_any(py)?,
        json(py, item.attributes.as_deref())?,
        blob_ids(py, item)?.into_any(),
        instant(py, item.created_at)?,
        instant(py, item.updated_at)?,
        item.run_ids.as_slice().into_bound_py_any(py)?,
        each(py, &item.failures, failure)?.into_any(),
        each(py, &item.fenced, fenced)?.into_any(),
        each(py, &item.problems, problem)?.into_any(),
    ];
    ITEM.make(py, values)
}

pub fn each<'py, T>(
    py: Python<'py>,
    all: &[T],
    write: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, all.iter().map(|one| write(py, one)).collect::<PyResult<Vec<_>>>()?)
}

fn field<'py>(py: Python<'py>, field: &FoldedField) -> PyResult<Bound<'py, PyAny>> {
    FIELD.make(py, [field.op.name().into_bound_py_any(py)?, each(py, &field.values, folded_value)?.into_any()])
}

fn folded_value<'py>(py: Python<'py>, folded: &FoldedValue) -> PyResult<Bound<'py, PyAny>> {
    let FoldedValue { cell, field_type, codec_version, step, event_id } = folded;
    value_of(py, cell, (field_type, *codec_version), step, event_id)
}

/// A `FoldedValue` for a write that was just stamped; a blob is left out.
pub fn value<'py>(
    py: Python<'py>,
    write: &FieldWrite,
    step: &StepPosition,
    event_id: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let unloaded = match &write.value {
        Cell::Blob { size, checksum, .. } => &Cell::Blob { bytes: None, size: *size, checksum: checksum.clone() },
        other => other,
    };
    value_of(py, unloaded, (&write.field_type, write.codec_version), step, event_id)
}

fn value_of<'py>(
    py: Python<'py>,
    cell: &Cell,
    (field_type, codec_version): (&str, i32),
    position: &StepPosition,
    event_id: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let event_id = event_id.into_bound_py_any(py)?;
    let value = match cell {
        Cell::Blob { bytes: None, size, checksum } => {
            let parts = [event_id.clone(), size.into_bound_py_any(py)?, checksum.into_bound_py_any(py)?];
            BLOB.make(py, parts)?
        }
        held => cell::untag(py, held)?,
    };
    let parts = [
        value,
        cell.kind().into_bound_py_any(py)?,
        field_type.into_bound_py_any(py)?,
        codec_version.into_bound_py_any(py)?,
        step(py, position)?,
        event_id,
    ];
    VALUE.make(py, parts)
}

fn step<'py>(py: Python<'py>, position: &StepPosition) -> PyResult<Bound<'py, PyAny>> {
    Ok(position::write(py, position)?.into_any())
}

fn entry<'py>(py: Python<'py>, entry: &TrajectoryEntry) -> PyResult<Bound<'py, PyAny>> {
    let parts = [
        step(py, &entry.position)?,
        entry.attempt.into_bound_py_any(py)?,
        entry.item_seq.into_bound_py_any(py)?,
        entry.place.into_bound_py_any(py)?,
        entry.run_id.as_str().into_bound_py_any(py)?,
        entry.event_id.as_str().into_bound_py_any(py)?,
        json(py, entry.attributes.as_deref())?,
        timestamp::write(py, entry.event_ts, true)?.into_any(),
    ];
    ENTRY.make(py, parts)
}

/// A `Failure`.
pub fn failure<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyAny>> {
    let parts = [
        PyItemId(failure.item_id.clone()).into_bound_py_any(py)?,
        step(py, &failure.position)?,
        failure.error_type.as_str().into_bound_py_any(py)?,
        failure.error_dump.as_deref().into_bound_py_any(py)?,
        failure.traceback.as_deref().into_bound_py_any(py)?,
        json(py, failure.attributes.as_deref())?,
        failure.run_id.as_str().into_bound_py_any(py)?,
        failure.attempt.into_bound_py_any(py)?,
        failure.item_seq.into_bound_py_any(py)?,
        failure.event_id.as_str().into_bound_py_any(py)?,
        timestamp::write(py, failure.event_ts, true)?.into_any(),
        failure.recovered.into_bound_py_any(py)?,
    ];
    FAILED.make(py, parts)
}

fn fenced<'py>(py: Python<'py>, stream: &FencedStream) -> PyResult<Bound<'py, PyAny>> {
    let parts = [
        stream.attempt.into_bound_py_any(py)?,
        stream.writer_epoch.as_str().into_bound_py_any(py)?,
        stream.first_seq.into_bound_py_any(py)?,
        stream.last_seq.into_bound_py_any(py)?,
        stream.event_ids.as_slice().into_bound_py_any(py)?,
    ];
    FENCED.make(py, parts)
}

fn problem<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyAny>> {
    let parts = [
        problem.kind.name().into_bound_py_any(py)?,
        problem.item_seq.into_bound_py_any(py)?,
        problem.event_id.as_deref().into_bound_py_any(py)?,
        problem.message.as_str().into_bound_py_any(py)?,
    ];
    PROBLEM.make(py, parts)
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

fn json<'py>(py: Python<'py>, text: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    text.map_or_else(|| Ok(py.None().into_bound(py)), |text| json::write(py, text))
}

fn instant(py: Python<'_>, micros: Option<i64>) -> PyResult<Bound<'_, PyAny>> {
    micros.map_or_else(|| Ok(py.None().into_bound(py)), |micros| Ok(timestamp::write(py, micros, true)?.into_any()))
}
