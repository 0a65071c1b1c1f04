//! Rows as JSON text.

use std::borrow::Cow;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Misfit, text};
use crate::error::{Error, Result};
use crate::schema::ColumnType;
use crate::value::{Value, decimal_text, to_f32};

/// Writes rows of certain columns.
pub struct RowWriter<'a> {
    columns: Vec<Column<'a>>,
}

struct Column<'a> {
    name: &'a str,
    column_type: &'a ColumnType,
    /// The name as it stands in the object, with the colon.
    key: String,
}

impl<'a> RowWriter<'a> {
    /// A writer of rows that have these columns, in this order.
    pub fn new(columns: impl IntoIterator<Item = (&'a str, &'a ColumnType)>) -> Self {
        let column = |(name, column_type)| {
            let mut key = String::new();
            push_text(name, &mut key);
            key.push(':');
            Column { name, column_type, key }
        };
        Self { columns: columns.into_iter().map(column).collect() }
    }

    /// Appends one row, whose cells come in the order of the columns, to `out`. There is no line break in it, and
    /// none behind it. `row` is its index for an error, which leaves a part of the row in `out`.
    ///
    /// # Errors
    /// `OutOfRange` for a moment or a day outside of the years 1 to 9999, which has no such text.
    pub fn write<'v>(&self, row: usize, cells: impl IntoIterator<Item = Value<'v>>, out: &mut String) -> Result<()> {
        let mut separator = '{';
        for (column, cell) in self.columns.iter().zip(cells) {
            out.push(separator);
            separator = ',';
            out.push_str(&column.key);
            push(&cell, column.column_type, out).map_err(|misfit| match misfit {
                Misfit::WrongType(message) | Misfit::OutOfRange(message) => {
                    Error::OutOfRange { row, column: column.name.to_owned(), message }
                }
            })?;
        }
        out.push_str(if separator == '{' { "{}" } else { "}" });
        Ok(())
    }
}

fn push(value: &Value<'_>, column_type: &ColumnType, out: &mut String) -> Result<(), Misfit> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(int) => push_shown(format_args!("{int}"), out),
        Value::Float(float) => push_float(*float, column_type, out),
        Value::Str(text) => push_text(text, out),
        Value::Date(days) => text::push_date(*days, out)?,
        Value::Decimal { unscaled, scale } => push_shown(format_args!("\"{}\"", decimal_text(*unscaled, *scale)), out),
        Value::Json(json) => push_json(json, out),
        Value::Bytes(bytes) => {
            out.push('"');
            STANDARD.encode_string(bytes, out);
            out.push('"');
        }
        Value::Timestamp { micros, aware } => text::push_timestamp(*micros, *aware, out)?,
        Value::Vector(components) => push_list(components.iter(), out, |component, out| {
            push_component(*component, column_type, out);
            Ok(())
        })?,
        Value::List(items) => {
            let item_type = if let ColumnType::List { item } = column_type { item } else { &ColumnType::Float32 };
            push_list(items.iter(), out, |item, out| push(item, item_type, out))?;
        }
        Value::Struct(fields) => push_struct(fields, column_type, out)?,
    }
    Ok(())
}

fn push_struct(fields: &[(Cow<'_, str>, Value<'_>)], column_type: &ColumnType, out: &mut String) -> Result<(), Misfit> {
    let mut separator = '{';
    for (name, value) in fields {
        out.push(separator);
        separator = ',';
        push_text(name, out);
        out.push(':');
        // The type matters to floats alone; a field that is not declared is the reader's to refuse.
        let declared = if let ColumnType::Struct { fields } = column_type { fields.get(name) } else { None };
        let field_type = declared.map_or(&ColumnType::Float64, |(_, field)| &field.column_type);
        push(value, field_type, out).map_err(|misfit| misfit.in_field(name))?;
    }
    out.push_str(if separator == '{' { "{}" } else { "}" });
    Ok(())
}

/// Appends JSON as it is, on one line: in strings, line breaks are escaped already.
fn push_json(json: &str, out: &mut String) {
    out.extend(json.split(['\n', '\r']));
}

fn push_list<T>(
    items: impl Iterator<Item = T>,
    out: &mut String,
    mut push_item: impl FnMut(T, &mut String) -> Result<(), Misfit>,
) -> Result<(), Misfit> {
    out.push('[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_item(item, out).map_err(|misfit| misfit.at(index))?;
    }
    out.push(']');
    Ok(())
}

fn push_float(float: f64, column_type: &ColumnType, out: &mut String) {
    // Narrowed first, as the codec does: the digits of the wider float would be rounded a second time.
    match (column_type, to_f32(float)) {
        (ColumnType::Float32, Some(narrow)) if narrow.is_finite() => push_shown(format_args!("{narrow:?}"), out),
        _ if float.is_finite() => push_shown(format_args!("{float:?}"), out),
        _ if float.is_nan() && float.to_bits() != text::NAN_BITS => {
            push_shown(format_args!("\"NaN:{:016x}\"", float.to_bits()), out);
        }
        _ => push_special(float, out),
    }
}

fn push_component(component: f32, column_type: &ColumnType, out: &mut String) {
    match column_type {
        // Elements of a list are scalars, in whatever form they came.
        ColumnType::List { item } => push_float(component.into(), item, out),
        _ if component.is_finite() => push_shown(format_args!("{component:?}"), out),
        _ if component.is_nan() && component.to_bits() != text::NAN_BITS_F32 => {
            push_shown(format_args!("\"NaN:{:08x}\"", component.to_bits()), out);
        }
        _ => push_special(component.into(), out),
    }
}

fn push_special(float: f64, out: &mut String) {
    let name = match float {
        f64::INFINITY => "\"Infinity\"",
        f64::NEG_INFINITY => "\"-Infinity\"",
        _ => "\"NaN\"",
    };
    out.push_str(name);
}

fn push_text(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => push_shown(format_args!("\\u{control:04x}"), out),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

pub(super) fn push_shown(shown: std::fmt::Arguments<'_>, out: &mut String) {
    // A `String` takes everything.
    let _ = out.write_fmt(shown);
}
