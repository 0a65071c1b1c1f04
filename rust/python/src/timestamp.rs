//! `datetime` to microseconds and `date` to days, and back, in integers all the way.

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Timelike};
use lance_context_spec::Value;
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyTzInfo};

use crate::value::{self, Fault};

/// The instant of an aware `datetime`, the reading of a naive one.
pub fn read(moment: &Bound<'_, PyDateTime>) -> Result<Value<'static>, Fault> {
    let py = moment.py();
    let aware =
        !moment.getattr(intern!(py, "tzinfo"))?.is_none() && !moment.call_method0(intern!(py, "utcoffset"))?.is_none();
    // Subtraction between two zones goes through `utcoffset()`, which honours `fold`.
    let elapsed = moment.sub(epoch(py, aware)?)?.cast_into::<PyDelta>();
    let elapsed = elapsed.map_err(|_| Fault::WrongType(value::type_name(moment)))?;
    if !elapsed.is_exact_instance_of::<PyDelta>() && elapsed.getattr(intern!(py, "nanoseconds"))?.is_truthy()? {
        return Err(Fault::OutOfRange("it has nanoseconds; a timestamp holds microseconds".into()));
    }
    let seconds = i64::from(elapsed.get_days()) * 86_400 + i64::from(elapsed.get_seconds());
    let micros = seconds * 1_000_000 + i64::from(elapsed.get_microseconds());
    Ok(Value::Timestamp { micros, aware })
}

/// A `datetime`; aware ones are in `datetime.timezone.utc`.
pub fn write(py: Python<'_>, micros: i64, aware: bool) -> PyResult<Bound<'_, PyDateTime>> {
    let moment = DateTime::from_timestamp_micros(micros)
        .ok_or_else(|| PyOverflowError::new_err("the timestamp is outside the years 1 to 9999"))?;
    let utc = if aware { Some(PyTzInfo::utc(py)?.to_owned()) } else { None };
    // Month to second are calendar fields, far below 256.
    let small = |field: u32| u8::try_from(field).unwrap_or(u8::MAX);
    PyDateTime::new(
        py,
        moment.year(),
        small(moment.month()),
        small(moment.day()),
        small(moment.hour()),
        small(moment.minute()),
        small(moment.second()),
        moment.timestamp_subsec_micros(),
        utc.as_ref(),
    )
}

/// The day of a `date`.
pub fn read_date(day: &Bound<'_, PyDate>) -> Result<Value<'static>, Fault> {
    let date = NaiveDate::from_ymd_opt(day.get_year(), day.get_month().into(), day.get_day().into());
    let days = date.map(|date| date.signed_duration_since(DateTime::UNIX_EPOCH.date_naive()).num_days());
    let days = days.and_then(|days| i32::try_from(days).ok());
    days.map(Value::Date).ok_or_else(|| Fault::WrongType(value::type_name(day)))
}

/// A `date`.
pub fn write_date(py: Python<'_>, days: i32) -> PyResult<Bound<'_, PyDate>> {
    let date = DateTime::UNIX_EPOCH.date_naive().checked_add_signed(TimeDelta::days(days.into()));
    let date = date.ok_or_else(|| PyOverflowError::new_err("the date is outside the years 1 to 9999"))?;
    // Month and day are calendar fields, far below 256.
    let small = |field: u32| u8::try_from(field).unwrap_or(u8::MAX);
    PyDate::new(py, date.year(), small(date.month()), small(date.day()))
}

fn epoch(py: Python<'_>, aware: bool) -> PyResult<&Bound<'_, PyDateTime>> {
    static AWARE: PyOnceLock<Py<PyDateTime>> = PyOnceLock::new();
    static NAIVE: PyOnceLock<Py<PyDateTime>> = PyOnceLock::new();
    let cell = if aware { &AWARE } else { &NAIVE };
    cell.get_or_try_init(py, || write(py, 0, aware).map(Bound::unbind)).map(|epoch| epoch.bind(py))
}
