//! Rows out of JSON text, by the declared types.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::value::RawValue;

use super::{Misfit, text};
use crate::error::{Error, Result};
use crate::json::check_limits;
use crate::members::{Members, kind};
use crate::moment::{parse_date, parse_timestamp};
use crate::schema::{ColumnSpec, ColumnType, Fields, SchemaSpec};
use crate::value::{Value, shown};

/// Base64 in the standard alphabet, with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads rows of one schema.
pub struct RowReader<'s> {
    spec: &'s SchemaSpec,
    /// Positions by the names in the text; `None`: the declared names, and no others.
    selected: Option<HashMap<String, usize>>,
}

impl<'s> RowReader<'s> {
    /// A reader of rows that have columns of `spec` alone.
    #[must_use]
    pub fn new(spec: &'s SchemaSpec) -> Self {
        Self { spec, selected: None }
    }

    /// A reader that takes the members named first as the columns of `spec` named second, and passes over all
    /// others.
    ///
    /// # Errors
    /// `QueryColumn` for a column that is not declared, `InvalidArgument` for one that is named twice.
    pub fn selecting(spec: &'s SchemaSpec, columns: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut taken = vec![false; spec.columns().len()];
        let mut selected = HashMap::new();
        for (name, column) in columns {
            let Some((at, _)) = spec.column(&column) else {
                return Err(Error::QueryColumn { suggestion: spec.suggest(&column), known: spec.names(), column });
            };
            if std::mem::replace(&mut taken[at], true) || selected.insert(name, at).is_some() {
                let message = format!("column `{column}` is named twice; name it once");
                return Err(Error::InvalidArgument { argument: "columns".into(), message });
            }
        }
        Ok(Self { spec, selected: Some(selected) })
    }

    /// The cells of one row, each with the position of its column, in the order of the text. A cell borrows from
    /// `text` where it can. `row` is the index of the row for an error.
    ///
    /// # Errors
    /// `InvalidRow` for text that is no JSON object or gives a column twice, `UnknownColumn` for a name that is not
    /// declared, `WrongType` and `OutOfRange` for a value that its type does not take.
    pub fn read<'a>(&self, row: usize, text: &'a str) -> Result<Vec<(usize, Value<'a>)>> {
        let members = object(text).map_err(|message| Error::InvalidRow { row, message })?;
        let mut given = vec![false; self.spec.columns().len()];
        let mut cells = Vec::with_capacity(members.len().min(given.len()));
        for (name, raw) in members {
            let Some(at) = self.position(row, &name)? else { continue };
            if std::mem::replace(&mut given[at], true) {
                let message = format!("`{name}` is given twice; remove one of the values");
                return Err(Error::InvalidRow { row, message });
            }
            cells.push((at, self.cell(row, at, raw)?));
        }
        Ok(cells)
    }

    fn position(&self, row: usize, name: &str) -> Result<Option<usize>> {
        if let Some(selected) = &self.selected {
            return Ok(selected.get(name).copied());
        }
        let position = self.spec.column(name).map(|(at, _)| at);
        position.map(Some).ok_or_else(|| Error::UnknownColumn {
            row,
            column: name.to_owned(),
            suggestion: self.spec.suggest(name),
            known: self.spec.names(),
        })
    }

    fn cell<'a>(&self, row: usize, at: usize, raw: &'a RawValue) -> Result<Value<'a>> {
        let ColumnSpec { name, column_type, .. } = &self.spec.columns()[at];
        value(raw, column_type).map_err(|misfit| {
            let column = name.clone();
            match misfit {
                Misfit::WrongType(got) => Error::WrongType { row, column, expected: expectation(column_type), got },
                Misfit::OutOfRange(message) => Error::OutOfRange { row, column, message },
            }
        })
    }
}

fn object(text: &str) -> Result<Vec<(String, &RawValue)>, String> {
    let invalid = |error: serde_json::Error| {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let message = message.strip_suffix(&place).unwrap_or(&message);
        format!("not valid JSON: {message} at character {}", error.column())
    };
    if !text.trim_ascii_start().starts_with('{') {
        let raw: &RawValue = serde_json::from_str(text).map_err(invalid)?;
        return Err(format!("a row is a JSON object of column names and values, not {}", kind(raw)));
    }
    serde_json::from_str(text).map(|Members(members)| members).map_err(invalid)
}

