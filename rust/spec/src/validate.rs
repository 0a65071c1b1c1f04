//! The rules of a schema declaration, one function each.
//!
//! A rule returns the error that names the column, what is wrong with it and what would be right.
//! [`schema`] applies those that concern a finished declaration; the others are asked while its JSON
//! form is read, where a misspelled key still exists.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::schema::suggest::closest;
use crate::schema::{ColumnSpec, ColumnType, Fields};

/// Most columns of a schema.
const MAX_COLUMNS: usize = 1_024;
/// Most characters of a column name.
const MAX_NAME_CHARS: usize = 255;
/// Most components of a vector.
const MAX_VECTOR_DIM: u32 = 65_536;
/// Most digits of a decimal: what 128 bits hold.
const MAX_DECIMAL_DIGITS: u8 = 38;

/// Every type name with the options that it takes besides `type` and `nullable`.
const TYPES: [(&str, &[&str]); 22] = [
    ("string", &["type", "large", "nullable"]),
    ("int8", &["type", "nullable"]),
    ("int16", &["type", "nullable"]),
    ("int32", &["type", "nullable"]),
    ("int64", &["type", "nullable"]),
    ("uint8", &["type", "nullable"]),
    ("uint16", &["type", "nullable"]),
    ("uint32", &["type", "nullable"]),
    ("uint64", &["type", "nullable"]),
    ("float16", &["type", "nullable"]),
    ("float32", &["type", "nullable"]),
    ("float64", &["type", "nullable"]),
    ("bool", &["type", "nullable"]),
    ("timestamp", &["type", "unit", "tz", "nullable"]),
    ("date", &["type", "nullable"]),
    ("decimal", &["type", "precision", "scale", "nullable"]),
    ("json", &["type", "nullable"]),
    ("binary", &["type", "blob", "nullable"]),
    ("blob", &["type", "nullable"]),
    ("vector", &["type", "dim", "metric", "dtype", "nullable"]),
    ("list", &["type", "item", "nullable"]),
    ("struct", &["type", "fields", "nullable"]),
];

/// Names that other systems use, with ours.
const FOREIGN_TYPES: [(&str, &str); 25] = [
    ("str", "string"),
    ("text", "string"),
    ("utf8", "string"),
    ("varchar", "string"),
    ("int", "int64"),
    ("integer", "int64"),
    ("long", "int64"),
    ("float", "float64"),
    ("double", "float64"),
    ("boolean", "bool"),
    ("bytes", "binary"),
    ("datetime", "timestamp"),
    ("array", "list"),
    ("embedding", "vector"),
    ("half", "float16"),
    ("byte", "uint8"),
    ("short", "int16"),
    ("datetime64", "timestamp"),
    ("date32", "date"),
    ("numeric", "decimal"),
    ("decimal128", "decimal"),
    ("object", "json"),
    ("dict", "json"),
    ("map", "struct"),
    ("record", "struct"),
];

/// Every rule of a finished declaration.
pub(crate) fn schema(key: &str, columns: &[ColumnSpec]) -> Result<()> {
    column_count(columns)?;
    for column in columns {
        name_length(&column.name)?;
        name_start(&column.name)?;
        name_characters(&column.name)?;
        type_legal(&column.name, &column.column_type)?;
    }
    names_distinct(columns)?;
    let key = key_declared(key, columns)?;
    key_type(key)?;
    key_not_null(key)
}

/// The error of a column.
pub(crate) fn invalid(column: &str, message: impl Into<String>) -> Error {
    Error::InvalidColumn { column: column.to_owned(), message: message.into() }
}

fn column_count(columns: &[ColumnSpec]) -> Result<()> {
    if columns.len() > MAX_COLUMNS {
        let message = format!("{} columns, at most {MAX_COLUMNS} are possible; put some into lists", columns.len());
        return Err(Error::InvalidSchema { message });
    }
    Ok(())
}

fn name_length(name: &str) -> Result<()> {
    let length = name.chars().count();
    if (1..=MAX_NAME_CHARS).contains(&length) {
        return Ok(());
    }
    Err(invalid(name, format!("a name has 1 to {MAX_NAME_CHARS} characters, this one has {length}")))
}

fn name_start(name: &str) -> Result<()> {
    if !name.starts_with('_') {
        return Ok(());
    }
    let message = match name.trim_start_matches('_') {
        "" => "names with a leading `_` are reserved; choose another name".to_owned(),
        rest => format!("names with a leading `_` are reserved; call it `{rest}`"),
    };
    Err(invalid(name, message))
}

fn name_characters(name: &str) -> Result<()> {
    if name.contains('.') {
        return Err(invalid(name, format!("a name has no `.`; call it `{}`", name.replace('.', "_"))));
    }
    match name.chars().find(|c| c.is_control()) {
        Some(c) => Err(invalid(name, format!("a name has no control characters, this one has U+{:04X}", u32::from(c)))),
        None => Ok(()),
    }
}

