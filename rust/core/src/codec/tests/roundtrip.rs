//! Random rows of random schemas come back as they went in.

use lance_context_spec::{ColumnSpec, ColumnType, Metric};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Row = Vec<Option<Value<'static>>>;

fn scalar_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        any::<bool>().prop_map(|large| ColumnType::String { large }),
        Just(ColumnType::Int32),
        Just(ColumnType::Int64),
        Just(ColumnType::Float32),
        Just(ColumnType::Float64),
        Just(ColumnType::Bool),
        any::<bool>().prop_map(|utc| ColumnType::Timestamp { utc }),
        Just(ColumnType::Binary { blob: false }),
    ]
}

fn column_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        4 => scalar_type(),
        1 => Just(ColumnType::Binary { blob: true }),
        1 => (1u32..5).prop_map(|dim| ColumnType::Vector { dim, metric: Metric::L2 }),
        2 => scalar_type().prop_map(|item| ColumnType::List { item: Box::new(item) }),
    ]
}

fn any_f32() -> impl Strategy<Value = f32> {
    // Widening quiets a signalling NaN, so only quiet ones can come back bit by bit.
    any::<u32>().prop_map(f32::from_bits).prop_map(|float| if float.is_nan() { f32::NAN } else { float })
}

/// A cell as it is read back, so that equality is the whole promise.
fn cell(column_type: &ColumnType) -> BoxedStrategy<Value<'static>> {
    match column_type.clone() {
        ColumnType::String { .. } => ".{0,12}".prop_map(|text| Value::Str(text.into())).boxed(),
        ColumnType::Int32 => any::<i32>().prop_map(|int| Value::Int(int.into())).boxed(),
        ColumnType::Int64 => any::<i64>().prop_map(|int| Value::Int(int.into())).boxed(),
        ColumnType::Float32 => any_f32().prop_map(|float| Value::Float(float.into())).boxed(),
        ColumnType::Float64 => any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))).boxed(),
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Timestamp { utc } => (timestamp::MIN_MICROS..=timestamp::MAX_MICROS)
            .prop_map(move |micros| Value::Timestamp { micros, aware: utc })
            .boxed(),
        ColumnType::Binary { .. } => vec(any::<u8>(), 0..12).prop_map(|bytes| Value::Bytes(bytes.into())).boxed(),
        ColumnType::Vector { dim, .. } => vec(any::<u32>().prop_map(f32::from_bits), dim as usize)
            .prop_map(|floats| Value::Vector(floats.into()))
            .boxed(),
        ColumnType::List { item } => {
            vec(prop_oneof![1 => Just(Value::Null), 4 => cell(&item)], 0..5).prop_map(Value::List).boxed()
        }
    }
}

/// `None` leaves the column out of the row.
fn row(columns: &[ColumnSpec]) -> BoxedStrategy<Row> {
    let cells = columns.iter().map(|column| {
        let value = cell(&column.column_type).prop_map(Some);
        if column.nullable {
            prop_oneof![1 => Just(None), 1 => Just(Some(Value::Null)), 4 => value].boxed()
        } else {
            value.boxed()
        }
    });
    cells.collect::<Vec<_>>().boxed()
}

fn schema_and_rows() -> impl Strategy<Value = (Arc<SchemaSpec>, Vec<Row>)> {
    let others = vec((column_type(), any::<bool>()), 0..8);
    (others, any::<prop::sample::Index>()).prop_flat_map(|(others, at)| {
        let named = |(n, (column_type, nullable))| ColumnSpec { name: format!("c{n}"), column_type, nullable };
        let mut columns: Vec<ColumnSpec> = others.into_iter().enumerate().map(named).collect();
        let id = ColumnSpec { name: "id".into(), column_type: ColumnType::String { large: false }, nullable: false };
        columns.insert(at.index(columns.len() + 1), id);
        let rows = vec(row(&columns), 0..12);
        (Just(Arc::new(SchemaSpec::new(columns).unwrap())), rows)
    })
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
        _ => one == other,
    }
}

fn encoded(spec: &Arc<SchemaSpec>, rows: &[Row]) -> RecordBatch {
    let mut encoder = RowEncoder::new(Arc::clone(spec), rows.len());
    for row in rows {
        for (column, cell) in row.iter().enumerate().rev() {
            if let Some(value) = cell {
                encoder.set(column, value.clone()).unwrap();
            }
        }
        encoder.end_row().unwrap();
    }
    encoder.finish().unwrap()
}

fn assert_holds(array: &dyn Array, rows: &[Row], column: usize) {
    let reader = ColumnReader::new(array).unwrap();
    for (at, row) in rows.iter().enumerate() {
        let expected = row[column].clone().unwrap_or(Value::Null);
        let read = reader.value(at);
        assert!(same(&read, &expected), "row {at}, column {column}: {read:?} is not {expected:?}");
    }
}

proptest! {
    #[test]
    fn rows_come_back((spec, rows) in schema_and_rows(), cut in any::<prop::sample::Index>()) {
        let batch = encoded(&spec, &rows);
        prop_assert_eq!(batch.num_rows(), rows.len());
        prop_assert_eq!(batch.schema(), arrow_schema(&spec));
        let cut = cut.index(rows.len() + 1);
        let tail = batch.slice(cut, rows.len() - cut);
        for column in 0..batch.num_columns() {
            batch.column(column).to_data().validate_full().unwrap();
            assert_holds(batch.column(column), &rows, column);
            assert_holds(tail.column(column), &rows[cut..], column);
        }
    }

    #[test]
    fn what_is_read_can_be_written_again((spec, rows) in schema_and_rows()) {
        let batch = encoded(&spec, &rows);
        let readers: Vec<_> = batch.columns().iter().map(|array| ColumnReader::new(array).unwrap()).collect();
        let read: Vec<Row> = (0..rows.len())
            .map(|at| readers.iter().map(|reader| Some(reader.value(at).into_owned())).collect())
            .collect();
        let again = encoded(&spec, &read);
        for column in 0..again.num_columns() {
            assert_holds(again.column(column), &rows, column);
        }
    }
}
