//! Listing, streaming and counting: filter, order by key, page, always after superseded rows are dropped.
//!
//! Wide rows and short pages are read in two steps: the keys of the result first, then those rows alone. A scan
//! hands out thousands of rows at a time, which is nothing for numbers and far too much for blobs.

use std::mem;
use std::pin::pin;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, make_array};
use arrow::compute::{SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::logical_expr::utils::conjunction;
use datafusion::prelude::{Expr, ident, lit};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use lance::dataset::mem_wal::LsmScanner;
use lance_context_spec::{ColumnType, Error, OrderBy, ReadMode, Result};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Inner;
use super::base::BaseView;
use super::edit::CONCURRENT_LOOKUPS;
use super::reach::Reach;
use super::snapshot::Snapshot;
use crate::codec::arrow_schema;
use crate::error::{storage, strip_locations, vanished};
use crate::task;

/// Rows and bytes kept beyond a page while the page is collected, so that cutting is amortised.
const PAGE_SLACK_ROWS: usize = 8192;
const PAGE_SLACK_BYTES: usize = 64 << 20;

/// Pages up to this length read their rows by key.
const SHORT_PAGE: usize = 256;

/// Rows of this many bytes on average are read by key.
const WIDE_ROW_BYTES: u64 = 16 << 10;

/// What a stream reads ahead: this many batches, of at most so many rows and about so many bytes where they are
/// read by key.
const STREAM_BATCHES: usize = 2;
const STREAM_ROWS: usize = 1024;
const STREAM_BYTES: usize = 16 << 20;

/// A read that lost files to another process's collection starts over on a new snapshot this often.
pub(super) const ATTEMPTS: u32 = 10;

/// What to list.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Condition, coerced to the column types.
    pub filter: Option<Expr>,
    /// Columns, the key first.
    pub columns: Vec<String>,
    /// What the rows are ordered by before they are by key.
    pub order: Vec<OrderBy>,
    /// At most this many rows.
    pub limit: Option<usize>,
    /// Only rows with a greater key.
    pub after: Option<String>,
    /// Leave out this many rows first.
    pub offset: usize,
    /// What is visible; `None`: the handle's default.
    pub read: Option<ReadMode>,
}

/// Batches of a scan.
type Rows<'a> = BoxStream<'a, lance::Result<RecordBatch>>;

/// Rows of one pinned snapshot in storage order, each once, read as they are asked for.
#[derive(Debug)]
pub struct RowStream {
    batches: mpsc::Receiver<Result<RecordBatch>>,
    reading: JoinHandle<()>,
    reach: Reach,
    is_all: bool,
}

