//! Events as mappings with the keys of [`EVENT_KEYS`], and back.

use lance_context_spec::datagen::{Cell, Event, EventInput};
use lance_context_spec::{Error, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::inspect::PyStaticExpr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PySequence, PyString};
use pyo3::{type_hint_identifier, type_hint_subscript};

use super::item_id::PyItemId;
use super::{cell, folded, position};
use crate::rows::ROW_TYPE;
use crate::value::{self, Fault};
use crate::{errors, json, timestamp};

/// Events on their way to a store, as the writer stamped them.
#[pyclass(frozen, name = "EventBatch", module = "lance_context._native")]
pub struct PyEventBatch(pub Vec<Event>);

#[pymethods]
impl PyEventBatch {
    /// The events as dicts.
    fn events(&self) -> Events {
        Events(self.0.clone())
    }

    /// Name, operation and value of each field that the events write, as a fold shows them.
    fn fields(&self) -> Writes<'_> {
        Writes(&self.0)
    }

    /// The id of the last event.
    #[getter]
    fn last_event_id(&self) -> Option<&str> {
        self.0.last().map(|event| event.event_id.as_str())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// The field writes of events: tuples of name, operation and value.
struct Writes<'a>(&'a [Event]);

impl<'py> IntoPyObject<'py> for Writes<'_> {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(
        type_hint_identifier!("builtins", "list"),
        type_hint_subscript!(
            type_hint_identifier!("builtins", "tuple"),
            type_hint_identifier!("builtins", "str"),
            type_hint_identifier!("builtins", "str"),
            type_hint_identifier!("lance_context.datagen_types", "FoldedValue")
        )
    );

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let writes = PyList::empty(py);
        for event in self.0 {
            if let (Some(write), Some(step)) = (&event.field, &event.position) {
                let value = folded::value(py, write, step, &event.event_id)?;
                writes.append((&write.field_name, write.op.name(), value))?;
            }
        }
        Ok(writes)
    }
}

/// Events that become a list of dicts.
pub struct Events(pub Vec<Event>);

impl<'py> IntoPyObject<'py> for Events {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(type_hint_identifier!("builtins", "list"), ROW_TYPE);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        PyList::new(py, self.0.iter().map(|event| write(py, event)).collect::<PyResult<Vec<_>>>()?)
    }
}

/// The dict of an event; every key is there.
pub fn write<'py>(py: Python<'py>, event: &Event) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    let json = |text: &Option<String>| text.as_ref().map(|text| json::write(py, text)).transpose();
    let field = event.field.as_ref();
    written.set_item(intern!(py, "event_id"), &event.event_id)?;
    written.set_item(intern!(py, "item_id"), event.item_id.as_str())?;
    written.set_item(intern!(py, "root_item_id"), event.item_id.root().as_str())?;
    written.set_item(intern!(py, "parent_item_id"), event.item_id.parent().as_ref().map(|parent| parent.as_str()))?;
    written.set_item(intern!(py, "attempt"), event.attempt)?;
    written.set_item(intern!(py, "writer_epoch"), &event.writer_epoch)?;
    written.set_item(intern!(py, "run_id"), &event.run_id)?;
    written.set_item(intern!(py, "item_seq"), event.item_seq)?;
    written.set_item(intern!(py, "checkpoint_id"), &event.checkpoint_id)?;
    written.set_item(intern!(py, "resumed_from"), &event.resumed_from)?;
    written.set_item(intern!(py, "event_type"), event.event_type.name())?;
    position::put(&written, event.position.as_ref())?;
    written.set_item(intern!(py, "field_name"), field.map(|field| &field.field_name))?;
    written.set_item(intern!(py, "field_type"), field.map(|field| &field.field_type))?;
    written.set_item(intern!(py, "codec_version"), field.map(|field| field.codec_version))?;
    written.set_item(intern!(py, "value"), field.map(|field| cell::write(py, &field.value)).transpose()?)?;
    written.set_item(intern!(py, "status"), event.status.map(|status| status.name()))?;
    written.set_item(intern!(py, "query_tags"), json(&event.query_tags)?)?;
    written.set_item(intern!(py, "config_hash"), &event.config_hash)?;
    written.set_item(intern!(py, "attributes"), json(&event.attributes)?)?;
    written.set_item(intern!(py, "error_type"), &event.error_type)?;
    written.set_item(intern!(py, "error_dump"), &event.error_dump)?;
    written.set_item(intern!(py, "traceback"), &event.traceback)?;
    written.set_item(intern!(py, "event_ts"), timestamp::write(py, event.event_ts, true)?)?;
    written.set_item(intern!(py, "schema_version"), event.schema_version)?;
    Ok(written)
}

