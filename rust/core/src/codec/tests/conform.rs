//! Arrow data of other producers: what fits, in which types, and which row does not.

use arrow::array::{
    BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, DurationSecondArray, Float16Array,
    Float64Array, Int8Array, Int32Array, Int64Array, LargeListArray, LargeStringArray, ListArray, NullArray,
    StringArray, StringViewArray, StructArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt32Array,
};
use arrow::compute::cast;
use arrow::datatypes::{Float64Type, Int32Type, Schema};
use half::f16;
use proptest::prelude::*;

use super::*;

/// Column `c`, given as `array`, with the ids `0`, `1`, ….
fn conformed(declaration: &str, array: ArrayRef) -> Result<Vec<Value<'static>>, Error> {
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values((0..array.len()).map(|id| id.to_string())));
    let spec = spec(&format!(r#""c":{declaration}"#));
    let batch = conform(&spec, &[RecordBatch::try_from_iter([("c", array), ("id", ids)]).unwrap()])?;
    assert_eq!(batch.schema(), arrow_schema(&spec));
    batch.column(1).to_data().validate_full().unwrap();
    let reader = ColumnReader::of(batch.column(1).as_ref(), &spec.columns()[1].column_type)?;
    Ok((0..batch.num_rows()).map(|row| reader.value(row).into_owned()).collect())
}

#[track_caller]
fn assert_conforms(declaration: &str, array: impl Array + 'static, expected: &[Value<'static>]) {
    assert_eq!(conformed(declaration, Arc::new(array)).unwrap(), expected, "{declaration}");
}

