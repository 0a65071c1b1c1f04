//! The base table: that it opens and is ours, that its files are there, that keys are unique and found.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::{FieldRef, Schema as ArrowSchema, UInt64Type};
use datafusion::prelude::ident;
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::mem_wal::DatasetMemWalExt;
use lance::index::DatasetIndexExt;
use lance_context_spec::OpenOptions;
use lance_context_spec::doctor::code;
use lance_core::ROW_ADDR;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::{SargableQuery, SearchResult};
use object_store::ObjectMeta;
use object_store::path::Path;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use super::files::{Files, check_files, referenced};
use super::{Exam, IndexRepair, Stopped, blamed, caught, told};
use crate::codec::arrow_schema;
use crate::error::vanished;
use crate::storage::base::{BaseView, ColumnIndex, index_name};
use crate::storage::meta::Meta;
use crate::storage::{shards, torn};

/// The newest version of the base table.
pub(super) struct Table {
    pub dataset: Arc<Dataset>,
    /// What the store persists about itself; `None` if that is damaged.
    pub meta: Option<Meta>,
    /// The newest merged generation of each shard; `None` if the table lost its record of the log.
    pub merged: Option<HashMap<Uuid, u64>>,
    /// The files of rows and of deletions on storage; `None` if they cannot be listed.
    pub present: Option<HashMap<Path, ObjectMeta>>,
    /// Those that any version refers to; `None` if some version cannot tell.
    pub referenced: Option<HashSet<Path>>,
}

impl Table {
    /// The newest merged generation of a shard; `None` if the table lost its record of the log.
    pub fn merged(&self, shard_id: Uuid) -> Option<u64> {
        self.merged.as_ref().map(|merged| merged.get(&shard_id).copied().unwrap_or(0))
    }

    /// Whether it names a shard of an append-only store.
    pub fn announces(&self, shard_id: Uuid) -> bool {
        shards::announced(self.dataset.config()).contains(&shard_id)
    }
}

/// What is where the table should be.
pub(super) enum Opened {
    /// Someone else's table.
    Foreign,
    Unreadable,
    Table(Box<Table>),
}

/// Opens the table and checks that it is ours.
pub(super) async fn open(files: &Files, exam: &mut Exam) -> Opened {
    let dataset = match caught(files.table()).await {
        Ok(dataset) => Arc::new(dataset),
        Err(e) => {
            let (subject, why) = blamed(files, "_versions", &e);
            let message = format!(
                "the newest version does not open: {why}; restore it from a backup; the one before it is no substitute, \
                 because what the lost one changed and merged is not known"
            );
            exam.error(code::TABLE_UNREADABLE, subject, message);
            return Opened::Unreadable;
        }
    };
    let entries = &dataset.schema().metadata;
    if let Some(other) = Meta::kind_of(entries).filter(|stored| *stored != files.kind.name) {
        let message = format!("it is a `{other}` store, and was looked at as a `{}` store", files.kind.name);
        exam.error(code::NOT_A_STORE, "table", message);
        return Opened::Foreign;
    }
    let meta = match Meta::read(&files.store, files.key, entries, &OpenOptions::default()) {
        Ok(Some(meta)) => Some(meta),
        Ok(None) => {
            let message = "it is a Lance dataset without this package's metadata; open it with Lance";
            exam.error(code::NOT_A_STORE, "table", message);
            return Opened::Foreign;
        }
        Err(e) => {
            exam.error(code::METADATA_DAMAGED, "table", format!("{e}; restore the newest version from a backup"));
            None
        }
    };
    Opened::Table(Box::new(Table { dataset, meta, merged: None, present: None, referenced: None }))
}

