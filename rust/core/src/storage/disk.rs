//! The local disk beneath lance: what takes less time than another thread needs to wake is done in place.
//!
//! Both `object_store` and lance hand every look at a file to a pool of threads. A file whose bytes are in the page
//! cache is read in a few microseconds, and a read of a row asks for a few dozen such pieces.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use lance::io::ObjectStoreParams;
use lance_io::local::to_local_path;
use lance_io::object_store::providers::local::FileStoreProvider;
use lance_io::object_store::{ObjectStore as LanceStore, ObjectStoreProvider};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use url::Url;

/// The schemes of local files. Lance takes the second for a cloud, and puts a new file there in one step.
pub(super) const SCHEME: &str = "file";
pub(super) const LOG_SCHEME: &str = "file-object-store";

/// At most so much is copied out of the page cache in place.
const SMALL_BYTES: u64 = 64 << 10;

/// Gives lance a [`Disk`] for the schemes of local files.
#[derive(Debug)]
pub(super) struct DiskProvider;

#[async_trait]
impl ObjectStoreProvider for DiskProvider {
    async fn new_store(&self, base_path: Url, params: &ObjectStoreParams) -> lance::Result<LanceStore> {
        let store_prefix = self.calculate_object_store_prefix(&base_path, params.storage_options())?;
        let mut store = FileStoreProvider.new_store(base_path, params).await?;
        store.inner = Arc::new(Disk::new(&store_prefix, false));
        store.store_prefix = store_prefix;
        Ok(store)
    }

    fn extract_path(&self, url: &Url) -> lance::Result<Path> {
        FileStoreProvider.extract_path(url)
    }

    /// Not the scheme itself, by which lance knows the files that it may open without asking.
    fn calculate_object_store_prefix(&self, url: &Url, _: Option<&HashMap<String, String>>) -> lance::Result<String> {
        Ok(format!("{}$", url.scheme()))
    }
}

/// [`LocalFileSystem`], whose files are looked up, and read where that needs no device, in place.
#[derive(Debug)]
pub(super) struct Disk {
    inner: LocalFileSystem,
}

impl Disk {
    /// With `fsync` every write reaches the device, with the directories that name it, before it returns.
    pub fn new(store_prefix: &str, fsync: bool) -> Self {
        // Where lance takes the files for a cloud's it removes directories itself.
        let automatic_cleanup = !store_prefix.starts_with(LOG_SCHEME);
        Self { inner: LocalFileSystem::new().with_fsync(fsync).with_automatic_cleanup(automatic_cleanup) }
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// As [`LocalFileSystem`] describes a file.
fn describe(location: &Path, found: &Metadata) -> std::io::Result<ObjectMeta> {
    let modified = found.modified()?;
    let micros = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let e_tag = format!("\"{:x}-{micros:x}-{:x}\"", found.ino(), found.len());
    let (location, last_modified) = (location.clone(), modified.into());
    Ok(ObjectMeta { location, last_modified, size: found.len(), e_tag: Some(e_tag), version: None })
}

/// The bytes of `range`, where all of them are in the page cache.
#[cfg(target_os = "linux")]
fn cached(file: &File, range: &Range<u64>) -> Option<Bytes> {
    use rustix::io::{ReadWriteFlags, preadv2};

    let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
    let read = preadv2(file, &mut [std::io::IoSliceMut::new(&mut bytes)], range.start, ReadWriteFlags::NOWAIT).ok()?;
    (read == bytes.len()).then(|| bytes.into())
}

#[cfg(not(target_os = "linux"))]
fn cached(_: &File, _: &Range<u64>) -> Option<Bytes> {
    None
}

/// What is there without waiting for the device: the bytes, or the open file to read them from. `None` for what
/// [`LocalFileSystem`] should answer: all that is no file, and requests that the file does not meet.
fn look(location: &Path, options: &GetOptions) -> std::io::Result<Option<GetResult>> {
    let path = PathBuf::from(to_local_path(location));
    let file = if options.head { None } else { Some(File::open(&path)?) };
    let found = file.as_ref().map_or_else(|| path.metadata(), File::metadata)?;
    let meta = describe(location, &found)?;
    let range = options.range.as_ref().map_or(Ok(0..meta.size), |range| range.as_range(meta.size));
    let (true, Ok(()), Ok(range)) = (found.is_file(), options.check_preconditions(&meta), range) else {
        return Ok(None);
    };
    let is_small = range.end - range.start <= SMALL_BYTES;
    let payload = match file {
        None => GetResultPayload::Stream(stream::empty().boxed()),
        Some(file) => match is_small.then(|| cached(&file, &range)).flatten() {
            Some(bytes) => GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed()),
            None => GetResultPayload::File(file, path),
        },
    };
    Ok(Some(GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() }))
}

