//! The cells of one column while a batch is built: typed builders behind one enum.
//!
//! Each type decides here which values it takes. Errors know neither row nor column; the encoder
//! adds both.

use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, FixedSizeListArray, Float32Array, Float32Builder, Float64Builder,
    Int32Builder, Int64Builder, LargeStringBuilder, ListArray, NullBufferBuilder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;
use bytes::Bytes;
use lance_context_spec::value::to_f32;
use lance_context_spec::{ColumnType, Value};

use super::arrow_schema::{arrow_dim, item_field};
use super::binary::BinaryCells;
use super::timestamp;

/// Most rows that memory is reserved for ahead; a schema may have a thousand columns.
const MAX_RESERVED_ROWS: usize = 4_096;
/// Most vector components that memory is reserved for ahead.
const MAX_RESERVED_COMPONENTS: usize = 1 << 20;

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

impl Misfit {
    #[cold]
    fn wrong_type(value: &Value<'_>) -> Self {
        Self::WrongType { got: value.kind_name().to_owned() }
    }

    #[cold]
    pub(super) fn out_of_range(message: impl Into<String>) -> Self {
        Self::OutOfRange { message: message.into() }
    }

    /// The same, of the element at `index` of a list or vector.
    #[cold]
    fn at(self, index: usize) -> Self {
        match self {
            Self::Missing => Self::Missing,
            Self::WrongType { got } => Self::WrongType { got: format!("{got} at index {index}") },
            Self::OutOfRange { message } => Self::OutOfRange { message: format!("at index {index}: {message}") },
        }
    }
}

