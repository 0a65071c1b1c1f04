//! The cells of one column while a batch is built: typed builders behind one enum.
//!
//! Each type decides here which values it takes. Errors know neither row nor column; the encoder
//! adds both.

use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Date32Builder, Decimal128Builder, Float16Builder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, LargeStringBuilder, StringBuilder,
    TimestampMicrosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow::error::ArrowError;
use bytes::Bytes;
use lance_context_spec::moment::{self, MomentFault};
use lance_context_spec::{ColumnType, Value};

use super::arrow_schema::data_type;
use super::binary::BinaryCells;
use super::nested::{ListCells, StructCells, VectorCells};
use super::number::{decimal, exact_float64, float16, float32, narrow, within_i32};

/// Most rows that memory is reserved for ahead; a schema may have a thousand columns.
const MAX_RESERVED_ROWS: usize = 4_096;

/// Why a value cannot be a cell of a column.
#[derive(Debug)]
pub(super) enum Misfit {
    /// It is null, and the column is not nullable.
    Missing,
    /// It is of another type.
    WrongType {
        /// What came.
        got: String,
    },
    /// It is of the type, which cannot hold it.
    OutOfRange {
        /// What does not fit, and the limit.
        message: String,
    },
}

impl From<MomentFault> for Misfit {
    fn from(fault: MomentFault) -> Self {
        match fault {
            MomentFault::OtherForm(got) => Self::WrongType { got },
            MomentFault::OutOfRange(message) => Self::OutOfRange { message },
        }
    }
}

impl Misfit {
    #[cold]
    pub(super) fn wrong_type(value: &Value<'_>) -> Self {
        Self::WrongType { got: value.kind_name().to_owned() }
    }

    #[cold]
    pub(super) fn out_of_range(message: impl Into<String>) -> Self {
        Self::OutOfRange { message: message.into() }
    }

    /// The same, of the element at `index` of a list or vector.
    #[cold]
    pub(super) fn at(self, index: usize) -> Self {
        match self {
            Self::Missing => Self::Missing,
            Self::WrongType { got } => Self::WrongType { got: format!("{got} at index {index}") },
            Self::OutOfRange { message } => Self::OutOfRange { message: format!("at index {index}: {message}") },
        }
    }

    /// The same, of the field `name` of a struct.
    #[cold]
    pub(super) fn in_field(self, name: &str) -> Self {
        match self {
            Self::Missing => Self::Missing,
            Self::WrongType { got } => Self::WrongType { got: format!("{got} in field `{name}`") },
            Self::OutOfRange { message } => Self::OutOfRange { message: format!("field `{name}`: {message}") },
        }
    }
}

