//! The one JSON form of rows: the same in files of JSON lines, in requests and in answers.
//!
//! A row is one JSON object on one line. Every cell comes back as it went in, bit by bit:
//!
//! | type | JSON | also read |
//! |---|---|---|
//! | string | string | |
//! | integers | number without fraction or exponent, exact to the last digit | |
//! | floats | the shortest number that reads back as the same float; `"NaN"`, `"Infinity"`, `"-Infinity"`; a NaN of other bits as `"NaN:7ff8000000000001"`, its 16 hexadecimal digits | an integer that the float holds exactly |
//! | bool | `true`, `false` | |
//! | date | `"2026-01-31"` | |
//! | timestamp | `"2026-01-31T12:00:00.000001Z"`, six digits of a second or none; a naive one without the `Z` | any RFC 3339 offset |
//! | decimal | string with as many digits behind the point as declared, `"1.50"` | fewer digits, an exponent; a number |
//! | json | the JSON value as its text has it, with every digit and in its order, within the limits of [`crate::json`]; line breaks between its tokens are left out | |
//! | binary | string, base64 with padding | base64 without padding |
//! | vector | list of numbers; a NaN of other bits with the 8 digits of its float32 | as floats |
//! | list | list of the item's form | |
//! | struct | object of the fields' forms | |
//! | null | `null` | a column or a field left out |
//!
//! The null of JSON in a json column is that column's null. [`RowWriter`] writes, [`RowReader`] reads by the
//! declared types. Whether a cell fits its column (range, nulls,
//! length) is the codec's to say, as for cells from anywhere else.

mod read;
#[cfg(test)]
mod tests;
mod text;
mod write;

pub use read::RowReader;
pub use write::RowWriter;

use crate::moment::MomentFault;

/// Why a cell has no JSON form, or a JSON value is no cell. The caller knows the row and the column.
#[derive(Debug)]
enum Misfit {
    /// It is of another type; the text says what it is.
    WrongType(String),
    /// The type cannot hold it; the text says why.
    OutOfRange(String),
}

impl From<MomentFault> for Misfit {
    fn from(fault: MomentFault) -> Self {
        match fault {
            MomentFault::OtherForm(got) => Self::WrongType(got),
            MomentFault::OutOfRange(message) => Self::OutOfRange(message),
        }
    }
}

impl Misfit {
    /// The same, of the element at `index` of a list.
    #[cold]
    fn at(self, index: usize) -> Self {
        match self {
            Self::WrongType(got) => Self::WrongType(format!("{got} at index {index}")),
            Self::OutOfRange(message) => Self::OutOfRange(format!("at index {index}: {message}")),
        }
    }

    /// The same, of a field of a struct.
    #[cold]
    fn in_field(self, name: &str) -> Self {
        match self {
            Self::WrongType(got) => Self::WrongType(format!("{got} in field `{name}`")),
            Self::OutOfRange(message) => Self::OutOfRange(format!("in field `{name}`: {message}")),
        }
    }
}
