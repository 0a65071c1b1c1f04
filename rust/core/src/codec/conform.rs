//! Arrow data of any producer as rows of a schema, matched by name.
//!
//! Arrays that are stored as they are come through without a copy, lossless casts are done a column at a time, and
//! whatever else fits goes cell by cell through the same checks as rows do, so that an error names row and column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::error::ArrowError;
use lance_context_spec::moment::{days_in_range, micros_in_range};
use lance_context_spec::{ColumnSpec, ColumnType, Error, Result, SchemaSpec, Value, json};

use super::arrow_schema::{arrow_schema, data_type};
use super::cells::{Cells, Misfit};
use super::decode::ColumnReader;
use super::encode::{misfit_error, unknown_column};

/// `batches`, one behind another, as one batch of `spec`. Columns that they lack are null.
///
/// # Errors
/// `UnknownColumn`, `MissingValue`, `WrongType` or `OutOfRange` with the first row, counted over all batches, and the
/// column; `InvalidRow` for a column that is there twice.
pub fn conform(spec: &SchemaSpec, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let schema = arrow_schema(spec);
    let mut conformed = Vec::with_capacity(batches.len());
    let mut first_row = 0;
    for batch in batches {
        check_names(spec, batch, first_row)?;
        let columns = spec.columns().iter().map(|column| conform_column(column, batch, first_row));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch_of = RecordBatch::try_new(Arc::clone(&schema), columns);
        conformed.push(batch_of.map_err(|e| unfit("the columns do not make a batch", e))?);
        first_row += batch.num_rows();
    }
    match conformed.as_slice() {
        [whole] => Ok(whole.clone()),
        parts => concat_batches(&schema, parts).map_err(|e| unfit("the batches do not make one", e)),
    }
}

fn check_names(spec: &SchemaSpec, batch: &RecordBatch, row: usize) -> Result<()> {
    let fields = batch.schema_ref().fields();
    for (at, field) in fields.iter().enumerate() {
        if spec.column(field.name()).is_none() {
            return Err(unknown_column(spec, row, field.name()));
        }
        if fields.iter().take(at).any(|before| before.name() == field.name()) {
            let message = format!("column `{}` is there twice; drop one of them", field.name());
            return Err(Error::InvalidRow { row, message });
        }
    }
    Ok(())
}

fn conform_column(column: &ColumnSpec, batch: &RecordBatch, first_row: usize) -> Result<ArrayRef> {
    let target = data_type(&column.column_type);
    let Some(array) = batch.column_by_name(&column.name) else {
        if !column.nullable && batch.num_rows() > 0 {
            return Err(Error::MissingValue { row: first_row, column: column.name.clone() });
        }
        return Ok(new_null_array(&target, batch.num_rows()));
    };
    let refused = |misfit| misfit_error(column, first_row, misfit);
    let array = plain(array).map_err(|_| refused(of_arrow_type(array)))?;
    let array = match array.data_type() {
        DataType::Timestamp(..) => {
            microseconds(&array).map_err(|(row, misfit)| misfit_error(column, first_row + row, misfit))?
        }
        DataType::Utf8 if column.column_type == ColumnType::Json => {
            cast(&array, &DataType::LargeUtf8).map_err(|_| refused(of_arrow_type(&array)))?
        }
        _ => array,
    };
    match as_it_is(&array, &column.column_type, &target) {
        Some(array) if column.nullable || array.null_count() == 0 => Ok(array),
        _ => cell_by_cell(&array, column, first_row),
    }
}

/// The array in the stored type, if none of its cells can be refused.
fn as_it_is(array: &ArrayRef, column_type: &ColumnType, target: &DataType) -> Option<ArrayRef> {
    let checked = match column_type {
        ColumnType::Json | ColumnType::Decimal { .. } | ColumnType::Struct { .. } => return None,
        ColumnType::Date => array
            .as_primitive_opt::<Date32Type>()
            .is_none_or(|days| days.iter().flatten().all(|day| days_in_range(day).is_ok())),
        ColumnType::Timestamp { .. } => array
            .as_primitive_opt::<TimestampMicrosecondType>()
            .is_none_or(|cells| cells.iter().flatten().all(|micros| micros_in_range(micros).is_ok())),
        ColumnType::Vector { .. } => {
            array.as_fixed_size_list_opt().is_some_and(|vectors| vectors.values().null_count() == 0)
        }
        ColumnType::List { item } => !matches!(
            **item,
            ColumnType::Date | ColumnType::Timestamp { .. } | ColumnType::Decimal { .. } | ColumnType::Struct { .. }
        ),
        _ => true,
    };
    if !checked {
        return None;
    }
    if array.data_type() == target {
        return Some(Arc::clone(array));
    }
    if same_but_names(array.data_type(), target) || is_widening(array.data_type(), target) {
        return cast(array, target).ok();
    }
    None
}

