//! The WAL: that every entry behind the replay position is there, decodes, fits the table, and follows the one before
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lance::dataset::mem_wal::util::wal_entry_filename;
use lance::dataset::mem_wal::{
    WalReadEntry, arrow_schema_with_field_ids, relax_non_pk_nullability, schema_with_tombstone,
};
use lance_context_spec::doctor::code;
use lance_index::mem_wal::ShardManifest;

use super::files::Files;
use super::table::Table;
use super::{Exam, Floor, ShardPlan, Stopped, caught, told};
use crate::storage::shard::Slot;

/// A writer so many claims ahead of the manifest is none of this shard.
const CLAIMS: u64 = 1_000;

/// More missing entries than this in a row are not filled: that is no lost file but a stray one far away.
const FILLED: u64 = 10_000;

/// What lies at a position behind the replay position.
enum Found {
    Entry {
        epoch: u64,
        rows: bool,
    },
    /// It cannot be decoded, and why.
    Torn(String),
    /// It cannot be read, and why.
    Unreadable(String),
}

pub(super) async fn check(
    files: &Files,
    table: Option<&Table>,
    manifest: &ShardManifest,
    exam: &mut Exam,
) -> Result<(), Stopped> {
    let schema = table.map(|table| entry_schema(table, files.key));
    if schema.is_none() {
        exam.unchecked(&files.of_shard("columns of WAL entries"), "the table does not open");
    }
    let replayed = manifest.replay_after_wal_entry_position;
    let positions = positions(files).await?;
    let end = positions.last().copied().unwrap_or(0);
    let mut tail = BTreeMap::new();
    for position in positions.into_iter().filter(|position| *position > replayed) {
        let looking = async { files.shard.look(position).await.map_err(Stopped::from) };
        let found = match caught(looking).await {
            // Collected in the meantime.
            Ok(Slot::Free) => continue,
            Ok(Slot::Torn(e)) => Found::Torn(told(&e)),
            Ok(Slot::Entry(entry)) => {
                if let Some(schema) = &schema {
                    check_columns(files, position, &entry, schema, exam);
                }
                Found::Entry { epoch: entry.writer_epoch, rows: !entry.batches.is_empty() }
            }
            Err(Stopped(why)) => Found::Unreadable(why),
        };
        tail.insert(position, found);
    }
    check_order(files, manifest, &tail, exam);
    let seen = manifest.wal_entry_position_last_seen.max(replayed);
    check_entries(files, &tail, exam);
    check_holes(files, replayed, &tail, exam);
    if end < seen {
        let message = format!(
            "it ends at entry {end}, and the shard manifest has seen {seen}: entries are lost; restore them from a \
             backup, or run `doctor` with `repair` to go on without them"
        );
        exam.error(code::WAL_CUT, wal_name(files), message);
    }
    plan(replayed, end, seen, manifest.writer_epoch, &tail, exam.plan.shard(files.shard_id));
    Ok(())
}

/// Whether every entry behind the replay position of `manifest` is there and decodes.
pub(super) async fn is_whole_behind(files: &Files, manifest: &ShardManifest) -> Result<bool, Stopped> {
    let replayed = manifest.replay_after_wal_entry_position;
    let mut expected = replayed + 1;
    for position in positions(files).await?.into_iter().filter(|position| *position > replayed) {
        if position != expected || !matches!(files.shard.look(position).await?, Slot::Entry(_)) {
            return Ok(false);
        }
        expected += 1;
    }
    // Even when nothing follows, the entry at the replay position stays.
    Ok(expected > replayed + 1 || replayed == 0 || files.shard.has_entry(replayed).await?)
}

fn wal_name(files: &Files) -> String {
    format!("_mem_wal/{}/wal", files.shard_id)
}

fn entry_name(files: &Files, position: u64) -> String {
    format!("{}/{}", wal_name(files), wal_entry_filename(position))
}

/// The positions that have a file, in order.
async fn positions(files: &Files) -> Result<Vec<u64>, Stopped> {
    let mut positions: Vec<u64> = files
        .shard
        .wal_files()
        .await?
        .into_iter()
        // A write that was killed leaves a file of the same name with more behind it.
        .filter(|(position, file)| file.location.filename() == Some(wal_entry_filename(*position).as_str()))
        .map(|(position, _)| position)
        .collect();
    positions.sort_unstable();
    Ok(positions)
}

/// The columns of every entry with rows.
fn entry_schema(table: &Table, key: &str) -> SchemaRef {
    let stored = schema_with_tombstone(&arrow_schema_with_field_ids(table.dataset.schema()));
    relax_non_pk_nullability(&stored, &[key.to_owned()])
}