#[async_trait]
impl ObjectStore for Disk {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match look(location, &options) {
            Ok(Some(found)) => Ok(found),
            Err(source) if source.kind() == ErrorKind::NotFound => {
                Err(Error::NotFound { path: location.to_string(), source: source.into() })
            }
            Ok(None) | Err(_) => self.inner.get_opts(location, options).await,
        }
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use object_store::GetRange;

    use super::*;

    /// What came of a request, to compare: what the file is, the range, the bytes; or the kind of the error.
    fn answer(
        store: &dyn ObjectStore,
        location: &Path,
        options: &GetOptions,
    ) -> Result<(ObjectMeta, Range<u64>, Bytes), String> {
        let whole = async {
            let found = store.get_opts(location, options.clone()).await?;
            let (meta, range) = (found.meta.clone(), found.range.clone());
            let bytes = if options.head { Bytes::new() } else { found.bytes().await? };
            Ok((meta, range, bytes))
        };
        // Without a runtime even `LocalFileSystem` does everything in place.
        let kind = |error: Error| format!("{error:?}").split(['{', '(']).next().unwrap_or_default().trim().to_owned();
        whole.now_or_never().expect("nothing waits").map_err(kind)
    }

    #[test]
    fn every_request_is_answered_as_by_the_local_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..2 * SMALL_BYTES).map(|i| (i % 251) as u8).collect();
        for (name, size) in [("empty", 0), ("small", 100), ("a b%20#é", 100), ("large", bytes.len())] {
            std::fs::write(directory.path().join(name), &bytes[..size]).unwrap();
        }
        std::fs::create_dir(directory.path().join("directory")).unwrap();
        let plain = LocalFileSystem::new();
        let disk = Disk::new(SCHEME, false);
        let root = Path::from_absolute_path(directory.path()).unwrap();
        let meta = |name: &str| answer(&plain, &root.clone().join(name), &GetOptions::new().with_head(true));
        let small = meta("small").unwrap().0;
        let ranges: [GetRange; 9] = [
            (0..10).into(),
            (90..200).into(),
            (100..101).into(),
            (7..7).into(),
            GetRange::Offset(50),
            GetRange::Offset(1000),
            GetRange::Suffix(30),
            (0..SMALL_BYTES).into(),
            (5..SMALL_BYTES + 6).into(),
        ];
        let mut requests = vec![GetOptions::new(), GetOptions::new().with_head(true)];
        requests.extend(ranges.map(|range| GetOptions::new().with_range(Some(range))));
        for tag in [small.e_tag.as_deref().unwrap(), "another", "*"] {
            requests.push(GetOptions::new().with_if_match(Some(tag)));
            requests.push(GetOptions::new().with_if_none_match(Some(tag)));
        }
        requests.push(GetOptions::new().with_if_modified_since(Some(small.last_modified)));
        let before = small.last_modified - Duration::from_secs(1);
        requests.push(GetOptions::new().with_if_unmodified_since(Some(before)));
        let mut answered = 0;
        for name in ["empty", "small", "a b%20#é", "large", "directory", "missing", "small/below"] {
            for request in &requests {
                let location = root.clone().join(name);
                let expected = answer(&plain, &location, request);
                assert_eq!(answer(&disk, &location, request), expected, "{name}: {request:?}");
                answered += usize::from(expected.is_ok());
            }
        }
        assert!(answered > 20, "{answered}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_small_and_cached_is_read_in_place_and_nothing_else() {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![7; 2 * SMALL_BYTES as usize]).unwrap();
        let file = File::open(&path).unwrap();
        // Not every file system can say what is cached.
        let asked = preadv2(&file, &mut [std::io::IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT);
        let tells = asked != Err(Errno::OPNOTSUPP);
        let location = Path::from_absolute_path(&path).unwrap();
        let is_read = |end: u64| {
            let options = GetOptions::new().with_range(Some(0..end));
            matches!(look(&location, &options).unwrap().unwrap().payload, GetResultPayload::Stream(_))
        };
        assert_eq!(is_read(SMALL_BYTES), tells);
        assert!(!is_read(SMALL_BYTES + 1));
        assert_eq!(cached(&file, &(SMALL_BYTES..2 * SMALL_BYTES + 1)), None, "a short read");
    }
}