fn cell_by_cell(array: &ArrayRef, column: &ColumnSpec, first_row: usize) -> Result<ArrayRef> {
    let reader = ColumnReader::of(array.as_ref(), &column.column_type)
        .map_err(|_| misfit_error(column, first_row, of_arrow_type(array)))?;
    let mut cells = Cells::new(&column.column_type, array.len());
    for row in 0..array.len() {
        let appended = match reader.value(row) {
            Value::Null if column.nullable => {
                cells.append_null();
                Ok(())
            }
            Value::Null => Err(Misfit::Missing),
            value => json_checked(&value).and_then(|()| cells.append(&value)),
        };
        appended.map_err(|misfit| misfit_error(column, first_row + row, misfit))?;
    }
    cells.finish().map_err(|e| unfit("the converted cells do not make a column", e))
}

/// Text that comes as JSON from elsewhere may be none.
fn json_checked(value: &Value<'_>) -> Result<(), Misfit> {
    let Value::Json(text) = value else { return Ok(()) };
    json::check(text).map_err(|fault| Misfit::out_of_range(fault.to_string()))
}

/// The array without views, dictionaries and other encodings of the same values.
fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let plain = plain_type(array.data_type());
    if plain == *array.data_type() { Ok(Arc::clone(array)) } else { cast(array, &plain) }
}

fn plain_type(data_type: &DataType) -> DataType {
    let item = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::new(field.name(), plain_type(field.data_type()), field.is_nullable()))
    };
    match data_type {
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::LargeBinary,
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(field) | DataType::ListView(field) => DataType::List(item(field)),
        DataType::LargeList(field) | DataType::LargeListView(field) => DataType::LargeList(item(field)),
        DataType::FixedSizeList(field, _) if !field.data_type().is_floating() => DataType::List(item(field)),
        DataType::FixedSizeList(field, _) if *field.data_type() == DataType::Float64 => DataType::List(item(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(item).collect()),
        other => other.clone(),
    }
}

/// A timestamp column in microseconds, in UTC where it has a zone; or the row that has no whole microseconds.
fn microseconds(array: &ArrayRef) -> Result<ArrayRef, (usize, Misfit)> {
    let DataType::Timestamp(unit, zone) = array.data_type() else { return Ok(Arc::clone(array)) };
    let target = DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| "UTC".into()));
    let nanoseconds = array.as_primitive_opt::<TimestampNanosecondType>();
    let finer =
        nanoseconds.and_then(|cells| cells.iter().position(|cell| cell.is_some_and(|nanos| nanos % 1_000 != 0)));
    if let Some(row) = finer {
        return Err((row, Misfit::out_of_range("it has nanoseconds; a timestamp holds microseconds")));
    }
    if *unit == TimeUnit::Microsecond && *array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    cast(array, &target).map_err(|_| {
        // Only a count of seconds or milliseconds can be too large for one of microseconds.
        let factor = if *unit == TimeUnit::Second { 1_000_000 } else { 1_000 };
        let counts = cast(array, &DataType::Int64).ok();
        let counts = counts.as_ref().and_then(|counts| counts.as_primitive_opt::<Int64Type>());
        let row = counts.and_then(|counts| counts.iter().flatten().position(|n| n.checked_mul(factor).is_none()));
        (row.unwrap_or(0), Misfit::out_of_range("it lies outside of the years 1 to 9999"))
    })
}

/// Whether both hold the same values in the same layout, and only the fields inside are named otherwise.
fn same_but_names(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::List(one), DataType::List(other)) => same_but_names(one.data_type(), other.data_type()),
        (DataType::FixedSizeList(one, size), DataType::FixedSizeList(other, same)) => {
            size == same && same_but_names(one.data_type(), other.data_type())
        }
        _ => one == other,
    }
}

/// Whether every value of `from` is one of `to`.
fn is_widening(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeList, LargeUtf8, List, UInt8,
        UInt16, UInt32, UInt64, Utf8,
    };
    match (from, to) {
        (Utf8, LargeUtf8) | (LargeUtf8, Utf8) | (Binary, LargeBinary) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64) => true,
        (UInt16, UInt32 | UInt64 | Int32 | Int64) | (UInt32, UInt64 | Int64) => true,
        (LargeList(from) | List(from), List(to)) => {
            from.data_type() == to.data_type() || is_widening(from.data_type(), to.data_type())
        }
        _ => false,
    }
}

/// Casts that fail rather than leave a null.
fn cast(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, target, &CastOptions { safe: false, ..CastOptions::default() })
}

fn of_arrow_type(array: &ArrayRef) -> Misfit {
    Misfit::WrongType { got: format!("Arrow type {}", array.data_type()) }
}

#[cold]
fn unfit(message: &str, error: ArrowError) -> Error {
    Error::Internal { message: message.to_owned(), source: Some(Box::new(error)) }
}
