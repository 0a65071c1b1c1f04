//! A store's schema as a value.
//!
//! Declared once, validated before anything is created, persisted in the dataset, immutable. Two
//! declarations are equal when they mean the same: order, spelled-out defaults and metric aliases do
//! not count. The JSON form is read by `parse` and written by `json`; the rules live in
//! `crate::validate`.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::query::OrderBy;
use crate::validate;

mod diff;
mod json;
mod parse;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;

pub use suggest::closest;

/// The key column of a schema that names no other.
pub const ID: &str = "id";

/// How the distance of two vectors is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Metric {
    /// Euclidean distance (`l2`, `euclidean`).
    #[default]
    L2,
    /// Cosine distance (`cosine`).
    Cosine,
    /// Negated inner product (`dot`, `dot_product`).
    Dot,
}

impl Metric {
    /// The canonical name, as the persisted schema spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::Cosine => "cosine",
            Self::Dot => "dot",
        }
    }
}

/// How the components of a vector are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VectorType {
    /// Single precision.
    #[default]
    Float32,
    /// Half precision.
    Float16,
}

impl VectorType {
    /// The name, as a declaration spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
        }
    }
}

/// The fields of a struct. Equal by meaning: their order does not count.
#[derive(Debug, Clone)]
pub struct Fields(pub Vec<ColumnSpec>);

impl Fields {
    /// The field of exactly this name, with its position.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(usize, &ColumnSpec)> {
        self.0.iter().enumerate().find(|(_, field)| field.name == name)
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().all(|field| other.get(&field.name).is_some_and(|(_, same)| same == field))
    }
}

/// The type of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnType {
    /// Text; `large` allows more than 2 GiB a batch.
    String {
        /// 64-bit offsets.
        large: bool,
    },
    /// A signed 8-bit integer.
    Int8,
    /// A signed 16-bit integer.
    Int16,
    /// A signed 32-bit integer.
    Int32,
    /// A signed 64-bit integer.
    Int64,
    /// An unsigned 8-bit integer.
    UInt8,
    /// An unsigned 16-bit integer.
    UInt16,
    /// An unsigned 32-bit integer.
    UInt32,
    /// An unsigned 64-bit integer.
    UInt64,
    /// A half-precision float.
    Float16,
    /// A single-precision float.
    Float32,
    /// A double-precision float.
    Float64,
    /// A truth value.
    Bool,
    /// Microseconds; with `utc`, an instant, otherwise a wall-clock reading without offset.
    Timestamp {
        /// Whether values are instants (tz = "UTC") or naive.
        utc: bool,
    },
    /// A day of the calendar, in the years 1 to 9999.
    Date,
    /// A decimal number of fixed precision, exact.
    Decimal {
        /// How many digits it has at most.
        precision: u8,
        /// How many of them lie behind the point.
        scale: u8,
    },
    /// Any JSON value, kept as its exact text.
    Json,
    /// Bytes, always stored inline. A blob is left out of default projections.
    Binary {
        /// Whether `list` leaves the column out.
        blob: bool,
    },
    /// A vector of fixed length.
    Vector {
        /// Number of components.
        dim: u32,
        /// Distance measure.
        metric: Metric,
        /// How a component is stored.
        dtype: VectorType,
    },
    /// A list of scalars or of structs.
    List {
        /// Type of the elements.
        item: Box<ColumnType>,
    },
    /// Scalars by name.
    Struct {
        /// Their declarations.
        fields: Fields,
    },
}

impl ColumnType {
    /// Whether default projections leave the column out.
    #[must_use]
    pub const fn is_blob(&self) -> bool {
        matches!(self, Self::Binary { blob: true })
    }

    /// Whether one value comes before another.
    #[must_use]
    pub const fn is_ordered(&self) -> bool {
        !matches!(
            self,
            Self::Json | Self::Binary { blob: true } | Self::Vector { .. } | Self::List { .. } | Self::Struct { .. }
        )
    }

