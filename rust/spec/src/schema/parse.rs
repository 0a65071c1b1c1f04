//! Reads a JSON declaration into column specs.
//!
//! Objects are read as ordered member lists, because `serde_json`'s own map would drop repeated keys
//! and the order of columns. Values stay raw text until the option that wants them knows its type, so
//! that an error can name both.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ColumnSpec, ColumnType, Fields, Metric, VectorType};
use crate::error::{Error, Result};
use crate::members::{Members, kind};
use crate::validate;

/// The columns of a declaration, in its order; the schema as a whole is not validated yet.
pub(super) fn columns(json: &str, key: &str) -> Result<Vec<ColumnSpec>> {
    let invalid = |message| Error::InvalidSchema { message };
    let raw: &RawValue = serde_json::from_str(json).map_err(|e| invalid(format!("not valid JSON: {e}")))?;
    if kind(raw) != "an object" {
        return Err(invalid(format!("expected an object from column names to types, got {}", kind(raw))));
    }
    let Members(members) = serde_json::from_str(raw.get()).map_err(|e| invalid(format!("not valid JSON: {e}")))?;
    let mut seen = HashSet::new();
    members
        .iter()
        .map(|(name, declaration)| {
            validate::declared_once(name, &mut seen)?;
            column(name, declaration, key)
        })
        .collect()
}

/// The fields of a struct that is declared in column `column`, or in the items of a list there.
fn fields(column: &str, declaration: &RawValue) -> Result<Fields> {
    let Ok(Members(members)) = serde_json::from_str(declaration.get()) else {
        let message = format!("`fields` is an object from field names to types, got {}", kind(declaration));
        return Err(validate::invalid(column, message));
    };
    let mut seen = HashSet::new();
    let mut fields = Vec::with_capacity(members.len());
    for (name, declaration) in &members {
        validate::field_declared_once(column, name, &mut seen)?;
        let options = Options::read(column, declaration)?;
        validate::field_type_name(column, name, options.type_name)?;
        let nullable = options.flag("nullable", true)?;
        fields.push(ColumnSpec { name: name.clone(), column_type: options.column_type()?, nullable });
    }
    Ok(Fields(fields))
}

fn column(name: &str, declaration: &RawValue, key: &str) -> Result<ColumnSpec> {
    let options = Options::read(name, declaration)?;
    let nullable = options.flag("nullable", name != key)?;
    Ok(ColumnSpec { name: name.to_owned(), column_type: options.column_type()?, nullable })
}

/// The element type of a list. Elements may always be null, so saying that they may is no error.
fn item(column: &str, declaration: &RawValue) -> Result<ColumnType> {
    let options = Options::read(column, declaration)?;
    validate::list_item_name(column, options.type_name)?;
    if !options.flag("nullable", true)? {
        return Err(validate::invalid(
            column,
            "the elements of a list may always be null; leave `nullable` out of `item`",
        ));
    }
    options.column_type()
}

/// The options of one declaration, all of them known to its type.
struct Options<'a> {
    column: &'a str,
    type_name: &'static str,
    members: Vec<(String, &'a RawValue)>,
}

impl<'a> Options<'a> {
    /// Reads a type name, or an object with `type` and options.
    fn read(column: &'a str, declaration: &'a RawValue) -> Result<Self> {
        let members = match kind(declaration) {
            "a string" => vec![("type".to_owned(), declaration)],
            "an object" => {
                let parsed: serde_json::Result<Members<'a>> = serde_json::from_str(declaration.get());
                parsed.map_err(|e| validate::invalid(column, format!("not valid JSON: {e}")))?.0
            }
            other => {
                let message = format!("expected a type name or an object with `type`, got {other}");
                return Err(validate::invalid(column, message));
            }
        };
        let mut options = Self { column, type_name: "", members };
        let keys = || options.members.iter().map(|(key, _)| key.as_str());
        validate::keys_given_once(column, keys())?;
        validate::type_given(column, keys())?;
        let type_name = options.text("type")?.unwrap_or_default();
        options.type_name = validate::known_type(column, &type_name)?;
        let allowed = validate::options_of(options.type_name);
        options
            .members
            .iter()
            .try_for_each(|(key, _)| validate::known_option(column, options.type_name, key, allowed))?;
        Ok(options)
    }

