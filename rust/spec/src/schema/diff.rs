//! What a declared schema means that the stored one does not.

use super::{ColumnSpec, SchemaSpec};

/// Whether both mean the same.
pub(super) fn equal(one: &SchemaSpec, other: &SchemaSpec) -> bool {
    one.key == other.key
        && one.columns.len() == other.columns.len()
        && one.columns.iter().all(|column| other.column(&column.name).is_some_and(|(_, same)| same == column))
}

/// The differences in the order of the declaration, or `None`.
pub(super) fn describe(declared: &SchemaSpec, stored: &SchemaSpec) -> Option<String> {
    let added =
        declared.columns.iter().filter(|column| stored.column(&column.name).is_none()).map(with_shape).collect();
    let missing =
        stored.columns.iter().filter(|column| declared.column(&column.name).is_none()).map(with_shape).collect();
    let key =
        (declared.key != stored.key).then(|| format!("the key (declared `{}`, stored `{}`)", declared.key, stored.key));
    let changed = declared.columns.iter().filter_map(|column| change(column, stored)).chain(key).collect();

    let clauses: Vec<String> = [("added", added), ("missing", missing), ("changed", changed)]
        .into_iter()
        .filter(|(_, columns): &(_, Vec<String>)| !columns.is_empty())
        .map(|(word, columns)| format!("{word} {}", columns.join(", ")))
        .collect();
    (!clauses.is_empty()).then(|| clauses.join("; "))
}

fn change(declared: &ColumnSpec, stored: &SchemaSpec) -> Option<String> {
    let (_, stored) = stored.column(&declared.name)?;
    (stored != declared)
        .then(|| format!("`{}` (declared {}, stored {})", declared.name, shape(declared), shape(stored)))
}

fn with_shape(column: &ColumnSpec) -> String {
    format!("`{}` ({})", column.name, shape(column))
}

fn shape(column: &ColumnSpec) -> String {
    let null = if column.nullable { "nullable" } else { "not null" };
    format!("{} {null}", column.column_type.describe())
}