fn value<'a>(raw: &'a RawValue, column_type: &ColumnType) -> Result<Value<'a>, Misfit> {
    if raw.get() == "null" {
        return Ok(Value::Null);
    }
    match column_type {
        ColumnType::String { .. } => string(raw).map(Value::Str),
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64 => integer(raw).map(Value::Int),
        ColumnType::Float32 if is_number(raw) => float32(raw).map(|float| Value::Float(float.into())),
        ColumnType::Float16 if is_integer(raw) && !is_exact(raw, 11) => Err(inexact(raw, "float16")),
        ColumnType::Float16 | ColumnType::Float32 | ColumnType::Float64 => float64(raw).map(Value::Float),
        ColumnType::Bool => match raw.get() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(wrong_type(raw)),
        },
        ColumnType::Timestamp { utc } => {
            let micros = parse_timestamp(&string(raw)?, *utc)?;
            Ok(Value::Timestamp { micros, aware: *utc })
        }
        ColumnType::Date => Ok(Value::Date(parse_date(&string(raw)?)?)),
        ColumnType::Decimal { scale, .. } => {
            let text = if is_number(raw) { Cow::Borrowed(raw.get()) } else { string(raw)? };
            Ok(Value::Decimal { unscaled: text::read_decimal(&text, *scale)?, scale: *scale })
        }
        ColumnType::Json => json(raw),
        ColumnType::Binary { .. } => bytes(raw),
        ColumnType::Vector { .. } => vector(raw),
        ColumnType::List { item } => list(raw, |element| value(element, item)).map(Value::List),
        ColumnType::Struct { fields } => structure(raw, fields).map(Value::Struct),
    }
}

fn string(raw: &RawValue) -> Result<Cow<'_, str>, Misfit> {
    let text = raw.get();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or_else(|| wrong_type(raw))?;
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    // Raw text is checked for everything but surrogates without a partner.
    serde_json::from_str(text)
        .map(Cow::Owned)
        .map_err(|_| Misfit::WrongType("a string with a lone surrogate, which is no text in UTF-8".into()))
}

fn integer(raw: &RawValue) -> Result<i128, Misfit> {
    if !is_integer(raw) {
        return Err(wrong_type(raw));
    }
    raw.get()
        .parse()
        .map_err(|_| Misfit::OutOfRange(format!("the integer {} has more than 128 bits", shown(raw.get()))))
}

/// Whether it is a number without fraction and exponent.
fn is_integer(raw: &RawValue) -> bool {
    is_number(raw) && !raw.get().contains(['.', 'e', 'E'])
}

fn is_number(raw: &RawValue) -> bool {
    kind(raw) == "a number"
}

fn float64(raw: &RawValue) -> Result<f64, Misfit> {
    if !is_number(raw) {
        return text::read_special(&string(raw)?).ok_or_else(|| wrong_type(raw));
    }
    // The standard library rounds correctly; `serde_json` is an ulp off for speed.
    let float: f64 = raw.get().parse().map_err(|_| wrong_type(raw))?;
    if !float.is_finite() {
        return Err(too_large(raw, "float64", f64::MAX));
    }
    if is_integer(raw) && !is_exact(raw, f64::MANTISSA_DIGITS) { Err(inexact(raw, "float64")) } else { Ok(float) }
}

fn float32(raw: &RawValue) -> Result<f32, Misfit> {
    if !is_number(raw) {
        return text::read_special_f32(&string(raw)?).ok_or_else(|| wrong_type(raw));
    }
    let float: f32 = raw.get().parse().map_err(|_| wrong_type(raw))?;
    if !float.is_finite() {
        return Err(too_large(raw, "float32", f32::MAX.into()));
    }
    if is_integer(raw) && !is_exact(raw, f32::MANTISSA_DIGITS) { Err(inexact(raw, "float32")) } else { Ok(float) }
}

/// Whether a float of so many significant bits is exactly the integer.
fn is_exact(raw: &RawValue, bits: u32) -> bool {
    raw.get().parse::<i128>().is_ok_and(|int| {
        let magnitude = int.unsigned_abs();
        magnitude == 0 || u128::BITS - magnitude.leading_zeros() - magnitude.trailing_zeros() <= bits
    })
}

/// JSON as its text.
fn json(raw: &RawValue) -> Result<Value<'_>, Misfit> {
    check_limits(raw.get()).map_err(|fault| Misfit::OutOfRange(fault.to_string()))?;
    Ok(Value::Json(Cow::Borrowed(raw.get())))
}

