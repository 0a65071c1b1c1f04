//! Python rows to one record batch, and record batches to Python rows. No JSON, no copy in between.

use std::sync::Arc;

use arrow::array::RecordBatch;
use lance_context_core::codec::{self, ColumnReader, RowEncoder};
use lance_context_core::storage::MAX_ADD_ROWS;
use lance_context_spec::{Error, SchemaSpec};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::inspect::PyStaticExpr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};
use pyo3::{type_hint_identifier, type_hint_subscript};

use crate::errors;
use crate::value::{self, Fault};

/// The column that rows are keyed by.
const KEY: &str = "id";

pub const ROW_TYPE: PyStaticExpr = type_hint_subscript!(
    type_hint_identifier!("builtins", "dict"),
    type_hint_identifier!("builtins", "str"),
    type_hint_identifier!("typing", "Any")
);

/// Encodes one mapping, or an iterable of mappings, as one batch.
///
/// # Errors
///
/// `TypeError` when `rows` is neither; `RowError` with row and column when a row does not fit; what
/// an iterator or a value of the caller raises.
pub fn encode(rows: &Bound<'_, PyAny>, spec: &Arc<SchemaSpec>) -> PyResult<RecordBatch> {
    let mut encoding = Encoding::new(rows, spec);
    if rows.is_instance_of::<PyDict>() || rows.is_instance_of::<PyMapping>() {
        encoding.row(rows)?;
    } else if rows.is_instance_of::<PyString>() || rows.is_instance_of::<PyBytes>() {
        return Err(not_rows(rows));
    } else {
        let iterator = rows
            .try_iter()
            .map_err(|error| if error.is_instance_of::<PyTypeError>(rows.py()) { not_rows(rows) } else { error })?;
        for row in iterator {
            encoding.row(&row?)?;
        }
    }
    encoding.encoder.finish().map_err(|error| errors::to_python(rows.py(), error))
}

/// Encodes the changed cells of one row as a batch of those columns.
///
/// # Errors
///
/// `TypeError` when `changes` is no mapping, `ValueError` when it is empty; `RowError` when a cell does not
/// fit, and for a change of the id.
pub fn encode_changes(changes: &Bound<'_, PyAny>, spec: &Arc<SchemaSpec>) -> PyResult<RecordBatch> {
    let py = changes.py();
    let Ok(mapping) = changes.cast::<PyMapping>() else {
        let got = value::type_name(changes);
        return Err(PyTypeError::new_err(format!("`changes` takes a mapping of column names to values, not {got}")));
    };
    let mut names = Vec::new();
    for key in mapping.keys()?.iter() {
        let Ok(name) = key.cast::<PyString>() else {
            let got = value::type_name(&key);
            return Err(PyTypeError::new_err(format!("the keys of `changes` are `str`, not {got}")));
        };
        names.push(name.to_string_lossy().into_owned());
    }
    if names.is_empty() {
        return Err(PyValueError::new_err("`changes` is empty; name at least one column"));
    }
    for name in &names {
        if spec.column(name).is_none() {
            return Err(errors::to_python(py, codec::unknown_column(spec, 0, name)));
        }
        if name == KEY {
            let message = format!("`{KEY}` cannot be changed; add a row of the new id and delete the old one");
            return Err(errors::to_python(py, Error::InvalidRow { row: 0, message }));
        }
    }
    encode(changes, &Arc::new(spec.only(&names)))
}

fn not_rows(rows: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("`rows` takes a mapping or an iterable of mappings, not {}", value::type_name(rows)))
}

struct Encoding<'py> {
    spec: Arc<SchemaSpec>,
    encoder: RowEncoder,
    /// One key object a column: lookups compare by identity first, and hash each name once.
    keys: Vec<Bound<'py, PyString>>,
    floats: Vec<f32>,
}

impl<'py> Encoding<'py> {
    fn new(rows: &Bound<'py, PyAny>, spec: &Arc<SchemaSpec>) -> Self {
        let py = rows.py();
        Self {
            spec: Arc::clone(spec),
            encoder: RowEncoder::new(Arc::clone(spec), rows.len().unwrap_or(1)),
            keys: spec.columns().iter().map(|column| PyString::intern(py, &column.name)).collect(),
            floats: Vec::new(),
        }
    }

    fn row(&mut self, row: &Bound<'py, PyAny>) -> PyResult<()> {
        let py = row.py();
        if self.encoder.row() == MAX_ADD_ROWS {
            let error = Error::BatchTooLarge {
                got: format!("more than {MAX_ADD_ROWS} rows"),
                limit: format!("{MAX_ADD_ROWS} rows"),
            };
            return Err(errors::to_python(py, error));
        }
        let cells = if let Ok(cells) = row.cast::<PyDict>() {
            cells.clone()
        } else if let Ok(mapping) = row.cast::<PyMapping>() {
            PyDict::from_sequence(mapping.items()?.as_any())?
        } else {
            let message = format!("a row is a mapping of column names to values, not {}", value::type_name(row));
            return Err(errors::to_python(py, Error::InvalidRow { row: self.encoder.row(), message }));
        };
        let mut known = 0;
        for (column, key) in self.keys.iter().enumerate() {
            if let Some(cell) = cells.get_item(key)? {
                known += 1;
                set(&mut self.encoder, &self.spec, column, &cell, &mut self.floats)?;
            }
        }
        if known != cells.len() {
            self.refuse_unknown(&cells)?;
        }
        self.encoder.end_row().map_err(|error| errors::to_python(py, error))
    }

