//! Damage on disk, one kind at a time: the doctor names it, and repairs what can be repaired without a loss.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchIterator, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use lance::Dataset;
use lance::dataset::mem_wal::scanner::write_pk_sidecar;
use lance::dataset::mem_wal::util::parse_bit_reversed_filename;
use lance::dataset::mem_wal::{DatasetMemWalExt, ShardManifestStore};
use lance::dataset::{NewColumnTransform, WriteMode, WriteParams};
use lance::index::DatasetIndexExt;
use lance::io::WrappingObjectStore;
use lance_context_core::GenericStore;
use lance_context_core::storage::{Kind, Location, doctor};
use lance_context_spec::doctor::code;
use lance_context_spec::{DoctorReport, Error, OpenOptions, ReadMode, Severity};
use lance_index::mem_wal::{ShardManifest, ShardStatus};
use object_store::list::PaginatedListStore;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, path,
};
use uuid::Uuid;

use crate::create::contents;
use crate::support::{
    Place, everything, expect, in_dying_process, quiet, rows, run, runtime, schema, shard_directory, shard_manifests,
    spawn,
};

use Severity::{Error as Bad, Note, Warning};

/// How bad a finding is, and its code.
type Found = (Severity, &'static str);

const GRACE: Duration = Duration::from_secs(3600);

/// What nothing needs is kept for an hour: no test takes that long.
fn patient() -> OpenOptions {
    OpenOptions { gc_grace: Some(GRACE), ..quiet() }
}

/// Leaves a store as a process that died left it: rows `a` and `b` in the base table, a newer `b` and `c` in generation
/// 2, and `d`, `e` and `f` in the WAL entries 3 to 5.
pub fn lived_in(place: &Place) {
    let uri = place.uri();
    in_dying_process(async move {
        let store = GenericStore::open(&uri, Some(schema()), patient()).await.unwrap();
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.add(rows(&[("b", 2), ("c", 2)])).await.unwrap();
        store.flush().await.unwrap();
        for (id, n) in [("d", 3), ("e", 4), ("f", 5)] {
            store.add(rows(&[(id, n)])).await.unwrap();
        }
        std::mem::forget(store);
    });
}

const ALL: [(&str, i64); 6] = [("a", 1), ("b", 2), ("c", 2), ("d", 3), ("e", 4), ("f", 5)];

fn all_but(lost: &[&str]) -> std::collections::BTreeMap<String, i64> {
    let kept: Vec<_> = ALL.into_iter().filter(|(id, _)| !lost.contains(id)).collect();
    expect(&kept)
}

fn block_on<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    runtime().block_on(async move { spawn(work).await.unwrap() })
}

fn examine(place: &Place, repair: bool) -> DoctorReport {
    let uri = place.uri();
    block_on(async move { GenericStore::doctor(&uri, quiet(), repair).await.unwrap() })
}

/// What is left, notes apart.
fn grave(report: &DoctorReport) -> BTreeSet<Found> {
    report.left().filter(|f| f.severity > Note).map(|f| (f.severity, f.code)).collect()
}

fn repaired(report: &DoctorReport) -> BTreeSet<&'static str> {
    report.findings.iter().filter(|f| f.repaired && f.severity > Note).map(|f| f.code).collect()
}

/// Looks, changes nothing, and finds exactly `wanted` besides notes.
#[track_caller]
fn finds(place: &Place, wanted: &[Found]) -> DoctorReport {
    let before = contents(place.dir.path());
    let report = examine(place, false);
    assert!(contents(place.dir.path()) == before, "a look changed something");
    assert_eq!(grave(&report), wanted.iter().copied().collect(), "{report:#?}");
    assert_eq!(report.repaired, 0);
    report
}