/// The cells of one column.
pub(super) enum Cells {
    String(StringBuilder),
    LargeString(LargeStringBuilder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Bool(BooleanBuilder),
    Instant(TimestampMicrosecondBuilder),
    WallClock(TimestampMicrosecondBuilder),
    Binary(BinaryCells),
    Vector(VectorCells),
    List(Box<ListCells>),
}

/// Evaluates one expression for whichever Arrow builder is inside, another for our own cells.
macro_rules! with_builder {
    ($cells:expr, $builder:pat => $value:expr, $own:pat => $own_value:expr) => {
        match $cells {
            Cells::String($builder) => $value,
            Cells::LargeString($builder) => $value,
            Cells::Int32($builder) => $value,
            Cells::Int64($builder) => $value,
            Cells::Float32($builder) => $value,
            Cells::Float64($builder) => $value,
            Cells::Bool($builder) => $value,
            Cells::Instant($builder) | Cells::WallClock($builder) => $value,
            Cells::Binary($own) => $own_value,
            Cells::Vector($own) => $own_value,
            Cells::List($own) => $own_value,
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
            ColumnType::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            ColumnType::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            ColumnType::Float32 => Self::Float32(Float32Builder::with_capacity(rows)),
            ColumnType::Float64 => Self::Float64(Float64Builder::with_capacity(rows)),
            ColumnType::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
            ColumnType::Timestamp { utc: true } => {
                Self::Instant(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC"))
            }
            ColumnType::Timestamp { utc: false } => Self::WallClock(TimestampMicrosecondBuilder::with_capacity(rows)),
            ColumnType::Binary { .. } => Self::Binary(BinaryCells::new(rows)),
            ColumnType::Vector { dim, .. } => Self::Vector(VectorCells::new(*dim, rows)),
            ColumnType::List { item } => Self::List(Box::new(ListCells::new(item, rows))),
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
            (Self::Int32(builder), Value::Int(int)) => builder.append_value(narrow(*int, "int32")?),
            (Self::Int64(builder), Value::Int(int)) => builder.append_value(narrow(*int, "int64")?),
            (Self::Float32(builder), value) => builder.append_value(float32(value)?),
            (Self::Float64(builder), Value::Float(float)) => builder.append_value(*float),
            (Self::Float64(builder), Value::Int(int)) => builder.append_value(exact_float64(*int)?),
            (Self::Bool(builder), Value::Bool(truth)) => builder.append_value(*truth),
            (Self::Instant(builder), Value::Timestamp { micros, aware: true })
            | (Self::WallClock(builder), Value::Timestamp { micros, aware: false }) => {
                builder.append_value(timestamp::in_range(*micros)?);
            }
            (Self::Instant(builder), Value::Str(text)) => builder.append_value(timestamp::parse_instant(text)?),
            (Self::WallClock(builder), Value::Str(text)) => builder.append_value(timestamp::parse_wall_clock(text)?),
            (Self::Binary(cells), Value::Bytes(bytes)) => cells.append(bytes),
            (Self::Vector(vectors), value) => vectors.append(value)?,
            (Self::List(lists), value) => lists.append(value)?,
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

/// Vectors back to back; a null occupies `dim` zeros.
pub(super) struct VectorCells {
    dim: u32,
    components: Vec<f32>,
    nulls: NullBufferBuilder,
}

impl VectorCells {
    fn new(dim: u32, rows: usize) -> Self {
        let reserved = rows.saturating_mul(dim as usize).min(MAX_RESERVED_COMPONENTS);
        Self { dim, components: Vec::with_capacity(reserved), nulls: NullBufferBuilder::new(rows) }
    }

    fn len(&self) -> usize {
        self.nulls.len()
    }

    fn append_null(&mut self) {
        self.components.resize(self.components.len() + self.dim as usize, 0.0);
        self.nulls.append_null();
    }

    fn append(&mut self, value: &Value<'_>) -> Result<(), Misfit> {
        match value {
            Value::Vector(components) => {
                self.length_fits(components.len())?;
                self.components.extend_from_slice(components);
            }
            Value::List(numbers) => {
                self.length_fits(numbers.len())?;
                for (index, number) in numbers.iter().enumerate() {
                    self.components.push(float32(number).map_err(|misfit| misfit.at(index))?);
                }
            }
            other => return Err(Misfit::wrong_type(other)),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    fn length_fits(&self, got: usize) -> Result<(), Misfit> {
        if got == self.dim as usize {
            return Ok(());
        }
        Err(Misfit::out_of_range(format!("a vector of {} components is expected, got {got}", self.dim)))
    }

    fn finish(mut self) -> Result<FixedSizeListArray, ArrowError> {
        let components = Arc::new(Float32Array::from(self.components));
        FixedSizeListArray::try_new(
            item_field(&ColumnType::Float32),
            arrow_dim(self.dim),
            components,
            self.nulls.finish(),
        )
    }
}

/// Lists of scalars, their elements back to back in one column of their own.
pub(super) struct ListCells {
    item: ColumnType,
    elements: Cells,
    /// Where the elements of each list end.
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl ListCells {
    fn new(item: &ColumnType, rows: usize) -> Self {
        Self {
            item: item.clone(),
            elements: Cells::new(item, rows),
            ends: Vec::with_capacity(rows),
            nulls: NullBufferBuilder::new(rows),
        }
    }

    fn len(&self) -> usize {
        self.nulls.len()
    }

    fn append_null(&mut self) {
        self.ends.push(self.ends.last().copied().unwrap_or(0));
        self.nulls.append_null();
    }

    fn append(&mut self, value: &Value<'_>) -> Result<(), Misfit> {
        match value {
            Value::List(elements) => {
                let end = self.end_after(elements.len())?;
                for (index, element) in elements.iter().enumerate() {
                    match element {
                        Value::Null => self.elements.append_null(),
                        element => self.elements.append(element).map_err(|misfit| misfit.at(index))?,
                    }
                }
                self.ends.push(end);
            }
            // Float arrays may come as one slice; every float column holds a float32 exactly.
            Value::Vector(numbers) if matches!(self.item, ColumnType::Float32 | ColumnType::Float64) => {
                let end = self.end_after(numbers.len())?;
                for number in numbers.iter() {
                    self.elements.append(&Value::Float(f64::from(*number)))?;
                }
                self.ends.push(end);
            }
            other => return Err(Misfit::wrong_type(other)),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    fn end_after(&self, added: usize) -> Result<i32, Misfit> {
        within_i32(self.elements.len(), added, "list elements", "")
    }

    fn finish(mut self) -> Result<ListArray, ArrowError> {
        let elements = self.elements.finish()?;
        let offsets: Vec<i32> = std::iter::once(0).chain(self.ends).collect();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        ListArray::try_new(item_field(&self.item), offsets, elements, self.nulls.finish())
    }
}

/// Arrow's 32-bit offsets bound what one column of one batch can hold; its builders would panic.
pub(super) fn within_i32(held: usize, added: usize, of: &str, advice: &str) -> Result<i32, Misfit> {
    let total = held.saturating_add(added);
    i32::try_from(total).map_err(|_| {
        Misfit::out_of_range(format!(
            "{total} {of} in one column of one batch, at most {} are possible{advice}",
            i32::MAX
        ))
    })
}

fn narrow<T: TryFrom<i128>>(int: i128, type_name: &str) -> Result<T, Misfit> {
    T::try_from(int).map_err(|_| Misfit::out_of_range(format!("`{int}` does not fit {type_name}")))
}

fn float32(value: &Value<'_>) -> Result<f32, Misfit> {
    match value {
        Value::Float(float) => to_f32(*float).ok_or_else(|| {
            Misfit::out_of_range(format!("`{float:e}` does not fit float32, which ends at {:e}", f32::MAX))
        }),
        Value::Int(int) => {
            let float = *int as f32;
            is_exact(*int, f64::from(float)).then_some(float).ok_or_else(|| inexact(*int, "float32"))
        }
        other => Err(Misfit::wrong_type(other)),
    }
}

fn exact_float64(int: i128) -> Result<f64, Misfit> {
    let float = int as f64;
    is_exact(int, float).then_some(float).ok_or_else(|| inexact(int, "float64"))
}

/// Whether `float` is exactly `int`. The way back saturates, so floats beyond i128 are no proof.
fn is_exact(int: i128, float: f64) -> bool {
    float < i128::MAX as f64 && float as i128 == int
}

#[cold]
fn inexact(int: i128, type_name: &str) -> Misfit {
    Misfit::out_of_range(format!("the integer `{int}` is not exact in {type_name}; pass a float to round it"))
}
