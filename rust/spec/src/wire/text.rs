//! Days, moments, decimals and special floats as text, and back.
//!
//! Only the years 1 to 9999 are written and read: every reader, Python's `datetime` among them, can show them.
//! Text is never rounded to microseconds.

use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, Timelike};

use super::Misfit;
use super::write::push_shown;
use crate::value::{DecimalFault, parse_decimal};

/// The NaN that is written without its bits: Rust's and IEEE's quiet one.
pub(super) const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;
/// The same of float32.
pub(super) const NAN_BITS_F32: u32 = 0x7fc0_0000;
/// From the first day of the year 1, which counts as 1, to 1970-01-01.
const DAYS_TO_1970: i32 = 719_163;
/// Most characters of a text that are repeated in an error.
const SHOWN_CHARS: usize = 40;

/// Appends `micros` since 1970 in quotes.
pub(super) fn push_timestamp(micros: i64, aware: bool, out: &mut String) -> Result<(), Misfit> {
    let moment = DateTime::from_timestamp_micros(micros).map(|moment| moment.naive_utc());
    let moment = moment.filter(|moment| (1..=9999).contains(&moment.year())).ok_or_else(|| outside(micros))?;
    let (date, time) = (moment.date(), moment.time());
    let (year, month, day) = (date.year(), date.month(), date.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    push_shown(format_args!("\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"), out);
    let fraction = time.nanosecond() / 1_000;
    if fraction != 0 {
        push_shown(format_args!(".{fraction:06}"), out);
    }
    out.push_str(if aware { "Z\"" } else { "\"" });
    Ok(())
}

/// Appends the day `days` after 1970-01-01 in quotes.
pub(super) fn push_date(days: i32, out: &mut String) -> Result<(), Misfit> {
    let date = NaiveDate::from_num_days_from_ce_opt(days.saturating_add(DAYS_TO_1970));
    let date = date
        .filter(|date| (1..=9999).contains(&date.year()))
        .ok_or_else(|| Misfit::OutOfRange(format!("`{days}` days since 1970 lie outside of the years 1 to 9999")))?;
    push_shown(format_args!("\"{:04}-{:02}-{:02}\"", date.year(), date.month(), date.day()), out);
    Ok(())
}

/// The days since 1970-01-01 of an ISO 8601 date.
pub(super) fn read_date(text: &str) -> Result<i32, Misfit> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d");
    let date = date.map_err(|_| Misfit::WrongType(format!("text: {}", shown(text))))?;
    if !(1..=9999).contains(&date.year()) {
        return Err(Misfit::OutOfRange(format!("{} lies outside of the years 1 to 9999", shown(text))));
    }
    Ok(date.num_days_from_ce() - DAYS_TO_1970)
}

/// The microseconds of an RFC 3339 text with an offset (`aware`), or of an ISO 8601 text without one.
pub(super) fn read_timestamp(text: &str, aware: bool) -> Result<i64, Misfit> {
    let (instant, reading) = (with_offset(text), wall_clock(text));
    let moment = if aware { instant } else { reading };
    let other = if aware { reading } else { instant };
    let moment = moment.ok_or_else(|| {
        let form = match (other, aware) {
            (None, _) => "text",
            (Some(_), true) => "text without an offset",
            (Some(_), false) => "text with an offset",
        };
        Misfit::WrongType(format!("{form}: {}", shown(text)))
    })?;
    exact_micros(text, moment)
}

fn with_offset(text: &str) -> Option<NaiveDateTime> {
    DateTime::<FixedOffset>::parse_from_rfc3339(text).ok().map(|moment| moment.naive_utc())
}

fn wall_clock(text: &str) -> Option<NaiveDateTime> {
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .into_iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
}

fn exact_micros(text: &str, moment: NaiveDateTime) -> Result<i64, Misfit> {
    // The parsed form drops digits beyond nanoseconds, so precision is judged by the text.
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    if fraction.bytes().take_while(u8::is_ascii_digit).skip(6).any(|digit| digit != b'0') {
        return Err(Misfit::OutOfRange(format!("{} is finer than microseconds; round it", shown(text))));
    }
    if moment.nanosecond() >= 1_000_000_000 {
        let message = format!("{} is a leap second, which has no place in a timestamp", shown(text));
        return Err(Misfit::OutOfRange(message));
    }
    let micros = moment.and_utc().timestamp_micros();
    if (1..=9999).contains(&moment.year()) { Ok(micros) } else { Err(outside(micros)) }
}

#[cold]
fn outside(micros: i64) -> Misfit {
    Misfit::OutOfRange(format!("`{micros}` microseconds since 1970 lie outside of the years 1 to 9999"))
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

/// The beginning of a text, for an error.
pub(super) fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("`{start}{more}`")
}
