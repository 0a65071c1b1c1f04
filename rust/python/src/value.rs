//! Python objects as cells and cells as Python objects.
//!
//! Into a row, the declared column type decides what an object may be ([`read`]); in a filter, the
//! object itself does ([`infer`]). Text and bytes are borrowed from the object, vectors are gathered
//! in a buffer that the caller keeps for all rows.

use std::borrow::Cow;

use bytes::Bytes;
use lance_context_spec::value::to_f32;
use lance_context_spec::{ColumnType, Fields, Value};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView,
    PySequence, PyString, PyTuple, PyType,
};

use crate::{decimal, json, timestamp};

/// Bytes from this size on are shared with the Python object, which cannot change.
const SHARED_BYTES: usize = 64 << 10;

/// Why an object is no cell of its column. The caller knows the row and the column.
pub enum Fault {
    /// It is of another type; the text says what it is.
    WrongType(String),
    /// The declared type cannot hold it; the text says why.
    OutOfRange(String),
    /// Code of the object raised.
    Raised(PyErr),
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

/// Reads `object` as a cell of a column of `column_type`.
///
/// `floats` is scratch space for vectors: its content is overwritten, its capacity reused.
pub fn read<'a>(
    object: &'a Bound<'_, PyAny>,
    column_type: &ColumnType,
    floats: &'a mut Vec<f32>,
) -> Result<Value<'a>, Fault> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    match column_type {
        ColumnType::String { .. } => string(object),
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64 => integer(object)?.map(Value::Int).ok_or_else(|| wrong_type(object)),
        ColumnType::Float16 | ColumnType::Float32 | ColumnType::Float64 => {
            number(object)?.ok_or_else(|| wrong_type(object))
        }
        ColumnType::Bool => boolean(object)?.map(Value::Bool).ok_or_else(|| wrong_type(object)),
        ColumnType::Timestamp { .. } => match object.cast::<PyDateTime>() {
            Ok(moment) => timestamp::read(moment),
            Err(_) => string(object),
        },
        // A datetime is a date too, and would lose its time.
        ColumnType::Date => match object.cast::<PyDate>() {
            Ok(day) if !object.is_instance_of::<PyDateTime>() => timestamp::read_date(day),
            _ => string(object),
        },
        ColumnType::Decimal { .. } => match decimal::read(object)? {
            Some(value) => Ok(value),
            None if object.is_instance_of::<PyString>() => string(object),
            None => integer(object)?.map(Value::Int).ok_or_else(|| wrong_type(object)),
        },
        ColumnType::Json => json::read(object),
        ColumnType::Binary { .. } => bytes(object)?.map(Value::Bytes).ok_or_else(|| wrong_type(object)),
        ColumnType::Vector { .. } => vector(object, floats),
        ColumnType::List { item } if **item == ColumnType::Float32 => vector(object, floats),
        ColumnType::List { item } => list(object, item),
        ColumnType::Struct { fields } => structure(object, fields),
    }
}

/// Bytes large enough that keeping the object is cheaper than copying it. `None`: read it like any other.
pub fn share(object: &Bound<'_, PyAny>, column_type: &ColumnType) -> Option<Bytes> {
    let ColumnType::Binary { .. } = column_type else { return None };
    let bytes = object.cast::<PyBytes>().ok().filter(|bytes| bytes.as_bytes().len() >= SHARED_BYTES)?;
    Some(Bytes::from_owner(PyBackedBytes::from(bytes.clone())))
}

/// Reads `object` as a cell by its own type: a filter parameter. `None`: there is no such cell.
pub fn infer(object: &Bound<'_, PyAny>) -> Result<Option<Value<'static>>, Fault> {
    if object.is_none() {
        return Ok(Some(Value::Null));
    }
    if let Some(value) = boolean(object)? {
        return Ok(Some(Value::Bool(value)));
    }
    if let Some(number) = number(object)? {
        return Ok(Some(number));
    }
    if let Ok(moment) = object.cast::<PyDateTime>() {
        return timestamp::read(moment).map(Some);
    }
    if let Ok(day) = object.cast::<PyDate>() {
        return timestamp::read_date(day).map(Some);
    }
    if let Some(value) = decimal::read(object)? {
        return Ok(Some(value));
    }
    if let Some(value) = bytes(object)? {
        return Ok(Some(Value::Bytes(value).into_owned()));
    }
    if object.is_instance_of::<PyString>() || is_uuid(object)? {
        return string(object).map(|value| Some(value.into_owned()));
    }
    Ok(None)
}

/// Makes the Python object for a cell.
pub fn write<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Int(value) => match i64::try_from(*value) {
            Ok(value) => value.into_pyobject(py)?.into_any(),
            Err(_) => value.into_pyobject(py)?.into_any(),
        },
        Value::Float(value) => PyFloat::new(py, *value).into_any(),
        Value::Str(value) => PyString::new(py, value).into_any(),
        Value::Bytes(value) => PyBytes::new(py, value).into_any(),
        Value::Timestamp { micros, aware } => timestamp::write(py, *micros, *aware)?.into_any(),
        Value::Date(days) => timestamp::write_date(py, *days)?.into_any(),
        Value::Decimal { unscaled, scale } => decimal::write(py, *unscaled, *scale)?,
        Value::Json(text) => json::write(py, text)?,
        Value::Vector(values) => PyList::new(py, values.iter().map(|value| f64::from(*value)))?.into_any(),
        Value::List(values) => {
            let items = values.iter().map(|value| write(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Struct(cells) => {
            let object = PyDict::new(py);
            for (name, cell) in cells {
                object.set_item(PyString::intern(py, name), write(py, cell)?)?;
            }
            object.into_any()
        }
    })
}

/// The name of the object's type in a message.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    format!("`{name}`")
}

