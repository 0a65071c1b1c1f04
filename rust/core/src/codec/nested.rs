//! Vectors, lists and structs while a batch is built.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeListArray, Float16Array, Float32Array, ListArray, NullBufferBuilder, StructArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;
use half::f16;
use lance_context_spec::{ColumnType, Fields, Value, VectorType};

use super::arrow_schema::{arrow_dim, arrow_fields, item_field, vector_item};
use super::cells::{Cells, Misfit};
use super::number::{float16, float32, to_f16, within_i32};

/// Most vector components that memory is reserved for ahead.
const MAX_RESERVED_COMPONENTS: usize = 1 << 20;

/// Vectors back to back; a null occupies `dim` zeros.
pub(super) struct VectorCells {
    dim: u32,
    components: Components,
    nulls: NullBufferBuilder,
}

enum Components {
    Float32(Vec<f32>),
    Float16(Vec<f16>),
}

impl Components {
    fn len(&self) -> usize {
        match self {
            Self::Float32(components) => components.len(),
            Self::Float16(components) => components.len(),
        }
    }

    fn resize(&mut self, len: usize) {
        match self {
            Self::Float32(components) => components.resize(len, 0.0),
            Self::Float16(components) => components.resize(len, f16::ZERO),
        }
    }

    fn extend(&mut self, floats: &[f32]) -> Result<(), Misfit> {
        match self {
            Self::Float32(components) => components.extend_from_slice(floats),
            Self::Float16(components) => {
                components.extend(floats.iter().map_while(|float| to_f16(f64::from(*float))));
                if let Some(misfit) = floats.iter().enumerate().find_map(|(index, float)| {
                    float16(&Value::Float(f64::from(*float))).err().map(|misfit| misfit.at(index))
                }) {
                    return Err(misfit);
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, number: &Value<'_>) -> Result<(), Misfit> {
        match self {
            Self::Float32(components) => components.push(float32(number)?),
            Self::Float16(components) => components.push(float16(number)?),
        }
        Ok(())
    }
}

impl VectorCells {
    pub(super) fn new(dim: u32, dtype: VectorType, rows: usize) -> Self {
        let reserved = rows.saturating_mul(dim as usize).min(MAX_RESERVED_COMPONENTS);
        let components = match dtype {
            VectorType::Float32 => Components::Float32(Vec::with_capacity(reserved)),
            VectorType::Float16 => Components::Float16(Vec::with_capacity(reserved)),
        };
        Self { dim, components, nulls: NullBufferBuilder::new(rows) }
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn append_null(&mut self) {
        self.components.resize(self.components.len() + self.dim as usize);
        self.nulls.append_null();
    }

    pub(super) fn append(&mut self, value: &Value<'_>) -> Result<(), Misfit> {
        match value {
            Value::Vector(components) => {
                self.length_fits(components.len())?;
                self.components.extend(components)?;
            }
            Value::List(numbers) => {
                self.length_fits(numbers.len())?;
                for (index, number) in numbers.iter().enumerate() {
                    self.components.push(number).map_err(|misfit| misfit.at(index))?;
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

    pub(super) fn finish(mut self) -> Result<FixedSizeListArray, ArrowError> {
        let (dtype, components): (_, ArrayRef) = match self.components {
            Components::Float32(components) => (VectorType::Float32, Arc::new(Float32Array::from(components))),
            Components::Float16(components) => (VectorType::Float16, Arc::new(Float16Array::from(components))),
        };
        FixedSizeListArray::try_new(vector_item(dtype), arrow_dim(self.dim), components, self.nulls.finish())
    }
}

/// Lists, their elements back to back in one column of their own.
pub(super) struct ListCells {
    item: ColumnType,
    elements: Cells,
    /// Where the elements of each list end.
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl ListCells {
    pub(super) fn new(item: &ColumnType, rows: usize) -> Self {
        Self {
            item: item.clone(),
            elements: Cells::new(item, rows),
            ends: Vec::with_capacity(rows),
            nulls: NullBufferBuilder::new(rows),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn append_null(&mut self) {
        self.ends.push(self.ends.last().copied().unwrap_or(0));
        self.nulls.append_null();
    }

    pub(super) fn append(&mut self, value: &Value<'_>) -> Result<(), Misfit> {
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
            // Float arrays may come as one slice; a float column that cannot hold a component says so.
            Value::Vector(numbers)
                if matches!(self.item, ColumnType::Float16 | ColumnType::Float32 | ColumnType::Float64) =>
            {
                let end = self.end_after(numbers.len())?;
                for (index, number) in numbers.iter().enumerate() {
                    let number = Value::Float(f64::from(*number));
                    self.elements.append(&number).map_err(|misfit| misfit.at(index))?;
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

    pub(super) fn finish(mut self) -> Result<ListArray, ArrowError> {
        let elements = self.elements.finish()?;
        let offsets: Vec<i32> = std::iter::once(0).chain(self.ends).collect();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        ListArray::try_new(item_field(&self.item), offsets, elements, self.nulls.finish())
    }
}

/// Structs, each field in a column of its own.
pub(super) struct StructCells {
    fields: Fields,
    columns: Vec<Cells>,
    nulls: NullBufferBuilder,
}

impl StructCells {
    pub(super) fn new(fields: &Fields, rows: usize) -> Self {
        let columns = fields.0.iter().map(|field| Cells::new(&field.column_type, rows)).collect();
        Self { fields: fields.clone(), columns, nulls: NullBufferBuilder::new(rows) }
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn append_null(&mut self) {
        self.columns.iter_mut().for_each(Cells::append_null);
        self.nulls.append_null();
    }

    pub(super) fn append(&mut self, value: &Value<'_>) -> Result<(), Misfit> {
        let Value::Struct(cells) = value else { return Err(Misfit::wrong_type(value)) };
        if let Some((name, _)) = cells.iter().find(|(name, _)| self.fields.get(name).is_none()) {
            let known: Vec<_> = self.fields.0.iter().map(|field| format!("`{}`", field.name)).collect();
            let message = format!("unknown field `{name}`; the fields are {}", known.join(", "));
            return Err(Misfit::out_of_range(message));
        }
        for (field, column) in self.fields.0.iter().zip(&mut self.columns) {
            let mut given = cells.iter().filter(|(name, _)| *name == field.name).map(|(_, cell)| cell);
            match given.next() {
                None | Some(Value::Null) if !field.nullable => {
                    let message = format!("field `{}` is not nullable, and no value is given", field.name);
                    return Err(Misfit::out_of_range(message));
                }
                None | Some(Value::Null) => column.append_null(),
                Some(cell) => column.append(cell).map_err(|misfit| misfit.in_field(&field.name))?,
            }
            if given.next().is_some() {
                return Err(Misfit::out_of_range(format!("field `{}` is given twice", field.name)));
            }
        }
        self.nulls.append_non_null();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<StructArray, ArrowError> {
        let columns = self.columns.into_iter().map(Cells::finish).collect::<Result<Vec<_>, _>>()?;
        StructArray::try_new(arrow_fields(&self.fields), columns, self.nulls.finish())
    }
}
