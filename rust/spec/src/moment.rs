//! Moments in microseconds since 1970-01-01T00:00:00, days since then, and the texts that are read as them.
//!
//! Only the years 1 to 9999 are accepted: every reader, Python's `datetime` among them, can show what was stored.
//! Text is never rounded to microseconds. [`crate::wire`] writes the text of both.

use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, Timelike};

use crate::value::shown;

/// 0001-01-01T00:00:00.
pub const MIN_MICROS: i64 = -62_135_596_800_000_000;
/// 9999-12-31T23:59:59.999999.
pub const MAX_MICROS: i64 = 253_402_300_799_999_999;
/// 0001-01-01.
pub const MIN_DAYS: i32 = -719_162;
/// 9999-12-31.
pub const MAX_DAYS: i32 = 2_932_896;

/// Why something is no moment or no day of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MomentFault {
    /// The text has another form; says which.
    OtherForm(String),
    /// No column holds it; says why.
    OutOfRange(String),
}

/// `micros`, if it lies in the years 1 to 9999.
///
/// # Errors
/// `OutOfRange`.
pub fn micros_in_range(micros: i64) -> Result<i64, MomentFault> {
    if (MIN_MICROS..=MAX_MICROS).contains(&micros) { Ok(micros) } else { Err(outside(micros, "microseconds")) }
}

/// `days`, if they lie in the years 1 to 9999.
///
/// # Errors
/// `OutOfRange`.
pub fn days_in_range(days: i32) -> Result<i32, MomentFault> {
    if (MIN_DAYS..=MAX_DAYS).contains(&days) { Ok(days) } else { Err(outside(days.into(), "days")) }
}

/// The days since 1970-01-01 of an ISO 8601 date such as `2026-01-31`.
///
/// # Errors
/// A [`MomentFault`].
pub fn parse_date(text: &str) -> Result<i32, MomentFault> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| other_form("text", text))?;
    // The first day of the year 1 counts as 1.
    days_in_range(date.num_days_from_ce() - 1 + MIN_DAYS)
}

/// The microseconds of an RFC 3339 text, which has an offset (`aware`), or of an ISO 8601 text without one.
///
/// # Errors
/// A [`MomentFault`].
pub fn parse_timestamp(text: &str, aware: bool) -> Result<i64, MomentFault> {
    let moment = if aware {
        with_offset(text).ok_or_else(|| mismatch(text, "text without an offset", wall_clock(text)))?
    } else {
        wall_clock(text).ok_or_else(|| mismatch(text, "text with an offset", with_offset(text)))?
    };
    // The parsed form drops digits beyond nanoseconds, so precision is judged by the text.
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    if fraction.bytes().take_while(u8::is_ascii_digit).skip(6).any(|digit| digit != b'0') {
        return Err(MomentFault::OutOfRange(format!("{} is finer than microseconds; round it", shown(text))));
    }
    if moment.nanosecond() >= 1_000_000_000 {
        let message = format!("{} is a leap second, which has no place in a timestamp", shown(text));
        return Err(MomentFault::OutOfRange(message));
    }
    micros_in_range(moment.and_utc().timestamp_micros())
}

fn with_offset(text: &str) -> Option<NaiveDateTime> {
    DateTime::<FixedOffset>::parse_from_rfc3339(text).ok().map(|moment| moment.naive_utc())
}

fn wall_clock(text: &str) -> Option<NaiveDateTime> {
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .into_iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
}

#[cold]
fn mismatch(text: &str, other: &str, reading: Option<NaiveDateTime>) -> MomentFault {
    other_form(if reading.is_some() { other } else { "text" }, text)
}

#[cold]
fn other_form(form: &str, text: &str) -> MomentFault {
    MomentFault::OtherForm(format!("{form}: {}", shown(text)))
}

#[cold]
fn outside(count: i64, unit: &str) -> MomentFault {
    MomentFault::OutOfRange(format!("`{count}` {unit} since 1970 lie outside of the years 1 to 9999"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_the_range_are_those_of_the_calendar() {
        assert_eq!(parse_timestamp("0001-01-01T00:00:00Z", true), Ok(MIN_MICROS));
        assert_eq!(parse_timestamp("9999-12-31 23:59:59.999999", false), Ok(MAX_MICROS));
        assert_eq!((parse_date("0001-01-01"), parse_date("9999-12-31")), (Ok(MIN_DAYS), Ok(MAX_DAYS)));
        for text in ["0000-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999-00:01"] {
            assert!(matches!(parse_timestamp(text, true), Err(MomentFault::OutOfRange(_))), "{text}");
        }
        for text in ["0000-12-31", "+10000-01-01", "+262142-12-31", "-262143-01-01"] {
            assert!(matches!(parse_date(text), Err(MomentFault::OutOfRange(_))), "{text}");
        }
    }

    #[test]
    fn a_text_of_the_other_kind_is_named() {
        let form = |text, aware| match parse_timestamp(text, aware) {
            Err(MomentFault::OtherForm(form)) => form,
            other => panic!("{other:?}"),
        };
        assert_eq!(form("1970-01-01T00:00:00", true), "text without an offset: `1970-01-01T00:00:00`");
        assert_eq!(form("1970-01-01T00:00:00Z", false), "text with an offset: `1970-01-01T00:00:00Z`");
        assert_eq!(form("yesterday", true), "text: `yesterday`");
        assert_eq!(form(&"é".repeat(41), false), format!("text: `{}…`", "é".repeat(40)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([+-]?[0-9]{1,6}-[0-9]{2}-[0-9]{2}[Tt ]?[0-9:.]{0,16}[Zz+]?)|.{0,20}") {
            let _ = parse_date(&text);
            let kinds = [true, false].map(|aware| parse_timestamp(&text, aware));
            prop_assert!(kinds.iter().flatten().count() <= 1, "{} is both", text);
        }
    }
}
