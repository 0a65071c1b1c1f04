//! Errors of the engine as exceptions of `lance_context.errors`.
//!
//! The classes are Python classes, chosen here by [`Kind`] and never by message text. Causes become
//! notes, since engine errors are no part of the public types.

use std::error::Error as StdError;

use lance_context_spec::{Error, Kind};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception for `error`.
pub fn to_python(py: Python<'_>, error: Error) -> PyErr {
    raised(py, &error).unwrap_or_else(|failure| failure)
}

fn raised(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let mut message = error.to_string();
    if error.source().is_some() {
        message = without_locations(&message);
    }
    let Some(class) = class_name(error.kind()) else {
        return Ok(PyValueError::new_err(message));
    };
    let details = PyDict::new(py);
    details.set_item(intern!(py, "code"), error.code())?;
    details.set_item(intern!(py, "retryable"), error.retryable())?;
    details.set_item(intern!(py, "row"), error.row())?;
    details.set_item(intern!(py, "column"), error.column())?;
    let exception = py.import(intern!(py, "lance_context.errors"))?.getattr(class)?.call((message,), Some(&details))?;
    let mut cause = error.source();
    while let Some(source) = cause {
        let note = format!("caused by: {}", without_locations(&source.to_string()));
        exception.call_method1(intern!(py, "add_note"), (note,))?;
        cause = source.source();
    }
    Ok(PyErr::from_value(exception))
}

/// The class in `lance_context.errors`; `None` stands for Python's own `ValueError`.
const fn class_name(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Schema => Some("SchemaError"),
        Kind::Row => Some("RowError"),
        Kind::Query => Some("QueryError"),
        Kind::Argument => None,
        Kind::NotFound => Some("NotFoundError"),
        Kind::AlreadyExists => Some("AlreadyExistsError"),
        Kind::Conflict => Some("ConflictError"),
        Kind::Fenced => Some("FencedError"),
        Kind::State => Some("StateError"),
        Kind::Storage => Some("StorageError"),
        Kind::Unsupported => Some("UnsupportedError"),
        Kind::Format => Some("FormatError"),
        Kind::Internal => Some("InternalError"),
    }
}

/// `text` without the places in Rust source (`, /…/x.rs:12:3`) that lance appends to its messages.
fn without_locations(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        if is_location(word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/')) {
            let end = kept.trim_end_matches([' ', ',']).len();
            kept.truncate(end);
            kept.extend(word.chars().last().filter(|c| c.is_whitespace()));
        } else {
            kept.push_str(word);
        }
    }
    kept.truncate(kept.trim_end().len());
    kept
}

/// Whether `word` reads `<path>.rs:<line>` or `<path>.rs:<line>:<column>`.
fn is_location(word: &str) -> bool {
    word.split_once(".rs:")
        .is_some_and(|(_, place)| !place.is_empty() && place.chars().all(|c| c.is_ascii_digit() || c == ':'))
}
