//! Listing and counting: filter, order by key, page, always after superseded rows are dropped.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::error::ArrowError;
use datafusion::logical_expr::utils::conjunction;
use datafusion::prelude::{Expr, ident, lit};
use futures::TryStreamExt;
use lance::dataset::mem_wal::LsmScanner;
use lance_context_spec::{Error, ReadMode, Result};

use super::Inner;
use super::snapshot::Snapshot;
use crate::error::{storage, strip_locations, vanished};

/// Rows and bytes kept beyond a page while the page is collected, so that cutting is amortised.
const PAGE_SLACK_ROWS: usize = 8192;
const PAGE_SLACK_BYTES: usize = 64 << 20;

/// A read that lost files to another process's collection starts over on a new snapshot this often.
pub(super) const ATTEMPTS: u32 = 3;

/// What to list. Rows come ordered by key.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Condition, coerced to the column types.
    pub filter: Option<Expr>,
    /// Columns, the key first.
    pub columns: Vec<String>,
    /// At most this many rows.
    pub limit: Option<usize>,
    /// Only rows with a greater key.
    pub after: Option<String>,
    /// Leave out this many rows first.
    pub offset: usize,
    /// What is visible; `None`: the handle's default.
    pub read: Option<ReadMode>,
}

impl Inner {
    pub(super) async fn list(&self, scan: Scan) -> Result<Vec<RecordBatch>> {
        if scan.limit == Some(0) {
            return Ok(Vec::new());
        }
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot(scan.read).await?;
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
            let mut scanner =
                self.scanner(&snapshot).project(&[self.kind.key]).map_err(storage(self.store(), "count"))?;
            if let Some(filter) = filter.clone() {
                scanner = scanner.filter_expr(filter);
            }
            match Box::pin(scanner.count_rows()).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome.map_err(|e| self.read_error(filter.is_some(), e)),
            }
        }
    }

    async fn list_snapshot(&self, snapshot: &Snapshot, scan: &Scan) -> lance::Result<Vec<RecordBatch>> {
        let mut scanner = self.scanner(snapshot).project(&scan.columns)?;
        let after = scan.after.as_ref().map(|after| ident(self.kind.key).gt(lit(after.as_str())));
        if let Some(condition) = conjunction(scan.filter.clone().into_iter().chain(after)) {
            scanner = scanner.filter_expr(condition);
        }
        let mut stream = Box::pin(scanner.try_into_stream()).await?;
        let page = scan.limit.map(|limit| scan.offset.saturating_add(limit));
        let mut kept = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while let Some(batch) = stream.try_next().await? {
            if batch.num_rows() == 0 {
                continue;
            }
            rows += batch.num_rows();
            bytes += batch.get_array_memory_size();
            kept.push(reorder(&batch, &scan.columns)?);
            if let Some(page) = page
                && (rows > page.saturating_mul(2).saturating_add(PAGE_SLACK_ROWS) || bytes > PAGE_SLACK_BYTES)
            {
                kept = sorted(&kept, 0, Some(page))?;
                rows = kept.iter().map(RecordBatch::num_rows).sum();
                bytes = 0;
            }
        }
        Ok(sorted(&kept, scan.offset, scan.limit)?)
    }

    pub(super) fn scanner(&self, snapshot: &Snapshot) -> LsmScanner {
        let keys = vec![self.kind.key.to_owned()];
        let scanner = LsmScanner::new(Arc::clone(&snapshot.base.dataset), vec![snapshot.shard.clone()], keys)
            .with_sstable_cache(Self::generation_cache())
            .with_memtable_filter_indexes(true);
        match &snapshot.memory {
            Some(memory) => scanner.with_in_memory_memtables(self.shard_id, memory.0.clone()),
            None => scanner,
        }
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

/// `batch` with exactly `columns`, in that order.
pub(super) fn reorder(batch: &RecordBatch, columns: &[String]) -> Result<RecordBatch, ArrowError> {
    let indices = columns.iter().map(|name| batch.schema().index_of(name)).collect::<Result<Vec<_>, _>>()?;
    batch.project(&indices)
}

/// The rows of `batches` ordered by their first column, cut to `offset..offset + limit`.
fn sorted(batches: &[RecordBatch], offset: usize, limit: Option<usize>) -> Result<Vec<RecordBatch>, ArrowError> {
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    let all = concat_batches(&first.schema(), batches)?;
    let until = limit.map(|limit| offset.saturating_add(limit));
    let order = SortColumn { values: Arc::clone(all.column(0)), options: None };
    let order = lexsort_to_indices(&[order], until)?;
    let from = offset.min(order.len());
    let order: UInt32Array = order.slice(from, order.len() - from);
    if order.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![take_record_batch(&all, &order)?])
}
