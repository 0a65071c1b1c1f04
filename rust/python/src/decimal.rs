//! `decimal.Decimal` to digits and back, through its exact text.

use lance_context_spec::Value;
use lance_context_spec::value::{DecimalFault, decimal_text, parse_decimal};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::value::Fault;

/// The cell of a `Decimal`; `None` for any other object.
pub fn read(object: &Bound<'_, PyAny>) -> Result<Option<Value<'static>>, Fault> {
    if !object.is_instance(class(object.py())?)? {
        return Ok(None);
    }
    let text = object.str()?.to_cow()?.into_owned();
    match parse_decimal(&text) {
        Ok((unscaled, scale)) => Ok(Some(Value::Decimal { unscaled, scale })),
        Err(DecimalFault::NotANumber) => Err(Fault::OutOfRange(format!("a decimal is finite, this one is `{text}`"))),
        Err(DecimalFault::TooLong) => Err(Fault::OutOfRange(format!("`{text}` has more than 38 digits"))),
    }
}

/// The `Decimal` of these digits, `scale` of them behind the point.
pub fn write<'py>(py: Python<'py>, unscaled: i128, scale: u8) -> PyResult<Bound<'py, PyAny>> {
    class(py)?.call1((decimal_text(unscaled, scale),))
}

fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    DECIMAL.import(py, "decimal", "Decimal")
}
