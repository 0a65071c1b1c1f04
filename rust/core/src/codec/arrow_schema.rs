//! The Arrow form of a schema, which is also the storage schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use lance_context_spec::{ColumnSpec, ColumnType, Fields, SchemaSpec, VectorType};

/// Field metadata by which lance knows the key that MemWAL merges on.
const KEY_METADATA: (&str, &str) = ("lance-schema:unenforced-primary-key", "true");

/// Field metadata that marks text as JSON. The marks that lance and Arrow know would have it converted.
const JSON_METADATA: (&str, &str) = ("lance-context:json", "true");

/// The fields of `spec` in declaration order, the key marked as unenforced primary key; no metadata of
/// the schema itself.
#[must_use]
pub fn arrow_schema(spec: &SchemaSpec) -> SchemaRef {
    Arc::new(Schema::new(
        spec.columns().iter().map(|column| field(column, column.name == spec.key())).collect::<Vec<_>>(),
    ))
}

fn field(column: &ColumnSpec, is_key: bool) -> Field {
    let field = Field::new(&column.name, data_type(&column.column_type), column.nullable);
    let (key, value) = match column.column_type {
        ColumnType::Json => JSON_METADATA,
        _ if is_key => KEY_METADATA,
        _ => return field,
    };
    field.with_metadata(HashMap::from([(key.to_owned(), value.to_owned())]))
}

pub(super) fn data_type(column_type: &ColumnType) -> DataType {
    match column_type {
        ColumnType::String { large: false } => DataType::Utf8,
        ColumnType::String { large: true } | ColumnType::Json => DataType::LargeUtf8,
        ColumnType::Int8 => DataType::Int8,
        ColumnType::Int16 => DataType::Int16,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::UInt8 => DataType::UInt8,
        ColumnType::UInt16 => DataType::UInt16,
        ColumnType::UInt32 => DataType::UInt32,
        ColumnType::UInt64 => DataType::UInt64,
        ColumnType::Float16 => DataType::Float16,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Timestamp { utc } => DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| "UTC".into())),
        ColumnType::Binary { .. } => DataType::LargeBinary,
        ColumnType::Date => DataType::Date32,
        ColumnType::Decimal { precision, scale } => DataType::Decimal128(*precision, scale.cast_signed()),
        ColumnType::Vector { dim, dtype, .. } => DataType::FixedSizeList(vector_item(*dtype), arrow_dim(*dim)),
        ColumnType::List { item } => DataType::List(item_field(item)),
        ColumnType::Struct { fields } => DataType::Struct(arrow_fields(fields)),
    }
}

/// The component field of vectors.
pub(super) fn vector_item(dtype: VectorType) -> FieldRef {
    item_field(match dtype {
        VectorType::Float32 => &ColumnType::Float32,
        VectorType::Float16 => &ColumnType::Float16,
    })
}

/// The fields of a struct. All are nullable to Arrow, since a null struct has no values in them; that a declared one
/// has a value is checked when the row is encoded.
pub(super) fn arrow_fields(fields: &Fields) -> arrow::datatypes::Fields {
    fields.0.iter().map(|field| Field::new(&field.name, data_type(&field.column_type), true)).collect()
}

/// The element field of vectors and lists: `item`, nullable, as lance itself writes it.
pub(super) fn item_field(item: &ColumnType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type(item), true))
}

/// `dim` as Arrow counts it. A valid schema bounds `dim` far below the limit.
pub(super) fn arrow_dim(dim: u32) -> i32 {
    i32::try_from(dim).unwrap_or(i32::MAX)
}
