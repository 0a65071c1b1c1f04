//! Creation, as several commits of which any prefix is repaired by the next open.
//!
//! The first version of the table carries the store's whole identity; the indexes and the MemWAL
//! follow. Nothing foreign is ever written to: what is there is looked at first.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatchIterator;
use arrow::datatypes::Schema as ArrowSchema;
use arrow::error::ArrowError;
use lance::Dataset;
use lance::dataset::mem_wal::DatasetMemWalExt;
use lance::dataset::{CommitBuilder, InsertBuilder, WriteMode, WriteParams};
use lance::index::DatasetIndexExt;
use lance_context_spec::{Error, OpenOptions, Result, SchemaSpec};
use lance_index::IndexType;
use lance_index::scalar::ScalarIndexParams;

use super::base::index_name;
use super::location::Access;
use super::meta::Meta;
use super::staging::is_staged;
use super::steps::Step;
use super::{Kind, Location, SESSION};
use crate::codec::arrow_schema;
use crate::error::storage;

/// Two processes that create at once repair each other's half at most this often.
const CREATE_ATTEMPTS: u32 = 8;

/// The directories that creation makes before the first version exists, and the endings of their files.
const BEFORE_FIRST_VERSION: [(&str, &str); 2] = [("_transactions", ".txn"), ("data", ".lance")];

/// Opens the dataset, creating it if it is absent and `declared`; repairs one that a crash left half made.
pub(super) async fn open_or_create(
    location: &Location,
    kind: Kind,
    declared: Option<SchemaSpec>,
    must_exist: bool,
    options: &OpenOptions,
) -> Result<(Dataset, Meta, Access)> {
    let store = location.given.as_str();
    let mut access = location.access(options.fsync == Some(true), &options.storage_options)?;
    let mut dataset = match load(location, &access).await? {
        Some(dataset) => dataset,
        None if must_exist => return Err(Error::StoreNotFound { store: store.to_owned() }),
        None => {
            let schema = declared.clone().ok_or_else(|| Error::SchemaMissing { store: store.to_owned() })?;
            create(location, &Meta::create(kind.name, schema, options), &access).await?
        }
    };
    let entries = &dataset.schema().metadata;
    let foreign = |message: String| Error::NotAStore { store: store.to_owned(), message };
    if let Some(other) = Meta::kind_of(entries).filter(|stored| *stored != kind.name) {
        return Err(foreign(format!("it is a `{other}` store, and was opened as `{}`", kind.name)));
    }
    let meta = Meta::read(store, kind.key, entries, options)?
        .ok_or_else(|| foreign("it is a Lance dataset without this package's metadata".to_owned()))?;
    if let Some(diff) = declared.and_then(|declared| declared.diff(&meta.schema)) {
        return Err(Error::SchemaMismatch { store: store.to_owned(), diff });
    }
    if meta.fsync && options.fsync.is_none() {
        access = location.access(true, &options.storage_options)?;
        dataset = load(location, &access).await?.ok_or_else(|| Error::StoreNotFound { store: store.to_owned() })?;
    }
    if !options.read_only {
        complete(&mut dataset, location, kind).await?;
    }
    Ok((dataset, meta, access))
}

/// The dataset, or `None` where there is nothing.
async fn load(location: &Location, access: &Access) -> Result<Option<Dataset>> {
    if let Some(path) = &location.path
        && is_vacant(&location.given, path)?
    {
        return Ok(None);
    }
    match access.load(&SESSION).await {
        Ok(dataset) => Ok(Some(dataset)),
        Err(lance::Error::DatasetNotFound { .. } | lance::Error::NotFound { .. }) if location.path.is_none() => {
            Ok(None)
        }
        Err(lance::Error::DatasetNotFound { .. } | lance::Error::NotFound { .. }) => Err(Error::NotAStore {
            store: location.given.clone(),
            message: "it has a `_versions` directory without a version in it".to_owned(),
        }),
        Err(e) => Err(storage(&location.given, "open")(e)),
    }
}

