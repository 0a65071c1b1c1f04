//! Timestamps in microseconds since 1970-01-01T00:00:00, days since then, and the text forms that columns take.
//!
//! Only the years 1 to 9999 are accepted: every reader, Python's `datetime` among them, can show
//! what was stored. Text is never rounded to microseconds.

use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, Timelike};

use super::cells::Misfit;

/// 0001-01-01T00:00:00.
pub(super) const MIN_MICROS: i64 = -62_135_596_800_000_000;
/// 9999-12-31T23:59:59.999999.
pub(super) const MAX_MICROS: i64 = 253_402_300_799_999_999;
/// 0001-01-01.
pub(super) const MIN_DAYS: i32 = -719_162;
/// 9999-12-31.
pub(super) const MAX_DAYS: i32 = 2_932_896;
/// Most characters of a text that are repeated in an error.
const SHOWN_CHARS: usize = 40;

/// `micros`, if it lies in the years 1 to 9999.
pub(super) fn in_range(micros: i64) -> Result<i64, Misfit> {
    if (MIN_MICROS..=MAX_MICROS).contains(&micros) {
        return Ok(micros);
    }
    Err(Misfit::out_of_range(format!("`{micros}` microseconds since 1970 lie outside of the years 1 to 9999")))
}

/// `days`, if they lie in the years 1 to 9999.
pub(super) fn day_in_range(days: i32) -> Result<i32, Misfit> {
    if (MIN_DAYS..=MAX_DAYS).contains(&days) {
        return Ok(days);
    }
    Err(Misfit::out_of_range(format!("`{days}` days since 1970 lie outside of the years 1 to 9999")))
}

/// The day of an ISO 8601 text such as `2026-01-31`.
pub(super) fn parse_date(text: &str) -> Result<i32, Misfit> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| mismatch(text, "text", false))?;
    day_in_range(day.num_days_from_ce() - 1 + MIN_DAYS)
}

/// The instant of an RFC 3339 text, which has an offset.
pub(super) fn parse_instant(text: &str) -> Result<i64, Misfit> {
    let instant =
        with_offset(text).ok_or_else(|| mismatch(text, "text without an offset", wall_clock(text).is_some()))?;
    exact_micros(text, instant.naive_utc())
}

/// The reading of an ISO 8601 text without offset.
pub(super) fn parse_wall_clock(text: &str) -> Result<i64, Misfit> {
    let reading = wall_clock(text).ok_or_else(|| mismatch(text, "text with an offset", with_offset(text).is_some()))?;
    exact_micros(text, reading)
}

fn with_offset(text: &str) -> Option<DateTime<FixedOffset>> {
    DateTime::parse_from_rfc3339(text).ok()
}

fn wall_clock(text: &str) -> Option<NaiveDateTime> {
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .into_iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
}

fn exact_micros(text: &str, reading: NaiveDateTime) -> Result<i64, Misfit> {
    // The parsed form drops digits beyond nanoseconds, so precision is judged by the text.
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    if fraction.bytes().take_while(u8::is_ascii_digit).skip(6).any(|digit| digit != b'0') {
        return Err(Misfit::out_of_range(format!("{} is finer than microseconds; round it", shown(text))));
    }
    if reading.nanosecond() >= 1_000_000_000 {
        return Err(Misfit::out_of_range(format!(
            "{} is a leap second, which has no place in a timestamp",
            shown(text)
        )));
    }
    in_range(reading.and_utc().timestamp_micros())
}

#[cold]
fn mismatch(text: &str, other_form: &str, is_other_form: bool) -> Misfit {
    let form = if is_other_form { other_form } else { "text" };
    Misfit::WrongType { got: format!("{form}: {}", shown(text)) }
}

fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("`{start}{more}`")
}
