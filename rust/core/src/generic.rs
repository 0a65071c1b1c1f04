//! The store of a schema of your own.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::prelude::Expr;
use lance_context_spec::{
    AddResult, DoctorReport, Error, Filter, MergeReport, OnConflict, OpenOptions, OptimizeReport, Query, ReadMode,
    Result, SchemaSpec, Stats,
};

use crate::codec::arrow_schema;
use crate::filter::FilterPlanner;
use crate::storage::{Kind, Location, RowStream, Scan, StorageBase, doctor};

const KIND: Kind = Kind::new("generic", "id");

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
        Self::open_at(Location::parse(uri)?, schema, options).await
    }

    /// As [`GenericStore::open`], at a place that may be wrapped or observed.
    ///
    /// # Errors
    /// As [`StorageBase::open`].
    pub async fn open_at(location: Location, schema: Option<SchemaSpec>, options: OpenOptions) -> Result<Self> {
        Self::open_storage(location, schema, false, options).await
    }

    /// Opens a store that must be there.
    ///
    /// # Errors
    /// As [`StorageBase::open`]; [`lance_context_spec::Error::StoreNotFound`] when nothing is there.
    pub async fn open_existing(uri: &str, options: OpenOptions) -> Result<Self> {
        Self::open_storage(Location::parse(uri)?, None, true, options).await
    }

    /// Looks at every file of the store at `uri`, and mends what can be mended without a loss if `repair`: a handle is
    /// neither needed nor, with `repair`, allowed. See [`doctor`] for promises.
    ///
    /// # Errors
    /// As [`doctor`].
    pub async fn doctor(uri: &str, options: OpenOptions, repair: bool) -> Result<DoctorReport> {
        Self::doctor_at(Location::parse(uri)?, options, repair).await
    }

    /// As [`GenericStore::doctor`], at a place that may be wrapped or observed.
    ///
    /// # Errors
    /// As [`doctor`].
    pub async fn doctor_at(location: Location, options: OpenOptions, repair: bool) -> Result<DoctorReport> {
        let looking = async move { doctor(location, KIND, &options, repair).await };
        crate::task::join(crate::task::spawn(looking)).await
    }

    async fn open_storage(
        location: Location,
        schema: Option<SchemaSpec>,
        must_exist: bool,
        options: OpenOptions,
    ) -> Result<Self> {
        let opening = async move { StorageBase::open(location, KIND, schema, must_exist, options).await };
        let storage = crate::task::join(crate::task::spawn(opening)).await?;
        let filters = FilterPlanner::new(storage.schema())?;
        Ok(Self { storage, filters })
    }

    /// The uri as given.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.storage.uri()
    }

    /// The storage below.
    #[must_use]
    pub fn storage(&self) -> &StorageBase {
        &self.storage
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

    /// Writes rows durably and atomically, in place of those with the same ids; see [`StorageBase::add`] for
    /// promises and errors.
    ///
    /// # Errors
    /// As [`StorageBase::add`].
    pub async fn add(&self, batch: RecordBatch) -> Result<AddResult> {
        self.insert(batch, OnConflict::Replace).await
    }

    /// As [`GenericStore::add`]; `on_conflict` says what becomes of rows whose id is there already.
    ///
    /// # Errors
    /// As [`StorageBase::insert`].
    pub async fn insert(&self, batch: RecordBatch, on_conflict: OnConflict) -> Result<AddResult> {
        let count = self.storage.insert(batch, on_conflict).await?;
        Ok(AddResult { count })
    }

    /// Replaces the cells of the row with `id` that `changes`, a batch of one row and some columns, names.
    /// Nothing of what another writer puts in between is lost: the row is read and written as one.
    ///
    /// # Errors
    /// [`Error::RowNotFound`]; else as [`StorageBase::add`].
    pub async fn update(&self, id: &str, changes: RecordBatch) -> Result<()> {
        let schema = arrow_schema(self.schema());
        let change = move |stored: &RecordBatch| {
            let columns = schema.fields().iter().map(|field| {
                let changed = changes.column_by_name(field.name()).or_else(|| stored.column_by_name(field.name()));
                changed.cloned().ok_or_else(|| ArrowError::SchemaError(format!("no column `{}`", field.name())))
            });
            let columns = columns.collect::<Result<Vec<_>, _>>();
            columns.and_then(|columns| RecordBatch::try_new(Arc::clone(&schema), columns)).map_err(|e| {
                Error::Internal { message: format!("a stored row cannot be changed: {e}"), source: Some(Box::new(e)) }
            })
        };
        self.storage.update(id.to_owned(), Arc::new(change)).await
    }

    /// Deletes the rows with `ids`; returns how many there were.
    ///
    /// # Errors
    /// As [`StorageBase::delete`].
    pub async fn delete(&self, ids: Vec<String>) -> Result<usize> {
        self.storage.delete(ids).await
    }

    /// Deletes the rows that fulfil `filter`; returns how many.
    ///
    /// # Errors
    /// As [`StorageBase::delete_where`] and [`GenericStore::list`].
    pub async fn delete_where(&self, filter: &Filter) -> Result<usize> {
        self.storage.delete_where(self.filters.plan(filter)?).await
    }

    /// The rows that fulfil `query`, ordered by id.
    ///
    /// # Errors
    /// [`lance_context_spec::Kind::Query`] for what cannot be understood, else as [`StorageBase::list`].
    pub async fn list(&self, query: Query) -> Result<Vec<RecordBatch>> {
        self.storage.list(self.scan(query)?).await
    }

    /// The rows that fulfil `query` as one snapshot has them, in storage order and bounded memory. Page and order of
    /// `query` do not apply.
    ///
    /// # Errors
    /// As [`GenericStore::list`].
    pub async fn stream(&self, query: Query) -> Result<RowStream> {
        self.storage.stream(self.scan(query)?).await
    }

    /// The rows that [`GenericStore::list`] gives, as batches of one schema; at least one, though it may be empty.
    ///
    /// # Errors
    /// As [`GenericStore::list`].
    pub async fn table(&self, query: Query) -> Result<Vec<RecordBatch>> {
        let scan = self.scan(query)?;
        let schema = self.storage.schema_of(&scan.columns);
        let mut batches = self.storage.list(scan).await?;
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        Ok(batches)
    }

    fn scan(&self, query: Query) -> Result<Scan> {
        let order = self.schema().resolve_order(&query.order_by)?;
        if query.after.is_some() && !order.is_empty() {
            let message = "`after` pages by id, and `order_by` asks for another order; leave one of them out".into();
            return Err(Error::InvalidQuery { message });
        }
        Ok(Scan {
            order,
            filter: self.filter(query.filter.as_ref())?,
            after: query.after,
            columns: self.schema().resolve_projection(query.columns.as_deref())?,
            limit: query.limit,
            offset: query.offset,
            read: query.read,
        })
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

    /// The rows with `ids`, as one snapshot has them, in that order; `None` where there is none.
    ///
    /// # Errors
    /// As [`GenericStore::list`].
    pub async fn get_many(
        &self,
        ids: Vec<String>,
        columns: Option<Vec<String>>,
        read: Option<ReadMode>,
    ) -> Result<Vec<Option<RecordBatch>>> {
        let columns = self.schema().resolve_projection(columns.as_deref())?;
        self.storage.get_many(ids, columns, read).await
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

    /// Merges, rewrites small files into larger ones, and removes old versions.
    ///
    /// # Errors
    /// As [`StorageBase::optimize`].
    pub async fn optimize(&self, older_than: Option<Duration>) -> Result<OptimizeReport> {
        self.storage.optimize(older_than).await
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