fn check_columns(files: &Files, position: u64, entry: &WalReadEntry, schema: &SchemaRef, exam: &mut Exam) {
    for batch in &entry.batches {
        let named = batch.schema().fields().iter().map(|f| f.name()).eq(schema.fields().iter().map(|f| f.name()));
        let fits = RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec());
        let wrong = match fits {
            Ok(_) if !named => "its columns have other names".to_owned(),
            // Lance then refuses to replay it.
            Ok(fitting) if fitting.schema() != batch.schema() => "it was written under other metadata".to_owned(),
            Ok(_) => continue,
            Err(e) => e.to_string(),
        };
        let message = format!(
            "entry {position} does not have the table's columns: {wrong}; restore the entry or the table from a backup"
        );
        exam.error(code::WAL_SCHEMA, entry_name(files, position), message);
        return;
    }
}

/// Writers follow each other, each with a claim that the manifest knows of.
fn check_order(files: &Files, manifest: &ShardManifest, tail: &BTreeMap<u64, Found>, exam: &mut Exam) {
    let mut last = 0;
    for (position, found) in tail {
        let Found::Entry { epoch, .. } = found else { continue };
        if *epoch < last {
            let message = format!(
                "entry {position} is of an older writer (epoch {epoch}) than the one before it ({last}); restore the \
                 shard from a backup"
            );
            exam.error(code::WAL_ORDER, entry_name(files, *position), message);
            continue;
        }
        last = *epoch;
        if *epoch > manifest.writer_epoch {
            let message = format!(
                "entry {position} is of a writer that the shard manifest does not know (epoch {epoch}), and no writer \
                 can replay it; restore the newest manifest from a backup, or run `doctor` with `repair` to \
                 go on behind it"
            );
            exam.error(code::WAL_ORDER, entry_name(files, *position), message);
            if *epoch - manifest.writer_epoch <= CLAIMS {
                exam.plan.shard(files.shard_id).floor.get_or_insert_with(Floor::default).epoch = *epoch;
            }
        }
    }
}

/// Every file decodes.
fn check_entries(files: &Files, tail: &BTreeMap<u64, Found>, exam: &mut Exam) {
    for (position, found) in tail {
        match found {
            Found::Entry { .. } => {}
            Found::Unreadable(why) => {
                let message = format!("entry {position} cannot be read: {why}; see to the disk, or restore it");
                exam.error(code::WAL_UNREADABLE, entry_name(files, *position), message);
            }
            Found::Torn(why) if is_last(*position, tail) => {
                let message = format!(
                    "the last entry cannot be decoded: {why}; a write that was never acknowledged leaves it, and the \
                     next writer puts it aside"
                );
                exam.warning(code::WAL_TORN_END, entry_name(files, *position), message);
            }
            Found::Torn(why) => {
                let message = format!(
                    "entry {position} cannot be decoded and others follow it, which are not read: {why}; restore it \
                     from a backup, or run `doctor` with `repair` to put it aside"
                );
                exam.error(code::WAL_TORN, entry_name(files, *position), message);
            }
        }
    }
}

/// Whether nothing that matters lies behind: claims that fail leave empty entries.
fn is_last(position: u64, tail: &BTreeMap<u64, Found>) -> bool {
    tail.range(position + 1..).all(|(_, found)| matches!(found, Found::Entry { rows: false, .. }))
}

/// No position before the end is free.
fn check_holes(files: &Files, replayed: u64, tail: &BTreeMap<u64, Found>, exam: &mut Exam) {
    let mut expected = replayed + 1;
    for position in tail.keys().copied() {
        if position > expected {
            let range = if position - expected == 1 {
                format!("entry {expected} is")
            } else {
                format!("entries {expected} to {} are", position - 1)
            };
            if is_last(expected, tail) {
                let message = format!("{range} not there, and no rows follow; the next writer goes on there");
                exam.warning(code::WAL_HOLE, entry_name(files, expected), message);
            } else {
                let message = format!(
                    "{range} not there and others follow, which are not read; restore what is missing from a backup, \
                     or run `doctor` with `repair` to go on without it"
                );
                exam.error(code::WAL_HOLE, entry_name(files, expected), message);
            }
        }
        expected = position + 1;
    }
}

/// What a repair puts aside, and which positions it fills so that a reader gets across them.
///
/// An entry that cannot be read may be whole, and a file far behind the others may be none of the log: then nothing is
/// done.
fn plan(replayed: u64, end: u64, seen: u64, epoch: u64, tail: &BTreeMap<u64, Found>, plan: &mut ShardPlan) {
    let (mut torn, mut fill, mut next) = (Vec::new(), Vec::new(), replayed + 1);
    for (position, found) in tail {
        match found {
            Found::Unreadable(_) => return,
            Found::Torn(_) => torn.push(*position),
            Found::Entry { .. } if position - next > FILLED => return,
            Found::Entry { epoch, .. } => {
                // Under the epoch of what follows: writers still follow each other.
                fill.extend((next..*position).map(|free| (free, *epoch)));
                next = position + 1;
            }
        }
    }
    // Where even the replay position is gone, it is what the next writer looks for.
    let from = if end < replayed { replayed } else { next };
    if seen.saturating_sub(from) > FILLED {
        return;
    }
    fill.extend((from..=seen).map(|free| (free, epoch)));
    plan.torn = torn;
    plan.fill = fill;
}
