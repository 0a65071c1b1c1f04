//! What a look planned to do, done. A step that fails is a finding, and the next one is still taken.
//!
//! Rows are the next writer's to seal: it claims the shard, and finds a manifest and a log that it can replay.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};
use lance::dataset::mem_wal::DatasetMemWalExt;
use lance::dataset::mem_wal::util::wal_entry_filename;
use lance::index::DatasetIndexExt;
use lance_context_spec::doctor::code;
use lance_context_spec::{Finding, OpenOptions, Result, Severity};
use lance_core::ROW_ADDR;
use lance_index::IndexType;
use lance_index::mem_wal::ShardManifest;
use lance_index::scalar::ScalarIndexParams;
use lance_index::scalar::btree::train_btree_index;
use lance_index::scalar::registry::VALUE_COLUMN_NAME;

use super::files::Files;
use super::generations::key_index_store;
use super::leftovers::unreferenced;
use super::table::key_column;
use super::{Exam, Floor, IndexRepair, Plan, ShardPlan, Stopped, caught};
use crate::storage::base::{BaseView, index_name};
use crate::storage::create::complete;
use crate::storage::merge;
use crate::storage::shards::announcement;
use crate::storage::staging::remove_staged;
use crate::storage::steps::Step;
use crate::storage::{Kind, Location};

/// What lance calls these in the metadata of a WAL entry.
const WRITER_EPOCH: &str = "writer_epoch";
const FENCE_SENTINEL: &str = "fence_sentinel";

/// Keys of a page of a generation's key index, as a seal writes it.
const PAGE_KEYS: usize = 8192;

/// The steps of a repair and what became of those that failed.
#[derive(Default)]
struct Steps {
    failures: Vec<Finding>,
}

impl Steps {
    async fn take(&mut self, what: &str, step: impl Future<Output = Result<(), Stopped>>) {
        if let Err(Stopped(why)) = caught(step).await {
            self.failures.push(Finding {
                severity: Severity::Error,
                code: code::REPAIR_FAILED,
                subject: what.to_owned(),
                message: format!("not repaired: {why}; see to that, and run the repair again"),
                repaired: false,
            });
        }
    }
}

/// Mends everything that does not delete. What fails is in the result.
pub(super) async fn mend(location: &Location, kind: Kind, options: &OpenOptions, exam: &Exam) -> Result<Vec<Finding>> {
    let plan = &exam.plan;
    let files = Files::open(location, kind, options, plan.fsync).await?;
    let mut steps = Steps::default();
    for (shard_id, plan) in &plan.shards {
        mend_shard(&files.at(*shard_id), location, plan, &mut steps).await;
    }
    if plan.complete || !plan.indexes.is_empty() {
        steps.take("indexes", mend_table(&files, location, kind, plan)).await;
    }
    Ok(steps.failures)
}

async fn mend_shard(files: &Files, location: &Location, plan: &ShardPlan, steps: &mut Steps) {
    let what = files.of_shard("manifest");
    if plan.announce {
        steps.take(&files.of_shard("announcement"), announce(files)).await;
    }
    if let Some(version) = plan.manifest {
        steps.take(&what, replace_manifest(files, location, version)).await;
    }
    if let Some(floor) = plan.floor {
        steps.take(&what, raise_manifest(files, floor)).await;
    }
    steps.take(&files.of_shard("WAL"), mend_log(files, location, plan)).await;
    for name in &plan.generation_keys {
        steps.take(name, write_generation_keys(files, name)).await;
    }
}

async fn announce(files: &Files) -> Result<(), Stopped> {
    files.table().await?.update_config(announcement(files.shard_id)).await?;
    Ok(())
}

/// Puts the newest manifest aside and writes one that continues the one before it, as a claim does: no writer can then
/// take the same epoch as one that the lost manifest knew.
async fn replace_manifest(files: &Files, location: &Location, version: u64) -> Result<(), Stopped> {
    location.before(Step::Quarantine).await;
    files.shard.quarantine_manifest(version).await?;
    let newest = files.shard.manifests.refresh_latest().await?;
    let spec =
        newest.map(|manifest| manifest.shard_spec_id).ok_or_else(|| Stopped("no manifest is left".to_owned()))?;
    files.shard.manifests.claim_epoch(spec).await?;
    Ok(())
}

/// Claims the shard until the manifest is ahead of everything that a lost one has given out.
async fn raise_manifest(files: &Files, floor: Floor) -> Result<(), Stopped> {
    let manifests = &files.shard.manifests;
    let spec = match manifests.refresh_latest().await? {
        Some(newest) => newest.shard_spec_id,
        None => {
            let details = files.table().await?.mem_wal_index_details().await?;
            let spec = details.and_then(|details| details.sharding_specs.first().map(|spec| spec.spec_id));
            spec.ok_or_else(|| Stopped("the table does not say how it is sharded".to_owned()))?
        }
    };
    let (mut epoch, mut manifest) = manifests.claim_epoch(spec).await?;
    while epoch < floor.epoch {
        (epoch, manifest) = manifests.claim_epoch(spec).await?;
    }
    if manifest.current_generation < floor.generation {
        let raise = |current: &ShardManifest| ShardManifest {
            version: current.next_version(),
            current_generation: floor.generation,
            ..current.clone()
        };
        manifests.commit_update(epoch, raise).await?;
    }
    Ok(())
}