    #[cold]
    fn refuse_unknown(&self, cells: &Bound<'py, PyDict>) -> PyResult<()> {
        let row = self.encoder.row();
        for key in cells.keys() {
            let error = match key.cast::<PyString>() {
                Ok(name) if self.encoder.column(&name.to_string_lossy()).is_some() => continue,
                Ok(name) => codec::unknown_column(&self.spec, row, &name.to_string_lossy()),
                Err(_) => Error::InvalidRow {
                    row,
                    message: format!("column names are `str`, not {}", value::type_name(&key)),
                },
            };
            return Err(errors::to_python(cells.py(), error));
        }
        Ok(())
    }
}

fn set(
    encoder: &mut RowEncoder,
    spec: &SchemaSpec,
    index: usize,
    cell: &Bound<'_, PyAny>,
    floats: &mut Vec<f32>,
) -> PyResult<()> {
    let Some(column) = spec.columns().get(index) else { return Ok(()) };
    if let Some(bytes) = value::share(cell, &column.column_type) {
        return encoder.set_shared(index, bytes).map_err(|error| errors::to_python(cell.py(), error));
    }
    let error = match value::read(cell, &column.column_type, floats) {
        Ok(value) => match encoder.set(index, value) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        },
        Err(Fault::WrongType(got)) => Error::WrongType {
            row: encoder.row(),
            column: column.name.clone(),
            expected: column.column_type.describe(),
            got,
        },
        Err(Fault::OutOfRange(message)) => {
            Error::OutOfRange { row: encoder.row(), column: column.name.clone(), message }
        }
        Err(Fault::Raised(error)) => return Err(error),
    };
    Err(errors::to_python(cell.py(), error))
}

/// Batches that become a list of dicts.
pub struct Rows {
    pub batches: Vec<RecordBatch>,
    pub spec: Arc<SchemaSpec>,
}

impl<'py> IntoPyObject<'py> for Rows {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(type_hint_identifier!("builtins", "list"), ROW_TYPE);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let _collector = PausedCollector::new(py)?;
        let mut rows = Vec::with_capacity(self.batches.iter().map(RecordBatch::num_rows).sum());
        for batch in &self.batches {
            rows.extend(decode(py, batch, &self.spec)?);
        }
        PyList::new(py, rows)
    }
}

/// The collector of cycles, off while it lives, if it was on.
///
/// Nothing that is being made is garbage, but before Python 3.12 the collector walks all of it over and
/// over: two thirds of the time for 50,000 vectors. No other thread notices, as the GIL is held throughout.
pub struct PausedCollector<'py>(Option<Bound<'py, PyModule>>);

impl<'py> PausedCollector<'py> {
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        let collector = py.import(intern!(py, "gc"))?;
        if !collector.call_method0(intern!(py, "isenabled"))?.is_truthy()? {
            return Ok(Self(None));
        }
        collector.call_method0(intern!(py, "disable"))?;
        Ok(Self(Some(collector)))
    }
}

impl Drop for PausedCollector<'_> {
    fn drop(&mut self) {
        if let Some(collector) = self.0.take() {
            // `gc.enable()` sets a flag; it cannot fail.
            let _ = collector.call_method0(intern!(collector.py(), "enable"));
        }
    }
}

/// A batch of one row that becomes a dict.
pub struct Row {
    pub batch: RecordBatch,
    pub spec: Arc<SchemaSpec>,
}

impl<'py> IntoPyObject<'py> for Row {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = ROW_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let rows = decode(py, &self.batch, &self.spec)?;
        let count = rows.len();
        rows.into_iter().next().filter(|_| count == 1).ok_or_else(|| {
            let message = format!("a point read returned {count} rows");
            errors::to_python(py, Error::Internal { message, source: None })
        })
    }
}

fn decode<'py>(py: Python<'py>, batch: &RecordBatch, spec: &SchemaSpec) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let rows: Vec<_> = (0..batch.num_rows()).map(|_| PyDict::new(py)).collect();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let key = PyString::intern(py, field.name());
        let reader = match spec.column(field.name()) {
            Some((_, column)) => ColumnReader::of(array.as_ref(), &column.column_type),
            None => ColumnReader::new(array.as_ref()),
        };
        let reader = reader.map_err(|error| errors::to_python(py, error))?;
        for (index, row) in rows.iter().enumerate() {
            row.set_item(&key, value::write(py, &reader.value(index))?)?;
        }
    }
    Ok(rows)
}