/// Checks the table and learns about it what later checks need.
pub(super) async fn check(files: &Files, table: &mut Table, exam: &mut Exam) {
    check_schema(files, table, exam);
    let outcome = check_log_record(files, table, exam).await;
    exam.settle("the table's record of the log", outcome);
    let whole = match files.row_files(&files.root).await {
        Ok(present) => {
            let whole = check_files(files, &table.dataset, &present, exam);
            table.present = Some(present);
            whole
        }
        Err(stopped) => {
            exam.settle("the table's files", Err(stopped));
            false
        }
    };
    let outcome = check_versions(files, table, exam).await;
    exam.settle("older versions of the table", outcome);
    if !whole {
        exam.unchecked("unique keys of the table, and its indexes", "files of rows are missing");
        return;
    }
    let rows = match caught(live_rows(&table.dataset, files.key)).await {
        Ok(rows) => rows,
        Err(e) => {
            let message = format!("the key column cannot be read: {}; restore the table from a backup", told(&e));
            exam.error(code::ROWS_UNREADABLE, "table", message);
            exam.unchecked("unique keys of the table, and its indexes", "its rows cannot be read");
            return;
        }
    };
    report_duplicates(exam, "the table", &rows);
    for column in files.kind.indexed() {
        let outcome = check_index(files, table, column, &rows, exam).await;
        exam.settle(&format!("the index on `{column}`"), outcome);
    }
}

/// The table's columns are those of the persisted schema, and the key is marked as such.
fn check_schema(files: &Files, table: &Table, exam: &mut Exam) {
    let Some(meta) = &table.meta else { return exam.unchecked("the schema", "the store's metadata is damaged") };
    let stored = ArrowSchema::from(table.dataset.schema());
    let declared = arrow_schema(&meta.schema);
    if let Some(column) = first_difference(declared.fields(), stored.fields(), true) {
        let message =
            format!("column `{column}` of the table is not as the schema declares it; restore the table from a backup");
        exam.error(code::SCHEMA_MISMATCH, column, message);
    }
    let keys: Vec<_> = table.dataset.schema().unenforced_primary_key().iter().map(|f| f.name.clone()).collect();
    if keys != [files.key] {
        let message = format!("the table's key is `{}`, and it must be `{}`", keys.join("`, `"), files.key);
        exam.error(code::SCHEMA_MISMATCH, files.key, message);
    }
}

/// The first column that `wanted` and `found` do not have alike.
pub(super) fn first_difference(wanted: &[FieldRef], found: &[FieldRef], nullability: bool) -> Option<String> {
    let alike = |a: &FieldRef, b: &FieldRef| {
        a.name() == b.name()
            && a.data_type().equals_datatype(b.data_type())
            && (!nullability || a.is_nullable() == b.is_nullable())
    };
    let differ = wanted.iter().zip(found).find(|(wanted, found)| !alike(wanted, found)).map(|(wanted, _)| wanted);
    let longer = if wanted.len() > found.len() { wanted } else { found };
    let extra = || longer.get(wanted.len().min(found.len()));
    differ.or_else(extra).map(|field| field.name().clone())
}

/// The table knows that it has a log, and how much of it is merged.
async fn check_log_record(files: &Files, table: &mut Table, exam: &mut Exam) -> Result<(), Stopped> {
    let Some(details) = table.dataset.mem_wal_index_details().await? else {
        if !files.have_manifests().await? {
            table.merged = Some(HashMap::new());
            exam.plan.complete = true;
            let message = "creation ended before the write-ahead log was set up; the next open completes it";
            exam.warning(code::CREATION_INCOMPLETE, "table", message);
        } else {
            let message = "the table has no record of its write-ahead log, so that what is merged is unknown; restore \
                           the newest version from a backup";
            exam.error(code::LOG_MISSING, "table", message);
        }
        return Ok(());
    };
    table.merged = Some(details.compacted_sstables.iter().map(|mark| (mark.shard_id, mark.generation)).collect());
    Ok(())
}

