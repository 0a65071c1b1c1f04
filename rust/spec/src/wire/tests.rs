//! Every cell survives its JSON form, and text that is no row is refused with its place.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{RowReader, RowWriter};
use crate::error::Error;
use crate::moment::{MAX_DAYS, MAX_MICROS, MIN_DAYS, MIN_MICROS};
use crate::schema::{ColumnSpec, ColumnType, Fields, Metric, SchemaSpec, VectorType};
use crate::value::Value;

const MAX_UNSCALED: i128 = 10i128.pow(38) - 1;

const DECIMAL: &str = r#"{"type":"decimal","precision":10,"scale":2}"#;
const POINT: &str = r#"{"type":"struct","fields":{"x":"float32","at":"timestamp"}}"#;

fn point() -> Value<'static> {
    let at = Value::Timestamp { micros: 0, aware: true };
    Value::Struct(vec![("x".into(), Value::Float(0.1f32.into())), ("at".into(), at)])
}

fn schema(declarations: &str) -> SchemaSpec {
    SchemaSpec::parse(&format!(r#"{{"id":"string",{declarations}}}"#)).unwrap()
}

/// The text of one cell of a column `x`.
fn written(declaration: &str, value: Value<'_>) -> String {
    let spec = schema(&format!(r#""x":{declaration}"#));
    let column = &spec.columns()[1];
    let mut out = String::new();
    RowWriter::new([(column.name.as_str(), &column.column_type)]).write(0, [value], &mut out).unwrap();
    out.strip_prefix(r#"{"x":"#).unwrap().strip_suffix('}').unwrap().to_owned()
}

/// The cell of a column `x` that a JSON value is.
fn read(declaration: &str, json: &str) -> Result<Value<'static>, Error> {
    let spec = schema(&format!(r#""x":{declaration}"#));
    let row = format!(r#"{{"x":{json}}}"#);
    let cells = RowReader::new(&spec).read(7, &row)?;
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0].0, 1);
    Ok(cells[0].1.clone().into_owned())
}

fn refused(declaration: &str, json: &str) -> String {
    let error = read(declaration, json).unwrap_err();
    assert_eq!(error.row(), Some(7), "{error}");
    assert_eq!(error.column(), Some("x"), "{error}");
    assert!(matches!(error, Error::WrongType { .. } | Error::OutOfRange { .. }), "{error}");
    error.to_string()
}

/// Equal bit by bit: NaN is itself and -0.0 is not 0.0.
fn same(one: &Value<'_>, other: &Value<'_>) -> bool {
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => one.to_bits() == other.to_bits(),
        (Value::Vector(one), Value::Vector(other)) => {
            one.iter().map(|float| float.to_bits()).eq(other.iter().map(|float| float.to_bits()))
        }
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (Value::Struct(one), Value::Struct(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1))
        }
        _ => one == other,
    }
}

fn scalar_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        any::<bool>().prop_map(|large| ColumnType::String { large }),
        prop::sample::select(vec![
            ColumnType::Int8,
            ColumnType::Int16,
            ColumnType::Int32,
            ColumnType::Int64,
            ColumnType::UInt8,
            ColumnType::UInt16,
            ColumnType::UInt32,
            ColumnType::UInt64,
        ]),
        prop::sample::select(vec![ColumnType::Float16, ColumnType::Float32, ColumnType::Float64]),
        Just(ColumnType::Bool),
        any::<bool>().prop_map(|utc| ColumnType::Timestamp { utc }),
        Just(ColumnType::Date),
        (1u8..=38)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| ColumnType::Decimal { precision, scale }),
        Just(ColumnType::Binary { blob: false }),
    ]
}

fn struct_type() -> impl Strategy<Value = ColumnType> {
    vec((any_text(), scalar_type()), 1..4).prop_map(|fields| ColumnType::Struct { fields: Fields(named(fields)) })
}

fn column_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        6 => scalar_type(),
        1 => Just(ColumnType::Binary { blob: true }),
        1 => Just(ColumnType::Json),
        1 => (1u32..5).prop_map(|dim| ColumnType::Vector { dim, metric: Metric::L2, dtype: VectorType::Float32 }),
        1 => struct_type(),
        2 => prop_oneof![scalar_type(), struct_type()].prop_map(|item| ColumnType::List { item: Box::new(item) }),
    ]
}