fn bytes(raw: &RawValue) -> Result<Value<'static>, Misfit> {
    let text = string(raw)?;
    let bytes = BASE64.decode(text.as_bytes());
    bytes.map(|bytes| Value::Bytes(Cow::Owned(bytes))).map_err(|error| {
        let message = error.to_string().to_lowercase();
        Misfit::WrongType(format!("a string that is not base64 ({})", message.trim_end_matches('.')))
    })
}

/// Components as one slice; with a null among them as a list, for the codec to judge.
fn vector(raw: &RawValue) -> Result<Value<'_>, Misfit> {
    let components = list(raw, |component| match component.get() {
        "null" => Ok(None),
        _ => float32(component).map(Some),
    })?;
    if components.iter().any(Option::is_none) {
        let cell = |component: &Option<f32>| component.map_or(Value::Null, |float| Value::Float(float.into()));
        return Ok(Value::List(components.iter().map(cell).collect()));
    }
    Ok(Value::Vector(components.into_iter().flatten().collect()))
}

fn list<'a, T>(raw: &'a RawValue, item: impl Fn(&'a RawValue) -> Result<T, Misfit>) -> Result<Vec<T>, Misfit> {
    if kind(raw) != "a list" {
        return Err(wrong_type(raw));
    }
    let elements: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| wrong_type(raw))?;
    let item = |(index, element)| item(element).map_err(|misfit: Misfit| misfit.at(index));
    elements.into_iter().enumerate().map(item).collect()
}

fn structure<'a>(raw: &'a RawValue, fields: &Fields) -> Result<Vec<(Cow<'a, str>, Value<'a>)>, Misfit> {
    if kind(raw) != "an object" {
        return Err(wrong_type(raw));
    }
    let Members(members) = serde_json::from_str(raw.get()).map_err(|_| wrong_type(raw))?;
    let mut cells: Vec<(Cow<'a, str>, Value<'a>)> = Vec::with_capacity(members.len().min(fields.0.len()));
    for (name, raw) in members {
        let Some((_, field)) = fields.get(&name) else {
            return Err(Misfit::WrongType(format!("an object with the unknown field `{name}`")));
        };
        if cells.iter().any(|(given, _)| **given == *name) {
            return Err(Misfit::WrongType(format!("an object that gives field `{name}` twice")));
        }
        let cell = value(raw, &field.column_type).map_err(|misfit| misfit.in_field(&name))?;
        cells.push((Cow::Owned(name), cell));
    }
    Ok(cells)
}

#[cold]
fn wrong_type(raw: &RawValue) -> Misfit {
    Misfit::WrongType(match kind(raw) {
        kind @ ("a number" | "a string" | "a truth value") => format!("{kind}: {}", shown(raw.get())),
        kind => kind.to_owned(),
    })
}

#[cold]
fn too_large(raw: &RawValue, type_name: &str, max: f64) -> Misfit {
    Misfit::OutOfRange(format!("{} does not fit {type_name}, which ends at {max:e}", shown(raw.get())))
}

#[cold]
fn inexact(raw: &RawValue, type_name: &str) -> Misfit {
    let int = shown(raw.get());
    Misfit::OutOfRange(format!("the integer {int} is not exact in {type_name}; write it with a fraction to round it"))
}

/// The type and the JSON that it takes.
fn expectation(column_type: &ColumnType) -> String {
    let takes = match column_type {
        ColumnType::String { .. } => "a string",
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64 => "a number without fraction and exponent",
        ColumnType::Float16 | ColumnType::Float32 | ColumnType::Float64 => {
            "a number, `\"NaN\"`, `\"Infinity\"` or `\"-Infinity\"`"
        }
        ColumnType::Bool => "`true` or `false`",
        ColumnType::Timestamp { utc: true } => "a string with an offset such as `\"2026-01-31T12:00:00Z\"`",
        ColumnType::Timestamp { utc: false } => "a string without offset such as `\"2026-01-31T12:00:00\"`",
        ColumnType::Date => "a string such as `\"2026-01-31\"`",
        ColumnType::Decimal { .. } => "a string such as `\"1.50\"`",
        ColumnType::Json => "any JSON value",
        ColumnType::Binary { .. } => "a string of base64",
        ColumnType::Vector { .. } => "a list of numbers",
        ColumnType::List { .. } => "a list",
        ColumnType::Struct { .. } => "an object of the fields",
    };
    format!("{}: {takes}", column_type.describe())
}