fn names_distinct(columns: &[ColumnSpec]) -> Result<()> {
    let mut seen: HashMap<String, &str> = HashMap::with_capacity(columns.len());
    for ColumnSpec { name, .. } in columns {
        match seen.insert(name.to_lowercase(), name) {
            Some(twin) if twin == name => return Err(declared_twice(name)),
            Some(twin) => return Err(invalid(name, format!("differs from `{twin}` only by case; rename one of them"))),
            None => {}
        }
    }
    Ok(())
}

fn type_legal(column: &str, column_type: &ColumnType) -> Result<()> {
    match column_type {
        ColumnType::Vector { dim, .. } => vector_dim(column, i128::from(*dim)).map(drop),
        ColumnType::List { item } => list_item(column, item),
        ColumnType::Decimal { precision, scale } => {
            decimal(column, i128::from(*precision), i128::from(*scale)).map(drop)
        }
        ColumnType::Struct { fields } => struct_fields(column, fields),
        _ => Ok(()),
    }
}

/// Precision and scale, if a decimal can have these.
pub(crate) fn decimal(column: &str, precision: i128, scale: i128) -> Result<(u8, u8)> {
    let within = |value: i128, range: std::ops::RangeInclusive<i128>| {
        u8::try_from(value).ok().filter(|_| range.contains(&value))
    };
    let digits = within(precision, 1..=i128::from(MAX_DECIMAL_DIGITS)).ok_or_else(|| {
        invalid(column, format!("a decimal has 1 to {MAX_DECIMAL_DIGITS} digits, `precision` is `{precision}`"))
    })?;
    let behind = within(scale, 0..=precision).ok_or_else(|| {
        invalid(column, format!("a decimal has 0 to `precision` digits behind the point, `scale` is `{scale}`"))
    })?;
    Ok((digits, behind))
}

fn struct_fields(column: &str, fields: &Fields) -> Result<()> {
    if fields.0.is_empty() {
        return Err(invalid(column, "a struct has at least one field"));
    }
    for field in &fields.0 {
        let checked = name_length(&field.name)
            .and_then(|()| name_start(&field.name))
            .and_then(|()| name_characters(&field.name))
            .and_then(|()| type_legal(&field.name, &field.column_type))
            .and_then(|()| field_type(&field.name, &field.column_type));
        checked.map_err(|error| in_field(column, &field.name, error))?;
    }
    names_distinct(&fields.0).map_err(|error| in_field(column, "fields", error))
}

fn field_type(field: &str, column_type: &ColumnType) -> Result<()> {
    let name = match column_type {
        ColumnType::List { .. } => "list",
        ColumnType::Vector { .. } => "vector",
        ColumnType::Struct { .. } => "struct",
        ColumnType::Json => "json",
        ColumnType::Binary { blob: true } => "blob",
        _ => return Ok(()),
    };
    field_type_name(field, field, name)
}

/// A field is a scalar, asked by name so that no declaration nests deeper than one struct.
pub(crate) fn field_type_name(column: &str, field: &str, type_name: &str) -> Result<()> {
    if !["list", "vector", "struct", "json", "blob"].contains(&type_name) {
        return Ok(());
    }
    let message = format!(
        "field `{field}` is a {type_name}, and the fields of a struct are scalars; make it a column, or declare the \
         whole as `json`"
    );
    Err(invalid(column, message))
}

/// No field is declared twice; `seen` collects the names so far.
pub(crate) fn field_declared_once<'a>(column: &str, name: &'a str, seen: &mut HashSet<&'a str>) -> Result<()> {
    if seen.insert(name) { Ok(()) } else { Err(in_field(column, name, declared_twice(name))) }
}

/// The error about a field as one about its column.
fn in_field(column: &str, field: &str, error: Error) -> Error {
    match error {
        Error::InvalidColumn { column: named, message } if named == field => {
            invalid(column, format!("field `{field}`: {message}"))
        }
        Error::InvalidColumn { column: named, message } => invalid(column, format!("field `{named}`: {message}")),
        other => other,
    }
}

/// The number of components, if a vector can have that many.
pub(crate) fn vector_dim(column: &str, dim: i128) -> Result<u32> {
    u32::try_from(dim)
        .ok()
        .filter(|dim| (1..=MAX_VECTOR_DIM).contains(dim))
        .ok_or_else(|| invalid(column, format!("a vector has 1 to {MAX_VECTOR_DIM} components, `dim` is `{dim}`")))
}

fn list_item(column: &str, item: &ColumnType) -> Result<()> {
    match item {
        ColumnType::List { .. } => Err(unlistable(column, "lists")),
        ColumnType::Vector { .. } => Err(unlistable(column, "vectors")),
        ColumnType::Binary { blob: true } => Err(unlistable(column, "blobs")),
        ColumnType::Json => Err(unlistable(column, "json")),
        item => type_legal(column, item),
    }
}