fn wrong_type(object: &Bound<'_, PyAny>) -> Fault {
    Fault::WrongType(type_name(object))
}

/// The text of a string, unless it is none.
pub fn utf8<'a>(text: &'a Bound<'_, PyString>) -> Result<Cow<'a, str>, Fault> {
    let surrogate = || Fault::WrongType("`str` with a lone surrogate, which is no text in UTF-8".into());
    text.to_str().map(Cow::Borrowed).map_err(|_| surrogate())
}

fn string<'a>(object: &'a Bound<'_, PyAny>) -> Result<Value<'a>, Fault> {
    if let Ok(text) = object.cast::<PyString>() {
        return utf8(text).map(Value::Str);
    }
    if is_uuid(object)? {
        return Ok(Value::Str(Cow::Owned(object.str()?.to_string())));
    }
    Err(wrong_type(object))
}

fn boolean(object: &Bound<'_, PyAny>) -> Result<Option<bool>, Fault> {
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Some(value.is_true()));
    }
    // A number is told apart without a look at its attributes.
    if object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>() {
        return Ok(None);
    }
    Ok(if scalar_kind(object) == Some('b') { Some(object.is_truthy()?) } else { None })
}

/// Any object with `__index__`, except bools. `None`: it is no integer.
fn integer(object: &Bound<'_, PyAny>) -> Result<Option<i128>, Fault> {
    if object.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    let py = object.py();
    match object.extract::<i64>() {
        Ok(value) => Ok(Some(value.into())),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(None),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => object
            .extract::<i128>()
            .map(Some)
            .map_err(|_| Fault::OutOfRange("the integer has more than 128 bits".into())),
        Err(error) => Err(error.into()),
    }
}

/// A float, an integer, or a numpy scalar of either kind. Whether it fits, the codec says.
fn number(object: &Bound<'_, PyAny>) -> Result<Option<Value<'static>>, Fault> {
    if let Ok(value) = object.cast::<PyFloat>() {
        return Ok(Some(Value::Float(value.value())));
    }
    if let Some(value) = integer(object)? {
        return Ok(Some(Value::Int(value)));
    }
    // `__float__` alone is not enough: `Decimal` has it too, and would lose digits.
    Ok(if scalar_kind(object) == Some('f') { Some(Value::Float(object.extract()?)) } else { None })
}

fn bytes<'a>(object: &'a Bound<'_, PyAny>) -> Result<Option<Cow<'a, [u8]>>, Fault> {
    if let Ok(value) = object.cast::<PyBytes>() {
        return Ok(Some(Cow::Borrowed(value.as_bytes())));
    }
    if let Ok(value) = object.cast::<PyByteArray>() {
        return Ok(Some(Cow::Owned(value.to_vec())));
    }
    if object.is_instance_of::<PyMemoryView>() {
        // `tobytes` also flattens views that are not contiguous.
        let copy = object.call_method0(intern!(object.py(), "tobytes"))?;
        return Ok(Some(Cow::Owned(copy.extract::<Vec<u8>>()?)));
    }
    Ok(None)
}

/// Float32 components as one slice; anything that is not plainly that goes cell by cell, for the codec
/// to judge.
fn vector<'a>(object: &Bound<'_, PyAny>, floats: &'a mut Vec<f32>) -> Result<Value<'a>, Fault> {
    floats.clear();
    let gathered = if let Ok(items) = object.cast::<PyList>() {
        gather(items.iter(), floats)
    } else if let Ok(items) = object.cast::<PyTuple>() {
        gather(items.iter(), floats)
    } else {
        copy_array(object, floats)?
    };
    if gathered { Ok(Value::Vector(Cow::Borrowed(floats))) } else { list(object, &ColumnType::Float32) }
}

/// Whether all items are floats that float32 can hold; if so, they are in `floats`.
fn gather<'py>(items: impl ExactSizeIterator<Item = Bound<'py, PyAny>>, floats: &mut Vec<f32>) -> bool {
    floats.reserve(items.len());
    for item in items {
        let Some(value) = item.cast::<PyFloat>().ok().and_then(|value| to_f32(value.value())) else { return false };
        floats.push(value);
    }
    true
}

