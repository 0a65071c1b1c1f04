//! Days and moments as text, decimals out of it, and special floats. Days and moments are read by [`crate::moment`].

use chrono::{DateTime, SubsecRound, TimeDelta};

use super::Misfit;
use super::write::push_shown;
use crate::moment::{days_in_range, micros_in_range};
use crate::value::{DecimalFault, parse_decimal, shown};

/// The NaN that is written without its bits: Rust's and IEEE's quiet one.
pub(super) const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;
/// The same of float32.
pub(super) const NAN_BITS_F32: u32 = 0x7fc0_0000;

/// Appends `micros` since 1970 in quotes.
pub(super) fn push_timestamp(micros: i64, aware: bool, out: &mut String) -> Result<(), Misfit> {
    let moment = DateTime::UNIX_EPOCH + TimeDelta::microseconds(micros_in_range(micros)?);
    push_shown(format_args!("\"{:?}", moment.naive_utc().trunc_subsecs(0)), out);
    let fraction = moment.timestamp_subsec_micros();
    if fraction != 0 {
        push_shown(format_args!(".{fraction:06}"), out);
    }
    out.push_str(if aware { "Z\"" } else { "\"" });
    Ok(())
}

/// Appends the day `days` after 1970-01-01 in quotes.
pub(super) fn push_date(days: i32, out: &mut String) -> Result<(), Misfit> {
    let date = DateTime::UNIX_EPOCH.date_naive() + TimeDelta::days(days_in_range(days)?.into());
    push_shown(format_args!("\"{date}\""), out);
    Ok(())
}

/// The number of a text such as `-1.50` or `15e-1`, in units of 10^-`scale`.
pub(super) fn read_decimal(text: &str, scale: u8) -> Result<i128, Misfit> {
    let (unscaled, behind) = parse_decimal(text).map_err(|fault| match fault {
        DecimalFault::NotANumber => Misfit::WrongType(format!("text: {}", shown(text))),
        DecimalFault::TooLong => Misfit::OutOfRange(format!("{} has too many digits", shown(text))),
    })?;
    let Some(zeros) = scale.checked_sub(behind) else {
        return Err(Misfit::OutOfRange(format!("{} has more than {scale} digits behind the point", shown(text))));
    };
    let scaled = 10_i128.checked_pow(zeros.into()).and_then(|factor| unscaled.checked_mul(factor));
    scaled.ok_or_else(|| Misfit::OutOfRange(format!("{} has too many digits", shown(text))))
}

/// A float64 that is no number in JSON; `None` for other text.
pub(super) fn read_special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::from_bits(NAN_BITS)),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => {
            let bits = hexadecimal(text.strip_prefix("NaN:")?, 16)?;
            Some(f64::from_bits(bits)).filter(|float| float.is_nan())
        }
    }
}

/// As [`read_special`], of a float32.
pub(super) fn read_special_f32(text: &str) -> Option<f32> {
    if let Some(bits) = text.strip_prefix("NaN:").and_then(|digits| hexadecimal(digits, 8)) {
        return u32::try_from(bits).ok().map(f32::from_bits).filter(|float| float.is_nan());
    }
    #[expect(clippy::cast_possible_truncation, reason = "only infinities and NaN come here")]
    read_special(text).map(|float| float as f32)
}

fn hexadecimal(digits: &str, count: usize) -> Option<u64> {
    let legal = digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if legal { u64::from_str_radix(digits, 16).ok() } else { None }
}