#[track_caller]
fn assert_refused(declaration: &str, array: impl Array + 'static, row: usize, part: &str) {
    let error = conformed(declaration, Arc::new(array)).unwrap_err();
    assert_eq!((error.kind(), error.row(), error.column()), (Kind::Row, Some(row), Some("c")), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn what_is_stored_as_it_is_is_not_copied() {
    let spec = spec(r#""c":"string""#);
    let array: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["0", "1"]));
    let given = RecordBatch::try_from_iter([("c", Arc::clone(&array)), ("id", ids)]).unwrap();
    let taken = conform(&spec, &[given]).unwrap();
    assert_eq!(taken.column(1).as_string::<i32>().values().as_ptr(), array.as_string::<i32>().values().as_ptr());
}

#[test]
fn other_encodings_of_the_same_values() {
    let words = [text("a"), Value::Null, text("b")];
    assert_conforms(r#""string""#, StringViewArray::from(vec![Some("a"), None, Some("b")]), &words);
    assert_conforms(r#""string""#, LargeStringArray::from(vec![Some("a"), None, Some("b")]), &words);
    assert_conforms(
        r#""string""#,
        [Some("a"), None, Some("b")].into_iter().collect::<DictionaryArray<Int32Type>>(),
        &words,
    );
    let bytes = [Value::Bytes(b"a".as_slice().into()), Value::Null];
    assert_conforms(r#""blob""#, BinaryViewArray::from(vec![Some(b"a".as_slice()), None]), &bytes);
    assert_conforms(r#""int64""#, Int8Array::from(vec![Some(-1), None]), &[Value::Int(-1), Value::Null]);
    assert_conforms(r#""int8""#, Int64Array::from(vec![Some(-1), None]), &[Value::Int(-1), Value::Null]);
    assert_conforms(r#""int64""#, UInt32Array::from(vec![7]), &[Value::Int(7)]);
    assert_conforms(r#""float64""#, Int32Array::from(vec![7]), &[Value::Float(7.0)]);
    assert_conforms(r#""float32""#, Float64Array::from(vec![0.1]), &[Value::Float(f64::from(0.1_f32))]);
    assert_conforms(r#""float64""#, Float16Array::from(vec![f16::from_f32(0.5)]), &[Value::Float(0.5)]);
    assert_conforms(r#""bool""#, NullArray::new(2), &[Value::Null, Value::Null]);
    assert_conforms(
        r#"{"type":"decimal","precision":6,"scale":3}"#,
        Decimal128Array::from(vec![150]).with_precision_and_scale(10, 2).unwrap(),
        &[Value::Decimal { unscaled: 1500, scale: 3 }],
    );
    assert_conforms(r#""date""#, Date32Array::from(vec![3]), &[Value::Date(3)]);
    assert_conforms(r#""json""#, StringArray::from(vec![Some("[1]"), None]), &[Value::Json("[1]".into()), Value::Null]);
}

#[test]
fn timestamps_of_every_unit() {
    let at = |micros, aware| [Value::Timestamp { micros, aware }];
    let naive = r#"{"type":"timestamp","tz":null}"#;
    assert_conforms(naive, TimestampSecondArray::from(vec![2]), &at(2_000_000, false));
    assert_conforms(naive, TimestampMillisecondArray::from(vec![2]), &at(2_000, false));
    assert_conforms(naive, TimestampNanosecondArray::from(vec![2_000]), &at(2, false));
    let berlin = TimestampMicrosecondArray::from(vec![5]).with_timezone("+02:00");
    assert_conforms(r#""timestamp""#, berlin, &at(5, true));
    assert_refused(naive, TimestampNanosecondArray::from(vec![1_000, 1_001]), 1, "nanoseconds");
    assert_refused(naive, TimestampSecondArray::from(vec![0, i64::MAX]), 1, "years 1 to 9999");
    assert_refused(naive, TimestampMicrosecondArray::from(vec![0, i64::MAX]), 1, "years 1 to 9999");
    assert_refused(r#""timestamp""#, TimestampMicrosecondArray::from(vec![5]), 0, "naive datetime");
    assert_refused(naive, TimestampMicrosecondArray::from(vec![5]).with_timezone("UTC"), 0, "aware datetime");
}

#[test]
fn nested_columns() {
    let ints = || vec![Some(vec![Some(1), None]), None, Some(vec![])];
    let lists = [Value::List(vec![Value::Int(1), Value::Null]), Value::Null, Value::List(vec![])];
    let list = r#"{"type":"list","item":"int64"}"#;
    assert_conforms(list, ListArray::from_iter_primitive::<Int32Type, _, _>(ints()), &lists);
    assert_conforms(list, LargeListArray::from_iter_primitive::<Int32Type, _, _>(ints()), &lists);
    let vectors = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(1.0), Some(0.5)]), None]);
    let vector = r#"{"type":"vector","dim":2}"#;
    assert_conforms(vector, vectors.clone(), &[Value::Vector(vec![1.0, 0.5].into()), Value::Null]);
    let half = r#"{"type":"vector","dim":2,"dtype":"float16"}"#;
    assert_conforms(half, vectors.clone(), &[Value::Vector(vec![1.0, 0.5].into()), Value::Null]);
    let fixed = cast(&vectors, &DataType::FixedSizeList(Arc::new(Field::new("element", DataType::Float32, true)), 2));
    assert_eq!(conformed(vector, fixed.unwrap()).unwrap(), [Value::Vector(vec![1.0, 0.5].into()), Value::Null]);
    assert_refused(r#"{"type":"vector","dim":3}"#, vectors, 0, "3 components");
    let holes = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(1.0), None])]);
    let fixed =
        cast(&holes, &DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), 2)).unwrap();
    assert!(conformed(vector, fixed).unwrap_err().to_string().contains("null at index 1"));

    let x: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(300)]));
    let points = |rows| StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int64, true)), x.slice(0, rows))]);
    let point = r#"{"type":"struct","fields":{"x":"int8"}}"#;
    let cell = |value| Value::Struct(vec![("x".into(), value)]);
    assert_conforms(point, points(2), &[cell(Value::Int(1)), cell(Value::Null)]);
    assert_refused(point, points(3), 2, "field `x`: `300` does not fit int8");
    let strict = r#"{"type":"struct","fields":{"x":{"type":"int8","nullable":false}}}"#;
    assert_refused(strict, points(2), 1, "field `x` is not nullable");
}

