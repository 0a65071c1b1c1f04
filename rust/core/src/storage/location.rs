//! Where a store lives: the uri that the caller gave, and how lance opens it to read and to write.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::io::{ObjectStoreParams, StorageOptionsAccessor, WrappingObjectStore};
use lance::session::Session;
use lance_context_spec::{Error, Result};
use lance_io::object_store::{ChainedWrappingObjectStore, ObjectStore as LanceStore};
use object_store::ObjectStore;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use url::Url;

use super::disk::{self, Disk};
use super::refusals::NOTING;
use super::steps::{Step, StepObserver};
use super::torn;

/// Lance retries a failing seal for ever; after this long it counts as failed.
const SEAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Schemes that lance's object store layer opens as they are.
const REMOTE_SCHEMES: [&str; 6] = ["s3", "gs", "az", "abfss", "shared-memory", disk::LOG_SCHEME];

/// A store's address.
#[derive(Debug, Clone)]
pub struct Location {
    /// As the caller wrote it, for messages.
    pub given: String,
    /// What lance opens.
    pub lance_uri: String,
    /// The directory, for local stores.
    pub path: Option<PathBuf>,
    wrapper: Option<Arc<dyn WrappingObjectStore>>,
    observer: Option<Arc<dyn StepObserver>>,
    pub(super) seal_timeout: Duration,
}

/// How lance opens a store.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub uri: String,
    pub params: Option<ObjectStoreParams>,
}

impl Access {
    /// Opens the newest version of the dataset.
    ///
    /// # Errors
    /// [`lance::Error::CorruptFile`] where a local dataset's manifest is torn.
    pub async fn load(&self, session: &Arc<Session>) -> lance::Result<Dataset> {
        let (object_store, root) = self.object_store(session).await?;
        torn::check_newest(&object_store, &root, None).await?;
        let builder = DatasetBuilder::from_uri(&self.uri).with_session(Arc::clone(session));
        let builder = match &self.params {
            Some(params) => builder.with_store_params(params.clone()),
            None => builder,
        };
        Box::pin(builder.load()).await
    }

    /// The object store, and where in it the dataset lies.
    pub async fn object_store(&self, session: &Session) -> lance::Result<(Arc<LanceStore>, Path)> {
        let params = self.params.clone().unwrap_or_default();
        LanceStore::from_uri_and_params(session.store_registry(), &self.uri, &params).await
    }
}

/// Makes every write of a local store reach the device, with the directories that name it, before it returns, and notes
/// those that do not.
#[derive(Debug)]
struct Synced;

/// One for all stores: lance shares object stores by the address of their wrapper.
static SYNCED: LazyLock<Arc<Synced>> = LazyLock::new(|| Arc::new(Synced));

impl WrappingObjectStore for Synced {
    fn wrap(&self, prefix: &str, _original: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        NOTING.wrap(prefix, Arc::new(Disk::new(prefix, true)))
    }

    fn wrap_paginated(
        &self,
        _prefix: &str,
        lister: Arc<dyn PaginatedListStore>,
    ) -> Option<Arc<dyn PaginatedListStore>> {
        Some(lister)
    }
}

impl Location {
    /// Understands a path, `file://`, `memory://name` and object store uris.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty uri, [`Error::Unsupported`] for an unknown scheme.
    pub fn parse(given: &str) -> Result<Self> {
        let invalid = |message: &str| Error::InvalidArgument { argument: "uri".into(), message: message.into() };
        if given.trim().is_empty() {
            return Err(invalid("it is empty; give a directory or a uri"));
        }
        let remote = |uri: String| Self::new(given, uri, None);
        match given.split_once("://") {
            None => Self::local(given, given),
            Some(("file", path)) => Self::local(given, path),
            // Lance's own `memory://` mints a new store at each open; this one is shared by the process.
            Some(("memory", "")) => Err(invalid("`memory://` needs a name, as in `memory://scratch`")),
            Some(("memory", name)) => Ok(remote(format!("shared-memory://{name}/store.lance"))),
            Some((scheme, _)) if REMOTE_SCHEMES.contains(&scheme) => Ok(remote(given.to_owned())),
            Some((scheme, _)) => Err(Error::Unsupported {
                message: format!(
                    "`{scheme}://` uris are not supported; use a directory, `memory://name` or `s3://bucket/path`"
                ),
            }),
        }
    }

    /// The same place with `wrapper` around the object store, under every read and write: to observe them, or to
    /// make some of them fail.
    #[must_use]
    pub fn wrapped(self, wrapper: Arc<dyn WrappingObjectStore>) -> Self {
        Self { wrapper: Some(wrapper), ..self }
    }

