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
        ColumnType::Int32 => r#""type":"int32""#.into(),
        ColumnType::Int64 => r#""type":"int64""#.into(),
        ColumnType::Float32 => r#""type":"float32""#.into(),
        ColumnType::Float64 => r#""type":"float64""#.into(),
        ColumnType::Bool => r#""type":"bool""#.into(),
        ColumnType::Timestamp { utc } => {
            let tz = if *utc { r#""UTC""# } else { "null" };
            format!(r#""type":"timestamp","unit":"us","tz":{tz}"#)
        }
        ColumnType::Binary { blob } => format!(r#""type":"binary","blob":{blob}"#),
        ColumnType::Vector { dim, metric } => {
            format!(r#""type":"vector","dim":{dim},"metric":"{}","dtype":"float32""#, metric.name())
        }
        ColumnType::List { item } => format!(r#""type":"list","item":{{{}}}"#, type_members(item)),
    }
}