/// Reads what `append` takes: one event, an iterable of events, or a batch of the writer.
///
/// # Errors
///
/// `TypeError` when it is none of them; `RowError` with the index of the event and the key for what does not fit.
pub fn read(events: &Bound<'_, PyAny>) -> PyResult<Vec<Event>> {
    if let Ok(batch) = events.cast::<PyEventBatch>() {
        return Ok(batch.get().0.clone());
    }
    if let Ok(event) = events.cast::<PyMapping>() {
        return Ok(vec![read_one(0, event)?]);
    }
    let not_events = || {
        let got = value::type_name(events);
        PyTypeError::new_err(format!("`events` takes an event or an iterable of events, not {got}"))
    };
    if events.is_instance_of::<PyString>() || events.is_instance_of::<PyBytes>() {
        return Err(not_events());
    }
    let mut read = Vec::with_capacity(events.len().unwrap_or(1));
    for (index, event) in events.try_iter().map_err(|_| not_events())?.enumerate() {
        let event = event?;
        let mapping = event.cast::<PyMapping>().map_err(|_| {
            PyTypeError::new_err(format!("an event is a mapping, and event {index} is {}", value::type_name(&event)))
        })?;
        read.push(read_one(index, mapping)?);
    }
    Ok(read)
}

fn read_one(index: usize, event: &Bound<'_, PyMapping>) -> PyResult<Event> {
    let py = event.py();
    let mut input = EventInput::default();
    for item in event.items()?.iter() {
        let (key, object) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let Ok(key) = key.cast::<PyString>() else {
            let got = value::type_name(&key);
            return Err(PyTypeError::new_err(format!("the keys of an event are `str`, and event {index} has {got}")));
        };
        let key = key.to_cow()?;
        let taken = match part(&key, &object) {
            Ok(Part::Cell(cell)) => {
                input.set_value(cell);
                Ok(())
            }
            Ok(Part::Value(value)) => input.set(index, &key, value),
            Err(Fault::WrongType(got)) => Err(invalid(index, &key, format!("got {got}"))),
            Err(Fault::OutOfRange(message)) => Err(invalid(index, &key, message)),
            Err(Fault::Raised(error)) => return Err(error),
        };
        taken.map_err(|error| errors::to_python(py, error))?;
    }
    input.into_event(index).map_err(|error| errors::to_python(py, error))
}

fn invalid(event: usize, key: &str, message: String) -> Error {
    Error::InvalidEvent { event, key: key.to_owned(), message }
}

enum Part {
    Cell(Cell),
    Value(Value<'static>),
}

fn part(key: &str, object: &Bound<'_, PyAny>) -> Result<Part, Fault> {
    if object.is_none() {
        return Ok(Part::Value(Value::Null));
    }
    let value = match key {
        "value" => return cell::read(object).map(Part::Cell),
        "query_tags" | "attributes" => Value::Json(cell::json_text(object)?.into()),
        "iteration" => counters(object)?,
        _ => match object.cast::<PyItemId>() {
            Ok(id) => Value::Str(id.get().0.to_string().into()),
            Err(_) => value::infer(object)?.ok_or_else(|| Fault::WrongType(value::type_name(object)))?,
        },
    };
    Ok(Part::Value(value))
}

fn counters(object: &Bound<'_, PyAny>) -> Result<Value<'static>, Fault> {
    let sequence = object.cast::<PySequence>().ok().filter(|_| !object.is_instance_of::<PyString>());
    let sequence = sequence.ok_or_else(|| Fault::WrongType(value::type_name(object)))?;
    let mut counters = Vec::new();
    for counter in sequence.try_iter()? {
        let counter = counter?;
        counters.push(value::infer(&counter)?.ok_or_else(|| Fault::WrongType(value::type_name(&counter)))?);
    }
    Ok(Value::List(counters))
}
