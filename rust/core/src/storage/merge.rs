//! Folding generations into the base table, oldest first, a bounded number at a time.
//!
//! Deleted keys leave the base table in a commit of their own; our readers do not notice, because the
//! generations that delete them are still in force. Then the rows and the mark "merged up to generation N"
//! are one commit, so that a crash before it leaves the generations in force and a crash behind it leaves
//! generations that every reader skips. What follows (index, trim, collection) is repeated by the next
//! merge if it did not happen.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::Schema;
use lance::Dataset;
use lance::dataset::mem_wal::{LsmScanner, ShardSnapshot, arrow_schema_with_field_ids};
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::write::merge_insert::UncommittedMergeInsert;
use lance::dataset::{
    CommitBuilder, InsertBuilder, MergeInsertBuilder, WhenMatched, WhenNotMatched, WriteMode, WriteParams,
};
use lance::index::DatasetIndexExt;
use lance_context_spec::{Error, MergeReport, Result};
use lance_index::mem_wal::{CompactedSsTable, SsTable};
use lance_index::optimize::OptimizeOptions;
use lance_table::format::key_existence::{FilterType, KeyExistenceFilter};
use uuid::Uuid;

use super::base::{BaseView, fragment_bytes, index_name};
use super::fold::{self, Survey, key_schema};
use super::steps::Step;
use super::writer::Writer;
use super::{Inner, Kind, SESSION};
use crate::clock;
use crate::error::{contended, storage, vanished};

/// Index segments above this number are folded into one.
const INDEX_SEGMENTS: usize = 8;

/// One pass merges at most this many generations and, unless a single one has more, this many bytes: what a pass has
/// written is lost when it fails, or when another process commits before it.
const PASS_GENERATIONS: usize = 8;
const PASS_BYTES: u64 = 256 << 20;

/// Merges that collide with another process's start over on its result this often.
const ATTEMPTS: u32 = 8;

/// Merges every generation that is sealed when it begins, then removes what became superfluous.
pub(super) async fn merge(inner: &Inner, writer: &Writer) -> Result<MergeReport> {
    let _one_at_a_time = inner.merging.lock().await;
    merge_alone(inner, writer).await
}

/// [`merge`] for a caller that holds the lock.
pub(super) async fn merge_alone(inner: &Inner, writer: &Writer) -> Result<MergeReport> {
    // What is sealed meanwhile is for the next merge, or this one might never end.
    let sealed = inner.sealed().await?;
    let mut report = MergeReport::default();
    while let Some(pass) = merge_pass(inner, &sealed).await? {
        report.generations += pass.generations;
        report.rows += pass.rows;
        report.deleted += pass.deleted;
    }
    let view = inner.base.latest().await?;
    let own = inner.shards.own();
    let merged = view.merged(own.id);
    // Other shards are trimmed by their owners, or by who adopts them.
    if inner.lists_merged(own, merged).await? {
        inner.before(Step::Trim).await;
        writer.trim(merged).await?;
    }
    inner.collect().await?;
    // Without it reads by key are slower, not wrong; the next merge tries again.
    inner.before(Step::Index).await;
    if let Err(error) = index(&view, inner.kind).await {
        tracing::warn!(store = %inner.store(), %error, "an index does not cover the merged rows yet");
    }
    report.version = inner.base.latest().await?.dataset.version().version;
    Ok(report)
}

/// The generations of each shard.
pub(super) type Sealed = BTreeMap<Uuid, Vec<SsTable>>;

/// What one pass did.
struct Pass {
    generations: usize,
    rows: u64,
    deleted: u64,
}

enum Failed {
    Read(Error),
    Lance(lance::Error),
}

impl From<lance::Error> for Failed {
    fn from(error: lance::Error) -> Self {
        Self::Lance(error)
    }
}

/// Merges the oldest pending generations; `None` if there are none.
async fn merge_pass(inner: &Inner, sealed: &Sealed) -> Result<Option<Pass>> {
    let mut attempt = 1;
    loop {
        match try_pass(inner, sealed).await {
            Ok(pass) => return Ok(pass),
            Err(Failed::Lance(e)) if lost_to_another_merge(&e) && attempt < ATTEMPTS => {
                clock::back_off(attempt).await;
                attempt += 1;
            }
            Err(Failed::Lance(e)) => return Err(storage(inner.store(), "merge")(e)),
            Err(Failed::Read(e)) => return Err(e),
        }
    }
}

