//! Python values as tagged cells and back.
//!
//! A field takes a native value, whose type says the kind ([`tag`]). An event carries the kind with the value
//! ([`read`], [`write`]), JSON as its exact text.

use lance_context_spec::Value;
use lance_context_spec::datagen::Cell;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString, PyType};

use crate::json;
use crate::value::{self, Fault};

/// The cell of a native value: text, bytes, numbers and truth values by their own kinds, everything that JSON has
/// and pydantic models as JSON. An integer of more than 64 bits is JSON too.
pub fn tag(object: &Bound<'_, PyAny>) -> Result<Cell, Fault> {
    match value::infer(object)? {
        Some(Value::Bool(truth)) => Ok(Cell::Bool(truth)),
        Some(Value::Int(number)) => {
            Ok(i64::try_from(number).map_or_else(|_| Cell::Json(number.to_string()), Cell::Int))
        }
        Some(Value::Float(number)) => Ok(Cell::Float(number)),
        Some(Value::Str(text)) => Ok(Cell::Str(text.into_owned())),
        Some(Value::Bytes(bytes)) => Ok(Cell::blob(bytes.into_owned())),
        Some(Value::Null) | None => json_text(object).map(Cell::Json),
        Some(_) => {
            let got = value::type_name(object);
            Err(Fault::WrongType(format!("{got}, which is no kind of value; give it as text or as a number")))
        }
    }
}

/// The exact JSON text of `object`.
pub fn json_text(object: &Bound<'_, PyAny>) -> Result<String, Fault> {
    match json::read(object)? {
        Value::Json(text) => Ok(text.into_owned()),
        other => Err(Fault::WrongType(other.kind_name().into())),
    }
}

/// What a pydantic model holds, as JSON has it; `None` for any other object.
///
/// By alias and without computed fields, so that the model's class takes it back.
pub fn dump_model<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if object.is_instance_of::<PyType>() || object.getattr_opt(intern!(py, "model_fields_set"))?.is_none() {
        return Ok(None);
    }
    let Some(dump) = object.getattr_opt(intern!(py, "model_dump"))? else { return Ok(None) };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "mode"), intern!(py, "json"))?;
    options.set_item(intern!(py, "by_alias"), true)?;
    options.set_item(intern!(py, "round_trip"), true)?;
    dump.call((), Some(&options)).map(Some)
}

/// The native value of a cell; `None` for a blob whose bytes are not loaded.
pub fn untag<'py>(py: Python<'py>, cell: &Cell) -> PyResult<Bound<'py, PyAny>> {
    match cell {
        Cell::Int(number) => Ok(number.into_pyobject(py)?.into_any()),
        Cell::Float(number) => value::write(py, &Value::Float(*number)),
        Cell::Bool(truth) => value::write(py, &Value::Bool(*truth)),
        Cell::Str(text) => Ok(PyString::new(py, text).into_any()),
        Cell::Json(text) => json::write(py, text),
        Cell::Blob { bytes: Some(bytes), .. } => Ok(PyBytes::new(py, bytes).into_any()),
        Cell::Blob { bytes: None, .. } => Ok(py.None().into_bound(py)),
    }
}

/// The cell of an event, with its tag.
pub fn write<'py>(py: Python<'py>, cell: &Cell) -> PyResult<Bound<'py, PyDict>> {
    let tagged = PyDict::new(py);
    tagged.set_item(intern!(py, "kind"), cell.kind())?;
    match cell {
        Cell::Blob { bytes, size, checksum } => {
            tagged.set_item(intern!(py, "bytes"), bytes.as_ref().map(|bytes| PyBytes::new(py, bytes)))?;
            tagged.set_item(intern!(py, "size"), size)?;
            tagged.set_item(intern!(py, "checksum"), checksum)?;
        }
        Cell::Json(text) => tagged.set_item(intern!(py, "value"), text)?,
        other => tagged.set_item(intern!(py, "value"), untag(py, other)?)?,
    }
    Ok(tagged)
}

