use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, TimeUnit};
use arrow::record_batch::RecordBatch;
use lance_context_spec::{Error, Kind, SchemaSpec, Value, moment};

use super::*;

mod conform;
mod errors;
mod roundtrip;

/// The schema declared by `json` plus an id.
fn spec(columns: &str) -> Arc<SchemaSpec> {
    Arc::new(SchemaSpec::parse(&format!(r#"{{"id":"string",{columns}}}"#)).unwrap())
}

fn text(text: &str) -> Value<'_> {
    Value::Str(text.into())
}

/// Encodes rows of (column, value); ids are the row numbers unless given.
fn encode(spec: &Arc<SchemaSpec>, rows: &[&[(&str, Value<'_>)]]) -> Result<RecordBatch, Error> {
    let mut encoder = RowEncoder::new(Arc::clone(spec), rows.len());
    for row in rows {
        let id = encoder.row().to_string();
        if row.iter().all(|(name, _)| *name != "id") {
            encoder.set(encoder.column("id").unwrap(), text(&id))?;
        }
        for (name, value) in *row {
            let column = encoder.column(name).ok_or_else(|| unknown_column(spec, encoder.row(), name))?;
            encoder.set(column, value.clone())?;
        }
        encoder.end_row()?;
    }
    encoder.finish()
}

/// Column `c` of a one-column schema, encoded from `values` and read back.
fn through(declaration: &str, values: &[Value<'_>]) -> Result<Vec<Value<'static>>, Error> {
    let spec = spec(&format!(r#""c":{declaration}"#));
    let rows: Vec<Vec<(&str, Value<'_>)>> = values.iter().map(|value| vec![("c", value.clone())]).collect();
    let batch = encode(&spec, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    let reader = ColumnReader::new(batch.column(1).as_ref())?;
    Ok((0..values.len()).map(|row| reader.value(row).into_owned()).collect())
}

#[test]
fn storage_schema_keeps_order_and_marks_the_key() {
    let spec = SchemaSpec::parse(
        r#"{"v":{"type":"vector","dim":3},"id":"string","s":{"type":"string","large":true,"nullable":false},"b":"blob",
            "t":"timestamp","n":{"type":"timestamp","tz":null},"l":{"type":"list","item":"int32"}}"#,
    )
    .unwrap();
    let schema = arrow_schema(&spec);
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let expected = [
        ("v", DataType::FixedSizeList(item(DataType::Float32), 3), true),
        ("id", DataType::Utf8, false),
        ("s", DataType::LargeUtf8, false),
        ("b", DataType::LargeBinary, true),
        ("t", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        ("n", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ("l", DataType::List(item(DataType::Int32)), true),
    ];
    for (field, (name, data_type, nullable)) in schema.fields().iter().zip(expected) {
        assert_eq!((field.name().as_str(), field.data_type(), field.is_nullable()), (name, &data_type, nullable));
        let key = field.metadata().get("lance-schema:unenforced-primary-key").map(String::as_str);
        assert_eq!(key, (name == "id").then_some("true"));
    }
    assert_eq!(schema.fields().len(), 7);
    assert!(schema.metadata().is_empty());
}

#[test]
fn cells_may_come_in_any_order_and_omitted_ones_are_null() {
    let spec = spec(r#""a":"int32","b":"string""#);
    let batch = encode(&spec, &[&[("b", text("x")), ("id", text("r1")), ("a", Value::Int(1))], &[]]).unwrap();
    assert_eq!(batch.schema(), arrow_schema(&spec));
    let read = |column: usize, row| ColumnReader::new(batch.column(column).as_ref()).unwrap().value(row).into_owned();
    assert_eq!([read(0, 0), read(1, 0), read(2, 0)], [text("r1"), Value::Int(1), text("x")]);
    assert_eq!([read(0, 1), read(1, 1), read(2, 1)], [text("1"), Value::Null, Value::Null]);
}

#[test]
fn no_rows_make_an_empty_batch() {
    let spec = spec(r#""v":{"type":"vector","dim":2},"l":{"type":"list","item":"string"}"#);
    let batch = encode(&spec, &[]).unwrap();
    assert_eq!(batch.num_rows(), 0);
    assert_eq!(batch.schema(), arrow_schema(&spec));
}

#[test]
fn empty_is_not_null() {
    let both = |empty: Value<'static>| vec![empty, Value::Null];
    for (declaration, empty) in [
        (r#""string""#, text("")),
        (r#""binary""#, Value::Bytes(b"".as_slice().into())),
        (r#"{"type":"list","item":"int64"}"#, Value::List(vec![])),
    ] {
        assert_eq!(through(declaration, &both(empty.clone())).unwrap(), both(empty));
    }
}

#[test]
fn floats_take_exact_ints() {
    let ints = |ints: &[i128]| ints.iter().map(|int| Value::Int(*int)).collect::<Vec<_>>();
    let floats = |floats: &[f64]| floats.iter().map(|float| Value::Float(*float)).collect::<Vec<_>>();
    assert_eq!(
        through(r#""float64""#, &ints(&[0, -3, 1 << 53, 1 << 100, i128::MIN])).unwrap(),
        floats(&[0.0, -3.0, 2f64.powi(53), 2f64.powi(100), -(2f64.powi(127))])
    );
    assert_eq!(through(r#""float32""#, &ints(&[7, 1 << 24])).unwrap(), floats(&[7.0, 16_777_216.0]));
}

#[test]
fn vectors_take_lists_of_numbers_and_lists_take_float_slices() {
    let slice = Value::Vector(vec![1.0, -0.5].into());
    let list = Value::List(vec![Value::Int(1), Value::Float(-0.5)]);
    let floats = Value::List(vec![Value::Float(1.0), Value::Float(-0.5)]);
    assert_eq!(through(r#"{"type":"vector","dim":2}"#, std::slice::from_ref(&list)).unwrap()[0], slice);
    for item in ["float32", "float64"] {
        let declaration = format!(r#"{{"type":"list","item":"{item}"}}"#);
        assert_eq!(through(&declaration, &[slice.clone(), list.clone()]).unwrap(), [floats.clone(), floats.clone()]);
    }
}

#[test]
fn timestamps_take_text() {
    let micros = |cells: Vec<Value<'static>>| {
        cells
            .into_iter()
            .map(|cell| if let Value::Timestamp { micros, .. } = cell { micros } else { panic!("{cell:?}") })
            .collect::<Vec<_>>()
    };
    let instants = [
        "1970-01-01T00:00:01Z",
        "1970-01-01t00:00:01.5z",
        "1970-01-01 01:00:00+01:00",
        "1969-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999000Z",
    ];
    assert_eq!(
        micros(through(r#""timestamp""#, &instants.map(text)).unwrap()),
        [1_000_000, 1_500_000, 0, -1, moment::MIN_MICROS, moment::MAX_MICROS]
    );
    let readings = ["1970-01-01T00:00:01", "1970-01-01 00:00:00.000001"];
    assert_eq!(micros(through(r#"{"type":"timestamp","tz":null}"#, &readings.map(text)).unwrap()), [1_000_000, 1]);
}

#[test]
fn readers_respect_slices() {
    let spec = spec(r#""v":{"type":"vector","dim":2},"l":{"type":"list","item":"int32"},"s":"string""#);
    let row = |n: i16| {
        let vector = Value::Vector(vec![f32::from(n), 0.5].into());
        [
            ("v", vector),
            ("l", Value::List(vec![Value::Int(n.into()); n as usize])),
            ("s", Value::Str(n.to_string().into())),
        ]
    };
    let rows = [row(0), row(1), row(2), row(3)];
    let batch = encode(&spec, &rows.each_ref().map(|row| row.as_slice())).unwrap().slice(2, 2);
    for (column, name) in [(1, 0), (2, 1), (3, 2)] {
        let reader = ColumnReader::new(batch.column(column).as_ref()).unwrap();
        assert_eq!([reader.value(0), reader.value(1)], [rows[2][name].1.clone(), rows[3][name].1.clone()]);
    }
}

#[test]
fn vectors_are_borrowed() {
    let spec = spec(r#""v":{"type":"vector","dim":2}"#);
    let batch = encode(&spec, &[&[("v", Value::Vector(vec![1.0, 2.0].into()))]]).unwrap();
    let stored = batch.column(1).as_fixed_size_list().values().as_primitive::<arrow::datatypes::Float32Type>().values();
    let Value::Vector(std::borrow::Cow::Borrowed(read)) = ColumnReader::new(batch.column(1).as_ref()).unwrap().value(0)
    else {
        panic!("a vector is read without a copy");
    };
    assert!(std::ptr::eq(read.as_ptr(), stored.as_ptr()));
}

#[test]
fn engine_columns_and_foreign_types() {
    use arrow::array::{BinaryArray, FixedSizeListArray, Float32Array, LargeListArray, Time32SecondArray, UInt64Array};
    let read = |array: &dyn Array| ColumnReader::new(array).unwrap().value(0).into_owned();
    assert_eq!(read(&UInt64Array::from(vec![u64::MAX])), Value::Int(u64::MAX.into()));
    assert_eq!(read(&BinaryArray::from(vec![b"x".as_slice()])), Value::Bytes(b"x".as_slice().into()));
    let large = LargeListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>([Some([Some(1), None])]);
    assert_eq!(read(&large), Value::List(vec![Value::Int(1), Value::Null]));

    let holes: ArrayRef = Arc::new(Float32Array::from(vec![Some(1.0), None]));
    let field = Arc::new(Field::new("item", DataType::Float32, true));
    let vector = FixedSizeListArray::try_new(field, 2, holes, None).unwrap();
    assert_eq!(read(&vector), Value::List(vec![Value::Float(1.0), Value::Null]));

    let error = ColumnReader::new(&Time32SecondArray::from(vec![1])).err().unwrap();
    assert_eq!(error.kind(), Kind::Internal);
    assert!(error.to_string().contains("Time32"), "{error}");
}

#[test]
fn scalars_stand_for_parameters() {
    use datafusion::scalar::ScalarValue;
    for (value, scalar) in [
        (Value::Null, ScalarValue::Null),
        (Value::Bool(true), ScalarValue::Boolean(Some(true))),
        (Value::Int(-1), ScalarValue::Int64(Some(-1))),
        (Value::Int(u64::MAX.into()), ScalarValue::UInt64(Some(u64::MAX))),
        (Value::Float(0.5), ScalarValue::Float64(Some(0.5))),
        (text("a"), ScalarValue::Utf8(Some("a".into()))),
        (Value::Bytes(b"a".as_slice().into()), ScalarValue::LargeBinary(Some(b"a".to_vec()))),
        (Value::Timestamp { micros: 1, aware: true }, ScalarValue::TimestampMicrosecond(Some(1), Some("UTC".into()))),
        (Value::Timestamp { micros: 1, aware: false }, ScalarValue::TimestampMicrosecond(Some(1), None)),
        (Value::Date(1), ScalarValue::Date32(Some(1))),
        (Value::Decimal { unscaled: -1250, scale: 2 }, ScalarValue::Decimal128(Some(-1250), 4, 2)),
        (Value::Decimal { unscaled: 5, scale: 3 }, ScalarValue::Decimal128(Some(5), 3, 3)),
        (Value::Decimal { unscaled: 0, scale: 0 }, ScalarValue::Decimal128(Some(0), 1, 0)),
    ] {
        assert_eq!(value_to_scalar(&value).unwrap(), scalar);
    }
    let nested = [Value::Vector(vec![].into()), Value::List(vec![]), Value::Struct(vec![]), Value::Json("1".into())];
    for value in std::iter::once(Value::Int(i128::MAX)).chain(nested) {
        assert_eq!(value_to_scalar(&value).unwrap_err().code(), "invalid-query");
    }
}

#[test]
fn a_shared_blob_is_not_copied_unless_another_cell_joins_it() {
    let spec = spec(r#""b":"blob""#);
    let shared = bytes::Bytes::from(vec![7_u8; 100]);
    let encode = |cells: &[Option<&[u8]>], at: usize| {
        let mut encoder = RowEncoder::new(Arc::clone(&spec), 1);
        for (row, cell) in cells.iter().enumerate() {
            encoder.set(0, text(&row.to_string())).unwrap();
            if row == at {
                encoder.set_shared(1, shared.clone()).unwrap();
            } else {
                encoder.set(1, cell.map_or(Value::Null, |cell| Value::Bytes(cell.into()))).unwrap();
            }
            encoder.end_row().unwrap();
        }
        encoder.finish().unwrap().column(1).as_binary::<i64>().clone()
    };
    let whole: &[u8] = &shared;
    for (cells, at, copied) in [
        (vec![None], 0, false),
        (vec![None, Some(&b""[..]), None, None], 2, false),
        (vec![Some(&b"x"[..]), None, Some(&b""[..])], 1, true),
        (vec![None, None, Some(&b"x"[..])], 0, true),
    ] {
        let array = encode(&cells, at);
        assert_eq!(array.value(at).as_ptr() != whole.as_ptr(), copied, "{cells:?}");
        for (row, cell) in cells.iter().enumerate() {
            let expected = if row == at { Some(whole) } else { *cell };
            assert_eq!(array.is_valid(row).then(|| array.value(row)), expected, "{cells:?} row {row}");
        }
    }
    let mut encoder = RowEncoder::new(Arc::clone(&spec), 1);
    let refused = encoder.set_shared(0, shared.clone()).unwrap_err();
    assert!(matches!(refused, Error::WrongType { row: 0, .. }), "{refused}");
    assert!(encoder.finish().is_err());
}