async fn try_pass(inner: &Inner, sealed: &Sealed) -> Result<Option<Pass>, Failed> {
    let view = inner.base.latest().await.map_err(Failed::Read)?;
    let taken = take(inner, &view, sealed).await?;
    if taken.is_empty() {
        return Ok(None);
    }
    let generations = fold::open(inner, &view, &taken).await?;
    let count = generations.len();
    let mut survey = fold::survey(inner, &view, &generations).await?;
    let dead = std::mem::take(&mut survey.dead);
    let (dataset, deleted) = delete(inner, &view.dataset, dead).await?;
    let rows = insert(inner, &dataset, &taken, generations, survey).await?;
    Ok(Some(Pass { generations: count, rows, deleted }))
}

/// The generations of one pass, by shard in the order of their ids: of each shard its oldest ones.
async fn take(inner: &Inner, view: &BaseView, sealed: &Sealed) -> lance::Result<Vec<ShardSnapshot>> {
    let pending = sealed.iter().map(|(shard_id, generations)| {
        let merged = view.merged(*shard_id);
        let pending = generations.iter().filter(move |sealed| sealed.generation > merged);
        pending.enumerate().map(|(turn, sealed)| (turn, *shard_id, sealed))
    });
    let mut pending: Vec<_> = pending.flatten().collect();
    pending.sort_by_key(|(turn, shard_id, _)| (*turn, *shard_id));
    let mut taken: BTreeMap<Uuid, ShardSnapshot> = BTreeMap::new();
    let mut bytes = 0;
    for (_, shard_id, sealed) in pending.into_iter().take(PASS_GENERATIONS) {
        bytes += inner.generation_bytes(view, shard_id, &sealed.path).await?;
        if bytes > PASS_BYTES && !taken.is_empty() {
            break;
        }
        let shard = taken.remove(&shard_id).unwrap_or_else(|| ShardSnapshot::new(shard_id));
        let shard = shard.with_current_generation(sealed.generation + 1);
        taken.insert(shard_id, shard.with_sstable(sealed.generation, sealed.path.clone()));
    }
    Ok(taken.into_values().collect())
}

/// Whether another process merged, or merged and collected, while this one prepared.
pub(super) fn lost_to_another_merge(error: &lance::Error) -> bool {
    contended(error) || error.to_string().contains("Stale SSTable compaction") || vanished(error)
}

impl Inner {
    /// The generations that every shard lists, oldest first.
    pub(super) async fn sealed(&self) -> Result<Sealed> {
        let mut sealed = Sealed::new();
        for shard in self.shards.of(&*self.base.latest().await?)? {
            let Some(manifest) = shard.manifest().await? else { continue };
            let mut generations = manifest.sstables.clone();
            generations.sort_unstable_by_key(|sealed| sealed.generation);
            sealed.insert(shard.id, generations);
        }
        Ok(sealed)
    }

    /// Bytes of the rows of a generation.
    pub(super) async fn generation_bytes(&self, view: &BaseView, shard_id: Uuid, path: &str) -> lance::Result<u64> {
        let generation = self.open_generation(view, &self.generation_uri(view, shard_id, path)).await?;
        Ok(generation.fragments().iter().map(fragment_bytes).sum())
    }

    /// The newest rows of a shard's `generations` alone.
    pub(super) fn shard_scanner(&self, dataset: &Dataset, generations: ShardSnapshot) -> LsmScanner {
        let schema = Arc::new(Schema::from(dataset.schema()));
        let keys = vec![self.kind.key.to_owned()];
        let scanner = LsmScanner::without_base_table(schema, dataset.uri(), vec![generations], keys)
            .with_identity_schema(Arc::new(arrow_schema_with_field_ids(dataset.schema())))
            .with_session(Arc::clone(&SESSION))
            .with_sstable_cache(Self::generation_cache());
        match dataset.store_params() {
            Some(params) => scanner.with_store_params(params.clone()),
            None => scanner,
        }
    }
}

/// Commits the table without the rows of `dead`; returns it and how many rows that were.
async fn delete(inner: &Inner, dataset: &Arc<Dataset>, dead: HashSet<String>) -> lance::Result<(Arc<Dataset>, u64)> {
    if dead.is_empty() {
        return Ok((Arc::clone(dataset), 0));
    }
    let key = inner.kind.key;
    let column = Arc::new(StringArray::from_iter_values(dead));
    let batch = RecordBatch::try_new(key_schema(key), vec![column])?;
    let mut builder = MergeInsertBuilder::try_new(Arc::clone(dataset), vec![key.to_owned()])?;
    builder.when_matched(WhenMatched::Delete).when_not_matched(WhenNotMatched::DoNothing);
    let prepared = Box::pin(builder.try_build()?.execute_uncommitted_batches(vec![batch])).await?;
    if prepared.stats.num_deleted_rows == 0 {
        return Ok((Arc::clone(dataset), 0));
    }
    let deleted = prepared.stats.num_deleted_rows;
    inner.before(Step::CommitDelete).await;
    Ok((Arc::new(commit(dataset, prepared).await?), deleted))
}

