//! Rows into a record batch, cell by cell.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use lance_context_spec::{ColumnSpec, ColumnType, Error, Result, SchemaSpec, Value};

use super::arrow_schema::arrow_schema;
use super::cells::{Cells, Misfit};

/// Builds one record batch of a schema from rows.
///
/// For each row: [`set`](Self::set) its cells in any order, then [`end_row`](Self::end_row). The
/// first error spoils the whole batch: the encoder must be dropped, and `finish` refuses it.
pub struct RowEncoder {
    spec: Arc<SchemaSpec>,
    schema: SchemaRef,
    columns: Vec<Cells>,
    row: usize,
    spoiled: bool,
}

impl RowEncoder {
    /// An encoder of `spec`; `capacity` is the expected number of rows, a hint.
    #[must_use]
    pub fn new(spec: Arc<SchemaSpec>, capacity: usize) -> Self {
        let schema = arrow_schema(&spec);
        let columns = spec.columns().iter().map(|column| Cells::new(&column.column_type, capacity)).collect();
        Self { spec, schema, columns, row: 0, spoiled: false }
    }

    /// The position of a column, for [`set`](Self::set).
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.spec.column(name).map(|(at, _)| at)
    }

    /// The index of the current row, which is the number of rows ended so far.
    #[must_use]
    pub fn row(&self) -> usize {
        self.row
    }

    /// Sets one cell of the current row.
    ///
    /// # Errors
    /// `WrongType`, `OutOfRange` or `MissingValue` with the current row and the column; `Internal`
    /// for a position that does not exist and for a column set twice in one row.
    pub fn set(&mut self, column: usize, value: Value<'_>) -> Result<()> {
        self.append(column, |cells, nullable| match value {
            Value::Null if nullable => {
                cells.append_null();
                Ok(())
            }
            Value::Null => Err(Misfit::Missing),
            value => cells.append(&value),
        })
    }

    /// Sets one binary cell of the current row. The bytes are not copied where the column has no others.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_shared(&mut self, column: usize, bytes: Bytes) -> Result<()> {
        self.append(column, |cells, _| cells.append_shared(bytes))
    }

    fn append(&mut self, column: usize, append: impl FnOnce(&mut Cells, bool) -> Result<(), Misfit>) -> Result<()> {
        let (Some(spec), Some(cells)) = (self.spec.columns().get(column), self.columns.get_mut(column)) else {
            self.spoiled = true;
            return Err(internal(format!("column {column} of {} was set", self.spec.columns().len())));
        };
        if cells.len() != self.row {
            self.spoiled = true;
            return Err(internal(format!("column `{}` was set twice in row {}", spec.name, self.row)));
        }
        append(cells, spec.nullable).map_err(|misfit| {
            self.spoiled = true;
            misfit_error(spec, self.row, misfit)
        })
    }

    /// Ends the current row: columns that were not set are null.
    ///
    /// # Errors
    /// `MissingValue` for the first non-null column that was not set.
    pub fn end_row(&mut self) -> Result<()> {
        for (spec, cells) in self.spec.columns().iter().zip(&mut self.columns) {
            if cells.len() != self.row {
                continue;
            }
            if !spec.nullable {
                self.spoiled = true;
                return Err(Error::MissingValue { row: self.row, column: spec.name.clone() });
            }
            cells.append_null();
        }
        self.row += 1;
        Ok(())
    }

    /// The batch of all ended rows, its columns in declaration order.
    ///
    /// # Errors
    /// `Internal` if an earlier call failed or the last row was not ended.
    pub fn finish(self) -> Result<RecordBatch> {
        if self.spoiled || self.columns.iter().any(|cells| cells.len() != self.row) {
            return Err(internal(format!(
                "the batch was finished after an error or in the middle of row {}",
                self.row
            )));
        }
        let arrays = self.columns.into_iter().map(Cells::finish).collect::<Result<Vec<_>, _>>();
        arrays.and_then(|arrays| RecordBatch::try_new(self.schema, arrays)).map_err(|e| Error::Internal {
            message: "the encoded rows do not fit the schema".into(),
            source: Some(Box::new(e)),
        })
    }
}

/// The error of a cell of row `row` of `column`.
pub(super) fn misfit_error(column: &ColumnSpec, row: usize, misfit: Misfit) -> Error {
    let name = column.name.clone();
    match misfit {
        Misfit::Missing => Error::MissingValue { row, column: name },
        Misfit::WrongType { got } => {
            Error::WrongType { row, column: name, expected: expectation(&column.column_type), got }
        }
        Misfit::OutOfRange { message } => Error::OutOfRange { row, column: name, message },
    }
}

/// The error for a key of row `row` that `spec` does not declare.
#[must_use]
pub fn unknown_column(spec: &SchemaSpec, row: usize, name: &str) -> Error {
    Error::UnknownColumn { row, column: name.to_owned(), suggestion: spec.suggest(name), known: spec.names() }
}

/// The type and, where the name does not say it, what it takes.
fn expectation(column_type: &ColumnType) -> String {
    let name = column_type.describe();
    match column_type {
        ColumnType::Timestamp { utc: true } => {
            format!("{name}: an aware datetime, or text with an offset such as `2026-01-31T12:00:00Z`")
        }
        ColumnType::Timestamp { utc: false } => {
            format!("{name}: a naive datetime, or text without offset such as `2026-01-31T12:00:00`")
        }
        ColumnType::Date => format!("{name}: a date, or text such as `2026-01-31`"),
        ColumnType::Decimal { .. } => format!("{name}: a decimal, an int, or text such as `12.50`"),
        ColumnType::Json => format!("{name}: a JSON value"),
        ColumnType::Struct { .. } => format!("{name}: a mapping of field names to values"),
        ColumnType::Binary { .. } => format!("{name}: bytes"),
        ColumnType::Vector { .. } => format!("{name}: numbers"),
        ColumnType::List { item } => format!("{name}: a list of {} or null", item.describe()),
        _ => name,
    }
}

#[cold]
fn internal(message: String) -> Error {
    Error::Internal { message, source: None }
}
