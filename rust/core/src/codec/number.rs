//! Numbers that fit, or the reason why they do not.

use half::f16;
use lance_context_spec::Value;
use lance_context_spec::value::{DecimalFault, parse_decimal, to_f32};

use super::cells::Misfit;

/// Arrow's 32-bit offsets bound what one column of one batch can hold; its builders would panic.
pub(super) fn within_i32(held: usize, added: usize, of: &str, advice: &str) -> Result<i32, Misfit> {
    let total = held.saturating_add(added);
    i32::try_from(total).map_err(|_| {
        Misfit::out_of_range(format!(
            "{total} {of} in one column of one batch, at most {} are possible{advice}",
            i32::MAX
        ))
    })
}

pub(super) fn narrow<T: TryFrom<i128>>(int: i128, type_name: &str) -> Result<T, Misfit> {
    T::try_from(int).map_err(|_| Misfit::out_of_range(format!("`{int}` does not fit {type_name}")))
}

/// The nearest float16 of a float; NaN and the infinities pass.
pub(super) fn to_f16(float: f64) -> Option<f16> {
    let narrowed = f16::from_f64(float);
    (narrowed.is_finite() || !float.is_finite()).then_some(narrowed)
}

pub(super) fn float16(value: &Value<'_>) -> Result<f16, Misfit> {
    match value {
        Value::Float(float) => to_f16(*float).ok_or_else(|| too_large(*float, "float16", f16::MAX.to_f64())),
        Value::Int(int) => {
            let float = f16::from_f64(*int as f64);
            is_exact(*int, float.to_f64()).then_some(float).ok_or_else(|| inexact(*int, "float16"))
        }
        other => Err(Misfit::wrong_type(other)),
    }
}

pub(super) fn float32(value: &Value<'_>) -> Result<f32, Misfit> {
    match value {
        Value::Float(float) => to_f32(*float).ok_or_else(|| too_large(*float, "float32", f32::MAX.into())),
        Value::Int(int) => {
            let float = *int as f32;
            is_exact(*int, f64::from(float)).then_some(float).ok_or_else(|| inexact(*int, "float32"))
        }
        other => Err(Misfit::wrong_type(other)),
    }
}

pub(super) fn exact_float64(int: i128) -> Result<f64, Misfit> {
    let float = int as f64;
    is_exact(int, float).then_some(float).ok_or_else(|| inexact(int, "float64"))
}

/// The digits of a decimal with `scale` of them behind the point.
pub(super) fn decimal(value: &Value<'_>, precision: u8, scale: u8) -> Result<i128, Misfit> {
    let (unscaled, given) = match value {
        Value::Decimal { unscaled, scale } => (*unscaled, *scale),
        Value::Int(int) => (*int, 0),
        Value::Str(text) => parse_decimal(text).map_err(|fault| match fault {
            DecimalFault::NotANumber => Misfit::WrongType { got: format!("text that is no decimal: `{text:.40}`") },
            DecimalFault::TooLong => Misfit::out_of_range(format!("`{text:.60}` has more than 38 digits")),
        })?,
        other => return Err(Misfit::wrong_type(other)),
    };
    let power = |exponent: u8| 10_i128.checked_pow(exponent.into());
    let shown = || lance_context_spec::value::decimal_text(unscaled, given);
    let too_long = || Misfit::out_of_range(format!("`{}` does not fit decimal({precision}, {scale})", shown()));
    let digits = if given <= scale {
        power(scale - given).and_then(|power| unscaled.checked_mul(power)).ok_or_else(too_long)?
    } else {
        let power = power(given - scale).ok_or_else(too_long)?;
        if unscaled % power != 0 {
            let message = format!("`{}` has more than {scale} digits behind the point; round it", shown());
            return Err(Misfit::out_of_range(message));
        }
        unscaled / power
    };
    // 38 digits always fit an i128, and so does the power behind them.
    if power(precision).is_some_and(|limit| digits.unsigned_abs() >= limit.unsigned_abs()) {
        return Err(too_long());
    }
    Ok(digits)
}

/// Whether `float` is exactly `int`. The way back saturates, so floats beyond i128 are no proof.
fn is_exact(int: i128, float: f64) -> bool {
    float < i128::MAX as f64 && float as i128 == int
}

#[cold]
fn too_large(float: f64, type_name: &str, end: f64) -> Misfit {
    Misfit::out_of_range(format!("`{float:e}` does not fit {type_name}, which ends at {end:e}"))
}

#[cold]
fn inexact(int: i128, type_name: &str) -> Misfit {
    Misfit::out_of_range(format!("the integer `{int}` is not exact in {type_name}; pass a float to round it"))
}