#[test]
fn the_row_that_does_not_fit() {
    assert_refused(r#""int8""#, Int64Array::from(vec![1, 200]), 1, "`200` does not fit int8");
    assert_refused(r#""float32""#, Float64Array::from(vec![1.0, 1e39]), 1, "does not fit float32");
    assert_refused(r#""float32""#, Int64Array::from(vec![1, (1 << 24) + 1]), 1, "not exact");
    assert_refused(r#""json""#, StringArray::from(vec!["{}", "{"]), 1, "`{` is no JSON");
    let deep = |levels| "[".repeat(levels) + &"]".repeat(levels);
    assert_refused(r#""json""#, StringArray::from(vec![deep(128), deep(129)]), 1, "nested deeper than 128 levels");
    assert_refused(r#""json""#, StringArray::from(vec!["1e300", "[1e400]"]), 1, "the number `1e400` is beyond a float");
    assert_refused(r#""date""#, Date32Array::from(vec![0, i32::MAX]), 1, "years 1 to 9999");
    assert_refused(r#""bool""#, Int8Array::from(vec![1]), 0, "expected bool, got int");
    assert_refused(r#""int8""#, BooleanArray::from(vec![true]), 0, "expected int8, got bool");
    assert_refused(r#""int8""#, DurationSecondArray::from(vec![1]), 0, "Arrow type Duration");
    assert_refused(
        r#"{"type":"int8","nullable":false}"#,
        Int8Array::from(vec![Some(1), None]),
        1,
        "a value is required",
    );
    assert_refused(
        r#"{"type":"decimal","precision":4,"scale":1}"#,
        Decimal128Array::from(vec![10, 15]).with_precision_and_scale(10, 2).unwrap(),
        1,
        "more than 1 digits behind the point",
    );
}

#[test]
fn rows_are_counted_over_all_batches() {
    let spec = spec(r#""c":"int8""#);
    let batch = |values: Vec<i64>| {
        let ids: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(i64::to_string)));
        RecordBatch::try_from_iter([("id", ids), ("c", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap()
    };
    let whole = conform(&spec, &[batch(vec![1, 2]), batch(vec![]), batch(vec![3])]).unwrap();
    assert_eq!(whole.num_rows(), 3);
    let error = conform(&spec, &[batch(vec![1, 2]), batch(vec![3, 300])]).unwrap_err();
    assert_eq!((error.row(), error.column()), (Some(3), Some("c")));
    assert_eq!(conform(&spec, &[]).unwrap().num_rows(), 0);
}

#[test]
fn columns_are_matched_by_name() {
    let spec = spec(r#""c":"int8""#);
    let ids: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let n: ArrayRef = Arc::new(Int8Array::from(vec![1]));
    let absent = conform(&spec, &[RecordBatch::try_from_iter([("id", Arc::clone(&ids))]).unwrap()]).unwrap();
    assert!(absent.column(1).is_null(0));
    let no_id = conform(&spec, &[RecordBatch::try_from_iter([("c", Arc::clone(&n))]).unwrap()]).unwrap_err();
    assert_eq!((no_id.code(), no_id.row(), no_id.column()), ("missing-value", Some(0), Some("id")));
    let more = RecordBatch::try_from_iter([("id", Arc::clone(&ids)), ("d", Arc::clone(&n))]).unwrap();
    assert_eq!(conform(&spec, &[more]).unwrap_err().code(), "unknown-column");
    let field = |name| Field::new(name, DataType::Int8, true);
    let schema = Schema::new(vec![Field::new("id", DataType::Utf8, false), field("c"), field("c")]);
    let twice = RecordBatch::try_new(Arc::new(schema), vec![ids, Arc::clone(&n), n]).unwrap();
    assert!(conform(&spec, &[twice]).unwrap_err().to_string().contains("`c` is there twice"));
}

proptest! {
    #[test]
    fn what_a_store_gives_a_store_takes((spec, rows) in roundtrip::schema_and_rows()) {
        let batch = roundtrip::encoded(&spec, &rows);
        let taken = conform(&spec, std::slice::from_ref(&batch)).unwrap();
        for column in 0..taken.num_columns() {
            roundtrip::assert_holds(&spec, taken.column(column), &rows, column);
        }
    }
}