/// Commits the rows of `survey` and the marks that the taken generations are merged. Where rows are never replaced, what
/// the table has stays.
async fn insert(
    inner: &Inner,
    dataset: &Arc<Dataset>,
    taken: &[ShardSnapshot],
    generations: Vec<Arc<Dataset>>,
    survey: Survey,
) -> lance::Result<u64> {
    let key = inner.kind.key;
    let newest = |shard: &ShardSnapshot| shard.sstables.iter().map(|sealed| sealed.generation).max().unwrap_or(0);
    let marks = taken.iter().map(|shard| CompactedSsTable::new(shard.shard_id, newest(shard))).collect();
    // Lance's own merge holds the new rows in memory, and the old ones. Here it deletes these, of which it reads the
    // keys alone, and the new ones are written beside it and committed with it.
    let mut builder = MergeInsertBuilder::try_new(Arc::clone(dataset), vec![key.to_owned()])?;
    builder
        .when_matched(WhenMatched::Delete)
        .when_not_matched(WhenNotMatched::DoNothing)
        .mark_sstables_as_compacted(marks);
    let rows = survey.live.num_rows() as u64;
    let replacing = builder.try_build()?.execute_uncommitted_batches(vec![survey.live.clone()]);
    let mut prepared = Box::pin(replacing).await?;
    if rows > 0 {
        let params = WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
        let write = InsertBuilder::new(Arc::clone(dataset)).with_params(&params);
        let written = Box::pin(write.execute_uncommitted_stream(fold::rows(generations, survey, dataset, key))).await?;
        add_fragments(&mut prepared.transaction, written)?;
    }
    inner.before(Step::CommitMerge).await;
    commit(dataset, prepared).await?;
    Ok(rows)
}

/// Makes what `written` appends a part of `transaction`.
fn add_fragments(transaction: &mut Transaction, written: Transaction) -> lance::Result<()> {
    match (&mut transaction.operation, written.operation) {
        (Operation::Update { new_fragments, .. }, Operation::Append { fragments }) => new_fragments.extend(fragments),
        _ => return Err(lance::Error::internal("a merge prepared something other than an update and rows")),
    }
    Ok(())
}

async fn commit(dataset: &Arc<Dataset>, prepared: UncommittedMergeInsert) -> lance::Result<Dataset> {
    let mut transaction = prepared.transaction;
    exclude_other_merges(&mut transaction)?;
    let mut commit = CommitBuilder::new(Arc::clone(dataset));
    if let Some(affected) = prepared.affected_rows {
        commit = commit.with_affected_rows(affected);
    }
    Box::pin(commit.execute(transaction)).await
}

/// Makes the commit conflict with every other merge since its snapshot.
///
/// Lance rebases a merge over a concurrent one when they change no common row, and then both insert the
/// keys that were new to both. Its filter of inserted keys would tell, but the indexed path leaves it out;
/// here every merge claims to have inserted one and the same key.
fn exclude_other_merges(transaction: &mut Transaction) -> lance::Result<()> {
    let Operation::Update { inserted_rows_filter, .. } = &mut transaction.operation else {
        return Err(lance::Error::internal("a merge prepared something other than an update"));
    };
    *inserted_rows_filter =
        Some(KeyExistenceFilter { field_ids: Vec::new(), filter: FilterType::ExactSet(HashSet::from([0])) });
    Ok(())
}

/// Brings the indexes up to the merged rows, where they do not cover them.
pub(super) async fn index(view: &BaseView, kind: Kind) -> lance::Result<()> {
    let mut dataset = view.dataset.as_ref().clone();
    for column in kind.indexed() {
        if view.index(column).await?.is_some() {
            continue;
        }
        let name = index_name(column);
        let segments = dataset.load_indices().await?.iter().filter(|i| i.name == name).count();
        let options =
            if segments > INDEX_SEGMENTS { OptimizeOptions::merge(segments) } else { OptimizeOptions::append() };
        dataset.optimize_indices(&options.index_names(vec![name])).await?;
    }
    Ok(())
}