    /// The same place with somebody who sees each step of each operation before it is taken.
    #[must_use]
    pub fn observed(self, observer: Arc<dyn StepObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The same place, where a seal that storage keeps from succeeding for `timeout` counts as failed.
    #[must_use]
    pub fn sealing_within(self, timeout: Duration) -> Self {
        Self { seal_timeout: timeout, ..self }
    }

    /// Waits for whoever observes the steps.
    pub(super) async fn before(&self, step: Step) {
        if let Some(observer) = &self.observer {
            observer.before(step).await;
        }
    }

    /// How the store is read and its tables are written. `fsync` makes every write reach the device.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for `fsync` where nothing can be kept.
    pub(super) fn access(&self, fsync: bool, options: &BTreeMap<String, String>) -> Result<Access> {
        if fsync && self.lance_uri.starts_with("shared-memory:") {
            let message = "`fsync=True` makes no sense in memory; leave it out".into();
            return Err(Error::InvalidArgument { argument: "fsync".into(), message });
        }
        let mut wrappers: Vec<Arc<dyn WrappingObjectStore>> = Vec::new();
        // What an object store in the cloud acknowledges is on its devices.
        if fsync && self.path.is_some() {
            wrappers.push(Arc::clone(&*SYNCED) as _);
        }
        wrappers.extend(self.wrapper.clone());
        let wrapper: Option<Arc<dyn WrappingObjectStore>> = match wrappers.len() {
            0 | 1 => wrappers.pop(),
            _ => Some(Arc::new(ChainedWrappingObjectStore::new(wrappers))),
        };
        let accessor = (!options.is_empty())
            .then(|| Arc::new(StorageOptionsAccessor::with_static_options(options.clone().into_iter().collect())));
        let params = (wrapper.is_some() || accessor.is_some()).then(|| ObjectStoreParams {
            object_store_wrapper: wrapper,
            storage_options_accessor: accessor,
            ..ObjectStoreParams::default()
        });
        Ok(Access { uri: self.lance_uri.clone(), params })
    }

    /// How the log is written, given how the store is: on a local disk by the scheme whose entries are one link
    /// instead of a rename and a link, which is a third of the time of a small add. What storage refuses is noted.
    pub(super) fn log_access(&self, access: &Access) -> Access {
        let mut params = access.params.clone().unwrap_or_default();
        let noting = || Arc::clone(&*NOTING) as Arc<dyn WrappingObjectStore>;
        params.object_store_wrapper = Some(match (params.object_store_wrapper, &self.wrapper) {
            (None, _) => noting(),
            (Some(synced), None) => synced,
            (Some(given), Some(_)) => Arc::new(ChainedWrappingObjectStore::new(vec![given, noting()])),
        });
        Access { uri: self.log_uri().unwrap_or_else(|| access.uri.clone()), params: Some(params) }
    }

    /// The same local directory by the scheme of the log. `None` for other stores.
    fn log_uri(&self) -> Option<String> {
        let escaped = Url::from_file_path(self.path.as_ref()?).ok()?;
        Some(format!("{}://{}", disk::LOG_SCHEME, escaped.path()))
    }

    fn local(given: &str, path: &str) -> Result<Self> {
        let path = std::path::absolute(path)
            .map_err(|e| Error::InvalidArgument { argument: "uri".into(), message: format!("`{path}`: {e}") })?;
        let Some(uri) = path.to_str().map(str::to_owned) else {
            return Err(Error::InvalidArgument {
                argument: "uri".into(),
                message: format!("`{}` is not valid UTF-8", path.display()),
            });
        };
        Ok(Self::new(given, uri, Some(path)))
    }

    fn new(given: &str, lance_uri: String, path: Option<PathBuf>) -> Self {
        let given = given.to_owned();
        Self { given, lance_uri, path, wrapper: None, observer: None, seal_timeout: SEAL_TIMEOUT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_uri_is_understood_or_refused() {
        assert!(matches!(Location::parse("  "), Err(Error::InvalidArgument { .. })));
        assert!(matches!(Location::parse("memory://"), Err(Error::InvalidArgument { .. })));
        assert!(matches!(Location::parse("ftp://x/y"), Err(Error::Unsupported { .. })));
        assert_eq!(Location::parse("memory://a").unwrap().lance_uri, "shared-memory://a/store.lance");
        assert_eq!(Location::parse("s3://b/k").unwrap().lance_uri, "s3://b/k");
        assert_eq!(Location::parse("file:///a/b").unwrap().lance_uri, "/a/b");
        let log = |uri: &str| Location::parse(uri).unwrap().log_uri();
        assert_eq!(log("/a/b-1.c_d").as_deref(), Some("file-object-store:///a/b-1.c_d"));
        assert_eq!(log("/a b%20#?\u{ef}").as_deref(), Some("file-object-store:///a%20b%2520%23%3F%C3%AF"));
        assert_eq!(log("memory://a"), None);
        assert_eq!(log("s3://b/k"), None);
        assert!(Location::parse("a b").unwrap().path.unwrap().is_absolute());
    }
}