    fn column_type(&self) -> Result<ColumnType> {
        Ok(match self.type_name {
            "string" => ColumnType::String { large: self.flag("large", false)? },
            "int8" => ColumnType::Int8,
            "int16" => ColumnType::Int16,
            "int32" => ColumnType::Int32,
            "int64" => ColumnType::Int64,
            "uint8" => ColumnType::UInt8,
            "uint16" => ColumnType::UInt16,
            "uint32" => ColumnType::UInt32,
            "uint64" => ColumnType::UInt64,
            "float16" => ColumnType::Float16,
            "float32" => ColumnType::Float32,
            "float64" => ColumnType::Float64,
            "bool" => ColumnType::Bool,
            "timestamp" => self.timestamp()?,
            "date" => ColumnType::Date,
            "decimal" => self.decimal()?,
            "json" => ColumnType::Json,
            "binary" => ColumnType::Binary { blob: self.flag("blob", false)? },
            "blob" => ColumnType::Binary { blob: true },
            "vector" => self.vector()?,
            "list" => ColumnType::List { item: Box::new(item(self.column, self.required("item", "\"string\"")?)?) },
            "struct" => {
                ColumnType::Struct { fields: fields(self.column, self.required("fields", "{\"x\": \"float32\"}")?)? }
            }
            // `known_type` returns the names above only.
            other => {
                return Err(Error::Internal {
                    message: format!("type `{other}` is listed but not read"),
                    source: None,
                });
            }
        })
    }

    fn timestamp(&self) -> Result<ColumnType> {
        if let Some(unit) = self.text("unit")? {
            validate::one_of(self.column, "unit", &unit, &["us"])?;
        }
        let utc = match self.get("tz") {
            Some(raw) if kind(raw) == "null" => false,
            _ => {
                let tz = self.text("tz")?.unwrap_or_else(|| "UTC".to_owned());
                if tz != "UTC" {
                    return Err(validate::unknown_choice(self.column, "tz", &tz, &["UTC", "null"]));
                }
                true
            }
        };
        Ok(ColumnType::Timestamp { utc })
    }

    fn vector(&self) -> Result<ColumnType> {
        let raw = self.required("dim", "768")?;
        let dim: i128 = self.read_as("dim", "a whole number", raw)?;
        let dim = validate::vector_dim(self.column, dim)?;
        let metric = match self.text("metric")?.as_deref() {
            None | Some("l2" | "euclidean") => Metric::L2,
            Some("cosine") => Metric::Cosine,
            Some("dot" | "dot_product") => Metric::Dot,
            Some(other) => {
                let known = ["l2", "euclidean", "cosine", "dot", "dot_product"];
                return Err(validate::unknown_choice(self.column, "metric", other, &known));
            }
        };
        let dtype = match self.text("dtype")?.as_deref() {
            None | Some("float32") => VectorType::Float32,
            Some("float16") => VectorType::Float16,
            Some(other) => {
                return Err(validate::unknown_choice(self.column, "dtype", other, &["float32", "float16"]));
            }
        };
        Ok(ColumnType::Vector { dim, metric, dtype })
    }

    fn decimal(&self) -> Result<ColumnType> {
        let raw = self.required("precision", "10")?;
        let precision: i128 = self.read_as("precision", "a whole number", raw)?;
        let scale = self.get("scale").map_or(Ok(0), |raw| self.read_as("scale", "a whole number", raw))?;
        let (precision, scale) = validate::decimal(self.column, precision, scale)?;
        Ok(ColumnType::Decimal { precision, scale })
    }

    fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.members.iter().find_map(|(name, raw)| (name == key).then_some(*raw))
    }

    fn required(&self, key: &str, example: &str) -> Result<&'a RawValue> {
        self.get(key).ok_or_else(|| {
            let message =
                format!("a {0} needs `{key}`, as in `{{\"type\": \"{0}\", \"{key}\": {example}}}`", self.type_name);
            validate::invalid(self.column, message)
        })
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.get(key).map_or(Ok(default), |raw| self.read_as(key, "true or false", raw))
    }

    fn text(&self, key: &str) -> Result<Option<String>> {
        self.get(key).map(|raw| self.read_as(key, "a string", raw)).transpose()
    }

    fn read_as<'de, T: Deserialize<'de>>(&self, key: &str, expected: &str, raw: &'de RawValue) -> Result<T> {
        serde_json::from_str(raw.get()).map_err(|_| {
            let got = match kind(raw) {
                "a number" => format!("`{}`", raw.get()),
                other => other.to_owned(),
            };
            validate::invalid(self.column, format!("`{key}` must be {expected}, got {got}"))
        })
    }
}