/// A list's `item` is no list, asked by name so that no declaration nests deeper than one list.
pub(crate) fn list_item_name(column: &str, type_name: &str) -> Result<()> {
    match type_name {
        "list" => Err(unlistable(column, "lists")),
        "json" => Err(unlistable(column, "json")),
        _ => Ok(()),
    }
}

fn unlistable(column: &str, items: &str) -> Error {
    invalid(
        column,
        format!(
            "a list of {items} is not possible; `item` is a scalar type, such as `float32` or `string`, or a struct of \
             scalars; declare anything deeper as `json`"
        ),
    )
}

fn key_declared<'a>(key: &str, columns: &'a [ColumnSpec]) -> Result<&'a ColumnSpec> {
    columns.iter().find(|column| column.name == key).ok_or_else(|| {
        let near = columns.iter().find(|column| column.name.eq_ignore_ascii_case(key));
        let hint = near.map_or_else(String::new, |column| format!(" (`{}` is spelled differently)", column.name));
        Error::InvalidSchema { message: format!("column `{key}` is missing{hint}; declare `\"{key}\": \"string\"`") }
    })
}

fn key_type(key: &ColumnSpec) -> Result<()> {
    match &key.column_type {
        ColumnType::String { large: false } => Ok(()),
        other => Err(invalid(&key.name, format!("the key is always a plain `string`, not {}", other.describe()))),
    }
}

fn key_not_null(key: &ColumnSpec) -> Result<()> {
    if key.nullable {
        return Err(invalid(&key.name, "the key cannot be nullable; leave `nullable` out"));
    }
    Ok(())
}

/// No column is declared twice; `seen` collects the names so far.
pub(crate) fn declared_once<'a>(name: &'a str, seen: &mut HashSet<&'a str>) -> Result<()> {
    if seen.insert(name) { Ok(()) } else { Err(declared_twice(name)) }
}

fn declared_twice(name: &str) -> Error {
    invalid(name, "declared twice; remove one of the declarations")
}

/// No key of a column spec is given twice.
pub(crate) fn keys_given_once<'a>(column: &str, keys: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for key in keys {
        if !seen.insert(key) {
            return Err(invalid(column, format!("`{key}` is given twice; remove one")));
        }
    }
    Ok(())
}

/// A column spec names its type.
pub(crate) fn type_given<'a>(column: &str, mut keys: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    if keys.clone().any(|key| key == "type") {
        return Ok(());
    }
    let slip = keys.find(|key| closest(key, ["type"]).is_some());
    let hint = slip.map_or_else(String::new, |key| format!(", did you mean it by `{key}`?"));
    Err(invalid(column, format!("`type` is missing{hint}; declare it as in `{{\"type\": \"string\"}}`")))
}

/// The known type of this name.
pub(crate) fn known_type(column: &str, name: &str) -> Result<&'static str> {
    if let Some((known, _)) = TYPES.iter().find(|(known, _)| *known == name) {
        return Ok(known);
    }
    let lower = name.to_lowercase();
    let ours = FOREIGN_TYPES.iter().find_map(|(foreign, ours)| (*foreign == lower).then_some(*ours));
    let suggestion = ours.or_else(|| closest(name, TYPES.map(|(known, _)| known)));
    let message =
        format!("unknown type `{name}`{}; the types are {}", ask(suggestion), quoted(&TYPES.map(|(known, _)| known)));
    Err(invalid(column, message))
}

/// The keys that a column spec of this type may have.
pub(crate) fn options_of(type_name: &str) -> &'static [&'static str] {
    TYPES.iter().find_map(|(known, options)| (*known == type_name).then_some(*options)).unwrap_or_default()
}

/// A column spec has no key that its type does not take.
pub(crate) fn known_option(column: &str, type_name: &str, key: &str, allowed: &[&str]) -> Result<()> {
    if allowed.contains(&key) {
        return Ok(());
    }
    let suggestion = closest(key, allowed.iter().copied());
    let message = format!("unknown option `{key}` of `{type_name}`{}; it takes {}", ask(suggestion), quoted(allowed));
    Err(invalid(column, message))
}

/// An option has one of the values that exist.
pub(crate) fn one_of(column: &str, option: &str, value: &str, known: &[&str]) -> Result<()> {
    if known.contains(&value) { Ok(()) } else { Err(unknown_choice(column, option, value, known)) }
}

/// The error of an option whose value does not exist.
pub(crate) fn unknown_choice(column: &str, option: &str, value: &str, known: &[&str]) -> Error {
    let suggestion = closest(value, known.iter().copied());
    invalid(column, format!("unknown `{option}` `{value}`{}; possible: {}", ask(suggestion), quoted(known)))
}

fn ask(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