/// Reads the cell of an event. The error is a message about the key `value`.
pub fn read(object: &Bound<'_, PyAny>) -> Result<Cell, Fault> {
    let Ok(tagged) = object.cast::<PyMapping>() else {
        let got = value::type_name(object);
        let message = "which is no tagged value; in an event it is {\"kind\": …, \"value\": …}";
        return Err(Fault::WrongType(format!("{got}, {message}")));
    };
    let mut parts = Parts::default();
    for item in tagged.items()?.iter() {
        let (key, part) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        parts.put(&key, part)?;
    }
    parts.cell()
}

#[derive(Default)]
struct Parts<'py> {
    kind: Option<String>,
    value: Option<Bound<'py, PyAny>>,
    bytes: Option<Bound<'py, PyAny>>,
    size: Option<i64>,
    checksum: Option<String>,
}

impl<'py> Parts<'py> {
    fn put(&mut self, key: &Bound<'py, PyAny>, part: Bound<'py, PyAny>) -> Result<(), Fault> {
        let name = key
            .extract::<String>()
            .map_err(|_| Fault::WrongType(format!("a key of type {}", value::type_name(key))))?;
        let wrong = |_| Fault::WrongType(format!("{} as `{name}`", value::type_name(&part)));
        match name.as_str() {
            "kind" => self.kind = Some(part.extract().map_err(wrong)?),
            "size" => self.size = part.extract().map_err(wrong)?,
            "checksum" => self.checksum = part.extract().map_err(wrong)?,
            "value" => self.value = Some(part),
            "bytes" => self.bytes = Some(part).filter(|bytes| !bytes.is_none()),
            _ => {
                let message =
                    format!("unknown key `{name}` of a value; the keys are kind, value, bytes, size, checksum");
                return Err(Fault::OutOfRange(message));
            }
        }
        Ok(())
    }

    fn cell(self) -> Result<Cell, Fault> {
        let kind = self.kind.ok_or_else(|| Fault::OutOfRange("the value has no `kind`".into()))?;
        let flat = self.bytes.is_none() && self.size.is_none() && self.checksum.is_none();
        if kind == "blob" && !(flat && self.value.is_some()) {
            if self.value.is_some() {
                return Err(Fault::OutOfRange(
                    "a blob has `bytes`, and `size` and `checksum` of them; no `value`".into(),
                ));
            }
            let bytes = self.bytes.as_ref().map(native_bytes).transpose()?;
            return Cell::blob_of(bytes, self.size, self.checksum).map_err(Fault::OutOfRange);
        }
        if !flat {
            return Err(Fault::OutOfRange(format!(
                "`bytes`, `size` and `checksum` belong to a blob, and the kind is `{kind}`"
            )));
        }
        let value = self.value.ok_or_else(|| Fault::OutOfRange("the value has a `kind` and no `value`".into()))?;
        if kind == "json" {
            return match value.cast::<PyString>() {
                Ok(text) => Cell::tagged(&kind, Value::Json(value::utf8(text)?)).map_err(Fault::OutOfRange),
                Err(_) => json_text(&value).map(Cell::Json),
            };
        }
        let native = value::infer(&value)?.ok_or_else(|| Fault::WrongType(value::type_name(&value)))?;
        // A float that happens to be whole is written without a point by many.
        let native = match (kind.as_str(), native) {
            ("float", Value::Int(number)) => Value::Float(exact_float(number)?),
            (_, native) => native,
        };
        Cell::tagged(&kind, native).map_err(Fault::OutOfRange)
    }
}

fn native_bytes(object: &Bound<'_, PyAny>) -> Result<Vec<u8>, Fault> {
    match value::infer(object)? {
        Some(Value::Bytes(bytes)) => Ok(bytes.into_owned()),
        _ => Err(Fault::WrongType(format!("{} as `bytes`", value::type_name(object)))),
    }
}

fn exact_float(number: i128) -> Result<f64, Fault> {
    // What the casts lose is compared.
    let float = number as f64;
    if float as i128 == number { Ok(float) } else { Err(Fault::OutOfRange(format!("`{number}` is no float exactly"))) }
}
