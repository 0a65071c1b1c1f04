//! Rows by the value of a lookup column, through the indexes of every tier and without planning a query.
//!
//! Each place is asked for its candidates (memory and generations by the index that the log maintains, the base table
//! by its own), and a candidate counts if no place that wins over it has its key. So the cost grows with the rows
//! that match, and a little with the number of places.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, interleave};
use arrow::datatypes::Schema;
use datafusion::prelude::{Expr, ident, lit};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::mem_wal::TOMBSTONE;
use lance::dataset::mem_wal::scanner::InMemoryMemTableRef;
use lance::dataset::mem_wal::write::BTreeMemIndex;
use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_context_spec::{Error, ReadMode, Result};
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::{SargableQuery, ScalarIndex, SearchResult};

use super::Inner;
use super::base::{BaseView, index_name};
use super::edit::CONCURRENT_LOOKUPS;
use super::reach::Reach;
use super::scan::{ATTEMPTS, reorder};
use super::sources::{Source, row_at};
use crate::error::{storage, vanished};

/// Rows that were found.
#[derive(Debug)]
pub struct Found {
    /// The rows, place by place.
    pub rows: Vec<RecordBatch>,
    /// How far was seen.
    pub reach: Reach,
    /// Whether these are all that match; otherwise those that came after what the caller had seen, and perhaps some of
    /// those again.
    pub is_all: bool,
}

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub column: &'a str,
    pub values: &'a [String],
    /// What is returned of each row.
    pub columns: &'a [String],
}

impl Wanted<'_> {
    fn scalars(&self) -> Vec<ScalarValue> {
        self.values.iter().map(|value| ScalarValue::Utf8(Some(value.clone()))).collect()
    }

    fn filter(&self) -> Expr {
        ident(self.column).in_list(self.values.iter().map(|value| lit(value.as_str())).collect(), false)
    }
}

