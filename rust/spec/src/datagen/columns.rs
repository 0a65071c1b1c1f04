//! The columns of the log, and the keys of an event as a mapping.

use crate::schema::{ColumnSpec, ColumnType};

/// The keys of an event as people write and read it. `root_item_id` and `parent_item_id` follow from
/// `item_id`; `value` is the tagged cell, which is stored in the `value_*` columns.
pub const EVENT_KEYS: [&str; 30] = [
    "event_id",
    "item_id",
    "root_item_id",
    "parent_item_id",
    "attempt",
    "writer_epoch",
    "run_id",
    "item_seq",
    "checkpoint_id",
    "resumed_from",
    "event_type",
    "step_name",
    "step_kind",
    "step_index",
    "enclosing_step",
    "selector_step",
    "iteration",
    "field_name",
    "field_type",
    "codec_version",
    "value",
    "status",
    "query_tags",
    "config_hash",
    "attributes",
    "error_type",
    "error_dump",
    "traceback",
    "event_ts",
    "schema_version",
];

/// The keys of a position as people write and read it.
pub const POSITION_KEYS: [&str; 6] =
    ["step_name", "step_kind", "step_index", "enclosing_step", "selector_step", "iteration"];

/// The keys of a field write as people write it.
pub const FIELD_WRITE_KEYS: [&str; 5] = ["field_name", "field_type", "value", "op", "codec_version"];

/// The keys of a tagged value; a blob has the last three instead of `value`.
pub const VALUE_KEYS: [&str; 5] = ["kind", "value", "bytes", "size", "checksum"];

/// The columns that an [`super::Outline`] is read from: one pass over these gives the overview.
pub const OUTLINE_COLUMNS: [&str; 19] = [
    "event_id",
    "item_id",
    "attempt",
    "writer_epoch",
    "run_id",
    "item_seq",
    "resumed_from",
    "event_type",
    "step_name",
    "step_kind",
    "step_index",
    "enclosing_step",
    "selector_step",
    "iteration",
    "status",
    "query_tags",
    "error_type",
    "error_dump",
    "event_ts",
];

/// The storage columns in their order; the key is `event_id`.
#[must_use]
pub fn columns() -> Vec<ColumnSpec> {
    let text = || ColumnType::String { large: false };
    let required: [(&str, ColumnType); 11] = [
        ("event_id", text()),
        ("item_id", text()),
        ("root_item_id", text()),
        ("attempt", ColumnType::Int32),
        ("writer_epoch", text()),
        ("run_id", text()),
        ("item_seq", ColumnType::Int64),
        ("checkpoint_id", text()),
        ("event_type", text()),
        ("event_ts", ColumnType::Timestamp { utc: true }),
        ("schema_version", ColumnType::Int32),
    ];
    let optional: [(&str, ColumnType); 27] = [
        ("parent_item_id", text()),
        ("resumed_from", text()),
        ("step_name", text()),
        ("step_kind", text()),
        ("step_index", ColumnType::Int64),
        ("enclosing_step", text()),
        ("selector_step", text()),
        ("iteration", ColumnType::List { item: Box::new(ColumnType::Int64) }),
        ("field_name", text()),
        ("field_type", text()),
        ("codec_version", ColumnType::Int32),
        ("value_kind", text()),
        ("value_i64", ColumnType::Int64),
        ("value_f64", ColumnType::Float64),
        ("value_bool", ColumnType::Bool),
        ("value_str", ColumnType::String { large: true }),
        ("value_json", ColumnType::Json),
        ("value_blob", ColumnType::Binary { blob: true }),
        ("value_size", ColumnType::Int64),
        ("value_checksum", text()),
        ("status", text()),
        ("query_tags", ColumnType::Json),
        ("config_hash", text()),
        ("attributes", ColumnType::Json),
        ("error_type", text()),
        ("error_dump", ColumnType::String { large: true }),
        ("traceback", ColumnType::String { large: true }),
    ];
    let column = |nullable| {
        move |(name, column_type): (&str, ColumnType)| ColumnSpec { name: name.to_owned(), column_type, nullable }
    };
    required.into_iter().map(column(false)).chain(optional.into_iter().map(column(true))).collect()
}
