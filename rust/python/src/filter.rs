//! Filters and their parameters from Python.

use lance_context_spec::{Error, Filter, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};

use crate::errors;
use crate::value::{self, Fault};

/// The filter of a query: an expression with parameters, or equality by column.
///
/// # Errors
///
/// `TypeError` when an argument is of another type; `QueryError` for a value that no column could
/// hold, and for parameters without an expression.
pub fn read(filter: Option<&Bound<'_, PyAny>>, params: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Filter>> {
    let expression = filter.and_then(|filter| filter.cast::<PyString>().ok());
    if let (None, Some(params)) = (expression, params) {
        let message = "`params` are bound to `$name` in an expression; pass `filter` as a str".into();
        return Err(errors::to_python(params.py(), Error::InvalidQuery { message }));
    }
    let Some(filter) = filter else { return Ok(None) };
    if let Some(expression) = expression {
        let params = params.map(|params| values("params", params)).transpose()?.unwrap_or_default();
        return Ok(Some(Filter::Sql { expression: expression.to_cow()?.into_owned(), params }));
    }
    Ok(Some(Filter::Equals(values("filter", filter)?)))
}

fn values(argument: &str, mapping: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Value<'static>)>> {
    let py = mapping.py();
    let mapping = mapping.cast::<PyMapping>().map_err(|_| {
        let takes = if argument == "filter" { "a str or a mapping" } else { "a mapping" };
        PyTypeError::new_err(format!("`{argument}` takes {takes}, not {}", value::type_name(mapping)))
    })?;
    let mut values = Vec::new();
    for item in mapping.items()?.iter() {
        let (name, object) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let name = name.cast::<PyString>().map_err(|_| {
            PyTypeError::new_err(format!("the keys of `{argument}` are `str`, not {}", value::type_name(&name)))
        })?;
        let name = name.to_cow()?.into_owned();
        let message = match value::infer(&object) {
            Ok(Some(value)) => {
                values.push((name, value));
                continue;
            }
            Ok(None) => format!("{} cannot be compared with a column", value::type_name(&object)),
            Err(Fault::WrongType(got)) => format!("{got} cannot be compared with a column"),
            Err(Fault::OutOfRange(message)) => message,
            Err(Fault::Raised(error)) => return Err(error),
        };
        let error = if argument == "filter" {
            Error::InvalidQuery { message: format!("filter on column `{name}`: {message}") }
        } else {
            Error::QueryParameter { name, message }
        };
        return Err(errors::to_python(py, error));
    }
    Ok(values)
}
