//! What a json column takes: any JSON value that every reader can follow, kept as its exact text.
//!
//! Whoever makes a [`Value::Json`](crate::Value::Json) keeps this rule: text is checked here, and objects of Python
//! are held to the same limit while their text is made.

use serde::de::IgnoredAny;

use crate::value::shown;

/// Most levels of lists and objects in a JSON value.
pub const MAX_DEPTH: usize = 128;

/// Why a text is no cell of a json column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// It is not one JSON value; shows its beginning.
    #[error("{0} is no JSON")]
    NoJson(String),
    /// It has more than [`MAX_DEPTH`] levels.
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
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
    while let Some(at) = rest.find(['[', ']', '{', '}', '"']) {
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
            _ => string_length(token),
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
}
