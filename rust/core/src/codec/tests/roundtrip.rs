//! Random rows of random schemas come back as they went in.

use half::f16;
use lance_context_spec::{ColumnSpec, ColumnType, Fields, Metric, VectorType};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Row = Vec<Option<Value<'static>>>;

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
            ColumnType::Float16,
            ColumnType::Float32,
            ColumnType::Float64,
            ColumnType::Bool,
            ColumnType::Date,
            ColumnType::Binary { blob: false },
        ]),
        any::<bool>().prop_map(|utc| ColumnType::Timestamp { utc }),
        (1u8..=38)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| ColumnType::Decimal { precision, scale }),
    ]
}

fn struct_type() -> impl Strategy<Value = ColumnType> {
    vec((scalar_type(), any::<bool>()), 1..4).prop_map(|fields| {
        let named = |(n, (column_type, nullable))| ColumnSpec { name: format!("f{n}"), column_type, nullable };
        ColumnType::Struct { fields: Fields(fields.into_iter().enumerate().map(named).collect()) }
    })
}

fn column_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        4 => scalar_type(),
        1 => Just(ColumnType::Binary { blob: true }),
        1 => Just(ColumnType::Json),
        1 => (1u32..5, prop_oneof![Just(VectorType::Float32), Just(VectorType::Float16)])
            .prop_map(|(dim, dtype)| ColumnType::Vector { dim, metric: Metric::L2, dtype }),
        1 => struct_type(),
        2 => prop_oneof![scalar_type(), struct_type()].prop_map(|item| ColumnType::List { item: Box::new(item) }),
    ]
}

fn any_f32() -> impl Strategy<Value = f32> {
    // Widening quiets a signalling NaN, so only quiet ones can come back bit by bit.
    any::<u32>().prop_map(f32::from_bits).prop_map(|float| if float.is_nan() { f32::NAN } else { float })
}

/// A float16, as every reader sees it.
fn any_f16() -> impl Strategy<Value = f16> {
    any::<u16>().prop_map(f16::from_bits).prop_map(|float| if float.is_nan() { f16::NAN } else { float })
}

fn int(range: std::ops::RangeInclusive<i128>) -> BoxedStrategy<Value<'static>> {
    range.prop_map(Value::Int).boxed()
}

/// A cell as it is read back, so that equality is the whole promise.
fn cell(column_type: &ColumnType) -> BoxedStrategy<Value<'static>> {
    match column_type.clone() {
        ColumnType::String { .. } => ".{0,12}".prop_map(|text| Value::Str(text.into())).boxed(),
        ColumnType::Int8 => int(i8::MIN.into()..=i8::MAX.into()),
        ColumnType::Int16 => int(i16::MIN.into()..=i16::MAX.into()),
        ColumnType::Int32 => int(i32::MIN.into()..=i32::MAX.into()),
        ColumnType::Int64 => int(i64::MIN.into()..=i64::MAX.into()),
        ColumnType::UInt8 => int(0..=u8::MAX.into()),
        ColumnType::UInt16 => int(0..=u16::MAX.into()),
        ColumnType::UInt32 => int(0..=u32::MAX.into()),
        ColumnType::UInt64 => int(0..=u64::MAX.into()),
        ColumnType::Float16 => any_f16().prop_map(|float| Value::Float(float.to_f64())).boxed(),
        ColumnType::Float32 => any_f32().prop_map(|float| Value::Float(float.into())).boxed(),
        ColumnType::Float64 => any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))).boxed(),
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Timestamp { utc } => (moment::MIN_MICROS..=moment::MAX_MICROS)
            .prop_map(move |micros| Value::Timestamp { micros, aware: utc })
            .boxed(),
        ColumnType::Date => (moment::MIN_DAYS..=moment::MAX_DAYS).prop_map(Value::Date).boxed(),
        ColumnType::Decimal { precision, scale } => {
            let end = 10_i128.pow(precision.into()) - 1;
            (-end..=end).prop_map(move |unscaled| Value::Decimal { unscaled, scale }).boxed()
        }
        ColumnType::Json => {
            prop::sample::select(vec!["{}", "[1, 2.0]", "\"x\"", "1.50e300", "12345678901234567890123"])
                .prop_map(|text| Value::Json(text.into()))
                .boxed()
        }
        ColumnType::Binary { .. } => vec(any::<u8>(), 0..12).prop_map(|bytes| Value::Bytes(bytes.into())).boxed(),
        ColumnType::Vector { dim, dtype: VectorType::Float16, .. } => {
            vec(any_f16().prop_map(f16::to_f32), dim as usize).prop_map(|floats| Value::Vector(floats.into())).boxed()
        }
        ColumnType::Vector { dim, .. } => vec(any::<u32>().prop_map(f32::from_bits), dim as usize)
            .prop_map(|floats| Value::Vector(floats.into()))
            .boxed(),
        ColumnType::List { item } => {
            vec(prop_oneof![1 => Just(Value::Null), 4 => cell(&item)], 0..5).prop_map(Value::List).boxed()
        }
        ColumnType::Struct { fields } => {
            let cells = fields.0.into_iter().map(|field| {
                let cell = match field.nullable {
                    true => prop_oneof![1 => Just(Value::Null), 4 => cell(&field.column_type)].boxed(),
                    false => cell(&field.column_type),
                };
                cell.prop_map(move |cell| (field.name.clone().into(), cell))
            });
            cells.collect::<Vec<_>>().prop_map(Value::Struct).boxed()
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

pub(super) fn schema_and_rows() -> impl Strategy<Value = (Arc<SchemaSpec>, Vec<Row>)> {
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
        (Value::Struct(one), Value::Struct(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1))
        }
        _ => one == other,
    }
}

pub(super) fn encoded(spec: &Arc<SchemaSpec>, rows: &[Row]) -> RecordBatch {
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

pub(super) fn assert_holds(spec: &SchemaSpec, array: &dyn Array, rows: &[Row], column: usize) {
    let reader = ColumnReader::of(array, &spec.columns()[column].column_type).unwrap();
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
            assert_holds(&spec, batch.column(column), &rows, column);
            assert_holds(&spec, tail.column(column), &rows[cut..], column);
        }
    }

    #[test]
    fn what_is_read_can_be_written_again((spec, rows) in schema_and_rows()) {
        let batch = encoded(&spec, &rows);
        let typed = batch.columns().iter().zip(spec.columns());
        let readers: Vec<_> = typed.map(|(array, column)| ColumnReader::of(array, &column.column_type).unwrap()).collect();
        let read: Vec<Row> = (0..rows.len())
            .map(|at| readers.iter().map(|reader| Some(reader.value(at).into_owned())).collect())
            .collect();
        let again = encoded(&spec, &read);
        for column in 0..again.num_columns() {
            assert_holds(&spec, again.column(column), &rows, column);
        }
    }
}