/// Whether a local path holds nothing that creation would have to respect.
pub(super) fn is_vacant(store: &str, path: &Path) -> Result<bool> {
    let failed = |e: std::io::Error| storage(store, "open")(lance::Error::from(e));
    let foreign = |message: String| Error::NotAStore { store: store.to_owned(), message };
    match path.metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(foreign("a parent of the path is a file".to_owned()));
        }
        Err(e) => return Err(failed(e)),
        Ok(found) if !found.is_dir() => return Err(foreign("it is a file".to_owned())),
        Ok(_) => {}
    }
    let entries = |dir: &Path| -> Result<Vec<std::fs::DirEntry>> {
        dir.read_dir().map_err(failed)?.map(|entry| entry.map_err(failed)).collect()
    };
    let versions = path.join("_versions");
    let staged = |file: &std::fs::DirEntry| is_staged(&file.file_name().to_string_lossy());
    if versions.is_dir() && !entries(&versions)?.iter().all(staged) {
        return Ok(false);
    }
    for entry in entries(path)? {
        let name = entry.file_name();
        let holds = |name: &std::ffi::OsStr| foreign(format!("the directory holds `{}`", name.to_string_lossy()));
        if name == "_versions" && entry.path().is_dir() {
            continue;
        }
        let Some((_, ending)) = BEFORE_FIRST_VERSION.iter().find(|(known, _)| name == *known) else {
            return Err(holds(&name));
        };
        if !entry.path().is_dir() {
            return Err(holds(&name));
        }
        for file in entries(&entry.path())? {
            let name = file.file_name();
            if !name.to_string_lossy().ends_with(ending) && !is_staged(&name.to_string_lossy()) {
                return Err(holds(&name));
            }
        }
    }
    Ok(true)
}

/// Commits the first version: no rows, the whole identity.
///
/// By its default lance overwrites what came since it looked; a commit without retries is the first version or none.
async fn create(location: &Location, meta: &Meta, access: &Access) -> Result<Dataset> {
    let failed = storage(&location.given, "create");
    let fields = arrow_schema(&meta.schema).fields().clone();
    let schema = Arc::new(ArrowSchema::new_with_metadata(fields, meta.entries()));
    let no_rows = RecordBatchIterator::new(Vec::<Result<_, ArrowError>>::new(), schema);
    let params = WriteParams {
        mode: WriteMode::Create,
        session: Some(Arc::clone(&SESSION)),
        store_params: access.params.clone(),
        ..WriteParams::default()
    };
    let uri = access.uri.as_str();
    let committed = async {
        let first = InsertBuilder::new(uri).with_params(&params).execute_uncommitted_stream(no_rows).await?;
        location.before(Step::CreateTable).await;
        let commit = CommitBuilder::new(uri).with_max_retries(0).with_session(Arc::clone(&SESSION));
        access.params.iter().cloned().fold(commit, CommitBuilder::with_store_params).execute(first).await
    };
    match committed.await {
        Ok(dataset) => Ok(dataset),
        // Another process was faster: what that one declared is compared like any stored schema.
        Err(e) => load(location, access).await.ok().flatten().ok_or_else(|| failed(e)),
    }
}

/// Adds what is missing behind the first version: the indexes, then the MemWAL.
pub(super) async fn complete(dataset: &mut Dataset, location: &Location, kind: Kind) -> Result<()> {
    let store = location.given.as_str();
    let mut attempt = 0;
    loop {
        let outcome = complete_once(dataset, location, kind).await;
        attempt += 1;
        match outcome {
            Ok(()) => return Ok(()),
            Err(e) if attempt == CREATE_ATTEMPTS => return Err(storage(store, "create")(e)),
            // A conflict with another process that repairs or creates the same table: look again.
            Err(_) => {
                crate::clock::back_off(attempt).await;
                dataset.checkout_latest().await.map_err(storage(store, "create"))?;
            }
        }
    }
}

async fn complete_once(dataset: &mut Dataset, location: &Location, kind: Kind) -> lance::Result<()> {
    for column in kind.indexed() {
        let index = index_name(column);
        if !dataset.load_indices().await?.iter().any(|i| i.name == index) {
            location.before(Step::CreateIndex).await;
            let params = ScalarIndexParams::default();
            dataset.create_index(&[column], IndexType::BTree, Some(index), &params, false).await?;
        }
    }
    if dataset.mem_wal_index_details().await?.is_none() {
        location.before(Step::CreateLog).await;
        // The key has an index in every memtable anyway, and must not be named.
        let maintained = kind.lookups.iter().map(|column| index_name(column));
        dataset.initialize_mem_wal().unsharded().maintained_indexes(maintained).execute().await?;
    }
    Ok(())
}