/// Older versions can be read: tags and readers that pinned one need them.
async fn check_versions(files: &Files, table: &mut Table, exam: &mut Exam) -> Result<(), Stopped> {
    let newest = table.dataset.version().version;
    let current: HashSet<Path> = referenced(&table.dataset).into_iter().map(|(path, _)| path).collect();
    let mut all = current.clone();
    let mut complete = true;
    for version in table.dataset.version_refs().await? {
        if version.version == newest {
            continue;
        }
        let subject = format!("version {}", version.version);
        let scheme = table.dataset.manifest_location().naming_scheme;
        let manifest = scheme.manifest_path(&files.root, version.version);
        let opening = async {
            torn::check(&files.object_store, &manifest).await?;
            table.dataset.checkout_version(version.version).await
        };
        let old = match caught(opening).await {
            Ok(old) => old,
            // Cleaned up in the meantime.
            Err(e) if vanished(&e) => continue,
            Err(e) => {
                complete = false;
                let message = format!("it does not open: {}; the newest version does not need it", told(&e));
                exam.warning(code::VERSION_UNREADABLE, subject, message);
                continue;
            }
        };
        let paths: Vec<_> = referenced(&old).into_iter().map(|(path, _)| path).collect();
        // What the newest version lacks as well is reported already.
        let own = |path: &&Path| !current.contains(*path);
        let missing = table
            .present
            .as_ref()
            .and_then(|present| paths.iter().filter(own).find(|path| !present.contains_key(*path)));
        if let Some(path) = missing {
            let message = format!("it lacks `{}`; the newest version does not need it", files.relative(path));
            exam.warning(code::VERSION_UNREADABLE, subject, message);
        }
        all.extend(paths);
    }
    table.referenced = complete.then_some(all);
    Ok(())
}

/// The live rows of a table, as far as checks need them.
#[derive(Default)]
pub(super) struct Rows {
    /// Hashes of their keys.
    pub keys: HashSet<u128>,
    /// Their addresses.
    addresses: Vec<u64>,
    /// Keys that came more than once.
    repeated: Vec<String>,
}

/// The hash by which the doctor knows a key.
pub(super) fn key_hash(key: &str) -> u128 {
    xxh3_128(key.as_bytes())
}

pub(super) async fn live_rows(dataset: &Dataset, key: &str) -> lance::Result<Rows> {
    let mut scan = dataset.scan();
    scan.project(&[key])?.with_row_address();
    let mut stream = scan.try_into_stream().await?;
    let mut rows = Rows::default();
    while let Some(batch) = stream.try_next().await? {
        let addresses = batch.column_by_name(ROW_ADDR).and_then(|c| c.as_primitive_opt::<UInt64Type>());
        let addresses = addresses.ok_or_else(|| lance::Error::internal("a scan gave no row addresses"))?;
        rows.addresses.extend(addresses.values().iter().copied());
        for key in key_column(&batch, key)?.iter().flatten() {
            if !rows.keys.insert(key_hash(key)) {
                rows.repeated.push(key.to_owned());
            }
        }
    }
    Ok(rows)
}

pub(super) fn key_column<'a>(batch: &'a RecordBatch, key: &str) -> lance::Result<&'a StringArray> {
    let column = batch.column_by_name(key).and_then(|column| column.as_string_opt::<i32>());
    column.ok_or_else(|| lance::Error::internal(format!("there is no `{key}` column of strings")))
}

pub(super) fn report_duplicates(exam: &mut Exam, place: &str, rows: &Rows) {
    for key in &rows.repeated {
        let message = format!("{place} has two live rows of this key; delete it and add the right row again");
        exam.error(code::DUPLICATE_KEY, key, message);
    }
}

