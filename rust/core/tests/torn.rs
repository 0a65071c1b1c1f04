//! Manifests that a crash tore: whoever comes upon one is told which file it is, and nothing is changed.

use std::fs;
use std::path::{Path, PathBuf};

use futures::FutureExt;
use futures::future::BoxFuture;
use lance_context_core::GenericStore;
use lance_context_spec::{Error, OpenOptions, Query, ReadMode, Result, Severity};
use xxhash_rust::xxh3::xxh3_64;

use crate::create::contents;
use crate::doctor::{generation, lived_in, newest_shard_manifest, shard_manifest, store_path, versions};
use crate::support::{Place, quiet, rows, run, schema};

#[derive(Debug, Clone, Copy)]
enum Tear {
    Empty,
    /// So many of 100 bytes are left.
    Cut(usize),
    ByteShort,
    Zeros,
    Noise,
    /// The first half never reached the disk.
    ZerosFirst,
    ZerosLast,
    /// All but the last bytes, by which a table's manifest is recognized.
    NoiseFirst,
}

use Tear::{ByteShort, Cut, Empty, Noise, NoiseFirst, Zeros, ZerosFirst, ZerosLast};

const TEARS: [Tear; 9] = [Empty, Cut(3), Cut(50), ByteShort, Zeros, Noise, ZerosFirst, ZerosLast, NoiseFirst];

impl Tear {
    fn befall(self, path: &Path) {
        let whole = fs::read(path).unwrap();
        let (size, half) = (whole.len(), whole.len() / 2);
        let noise = |size: usize| (0..size).map(|i| xxh3_64(&i.to_le_bytes()).to_le_bytes()[0]).collect::<Vec<_>>();
        let torn = match self {
            Empty => Vec::new(),
            Cut(percent) => whole[..size * percent / 100].to_vec(),
            ByteShort => whole[..size - 1].to_vec(),
            Zeros => vec![0; size],
            Noise => noise(size),
            ZerosFirst => [&vec![0; half], &whole[half..]].concat(),
            ZerosLast => [&whole[..half], &vec![0; size - half]].concat(),
            NoiseFirst => [&noise(size - 16), &whole[size - 16..]].concat(),
        };
        assert_ne!(torn, whole);
        fs::write(path, torn).unwrap();
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The outcome is the error of a damaged file, `path`.
#[track_caller]
fn names<T>(outcome: Result<T>, path: &Path, case: &str) {
    match outcome {
        Ok(_) => panic!("{case}: nobody noticed"),
        Err(error @ Error::Damaged { .. }) => assert!(error.to_string().contains(name(path)), "{case}: {error}"),
        Err(error) => panic!("{case}: {} {error}", error.code()),
    }
}

/// A store with a torn file.
struct Case {
    uri: String,
    path: PathBuf,
    tear: String,
}

impl Case {
    async fn cannot_be_opened(&self) {
        names(GenericStore::open(&self.uri, Some(schema()), quiet()).await, &self.path, &self.tear);
        for read_only in [false, true] {
            let options = OpenOptions { read_only, ..quiet() };
            names(GenericStore::open_existing(&self.uri, options).await, &self.path, &self.tear);
        }
    }

    /// A look finds it, as an error about the file and in its own words.
    async fn is_found(&self) {
        let report = GenericStore::doctor(&self.uri, quiet(), false).await.unwrap();
        let found = report.findings.iter().find(|found| found.subject.ends_with(name(&self.path)));
        let found = found.unwrap_or_else(|| panic!("{}: {report:#?}", self.tear));
        assert_eq!(found.severity, Severity::Error, "{}: {found}", self.tear);
        assert!(!found.message.contains("panics"), "{}: {found}", self.tear);
    }
}

/// Checks a store for each way to tear `file`.
fn each(file: fn(&Place) -> PathBuf, check: fn(Case) -> BoxFuture<'static, ()>) {
    for tear in TEARS {
        let place = Place::new();
        lived_in(&place);
        let path = file(&place);
        tear.befall(&path);
        let before = contents(place.dir.path());
        run(check(Case { uri: place.uri(), path, tear: format!("{tear:?}") }));
        assert!(contents(place.dir.path()) == before, "{tear:?}: something was changed");
    }
}

fn newest_version(place: &Place) -> PathBuf {
    versions(&store_path(place)).remove(0)
}

#[test]
fn a_torn_version_of_the_table_is_named() {
    each(newest_version, |case| {
        async move {
            case.cannot_be_opened().await;
            case.is_found().await;
            let repaired = GenericStore::doctor(&case.uri, quiet(), true).await.unwrap();
            assert_eq!(repaired.repaired, 0, "{}: {repaired:#?}", case.tear);
        }
        .boxed()
    });
}

#[test]
fn a_torn_manifest_of_the_shard_is_named() {
    each(
        |place| shard_manifest(place, newest_shard_manifest(place)),
        |case| {
            async move {
                case.cannot_be_opened().await;
                case.is_found().await;
            }
            .boxed()
        },
    );
}

#[test]
fn a_torn_manifest_of_a_generation_is_named() {
    each(
        |place| versions(&generation(place)).remove(0),
        |case| {
            async move {
                let (path, tear) = (&case.path, &case.tear);
                let store = GenericStore::open_existing(&case.uri, quiet()).await.unwrap();
                for read in [ReadMode::Sealed, ReadMode::Latest] {
                    names(store.list(Query { read: Some(read), ..Query::default() }).await, path, tear);
                    names(store.count(None, Some(read)).await, path, tear);
                    names(store.get("nobody", None, Some(read)).await, path, tear);
                    names(store.get_many(vec!["a".into(), "c".into()], None, Some(read)).await, path, tear);
                }
                names(store.stats().await, path, tear);
                store.close().await.unwrap();
                case.is_found().await;
            }
            .boxed()
        },
    );
}

/// The same of a store that syncs, whose files lance reaches in another way.
#[test]
fn a_torn_manifest_of_a_store_that_syncs_is_named() {
    let place = Place::new();
    run(async move {
        let options = OpenOptions { fsync: Some(true), ..quiet() };
        let store = place.open_with(options).await;
        store.add(rows(&[("a", 1)])).await.unwrap();
        store.flush().await.unwrap();
        store.close().await.unwrap();
        let path = newest_version(&place);
        Cut(50).befall(&path);
        Case { uri: place.uri(), path, tear: "fsync".to_owned() }.cannot_be_opened().await;
    });
}

/// A version that another process wrote and lost half of while this one has the store open.
#[test]
fn a_torn_version_is_named_to_a_handle_that_is_open() {
    let place = Place::new();
    run(async move {
        let reader = place.open().await;
        let writer = place.open().await;
        writer.add(rows(&[("a", 1)])).await.unwrap();
        writer.flush().await.unwrap();
        writer.merge().await.unwrap();
        let path = newest_version(&place);
        Cut(50).befall(&path);
        names(reader.list(Query::default()).await, &path, "open");
        names(reader.get("a", None, None).await, &path, "open");
    });
}
