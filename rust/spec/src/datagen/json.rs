//! Exact JSON text: checking it, its canonical form, and laying one object over another.
//!
//! Text is never read into numbers, so big integers and long decimals keep every digit.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::members::Members;

/// Whether `text` is one JSON value that every reader can follow.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(text: &str) -> Result<(), String> {
    crate::json::check(text).map_err(|fault| fault.to_string())
}

/// `text` unless it is the null of JSON.
pub(super) fn not_null(text: String) -> Option<String> {
    Some(text).filter(|text| text.trim() != "null")
}

/// Whether `text` is one JSON object.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_object(text: &str) -> Result<(), String> {
    check(text)?;
    if text.trim_start().starts_with('{') { Ok(()) } else { Err("expected a JSON object".to_owned()) }
}

/// The canonical text: no blanks, members sorted by the UTF-8 of their keys, one spelling a string,
/// numbers as they are written.
///
/// # Errors
/// What is wrong with `text`: no JSON, a key given twice, or nested too deep.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    check(text)?;
    let mut out = String::with_capacity(text.len());
    write(text.trim(), &mut out)?;
    Ok(out)
}

/// Of a text that was checked, so that it is not nested too deep for a function that calls itself.
fn write(text: &str, out: &mut String) -> Result<(), String> {
    match text.as_bytes().first() {
        Some(b'{') => write_object(text, out),
        Some(b'[') => {
            let items: Vec<&RawValue> = read(text)?;
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item.get(), out)?;
            }
            out.push(']');
            Ok(())
        }
        Some(b'"') => {
            let plain: String = read(text)?;
            out.push_str(&quoted(&plain));
            Ok(())
        }
        _ => {
            out.push_str(text);
            Ok(())
        }
    }
}

fn write_object(text: &str, out: &mut String) -> Result<(), String> {
    let mut sorted = BTreeMap::new();
    for (key, value) in read::<Members<'_>>(text)?.0 {
        if sorted.insert(key.clone(), value).is_some() {
            return Err(format!("the key {} is given twice", quoted(&key)));
        }
    }
    out.push('{');
    for (at, (key, value)) in sorted.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&quoted(key));
        out.push(':');
        write(value.get(), out)?;
    }
    out.push('}');
    Ok(())
}

/// `over` laid on `under`: for two objects the members of both, `over` winning for a key of both; for
/// anything else `over` alone.
pub(super) fn overlay(under: &str, over: &str) -> String {
    let (Ok(below), Ok(above)) = (read::<Members<'_>>(under), read::<Members<'_>>(over)) else {
        return over.to_owned();
    };
    let kept = below.0.iter().filter(|(key, _)| above.0.iter().all(|(other, _)| other != key));
    let members: Vec<String> =
        kept.chain(&above.0).map(|(key, value)| format!("{}:{}", quoted(key), value.get())).collect();
    format!("{{{}}}", members.join(","))
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|e| format!("not valid JSON: {e}"))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_canonical_text() {
        let cases = [
            (r#" { "b" : 1 , "a" : [ 1 , { } ] } "#, r#"{"a":[1,{}],"b":1}"#),
            ("\"\\u0041\\/\\n\"", r#""A/\n""#),
            ("12345678901234567890123.50", "12345678901234567890123.50"),
            (r#"{"é":1,"z":2,"\u0061":3}"#, r#"{"a":3,"z":2,"é":1}"#),
            (" null ", "null"),
            (r#"{"":{"b":true,"a":-0.0}}"#, r#"{"":{"a":-0.0,"b":true}}"#),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_no_json_or_means_two_things_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in ["", "{", "NaN", "{'a':1}", r#"{"a":1,"\u0061":2}"#, "1 2", r#""\ud800""#, deep.as_str()] {
            assert!(canonical(text).is_err(), "{text}");
        }
        let very_deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert!(canonical(&very_deep).is_err());
        assert!(canonical(&("[".repeat(100) + &"]".repeat(100))).is_ok());
    }

    #[test]
    fn objects_are_laid_over_each_other_and_other_values_replace() {
        assert_eq!(overlay(r#"{"a": 1.0, "b": 2}"#, r#"{"b": [3], "c": null}"#), r#"{"a":1.0,"b":[3],"c":null}"#);
        assert_eq!(overlay(r#"{"a":1}"#, "[2]"), "[2]");
        assert_eq!(overlay("1", r#"{"a":1}"#), r#"{"a":1}"#);
    }
}
