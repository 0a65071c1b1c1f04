//! The unsealed tail of the WAL as an in-memory memtable, read without a claim.
//!
//! The tail is always a complete suffix of the WAL, so it holds the newest version of every key in it.
//! It is kept between reads and continued while nothing is sealed.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use lance::dataset::mem_wal::scanner::{InMemoryMemTableRef, InMemoryMemTables};
use lance::dataset::mem_wal::write::{BatchStore, IndexStore, MemIndexSpec};
use lance::dataset::mem_wal::{arrow_schema_with_field_ids, relax_non_pk_nullability, schema_with_tombstone};
use lance_context_spec::{Error, Result};
use lance_index::mem_wal::ShardManifest;
use tokio::sync::Mutex;

use super::base::{BaseView, index_name};
use super::scan::retyped;
use super::shard::Shard;
use super::{Kind, MAX_ADD_ROWS};

/// Slots for batches beyond those first read, before the tail is rebuilt.
const SPARE_BATCHES: usize = 1024;

/// The kept tail.
#[derive(Debug, Default)]
pub(super) struct TailCache {
    kept: Mutex<Option<Tail>>,
}

pub(super) struct Tail {
    /// The manifest's replay position that the tail starts behind.
    after: u64,
    /// The next position to read.
    next: u64,
    batches: Arc<BatchStore>,
    index: Arc<IndexStore>,
    schema: SchemaRef,
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("after", &self.after).field("next", &self.next).finish_non_exhaustive()
    }
}

impl TailCache {
    /// Lets go of the rows: they are sealed.
    pub async fn clear(&self) {
        *self.kept.lock().await = None;
    }

    /// The rows behind `manifest`'s replay position, up to WAL position `until`; `None` if there are none.
    pub async fn load(
        &self,
        shard: &Shard,
        kind: Kind,
        view: &BaseView,
        manifest: &ShardManifest,
        until: u64,
    ) -> Result<Option<InMemoryMemTables>> {
        let after = manifest.replay_after_wal_entry_position;
        let mut kept = self.kept.lock().await;
        if kept.as_ref().is_some_and(|tail| tail.after != after) {
            *kept = None;
        }
        let mut next = kept.as_ref().map_or(after + 1, |tail| tail.next);
        let mut read = Vec::new();
        while next <= until {
            let Some(entry) = shard.entry(next).await? else { break };
            read.extend(entry.batches);
            next += 1;
        }
        let room = kept.as_ref().map_or(0, |tail| tail.batches.remaining_capacity());
        if read.len() > room {
            let earlier = kept.take().map_or_else(Vec::new, |tail| tail.stored());
            read = earlier.into_iter().chain(read).collect();
            *kept = Some(Tail::new(kind, view, after, read.len() + SPARE_BATCHES)?);
        }
        let Some(tail) = kept.as_mut() else { return Ok(None) };
        tail.append(read)?;
        tail.next = next;
        Ok((!tail.batches.is_empty()).then(|| tail.memtables(manifest.current_generation)))
    }
}

impl Tail {
    /// `after` is the manifest's replay position that it starts behind; it takes so many batches.
    pub fn new(kind: Kind, view: &BaseView, after: u64, capacity: usize) -> Result<Self> {
        let (key, table) = (kind.key, view.dataset.schema());
        let field_id = |column: &str| {
            let field = table.field(column).map(|field| field.id);
            field.ok_or_else(|| internal(format!("the base table has no column `{column}`")))
        };
        let lookups = kind.lookups.iter().map(|column| {
            let spec = MemIndexSpec::btree(index_name(column), field_id(column)?, *column);
            Ok(spec)
        });
        let lookups = lookups.collect::<Result<Vec<_>>>()?;
        let index = IndexStore::from_specs(&lookups, table, MAX_ADD_ROWS, capacity);
        let mut index = index.map_err(|e| internal(format!("the tail cannot be indexed: {e}")))?;
        index.enable_pk_index(&[(key.to_owned(), field_id(key)?)]);
        let stored = schema_with_tombstone(&arrow_schema_with_field_ids(table));
        Ok(Self {
            after,
            next: after + 1,
            batches: Arc::new(BatchStore::with_capacity(capacity)),
            index: Arc::new(index),
            schema: relax_non_pk_nullability(&stored, &[key.to_owned()]),
        })
    }

    fn stored(&self) -> Vec<RecordBatch> {
        (0..self.batches.len()).filter_map(|i| self.batches.get(i).map(|b| b.data.clone())).collect()
    }

    /// Appends rows with the table's own columns.
    pub fn append_rows(&mut self, rows: RecordBatch) -> Result<()> {
        let alive: ArrayRef = Arc::new(BooleanArray::from(vec![false; rows.num_rows()]));
        let columns = rows.columns().iter().cloned().chain([alive]).collect();
        let batch = typed(&self.schema, columns)
            .map_err(|e| internal(format!("rows have another schema than the table: {e}")))?;
        self.append(vec![batch])
    }

    fn append(&mut self, read: Vec<RecordBatch>) -> Result<()> {
        let first = self.batches.len();
        for batch in read {
            // The entry's schema differs from the table's in metadata alone.
            let batch = typed(&self.schema, batch.columns().to_vec())
                .map_err(|e| internal(format!("a WAL entry has another schema than the table: {e}")))?;
            self.batches.append(batch).map_err(|_| internal("the tail is full".to_owned()))?;
        }
        let appended: Vec<_> = (first..self.batches.len()).filter_map(|i| self.batches.get(i).cloned()).collect();
        self.index.insert_batches(&appended).map_err(|e| internal(format!("the tail cannot be indexed: {e}")))
    }

    /// The generation must be above every sealed one: the one that the next seal will get.
    pub fn memtables(&self, generation: u64) -> InMemoryMemTables {
        InMemoryMemTables {
            active: InMemoryMemTableRef {
                batch_store: Arc::clone(&self.batches),
                index_store: Arc::clone(&self.index),
                schema: Arc::clone(&self.schema),
                generation,
            },
            frozen: Vec::new(),
        }
    }
}

fn internal(message: String) -> Error {
    Error::Internal { message, source: None }
}

/// `columns` as a batch of `schema`, which may differ from them in metadata.
fn typed(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, ArrowError> {
    let retyped = columns.iter().zip(schema.fields()).map(|(column, field)| retyped(column, field.data_type()));
    RecordBatch::try_new(Arc::clone(schema), retyped.collect::<Result<_, _>>()?)
}
