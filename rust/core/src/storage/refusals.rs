//! What storage answered to writes that failed, for the message of what then fails because of them.
//!
//! Lance tries a write again and reports how the last try ended. Of an entry whose first put failed when it was there
//! already, by a sync of its directory or a lost reply, it says that the place is taken; of a seal that storage keeps
//! refusing it says nothing. The answers are noted as they pass, and nothing is decided by them.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use lance::io::WrappingObjectStore;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

use crate::clock;

/// So many refusals of the process are remembered.
const REMEMBERED: usize = 64;

static LATEST: LazyLock<Mutex<VecDeque<Refusal>>> = LazyLock::new(Mutex::default);

/// One for all stores: lance shares object stores by the address of their wrapper.
pub(super) static NOTING: LazyLock<Arc<Noting>> = LazyLock::new(|| Arc::new(Noting));

#[derive(Debug)]
struct Refusal {
    device: String,
    path: Path,
    at: Duration,
    cause: String,
}

/// The last file below `directory` whose writing storage refused since then, by the clock that counts suspension, and
/// what it said.
pub(super) fn last_below(store_prefix: &str, directory: &Path, since: Duration) -> Option<(Path, String)> {
    let device = device(store_prefix);
    let latest = LATEST.lock().ok()?;
    let is_meant = |r: &&Refusal| r.at >= since && r.device == device && r.path.prefix_matches(directory);
    latest.iter().rev().find(is_meant).map(|refusal| (refusal.path.clone(), refusal.cause.clone()))
}

/// What `store_prefix` stands for: lance has two schemes for local files, with one path for each of them.
fn device(store_prefix: &str) -> &str {
    if store_prefix.starts_with("file") { "file" } else { store_prefix }
}

/// The wrapper that notes.
#[derive(Debug)]
pub(super) struct Noting;

impl WrappingObjectStore for Noting {
    fn wrap(&self, store_prefix: &str, inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(Noted { inner, device: device(store_prefix).to_owned() })
    }

    fn wrap_paginated(&self, _: &str, lister: Arc<dyn PaginatedListStore>) -> Option<Arc<dyn PaginatedListStore>> {
        Some(lister)
    }
}

/// Hands everything on.
#[derive(Debug)]
struct Noted {
    inner: Arc<dyn ObjectStore>,
    device: String,
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn note<T>(device: &str, path: &Path, outcome: &Result<T>) {
    let cause = match outcome {
        // That a file is there is an answer.
        Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => return,
        Err(cause) => cause.to_string(),
    };
    let Ok(mut latest) = LATEST.lock() else { return };
    if latest.len() == REMEMBERED {
        latest.pop_front();
    }
    latest.push_back(Refusal { device: device.to_owned(), path: path.clone(), at: clock::since_boot(), cause });
}

#[async_trait]
impl ObjectStore for Noted {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let outcome = self.inner.put_opts(location, payload, options).await;
        note(&self.device, location, &outcome);
        outcome
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let outcome = self.inner.put_multipart_opts(location, options).await;
        note(&self.device, location, &outcome);
        let (device, path) = (self.device.clone(), location.clone());
        outcome.map(|inner| Box::new(NotedUpload { inner, device, path }) as _)
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
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

/// An upload fails in a part or at its end.
#[derive(Debug)]
struct NotedUpload {
    inner: Box<dyn MultipartUpload>,
    device: String,
    path: Path,
}

#[async_trait]
impl MultipartUpload for NotedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, device, path) = (self.inner.put_part(data), self.device.clone(), self.path.clone());
        Box::pin(async move {
            let outcome = part.await;
            note(&device, &path, &outcome);
            outcome
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let outcome = self.inner.complete().await;
        note(&self.device, &self.path, &outcome);
        outcome
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(device: &str, path: &str, cause: &str) {
        let source = Box::new(std::io::Error::other(cause.to_owned()));
        note(device, &Path::from(path), &Err::<(), _>(Error::Generic { store: "test", source }));
    }

    #[test]
    fn the_last_refusal_of_a_directory_is_told_and_no_other() {
        let began = clock::since_boot();
        refused("file", "refusals/one/a", "first");
        refused("file", "refusals/one/b", "second");
        refused("file", "refusals/other/a", "elsewhere");
        refused("s3$bucket", "refusals/one/a", "on another device");
        note("file", &Path::from("refusals/one/c"), &Ok(()));
        let told = |directory: &str, since| last_below("file-object-store", &Path::from(directory), since);
        let (path, cause) = told("refusals/one", began).unwrap();
        assert_eq!(path, Path::from("refusals/one/b"));
        assert!(cause.ends_with("second"), "{cause}");
        assert!(told("refusals/o", began).is_none());
        assert!(told("refusals/one", clock::since_boot() + Duration::from_nanos(1)).is_none());
        for _ in 0..REMEMBERED {
            refused("file", "refusals/many/a", "again");
        }
        assert!(LATEST.lock().unwrap().len() <= REMEMBERED);
    }
}
