//! Rows to Arrow and back, matched by name both ways.
//!
//! [`RowEncoder`] checks every cell against the schema and appends it to a typed builder;
//! [`ColumnReader`] borrows cells out of an array by its Arrow type
//! alone; [`conform`] takes Arrow data of other producers. Nothing is rounded,
//! truncated or dropped on the way: a cell comes back as it went in, or going in is an error that
//! names row and column. Knows nothing of storage.

mod arrow_schema;
mod binary;
mod cells;
mod conform;
mod decode;
mod encode;
mod nested;
mod number;
mod scalar;
#[cfg(test)]
mod tests;

pub use arrow_schema::arrow_schema;
pub use conform::conform;
pub use decode::ColumnReader;
pub use encode::{RowEncoder, unknown_column};
pub use scalar::value_to_scalar;