    /// The type for messages, such as `float32`, `vector(768)` or `timestamp(us, UTC)`.
    ///
    /// Two types have the same description exactly when they are equal.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::String { large: false } => "string".into(),
            Self::String { large: true } => "string(large)".into(),
            Self::Int8 => "int8".into(),
            Self::Int16 => "int16".into(),
            Self::Int32 => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::UInt8 => "uint8".into(),
            Self::UInt16 => "uint16".into(),
            Self::UInt32 => "uint32".into(),
            Self::UInt64 => "uint64".into(),
            Self::Float16 => "float16".into(),
            Self::Float32 => "float32".into(),
            Self::Float64 => "float64".into(),
            Self::Bool => "bool".into(),
            Self::Timestamp { utc: true } => "timestamp(us, UTC)".into(),
            Self::Timestamp { utc: false } => "timestamp(us, naive)".into(),
            Self::Date => "date".into(),
            Self::Decimal { precision, scale } => format!("decimal({precision}, {scale})"),
            Self::Json => "json".into(),
            Self::Binary { blob: false } => "binary".into(),
            Self::Binary { blob: true } => "binary(blob)".into(),
            Self::Vector { dim, metric, dtype } => {
                let metric = if *metric == Metric::L2 { String::new() } else { format!(", {}", metric.name()) };
                let dtype = if *dtype == VectorType::Float32 { String::new() } else { format!(", {}", dtype.name()) };
                format!("vector({dim}{metric}{dtype})")
            }
            Self::List { item } => format!("list({})", item.describe()),
            Self::Struct { fields } => {
                let mut described: Vec<_> = fields.0.iter().map(ColumnSpec::describe).collect();
                described.sort_unstable();
                format!("struct({})", described.join(", "))
            }
        }
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSpec {
    /// Its name, exactly as declared.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// Whether a row may leave it null.
    pub nullable: bool,
}

impl ColumnSpec {
    /// Name and type of a struct's field, for messages.
    fn describe(&self) -> String {
        let null = if self.nullable { "" } else { " not null" };
        format!("{:?} {}{null}", self.name, self.column_type.describe())
    }
}

/// A validated schema. Columns keep the order of the declaration.
#[derive(Debug, Clone)]
pub struct SchemaSpec {
    key: String,
    columns: Vec<ColumnSpec>,
    positions: HashMap<String, usize>,
}

impl SchemaSpec {
    /// A schema of these columns, in this order.
    ///
    /// # Errors
    /// `InvalidColumn` or `InvalidSchema` for the first rule of the declaration that is broken.
    pub fn new(columns: Vec<ColumnSpec>) -> Result<Self> {
        Self::keyed(ID, columns)
    }

