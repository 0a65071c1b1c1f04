//! Rows as JSON lines, and back. Only the objects around the bytes need the GIL.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::Bytes;
use lance_context_core::codec::{ColumnReader, RowEncoder, arrow_schema};
use lance_context_spec::wire::{RowReader, RowWriter};
use lance_context_spec::{Error, Result, SchemaSpec, Value};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arrow::PyRecordBatch;
use crate::errors;

/// JSON lines of rows of one schema.
#[pyclass(frozen, name = "Lines", module = "lance_context._native")]
pub struct PyLines {
    spec: Arc<SchemaSpec>,
    columns: Option<BTreeMap<String, String>>,
}

#[pymethods]
impl PyLines {
    /// Lines of the schema in JSON. `columns` selects the members to read, and says which column each one is;
    /// `None`: every member is a column.
    #[new]
    #[pyo3(signature = (schema, columns))]
    fn new(py: Python<'_>, schema: &str, columns: Option<BTreeMap<String, String>>) -> PyResult<Self> {
        let spec = || {
            let spec = SchemaSpec::parse(schema)?;
            reader(&spec, columns.as_ref())?;
            Ok(Arc::new(spec))
        };
        spec().map(|spec| Self { spec, columns }).map_err(|error| errors::to_python(py, error))
    }

    /// The names of all columns, in the order of the declaration.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.spec.names()
    }

    /// No rows, with the columns that a query for `columns` yields.
    fn empty(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<PyRecordBatch> {
        let batch = || {
            let names = self.spec.resolve_projection(Some(&columns))?;
            let schema = arrow_schema(&self.spec);
            let fields: Vec<_> = names.iter().filter_map(|name| schema.field_with_name(name).ok().cloned()).collect();
            Ok(RecordBatch::new_empty(Arc::new(Schema::new(fields))))
        };
        batch().map(PyRecordBatch).map_err(|error| errors::to_python(py, error))
    }

    /// The rows of some lines, one each.
    fn decode(&self, py: Python<'_>, lines: Vec<PyBackedBytes>) -> PyResult<PyRecordBatch> {
        let batch = py.detach(|| decode(&self.spec, self.columns.as_ref(), &lines));
        batch.map(PyRecordBatch).map_err(|error| errors::to_python(py, error))
    }

    /// The lines of some rows, each with its end.
    fn encode<'py>(&self, py: Python<'py>, rows: &PyRecordBatch) -> PyResult<Bound<'py, PyBytes>> {
        let lines = py.detach(|| encode(&self.spec, &rows.0)).map_err(|error| errors::to_python(py, error))?;
        Ok(PyBytes::new(py, lines.as_bytes()))
    }
}

fn reader<'s>(spec: &'s SchemaSpec, columns: Option<&BTreeMap<String, String>>) -> Result<RowReader<'s>> {
    columns.map_or_else(
        || Ok(RowReader::new(spec)),
        |columns| RowReader::selecting(spec, columns.iter().map(|(name, column)| (name.clone(), column.clone()))),
    )
}

fn decode(
    spec: &Arc<SchemaSpec>,
    columns: Option<&BTreeMap<String, String>>,
    lines: &[PyBackedBytes],
) -> Result<RecordBatch> {
    let reader = reader(spec, columns)?;
    let mut encoder = RowEncoder::new(Arc::clone(spec), lines.len());
    for (row, line) in lines.iter().enumerate() {
        let text = std::str::from_utf8(line).map_err(|error| {
            let message = format!("byte {} of the line is not UTF-8; convert the text", error.valid_up_to() + 1);
            Error::InvalidRow { row, message }
        })?;
        for (column, cell) in reader.read(row, text)? {
            match cell {
                Value::Bytes(bytes) => encoder.set_shared(column, Bytes::from(bytes.into_owned()))?,
                cell => encoder.set(column, cell)?,
            }
        }
        encoder.end_row()?;
    }
    encoder.finish()
}

fn encode(spec: &SchemaSpec, rows: &RecordBatch) -> Result<String> {
    let fields = rows.schema_ref().fields();
    let mut columns = Vec::with_capacity(fields.len());
    let mut cells = Vec::with_capacity(fields.len());
    for (field, array) in fields.iter().zip(rows.columns()) {
        let (_, column) = spec.column(field.name()).ok_or_else(|| Error::Internal {
            message: format!("column `{}` is not declared", field.name()),
            source: None,
        })?;
        columns.push((column.name.as_str(), &column.column_type));
        cells.push(ColumnReader::of(array.as_ref(), &column.column_type)?);
    }
    let writer = RowWriter::new(columns);
    let mut lines = String::new();
    for row in 0..rows.num_rows() {
        writer.write(row, cells.iter().map(|column| column.value(row)), &mut lines)?;
        lines.push('\n');
    }
    Ok(lines)
}
