//! What a read asks for.

use crate::{ReadMode, Value};

/// A condition over a store's columns.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// A SQL boolean expression; `$name` stands for the parameter of that name.
    Sql {
        /// The expression.
        expression: String,
        /// Parameter values by name, without the `$`.
        params: Vec<(String, Value<'static>)>,
    },
    /// Every named column equals its value (`Null` means "is null").
    Equals(Vec<(String, Value<'static>)>),
}

/// One column to order by. Nulls come last either way; NaN is greater than every number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBy {
    /// The column, exactly as declared.
    pub column: String,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// One `list` call. The default asks for every row, without blob columns, ordered by `id`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Rows must fulfil this.
    pub filter: Option<Filter>,
    /// Columns to return; `id` always comes first. `None`: all but blob columns.
    pub columns: Option<Vec<String>>,
    /// What the rows are ordered by: column names, with a `-` in front for the greatest first. Rows that are equal in
    /// all of them, and all rows if none is given, are ordered by the key.
    pub order_by: Vec<String>,
    /// At most this many rows.
    pub limit: Option<usize>,
    /// Leave out this many rows of the ordered result first.
    pub offset: usize,
    /// Only rows whose id is greater: keyset paging.
    pub after: Option<String>,
    /// Which rows are visible; `None`: the handle's default.
    pub read: Option<ReadMode>,
}
