//! One cell of a row, borrowed or owned.
//!
//! The same type crosses every border: Python objects and JSON become values on the way in, Arrow
//! arrays become values on the way out. Borrowing ([`Cow`]) keeps strings, bytes and vectors from
//! being copied twice.

use std::borrow::Cow;

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// No value; different from every empty value.
    Null,
    /// A truth value.
    Bool(bool),
    /// Any integer that some column type could hold; the codec checks the range.
    Int(i128),
    /// Any float, every bit pattern of it.
    Float(f64),
    /// Text.
    Str(Cow<'a, str>),
    /// Bytes; a blob cell too.
    Bytes(Cow<'a, [u8]>),
    /// An instant in microseconds since 1970-01-01T00:00:00. `aware` tells whether the source knew
    /// its offset (then the instant is UTC) or was a naive wall-clock reading.
    Timestamp {
        /// Microseconds since the epoch.
        micros: i64,
        /// Whether the offset to UTC was known.
        aware: bool,
    },
    /// A day, counted from 1970-01-01.
    Date(i32),
    /// A decimal number, exactly `unscaled / 10^scale`.
    Decimal {
        /// The digits, without the point.
        unscaled: i128,
        /// How many of the digits lie behind the point.
        scale: u8,
    },
    /// Any JSON value, as its exact text.
    Json(Cow<'a, str>),
    /// A vector; every float16 is a float32.
    Vector(Cow<'a, [f32]>),
    /// A list of cells of one type.
    List(Vec<Value<'a>>),
    /// Cells by name.
    Struct(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl Value<'_> {
    /// The same cell, owning all of its data.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(v) => Value::Bool(v),
            Self::Int(v) => Value::Int(v),
            Self::Float(v) => Value::Float(v),
            Self::Str(v) => Value::Str(Cow::Owned(v.into_owned())),
            Self::Bytes(v) => Value::Bytes(Cow::Owned(v.into_owned())),
            Self::Timestamp { micros, aware } => Value::Timestamp { micros, aware },
            Self::Date(days) => Value::Date(days),
            Self::Decimal { unscaled, scale } => Value::Decimal { unscaled, scale },
            Self::Json(v) => Value::Json(Cow::Owned(v.into_owned())),
            Self::Vector(v) => Value::Vector(Cow::Owned(v.into_owned())),
            Self::List(v) => Value::List(v.into_iter().map(Value::into_owned).collect()),
            Self::Struct(v) => Value::Struct(
                v.into_iter().map(|(name, cell)| (Cow::Owned(name.into_owned()), cell.into_owned())).collect(),
            ),
        }
    }

    /// The name of the kind of cell, for error messages.
    #[must_use]
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::Timestamp { aware: true, .. } => "aware datetime",
            Self::Timestamp { aware: false, .. } => "naive datetime",
            Self::Date(_) => "date",
            Self::Decimal { .. } => "decimal",
            Self::Json(_) => "json",
            Self::Vector(_) => "vector",
            Self::List(_) => "list",
            Self::Struct(_) => "struct",
        }
    }
}

/// `value` as a float32, or `None` where a finite value would become infinite.
///
/// NaN and the infinities pass; a finite value is rounded to the nearest float32.
#[must_use]
pub fn to_f32(value: f64) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest float32 is the point")]
    let narrowed = value as f32;
    (narrowed.is_finite() || !value.is_finite()).then_some(narrowed)
}

/// Why a text is no [`Value::Decimal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecimalFault {
    /// It is no number, or not a finite one.
    NotANumber,
    /// It has more digits than 128 bits hold.
    TooLong,
}

/// Reads a decimal number such as `-12.50` or `1.5E+3` exactly: its digits, and how many lie behind the point. Zeros
/// at the end of the fraction are dropped.
///
/// # Errors
/// A [`DecimalFault`]; nothing is ever rounded.
pub fn parse_decimal(text: &str) -> Result<(i128, u8), DecimalFault> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| DecimalFault::NotANumber)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
        return Err(DecimalFault::NotANumber);
    }
    let trailing = digits().rev().take_while(|digit| *digit == b'0').count();
    let kept = whole.len() + fraction.len() - trailing;
    let mut unscaled: i128 = 0;
    for digit in digits().take(kept) {
        let shifted = unscaled.checked_mul(10).and_then(|shifted| shifted.checked_add(i128::from(digit - b'0')));
        unscaled = shifted.ok_or(DecimalFault::TooLong)?;
    }
    if unscaled == 0 {
        return Ok((0, 0));
    }
    // The number is `unscaled * 10^power`.
    let length = |text: &str| i64::try_from(text.len()).map_err(|_| DecimalFault::TooLong);
    let power = i64::from(exponent) - length(fraction)? + i64::try_from(trailing).map_err(|_| DecimalFault::TooLong)?;
    let scale = u8::try_from((-power).max(0)).ok().filter(|scale| *scale <= MAX_SCALE).ok_or(DecimalFault::TooLong)?;
    let factor = u32::try_from(power.max(0)).ok().and_then(|power| 10_i128.checked_pow(power));
    let unscaled = factor.and_then(|factor| unscaled.checked_mul(factor)).ok_or(DecimalFault::TooLong)?;
    Ok((if negative { -unscaled } else { unscaled }, scale))
}

/// Most digits behind the point of a decimal of 128 bits.
const MAX_SCALE: u8 = 38;

/// The decimal `unscaled / 10^scale` as text, with `scale` digits behind the point.
#[must_use]
pub fn decimal_text(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Most characters of a text that are repeated in an error.
const SHOWN_CHARS: usize = 40;

/// The beginning of a text, for an error.
pub(crate) fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("`{start}{more}`")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimals_are_read_exactly() {
        for (text, expected) in [
            ("0", (0, 0)),
            ("-0.000", (0, 0)),
            ("12.50", (125, 1)),
            ("-12.5", (-125, 1)),
            ("+.5", (5, 1)),
            ("5.", (5, 0)),
            ("1.5E+3", (1500, 0)),
            ("1500e-2", (15, 0)),
            ("1E-38", (1, 38)),
            ("0E+1000000", (0, 0)),
            ("99999999999999999999999999999999999999", (10_i128.pow(38) - 1, 0)),
            ("1.00000000000000000000000000000000000000000000000000", (1, 0)),
        ] {
            assert_eq!(parse_decimal(text), Ok(expected), "{text}");
        }
        for text in ["", "-", ".", "NaN", "Infinity", "1e", "1e5.0", "1_000", "１", "0x1", "--1", "1 "] {
            assert_eq!(parse_decimal(text), Err(DecimalFault::NotANumber), "{text}");
        }
        for text in ["1E+39", "1E-39", "1e2147483647", "1e-2147483648", &"9".repeat(60)] {
            assert_eq!(parse_decimal(text), Err(DecimalFault::TooLong), "{text}");
        }
    }

    proptest! {
        #[test]
        fn decimals_come_back(unscaled: i128, scale in 0u8..=38) {
            prop_assume!(unscaled != i128::MIN);
            let text = decimal_text(unscaled, scale);
            let (digits, behind) = parse_decimal(&text).unwrap();
            prop_assert!(behind <= scale);
            prop_assert_eq!(digits.checked_mul(10_i128.pow(u32::from(scale - behind))), Some(unscaled));
        }

        #[test]
        fn any_text_is_a_decimal_or_none(text in ".{0,12}") {
            let _ = parse_decimal(&text);
        }
    }
}