    /// As [`SchemaSpec::new`], with `key` in place of `id` as the key column: declared, a plain string, not null.
    ///
    /// # Errors
    /// As [`SchemaSpec::new`].
    pub fn keyed(key: &str, columns: Vec<ColumnSpec>) -> Result<Self> {
        validate::schema(key, &columns)?;
        let positions = columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at)).collect();
        Ok(Self { key: key.to_owned(), columns, positions })
    }

    /// Reads a declaration: a JSON object from column names to a type name (`"float32"`) or a
    /// tagged form (`{"type": "vector", "dim": 768, "nullable": false}`), in any mixture.
    ///
    /// # Errors
    /// `InvalidSchema` for text that is no such object, otherwise as [`SchemaSpec::new`]; unknown and
    /// repeated keys are refused at every level.
    pub fn parse(json: &str) -> Result<Self> {
        Self::parse_keyed(ID, json)
    }

    /// As [`SchemaSpec::parse`], for a schema whose key column is `key`. The JSON form does not name the key.
    ///
    /// # Errors
    /// As [`SchemaSpec::parse`].
    pub fn parse_keyed(key: &str, json: &str) -> Result<Self> {
        Self::keyed(key, parse::columns(json, key)?)
    }

    /// The canonical declaration: tagged, in declaration order, with every default spelled out, so
    /// that a persisted schema keeps its meaning. [`SchemaSpec::parse`] reads it back.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::write(&self.columns)
    }

    /// The column by which rows are told apart.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The columns in declaration order.
    #[must_use]
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.columns
    }

    /// The column of exactly this name, with its position.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<(usize, &ColumnSpec)> {
        let at = *self.positions.get(name)?;
        Some((at, self.columns.get(at)?))
    }

    /// The column names in declaration order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The declarations of the columns in `names` alone, in this order: the shape of a part of a row.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        let columns: Vec<_> = self.columns.iter().filter(|column| names.contains(&column.name)).cloned().collect();
        let positions = columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at)).collect();
        Self { key: self.key.clone(), columns, positions }
    }

    /// How this declaration differs in meaning from the `stored` one, as a clause for an error
    /// message; `None` when they mean the same.
    #[must_use]
    pub fn diff(&self, stored: &Self) -> Option<String> {
        diff::describe(self, stored)
    }

    /// The declared name that `name` is probably a misspelling of.
    #[must_use]
    pub fn suggest(&self, name: &str) -> Option<String> {
        suggest::closest(name, self.columns.iter().map(|column| column.name.as_str())).map(str::to_owned)
    }

    /// The columns that a read returns unless told otherwise: the key, then all others in declaration
    /// order but blobs.
    #[must_use]
    pub fn default_projection(&self) -> Vec<String> {
        let others = self.columns.iter().filter(|column| column.name != self.key && !column.column_type.is_blob());
        std::iter::once(self.key.clone()).chain(others.map(|column| column.name.clone())).collect()
    }

    /// The columns that a read returns when asked for `columns`: the key first, then each named column
    /// once, in the order of the request. `None` asks for the default projection.
    ///
    /// # Errors
    /// `QueryColumn` for a name that is not declared.
    pub fn resolve_projection(&self, columns: Option<&[String]>) -> Result<Vec<String>> {
        let Some(requested) = columns else {
            return Ok(self.default_projection());
        };
        let mut taken = vec![false; self.columns.len()];
        let mut resolved = vec![self.key.clone()];
        for name in requested {
            let (at, _) = self.column(name).ok_or_else(|| self.unknown_query_column(name))?;
            if *name != self.key && !std::mem::replace(&mut taken[at], true) {
                resolved.push(name.clone());
            }
        }
        Ok(resolved)
    }

    /// The order that `order_by` asks for; see [`crate::Query::order_by`].
    ///
    /// # Errors
    /// `QueryColumn` for a name that is not declared, `InvalidQuery` for a column that is named twice or whose type has
    /// no order.
    pub fn resolve_order(&self, order_by: &[String]) -> Result<Vec<OrderBy>> {
        let mut order: Vec<OrderBy> = Vec::with_capacity(order_by.len());
        for text in order_by {
            // A name may begin with a `-` itself.
            let (name, descending) = match text.strip_prefix('-') {
                Some(name) if self.column(text).is_none() => (name, true),
                _ => (text.as_str(), false),
            };
            let (_, column) = self.column(name).ok_or_else(|| self.unknown_query_column(name))?;
            let refused = |message| Err(Error::InvalidQuery { message });
            if !column.column_type.is_ordered() {
                let described = column.column_type.describe();
                return refused(format!("rows cannot be ordered by column `{name}`: a {described} has no order"));
            }
            if order.iter().any(|before| before.column == name) {
                return refused(format!("`order_by` names column `{name}` twice"));
            }
            order.push(OrderBy { column: name.to_owned(), descending });
        }
        Ok(order)
    }

    fn unknown_query_column(&self, name: &str) -> Error {
        Error::QueryColumn { column: name.to_owned(), suggestion: self.suggest(name), known: self.names() }
    }
}

/// Equal by meaning: the order of columns does not count.
impl PartialEq for SchemaSpec {
    fn eq(&self, other: &Self) -> bool {
        diff::equal(self, other)
    }
}
