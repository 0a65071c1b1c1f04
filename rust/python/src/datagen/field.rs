//! Field writes: as mappings of the caller, and gathered one by one by a step.

use std::sync::{Mutex, PoisonError};

use lance_context_spec::Error;
use lance_context_spec::datagen::{Cell, FieldOp, FieldWrite};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use super::cell;
use crate::errors;
use crate::value::{self, Fault};

const KEYS: [&str; 5] = ["field_name", "field_type", "value", "op", "codec_version"];

/// The field writes of a step, in order. A value is read when it is added: what becomes of the object later changes
/// nothing.
#[pyclass(frozen, name = "FieldList", module = "lance_context._native")]
#[derive(Default)]
pub struct PyFieldList(Mutex<Vec<FieldWrite>>);

impl PyFieldList {
    /// A copy of the writes.
    pub fn writes(&self) -> Vec<FieldWrite> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl PyFieldList {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds one write; without a `field_type` it is the kind of the value.
    #[pyo3(signature = (field_name, value: "object", op, field_type, codec_version))]
    fn add(
        &self,
        field_name: String,
        value: &Bound<'_, PyAny>,
        op: &str,
        field_type: Option<String>,
        codec_version: i32,
    ) -> PyResult<()> {
        let cell = cell::tag(value).map_err(|fault| refused(value.py(), 0, &field_name, fault))?;
        let op = FieldOp::parse(op).unwrap_or_default();
        let write = with_type(field_name, field_type, codec_version, op, cell);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(write);
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Reads an iterable of mappings with the keys of a field write.
///
/// # Errors
///
/// `TypeError` when it is none; `RowError` with index and key for an unknown key, a missing one, and a value that it
/// cannot have.
pub fn read(fields: &Bound<'_, PyAny>) -> PyResult<Vec<FieldWrite>> {
    if fields.is_instance_of::<PyMapping>() {
        return Err(PyTypeError::new_err("`fields` takes an iterable of field writes; put the one into a list"));
    }
    let mut writes = Vec::new();
    for (index, field) in fields.try_iter()?.enumerate() {
        writes.push(read_one(index, &field?)?);
    }
    Ok(writes)
}

fn read_one(index: usize, field: &Bound<'_, PyAny>) -> PyResult<FieldWrite> {
    let py = field.py();
    let Ok(mapping) = field.cast::<PyMapping>() else {
        let got = value::type_name(field);
        return Err(PyTypeError::new_err(format!(
            "a field write is a mapping such as {{\"field_name\": …}}, not {got}"
        )));
    };
    let invalid = |key: &str, message: String| {
        errors::to_python(py, Error::InvalidEvent { event: index, key: key.to_owned(), message })
    };
    let (mut name, mut field_type, mut codec_version, mut op, mut given) = (None, None, 0, FieldOp::Set, None);
    for item in mapping.items()?.iter() {
        let (key, part) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let key = key.extract::<String>()?;
        let wrong = |expected: &str| invalid(&key, format!("expected {expected}, got {}", value::type_name(&part)));
        match key.as_str() {
            "field_name" => name = Some(part.extract::<String>().map_err(|_| wrong("str"))?),
            "field_type" => field_type = Some(part.extract::<String>().map_err(|_| wrong("str"))?),
            "codec_version" => codec_version = part.extract().map_err(|_| wrong("int"))?,
            "op" => {
                let text = part.extract::<String>().map_err(|_| wrong("str"))?;
                op = FieldOp::parse(&text)
                    .ok_or_else(|| invalid("op", format!("unknown `{text}`; possible: set, append")))?;
            }
            "value" => given = Some(part),
            _ => {
                let message = format!("unknown key of a field write; the keys are {}", KEYS.join(", "));
                return Err(invalid(&key, message));
            }
        }
    }
    let name = name.ok_or_else(|| invalid("field_name", "missing; every field write has it".into()))?;
    let given = given.ok_or_else(|| invalid("value", "missing; every field write has it".into()))?;
    let field_type = field_type.ok_or_else(|| invalid("field_type", "missing; every field write has it".into()))?;
    let cell = cell::tag(&given).map_err(|fault| refused(py, index, &name, fault))?;
    Ok(with_type(name, Some(field_type), codec_version, op, cell))
}

fn with_type(name: String, field_type: Option<String>, codec_version: i32, op: FieldOp, value: Cell) -> FieldWrite {
    let field_type = field_type.unwrap_or_else(|| value.kind().to_owned());
    FieldWrite { field_name: name, field_type, codec_version, op, value }
}

fn refused(py: Python<'_>, index: usize, field: &str, fault: Fault) -> PyErr {
    let message = match fault {
        Fault::WrongType(got) => format!("field `{field}` cannot hold {got}"),
        Fault::OutOfRange(message) => format!("field `{field}`: {message}"),
        Fault::Raised(error) => return error,
    };
    errors::to_python(py, Error::InvalidEvent { event: index, key: "value".to_owned(), message })
}
