//! Python objects as JSON text and back, without a change on the way.
//!
//! `json.dumps` turns keys of other types into text and accepts NaN, which JSON lacks; here both are errors that
//! name the place. Reading back is `json.loads`, which keeps order, big integers and floats.

use lance_context_spec::Value;
use lance_context_spec::json::{JsonFault, MAX_DEPTH};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

use crate::datagen::dump_model;
use crate::value::{self, Fault};

/// The JSON text of `object`.
pub fn read(object: &Bound<'_, PyAny>) -> Result<Value<'static>, Fault> {
    let mut text = String::new();
    match append(object, &mut text, 0) {
        Ok(()) => Ok(Value::Json(text.into())),
        Err(Misplaced { fault, path }) => Err(match fault {
            Fault::WrongType(got) => Fault::WrongType(format!("{got} at `${path}`")),
            Fault::OutOfRange(message) => Fault::OutOfRange(format!("at `${path}`: {message}")),
            Fault::Raised(error) => Fault::Raised(error),
        }),
    }
}

/// The Python object of a JSON text.
pub fn write<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((text,))
}

/// What is no JSON, and where.
struct Misplaced {
    fault: Fault,
    path: String,
}

impl Misplaced {
    #[cold]
    fn below(self, step: &str) -> Self {
        Self { path: format!("{step}{}", self.path), ..self }
    }
}

impl<F: Into<Fault>> From<F> for Misplaced {
    fn from(fault: F) -> Self {
        Self { fault: fault.into(), path: String::new() }
    }
}

fn append(object: &Bound<'_, PyAny>, text: &mut String, depth: usize) -> Result<(), Misplaced> {
    if object.is_none() {
        text.push_str("null");
    } else if let Ok(truth) = object.cast::<PyBool>() {
        text.push_str(if truth.is_true() { "true" } else { "false" });
    } else if let Ok(string) = object.cast::<PyString>() {
        quote(&value::utf8(string)?, text);
    } else if let Ok(float) = object.cast::<PyFloat>() {
        append_float(float.value(), text)?;
    } else if let Ok(int) = object.cast::<PyInt>() {
        // The digits of the number, also where a subclass shows itself differently.
        let digits = int.py().get_type::<PyInt>().getattr(intern!(int.py(), "__repr__"))?.call1((int,))?;
        text.push_str(&digits.cast::<PyString>().map_err(PyErr::from)?.to_cow()?);
    } else if let Ok(items) = object.cast::<PyList>() {
        append_items(items.iter(), text, depth)?;
    } else if let Ok(items) = object.cast::<PyTuple>() {
        append_items(items.iter(), text, depth)?;
    } else if let Ok(members) = object.cast::<PyDict>() {
        append_members(members, text, depth)?;
    } else if let Ok(mapping) = object.cast::<PyMapping>() {
        append_members(&PyDict::from_sequence(mapping.items()?.as_any())?, text, depth)?;
    } else {
        match value::infer(object)? {
            Some(Value::Bool(truth)) => text.push_str(if truth { "true" } else { "false" }),
            Some(Value::Int(int)) => text.push_str(&int.to_string()),
            Some(Value::Float(float)) => append_float(float, text)?,
            Some(Value::Str(string)) => quote(&string, text),
            _ => match dump_model(object)? {
                Some(dumped) => append(&dumped, text, depth)?,
                None => return Err(Fault::WrongType(value::type_name(object)).into()),
            },
        }
    }
    Ok(())
}

fn append_float(float: f64, text: &mut String) -> Result<(), Fault> {
    if !float.is_finite() {
        return Err(Fault::OutOfRange(format!("JSON has no `{float}`; use None, text, or a float column")));
    }
    // The shortest digits that read back as the same float, with a point, so that it stays a float.
    text.push_str(&format!("{float:?}"));
    Ok(())
}

/// The level of a list or mapping in one of level `depth`; zero is none.
fn deeper(depth: usize) -> Result<usize, Fault> {
    if depth == MAX_DEPTH {
        return Err(Fault::OutOfRange(JsonFault::TooDeep.to_string()));
    }
    Ok(depth + 1)
}

fn append_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    text: &mut String,
    depth: usize,
) -> Result<(), Misplaced> {
    let depth = deeper(depth)?;
    text.push('[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            text.push(',');
        }
        append(&item, text, depth).map_err(|misplaced| misplaced.below(&format!("[{index}]")))?;
    }
    text.push(']');
    Ok(())
}

fn append_members(members: &Bound<'_, PyDict>, text: &mut String, depth: usize) -> Result<(), Misplaced> {
    let depth = deeper(depth)?;
    text.push('{');
    for (index, (key, member)) in members.iter().enumerate() {
        let Ok(name) = key.cast::<PyString>() else {
            return Err(Fault::WrongType(format!("a mapping with a key of type {}", value::type_name(&key))).into());
        };
        let name = value::utf8(name)?;
        if index > 0 {
            text.push(',');
        }
        quote(&name, text);
        text.push(':');
        append(&member, text, depth).map_err(|misplaced| misplaced.below(&format!(".{name}")))?;
    }
    text.push('}');
    Ok(())
}

/// Appends a JSON string. <https://www.rfc-editor.org/rfc/rfc8259#section-7>
fn quote(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}
