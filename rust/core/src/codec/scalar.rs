//! Values as constants of a query.

use arrow::datatypes::DECIMAL128_MAX_PRECISION;
use datafusion::scalar::ScalarValue;
use lance_context_spec::{Error, Result, Value};

/// The constant that a filter parameter stands for.
///
/// # Errors
/// `InvalidQuery` for an integer beyond 64 bits, and for JSON, vectors, lists and structs, which no filter compares.
pub fn value_to_scalar(value: &Value<'_>) -> Result<ScalarValue> {
    Ok(match value {
        Value::Null => ScalarValue::Null,
        Value::Bool(truth) => ScalarValue::Boolean(Some(*truth)),
        Value::Int(int) => integer(*int)?,
        Value::Float(float) => ScalarValue::Float64(Some(*float)),
        Value::Str(text) => ScalarValue::Utf8(Some(text.to_string())),
        Value::Bytes(bytes) => ScalarValue::LargeBinary(Some(bytes.to_vec())),
        Value::Timestamp { micros, aware } => {
            ScalarValue::TimestampMicrosecond(Some(*micros), aware.then(|| "UTC".into()))
        }
        Value::Date(days) => ScalarValue::Date32(Some(*days)),
        Value::Decimal { unscaled, scale } => {
            let digits = unscaled.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
            let precision = u8::try_from(digits).unwrap_or(DECIMAL128_MAX_PRECISION).max(*scale);
            ScalarValue::Decimal128(Some(*unscaled), precision, scale.cast_signed())
        }
        Value::Json(_) | Value::Vector(_) | Value::List(_) | Value::Struct(_) => {
            let message = format!("a {} cannot be compared in a filter; pass a single value", value.kind_name());
            return Err(Error::InvalidQuery { message });
        }
    })
}

fn integer(int: i128) -> Result<ScalarValue> {
    if let Ok(int) = i64::try_from(int) {
        return Ok(ScalarValue::Int64(Some(int)));
    }
    u64::try_from(int)
        .map(|int| ScalarValue::UInt64(Some(int)))
        .map_err(|_| Error::InvalidQuery { message: format!("the integer `{int}` in a filter does not fit 64 bits") })
}