/// Repairs: `mended` is gone and `left` is left, notes apart.
#[track_caller]
fn mends(place: &Place, mended: &[&'static str], left: &[Found]) -> DoctorReport {
    let report = examine(place, true);
    assert_eq!(repaired(&report), mended.iter().copied().collect(), "{report:#?}");
    assert_eq!(grave(&report), left.iter().copied().collect(), "{report:#?}");
    report
}

/// The store opens, has `wanted`, and works on: it takes a row, seals and merges.
#[track_caller]
fn works_with(place: &Place, wanted: std::collections::BTreeMap<String, i64>) {
    let uri = place.uri();
    let found = block_on(async move {
        let store = GenericStore::open_existing(&uri, quiet()).await.unwrap();
        let found = everything(&store, ReadMode::Latest).await;
        store.add(rows(&[("new", 9)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        let after = everything(&store, ReadMode::Sealed).await;
        store.close().await.unwrap();
        (found, after)
    });
    assert_eq!(found.0, wanted);
    let mut after = wanted;
    after.insert("new".to_owned(), 9);
    assert_eq!(found.1, after);
}

pub fn store_path(place: &Place) -> PathBuf {
    place.dir.path().join("store")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// The manifests of the table, newest first: their names count down.
pub fn versions(table: &Path) -> Vec<PathBuf> {
    let mut found = files(&table.join("_versions"));
    found.retain(|file| file.extension().is_some_and(|extension| extension == "manifest"));
    found
}

fn wal_entry(place: &Place, position: u64) -> PathBuf {
    let found = files(&shard_directory(place).join("wal"))
        .into_iter()
        .find(|file| parse_bit_reversed_filename(file.file_name().unwrap().to_str().unwrap()) == Some(position));
    found.unwrap()
}

/// The manifest of the shard with this version.
pub fn shard_manifest(place: &Place, version: u64) -> PathBuf {
    let found = shard_manifests(place)
        .into_iter()
        .find(|file| parse_bit_reversed_filename(file.file_name().unwrap().to_str().unwrap()) == Some(version));
    found.unwrap()
}

pub fn newest_shard_manifest(place: &Place) -> u64 {
    let numbers = shard_manifests(place)
        .into_iter()
        .filter_map(|file| parse_bit_reversed_filename(file.file_name().unwrap().to_str().unwrap()));
    numbers.max().unwrap()
}

/// The directory of generation 2.
pub fn generation(place: &Place) -> PathBuf {
    files(&shard_directory(place)).into_iter().find(|path| path.to_str().unwrap().ends_with("_gen_2")).unwrap()
}

fn tear(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

/// Makes a file older than the grace time.
fn age(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(file.metadata().unwrap().modified().unwrap() - 2 * GRACE).unwrap();
}

type ManifestChange = fn(&mut ShardManifest);

/// Commits a shard manifest as no writer would.
fn commit(place: &Place, change: ManifestChange) {
    let uri = place.uri();
    let shard = shard_directory(place).file_name().unwrap().to_str().unwrap().parse::<Uuid>().unwrap();
    block_on(async move {
        let dataset = Dataset::open(&uri).await.unwrap();
        let object_store = dataset.object_store(None).await.unwrap();
        let manifests = ShardManifestStore::new(object_store, &dataset.branch_location().path, shard, 2);
        let changed = manifests.commit_update(1, |current| {
            let mut next = current.clone();
            next.version = current.next_version();
            change(&mut next);
            next
        });
        changed.await.unwrap();
    });
}

fn with_table<F: Future<Output = ()> + Send + 'static>(
    place: &Place,
    work: impl FnOnce(Dataset) -> F + Send + 'static,
) {
    let uri = place.uri();
    block_on(async move { work(Dataset::open(&uri).await.unwrap()).await });
}

/// Appends rows as a plain Lance writer does.
fn append(place: &Place, batch: RecordBatch) {
    let uri = place.uri();
    block_on(async move {
        let table = Dataset::open(&uri).await.unwrap();
        let schema = Arc::new(Schema::from(table.schema()));
        let batch = RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()).unwrap();
        let params = WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
        Dataset::write(RecordBatchIterator::new(vec![Ok(batch)], schema), &uri, Some(params)).await.unwrap();
    });
}

#[test]
fn a_healthy_store_has_no_errors_and_no_warnings_at_any_time_of_its_life() {
    let place = Place::new();
    let at = place.uri();
    let look = |stage: &str, place: &Place| {
        let before = contents(place.dir.path());
        let report = examine(place, false);
        assert!(contents(place.dir.path()) == before, "{stage}: a look changed something");
        assert_eq!(grave(&report), BTreeSet::new(), "{stage}: {report:#?}");
    };
    let store = {
        let at = at.clone();
        runtime_store(async move { GenericStore::open(&at, Some(schema()), patient()).await.unwrap() })
    };
    look("fresh", &place);
    let stages: [(&str, Stage); 9] = [
        ("added", |store| Box::pin(async move { store.add(rows(&[("a", 1), ("b", 1)])).await.map(drop).unwrap() })),
        ("sealed", |store| Box::pin(async move { store.flush().await.unwrap() })),
        ("merged", |store| Box::pin(async move { store.merge().await.map(drop).unwrap() })),
        ("replaced", |store| {
            Box::pin(async move {
                store.add(rows(&[("a", 2), ("c", 2), ("a", 3)])).await.unwrap();
                store.flush().await.unwrap();
            })
        }),
        ("deleted", |store| {
            Box::pin(async move {
                store.delete(vec!["b".into(), "c".into(), "nobody".into()]).await.unwrap();
                store.flush().await.unwrap();
            })
        }),
        ("merged again", |store| Box::pin(async move { store.merge().await.map(drop).unwrap() })),
        ("many fragments", |store| {
            Box::pin(async move {
                for i in 0..10 {
                    store.add(rows(&[(format!("row-{i}").as_str(), i)])).await.unwrap();
                    store.flush().await.unwrap();
                    store.merge().await.unwrap();
                }
            })
        }),
        ("optimized", |store| Box::pin(async move { store.optimize(None).await.map(drop).unwrap() })),
        ("closed", |store| {
            Box::pin(async move {
                store.add(rows(&[("last", 1)])).await.unwrap();
                store.close().await.unwrap();
            })
        }),
    ];
    for (stage, act) in stages {
        store.0.block_on(act(&store.1));
        look(stage, &place);
    }
    assert_eq!(grave(&examine(&place, true)), BTreeSet::new(), "a repair of nothing");
    let kept: Vec<_> = (0..10).map(|i| (format!("row-{i}"), i)).collect();
    let mut wanted = expect(&[("a", 3), ("last", 1)]);
    wanted.extend(kept);
    works_with(&place, wanted);
}

type Stage = fn(&GenericStore) -> futures::future::BoxFuture<'_, ()>;

/// A store on a runtime of its own, which stays.
fn runtime_store(
    opening: impl Future<Output = GenericStore> + Send + 'static,
) -> (tokio::runtime::Runtime, GenericStore) {
    let runtime = runtime();
    let store = runtime.block_on(async move { spawn(opening).await.unwrap() });
    (runtime, store)
}

#[test]
fn what_a_dead_process_leaves_is_healthy() {
    let place = Place::new();
    lived_in(&place);
    finds(&place, &[]);
    works_with(&place, all_but(&[]));
    finds(&place, &[]);
}

/// Nothing is written: neither with a store below that refuses it, nor with one that files forbid.
#[test]
fn a_look_writes_nothing_and_works_where_nothing_can_be_written() {
    let place = Place::new();
    lived_in(&place);
    let location = Location::parse(&place.uri()).unwrap().wrapped(Arc::new(Guarded { unreadable: None }));
    let report = block_on(async move { GenericStore::doctor_at(location, quiet(), false).await.unwrap() });
    assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
    let paths: Vec<_> = contents(place.dir.path()).into_iter().map(|(path, _)| PathBuf::from(path)).collect();
    let read_only = |on: bool| {
        for path in &paths {
            let mut permissions = fs::metadata(path).unwrap().permissions();
            permissions.set_readonly(on);
            fs::set_permissions(path, permissions).unwrap();
        }
    };
    read_only(true);
    let report = examine(&place, false);
    read_only(false);
    assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
}

#[test]
fn where_no_store_is_nothing_is_found_or_touched() {
    let place = Place::new();
    let uri = place.uri();
    for repair in [false, true] {
        let uri = uri.clone();
        let error = block_on(async move { GenericStore::doctor(&uri, quiet(), repair).await.unwrap_err() });
        assert!(matches!(error, Error::StoreNotFound { .. }), "{error}");
    }
    assert_eq!(contents(place.dir.path()), Vec::new());
    fs::create_dir(store_path(&place)).unwrap();
    fs::write(store_path(&place).join("notes.txt"), "mine").unwrap();
    let before = contents(place.dir.path());
    let error = block_on(async move { GenericStore::doctor(&uri, quiet(), true).await.unwrap_err() });
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    assert_eq!(contents(place.dir.path()), before);
    let error = block_on(async move { GenericStore::doctor("memory://nobody-s", quiet(), false).await.unwrap_err() });
    assert!(matches!(error, Error::StoreNotFound { .. }), "{error}");
}

#[test]
fn a_table_of_someone_else_or_of_another_kind_is_named_and_left_alone() {
    let place = Place::new();
    let uri = place.uri();
    block_on(async move {
        let batch = rows(&[("a", 1)]);
        let reader = RecordBatchIterator::new(vec![Ok(batch.clone())], batch.schema());
        Dataset::write(reader, &uri, None).await.unwrap();
    });
    finds(&place, &[(Bad, code::NOT_A_STORE)]);
    let before = contents(place.dir.path());
    mends(&place, &[], &[(Bad, code::NOT_A_STORE)]);
    assert_eq!(contents(place.dir.path()), before);

    let place = Place::new();
    lived_in(&place);
    let location = Location::parse(&place.uri()).unwrap();
    let kind = Kind::new("rollout", "id");
    let report = block_on(async move { doctor(location, kind, &quiet(), false).await.unwrap() });
    assert_eq!(grave(&report), BTreeSet::from([(Bad, code::NOT_A_STORE)]), "{report:#?}");
}

#[test]
fn a_torn_newest_version_is_found_and_hides_nothing_else() {
    let place = Place::new();
    lived_in(&place);
    tear(&versions(&store_path(&place))[0]);
    tear(&wal_entry(&place, 4));
    let report = finds(&place, &[(Bad, code::TABLE_UNREADABLE), (Bad, code::WAL_TORN)]);
    assert!(report.findings.iter().any(|f| f.code == code::NOT_CHECKED), "{report:#?}");
}

#[test]
fn a_lost_table_directory_is_damage_and_not_a_foreign_one() {
    let place = Place::new();
    lived_in(&place);
    fs::remove_dir_all(store_path(&place).join("_versions")).unwrap();
    finds(&place, &[(Bad, code::TABLE_UNREADABLE)]);
}

#[test]
fn damaged_metadata_and_another_schema_are_found() {
    const KEY: &str = "lance-context:schema";
    let place = Place::new();
    lived_in(&place);
    let uri = place.uri();
    let stored = block_on(async move { Dataset::open(&uri).await.unwrap().schema().metadata[KEY].clone() });
    let with_schema = |schema: String| {
        with_table(&place, move |mut table| async move {
            table.update_schema_metadata([(KEY, schema.as_str())]).await.unwrap();
        });
    };
    with_schema("{".to_owned());
    // Lance replays an entry only under the metadata that it was written under.
    finds(&place, &[(Bad, code::METADATA_DAMAGED), (Bad, code::WAL_SCHEMA)]);
    with_schema(stored.replace("int64", "int32"));
    let report = finds(&place, &[(Bad, code::SCHEMA_MISMATCH), (Bad, code::WAL_SCHEMA)]);
    assert_eq!(report.findings[0].subject, "n");
    with_schema(stored);
    works_with(&place, all_but(&[]));
}

#[test]
fn a_column_too_many_is_found_in_every_tier() {
    let place = Place::new();
    lived_in(&place);
    with_table(&place, |mut table| async move {
        let more = Arc::new(Schema::new(vec![Field::new("more", DataType::Int32, true)]));
        table.add_columns(NewColumnTransform::AllNulls(more), None, None).await.unwrap();
    });
    let wanted = [(Bad, code::SCHEMA_MISMATCH), (Bad, code::GENERATION_SCHEMA), (Bad, code::WAL_SCHEMA)];
    finds(&place, &wanted);
}

#[test]
fn every_unfinished_creation_is_completed() {
    for (versions_kept, wanted) in
        [(1, vec![code::KEY_INDEX_MISSING, code::CREATION_INCOMPLETE]), (2, vec![code::CREATION_INCOMPLETE])]
    {
        let place = Place::new();
        let uri = place.uri();
        block_on(async move {
            let store = GenericStore::open(&uri, Some(schema()), patient()).await.unwrap();
            store.close().await.unwrap();
        });
        let found = versions(&store_path(&place));
        for version in &found[..found.len() - versions_kept] {
            fs::remove_file(version).unwrap();
        }
        for file in files(&store_path(&place).join("_versions")) {
            if file.extension().is_none_or(|extension| extension != "manifest") {
                fs::remove_file(file).unwrap();
            }
        }
        let warnings: Vec<_> = wanted.iter().map(|code| (Warning, *code)).collect();
        finds(&place, &warnings);
        mends(&place, &wanted, &[]);
        works_with(&place, expect(&[]));
    }
}

#[test]
fn a_lost_record_of_the_log_is_found_and_not_made_up() {
    let place = Place::new();
    lived_in(&place);
    with_table(&place, |mut table| async move { table.drop_index("__lance_mem_wal").await.unwrap() });
    finds(&place, &[(Bad, code::LOG_MISSING)]);
    mends(&place, &[], &[(Bad, code::LOG_MISSING)]);
    with_table(&place, |table| async move { assert!(table.mem_wal_index_details().await.unwrap().is_none()) });
}

#[test]
fn a_missing_key_index_is_made() {
    let place = Place::new();
    lived_in(&place);
    with_table(&place, |mut table| async move { table.drop_index("id_btree").await.unwrap() });
    finds(&place, &[(Warning, code::KEY_INDEX_MISSING)]);
    mends(&place, &[code::KEY_INDEX_MISSING], &[]);
    works_with(&place, all_but(&[]));
}

#[test]
fn a_key_index_that_is_behind_is_completed() {
    let place = Place::new();
    lived_in(&place);
    append(&place, rows(&[("x", 7)]));
    finds(&place, &[(Warning, code::KEY_INDEX_BEHIND)]);
    mends(&place, &[code::KEY_INDEX_BEHIND], &[]);
    let mut wanted = all_but(&[]);
    wanted.insert("x".to_owned(), 7);
    works_with(&place, wanted);
}

#[test]
fn a_damaged_key_index_is_written_anew() {
    for damage in [|file: &Path| fs::remove_file(file).unwrap(), tear] {
        let place = Place::new();
        lived_in(&place);
        for index in files(&store_path(&place).join("_indices")) {
            for file in files(&index) {
                damage(&file);
            }
        }
        finds(&place, &[(Bad, code::KEY_INDEX_DAMAGED)]);
        mends(&place, &[code::KEY_INDEX_DAMAGED], &[]);
        works_with(&place, all_but(&[]));
    }
}

#[test]
fn missing_and_torn_files_of_rows_are_found() {
    let place = Place::new();
    lived_in(&place);
    let file = files(&store_path(&place).join("data")).remove(0);
    let whole = fs::read(&file).unwrap();
    tear(&file);
    finds(&place, &[(Bad, code::FILE_SIZE)]);
    fs::remove_file(&file).unwrap();
    let report = finds(&place, &[(Bad, code::FILE_MISSING)]);
    assert!(report.findings[0].subject.starts_with("data/"), "{report:#?}");
    fs::write(&file, vec![0; whole.len()]).unwrap();
    finds(&place, &[(Bad, code::ROWS_UNREADABLE)]);
    fs::write(&file, whole).unwrap();
    works_with(&place, all_but(&[]));
}

#[test]
fn a_missing_file_of_deletions_is_found() {
    let place = Place::new();
    let uri = place.uri();
    block_on(async move {
        let store = GenericStore::open(&uri, Some(schema()), patient()).await.unwrap();
        store.add(rows(&[("a", 1), ("b", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.delete(vec!["a".into()]).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.close().await.unwrap();
    });
    finds(&place, &[]);
    for file in files(&store_path(&place).join("_deletions")) {
        fs::remove_file(file).unwrap();
    }
    finds(&place, &[(Bad, code::FILE_MISSING)]);
}

#[test]
fn an_older_version_that_does_not_open_is_a_warning() {
    let place = Place::new();
    lived_in(&place);
    let found = versions(&store_path(&place));
    tear(&found[found.len() - 1]);
    finds(&place, &[(Warning, code::VERSION_UNREADABLE)]);
    works_with(&place, all_but(&[]));
}

#[test]
fn a_key_with_two_rows_is_found() {
    let place = Place::new();
    lived_in(&place);
    append(&place, rows(&[("a", 7), ("x", 7)]));
    let report = finds(&place, &[(Bad, code::DUPLICATE_KEY), (Warning, code::KEY_INDEX_BEHIND)]);
    assert_eq!(report.findings[0].subject, "a");
    mends(&place, &[code::KEY_INDEX_BEHIND], &[(Bad, code::DUPLICATE_KEY)]);
}

#[test]
fn a_directory_of_another_shard_is_found() {
    let place = Place::new();
    lived_in(&place);
    let other = store_path(&place).join("_mem_wal/00000000-0000-0000-0000-000000000000/wal");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("x"), "x").unwrap();
    finds(&place, &[(Warning, code::UNKNOWN_SHARD)]);
}

#[test]
fn lost_and_unreadable_shard_manifests_are_found() {
    let place = Place::new();
    lived_in(&place);
    let newest = newest_shard_manifest(&place);
    fs::write(shard_manifest(&place, 1), "torn").unwrap();
    finds(&place, &[(Warning, code::SHARD_MANIFEST_UNREADABLE)]);
    fs::remove_file(shard_manifest(&place, 1)).unwrap();
    finds(&place, &[]);
    fs::remove_file(shard_manifest(&place, newest - 1)).unwrap();
    finds(&place, &[(Bad, code::SHARD_MANIFEST_GAP)]);
    fs::write(shard_manifest(&place, newest), "torn").unwrap();
    finds(&place, &[(Bad, code::SHARD_MANIFEST_GAP), (Bad, code::SHARD_MANIFEST_UNREADABLE)]);
    for manifest in shard_manifests(&place) {
        fs::remove_file(manifest).unwrap();
    }
    finds(&place, &[(Bad, code::SHARD_MANIFEST_MISSING)]);
}

#[test]
fn shard_manifests_that_contradict_each_other_are_found() {
    let changes: [(ManifestChange, &[Found]); 7] = [
        (|m| m.sstables.push(m.sstables[0].clone()), &[(Bad, code::SHARD_MANIFEST_ORDER)]),
        (|m| m.replay_after_wal_entry_position -= 1, &[(Bad, code::SHARD_MANIFEST_ORDER)]),
        (|m| m.current_generation += 1, &[(Bad, code::GENERATION_LOST)]),
        (|m| m.sstables.clear(), &[(Bad, code::GENERATION_LOST)]),
        (|m| m.status = ShardStatus::Sealed, &[(Bad, code::SHARD_CLOSED)]),
        (|m| m.sstables[0].physical_rows = Some(3), &[(Bad, code::GENERATION_ROWS)]),
        (
            |m| {
                m.current_generation = 1;
                m.sstables.clear();
            },
            &[(Bad, code::SHARD_MANIFEST_ORDER), (Bad, code::MARK_AHEAD)],
        ),
    ];
    for (change, wanted) in changes {
        let place = Place::new();
        lived_in(&place);
        commit(&place, change);
        finds(&place, wanted);
    }
}

#[test]
fn a_torn_newest_shard_manifest_is_replaced_when_the_log_has_what_it_added() {
    let place = Place::new();
    lived_in(&place);
    fs::write(shard_manifest(&place, newest_shard_manifest(&place)), "torn").unwrap();
    finds(&place, &[(Bad, code::SHARD_MANIFEST_UNREADABLE)]);
    mends(&place, &[code::SHARD_MANIFEST_UNREADABLE], &[(Warning, code::QUARANTINED)]);
    works_with(&place, all_but(&[]));
}

#[test]
fn a_torn_newest_shard_manifest_stays_when_the_log_lacks_what_it_added() {
    let place = Place::new();
    lived_in(&place);
    fs::remove_file(wal_entry(&place, 2)).unwrap();
    fs::write(shard_manifest(&place, newest_shard_manifest(&place)), "torn").unwrap();
    let before = contents(place.dir.path());
    mends(&place, &[], &[(Bad, code::SHARD_MANIFEST_UNREADABLE)]);
    assert!(contents(place.dir.path()) == before, "something was changed");
}

/// The shard's manifests are rolled back behind a merge.
#[test]
fn a_shard_behind_the_tables_mark_goes_on_behind_it() {
    let place = Place::new();
    lived_in(&place);
    for version in 2..=newest_shard_manifest(&place) {
        fs::remove_file(shard_manifest(&place, version)).unwrap();
    }
    finds(&place, &[(Bad, code::MARK_AHEAD)]);
    mends(&place, &[code::MARK_AHEAD], &[]);
    works_with(&place, all_but(&[]));

    let place = Place::new();
    lived_in(&place);
    fs::remove_dir_all(shard_directory(&place)).unwrap();
    finds(&place, &[(Bad, code::MARK_AHEAD)]);
    mends(&place, &[code::MARK_AHEAD], &[]);
    works_with(&place, expect(&[("a", 1), ("b", 1)]));
}

/// Generations sealed behind a lost manifest bear the numbers of merged ones, and are not taken for them.
#[test]
fn a_shard_behind_the_tables_mark_that_lists_generations_is_left_alone() {
    let place = Place::new();
    lived_in(&place);
    for version in 3..=newest_shard_manifest(&place) {
        fs::remove_file(shard_manifest(&place, version)).unwrap();
    }
    commit(&place, |manifest| manifest.current_generation = 1);
    let before = contents(place.dir.path());
    let left = [(Bad, code::MARK_AHEAD), (Bad, code::SHARD_MANIFEST_ORDER)];
    mends(&place, &[], &left);
    assert!(contents(place.dir.path()) == before, "something was changed");
}

#[test]
fn missing_and_torn_generations_are_found() {
    let place = Place::new();
    lived_in(&place);
    let table = generation(&place);
    let data = files(&table.join("data")).remove(0);
    let whole = fs::read(&data).unwrap();
    tear(&data);
    finds(&place, &[(Bad, code::FILE_SIZE)]);
    fs::remove_file(&data).unwrap();
    finds(&place, &[(Bad, code::FILE_MISSING)]);
    fs::write(&data, vec![0; whole.len()]).unwrap();
    finds(&place, &[(Bad, code::ROWS_UNREADABLE)]);
    fs::write(&data, whole).unwrap();
    finds(&place, &[]);
    for version in versions(&table) {
        tear(&version);
    }
    finds(&place, &[(Bad, code::GENERATION_UNREADABLE)]);
    fs::remove_dir_all(&table).unwrap();
    finds(&place, &[(Bad, code::GENERATION_MISSING)]);
    mends(&place, &[], &[(Bad, code::GENERATION_MISSING)]);
}

#[test]
fn a_wrong_key_index_of_a_generation_is_written_anew() {
    type Keys = &'static [&'static str];
    type Damage<'a> = &'a dyn Fn(&Place, Keys);
    let with_keys = |place: &Place, keys: Keys| {
        let uri = generation(place).to_str().unwrap().to_owned();
        block_on(async move {
            let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, false)]));
            let batch = RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(keys.to_vec()))]).unwrap();
            write_pk_sidecar(&uri, &[batch], &["id"]).await.unwrap();
        });
    };
    let remove = |place: &Place, _: Keys| {
        fs::remove_dir_all(generation(place).join("_pk_index")).unwrap();
    };
    let tear_all = |place: &Place, _: Keys| {
        files(&generation(place).join("_pk_index")).iter().for_each(|file| tear(file));
    };
    let damages: [(Damage<'_>, Keys); 4] =
        [(&remove, &[]), (&tear_all, &[]), (&with_keys, &["c"]), (&with_keys, &["a", "b", "c"])];
    for (damage, keys) in damages {
        let place = Place::new();
        lived_in(&place);
        damage(&place, keys);
        finds(&place, &[(Bad, code::GENERATION_KEYS)]);
        mends(&place, &[code::GENERATION_KEYS], &[]);
        works_with(&place, all_but(&[]));
    }
}

/// A generation that replaced rows of its own, written under one key index and repaired with another.
#[test]
fn a_rebuilt_key_index_of_a_generation_has_replaced_and_deleted_keys_too() {
    let place = Place::new();
    let uri = place.uri();
    block_on(async move {
        let store = GenericStore::open(&uri, Some(schema()), patient()).await.unwrap();
        store.add(rows(&[("a", 1), ("b", 1), ("c", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.merge().await.unwrap();
        store.add(rows(&[("a", 2), ("z", 2), ("a", 3)])).await.unwrap();
        store.delete(vec!["b".into()]).await.unwrap();
        store.flush().await.unwrap();
        store.close().await.unwrap();
    });
    finds(&place, &[]);
    fs::remove_dir_all(generation(&place).join("_pk_index")).unwrap();
    mends(&place, &[code::GENERATION_KEYS], &[]);
    works_with(&place, expect(&[("a", 3), ("c", 1), ("z", 2)]));
}

#[test]
fn a_torn_last_entry_is_a_warning_and_is_put_aside() {
    let place = Place::new();
    lived_in(&place);
    tear(&wal_entry(&place, 5));
    finds(&place, &[(Warning, code::WAL_TORN_END)]);
    mends(&place, &[code::WAL_TORN_END], &[(Warning, code::QUARANTINED)]);
    works_with(&place, all_but(&["f"]));
}

#[test]
fn torn_entries_in_the_middle_are_put_aside_and_what_follows_is_read_again() {
    for (torn, lost) in [(vec![3], vec!["d"]), (vec![4], vec!["e"]), (vec![3, 4], vec!["d", "e"])] {
        let place = Place::new();
        lived_in(&place);
        let mut kept = Vec::new();
        for position in &torn {
            tear(&wal_entry(&place, *position));
            kept.push(fs::read(wal_entry(&place, *position)).unwrap());
        }
        finds(&place, &[(Bad, code::WAL_TORN)]);
        mends(&place, &[code::WAL_TORN], &[(Warning, code::QUARANTINED)]);
        let mut aside: Vec<_> =
            files(&store_path(&place).join("_quarantine")).iter().map(|file| fs::read(file).unwrap()).collect();
        aside.sort();
        kept.sort();
        assert_eq!(aside, kept, "what is put aside is kept as it is");
        works_with(&place, all_but(&lost));
    }
}

#[test]
fn torn_entries_in_the_middle_and_at_the_end_are_told_apart() {
    let place = Place::new();
    lived_in(&place);
    tear(&wal_entry(&place, 3));
    tear(&wal_entry(&place, 5));
    finds(&place, &[(Bad, code::WAL_TORN), (Warning, code::WAL_TORN_END)]);
    mends(&place, &[code::WAL_TORN, code::WAL_TORN_END], &[(Warning, code::QUARANTINED)]);
    works_with(&place, all_but(&["d", "f"]));
}

#[test]
fn a_hole_in_the_log_is_filled_and_what_follows_is_read_again() {
    for (position, lost) in [(3, "d"), (4, "e")] {
        let place = Place::new();
        lived_in(&place);
        fs::remove_file(wal_entry(&place, position)).unwrap();
        finds(&place, &[(Bad, code::WAL_HOLE)]);
        mends(&place, &[code::WAL_HOLE], &[]);
        works_with(&place, all_but(&[lost]));
    }
}

#[test]
fn a_log_that_ends_too_early_is_found_and_goes_on() {
    let place = Place::new();
    lived_in(&place);
    for file in files(&shard_directory(&place).join("wal")) {
        fs::remove_file(file).unwrap();
    }
    finds(&place, &[(Bad, code::WAL_CUT)]);
    mends(&place, &[code::WAL_CUT], &[]);
    works_with(&place, all_but(&["d", "e", "f"]));
}

#[test]
fn an_entry_that_cannot_be_read_is_an_error_and_is_left_alone() {
    let place = Place::new();
    lived_in(&place);
    let name = wal_entry(&place, 4).file_name().unwrap().to_str().unwrap().to_owned();
    let before = contents(place.dir.path());
    for repair in [false, true] {
        let guard = Guarded { unreadable: Some(name.clone()) };
        let location = Location::parse(&place.uri()).unwrap().wrapped(Arc::new(guard));
        let report = block_on(async move { GenericStore::doctor_at(location, quiet(), repair).await.unwrap() });
        assert_eq!(grave(&report), BTreeSet::from([(Bad, code::WAL_UNREADABLE)]), "{report:#?}");
    }
    assert!(contents(place.dir.path()) == before, "something was changed");
}

#[test]
fn entries_of_writers_that_do_not_follow_each_other_are_found() {
    let under_epoch = |file: &Path, epoch: u64| {
        let bytes = fs::read(file).unwrap();
        let reader = StreamReader::try_new(bytes.as_slice(), None).unwrap();
        let mut metadata = reader.schema().metadata().clone();
        metadata.insert("writer_epoch".to_owned(), epoch.to_string());
        let schema = Arc::new(Schema::new_with_metadata(reader.schema().fields().clone(), metadata));
        let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
        for batch in reader {
            writer
                .write(&RecordBatch::try_new(Arc::clone(&schema), batch.unwrap().columns().to_vec()).unwrap())
                .unwrap();
        }
        writer.finish().unwrap();
        fs::write(file, writer.into_inner().unwrap()).unwrap();
    };
    let place = Place::new();
    lived_in(&place);
    under_epoch(&wal_entry(&place, 4), 0);
    finds(&place, &[(Bad, code::WAL_ORDER)]);
    mends(&place, &[], &[(Bad, code::WAL_ORDER)]);

    let place = Place::new();
    lived_in(&place);
    for position in [4, 5] {
        under_epoch(&wal_entry(&place, position), 20);
    }
    finds(&place, &[(Bad, code::WAL_ORDER)]);
    mends(&place, &[code::WAL_ORDER], &[]);
    works_with(&place, all_but(&[]));
}

#[test]
fn superfluous_generations_are_notes_within_the_grace_time_and_removed_later() {
    let place = Place::new();
    lived_in(&place);
    let merged = files(&shard_directory(&place)).into_iter().find(|path| path.to_str().unwrap().ends_with("_gen_1"));
    let merged = merged.unwrap();
    let failed = shard_directory(&place).join("deadbeef_gen_2");
    fs::create_dir(&failed).unwrap();
    fs::write(failed.join("half"), "half").unwrap();
    let report = finds(&place, &[]);
    assert!(report.findings.iter().any(|f| f.code == code::GENERATION_LEFTOVER), "{report:#?}");
    mends(&place, &[], &[]);
    assert!(merged.is_dir() && failed.is_dir(), "removed within the grace time");
    shard_manifests(&place).iter().for_each(|file| age(file));
    finds(&place, &[(Warning, code::GENERATION_LEFTOVER), (Warning, code::WAL_LEFTOVER)]);
    mends(&place, &[code::GENERATION_LEFTOVER, code::WAL_LEFTOVER], &[]);
    assert!(!merged.exists() && !failed.exists());
    assert!(generation(&place).is_dir());
    works_with(&place, all_but(&[]));
}

#[test]
fn a_generation_that_no_manifest_lists_yet_is_named_and_left_alone() {
    let place = Place::new();
    lived_in(&place);
    let unlisted = shard_directory(&place).join("deadbeef_gen_3");
    fs::create_dir(&unlisted).unwrap();
    fs::write(unlisted.join("half"), "half").unwrap();
    let report = finds(&place, &[]);
    assert!(report.findings.iter().any(|f| f.code == code::GENERATION_UNLISTED), "{report:#?}");
    age(&unlisted.join("half"));
    finds(&place, &[(Warning, code::GENERATION_UNLISTED)]);
    mends(&place, &[], &[(Warning, code::GENERATION_UNLISTED)]);
    assert!(unlisted.join("half").exists());
}

#[test]
fn files_that_no_version_refers_to_are_removed() {
    let place = Place::new();
    lived_in(&place);
    let orphans = [store_path(&place).join("data/orphan.lance"), store_path(&place).join("_deletions/0-1-2.arrow")];
    fs::create_dir_all(store_path(&place).join("_deletions")).unwrap();
    for orphan in &orphans {
        fs::write(orphan, "orphan").unwrap();
    }
    let report = finds(&place, &[]);
    assert_eq!(report.findings.iter().filter(|f| f.code == code::FILE_LEFTOVER).count(), 2, "{report:#?}");
    for orphan in &orphans {
        age(orphan);
    }
    finds(&place, &[(Warning, code::FILE_LEFTOVER)]);
    mends(&place, &[code::FILE_LEFTOVER], &[]);
    assert!(orphans.iter().all(|orphan| !orphan.exists()));
    works_with(&place, all_but(&[]));
}

#[test]
fn nothing_is_removed_while_an_error_is_left() {
    let place = Place::new();
    lived_in(&place);
    shard_manifests(&place).iter().for_each(|file| age(file));
    let orphan = store_path(&place).join("data/orphan.lance");
    fs::write(&orphan, "orphan").unwrap();
    fs::remove_dir_all(generation(&place)).unwrap();
    let before = contents(place.dir.path());
    let left = [(Bad, code::GENERATION_MISSING), (Warning, code::GENERATION_LEFTOVER), (Warning, code::WAL_LEFTOVER)];
    mends(&place, &[], &left);
    assert!(contents(place.dir.path()) == before, "something was removed");
}

#[test]
fn a_file_of_an_interrupted_write_is_named() {
    let place = Place::new();
    lived_in(&place);
    let entry = wal_entry(&place, 4);
    let stray = entry.with_file_name(format!("{}.tmp.0123", entry.file_name().unwrap().to_str().unwrap()));
    fs::write(&stray, "half").unwrap();
    let report = finds(&place, &[]);
    assert!(report.findings.iter().any(|f| f.code == code::STRAY_FILE), "{report:#?}");
    age(&stray);
    finds(&place, &[(Warning, code::STRAY_FILE)]);
}

#[test]
fn files_that_crashed_writes_staged_are_removed() {
    let place = Place::new();
    lived_in(&place);
    let staged = [wal_entry(&place, 4).with_extension("arrow#1"), store_path(&place).join("data/.tmp0123")];
    for file in &staged {
        fs::write(file, "half").unwrap();
        age(file);
    }
    let report = examine(&place, false);
    assert!(grave(&report).contains(&(Warning, code::STAGED_FILE)), "{report:#?}");
    let report = examine(&place, true);
    assert!(repaired(&report).contains(code::STAGED_FILE), "{report:#?}");
    assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
    assert!(staged.iter().all(|file| !file.exists()));
    works_with(&place, all_but(&[]));
}

#[test]
fn many_damages_at_once_are_all_found_and_mended() {
    let place = Place::new();
    lived_in(&place);
    tear(&wal_entry(&place, 3));
    fs::remove_dir_all(generation(&place).join("_pk_index")).unwrap();
    with_table(&place, |mut table| async move { table.drop_index("id_btree").await.unwrap() });
    shard_manifests(&place).iter().for_each(|file| age(file));
    let found = [
        (Bad, code::WAL_TORN),
        (Bad, code::GENERATION_KEYS),
        (Warning, code::KEY_INDEX_MISSING),
        (Warning, code::GENERATION_LEFTOVER),
        (Warning, code::WAL_LEFTOVER),
    ];
    finds(&place, &found);
    let codes: Vec<_> = found.iter().map(|(_, code)| *code).collect();
    mends(&place, &codes, &[(Warning, code::QUARANTINED)]);
    works_with(&place, all_but(&["d"]));
}

#[test]
fn a_store_that_syncs_is_repaired_too() {
    let place = Place::new();
    let uri = place.uri();
    in_dying_process(async move {
        let options = OpenOptions { fsync: Some(true), ..patient() };
        let store = GenericStore::open(&uri, Some(schema()), options).await.unwrap();
        store.add(rows(&[("a", 1)])).await.unwrap();
        store.flush().await.unwrap();
        for (id, n) in [("b", 2), ("c", 3), ("d", 4)] {
            store.add(rows(&[(id, n)])).await.unwrap();
        }
        std::mem::forget(store);
    });
    tear(&wal_entry(&place, 3));
    let sidecar = files(&shard_directory(&place)).into_iter().find(|path| path.join("_pk_index").is_dir()).unwrap();
    fs::remove_dir_all(sidecar.join("_pk_index")).unwrap();
    mends(&place, &[code::WAL_TORN, code::GENERATION_KEYS], &[(Warning, code::QUARANTINED)]);
    works_with(&place, expect(&[("a", 1), ("b", 2), ("d", 4)]));
}

/// A look at a store that others write to, merge and collect says when it may be wrong.
#[test]
fn a_busy_store_is_not_taken_for_a_damaged_one() {
    let place = Place::new();
    let uri = place.uri();
    block_on(async move {
        let options = OpenOptions { gc_grace: Some(Duration::ZERO), ..quiet() };
        let store = GenericStore::open(&uri, Some(schema()), options).await.unwrap();
        let work = spawn(async move {
            for round in 0..30_i64 {
                store.add(rows(&[(format!("row-{round}").as_str(), round), ("same", round)])).await.unwrap();
                store.flush().await.unwrap();
                if round % 3 == 2 {
                    store.merge().await.unwrap();
                }
            }
        });
        while !work.is_finished() {
            let report = GenericStore::doctor(&uri, quiet(), false).await.unwrap();
            let in_use = report.findings.iter().any(|f| f.code == code::IN_USE);
            assert!(in_use || report.worst() < Some(Bad), "{report:#?}");
        }
        work.await.unwrap();
    });
}

#[test]
fn a_store_in_memory_is_looked_at_too() {
    run(async move {
        let uri = "memory://doctor";
        let store = GenericStore::open(uri, Some(schema()), patient()).await.unwrap();
        store.add(rows(&[("a", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.add(rows(&[("b", 1)])).await.unwrap();
        let report = GenericStore::doctor(uri, quiet(), false).await.unwrap();
        assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
        store.close().await.unwrap();
    });
}

/// Lets through what reads, but for one file, and nothing that writes.
#[derive(Debug)]
struct Guarded {
    unreadable: Option<String>,
}

impl WrappingObjectStore for Guarded {
    fn wrap(&self, _prefix: &str, inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(GuardedStore { inner, unreadable: self.unreadable.clone() })
    }

    fn wrap_paginated(&self, _prefix: &str, _: Arc<dyn PaginatedListStore>) -> Option<Arc<dyn PaginatedListStore>> {
        None
    }
}

#[derive(Debug)]
struct GuardedStore {
    inner: Arc<dyn ObjectStore>,
    unreadable: Option<String>,
}

impl std::fmt::Display for GuardedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("guarded")
    }
}

fn refused(what: &str) -> object_store::Error {
    object_store::Error::Generic { store: "guarded", source: format!("{what} is refused").into() }
}

#[async_trait]
impl ObjectStore for GuardedStore {
    async fn put_opts(&self, to: &path::Path, _: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        Err(refused(&format!("writing {to}")))
    }

    async fn put_multipart_opts(
        &self,
        to: &path::Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(refused(&format!("writing {to}")))
    }

    async fn get_opts(&self, from: &path::Path, options: GetOptions) -> object_store::Result<GetResult> {
        if !options.head && self.unreadable.as_deref().is_some_and(|name| from.filename() == Some(name)) {
            return Err(refused(&format!("reading {from}")));
        }
        self.inner.get_opts(from, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<path::Path>>,
    ) -> BoxStream<'static, object_store::Result<path::Path>> {
        drop(paths);
        stream::once(async { Err(refused("deleting")) }).boxed()
    }

    fn list(&self, prefix: Option<&path::Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&path::Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &path::Path, _: &path::Path, _: CopyOptions) -> object_store::Result<()> {
        Err(refused(&format!("copying {from}")))
    }
}

/// Two writers of an append-only store that died: `a` has merged, sealed and unsealed rows, and so has `b`.
fn lived_in_by_two(place: &Place) {
    let uri = place.uri();
    in_dying_process(async move {
        let mut stores = Vec::new();
        for writer in ["a", "b"] {
            let location = Location::parse(&uri).unwrap();
            stores.push((writer, crate::log::try_open(location, Some(writer), patient()).await.unwrap()));
        }
        for stage in ["merged", "sealed", "open 1", "open 2", "open 3"] {
            for (writer, store) in &stores {
                let event = format!("{writer} {stage}");
                store.add(crate::log::events(&[(&event, "1", 1)])).await.unwrap();
                match stage {
                    "merged" => drop((store.flush().await.unwrap(), store.merge().await.unwrap())),
                    "sealed" => store.flush().await.unwrap(),
                    _ => {}
                }
            }
        }
        std::mem::forget(stores);
    });
}

fn examine_log(place: &Place, repair: bool) -> DoctorReport {
    let uri = place.uri();
    block_on(async move { doctor(Location::parse(&uri).unwrap(), crate::log::LOG, &quiet(), repair).await.unwrap() })
}

#[test]
fn every_shard_is_looked_at_and_findings_name_theirs() {
    let place = Place::new();
    lived_in_by_two(&place);
    let before = contents(place.dir.path());
    let report = examine_log(&place, false);
    assert!(contents(place.dir.path()) == before, "a look changed something");
    assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
    let shards = crate::log::shard_directories(&place);
    for damaged in &shards {
        let name = damaged.file_name().unwrap().to_str().unwrap();
        let entry = |position: u64| {
            let entries = files(&damaged.join("wal")).into_iter();
            let mut found = entries.filter(|file| {
                parse_bit_reversed_filename(file.file_name().unwrap().to_str().unwrap()) == Some(position)
            });
            found.next().unwrap()
        };
        let last = files(&damaged.join("wal")).len() as u64;
        let torn = (1..=last + 2).filter(|position| {
            files(&damaged.join("wal"))
                .iter()
                .any(|file| parse_bit_reversed_filename(file.file_name().unwrap().to_str().unwrap()) == Some(*position))
        });
        let positions: Vec<u64> = torn.collect();
        tear(&entry(positions[positions.len() - 2]));
        let report = examine_log(&place, false);
        assert_eq!(grave(&report), BTreeSet::from([(Bad, code::WAL_TORN)]), "{report:#?}");
        assert!(report.findings.iter().any(|f| f.code == code::WAL_TORN && f.subject.contains(name)), "{report:#?}");
        let sidecar = files(damaged).into_iter().find(|path| path.to_str().unwrap().ends_with("_gen_2")).unwrap();
        fs::remove_dir_all(sidecar.join("_pk_index")).unwrap();
        let report = examine_log(&place, true);
        assert_eq!(repaired(&report), BTreeSet::from([code::WAL_TORN, code::GENERATION_KEYS]), "{report:#?}");
        for found in report.findings.iter().filter(|found| found.repaired && found.severity > Note) {
            assert!(found.subject.contains(name), "{found}");
        }
        assert_eq!(grave(&report), BTreeSet::from([(Warning, code::QUARANTINED)]), "{report:#?}");
        fs::remove_dir_all(store_path(&place).join("_quarantine")).unwrap();
    }
    block_on(async move {
        let all = async |read| {
            let reader = crate::log::open(&place, None, quiet()).await;
            crate::log::everything(&reader, read).await.into_keys().collect::<Vec<_>>()
        };
        let wanted: Vec<_> = ["a", "b"]
            .iter()
            .flat_map(|w| ["merged", "open 1", "open 3", "sealed"].map(|s| format!("{w} {s}")))
            .collect();
        assert_eq!(all(ReadMode::Latest).await, wanted);
        for writer in ["a", "b"] {
            let store = crate::log::open(&place, Some(writer), quiet()).await;
            store.add(crate::log::events(&[(writer, "1", 1)])).await.unwrap();
            store.merge().await.unwrap();
        }
        assert_eq!(all(ReadMode::Latest).await.len(), 10);
    });
}

/// A shard whose directory is gone, while the table says that something of it is merged.
#[test]
fn a_lost_shard_is_found_and_goes_on_behind_what_is_merged() {
    let place = Place::new();
    lived_in_by_two(&place);
    let lost = crate::log::shard_directories(&place).remove(0);
    fs::remove_dir_all(&lost).unwrap();
    let report = examine_log(&place, false);
    assert_eq!(grave(&report), BTreeSet::from([(Bad, code::MARK_AHEAD)]), "{report:#?}");
    let name = lost.file_name().unwrap().to_str().unwrap();
    assert!(report.findings.iter().any(|f| f.code == code::MARK_AHEAD && f.subject.contains(name)), "{report:#?}");
    let report = examine_log(&place, true);
    assert_eq!(repaired(&report), BTreeSet::from([code::MARK_AHEAD]), "{report:#?}");
    assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
}

/// A table that was put back to what it was before a writer came does not know that writer's shard.
#[test]
fn a_shard_that_the_table_does_not_name_is_found_and_named_again() {
    let place = Place::new();
    lived_in_by_two(&place);
    let shard = crate::log::shard_directories(&place).remove(0);
    let name = shard.file_name().unwrap().to_str().unwrap().to_owned();
    let key = format!("lance-context:shard:{name}");
    with_table(
        &place,
        move |mut table| async move { drop(table.update_config([(key.as_str(), None)]).await.unwrap()) },
    );
    let rows = || {
        let location = Location::parse(&place.uri()).unwrap();
        block_on(async move {
            let reader = crate::log::try_open(location, None, quiet()).await.unwrap();
            crate::log::everything(&reader, ReadMode::Latest).await.len()
        })
    };
    // What of the shard is merged is in the table.
    assert_eq!(rows(), 6, "the shard is read although nothing names it");
    let report = examine_log(&place, false);
    assert_eq!(grave(&report), BTreeSet::from([(Bad, code::SHARD_UNANNOUNCED)]), "{report:#?}");
    assert!(report.findings.iter().any(|f| f.code == code::SHARD_UNANNOUNCED && f.subject.contains(&name)));
    let report = examine_log(&place, true);
    assert_eq!(repaired(&report), BTreeSet::from([code::SHARD_UNANNOUNCED]), "{report:#?}");
    assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
    assert_eq!(rows(), 10);
}

/// The index on a lookup column is mended like that on the key.
#[test]
fn a_lost_or_stale_lookup_index_is_found_and_mended() {
    for lost in [Some("item_id_btree"), Some("root_item_id_btree"), None] {
        let place = Place::new();
        lived_in_by_two(&place);
        let code = match lost {
            Some(name) => {
                with_table(&place, move |mut table| async move { table.drop_index(name).await.unwrap() });
                code::KEY_INDEX_MISSING
            }
            None => {
                append(&place, crate::log::events(&[("appended", "2", 1)]));
                code::KEY_INDEX_BEHIND
            }
        };
        let report = examine_log(&place, false);
        assert_eq!(grave(&report), BTreeSet::from([(Warning, code)]), "{report:#?}");
        let subjects: Vec<_> = report.findings.iter().filter(|f| f.code == code).map(|f| f.subject.as_str()).collect();
        match lost {
            Some(name) => assert_eq!(subjects, [name]),
            None => assert_eq!(subjects, ["event_id_btree", "item_id_btree", "root_item_id_btree"]),
        }
        let report = examine_log(&place, true);
        assert_eq!(repaired(&report), BTreeSet::from([code]), "{report:#?}");
        assert_eq!(grave(&report), BTreeSet::new(), "{report:#?}");
        block_on(async move {
            let reader = crate::log::open(&place, None, quiet()).await;
            let all = crate::log::everything(&reader, ReadMode::Latest).await;
            assert_eq!(all.len(), if lost.is_some() { 10 } else { 11 });
        });
    }
}
