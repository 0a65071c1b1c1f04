//! One tagged value of an item: an integer, a float, a truth value, text, JSON or a blob.

use xxhash_rust::xxh3::xxh3_64;

use super::canonical::Canonical;
use super::json;
use crate::Value;
use crate::error::{Error, Result};

/// A tagged value. Equal when kind and content are; floats by their bits.
#[derive(Debug, Clone)]
pub enum Cell {
    /// An integer.
    Int(i64),
    /// A float, every bit pattern of it.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Str(String),
    /// JSON, as exact text.
    Json(String),
    /// Bytes, which most reads leave out.
    Blob {
        /// The bytes; `None` when not loaded.
        bytes: Option<Vec<u8>>,
        /// Their number.
        size: i64,
        /// Their xxh3 (64 bits) as 16 lower-case hex digits.
        checksum: String,
    },
}

impl Cell {
    /// The names of the kinds.
    pub const KINDS: [&'static str; 6] = ["int", "float", "bool", "str", "json", "blob"];

    /// A loaded blob with its size and checksum.
    #[must_use]
    pub fn blob(bytes: Vec<u8>) -> Self {
        let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        Self::Blob { size, checksum: checksum(&bytes), bytes: Some(bytes) }
    }

    /// The name of the kind, as stored.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Bool(_) => "bool",
            Self::Str(_) => "str",
            Self::Json(_) => "json",
            Self::Blob { .. } => "blob",
        }
    }

    /// A cell of the kind named `kind` that is no blob.
    ///
    /// # Errors
    /// The message: an unknown kind, or a value that is not of it.
    pub fn tagged(kind: &str, value: Value<'_>) -> std::result::Result<Self, String> {
        match (kind, value) {
            ("int", Value::Int(v)) => {
                i64::try_from(v).map(Self::Int).map_err(|_| format!("`{v}` does not fit into 64 bits; tag it `json`"))
            }
            ("float", Value::Float(v)) => Ok(Self::Float(v)),
            ("bool", Value::Bool(v)) => Ok(Self::Bool(v)),
            ("str", Value::Str(v)) => Ok(Self::Str(v.into_owned())),
            ("json", Value::Json(v)) => {
                json::check(&v)?;
                Ok(Self::Json(v.into_owned()))
            }
            ("blob", Value::Bytes(v)) => Ok(Self::blob(v.into_owned())),
            (kind, value) if Self::KINDS.contains(&kind) => {
                Err(format!("the kind is `{kind}` and the value is {}", value.kind_name()))
            }
            (kind, _) => Err(format!("unknown kind `{kind}`; the kinds are {}", Self::KINDS.join(", "))),
        }
    }

    /// A blob from its parts. Size and checksum follow from the bytes when those are there, and must
    /// agree with them.
    ///
    /// # Errors
    /// The message: parts that contradict each other, or neither bytes nor both of the others.
    pub fn blob_of(
        bytes: Option<Vec<u8>>,
        size: Option<i64>,
        checksum: Option<String>,
    ) -> std::result::Result<Self, String> {
        let Some(bytes) = bytes else {
            let (Some(size), Some(checksum)) = (size, checksum) else {
                return Err("a blob needs `bytes`, or `size` and `checksum` of bytes sent before".to_owned());
            };
            return Ok(Self::Blob { bytes: None, size, checksum });
        };
        let blob = Self::blob(bytes);
        if let Self::Blob { size: real_size, checksum: real_checksum, .. } = &blob {
            if size.is_some_and(|size| size != *real_size) {
                return Err(format!("the blob has {real_size} bytes, and `size` says otherwise"));
            }
            if checksum.is_some_and(|checksum| checksum != *real_checksum) {
                return Err(format!("the blob's checksum is `{real_checksum}`, and `checksum` says otherwise"));
            }
        }
        Ok(blob)
    }

    /// Whether this is a blob whose bytes are not here.
    #[must_use]
    pub const fn is_unloaded(&self) -> bool {
        matches!(self, Self::Blob { bytes: None, .. })
    }

    /// The same value without a blob's bytes.
    #[must_use]
    pub fn unloaded(self) -> Self {
        match self {
            Self::Blob { size, checksum, .. } => Self::Blob { bytes: None, size, checksum },
            other => other,
        }
    }

    /// Compares a blob's bytes with its size and checksum; every other value passes.
    ///
    /// # Errors
    /// `BlobDamaged` naming the event.
    pub fn verify(&self, event_id: &str) -> Result<()> {
        match self {
            Self::Blob { bytes: Some(bytes), size, checksum: stored }
                if i64::try_from(bytes.len()) != Ok(*size) || checksum(bytes) != *stored =>
            {
                Err(Error::BlobDamaged {
                    event_id: event_id.to_owned(),
                    message: format!("{} bytes of {size}, checksum `{}` of `{stored}`", bytes.len(), checksum(bytes)),
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn write_canonical(&self, out: &mut Canonical) {
        out.text(self.kind());
        match self {
            Self::Int(v) => out.number(*v),
            Self::Float(v) => out.raw(&v.to_bits().to_be_bytes()),
            Self::Bool(v) => out.raw(&[u8::from(*v)]),
            Self::Str(v) | Self::Json(v) => out.text(v),
            Self::Blob { size, checksum, .. } => {
                out.number(*size);
                out.text(checksum);
            }
        }
    }
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Str(a), Self::Str(b)) | (Self::Json(a), Self::Json(b)) => a == b,
            (Self::Blob { bytes, size, checksum }, Self::Blob { bytes: b, size: s, checksum: c }) => {
                (bytes, size, checksum) == (b, s, c)
            }
            _ => false,
        }
    }
}

/// The checksum of a blob's bytes.
fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tagged_values_are_of_their_kind() {
        assert_eq!(Cell::tagged("int", Value::Int(5)), Ok(Cell::Int(5)));
        assert_eq!(Cell::tagged("json", Value::Json("[1]".into())), Ok(Cell::Json("[1]".to_owned())));
        assert_eq!(Cell::tagged("blob", Value::Bytes(vec![1].into())), Ok(Cell::blob(vec![1])));
        for (kind, value, part) in [
            ("int", Value::Int(1 << 64), "64 bits"),
            ("int", Value::Bool(true), "bool"),
            ("float", Value::Int(1), "int"),
            ("json", Value::Json("{".into()), "JSON"),
            ("json", Value::Str("{}".into()), "str"),
            ("text", Value::Str("x".into()), "unknown kind `text`"),
        ] {
            let message = Cell::tagged(kind, value).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn the_parts_of_a_blob_agree() {
        let Cell::Blob { size, checksum, .. } = Cell::blob(b"abc".to_vec()) else { panic!("no blob") };
        // xxhsum -H3 of `abc`.
        assert_eq!((size, checksum.as_str()), (3, "78af5f94892f3950"));
        let of = |bytes: Option<&[u8]>, size, checksum: Option<&str>| {
            Cell::blob_of(bytes.map(<[u8]>::to_vec), size, checksum.map(str::to_owned))
        };
        assert_eq!(of(Some(b"abc"), None, None), Ok(Cell::blob(b"abc".to_vec())));
        assert_eq!(of(Some(b"abc"), Some(3), Some(&checksum)), Ok(Cell::blob(b"abc".to_vec())));
        assert_eq!(of(None, Some(3), Some(&checksum)), Ok(Cell::blob(b"abc".to_vec()).unloaded()));
        assert!(of(Some(b"abc"), Some(2), None).is_err());
        assert!(of(Some(b"abc"), None, Some("00")).is_err());
        assert!(of(None, Some(3), None).is_err());
        assert!(of(None, None, Some(&checksum)).is_err());
    }

    #[test]
    fn floats_are_equal_by_their_bits() {
        assert_eq!(Cell::Float(f64::NAN), Cell::Float(f64::NAN));
        assert_ne!(Cell::Float(0.0), Cell::Float(-0.0));
        assert_ne!(Cell::Int(1), Cell::Float(1.0));
    }
}