/// Columns of any names that a schema takes.
fn named(columns: Vec<(String, ColumnType)>) -> Vec<ColumnSpec> {
    let column = |(n, (name, column_type)): (usize, (String, ColumnType))| {
        let legal: String = name.chars().filter(|c| !c.is_control() && *c != '.').collect();
        ColumnSpec { name: format!("c{n}{legal}"), column_type, nullable: true }
    };
    columns.into_iter().enumerate().map(column).collect()
}

fn any_f64() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<u64>().prop_map(f64::from_bits),
        // Integers and short decimals, which have other texts.
        1 => (-1e6..1e6f64).prop_map(f64::round),
        1 => any::<i64>().prop_map(|int| int as f64),
        1 => prop::sample::select(vec![0.0, -0.0, 0.1, 1e22, 1e16, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::NAN]),
    ]
}

fn any_f32() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => any::<u32>().prop_map(f32::from_bits),
        1 => (-1e6..1e6f32).prop_map(f32::round),
        1 => prop::sample::select(vec![0.0, -0.0, 0.1, 16_777_216.0, f32::MAX, f32::MIN_POSITIVE, 1e-45, f32::NAN]),
    ]
}

/// Any text, in which what JSON escapes is frequent.
fn any_text() -> impl Strategy<Value = String> {
    vec(
        prop_oneof![any::<char>(), "[\"\\\\/\u{0}-\u{1f}\u{7f}\u{2028}😀]".prop_map(|s| s.chars().next().unwrap())],
        0..9,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

fn cell(column_type: &ColumnType) -> BoxedStrategy<Value<'static>> {
    match column_type.clone() {
        ColumnType::String { .. } => any_text().prop_map(|text| Value::Str(text.into())).boxed(),
        ColumnType::Int8
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::UInt8
        | ColumnType::UInt16
        | ColumnType::UInt32
        | ColumnType::UInt64 => {
            prop_oneof![any::<u64>().prop_map(i128::from), any::<i128>()].prop_map(Value::Int).boxed()
        }
        ColumnType::Float32 => prop_oneof![
            any_f32().prop_map(|float| Value::Float(float.into())),
            any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits | 0x7ff0_0000_0000_0001))),
        ]
        .boxed(),
        ColumnType::Float16 | ColumnType::Float64 => any_f64().prop_map(Value::Float).boxed(),
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Timestamp { utc } => {
            prop_oneof![MIN_MICROS..=MAX_MICROS, (-1_000i64..1_000).prop_map(|seconds| seconds * 1_000_000)]
                .prop_map(move |micros| Value::Timestamp { micros, aware: utc })
                .boxed()
        }
        ColumnType::Date => (MIN_DAYS..=MAX_DAYS).prop_map(Value::Date).boxed(),
        ColumnType::Decimal { scale, .. } => {
            let unscaled = prop_oneof![any::<i64>().prop_map(i128::from), -999i128..999, -MAX_UNSCALED..=MAX_UNSCALED];
            unscaled.prop_map(move |unscaled| Value::Decimal { unscaled, scale }).boxed()
        }
        ColumnType::Json => any_json()
            .prop_filter("null is no cell", |json| json != "null")
            .prop_map(|json| Value::Json(json.into()))
            .boxed(),
        ColumnType::Binary { .. } => vec(any::<u8>(), 0..12).prop_map(|bytes| Value::Bytes(bytes.into())).boxed(),
        ColumnType::Vector { dim, .. } => {
            vec(any_f32(), dim as usize).prop_map(|floats| Value::Vector(floats.into())).boxed()
        }
        ColumnType::List { item } => {
            vec(prop_oneof![1 => Just(Value::Null), 4 => cell(&item)], 0..5).prop_map(Value::List).boxed()
        }
        ColumnType::Struct { fields } => {
            let field = |field: &ColumnSpec| {
                let name: Cow<'static, str> = Cow::Owned(field.name.clone());
                prop_oneof![1 => Just(Value::Null), 4 => cell(&field.column_type)]
                    .prop_map(move |value| (name.clone(), value))
            };
            fields.0.iter().map(field).collect::<Vec<_>>().prop_map(Value::Struct).boxed()
        }
    }
}

