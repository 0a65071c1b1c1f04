//! Step positions as mappings.

use lance_context_spec::datagen::{StepKind, StepPosition};
use lance_context_spec::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};

use crate::{errors, value};

const KEYS: [&str; 6] = ["step_name", "step_kind", "step_index", "enclosing_step", "selector_step", "iteration"];

/// The mapping of a position; every key is there.
pub fn write<'py>(py: Python<'py>, position: &StepPosition) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    put(&written, Some(position))?;
    Ok(written)
}

/// Sets the keys of a position in `target`; all `None` without one.
pub fn put(target: &Bound<'_, PyDict>, position: Option<&StepPosition>) -> PyResult<()> {
    let py = target.py();
    target.set_item(intern!(py, "step_name"), position.map(|position| &position.step_name))?;
    target.set_item(intern!(py, "step_kind"), position.map(|position| position.step_kind.name()))?;
    target.set_item(intern!(py, "step_index"), position.map(|position| position.step_index))?;
    target.set_item(intern!(py, "enclosing_step"), position.and_then(|position| position.enclosing_step.as_ref()))?;
    target.set_item(intern!(py, "selector_step"), position.and_then(|position| position.selector_step.as_ref()))?;
    target.set_item(intern!(py, "iteration"), position.map(|position| &position.iteration))
}

/// Reads a mapping of `step_name` and any of the other keys.
///
/// # Errors
///
/// `TypeError` when it is no mapping; `RowError` with the key for an unknown key and a value that it cannot have.
pub fn read(object: &Bound<'_, PyAny>) -> PyResult<StepPosition> {
    let py = object.py();
    let Ok(mapping) = object.cast::<PyMapping>() else {
        let got = value::type_name(object);
        return Err(PyTypeError::new_err(format!(
            "`position` takes a mapping such as {{\"step_name\": …}}, not {got}"
        )));
    };
    let mut position = StepPosition::default();
    let mut named = false;
    for item in mapping.items()?.iter() {
        let (key, part) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let Ok(key) = key.extract::<String>() else {
            return Err(PyTypeError::new_err(format!(
                "the keys of `position` are `str`, not {}",
                value::type_name(&key)
            )));
        };
        named |= key == "step_name";
        set(&mut position, &key, &part).map_err(|error| errors::to_python(py, error))?;
    }
    if named {
        return Ok(position);
    }
    Err(errors::to_python(py, invalid("step_name", "missing; every position has it".into())))
}

fn set(position: &mut StepPosition, key: &str, part: &Bound<'_, PyAny>) -> Result<()> {
    let wrong = |expected: &str| invalid(key, format!("expected {expected}, got {}", value::type_name(part)));
    let text = || part.extract::<String>().map_err(|_| wrong("str"));
    let optional = || part.extract::<Option<String>>().map_err(|_| wrong("str or None"));
    match key {
        "step_name" => position.step_name = text()?,
        "step_kind" => {
            let name = text()?;
            let known = StepKind::ALL.map(StepKind::name).join(", ");
            position.step_kind =
                StepKind::parse(&name).ok_or_else(|| invalid(key, format!("unknown `{name}`; possible: {known}")))?;
        }
        "step_index" => position.step_index = part.extract().map_err(|_| wrong("int"))?,
        "enclosing_step" => position.enclosing_step = optional()?,
        "selector_step" => position.selector_step = optional()?,
        "iteration" if part.is_instance_of::<PyString>() => return Err(wrong("a sequence of int")),
        "iteration" => position.iteration = part.extract().map_err(|_| wrong("a sequence of int"))?,
        _ => return Err(invalid(key, format!("unknown key of a position; the keys are {}", KEYS.join(", ")))),
    }
    Ok(())
}

fn invalid(key: &str, message: String) -> Error {
    Error::InvalidEvent { event: 0, key: key.to_owned(), message }
}
