//! The canonical JSON form of a schema.

use serde_json::Value as Json;

use super::{ColumnSpec, ColumnType};

/// The declaration of `columns` with every default spelled out.
pub(super) fn write(columns: &[ColumnSpec]) -> String {
    let members: Vec<String> = columns.iter().map(column).collect();
    format!("{{{}}}", members.join(","))
}

fn column(column: &ColumnSpec) -> String {
    let name = Json::from(column.name.as_str());
    format!(r#"{name}:{{{},"nullable":{}}}"#, type_members(&column.column_type), column.nullable)
}

fn type_members(column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::String { large } => format!(r#""type":"string","large":{large}"#),
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64
        | ColumnType::Float16
        | ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Bool
        | ColumnType::Date
        | ColumnType::Json => format!(r#""type":"{}""#, column_type.describe()),
        ColumnType::Decimal { precision, scale } => {
            format!(r#""type":"decimal","precision":{precision},"scale":{scale}"#)
        }
        ColumnType::Timestamp { utc } => {
            let tz = if *utc { r#""UTC""# } else { "null" };
            format!(r#""type":"timestamp","unit":"us","tz":{tz}"#)
        }
        ColumnType::Binary { blob } => format!(r#""type":"binary","blob":{blob}"#),
        ColumnType::Vector { dim, metric, dtype } => {
            format!(r#""type":"vector","dim":{dim},"metric":"{}","dtype":"{}""#, metric.name(), dtype.name())
        }
        ColumnType::List { item } => format!(r#""type":"list","item":{{{}}}"#, type_members(item)),
        ColumnType::Struct { fields } => format!(r#""type":"struct","fields":{}"#, write(&fields.0)),
    }
}
