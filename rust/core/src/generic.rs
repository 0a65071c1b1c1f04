//! The store of a schema of your own.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::prelude::Expr;
use lance_context_spec::{AddResult, Filter, MergeReport, OpenOptions, Query, ReadMode, Result, SchemaSpec, Stats};

use crate::filter::FilterPlanner;
use crate::storage::{Kind, Location, Scan, StorageBase};

const KIND: Kind = Kind { name: "generic", key: "id" };

/// Rows of a declared schema, keyed by `id`; the newest row of an id wins.
///
/// One handle serves many tasks. Every method promises what [`StorageBase`] promises.
#[derive(Debug)]
pub struct GenericStore {
    storage: StorageBase,
    filters: FilterPlanner,
}

impl GenericStore {
    /// Opens the store at `uri`, creating it with `schema` if nothing is there.
    ///
    /// # Errors
    /// As [`StorageBase::open`].
    pub async fn open(uri: &str, schema: Option<SchemaSpec>, options: OpenOptions) -> Result<Self> {
        Self::open_storage(uri, schema, false, options).await
    }

    /// Opens a store that must be there.
    ///
    /// # Errors
    /// As [`StorageBase::open`]; [`lance_context_spec::Error::StoreNotFound`] when nothing is there.
    pub async fn open_existing(uri: &str, options: OpenOptions) -> Result<Self> {
        Self::open_storage(uri, None, true, options).await
    }

    async fn open_storage(
        uri: &str,
        schema: Option<SchemaSpec>,
        must_exist: bool,
        options: OpenOptions,
    ) -> Result<Self> {
        let location = Location::parse(uri)?;
        let opening = async move { StorageBase::open(location, KIND, schema, must_exist, options).await };
        let storage = crate::task::join(crate::task::spawn(opening)).await?;
        let filters = FilterPlanner::new(Arc::clone(storage.schema()))?;
        Ok(Self { storage, filters })
    }

    /// The uri as given.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.storage.uri()
    }

    /// The persisted schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<SchemaSpec> {
        self.storage.schema()
    }

    /// Whether the handle was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.storage.is_closed()
    }

    /// Rows that this handle made durable and did not seal yet. No I/O.
    #[must_use]
    pub fn unsealed_rows(&self) -> u64 {
        self.storage.unsealed_rows()
    }

    /// Writes rows durably and atomically; see [`StorageBase::add`] for promises and errors.
    ///
    /// # Errors
    /// As [`StorageBase::add`].
    pub async fn add(&self, batch: RecordBatch) -> Result<AddResult> {
        let count = batch.num_rows();
        self.storage.add(batch).await?;
        Ok(AddResult { count })
    }

    /// The rows that fulfil `query`, ordered by id.
    ///
    /// # Errors
    /// [`lance_context_spec::Kind::Query`] for what cannot be understood, else as [`StorageBase::list`].
    pub async fn list(&self, query: Query) -> Result<Vec<RecordBatch>> {
        let scan = Scan {
            filter: self.filter(query.filter.as_ref())?,
            after: query.after,
            columns: self.schema().resolve_projection(query.columns.as_deref())?,
            limit: query.limit,
            offset: query.offset,
            read: query.read,
        };
        self.storage.list(scan).await
    }

    /// The row with `id`, or `None`. `columns` as in [`GenericStore::list`].
    ///
    /// # Errors
    /// As [`GenericStore::list`].
    pub async fn get(
        &self,
        id: &str,
        columns: Option<Vec<String>>,
        read: Option<ReadMode>,
    ) -> Result<Option<RecordBatch>> {
        let columns = self.schema().resolve_projection(columns.as_deref())?;
        self.storage.get(id, columns, read).await
    }

    /// How many rows fulfil `filter`.
    ///
    /// # Errors
    /// As [`GenericStore::list`].
    pub async fn count(&self, filter: Option<Filter>, read: Option<ReadMode>) -> Result<u64> {
        self.storage.count(self.filter(filter.as_ref())?, read).await
    }

    /// Seals every durable row and waits for it.
    ///
    /// # Errors
    /// As [`StorageBase::flush`].
    pub async fn flush(&self) -> Result<()> {
        self.storage.flush().await
    }

    /// Folds the sealed generations into the base table.
    ///
    /// # Errors
    /// As [`StorageBase::merge`].
    pub async fn merge(&self) -> Result<MergeReport> {
        self.storage.merge().await
    }

    /// What is known of the store.
    ///
    /// # Errors
    /// As [`StorageBase::stats`].
    pub async fn stats(&self) -> Result<Stats> {
        self.storage.stats().await
    }

    /// Seals and closes. Closing twice is fine.
    ///
    /// # Errors
    /// As [`StorageBase::close`].
    pub async fn close(&self) -> Result<()> {
        self.storage.close().await
    }

    fn filter(&self, filter: Option<&Filter>) -> Result<Option<Expr>> {
        filter.map(|filter| self.filters.plan(filter)).transpose()
    }
}
