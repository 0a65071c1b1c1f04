//! Every way in which a row can be refused, with its row and column.

use super::*;

/// Sets column `c` in the second row and returns the error, whose row and column are checked.
#[track_caller]
fn refused(declaration: &str, value: Value<'_>) -> Error {
    let spec = spec(&format!(r#""c":{declaration}"#));
    let error = encode(&spec, &[&[], &[("c", value)]]).unwrap_err();
    assert_eq!((error.row(), error.column()), (Some(1), Some("c")), "{error}");
    error
}

#[track_caller]
fn assert_wrong_type(declaration: &str, value: Value<'_>, expected_part: &str, got_part: &str) {
    let error = refused(declaration, value);
    let Error::WrongType { expected, got, .. } = &error else { panic!("{error}") };
    assert!(expected.contains(expected_part) && got.contains(got_part), "{error}");
}

#[track_caller]
fn assert_out_of_range(declaration: &str, value: Value<'_>, part: &str) {
    let error = refused(declaration, value);
    let Error::OutOfRange { message, .. } = &error else { panic!("{error}") };
    assert!(message.contains(part), "{error}");
}

#[test]
fn every_type_refuses_every_other_type() {
    let values = [
        Value::Bool(true),
        Value::Int(1),
        Value::Float(1.0),
        text("x"),
        Value::Bytes(b"x".as_slice().into()),
        Value::Timestamp { micros: 1, aware: true },
        Value::Timestamp { micros: 1, aware: false },
        Value::Date(1),
        Value::Decimal { unscaled: 15, scale: 1 },
        Value::Json("{}".into()),
        Value::Vector(vec![1.0].into()),
        Value::List(vec![]),
        Value::Struct(vec![("x".into(), Value::Null)]),
    ];
    let accepted: [(&str, &str, &[&str]); 20] = [
        (r#""int8""#, "int8", &["int"]),
        (r#""int16""#, "int16", &["int"]),
        (r#""uint8""#, "uint8", &["int"]),
        (r#""uint16""#, "uint16", &["int"]),
        (r#""uint32""#, "uint32", &["int"]),
        (r#""uint64""#, "uint64", &["int"]),
        (r#""float16""#, "float16", &["int", "float"]),
        (r#""json""#, "json: a JSON value", &["json"]),
        (r#"{"type":"struct","fields":{"x":"int8"}}"#, "struct(\"x\" int8): a mapping", &["struct"]),
        (r#"{"type":"list","item":"float16"}"#, "list(float16): a list of float16 or null", &["list", "vector"]),
        (r#""string""#, "string", &["str"]),
        (r#"{"type":"string","large":true}"#, "string(large)", &["str"]),
        (r#""int32""#, "int32", &["int"]),
        (r#""int64""#, "int64", &["int"]),
        (r#""float32""#, "float32", &["int", "float"]),
        (r#""float64""#, "float64", &["int", "float"]),
        (r#""bool""#, "bool", &["bool"]),
        (r#""binary""#, "binary: bytes", &["bytes"]),
        (r#""blob""#, "binary(blob): bytes", &["bytes"]),
        (r#"{"type":"list","item":"int32"}"#, "list(int32): a list of int32 or null", &["list"]),
    ];
    for (declaration, expected, takes) in accepted {
        for value in &values {
            if takes.contains(&value.kind_name()) {
                assert!(through(declaration, std::slice::from_ref(value)).is_ok(), "{declaration} takes {value:?}");
            } else {
                assert_wrong_type(declaration, value.clone(), expected, value.kind_name());
            }
        }
    }
}

#[test]
fn dates_and_decimals_take_text() {
    let decimal = r#"{"type":"decimal","precision":4,"scale":2}"#;
    for (value, part) in [
        (text("12.345"), "more than 2 digits behind the point"),
        (Value::Decimal { unscaled: 12_345, scale: 3 }, "`12.345` has more than 2 digits"),
        (text("100"), "`100` does not fit decimal(4, 2)"),
        (Value::Int(-100), "`-100` does not fit"),
        (Value::Int(i128::MAX), "does not fit"),
        (text("1E+40"), "more than 38 digits"),
    ] {
        assert_out_of_range(decimal, value, part);
    }
    assert_wrong_type(decimal, text("NaN"), "decimal(4, 2): a decimal", "no decimal: `NaN`");
    assert_wrong_type(decimal, Value::Float(0.5), "decimal(4, 2): a decimal", "float");
    let two = |unscaled| Value::Decimal { unscaled, scale: 2 };
    assert_eq!(
        through(decimal, &[text("-99.99"), Value::Int(7), text("1.50"), Value::Decimal { unscaled: 15, scale: 1 }])
            .unwrap(),
        [two(-9_999), two(700), two(150), two(150)]
    );

    assert_eq!(
        through(r#""date""#, &["1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31"].map(text)).unwrap(),
        [0, -1, moment::MIN_DAYS, moment::MAX_DAYS].map(Value::Date)
    );
    assert_wrong_type(r#""date""#, text("2026-02-30"), "date: a date", "text: `2026-02-30`");
    assert_wrong_type(r#""date""#, text("2026-01-31T00:00:00"), "date: a date", "text");
    for days in [moment::MIN_DAYS - 1, moment::MAX_DAYS + 1, i32::MIN, i32::MAX] {
        assert_out_of_range(r#""date""#, Value::Date(days), "years 1 to 9999");
    }
}

#[test]
fn structs_name_the_field() {
    let point = r#"{"type":"struct","fields":{"x":{"type":"int8","nullable":false},"y":"string"}}"#;
    let cell = |cells: &[(&'static str, Value<'static>)]| {
        Value::Struct(cells.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    };
    assert_out_of_range(
        point,
        cell(&[("x", Value::Int(1)), ("z", Value::Null)]),
        "unknown field `z`; the fields are `x`, `y`",
    );
    assert_out_of_range(point, cell(&[("y", text("a"))]), "field `x` is not nullable");
    assert_out_of_range(point, cell(&[("x", Value::Null)]), "field `x` is not nullable");
    assert_out_of_range(point, cell(&[("x", Value::Int(200))]), "field `x`: `200` does not fit int8");
    assert_out_of_range(point, cell(&[("x", Value::Int(1)), ("x", Value::Int(2))]), "field `x` is given twice");
    assert_wrong_type(point, cell(&[("x", text("a"))]), "a mapping", "str in field `x`");
    let points = format!(r#"{{"type":"list","item":{point}}}"#);
    let listed = Value::List(vec![cell(&[("x", Value::Int(1))]), cell(&[("x", Value::Int(200))])]);
    assert_out_of_range(&points, listed, "at index 1: field `x`: `200` does not fit int8");
    let kept = [cell(&[("y", text("a")), ("x", Value::Int(1))]), Value::Null, cell(&[("x", Value::Int(2))])];
    assert_eq!(
        through(point, &kept).unwrap(),
        [
            cell(&[("x", Value::Int(1)), ("y", text("a"))]),
            Value::Null,
            cell(&[("x", Value::Int(2)), ("y", Value::Null)])
        ]
    );
}

#[test]
fn ints_that_do_not_fit() {
    for (declaration, int) in [
        (r#""int8""#, i128::from(i8::MAX) + 1),
        (r#""int16""#, i128::from(i16::MIN) - 1),
        (r#""uint8""#, -1),
        (r#""uint16""#, i128::from(u16::MAX) + 1),
        (r#""uint32""#, i128::from(u32::MAX) + 1),
        (r#""uint64""#, i128::from(u64::MAX) + 1),
        (r#""int32""#, i128::from(i32::MAX) + 1),
        (r#""int32""#, i128::from(i32::MIN) - 1),
        (r#""int64""#, i128::from(i64::MAX) + 1),
        (r#""int64""#, i128::from(i64::MIN) - 1),
        (r#""int64""#, i128::MAX),
    ] {
        assert_out_of_range(
            declaration,
            Value::Int(int),
            &format!("`{int}` does not fit {}", declaration.trim_matches('"')),
        );
    }
}

#[test]
fn floats_that_do_not_fit() {
    for float in [1e39, -1e39, f64::MAX] {
        assert_out_of_range(r#""float32""#, Value::Float(float), "does not fit float32");
        assert_out_of_range(r#"{"type":"vector","dim":1}"#, Value::List(vec![Value::Float(float)]), "at index 0");
    }
    assert_out_of_range(r#""float16""#, Value::Float(65_520.0), "does not fit float16, which ends at 6.5504e4");
    assert!(through(r#""float16""#, &[Value::Float(65_519.0), Value::Float(f64::INFINITY)]).is_ok());
    assert_out_of_range(r#""float16""#, Value::Int(2_049), "`2049` is not exact in float16");
    for half in [Value::List(vec![Value::Int(0), Value::Float(1e6)]), Value::Vector(vec![0.0, 1e6].into())] {
        assert_out_of_range(r#"{"type":"vector","dim":2,"dtype":"float16"}"#, half, "at index 1: `1e6` does not fit");
    }
    for float in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        assert!(through(r#""float32""#, &[Value::Float(float)]).is_ok());
    }
    assert_out_of_range(r#""float32""#, Value::Int((1 << 24) + 1), "`16777217` is not exact in float32");
    assert_out_of_range(r#""float64""#, Value::Int((1 << 53) + 1), "not exact in float64");
    assert_out_of_range(r#""float64""#, Value::Int(i128::MAX), "not exact in float64");
}

#[test]
fn timestamps_of_the_other_kind() {
    let naive = r#"{"type":"timestamp","tz":null}"#;
    assert_wrong_type(
        r#""timestamp""#,
        Value::Timestamp { micros: 0, aware: false },
        "timestamp(us, UTC): an aware",
        "naive datetime",
    );
    assert_wrong_type(
        naive,
        Value::Timestamp { micros: 0, aware: true },
        "timestamp(us, naive): a naive",
        "aware datetime",
    );
    assert_wrong_type(
        r#""timestamp""#,
        text("2026-01-31T12:00:00"),
        "with an offset",
        "text without an offset: `2026-01-31T12:00:00`",
    );
    assert_wrong_type(
        naive,
        text("2026-01-31T12:00:00Z"),
        "without offset",
        "text with an offset: `2026-01-31T12:00:00Z`",
    );
    assert_wrong_type(r#""timestamp""#, text("tomorrow"), "2026-01-31T12:00:00Z", "text: `tomorrow`");
    assert_wrong_type(naive, text("2026-02-30T12:00:00"), "naive", "text: `2026-02-30");
    assert_wrong_type(naive, text(&"é".repeat(1_000)), "naive", &format!("`{}…`", "é".repeat(40)));
    assert_wrong_type(naive, Value::Int(0), "naive", "int");
}

#[test]
fn timestamps_that_cannot_be_kept() {
    let naive = r#"{"type":"timestamp","tz":null}"#;
    for micros in [i64::MIN, moment::MIN_MICROS - 1, moment::MAX_MICROS + 1, i64::MAX] {
        assert_out_of_range(r#""timestamp""#, Value::Timestamp { micros, aware: true }, "years 1 to 9999");
    }
    assert_out_of_range(r#""timestamp""#, text("0001-01-01T00:00:00+01:00"), "years 1 to 9999");
    assert_out_of_range(r#""timestamp""#, text("2026-01-31T12:00:00.0000001Z"), "finer than microseconds");
    assert_out_of_range(naive, text("2026-01-31T12:00:00.000000000001"), "finer than microseconds");
    assert_out_of_range(r#""timestamp""#, text("2016-12-31T23:59:60Z"), "leap second");
}

#[test]
fn vectors_and_lists_name_the_element() {
    let vector = r#"{"type":"vector","dim":3}"#;
    assert_out_of_range(vector, Value::Vector(vec![1.0; 2].into()), "a vector of 3 components is expected, got 2");
    assert_out_of_range(vector, Value::List(vec![Value::Int(1); 4]), "expected, got 4");
    assert_out_of_range(vector, Value::List(vec![]), "expected, got 0");
    for (element, got) in [(Value::Null, "null"), (text("x"), "str"), (Value::Bool(true), "bool")] {
        let list = Value::List(vec![Value::Int(1), Value::Int(1), element]);
        assert_wrong_type(vector, list, "vector(3): numbers", &format!("{got} at index 2"));
    }
    assert_wrong_type(vector, text("x"), "vector(3): numbers", "str");

    let list = r#"{"type":"list","item":"int32"}"#;
    assert_wrong_type(list, Value::List(vec![Value::Null, Value::Bool(true)]), "list(int32)", "bool at index 1");
    assert_wrong_type(list, Value::List(vec![Value::List(vec![])]), "list(int32)", "list at index 0");
    assert_out_of_range(list, Value::List(vec![Value::Int(1 << 40)]), "at index 0: `1099511627776` does not fit int32");
}

#[test]
fn missing_values_of_required_columns() {
    let spec = spec(r#""c":{"type":"int32","nullable":false}"#);
    let missing = |rows: &[&[(&str, Value<'_>)]], row, column| {
        let error = encode(&spec, rows).unwrap_err();
        assert_eq!((error.code(), error.row(), error.column()), ("missing-value", Some(row), Some(column)));
    };
    missing(&[&[("c", Value::Int(1))], &[]], 1, "c");
    missing(&[&[("c", Value::Null)]], 0, "c");
    missing(&[&[("id", Value::Null), ("c", Value::Int(1))]], 0, "id");
}

#[test]
fn undeclared_keys() {
    let error = encode(&spec(r#""score":"float32""#), &[&[], &[("scroe", Value::Int(1))]]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "row 1: unknown column `scroe`, did you mean `score`?; the columns are `id`, `score`"
    );
}

#[test]
fn misuse_of_the_encoder_is_internal() {
    let spec = spec(r#""c":"int32""#);
    let encoder = || RowEncoder::new(Arc::clone(&spec), usize::MAX);

    let twice = encode(&spec, &[&[("c", Value::Int(1)), ("c", Value::Null)]]).unwrap_err();
    assert_eq!(twice.kind(), Kind::Internal);
    assert!(twice.to_string().contains("column `c` was set twice in row 0"), "{twice}");

    assert_eq!(encoder().set(2, Value::Null).unwrap_err().kind(), Kind::Internal);

    let mut half = encoder();
    half.set(0, text("x")).unwrap();
    assert_eq!(half.finish().unwrap_err().kind(), Kind::Internal);
}

#[test]
fn an_error_spoils_the_batch() {
    let spec = spec(r#""l":{"type":"list","item":"int32"}"#);
    let mut encoder = RowEncoder::new(spec, 1);
    encoder.set(0, text("x")).unwrap();
    encoder.set(1, Value::List(vec![Value::Int(1), text("x")])).unwrap_err();
    encoder.end_row().unwrap();
    assert_eq!(encoder.finish().unwrap_err().kind(), Kind::Internal);
}

#[test]
fn lists_end_where_offsets_end() {
    // Two lists that share one huge element count; strings of 2 GiB would only make the test slow.
    let held = i32::MAX as usize;
    assert_eq!(super::super::number::within_i32(held, 0, "bytes", "").unwrap(), i32::MAX);
    assert!(super::super::number::within_i32(held, 1, "bytes", "").is_err());
    assert!(super::super::number::within_i32(1, usize::MAX, "bytes", "").is_err());
}
