//! The listed generations that are not merged: that each is there with all of its rows, and that its key index holds
//! exactly their keys.
//!
//! A generation hides older rows by its key index and nothing else: a key that is missing there lets a stale row
//! show, and one that is there without a row hides what nothing replaces.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Schema as ArrowSchema;
use lance::Dataset;
use lance::dataset::mem_wal::util::{PK_INDEX_DIR, pk_index_path, shard_base_path};
use lance::dataset::mem_wal::{TOMBSTONE, schema_with_tombstone};
use lance_context_spec::doctor::code;
use lance_core::cache::LanceCache;
use lance_index::mem_wal::{ShardManifest, SsTable};
use lance_index::scalar::IndexStore;
use lance_index::scalar::btree::BTREE_LOOKUP_NAME;
use lance_index::scalar::lance_format::LanceIndexStore;
use object_store::path::Path;

use super::files::{Files, check_files};
use super::table::{Table, first_difference, key_hash, live_rows, report_duplicates};
use super::{Exam, Stopped, blamed, caught, told};
use crate::error::vanished;

/// The file of a BTree that holds its values; lance does not export the name.
const PAGES: &str = "page_data.lance";

/// Keys read at a time.
const KEYS: usize = 8192;

pub(super) async fn check(files: &Files, table: &Table, manifest: &ShardManifest, exam: &mut Exam) {
    let Some(merged) = table.merged(files.shard_id) else {
        return exam.unchecked(&files.of_shard("generations"), "the table does not say which are merged");
    };
    for sealed in manifest.sstables.iter().filter(|sealed| sealed.generation > merged) {
        let outcome = check_generation(files, table, sealed, exam).await;
        exam.settle(&files.of_shard(&format!("generation {}", sealed.generation)), outcome);
    }
}

/// Where a generation lies.
pub(super) fn directory(files: &Files, name: &str) -> Path {
    shard_base_path(&files.root, &files.shard_id).join(name)
}

/// The store of a generation's own key index.
pub(super) fn key_index_store(files: &Files, name: &str) -> LanceIndexStore {
    let path = pk_index_path(&directory(files, name));
    LanceIndexStore::new(Arc::clone(&files.object_store), path, Arc::new(LanceCache::no_cache()))
}

async fn check_generation(files: &Files, table: &Table, sealed: &SsTable, exam: &mut Exam) -> Result<(), Stopped> {
    let place = directory(files, &sealed.path);
    let subject = files.relative(&place);
    let generation = match caught(files.generation(&sealed.path)).await {
        Ok(generation) => generation,
        Err(e) if vanished(&e) && files.list(&place).await?.is_empty() => {
            let message = "it is sealed, listed and not there, so that reads fail; restore it from a backup";
            exam.error(code::GENERATION_MISSING, subject, message);
            return Ok(());
        }
        Err(e) => {
            let (subject, why) = blamed(files, &subject, &e);
            let message = format!("the generation does not open, so that reads fail: {why}; restore it from a backup");
            exam.error(code::GENERATION_UNREADABLE, subject, message);
            return Ok(());
        }
    };
    check_shape(files, table, sealed, &generation, exam);
    let present = files.row_files(&place).await?;
    if !check_files(files, &generation, &present, exam) {
        let what = files.of_shard(&format!("keys of generation {}", sealed.generation));
        exam.unchecked(&what, "files of it are missing");
        return Ok(());
    }
    check_keys(files, sealed, &generation, exam).await;
    Ok(())
}

/// It has the table's columns and the mark of deleted rows, and as many rows as were sealed.
fn check_shape(files: &Files, table: &Table, sealed: &SsTable, generation: &Dataset, exam: &mut Exam) {
    let subject = files.relative(&directory(files, &sealed.path));
    let wanted = schema_with_tombstone(&ArrowSchema::from(table.dataset.schema()));
    let found = ArrowSchema::from(generation.schema());
    if let Some(column) = first_difference(wanted.fields(), found.fields(), false) {
        let what = if column == TOMBSTONE { "the mark of deleted rows".to_owned() } else { format!("`{column}`") };
        let message = format!("{what} is not as the table needs it; restore the generation from a backup");
        exam.error(code::GENERATION_SCHEMA, subject.as_str(), message);
    }
    let rows: usize = generation.fragments().iter().filter_map(|fragment| fragment.physical_rows).sum();
    if let Some(wanted) = sealed.physical_rows
        && wanted != rows as u64
    {
        let message = format!("it has {rows} rows and was sealed with {wanted}; restore it from a backup");
        exam.error(code::GENERATION_ROWS, subject, message);
    }
}

/// Each key has one live row, and the key index has exactly these keys.
async fn check_keys(files: &Files, sealed: &SsTable, generation: &Dataset, exam: &mut Exam) {
    let place = files.relative(&directory(files, &sealed.path));
    let rows = match caught(live_rows(generation, files.key)).await {
        Ok(rows) => rows,
        Err(e) => {
            let message = format!("the key column cannot be read: {}; restore the generation from a backup", told(&e));
            return exam.error(code::ROWS_UNREADABLE, place, message);
        }
    };
    report_duplicates(exam, &files.of_shard(&format!("generation {}", sealed.generation)), &rows);
    let wrong = match caught(indexed_keys(files, &sealed.path)).await {
        Ok(indexed) if indexed == rows.keys => return,
        Ok(indexed) => {
            let missing = rows.keys.difference(&indexed).count();
            let extra = indexed.difference(&rows.keys).count();
            format!("it misses {missing} keys of the generation's rows and has {extra} others")
        }
        Err(e) => format!("it cannot be read: {}", told(&e)),
    };
    exam.plan.shard(files.shard_id).generation_keys.push(sealed.path.clone());
    let message = format!(
        "{wrong}, so that reads fail, show stale rows or hide rows; run `doctor` with `repair` to write it anew"
    );
    exam.error(code::GENERATION_KEYS, format!("{place}/{PK_INDEX_DIR}"), message);
}

async fn indexed_keys(files: &Files, name: &str) -> lance::Result<HashSet<u128>> {
    let store = key_index_store(files, name);
    // Without the lookup file the pages are not found.
    let lookup = store.open_index_file(BTREE_LOOKUP_NAME).await?;
    lookup.read_range(0..lookup.num_rows(), None).await?;
    let pages = store.open_index_file(PAGES).await?;
    let mut keys = HashSet::new();
    for start in (0..pages.num_rows()).step_by(KEYS) {
        let batch = pages.read_range(start..pages.num_rows().min(start + KEYS), None).await?;
        let column = batch.columns().first().and_then(|column| column.as_string_opt::<i32>());
        let column = column.ok_or_else(|| lance::Error::internal("its keys are no strings"))?;
        keys.extend(column.iter().flatten().map(key_hash));
    }
    Ok(keys)
}
