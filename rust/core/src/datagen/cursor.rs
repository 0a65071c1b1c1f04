//! The order in which events became durable, which their own columns do not tell.
//!
//! Every event is stored with the shard that it went to, the epoch of the shard's writer, and its number under that
//! epoch. Within a shard (epoch, number) only grows, so what a reader has seen of each shard is its cursor.

use std::collections::BTreeMap;

use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::prelude::{Expr, ident, lit};
use lance_context_spec::{ColumnSpec, ColumnType, Error, OrderBy, Result, Value};

pub(super) const SHARD: &str = "log_shard";
pub(super) const EPOCH: &str = "log_epoch";
pub(super) const NUMBER: &str = "log_number";

/// The columns beside those of events.
pub(super) fn columns() -> impl Iterator<Item = ColumnSpec> {
    let column = |name: &str, column_type| ColumnSpec { name: name.to_owned(), column_type, nullable: false };
    let text = ColumnType::String { large: false };
    [column(SHARD, text), column(EPOCH, ColumnType::Int64), column(NUMBER, ColumnType::Int64)].into_iter()
}

/// Where events go: the shard, its writer's epoch, and the number before the first of them.
#[derive(Debug, Clone)]
pub(super) struct Stamp {
    pub shard: String,
    pub epoch: i64,
    pub before: i64,
}

impl Stamp {
    /// The cells of the event at `index`.
    pub fn cells(&self, index: usize) -> [(&'static str, Value<'_>); 3] {
        let number = i128::from(self.before) + 1 + index as i128;
        [
            (SHARD, Value::Str(self.shard.as_str().into())),
            (EPOCH, Value::Int(self.epoch.into())),
            (NUMBER, Value::Int(number)),
        ]
    }
}

/// The last event seen of each shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor(BTreeMap<String, (i64, i64)>);

impl Cursor {
    /// Reads the text of a cursor.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map(Self).map_err(|_| Error::InvalidArgument {
            argument: "since".to_owned(),
            message: format!("`{text:.60}` is no cursor; pass one that came with an event"),
        })
    }

    /// The text that [`Cursor::parse`] reads.
    pub fn text(&self) -> String {
        // A map of texts and numbers always has a JSON form.
        serde_json::to_string(&self.0).unwrap_or_default()
    }

    /// Moves to an event.
    pub fn advance(&mut self, shard: &str, epoch: i64, number: i64) {
        self.0.insert(shard.to_owned(), (epoch, number));
    }

    /// The condition that events behind the cursor fulfil.
    pub fn condition(&self) -> Option<Expr> {
        if self.0.is_empty() {
            return None;
        }
        let known = self.0.keys().map(|shard| lit(shard.as_str())).collect();
        let behind = self.0.iter().map(|(shard, (epoch, number))| {
            let later = ident(EPOCH).gt(lit(*epoch));
            let same = ident(EPOCH).eq(lit(*epoch)).and(ident(NUMBER).gt(lit(*number)));
            conjunction([ident(SHARD).eq(lit(shard.as_str())), later.or(same)])
        });
        disjunction(behind.flatten().chain([ident(SHARD).in_list(known, true)]))
    }

    /// The order of cursors.
    pub fn order() -> Vec<OrderBy> {
        [SHARD, EPOCH, NUMBER].map(|column| OrderBy { column: column.to_owned(), descending: false }).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_text() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.condition(), None);
        cursor.advance("b", 2, 7);
        cursor.advance("a", 1, 3);
        cursor.advance("a", 1, 4);
        assert_eq!(cursor.text(), r#"{"a":[1,4],"b":[2,7]}"#);
        assert_eq!(Cursor::parse(&cursor.text()).unwrap(), cursor);
        for text in ["", "x", "[]", r#"{"a":1}"#, r#"{"a":[1]}"#] {
            assert_eq!(Cursor::parse(text).unwrap_err().code(), "invalid-argument", "{text}");
        }
    }
}