impl RowStream {
    /// How far an append-only store is seen when the stream has ended.
    #[must_use]
    pub const fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether these are all rows that were asked for; otherwise those that came after what the caller had seen, and
    /// perhaps some of those again.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.is_all
    }

    /// The next rows; `None` behind the last.
    ///
    /// # Errors
    /// As [`super::StorageBase::list`]; a retryable [`Error::Storage`] when the snapshot is so old that its files
    /// were collected.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.batches.recv().await
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Inner {
    /// Starts to read what `scan` asks for, its page and its order left aside; with `since`, and without a condition,
    /// only what came after it if that can be told apart.
    pub(super) async fn stream(self: &Arc<Self>, scan: Scan, since: Option<Reach>) -> Result<RowStream> {
        let snapshot = self.snapshot_for(&scan).await?;
        let reach = Reach::of(&snapshot);
        let since =
            since.filter(|since| self.reads_memory_plainly(&scan) && since.is_continued_by(&reach, &snapshot.base));
        let is_all = since.is_none();
        let (sender, batches) = mpsc::channel(STREAM_BATCHES);
        let inner = Arc::clone(self);
        let reading = task::spawn(async move {
            if let Err(e) = inner.send_rows(&snapshot, &scan, since.as_ref(), &sender).await {
                // The receiver is gone when nobody wants the rows any more.
                drop(sender.send(Err(inner.read_error(scan.filter.is_some(), e))).await);
            }
        });
        Ok(RowStream { batches, reading, reach, is_all })
    }

    /// A snapshot in which every step of `scan` sees the same rows.
    async fn snapshot_for(&self, scan: &Scan) -> Result<Snapshot> {
        let snapshot = self.snapshot(scan.read).await?;
        if self.reads_memory_plainly(scan) { Ok(snapshot) } else { snapshot.pinned() }
    }

    /// Whether lance is not asked for the memtables.
    fn reads_memory_plainly(&self, scan: &Scan) -> bool {
        self.kind.append_only && scan.filter.is_none() && scan.after.is_none()
    }

    async fn send_rows(
        &self,
        snapshot: &Snapshot,
        scan: &Scan,
        since: Option<&Reach>,
        sender: &mpsc::Sender<Result<RecordBatch>>,
    ) -> lance::Result<()> {
        let by_key = self.is_wide(snapshot, scan).await?;
        let key = [self.kind.key.to_owned()];
        let schema = self.schema_of(&scan.columns);
        let columns = if by_key { key.as_slice() } else { scan.columns.as_slice() };
        let mut scanned = match since {
            Some(since) => self.scan_since(snapshot, columns, since),
            None => self.scan_snapshot(snapshot, scan, columns).await?,
        };
        while let Some(batch) = scanned.try_next().await? {
            if batch.num_rows() == 0 {
                continue;
            }
            if !by_key {
                if !send(sender, &schema, &[reorder(&batch, &scan.columns)?]).await? {
                    return Ok(());
                }
                continue;
            }
            let mut rows = pin!(self.rows_of(snapshot, &batch, &scan.columns));
            let (mut kept, mut bytes) = (Vec::new(), 0);
            while let Some(row) = rows.try_next().await? {
                bytes += row.get_array_memory_size();
                kept.push(row);
                if kept.len() >= STREAM_ROWS || bytes >= STREAM_BYTES {
                    if !send(sender, &schema, &mem::take(&mut kept)).await? {
                        return Ok(());
                    }
                    bytes = 0;
                }
            }
            if !send(sender, &schema, &kept).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The declared types of `columns`, in that order: what comes from several tiers differs in small things.
    pub(super) fn schema_of(&self, columns: &[String]) -> SchemaRef {
        let declared = arrow_schema(&self.schema);
        let fields = columns.iter().filter_map(|name| declared.field_with_name(name).ok());
        let plain = |field: &Field| Field::new(field.name(), field.data_type().clone(), field.is_nullable());
        Arc::new(Schema::new(fields.map(plain).collect::<Vec<_>>()))
    }

    /// Whether a thousand rows of the projection are too much to hold at once.
    async fn is_wide(&self, snapshot: &Snapshot, scan: &Scan) -> lance::Result<bool> {
        let mut columns = self.schema.columns().iter().filter(|column| scan.columns.contains(&column.name));
        if columns.any(|column| matches!(column.column_type, ColumnType::Binary { .. })) {
            return Ok(true);
        }
        Ok(scan.columns.len() > 1 && snapshot.base.is_wider(&scan.columns, WIDE_ROW_BYTES).await?)
    }

    /// The rows whose keys are in the first column of `keys`, in that order.
    fn rows_of<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        keys: &RecordBatch,
        columns: &'a [String],
    ) -> impl Stream<Item = lance::Result<RecordBatch>> + Send + 'a {
        let keys = keys.column(0).as_string::<i32>().clone();
        let lookups = (0..keys.len()).map(move |row| {
            let key = keys.value(row).to_owned();
            async move {
                let found = self.get_snapshot(snapshot, &key, columns).await?;
                found.ok_or_else(|| lance::Error::internal(format!("row `{key}` is listed and cannot be read")))
            }
        });
        futures::stream::iter(lookups).buffered(CONCURRENT_LOOKUPS)
    }

    /// Calls `visit` with the key of each latest row that fulfils `filter`, until it returns `false`. A key can come
    /// twice.
    pub(super) async fn each_key(&self, filter: Option<Expr>, mut visit: impl FnMut(&str) -> bool) -> Result<()> {
        let scan = Scan {
            filter,
            columns: vec![self.kind.key.to_owned()],
            order: Vec::new(),
            limit: None,
            after: None,
            offset: 0,
            read: Some(ReadMode::Latest),
        };
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot(scan.read).await?;
            match self.visit_keys(&snapshot, &scan, &mut visit).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome.map_err(|e| self.read_error(scan.filter.is_some(), e)),
            }
        }
    }

    async fn visit_keys(
        &self,
        snapshot: &Snapshot,
        scan: &Scan,
        visit: &mut impl FnMut(&str) -> bool,
    ) -> lance::Result<()> {
        let mut scanned = self.scan_snapshot(snapshot, scan, &scan.columns).await?;
        while let Some(batch) = scanned.try_next().await? {
            let keys = batch.column_by_name(self.kind.key).and_then(|c| c.as_string_opt::<i32>());
            for key in keys.into_iter().flat_map(|keys| keys.iter()).flatten() {
                if !visit(key) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The rows that fulfil `scan`, each once, with at least `columns` and the key; in storage order.
    async fn scan_snapshot<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        scan: &Scan,
        columns: &'a [String],
    ) -> lance::Result<Rows<'a>> {
        let after = scan.after.as_ref().map(|after| ident(self.kind.key).gt(lit(after.as_str())));
        let condition = conjunction(scan.filter.clone().into_iter().chain(after));
        if self.kind.append_only {
            let base = self.scan_base(&snapshot.base, columns, condition.clone()).await?;
            return Ok(base.chain(self.scan_fresh(snapshot, columns, condition)).boxed());
        }
        let mut scanner = self.scanner(snapshot).project(columns)?;
        if let Some(condition) = condition {
            scanner = scanner.filter_expr(condition);
        }
        Ok(Box::pin(scanner.try_into_stream()).await?.map_err(lance::Error::from).boxed())
    }

    /// The base table of a store whose rows are never replaced: nothing hides any of it.
    async fn scan_base(
        &self,
        view: &BaseView,
        columns: &[String],
        condition: Option<Expr>,
    ) -> lance::Result<Rows<'static>> {
        let mut scan = view.dataset.scan();
        scan.project_with_schema(&view.dataset.schema().project(&self.with_key(columns))?)?;
        if let Some(condition) = condition {
            scan.filter_expr(condition);
        }
        Ok(Box::pin(scan.try_into_stream()).await?.boxed())
    }

    pub(super) async fn list(&self, scan: Scan) -> Result<Vec<RecordBatch>> {
        if scan.limit == Some(0) {
            return Ok(Vec::new());
        }
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot_for(&scan).await?;
            match self.list_snapshot(&snapshot, &scan).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome.map_err(|e| self.read_error(scan.filter.is_some(), e)),
            }
        }
    }

    pub(super) async fn count(&self, filter: Option<Expr>, read: Option<ReadMode>) -> Result<u64> {
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot(read).await?;
            match self.count_snapshot(&snapshot, filter.clone()).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome.map_err(|e| self.read_error(filter.is_some(), e)),
            }
        }
    }

    async fn count_snapshot(&self, snapshot: &Snapshot, filter: Option<Expr>) -> lance::Result<u64> {
        let columns = [self.kind.key.to_owned()];
        let (mut rows, mut scanned) = if filter.is_none() && self.kind.append_only {
            let merged = snapshot.base.dataset.count_rows(None).await? as u64;
            (merged, self.scan_fresh(snapshot, &columns, None).boxed())
        } else {
            let scan = Scan {
                filter,
                columns: columns.to_vec(),
                order: Vec::new(),
                limit: None,
                after: None,
                offset: 0,
                read: None,
            };
            (0, self.scan_snapshot(snapshot, &scan, &columns).await?)
        };
        while let Some(batch) = scanned.try_next().await? {
            rows += batch.num_rows() as u64;
        }
        Ok(rows)
    }

    async fn list_snapshot(&self, snapshot: &Snapshot, scan: &Scan) -> lance::Result<Vec<RecordBatch>> {
        let by_key = scan.limit.is_some_and(|limit| limit <= SHORT_PAGE) || self.is_wide(snapshot, scan).await?;
        if !by_key || scan.columns.len() == 1 {
            return self.page(snapshot, scan, &scan.columns).await;
        }
        let mut rows = Vec::new();
        for keys in self.page(snapshot, scan, &[self.kind.key.to_owned()]).await? {
            rows.extend(self.rows_of(snapshot, &keys, &scan.columns).try_collect::<Vec<_>>().await?);
        }
        let schema = self.schema_of(&scan.columns);
        let bytes: usize = rows.iter().map(RecordBatch::get_array_memory_size).sum();
        if !rows.is_empty() && bytes <= STREAM_BYTES {
            return Ok(vec![concat_batches(&schema, &rows)?]);
        }
        let typed = rows.into_iter().map(|row| RecordBatch::try_new(Arc::clone(&schema), row.columns().to_vec()));
        Ok(typed.collect::<Result<_, _>>()?)
    }

    /// `columns` of the page, in order.
    async fn page(&self, snapshot: &Snapshot, scan: &Scan, columns: &[String]) -> lance::Result<Vec<RecordBatch>> {
        let mut read = columns.to_vec();
        let ordering = scan.order.iter().map(|by| &by.column).filter(|column| !columns.contains(column));
        read.extend(ordering.cloned());
        let mut scanned = self.scan_snapshot(snapshot, scan, &read).await?;
        let page = scan.limit.map(|limit| scan.offset.saturating_add(limit));
        let mut kept = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while let Some(batch) = scanned.try_next().await? {
            if batch.num_rows() == 0 {
                continue;
            }
            rows += batch.num_rows();
            bytes += batch.get_array_memory_size();
            kept.push(reorder(&batch, &read)?);
            if let Some(page) = page
                && (rows > page.saturating_mul(2).saturating_add(PAGE_SLACK_ROWS) || bytes > PAGE_SLACK_BYTES)
            {
                kept = sorted(&kept, scan, 0, Some(page))?;
                rows = kept.iter().map(RecordBatch::num_rows).sum();
                bytes = 0;
            }
        }
        let schema = self.schema_of(columns);
        let sorted = sorted(&kept, scan, scan.offset, scan.limit)?.into_iter();
        Ok(sorted
            .map(|rows| RecordBatch::try_new(Arc::clone(&schema), rows.columns()[..columns.len()].to_vec()))
            .collect::<Result<_, _>>()?)
    }

    fn scanner(&self, snapshot: &Snapshot) -> LsmScanner {
        let keys = vec![self.kind.key.to_owned()];
        let generations = snapshot.shards.iter().map(|fresh| fresh.generations.clone()).collect();
        let mut scanner = LsmScanner::new(Arc::clone(&snapshot.base.dataset), generations, keys)
            .with_sstable_cache(Self::generation_cache())
            .with_memtable_filter_indexes(true);
        for fresh in &snapshot.shards {
            if let Some(memory) = &fresh.memory {
                scanner = scanner.with_in_memory_memtables(fresh.generations.shard_id, memory.tables.clone());
            }
        }
        scanner
    }

    /// A filter that planned well can still fail on the data (a cast, a division by zero): the caller's error.
    fn read_error(&self, filtered: bool, error: lance::Error) -> Error {
        let text = strip_locations(&error.to_string());
        let on_data = ["Cast error", "Divide by zero", "Parser error", "Arithmetic overflow", "Overflow happened"];
        if filtered && on_data.iter().any(|mark| text.contains(mark)) {
            return Error::InvalidQuery { message: format!("the filter fails on the data: {text}") };
        }
        storage(self.store(), "read")(error)
    }
}

