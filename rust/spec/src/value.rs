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
    /// A vector of float32 components.
    Vector(Cow<'a, [f32]>),
    /// A list of cells of one type.
    List(Vec<Value<'a>>),
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
            Self::Vector(v) => Value::Vector(Cow::Owned(v.into_owned())),
            Self::List(v) => Value::List(v.into_iter().map(Value::into_owned).collect()),
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
            Self::Vector(_) => "vector",
            Self::List(_) => "list",
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