impl Inner {
    /// The live rows whose `column` is one of `values`, place by place; with `since`, only those that came after it
    /// if they can be told apart.
    pub(super) async fn find(
        &self,
        wanted: Wanted<'_>,
        read: Option<ReadMode>,
        since: Option<&Reach>,
    ) -> Result<Found> {
        self.check_lookup(wanted.column)?;
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot(read).await?;
            let reach = Reach::of(&snapshot);
            let since = since.filter(|since| since.is_continued_by(&reach, &snapshot.base));
            match self.find_in(&snapshot.base, &self.sources(&snapshot), wanted, since).await {
                Err(e) if vanished(&e) && attempt < ATTEMPTS => attempt += 1,
                outcome => {
                    let rows = outcome.map_err(storage(self.store(), "read"))?;
                    return Ok(Found { rows, reach, is_all: since.is_none() });
                }
            }
        }
    }

    pub(super) fn check_lookup(&self, column: &str) -> Result<()> {
        if self.kind.lookups.contains(&column) {
            return Ok(());
        }
        let lookups: Vec<_> = self.kind.lookups.iter().map(|column| format!("`{column}`")).collect();
        let message = format!("`{column}` is no lookup column; those are {}", lookups.join(", "));
        Err(Error::InvalidArgument { argument: "column".into(), message })
    }

    pub(super) async fn find_in(
        &self,
        view: &BaseView,
        sources: &[Source<'_>],
        wanted: Wanted<'_>,
        since: Option<&Reach>,
    ) -> lance::Result<Vec<RecordBatch>> {
        if wanted.values.is_empty() {
            return Ok(Vec::new());
        }
        let mut read = vec![self.kind.key.to_owned(), wanted.column.to_owned()];
        read.extend(wanted.columns.iter().cloned());
        let mut seen = HashSet::new();
        read.retain(|column| seen.insert(column.clone()));
        let read = &read;
        let searches = (0..sources.len()).map(|at| async move {
            let (earlier, source) = (sources.get(..at).unwrap_or_default(), sources.get(at));
            let mut live = Vec::new();
            let Some(source) = source else { return Ok(live) };
            let Some(from) = since.map_or(Some(0), |since| since.unseen(source)) else { return Ok(live) };
            for batch in self.candidates(view, source, from, wanted, read).await? {
                let batch = self.unshadowed(view, matching(&batch, wanted)?, earlier).await?;
                if batch.num_rows() > 0 {
                    live.push(reorder(&batch, wanted.columns)?);
                }
            }
            Ok::<_, lance::Error>(live)
        });
        let found: Vec<Vec<_>> = futures::stream::iter(searches).buffered(CONCURRENT_LOOKUPS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Rows of one place, among them all that match; of memory those from row `from` on.
    async fn candidates(
        &self,
        view: &BaseView,
        source: &Source<'_>,
        from: u64,
        wanted: Wanted<'_>,
        columns: &[String],
    ) -> lance::Result<Vec<RecordBatch>> {
        let fresh = || columns.iter().cloned().chain([TOMBSTONE.to_owned()]).collect::<Vec<_>>();
        match source {
            Source::Memory { table, last: Some(last), .. } => {
                self.candidates_in_memory(table, from..=*last, wanted, &fresh())
            }
            Source::Memory { .. } => Ok(Vec::new()),
            Source::Generation { uri, .. } => {
                let (generation, columns) = (self.open_generation(view, uri).await?, fresh());
                match self.generation_index(&generation, uri, wanted.column).await? {
                    Some(index) => {
                        let addresses = search(&[index], wanted).await?;
                        self.take_rows(&generation, addresses, &columns).await
                    }
                    None => scan(&generation, wanted, &columns).await,
                }
            }
            Source::Base => match view.index(wanted.column).await? {
                Some(index) => {
                    let mut addresses = search(&index.segments, wanted).await?;
                    // The index still lists rows of fragments that a rewrite has replaced.
                    let fragments: HashSet<u64> = view.dataset.fragments().iter().map(|fragment| fragment.id).collect();
                    addresses.retain(|address| fragments.contains(&(address >> 32)));
                    self.take_rows(&view.dataset, addresses, columns).await
                }
                None => scan(&view.dataset, wanted, columns).await,
            },
        }
    }

    /// Of the rows `within`.
    fn candidates_in_memory(
        &self,
        table: &InMemoryMemTableRef,
        within: RangeInclusive<u64>,
        wanted: Wanted<'_>,
        columns: &[String],
    ) -> lance::Result<Vec<RecordBatch>> {
        let index = table.index_store.get_index(&index_name(wanted.column));
        let index = index.and_then(|index| {
            let index: &dyn Any = index.as_ref();
            index.downcast_ref::<BTreeMemIndex>()
        });
        let index = index.ok_or_else(|| lance::Error::internal(format!("a memtable lacks `{}`", wanted.column)))?;
        let mut batches: Vec<&RecordBatch> = Vec::new();
        let mut rows = Vec::new();
        for position in wanted.scalars().iter().flat_map(|value| index.get(value)).filter(|at| within.contains(at)) {
            let Some((batch, row)) = row_at(table, position) else { continue };
            let keys = batch.column_by_name(self.kind.key).and_then(|column| column.as_string_opt::<i32>());
            let keys = keys.ok_or_else(|| lance::Error::internal("a memtable has no key column of strings"))?;
            let key = [ScalarValue::Utf8(Some(keys.value(row).to_owned()))];
            if table.index_store.pk_is_newest(&key, position, *within.end()) {
                // Positions of a value ascend, so that rows of one batch come together.
                if batches.last().is_none_or(|last| !std::ptr::eq(*last, batch)) {
                    batches.push(batch);
                }
                rows.push((batches.len() - 1, row));
            }
        }
        Ok(gather(&batches, &rows, columns)?.into_iter().collect())
    }

    async fn generation_index(
        &self,
        generation: &Dataset,
        uri: &str,
        column: &str,
    ) -> lance::Result<Option<Arc<dyn ScalarIndex>>> {
        let kept = (uri.to_owned(), column.to_owned());
        if let Some(index) = self.key_maps.indexes.get(&kept).await {
            return Ok(index);
        }
        let name = index_name(column);
        let index = match generation.load_indices().await?.iter().find(|index| index.name == name) {
            Some(index) => Some(generation.open_scalar_index(column, &index.uuid, &NoOpMetricsCollector).await?),
            None => None,
        };
        self.key_maps.indexes.insert(kept, index.clone()).await;
        Ok(index)
    }

    /// The rows at `addresses` that are not deleted.
    async fn take_rows(
        &self,
        dataset: &Dataset,
        addresses: Vec<u64>,
        columns: &[String],
    ) -> lance::Result<Vec<RecordBatch>> {
        let mut fragments: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for address in addresses {
            #[expect(clippy::cast_possible_truncation, reason = "the lower half of an address is the row's offset")]
            fragments.entry(address >> 32).or_default().push(address as u32);
        }
        let mut rows = Vec::with_capacity(fragments.len());
        for (fragment, mut offsets) in fragments {
            offsets.sort_unstable();
            offsets.dedup();
            rows.push(self.reader(dataset, fragment, columns).await?.take_as_batch(&offsets, None).await?);
        }
        Ok(rows)
    }
}

/// `columns` of `rows`, each given by its batch and its place in it, as one batch; `None` without any batch.
pub(super) fn gather(
    batches: &[&RecordBatch],
    rows: &[(usize, usize)],
    columns: &[String],
) -> lance::Result<Option<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(None) };
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays = Vec::with_capacity(columns.len());
    for name in columns {
        let at = first.schema_ref().index_of(name)?;
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        fields.push(first.schema_ref().field(at).clone());
        arrays.push(interleave(&parts, rows)?);
    }
    let whole = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
    Ok(Some(reorder(&whole, columns)?))
}