/// Whether `object` is a one-dimensional array of floats that float32 can hold: one copy for float32,
/// one checked pass for float64.
fn copy_array(object: &Bound<'_, PyAny>, floats: &mut Vec<f32>) -> PyResult<bool> {
    let py = object.py();
    if let Ok(array) = PyBuffer::<f32>::get(object)
        && is_native(&array)
    {
        floats.resize(array.item_count(), 0.0);
        return Ok(array.dimensions() == 1 && array.copy_to_slice(py, floats).map(|()| true)?);
    }
    if let Ok(array) = PyBuffer::<f64>::get(object)
        && is_native(&array)
    {
        let values = array.to_vec(py)?;
        floats.reserve(values.len());
        floats.extend(values.iter().map_while(|value| to_f32(*value)));
        return Ok(array.dimensions() == 1 && floats.len() == values.len());
    }
    Ok(false)
}

/// Whether the items are in this machine's byte order. pyo3 compares sizes and kinds alone.
fn is_native<T: pyo3::buffer::Element>(array: &PyBuffer<T>) -> bool {
    let foreign: &[u8] = if cfg!(target_endian = "little") { b">!" } else { b"<" };
    array.format().to_bytes().first().is_none_or(|order| !foreign.contains(order))
}

fn list<'a>(object: &Bound<'_, PyAny>, item: &ColumnType) -> Result<Value<'a>, Fault> {
    let items = if is_text(object) {
        return Err(wrong_type(object));
    } else if let Ok(items) = object.cast::<PySequence>() {
        items.to_list()?
    } else if object.hasattr(intern!(object.py(), "dtype"))? {
        let items = object.call_method0(intern!(object.py(), "tolist"))?;
        items.cast_into::<PyList>().map_err(|_| wrong_type(object))?
    } else {
        return Err(wrong_type(object));
    };
    let mut values = Vec::with_capacity(items.len());
    let mut floats = Vec::new();
    for (index, object) in items.iter().enumerate() {
        // Owned: reading a later item may run code that takes an earlier one out of the list.
        let value = read(&object, item, &mut floats).map(Value::into_owned);
        values.push(value.map_err(|fault| at(index, fault))?);
    }
    Ok(Value::List(values))
}

/// The cells of a mapping that are fields; what else it has, the codec refuses.
fn structure<'a>(object: &Bound<'_, PyAny>, fields: &Fields) -> Result<Value<'a>, Fault> {
    let cells = match object.cast::<PyDict>() {
        Ok(cells) => cells.clone(),
        Err(_) => match object.cast::<PyMapping>() {
            Ok(mapping) => PyDict::from_sequence(mapping.items()?.as_any())?,
            Err(_) => return Err(wrong_type(object)),
        },
    };
    let mut values = Vec::with_capacity(cells.len());
    let mut floats = Vec::new();
    for (key, cell) in cells.iter() {
        let Ok(name) = key.cast::<PyString>() else {
            return Err(Fault::WrongType(format!("a mapping with a key of type {}", type_name(&key))));
        };
        let name = utf8(name)?.into_owned();
        // Owned: reading a later cell may run code that takes an earlier one out of the mapping.
        let value = match fields.get(&name) {
            Some((_, field)) => read(&cell, &field.column_type, &mut floats).map(Value::into_owned),
            None => Ok(Value::Null),
        };
        let value = value.map_err(|fault| match fault {
            Fault::WrongType(got) => Fault::WrongType(format!("{got} in field `{name}`")),
            Fault::OutOfRange(message) => Fault::OutOfRange(format!("field `{name}`: {message}")),
            Fault::Raised(error) => Fault::Raised(error),
        })?;
        values.push((Cow::Owned(name), value));
    }
    Ok(Value::Struct(values))
}

fn at(index: usize, fault: Fault) -> Fault {
    match fault {
        Fault::WrongType(got) => Fault::WrongType(format!("{got} at index {index}")),
        Fault::OutOfRange(message) => Fault::OutOfRange(format!("at index {index}: {message}")),
        Fault::Raised(error) => Fault::Raised(error),
    }
}

/// Sequences that are one value to everybody but the type system.
fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>()
}

fn is_uuid(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    object.is_instance(UUID.import(object.py(), "uuid", "UUID")?)
}

/// `dtype.kind` of a numpy scalar.
fn scalar_kind(object: &Bound<'_, PyAny>) -> Option<char> {
    let py = object.py();
    let dimensions = object.getattr_opt(intern!(py, "ndim")).ok()??.extract::<usize>().ok()?;
    let kind = object.getattr_opt(intern!(py, "dtype")).ok()??.getattr_opt(intern!(py, "kind")).ok()??;
    if dimensions == 0 { kind.extract().ok() } else { None }
}