/// Puts torn entries aside and lays an empty one into every hole, so that a reader gets across.
async fn mend_log(files: &Files, location: &Location, plan: &ShardPlan) -> Result<(), Stopped> {
    for position in &plan.torn {
        location.before(Step::Quarantine).await;
        files.shard.quarantine(*position).await?;
    }
    for (position, epoch) in &plan.fill {
        let entry = empty_entry(*epoch).map_err(lance::Error::from)?;
        let path = files.shard.wal_dir.clone().join(wal_entry_filename(*position).as_str());
        match files.object_store.put_if_absent(&path, entry.into()).await {
            Ok(()) | Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// What a claim leaves in the log: no columns, no rows.
fn empty_entry(epoch: u64) -> Result<Vec<u8>, ArrowError> {
    let metadata =
        HashMap::from([(WRITER_EPOCH.to_owned(), epoch.to_string()), (FENCE_SENTINEL.to_owned(), true.to_string())]);
    let schema = Schema::new_with_metadata(Fields::empty(), metadata);
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.finish()?;
    writer.into_inner()
}

/// Writes a generation's own key index from its rows, as a seal does: every row that was sealed, replaced ones too,
/// by key and then by position.
async fn write_generation_keys(files: &Files, name: &str) -> Result<(), Stopped> {
    let generation = files.generation(name).await?;
    let mut keys: Vec<(String, u64)> = Vec::new();
    let mut scan = generation.scan();
    // Lance gives deleted rows only together with row ids.
    scan.project(&[files.key])?.with_row_id().include_deleted_rows().scan_in_order(true);
    let mut rows = scan.try_into_stream().await?;
    while let Some(batch) = rows.try_next().await? {
        for key in key_column(&batch, files.key)?.iter().flatten() {
            keys.push((key.to_owned(), keys.len() as u64));
        }
    }
    keys.sort_unstable();
    let schema = Arc::new(Schema::new(vec![
        Field::new(VALUE_COLUMN_NAME, DataType::Utf8, true),
        Field::new(ROW_ADDR, DataType::UInt64, false),
    ]));
    let pages = keys.chunks(PAGE_KEYS).map(|page| {
        let values = StringArray::from_iter_values(page.iter().map(|(key, _)| key));
        let positions = UInt64Array::from_iter_values(page.iter().map(|(_, position)| *position));
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values), Arc::new(positions)])
    });
    let pages = pages.collect::<Result<Vec<_>, _>>().map_err(lance::Error::from)?;
    let sorted = RecordBatchStreamAdapter::new(Arc::clone(&schema), stream::iter(pages.into_iter().map(Ok)));
    let store = key_index_store(files, name);
    train_btree_index(Box::pin(sorted), &store, PAGE_KEYS as u64, None, None).await?;
    Ok(())
}

/// Finishes the creation, or brings the indexes up to the rows.
async fn mend_table(files: &Files, location: &Location, kind: Kind, plan: &Plan) -> Result<(), Stopped> {
    let mut dataset = files.table().await?;
    if plan.complete {
        complete(&mut dataset, location, kind).await?;
    }
    for (column, repair) in &plan.indexes {
        if *repair == IndexRepair::Rebuild {
            location.before(Step::Index).await;
            let (name, params) = (index_name(column), ScalarIndexParams::default());
            dataset.create_index(&[column], IndexType::BTree, Some(name), &params, true).await?;
        }
    }
    if plan.indexes.values().any(|repair| *repair == IndexRepair::Extend) {
        location.before(Step::Index).await;
        let view = BaseView::new(Arc::new(dataset), kind.indexed()).await?;
        merge::index(&view, kind).await?;
    }
    Ok(())
}

/// Removes what nothing needs. What fails is in the result.
pub(super) async fn sweep(location: &Location, kind: Kind, options: &OpenOptions, exam: &Exam) -> Result<Vec<Finding>> {
    let plan = &exam.plan;
    let files = Files::open(location, kind, options, plan.fsync).await?;
    let mut steps = Steps::default();
    steps.take("superfluous generations and WAL entries", sweep_shard(&files, location, plan)).await;
    steps.take("superfluous files of the table", sweep_table(&files, location, plan)).await;
    if let (true, Some(directory)) = (plan.staged, files.directory) {
        let removing = async { Ok(remove_staged(directory).await.map(drop)?) };
        steps.take("staged files", removing).await;
    }
    Ok(steps.failures)
}

async fn sweep_shard(files: &Files, location: &Location, plan: &Plan) -> Result<(), Stopped> {
    for directory in &plan.generations {
        location.before(Step::Collect).await;
        files.object_store.remove_dir_all(directory.clone()).await?;
    }
    for entry in &plan.entries {
        location.before(Step::Collect).await;
        files.object_store.delete(entry).await?;
    }
    Ok(())
}

async fn sweep_table(files: &Files, location: &Location, plan: &Plan) -> Result<(), Stopped> {
    if plan.files {
        location.before(Step::Clean).await;
        files.table().await?.cleanup_with_policy(unreferenced()).await?;
    }
    for file in &plan.deletions {
        location.before(Step::Clean).await;
        files.object_store.delete(file).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::ipc::reader::StreamReader;

    use super::*;

    #[test]
    fn an_empty_entry_decodes_to_an_epoch_and_no_rows() {
        let bytes = empty_entry(7).unwrap();
        let reader = StreamReader::try_new(bytes.as_slice(), None).unwrap();
        assert_eq!(reader.schema().metadata()[WRITER_EPOCH], "7");
        assert!(reader.schema().fields().is_empty());
        assert_eq!(reader.count(), 0);
    }
}
