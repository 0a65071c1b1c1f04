//! What a json column takes: any JSON value that every reader can follow, kept as its exact text.
//!
//! Whoever makes a [`Value::Json`](crate::Value::Json) keeps this rule: text is checked here, and objects of Python
//! are held to the same limit while their text is made.

use serde::de::IgnoredAny;

use crate::value::shown;

/// Most levels of lists and objects in a JSON value.
pub const MAX_DEPTH: usize = 128;
/// Most digits of an integer: no more are read by Python.
/// <https://docs.python.org/3/library/stdtypes.html#integer-string-conversion-length-limitation>
const MAX_INTEGER_DIGITS: usize = 4_300;

/// Why a text is no cell of a json column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// It is not one JSON value; shows its beginning.
    #[error("{0} is no JSON")]
    NoJson(String),
    /// It has more than [`MAX_DEPTH`] levels.
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A number with a fraction or an exponent is larger than every float, where readers would have an infinity.
    #[error("the number {0} is beyond a float's range; store it as a string")]
    NoFloat(String),
    /// An integer has more digits than readers take.
    #[error("the integer {0} has more than {MAX_INTEGER_DIGITS} digits; store it as a string")]
    TooLong(String),
}

/// Whether `text` is a JSON value within the limits.
///
/// # Errors
/// The first [`JsonFault`].
pub fn check(text: &str) -> Result<(), JsonFault> {
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| JsonFault::NoJson(shown(text)))?;
    check_limits(text)
}

/// As [`check`], for a text that is known to be JSON.
pub(crate) fn check_limits(json: &str) -> Result<(), JsonFault> {
    let (mut depth, mut rest) = (0usize, json);
    while let Some(at) = rest.find(|c| matches!(c, '[' | ']' | '{' | '}' | '"' | '-' | '0'..='9')) {
        let token = &rest[at..];
        let length = match token.as_bytes()[0] {
            b'[' | b'{' => {
                depth += 1;
                1
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                1
            }
            b'"' => string_length(token),
            _ => number_length(token)?,
        };
        if depth > MAX_DEPTH {
            return Err(JsonFault::TooDeep);
        }
        rest = &token[length..];
    }
    Ok(())
}

/// The length of the string that `text` begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => byte == b'"',
    });
    end.map_or(text.len(), |inner| inner + 2)
}

/// The length of the number that `text` begins with.
fn number_length(text: &str) -> Result<usize, JsonFault> {
    let end = text.find(|c| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(text.len());
    let number = &text[..end];
    if !number.contains(['.', 'e', 'E']) {
        let digits = number.len() - usize::from(number.starts_with('-'));
        return if digits > MAX_INTEGER_DIGITS { Err(JsonFault::TooLong(shown(number))) } else { Ok(end) };
    }
    if number.parse().is_ok_and(f64::is_finite) { Ok(end) } else { Err(JsonFault::NoFloat(shown(number))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `levels` lists and objects, alternating, around `inner`.
    fn nested(levels: usize, inner: &str) -> String {
        (0..levels).fold(inner.to_owned(), |text, level| {
            if level % 2 == 0 { format!("[ {text}]") } else { format!("{{\"[\\\"{{\": {text}}}") }
        })
    }

    #[test]
    fn levels_are_counted_and_brackets_in_strings_are_none() {
        for inner in ["", "1", r#""[[{\\""#, r#""\"[""#] {
            assert_eq!(check(&nested(MAX_DEPTH - 1, &format!("[{inner}]"))), Ok(()), "{inner}");
            assert_eq!(check(&nested(MAX_DEPTH, &format!("[{inner}]"))), Err(JsonFault::TooDeep), "{inner}");
        }
        assert_eq!(check(&format!("\"{}\"", "[".repeat(MAX_DEPTH + 1))), Ok(()));
        assert_eq!(check(&format!("[{}1]", "[[]],".repeat(MAX_DEPTH + 1))), Ok(()));
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(check(&deep), Err(JsonFault::TooDeep));
    }

    #[test]
    fn what_is_no_json_is_shown() {
        for text in ["", "{", "NaN", "1 2", "[\"]", "\"\\\""] {
            assert_eq!(check(text), Err(JsonFault::NoJson(format!("`{text}`"))));
        }
        assert_eq!(check(&"[".repeat(50)).unwrap_err().to_string(), format!("`{}…` is no JSON", "[".repeat(40)));
    }

    #[test]
    fn numbers_are_those_that_readers_can_hold() {
        let digits = "9".repeat(MAX_INTEGER_DIGITS);
        let fraction = format!("1{}.0", "0".repeat(308));
        for number in ["1.7976931348623157e308", "-0.0", "1e-400", "0e999999", "1E+2", "18446744073709551616"]
            .into_iter()
            .chain([digits.as_str(), fraction.as_str()])
        {
            assert_eq!(check(number), Ok(()), "{number}");
            assert_eq!(
                check(&format!("{{\"1e400\": [ -{} ,1e2]}}", number.trim_start_matches('-'))),
                Ok(()),
                "{number}"
            );
        }
        for number in ["1e400", "-1E400", "1.8e308", "10000000000000000000000e999999999999", &format!("1{fraction}")] {
            assert_eq!(check(number), Err(JsonFault::NoFloat(shown(number))));
            assert_eq!(check(&format!("[1,{{\"a\":{number}}}]")), Err(JsonFault::NoFloat(shown(number))));
        }
        for number in [format!("1{digits}"), format!("-1{digits}")] {
            assert_eq!(check(&format!("[{number}]")), Err(JsonFault::TooLong(shown(&number))));
        }
        assert_eq!(check(&format!("\"1e400 {digits}0\"")), Ok(()));
    }
}
