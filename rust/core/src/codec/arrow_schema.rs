//! The Arrow form of a schema, which is also the storage schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use lance_context_spec::{ColumnSpec, ColumnType, SchemaSpec};

/// Field metadata by which lance knows the key that MemWAL merges on.
const KEY_METADATA: (&str, &str) = ("lance-schema:unenforced-primary-key", "true");

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
    if is_key {
        let (key, value) = KEY_METADATA;
        return field.with_metadata(HashMap::from([(key.to_owned(), value.to_owned())]));
    }
    field
}

fn data_type(column_type: &ColumnType) -> DataType {
    match column_type {
        ColumnType::String { large: false } => DataType::Utf8,
        ColumnType::String { large: true } => DataType::LargeUtf8,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Timestamp { utc } => DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| "UTC".into())),
        ColumnType::Binary { .. } => DataType::LargeBinary,
        ColumnType::Vector { dim, .. } => DataType::FixedSizeList(item_field(&ColumnType::Float32), arrow_dim(*dim)),
        ColumnType::List { item } => DataType::List(item_field(item)),
    }
}

/// The element field of vectors and lists: `item`, nullable, as lance itself writes it.
pub(super) fn item_field(item: &ColumnType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type(item), true))
}

/// `dim` as Arrow counts it. A valid schema bounds `dim` far below the limit.
pub(super) fn arrow_dim(dim: u32) -> i32 {
    i32::try_from(dim).unwrap_or(i32::MAX)
}