/// The cells of one column.
pub(super) enum Cells {
    String(StringBuilder),
    LargeString(LargeStringBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    Float16(Float16Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Bool(BooleanBuilder),
    Instant(TimestampMicrosecondBuilder),
    WallClock(TimestampMicrosecondBuilder),
    Date(Date32Builder),
    Decimal { builder: Decimal128Builder, precision: u8, scale: u8 },
    Json(LargeStringBuilder),
    Binary(BinaryCells),
    Vector(VectorCells),
    List(Box<ListCells>),
    Struct(Box<StructCells>),
}

/// Evaluates one expression for whichever Arrow builder is inside, another for our own cells.
macro_rules! with_builder {
    ($cells:expr, $builder:pat => $value:expr, $own:pat => $own_value:expr) => {
        match $cells {
            Cells::String($builder) => $value,
            Cells::LargeString($builder) => $value,
            Cells::Int8($builder) => $value,
            Cells::Int16($builder) => $value,
            Cells::Int32($builder) => $value,
            Cells::Int64($builder) => $value,
            Cells::UInt8($builder) => $value,
            Cells::UInt16($builder) => $value,
            Cells::UInt32($builder) => $value,
            Cells::UInt64($builder) => $value,
            Cells::Float16($builder) => $value,
            Cells::Float32($builder) => $value,
            Cells::Float64($builder) => $value,
            Cells::Bool($builder) => $value,
            Cells::Instant($builder) | Cells::WallClock($builder) => $value,
            Cells::Date($builder) => $value,
            Cells::Decimal { builder: $builder, .. } => $value,
            Cells::Json($builder) => $value,
            Cells::Binary($own) => $own_value,
            Cells::Vector($own) => $own_value,
            Cells::List($own) => $own_value,
            Cells::Struct($own) => $own_value,
        }
    };
}

impl Cells {
    /// No cells yet; `capacity` is a hint.
    pub(super) fn new(column_type: &ColumnType, capacity: usize) -> Self {
        let rows = capacity.min(MAX_RESERVED_ROWS);
        match column_type {
            ColumnType::String { large: false } => Self::String(StringBuilder::with_capacity(rows, 0)),
            ColumnType::String { large: true } => Self::LargeString(LargeStringBuilder::with_capacity(rows, 0)),
            ColumnType::Int8 => Self::Int8(Int8Builder::with_capacity(rows)),
            ColumnType::Int16 => Self::Int16(Int16Builder::with_capacity(rows)),
            ColumnType::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            ColumnType::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            ColumnType::UInt8 => Self::UInt8(UInt8Builder::with_capacity(rows)),
            ColumnType::UInt16 => Self::UInt16(UInt16Builder::with_capacity(rows)),
            ColumnType::UInt32 => Self::UInt32(UInt32Builder::with_capacity(rows)),
            ColumnType::UInt64 => Self::UInt64(UInt64Builder::with_capacity(rows)),
            ColumnType::Float16 => Self::Float16(Float16Builder::with_capacity(rows)),
            ColumnType::Float32 => Self::Float32(Float32Builder::with_capacity(rows)),
            ColumnType::Float64 => Self::Float64(Float64Builder::with_capacity(rows)),
            ColumnType::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
            ColumnType::Timestamp { utc: true } => {
                Self::Instant(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC"))
            }
            ColumnType::Timestamp { utc: false } => Self::WallClock(TimestampMicrosecondBuilder::with_capacity(rows)),
            ColumnType::Binary { .. } => Self::Binary(BinaryCells::new(rows)),
            ColumnType::Date => Self::Date(Date32Builder::with_capacity(rows)),
            ColumnType::Decimal { precision, scale } => Self::Decimal {
                builder: Decimal128Builder::with_capacity(rows).with_data_type(data_type(column_type)),
                precision: *precision,
                scale: *scale,
            },
            ColumnType::Json => Self::Json(LargeStringBuilder::with_capacity(rows, 0)),
            ColumnType::Vector { dim, dtype, .. } => Self::Vector(VectorCells::new(*dim, *dtype, rows)),
            ColumnType::List { item } => Self::List(Box::new(ListCells::new(item, rows))),
            ColumnType::Struct { fields } => Self::Struct(Box::new(StructCells::new(fields, rows))),
        }
    }

    /// The number of cells.
    pub(super) fn len(&self) -> usize {
        with_builder!(self, builder => builder.len(), own => own.len())
    }

    /// Appends a null.
    pub(super) fn append_null(&mut self) {
        with_builder!(self, builder => builder.append_null(), own => own.append_null());
    }

    /// Appends a value other than null. After an error the cells are unusable.
    pub(super) fn append(&mut self, value: &Value<'_>) -> Result<(), Misfit> {
        match (self, value) {
            (Self::String(builder), Value::Str(text)) => {
                within_i32(builder.values_slice().len(), text.len(), "bytes of text", "; declare it `large`")?;
                builder.append_value(text);
            }
            (Self::LargeString(builder), Value::Str(text)) => builder.append_value(text),
            (Self::Int8(builder), Value::Int(int)) => builder.append_value(narrow(*int, "int8")?),
            (Self::Int16(builder), Value::Int(int)) => builder.append_value(narrow(*int, "int16")?),
            (Self::Int32(builder), Value::Int(int)) => builder.append_value(narrow(*int, "int32")?),
            (Self::Int64(builder), Value::Int(int)) => builder.append_value(narrow(*int, "int64")?),
            (Self::UInt8(builder), Value::Int(int)) => builder.append_value(narrow(*int, "uint8")?),
            (Self::UInt16(builder), Value::Int(int)) => builder.append_value(narrow(*int, "uint16")?),
            (Self::UInt32(builder), Value::Int(int)) => builder.append_value(narrow(*int, "uint32")?),
            (Self::UInt64(builder), Value::Int(int)) => builder.append_value(narrow(*int, "uint64")?),
            (Self::Float16(builder), value) => builder.append_value(float16(value)?),
            (Self::Float32(builder), value) => builder.append_value(float32(value)?),
            (Self::Float64(builder), Value::Float(float)) => builder.append_value(*float),
            (Self::Float64(builder), Value::Int(int)) => builder.append_value(exact_float64(*int)?),
            (Self::Bool(builder), Value::Bool(truth)) => builder.append_value(*truth),
            (Self::Instant(builder), Value::Timestamp { micros, aware: true })
            | (Self::WallClock(builder), Value::Timestamp { micros, aware: false }) => {
                builder.append_value(moment::micros_in_range(*micros)?);
            }
            (Self::Instant(builder), Value::Str(text)) => builder.append_value(moment::parse_timestamp(text, true)?),
            (Self::WallClock(builder), Value::Str(text)) => builder.append_value(moment::parse_timestamp(text, false)?),
            (Self::Date(builder), Value::Date(days)) => builder.append_value(moment::days_in_range(*days)?),
            (Self::Date(builder), Value::Str(text)) => builder.append_value(moment::parse_date(text)?),
            (Self::Decimal { builder, precision, scale }, value) => {
                builder.append_value(decimal(value, *precision, *scale)?);
            }
            (Self::Json(builder), Value::Json(text)) => builder.append_value(text),
            (Self::Binary(cells), Value::Bytes(bytes)) => cells.append(bytes),
            (Self::Vector(vectors), value) => vectors.append(value)?,
            (Self::List(lists), value) => lists.append(value)?,
            (Self::Struct(structs), value) => structs.append(value)?,
            (_, value) => return Err(Misfit::wrong_type(value)),
        }
        Ok(())
    }

    /// Appends bytes that need not be copied.
    pub(super) fn append_shared(&mut self, bytes: Bytes) -> Result<(), Misfit> {
        match self {
            Self::Binary(cells) => {
                cells.append_shared(bytes);
                Ok(())
            }
            _ => Err(Misfit::wrong_type(&Value::Bytes(bytes.as_ref().into()))),
        }
    }

    /// The array of all cells.
    pub(super) fn finish(self) -> Result<ArrayRef, ArrowError> {
        Ok(with_builder!(self, mut builder => Arc::new(builder.finish()), own => Arc::new(own.finish()?)))
    }
}
