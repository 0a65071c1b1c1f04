//! Events to batches of the log's columns, and back.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use lance_context_spec::datagen::{DamagedEvent, Event, Outline, Stored};
use lance_context_spec::{Error, Result, SchemaSpec, Value};

use super::cursor::{EPOCH, NUMBER, SHARD, Stamp};
use crate::codec::{ColumnReader, RowEncoder};

/// One batch of every column of the log.
pub(super) fn encode(spec: &Arc<SchemaSpec>, events: &[&Event], stamp: &Stamp) -> Result<RecordBatch> {
    let mut encoder = RowEncoder::new(Arc::clone(spec), events.len());
    for (index, event) in events.iter().enumerate() {
        for (name, value) in event.to_row().into_iter().chain(stamp.cells(index)) {
            let column = encoder.column(name).ok_or_else(|| Error::Damaged {
                store: "the log".to_owned(),
                message: format!("it has no column `{name}`; it was written by another version"),
                source: None,
            })?;
            encoder.set(column, value)?;
        }
        encoder.end_row()?;
    }
    encoder.finish()
}

/// The rows of `batches` as events, the unreadable ones as such.
pub(super) fn decode(spec: &SchemaSpec, batches: &[RecordBatch]) -> Result<Vec<Stored>> {
    let mut stored = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        let columns = readers(spec, batch)?;
        let rows =
            (0..batch.num_rows()).map(|row| columns.iter().map(move |(name, reader)| (*name, reader.value(row))));
        stored.extend(rows.map(Stored::from_row));
    }
    Ok(stored)
}

/// Calls `visit` with the outline of each row of `batch`.
pub(super) fn outlines(
    spec: &SchemaSpec,
    batch: &RecordBatch,
    mut visit: impl FnMut(Result<Outline<'_>, DamagedEvent>),
) -> Result<()> {
    let columns = readers(spec, batch)?;
    let mut cells: Vec<(&str, Value<'_>)> = Vec::with_capacity(columns.len());
    for row in 0..batch.num_rows() {
        cells.clear();
        cells.extend(columns.iter().map(|(name, reader)| (*name, reader.value(row))));
        visit(Outline::from_row(cells.iter().map(|(name, value)| (*name, value))));
    }
    Ok(())
}

fn readers<'a>(spec: &SchemaSpec, batch: &'a RecordBatch) -> Result<Vec<(&'a str, ColumnReader<'a>)>> {
    let fields = batch.schema_ref().fields().iter();
    let columns = fields.zip(batch.columns()).map(|(field, array)| {
        let reader = match spec.column(field.name()) {
            Some((_, column)) => ColumnReader::of(array.as_ref(), &column.column_type),
            None => ColumnReader::new(array.as_ref()),
        };
        Ok((field.name().as_str(), reader?))
    });
    columns.collect()
}

/// The ids of the items that the rows of `batches` belong to, each once.
pub(super) fn item_ids(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let mut seen = HashSet::new();
    let mut ids = Vec::new();
    for batch in batches {
        let column = batch.column_by_name("item_id").and_then(|column| column.as_string_opt::<i32>());
        ids.extend(
            column
                .ok_or_else(|| missing("item_id"))?
                .iter()
                .flatten()
                .filter(|id| seen.insert((*id).to_owned()))
                .map(str::to_owned),
        );
    }
    Ok(ids)
}

/// Shard, epoch and number of each row of `batches`.
pub(super) fn places(batches: &[RecordBatch]) -> Result<Vec<(String, i64, i64)>> {
    let mut places = Vec::new();
    for batch in batches {
        let shards = batch.column_by_name(SHARD).and_then(|column| column.as_string_opt::<i32>());
        let numbers = |name: &'static str| {
            let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>());
            column.ok_or_else(|| missing(name))
        };
        let (shards, epochs, numbers) = (shards.ok_or_else(|| missing(SHARD))?, numbers(EPOCH)?, numbers(NUMBER)?);
        places.extend(
            (0..batch.num_rows()).map(|row| (shards.value(row).to_owned(), epochs.value(row), numbers.value(row))),
        );
    }
    Ok(places)
}

fn missing(column: &str) -> Error {
    Error::Internal { message: format!("a batch of the log has no `{column}` column of its type"), source: None }
}