/// The index on a column is there, covers every file of rows, and finds every row.
async fn check_index(
    files: &Files,
    table: &Table,
    column: &'static str,
    rows: &Rows,
    exam: &mut Exam,
) -> Result<(), Stopped> {
    let name = index_name(column);
    let indices = table.dataset.load_indices().await?;
    let segments: Vec<_> = indices.iter().filter(|index| index.name == name).collect();
    if segments.is_empty() {
        exam.plan.complete = true;
        let message = "there is none, so that reads by it read the whole table; the next open makes one";
        exam.warning(code::KEY_INDEX_MISSING, name, message);
        return Ok(());
    }
    for segment in segments {
        if segment.base_id.is_some() {
            continue;
        }
        let directory = table.dataset.indices_dir().join(segment.uuid.to_string());
        let found: HashMap<_, _> =
            files.list(&directory).await?.into_iter().map(|file| (file.location, file.size)).collect();
        for file in segment.files.iter().flatten() {
            let path = directory.clone().join(file.path.as_str());
            if found.get(&path) != Some(&file.size_bytes) {
                exam.plan.indexes.insert(column, IndexRepair::Rebuild);
                let message = "a file of the index is missing or has another size, so that reads by it fail; run \
                               `doctor` with `repair` to write the index anew";
                exam.error(code::KEY_INDEX_DAMAGED, files.relative(&path), message);
            }
        }
    }
    if exam.plan.indexes.contains_key(column) {
        return Ok(());
    }
    let view = BaseView::new(Arc::clone(&table.dataset), files.kind.indexed()).await?;
    let indexed = match caught(view.index(column)).await {
        Ok(None) => {
            exam.plan.indexes.insert(column, IndexRepair::Extend);
            let message = "it does not cover every file of rows, so that reads by it are slower; the next merge or \
                           `doctor` with `repair` completes it";
            exam.warning(code::KEY_INDEX_BEHIND, name, message);
            return Ok(());
        }
        Ok(Some(index)) => caught(indexed_addresses(index)).await,
        Err(e) => Err(e),
    };
    let broken = match indexed {
        Ok(indexed) => {
            let looked_up = if column == files.key { Vec::new() } else { addresses_of(&table.dataset, column).await? };
            let wanted = if column == files.key { &rows.addresses } else { &looked_up };
            let missing = wanted.iter().filter(|address| !indexed.contains(address)).count();
            (missing > 0).then(|| format!("it misses {missing} of {} rows", wanted.len()))
        }
        Err(e) => Some(format!("it cannot be read: {}", told(&e))),
    };
    if let Some(broken) = broken {
        exam.plan.indexes.insert(column, IndexRepair::Rebuild);
        let message =
            format!("{broken}, so that reads by it fail or miss rows; run `doctor` with `repair` to write it anew");
        exam.error(code::KEY_INDEX_DAMAGED, name, message);
    }
    Ok(())
}

/// The addresses of the rows that have a value in `column`: an index lists no others.
async fn addresses_of(dataset: &Dataset, column: &str) -> lance::Result<Vec<u64>> {
    let mut scan = dataset.scan();
    scan.project(&[column])?.with_row_address().filter_expr(ident(column).is_not_null()).use_scalar_index(false);
    let mut stream = scan.try_into_stream().await?;
    let mut found = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        let addresses = batch.column_by_name(ROW_ADDR).and_then(|c| c.as_primitive_opt::<UInt64Type>());
        let addresses = addresses.ok_or_else(|| lance::Error::internal("a scan gave no row addresses"))?;
        found.extend(addresses.values().iter().copied());
    }
    Ok(found)
}

async fn indexed_addresses(index: &ColumnIndex) -> lance::Result<HashSet<u64>> {
    let everything = SargableQuery::Range(Bound::Unbounded, Bound::Unbounded);
    let mut addresses = HashSet::new();
    for segment in &index.segments {
        let (SearchResult::Exact(rows) | SearchResult::AtMost(rows) | SearchResult::AtLeast(rows)) =
            segment.search(&everything, &NoOpMetricsCollector).await?;
        addresses.extend(rows.true_rows().row_addrs().into_iter().flatten().map(u64::from));
    }
    Ok(addresses)
}