/// JSON in the spelling of anybody, on one line.
fn any_json() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "-0", "1.50", "1E300", r#""\/\u00e9\ud83d\ude00""#])
            .prop_map(str::to_owned),
        any::<i128>().prop_map(|int| int.to_string()),
        any_text().prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    let nested = leaf.prop_recursive(3, 12, 3, |inner| {
        let key = any_text().prop_map(|text| serde_json::Value::from(text).to_string());
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|items| format!("[ {} ]", items.join(" ,\t"))),
            vec((key, inner), 0..3).prop_map(|members| {
                let members: Vec<_> = members.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", members.join(", "))
            }),
        ]
    });
    nested.boxed()
}

/// A schema with a row of it, in which any cell may be null.
fn schema_and_row() -> impl Strategy<Value = (SchemaSpec, Vec<Value<'static>>)> {
    vec((any_text(), column_type()), 0..8).prop_flat_map(|columns| {
        let mut columns = named(columns);
        let id = ColumnSpec { name: "id".into(), column_type: ColumnType::String { large: false }, nullable: false };
        columns.push(id);
        let cells = columns.iter().map(|column| prop_oneof![1 => Just(Value::Null), 4 => cell(&column.column_type)]);
        let cells: Vec<_> = cells.map(Strategy::boxed).collect();
        (Just(SchemaSpec::new(columns).unwrap()), cells)
    })
}

