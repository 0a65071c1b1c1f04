//! Cells out of Arrow arrays.

use std::borrow::Cow;

use arrow::array::{
    Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeListArray, Float16Array, Float32Array,
    Float64Array, GenericListArray, Int8Array, Int16Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray,
    OffsetSizeTrait, StringArray, StructArray, TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, TimeUnit};
use lance_context_spec::{ColumnType, Error, Result, Value};

/// Reads the cells of one array as values that borrow from it.
///
/// The type is resolved once, so that a cell costs one branch and no allocation but for lists.
pub struct ColumnReader<'a> {
    nulls: Option<&'a NullBuffer>,
    cells: Cells<'a>,
}

enum Cells<'a> {
    String(&'a StringArray),
    LargeString(&'a LargeStringArray),
    Json(&'a LargeStringArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    UInt8(&'a UInt8Array),
    UInt16(&'a UInt16Array),
    UInt32(&'a UInt32Array),
    UInt64(&'a UInt64Array),
    Float16(&'a Float16Array),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Bool(&'a BooleanArray),
    Timestamp { cells: &'a TimestampMicrosecondArray, aware: bool },
    Date(&'a Date32Array),
    Decimal { cells: &'a Decimal128Array, scale: u8 },
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    Vector { components: &'a Float32Array, dim: usize },
    HalfVector { components: &'a Float16Array, dim: usize },
    List { offsets: &'a [i32], elements: Box<ColumnReader<'a>> },
    LargeList { offsets: &'a [i64], elements: Box<ColumnReader<'a>> },
    Struct(Vec<(&'a str, ColumnReader<'a>)>),
    Null,
}

impl<'a> ColumnReader<'a> {
    /// A reader of a column declared as `column_type`, which tells JSON from other text.
    ///
    /// # Errors
    /// As [`ColumnReader::new`].
    pub fn of(array: &'a dyn Array, column_type: &ColumnType) -> Result<Self> {
        match (column_type, array.data_type()) {
            (ColumnType::Json, DataType::LargeUtf8) => {
                Ok(Self { nulls: array.nulls(), cells: Cells::Json(downcast(array)?) })
            }
            _ => Self::new(array),
        }
    }

    /// A reader of `array`, by its Arrow type alone.
    ///
    /// # Errors
    /// `Internal` for a type that no column is stored as and no engine column has.
    pub fn new(array: &'a dyn Array) -> Result<Self> {
        let cells = match array.data_type() {
            DataType::Utf8 => Cells::String(downcast(array)?),
            DataType::LargeUtf8 => Cells::LargeString(downcast(array)?),
            DataType::Int8 => Cells::Int8(downcast(array)?),
            DataType::Int16 => Cells::Int16(downcast(array)?),
            DataType::Int32 => Cells::Int32(downcast(array)?),
            DataType::Int64 => Cells::Int64(downcast(array)?),
            DataType::UInt8 => Cells::UInt8(downcast(array)?),
            DataType::UInt16 => Cells::UInt16(downcast(array)?),
            DataType::UInt32 => Cells::UInt32(downcast(array)?),
            DataType::UInt64 => Cells::UInt64(downcast(array)?),
            DataType::Float16 => Cells::Float16(downcast(array)?),
            DataType::Float32 => Cells::Float32(downcast(array)?),
            DataType::Float64 => Cells::Float64(downcast(array)?),
            DataType::Boolean => Cells::Bool(downcast(array)?),
            DataType::Timestamp(TimeUnit::Microsecond, tz) => {
                Cells::Timestamp { cells: downcast(array)?, aware: tz.is_some() }
            }
            DataType::Date32 => Cells::Date(downcast(array)?),
            DataType::Decimal128(_, scale) => {
                Cells::Decimal { cells: downcast(array)?, scale: u8::try_from(*scale).map_err(|_| unreadable(array))? }
            }
            DataType::Binary => Cells::Binary(downcast(array)?),
            DataType::LargeBinary => Cells::LargeBinary(downcast(array)?),
            DataType::FixedSizeList(item, _) => vectors(array, item.data_type())?,
            DataType::List(_) => {
                let (offsets, elements) = lists(array)?;
                Cells::List { offsets, elements }
            }
            DataType::LargeList(_) => {
                let (offsets, elements) = lists(array)?;
                Cells::LargeList { offsets, elements }
            }
            DataType::Struct(fields) => {
                let structs: &StructArray = downcast(array)?;
                let columns = fields.iter().zip(structs.columns());
                let named = columns.map(|(field, column)| Ok((field.name().as_str(), Self::new(column.as_ref())?)));
                Cells::Struct(named.collect::<Result<_>>()?)
            }
            DataType::Null => Cells::Null,
            _ => return Err(unreadable(array)),
        };
        Ok(Self { nulls: array.nulls(), cells })
    }

    /// The cell of `row`.
    ///
    /// # Panics
    /// If `row` is not below the length of the array.
    #[must_use]
    pub fn value(&self, row: usize) -> Value<'a> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Value::Null;
        }
        match &self.cells {
            Cells::String(cells) => Value::Str(Cow::Borrowed(cells.value(row))),
            Cells::LargeString(cells) => Value::Str(Cow::Borrowed(cells.value(row))),
            Cells::Json(cells) => Value::Json(Cow::Borrowed(cells.value(row))),
            Cells::Int8(cells) => Value::Int(cells.value(row).into()),
            Cells::Int16(cells) => Value::Int(cells.value(row).into()),
            Cells::Int32(cells) => Value::Int(cells.value(row).into()),
            Cells::Int64(cells) => Value::Int(cells.value(row).into()),
            Cells::UInt8(cells) => Value::Int(cells.value(row).into()),
            Cells::UInt16(cells) => Value::Int(cells.value(row).into()),
            Cells::UInt32(cells) => Value::Int(cells.value(row).into()),
            Cells::UInt64(cells) => Value::Int(cells.value(row).into()),
            Cells::Float16(cells) => Value::Float(cells.value(row).to_f64()),
            Cells::Float32(cells) => Value::Float(cells.value(row).into()),
            Cells::Float64(cells) => Value::Float(cells.value(row)),
            Cells::Bool(cells) => Value::Bool(cells.value(row)),
            Cells::Timestamp { cells, aware } => Value::Timestamp { micros: cells.value(row), aware: *aware },
            Cells::Date(cells) => Value::Date(cells.value(row)),
            Cells::Decimal { cells, scale } => Value::Decimal { unscaled: cells.value(row), scale: *scale },
            Cells::Binary(cells) => Value::Bytes(Cow::Borrowed(cells.value(row))),
            Cells::LargeBinary(cells) => Value::Bytes(Cow::Borrowed(cells.value(row))),
            Cells::Vector { components, dim } => vector(components, row * dim, *dim),
            Cells::HalfVector { components, dim } => half_vector(components, row * dim, *dim),
            Cells::List { offsets, elements } => elements.list(offsets[row] as usize, offsets[row + 1] as usize),
            Cells::LargeList { offsets, elements } => elements.list(offsets[row] as usize, offsets[row + 1] as usize),
            Cells::Struct(fields) => {
                Value::Struct(fields.iter().map(|(name, reader)| (Cow::Borrowed(*name), reader.value(row))).collect())
            }
            Cells::Null => Value::Null,
        }
    }

    fn list(&self, start: usize, end: usize) -> Value<'a> {
        Value::List((start..end).map(|at| self.value(at)).collect())
    }
}

/// One vector as a slice, or as a list if a foreign writer left a component null.
fn vector(components: &Float32Array, start: usize, dim: usize) -> Value<'_> {
    let range = start..start + dim;
    let null = |at| components.is_null(at);
    if components.null_count() > 0 && range.clone().any(null) {
        let component = |at| if null(at) { Value::Null } else { Value::Float(components.value(at).into()) };
        return Value::List(range.map(component).collect());
    }
    Value::Vector(Cow::Borrowed(&components.values()[range]))
}

fn half_vector(components: &Float16Array, start: usize, dim: usize) -> Value<'_> {
    let range = start..start + dim;
    if components.null_count() > 0 {
        let component = |at| {
            if components.is_null(at) { Value::Null } else { Value::Float(components.value(at).to_f64()) }
        };
        return Value::List(range.map(component).collect());
    }
    Value::Vector(components.values()[range].iter().map(|component| component.to_f32()).collect())
}

fn vectors<'a>(array: &'a dyn Array, item: &DataType) -> Result<Cells<'a>> {
    let lists: &FixedSizeListArray = downcast(array)?;
    let dim = usize::try_from(lists.value_length()).map_err(|_| unreadable(array))?;
    match item {
        DataType::Float32 => Ok(Cells::Vector { components: downcast(lists.values().as_ref())?, dim }),
        DataType::Float16 => Ok(Cells::HalfVector { components: downcast(lists.values().as_ref())?, dim }),
        _ => Err(unreadable(array)),
    }
}

fn lists<O: OffsetSizeTrait>(array: &dyn Array) -> Result<(&[O], Box<ColumnReader<'_>>)> {
    let lists: &GenericListArray<O> = downcast(array)?;
    Ok((lists.value_offsets(), Box::new(ColumnReader::new(lists.values().as_ref())?)))
}

fn downcast<T: 'static>(array: &dyn Array) -> Result<&T> {
    array.as_any().downcast_ref().ok_or_else(|| unreadable(array))
}

#[cold]
fn unreadable(array: &dyn Array) -> Error {
    Error::Internal { message: format!("a column of Arrow type {} cannot be read", array.data_type()), source: None }
}