/// Sends `rows` as one batch; `false` when nobody wants more.
async fn send(
    sender: &mpsc::Sender<Result<RecordBatch>>,
    schema: &SchemaRef,
    rows: &[RecordBatch],
) -> lance::Result<bool> {
    let rows = match rows {
        [] => return Ok(true),
        [whole] => RecordBatch::try_new(Arc::clone(schema), whole.columns().to_vec())?,
        parts => concat_batches(schema, parts)?,
    };
    Ok(sender.send(Ok(rows)).await.is_ok())
}

/// `batch` with exactly `columns`, in that order, and without metadata: what comes from the log has other than what
/// comes from files, in the items of lists too.
pub(super) fn reorder(batch: &RecordBatch, columns: &[String]) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays = Vec::with_capacity(columns.len());
    for name in columns {
        let at = schema.index_of(name)?;
        let (field, array) = (schema.field(at), batch.column(at));
        let array = plain(array)?;
        fields.push(Field::new(name, array.data_type().clone(), field.is_nullable()));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
}

fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    retyped(array, &plain_type(array.data_type()))
}

/// The same values as `target`, which differs from their type in the metadata of nested fields alone.
pub(super) fn retyped(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    retyped_data(array.to_data(), target).map(make_array)
}

fn retyped_data(data: ArrayData, target: &DataType) -> Result<ArrayData, ArrowError> {
    let nested: Vec<&DataType> = match target {
        DataType::List(item) | DataType::FixedSizeList(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => Vec::new(),
    };
    let children = data.child_data().iter().cloned().zip(nested).map(|(child, nested)| retyped_data(child, nested));
    let children = children.collect::<Result<_, _>>()?;
    data.into_builder().data_type(target.clone()).child_data(children).build()
}

fn plain_type(data_type: &DataType) -> DataType {
    let plain = |item: &Field| Arc::new(Field::new(item.name(), plain_type(item.data_type()), item.is_nullable()));
    match data_type {
        DataType::List(item) => DataType::List(plain(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| plain(field)).collect()),
        other => other.clone(),
    }
}

/// The rows of `batches` in the order of `scan`, cut to `offset..offset + limit`.
fn sorted(
    batches: &[RecordBatch],
    scan: &Scan,
    offset: usize,
    limit: Option<usize>,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    let all = concat_batches(&first.schema(), batches)?;
    let until = limit.map(|limit| offset.saturating_add(limit));
    let mut order = Vec::with_capacity(scan.order.len() + 1);
    for by in &scan.order {
        let values = Arc::clone(all.column(first.schema_ref().index_of(&by.column)?));
        let options = Some(SortOptions { descending: by.descending, nulls_first: false });
        order.push(SortColumn { values, options });
    }
    order.push(SortColumn { values: Arc::clone(all.column(0)), options: None });
    let order = lexsort_to_indices(&order, until)?;
    let from = offset.min(order.len());
    let order: UInt32Array = order.slice(from, order.len() - from);
    if order.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![take_record_batch(&all, &order)?])
}