fn row_text(spec: &SchemaSpec, cells: &[Value<'static>]) -> String {
    let mut out = String::new();
    let columns = spec.columns().iter().map(|column| (column.name.as_str(), &column.column_type));
    RowWriter::new(columns).write(0, cells.iter().cloned(), &mut out).unwrap();
    out
}

proptest! {
    #[test]
    fn rows_come_back((spec, cells) in schema_and_row()) {
        let text = row_text(&spec, &cells);
        prop_assert!(!text.contains(['\n', '\r']), "{}", text);
        let back = RowReader::new(&spec).read(0, &text).unwrap();
        prop_assert_eq!(back.len(), cells.len());
        for (expected, (at, (column, cell))) in cells.iter().zip(back.iter().enumerate()) {
            prop_assert_eq!(at, *column);
            prop_assert!(same(cell, expected), "{:?} is not {:?} in {}", cell, expected, text);
        }
    }

    #[test]
    fn any_text_is_a_row_or_an_error((spec, _) in schema_and_row(), text in ".{0,40}") {
        let _ = RowReader::new(&spec).read(0, &text);
    }

    #[test]
    fn a_damaged_row_is_a_row_or_an_error(
        (spec, cells) in schema_and_row(),
        damage in vec((any::<prop::sample::Index>(), prop_oneof!["[\"{}:,0-9eEN.\\\\u-]", ".{0,3}"], 0usize..4), 1..4),
    ) {
        let mut text: Vec<char> = row_text(&spec, &cells).chars().collect();
        for (at, with, length) in damage {
            let start = at.index(text.len() + 1);
            let end = (start + length).min(text.len());
            text.splice(start..end, with.chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(back) = RowReader::new(&spec).read(0, &text) {
            // Numbers that no float holds are JSON all the same.
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert!(is_json || text.contains("\\ud"), "{}", text);
            prop_assert!(back.iter().all(|(column, _)| *column < spec.columns().len()));
        }
    }
}

#[test]
fn cells_have_the_documented_forms() {
    for (declaration, value, text) in [
        (r#""string""#, Value::Str("a\"\\/\n\u{1}é😀".into()), r#""a\"\\/\n\u0001é😀""#),
        (r#""int64""#, Value::Int(i64::MIN.into()), "-9223372036854775808"),
        (r#""float64""#, Value::Float(0.1), "0.1"),
        (r#""float64""#, Value::Float(1.0), "1.0"),
        (r#""float64""#, Value::Float(-0.0), "-0.0"),
        (r#""float64""#, Value::Float(1e300), "1e300"),
        (r#""float64""#, Value::Float(f64::NAN), r#""NaN""#),
        (r#""float64""#, Value::Float(f64::from_bits(0x7ff8_0000_0000_0001)), r#""NaN:7ff8000000000001""#),
        (r#""float64""#, Value::Float(-f64::NAN), r#""NaN:fff8000000000000""#),
        (r#""float64""#, Value::Float(f64::INFINITY), r#""Infinity""#),
        (r#""float64""#, Value::Float(f64::NEG_INFINITY), r#""-Infinity""#),
        (r#""float32""#, Value::Float(0.1f32.into()), "0.1"),
        (r#""bool""#, Value::Bool(true), "true"),
        (r#""timestamp""#, Value::Timestamp { micros: 0, aware: true }, r#""1970-01-01T00:00:00Z""#),
        (r#""timestamp""#, Value::Timestamp { micros: MAX_MICROS, aware: true }, r#""9999-12-31T23:59:59.999999Z""#),
        (r#""timestamp""#, Value::Timestamp { micros: MIN_MICROS, aware: true }, r#""0001-01-01T00:00:00Z""#),
        (
            r#"{"type":"timestamp","tz":null}"#,
            Value::Timestamp { micros: -1, aware: false },
            r#""1969-12-31T23:59:59.999999""#,
        ),
        (r#""binary""#, Value::Bytes(b"\xff\xfe".as_slice().into()), r#""//4=""#),
        (r#""binary""#, Value::Bytes(b"".as_slice().into()), r#""""#),
        (
            r#"{"type":"vector","dim":3}"#,
            Value::Vector(vec![0.5, f32::NAN, f32::from_bits(0x7fc0_0001)].into()),
            r#"[0.5,"NaN","NaN:7fc00001"]"#,
        ),
        (r#"{"type":"list","item":"int32"}"#, Value::List(vec![Value::Int(1), Value::Null]), "[1,null]"),
        // A list of floats may come as one slice; its elements are scalars nevertheless.
        (
            r#"{"type":"list","item":"float64"}"#,
            Value::Vector(vec![0.1, -f32::NAN].into()),
            r#"[0.10000000149011612,"NaN:fff8000000000000"]"#,
        ),
        (r#""string""#, Value::Null, "null"),
        (r#""uint64""#, Value::Int(u64::MAX.into()), "18446744073709551615"),
        (r#""float16""#, Value::Float(0.099_975_585_937_5), "0.0999755859375"),
        (r#""date""#, Value::Date(-1), r#""1969-12-31""#),
        (r#""date""#, Value::Date(MIN_DAYS), r#""0001-01-01""#),
        (r#""date""#, Value::Date(MAX_DAYS), r#""9999-12-31""#),
        (DECIMAL, Value::Decimal { unscaled: 150, scale: 2 }, r#""1.50""#),
        (DECIMAL, Value::Decimal { unscaled: -5, scale: 2 }, r#""-0.05""#),
        (DECIMAL, Value::Decimal { unscaled: -7, scale: 0 }, r#""-7""#),
        (r#""json""#, Value::Json("{\"b\":\r\n 1e300,\t\"a\": \"\\n\"}\n".into()), r#"{"b": 1e300,	"a": "\n"}"#),
        (POINT, point(), r#"{"x":0.1,"at":"1970-01-01T00:00:00Z"}"#),
        (
            &format!(r#"{{"type":"list","item":{POINT}}}"#),
            Value::List(vec![point(), Value::Null]),
            r#"[{"x":0.1,"at":"1970-01-01T00:00:00Z"},null]"#,
        ),
        (r#"{"type":"vector","dim":1,"dtype":"float16"}"#, Value::Vector(vec![0.5].into()), "[0.5]"),
    ] {
        assert_eq!(written(declaration, value), text, "{declaration}");
    }
    let mut row = String::new();
    RowWriter::new([]).write(0, [], &mut row).unwrap();
    assert_eq!(row, "{}");
}

#[test]
fn a_float32_is_rounded_once() {
    // Its shortest digits as a float64 lie above the middle of two float32; itself, it is the middle.
    let middle = 1.0 + f64::from(f32::EPSILON) / 2.0;
    let text = written(r#""float32""#, Value::Float(middle));
    #[expect(clippy::cast_possible_truncation, reason = "what the codec does")]
    let rounded = f64::from(middle as f32);
    assert_eq!(read(r#""float32""#, &text).unwrap(), Value::Float(rounded));
    // What does not fit is left for the reader to refuse.
    assert_eq!(written(r#""float32""#, Value::Float(1e300)), "1e300");
    assert!(refused(r#""float32""#, "1e300").contains("does not fit float32"));
}

#[test]
fn reading_is_tolerant_where_nothing_is_lost() {
    let timestamp = r#"{"type":"timestamp","tz":null}"#;
    // Brackets in a string are no levels.
    let text = format!(r#""\"{}""#, "[".repeat(200));

    let deep = format!("{}{}", "[{\"[\":[1],\"a\":".repeat(63), "[[]]".to_owned() + &"}]".repeat(63));
    for (declaration, json, value) in [
        (r#""float64""#, "3", Value::Float(3.0)),
        (r#""float64""#, "-0", Value::Float(-0.0)),
        (r#""float64""#, "1E+2", Value::Float(100.0)),
        (r#""float32""#, "16777216", Value::Float(16_777_216.0)),
        (r#""float64""#, r#""NaN:7FF8000000000001""#, Value::Float(f64::from_bits(0x7ff8_0000_0000_0001))),
        (r#""float64""#, r#""\u004eaN""#, Value::Float(f64::NAN)),
        (r#""binary""#, r#""//4""#, Value::Bytes(b"\xff\xfe".as_slice().into())),
        (r#""binary""#, r#""\/\/4=""#, Value::Bytes(b"\xff\xfe".as_slice().into())),
        (r#""timestamp""#, r#""1970-01-01T01:00:00.5+01:00""#, Value::Timestamp { micros: 500_000, aware: true }),
        (r#""timestamp""#, r#""1970-01-01 00:00:00.000001000z""#, Value::Timestamp { micros: 1, aware: true }),
        (timestamp, r#""1970-01-01 00:00:01""#, Value::Timestamp { micros: 1_000_000, aware: false }),
        (r#"{"type":"vector","dim":2}"#, "[ 1 , 0.5 ]", Value::Vector(vec![1.0, 0.5].into())),
        (r#"{"type":"vector","dim":2}"#, "[1,null]", Value::List(vec![Value::Float(1.0), Value::Null])),
        (r#"{"type":"list","item":"string"}"#, "[]", Value::List(vec![])),
        (r#""float16""#, "2048", Value::Float(2048.0)),
        (r#""float16""#, "-0", Value::Float(-0.0)),
        (DECIMAL, r#""+1""#, Value::Decimal { unscaled: 100, scale: 2 }),
        (DECIMAL, r#""0.500""#, Value::Decimal { unscaled: 50, scale: 2 }),
        (DECIMAL, r#""15E-1""#, Value::Decimal { unscaled: 150, scale: 2 }),
        (DECIMAL, r#""-1E+2""#, Value::Decimal { unscaled: -10_000, scale: 2 }),
        (DECIMAL, r#""-0""#, Value::Decimal { unscaled: 0, scale: 2 }),
        (DECIMAL, "12345678.90", Value::Decimal { unscaled: 1_234_567_890, scale: 2 }),
        (DECIMAL, r#""0e999999999""#, Value::Decimal { unscaled: 0, scale: 2 }),
        (r#""json""#, r#"[ 1,{"b" :1E+300,"b":2} ]"#, Value::Json(r#"[ 1,{"b" :1E+300,"b":2} ]"#.into())),
        (r#""json""#, &deep, Value::Json(deep.as_str().into())),
        (r#""json""#, &text, Value::Json(text.as_str().into())),
        (r#""json""#, "null", Value::Null),
        (POINT, r#"{"x":null}"#, Value::Struct(vec![("x".into(), Value::Null)])),
        (POINT, "{}", Value::Struct(vec![])),
    ] {
        let read = read(declaration, json).unwrap();
        assert!(same(&read, &value), "{read:?} is not {value:?}");
    }
}

#[test]
fn text_is_borrowed_where_it_has_no_escapes() {
    let spec = schema(r#""x":"string""#);
    let text = String::from(r#" { "id" : "plain" , "x" : "esc\u0061ped" } "#);
    let cells = RowReader::new(&spec).read(0, &text).unwrap();
    assert!(matches!(&cells[0], (0, Value::Str(Cow::Borrowed("plain")))), "{cells:?}");
    assert!(matches!(&cells[1], (1, Value::Str(Cow::Owned(text))) if text == "escaped"), "{cells:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let naive = r#"{"type":"timestamp","tz":null}"#;
    let list = r#"{"type":"list","item":"int64"}"#;
    for (declaration, json, expected) in [
        (r#""string""#, "1", "expected string: a string, got a number: `1`"),
        (r#""string""#, r#""\ud800""#, "lone surrogate"),
        (r#""int64""#, "1.0", "got a number: `1.0`"),
        (r#""int64""#, r#""1""#, r#"got a string: `"1"`"#),
        (r#""int64""#, &"9".repeat(60), "more than 128 bits"),
        (r#""float64""#, "9007199254740993", "the integer `9007199254740993` is not exact in float64"),
        (r#""float64""#, &"9".repeat(60), "is not exact in float64"),
        (r#""float32""#, "16777217", "is not exact in float32"),
        (r#""float64""#, "1e999", "does not fit float64"),
        (r#""float64""#, r#""nan""#, r#"got a string: `"nan"`"#),
        (r#""float64""#, r#""NaN:3ff0000000000000""#, "got a string"),
        (r#""float64""#, r#""NaN:+ff8000000000001""#, "got a string"),
        (r#""float64""#, r#""NaN:7fc00001""#, "got a string"),
        (r#""float64""#, "true", "got a truth value: `true`"),
        (r#""bool""#, "1", "expected bool: `true` or `false`, got a number: `1`"),
        (r#""timestamp""#, r#""1970-01-01T00:00:00""#, "got text without an offset"),
        (r#""timestamp""#, "0", "got a number"),
        (naive, r#""1970-01-01T00:00:00Z""#, "got text with an offset"),
        (naive, r#""yesterday""#, "got text: `yesterday`"),
        (r#""timestamp""#, r#""1970-01-01T00:00:00.0000001Z""#, "finer than microseconds"),
        (r#""timestamp""#, r#""2016-12-31T23:59:60Z""#, "leap second"),
        (r#""timestamp""#, r#""0001-01-01T00:00:00+01:00""#, "years 1 to 9999"),
        (r#""binary""#, r#""a""#, "not base64"),
        (r#""binary""#, r#""_-_-""#, "not base64"),
        (r#""binary""#, "[1]", "got a list"),
        (r#"{"type":"vector","dim":2}"#, r#"[1,"x"]"#, r#"got a string: `"x"` at index 1"#),
        (r#"{"type":"vector","dim":2}"#, "[16777217,1]", "at index 0: the integer `16777217` is not exact"),
        (r#""float16""#, "2049", "the integer `2049` is not exact in float16"),
        (r#""date""#, r#""2026-02-30""#, "got text: `2026-02-30`"),
        (r#""date""#, r#""2026-01-31T00:00:00""#, "got text"),
        (r#""date""#, r#""+10000-01-01""#, "years 1 to 9999"),
        (r#""date""#, "0", "got a number"),
        (DECIMAL, r#""1.005""#, "`1.005` has more than 2 digits behind the point"),
        (DECIMAL, r#""1e-3""#, "has more than 2 digits behind the point"),
        (DECIMAL, r#""1e-999""#, "has too many digits"),
        (DECIMAL, r#""1e38""#, "has too many digits"),
        (DECIMAL, r#""1e40""#, "has too many digits"),
        (DECIMAL, r#""1e99999999999999999999""#, "got text"),
        (DECIMAL, r#""NaN""#, "got text: `NaN`"),
        (DECIMAL, r#""""#, "got text"),
        (DECIMAL, r#"".""#, "got text"),
        (DECIMAL, r#""1_0""#, "got text"),
        (DECIMAL, "true", "got a truth value"),
        (r#""json""#, &format!("{}{}", "[".repeat(129), "]".repeat(129)), "nested deeper than 128 levels"),
        (r#""json""#, r#"{"a": [1, 1e400]}"#, "the number `1e400` is beyond a float's range; store it as a string"),
        (POINT, "[]", "got a list"),
        (POINT, r#"{"y":1}"#, "got an object with the unknown field `y`"),
        (POINT, r#"{"x":1,"x":1}"#, "got an object that gives field `x` twice"),
        (POINT, r#"{"x":"a"}"#, r#"got a string: `"a"` in field `x`"#),
        (POINT, r#"{"x":1e39}"#, "in field `x`: `1e39` does not fit float32"),
        (list, "{}", "got an object"),
        (list, "[1,[2]]", "got a list at index 1"),
    ] {
        let message = refused(declaration, json);
        assert!(message.starts_with("row 7, column `x`: "), "{message}");
        assert!(message.contains(expected), "{message} does not contain {expected}");
    }
}

#[test]
fn text_that_is_no_row_is_refused() {
    let spec = schema(r#""score":"float64""#);
    for (text, expected) in [
        ("", "row 3: not valid JSON: EOF while parsing a value at character 0"),
        ("[]", "row 3: a row is a JSON object of column names and values, not a list"),
        ("null", "row 3: a row is a JSON object of column names and values, not null"),
        (r#"{"id":"a""#, "row 3: not valid JSON: EOF while parsing an object at character 9"),
        (r#"{"id":"a"} x"#, "row 3: not valid JSON: trailing characters at character 12"),
        (r#"{"id":"a","id":"b"}"#, "row 3: `id` is given twice; remove one of the values"),
        (r#"{"score":NaN}"#, "row 3: not valid JSON: expected value at character 10"),
        ("{\"id\":\"\n\"}", "row 3: not valid JSON: control character"),
        (r#"{"\ud800":1}"#, "row 3: not valid JSON"),
    ] {
        let error = RowReader::new(&spec).read(3, text).unwrap_err();
        assert!(matches!(error, Error::InvalidRow { row: 3, .. }), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let error = RowReader::new(&spec).read(3, r#"{"scor":1}"#).unwrap_err();
    assert_eq!(error.to_string(), "row 3: unknown column `scor`, did you mean `score`?; the columns are `id`, `score`");
    // Deep nesting is no way to end the process.
    let deep = format!(r#"{{"id":{}}}"#, "[".repeat(100_000));
    assert!(matches!(RowReader::new(&spec).read(3, &deep), Err(Error::InvalidRow { .. })));
}

#[test]
fn a_moment_without_text_is_an_error() {
    let spec = schema(r#""at":"timestamp","day":"date""#);
    let columns = || spec.columns().iter().map(|column| (column.name.as_str(), &column.column_type));
    for micros in [MIN_MICROS - 1, MAX_MICROS + 1, i64::MIN, i64::MAX] {
        let cells = [Value::Str("a".into()), Value::Timestamp { micros, aware: true }];
        let error = RowWriter::new(columns()).write(5, cells, &mut String::new()).unwrap_err();
        assert!(matches!(&error, Error::OutOfRange { row: 5, column, .. } if column == "at"), "{error}");
    }
    for days in [MIN_DAYS - 1, MAX_DAYS + 1, i32::MIN, i32::MAX] {
        let cells = [Value::Str("a".into()), Value::Null, Value::Date(days)];
        let error = RowWriter::new(columns()).write(5, cells, &mut String::new()).unwrap_err();
        assert!(matches!(&error, Error::OutOfRange { row: 5, column, .. } if column == "day"), "{error}");
    }
}

#[test]
fn members_are_selected_and_renamed() {
    let spec = schema(r#""score":"float64","note":"string""#);
    let selecting = |names: &[(&str, &str)]| {
        let names: Vec<_> = names.iter().map(|(name, column)| ((*name).to_owned(), (*column).to_owned())).collect();
        RowReader::selecting(&spec, names)
    };
    let reader = selecting(&[("key", "id"), ("id", "note")]).unwrap();
    let cells = reader.read(0, r#"{"id":"a","score":"no float","other":[],"key":"b","other":{}}"#).unwrap();
    assert_eq!(cells, [(2, Value::Str("a".into())), (0, Value::Str("b".into()))]);
    let error = reader.read(4, r#"{"id":"a","id":"b"}"#).unwrap_err();
    assert_eq!(error.to_string(), "row 4: `id` is given twice; remove one of the values");
    let error = selecting(&[("a", "scor")]).err().unwrap();
    assert!(matches!(&error, Error::QueryColumn { column, .. } if column == "scor"), "{error}");
    for names in [[("a", "note"), ("b", "note")], [("a", "note"), ("a", "score")]] {
        let error = selecting(&names).err().unwrap();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
}
