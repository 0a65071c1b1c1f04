//! Writes that depend on what is stored.
//!
//! The writer task plans an edit on the latest rows while it owns the shard, and writes it. If another
//! writer comes in between, the write is fenced and the edit is planned again on what that one left: the
//! fence works as a compare-and-swap. In one process the task does one edit after another.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::Expr;
use futures::FutureExt;
use futures::future::BoxFuture;
use lance_context_spec::{Error, OnConflict, ReadMode, Result};

use super::payload::Payload;
use super::{Inner, MAX_ADD_ROWS};

/// Up to this many keys are looked up one by one; more are looked for in one scan of the key column.
const LOOKED_UP_KEYS: usize = 256;

/// Lookups that run at once.
pub(super) const CONCURRENT_LOOKUPS: usize = 8;

/// Makes the new row of a stored one; both are batches of one row with every column.
pub type Change = Arc<dyn Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync>;

/// A write that is planned on what is stored.
pub(super) enum Edit {
    /// Rows whose keys are new. What happens to others is said; never [`OnConflict::Replace`].
    Insert(RecordBatch, OnConflict),
    Update(String, Change),
    Delete(Vec<String>),
    DeleteWhere(Expr),
}

impl std::fmt::Debug for Edit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Insert(batch, on_conflict) => write!(f, "Insert({} rows, {on_conflict:?})", batch.num_rows()),
            Self::Update(key, _) => write!(f, "Update({key})"),
            Self::Delete(keys) => write!(f, "Delete({} keys)", keys.len()),
            Self::DeleteWhere(filter) => write!(f, "DeleteWhere({filter})"),
        }
    }
}

impl Edit {
    /// Whether one plan may leave something for the next.
    pub fn is_repeated(&self) -> bool {
        matches!(self, Self::DeleteWhere(_))
    }

    /// What to write, given the latest rows.
    ///
    /// Boxed, because the compiler loses track of what is `Send` through the task's many layers.
    pub fn plan<'a>(&'a self, inner: &'a Inner) -> BoxFuture<'a, Result<Payload>> {
        self.planned(inner).boxed()
    }

    async fn planned(&self, inner: &Inner) -> Result<Payload> {
        match self {
            Self::Insert(batch, on_conflict) => inner.plan_insert(batch, *on_conflict).await,
            Self::Update(key, change) => {
                let stored = inner.get(key, &inner.schema.names(), Some(ReadMode::Latest)).await?;
                let missing = || Error::RowNotFound { store: inner.store().to_owned(), key: key.clone() };
                Ok(Payload::Rows(vec![change(&stored.ok_or_else(missing)?)?]))
            }
            Self::Delete(keys) => {
                let stored = inner.stored_keys(keys).await?;
                inner.deletion(stored)
            }
            Self::DeleteWhere(filter) => {
                let stored = inner.matching_keys(filter.clone(), MAX_ADD_ROWS).await?;
                inner.deletion(stored)
            }
        }
    }
}

impl Inner {
    async fn plan_insert(&self, batch: &RecordBatch, on_conflict: OnConflict) -> Result<Payload> {
        let keys = self.keys_of(batch)?;
        let wanted: Vec<String> = keys.iter().flatten().map(str::to_owned).collect();
        let mut taken = self.stored_keys(&wanted).await?;
        let mut is_new = Vec::with_capacity(wanted.len());
        for key in wanted {
            if !taken.contains(&key) {
                taken.insert(key);
                is_new.push(true);
            } else if on_conflict == OnConflict::Error {
                return Err(Error::RowExists { store: self.store().to_owned(), key });
            } else {
                is_new.push(false);
            }
        }
        let rows = filter_record_batch(batch, &BooleanArray::from(is_new)).map_err(|e| Error::Internal {
            message: "rows cannot be filtered".to_owned(),
            source: Some(Box::new(e)),
        })?;
        Ok(Payload::Rows(vec![rows]))
    }

    fn keys_of(&self, batch: &RecordBatch) -> Result<StringArray> {
        let keys = batch.column_by_name(self.kind.key).and_then(|c| c.as_string_opt::<i32>());
        keys.cloned().ok_or_else(|| Error::Internal {
            message: format!("a batch has no `{}` column of strings", self.kind.key),
            source: None,
        })
    }

    /// Those of `keys` that are stored.
    async fn stored_keys(&self, keys: &[String]) -> Result<HashSet<String>> {
        if keys.len() <= LOOKED_UP_KEYS {
            let rows = self.get_many(keys, &[self.kind.key.to_owned()], Some(ReadMode::Latest)).await?;
            return Ok(keys.iter().zip(rows).filter_map(|(key, row)| row.map(|_| key.clone())).collect());
        }
        let wanted: HashSet<&str> = keys.iter().map(String::as_str).collect();
        let mut stored = HashSet::new();
        self.each_key(None, |key| {
            if wanted.contains(key) {
                stored.insert(key.to_owned());
            }
            stored.len() < wanted.len()
        })
        .await?;
        Ok(stored)
    }

    /// Keys of at most `limit` latest rows that fulfil `filter`.
    async fn matching_keys(&self, filter: Expr, limit: usize) -> Result<HashSet<String>> {
        let mut found = HashSet::new();
        self.each_key(Some(filter), |key| {
            found.insert(key.to_owned());
            found.len() < limit
        })
        .await?;
        Ok(found)
    }

    fn deletion(&self, keys: HashSet<String>) -> Result<Payload> {
        if keys.is_empty() {
            return Ok(Payload::Keys(Vec::new()));
        }
        let schema = Arc::new(Schema::new(vec![Field::new(self.kind.key, DataType::Utf8, false)]));
        let column = Arc::new(StringArray::from_iter_values(keys));
        let batch = RecordBatch::try_new(schema, vec![column]).map_err(|e| Error::Internal {
            message: "keys do not make a batch".to_owned(),
            source: Some(Box::new(e)),
        })?;
        Ok(Payload::Keys(vec![batch]))
    }
}