/// The addresses that an index has for the wanted values.
async fn search(segments: &[Arc<dyn ScalarIndex>], wanted: Wanted<'_>) -> lance::Result<Vec<u64>> {
    let query = SargableQuery::IsIn(wanted.scalars());
    let mut addresses = Vec::new();
    for segment in segments {
        let (SearchResult::Exact(rows) | SearchResult::AtMost(rows) | SearchResult::AtLeast(rows)) =
            segment.search(&query, &NoOpMetricsCollector).await?;
        addresses.extend(rows.true_rows().row_addrs().into_iter().flatten().map(u64::from));
    }
    Ok(addresses)
}

/// Where no index helps.
async fn scan(dataset: &Dataset, wanted: Wanted<'_>, columns: &[String]) -> lance::Result<Vec<RecordBatch>> {
    let mut scan = dataset.scan();
    scan.project(columns)?.filter_expr(wanted.filter());
    Box::pin(scan.try_into_stream()).await?.try_collect().await
}

/// The rows of `batch` that match and are no deletions.
fn matching(batch: &RecordBatch, wanted: Wanted<'_>) -> lance::Result<RecordBatch> {
    let column = batch.column_by_name(wanted.column).and_then(|column| column.as_string_opt::<i32>());
    let column =
        column.ok_or_else(|| lance::Error::internal(format!("`{}` is no column of strings", wanted.column)))?;
    let dead = batch.column_by_name(TOMBSTONE).and_then(|column| column.as_boolean_opt());
    let values: HashSet<&str> = wanted.values.iter().map(String::as_str).collect();
    let matches = |(row, value): (usize, Option<&str>)| {
        value.is_some_and(|value| values.contains(value)) && !dead.is_some_and(|dead| dead.value(row))
    };
    let kept: BooleanArray = column.iter().enumerate().map(|row| Some(matches(row))).collect();
    Ok(filter_record_batch(batch, &kept)?)
}
