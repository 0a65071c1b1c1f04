//! Where a store lives: the uri that the caller gave and the one that lance opens.

use std::path::PathBuf;

use lance_context_spec::{Error, Result};
use url::Url;

/// Schemes that lance's object store layer opens as they are.
const REMOTE_SCHEMES: [&str; 6] = ["s3", "gs", "az", "abfss", "shared-memory", "file-object-store"];

/// A store's address.
#[derive(Debug, Clone)]
pub struct Location {
    /// As the caller wrote it, for messages.
    pub given: String,
    /// What lance opens.
    pub lance_uri: String,
    /// The directory, for local stores.
    pub path: Option<PathBuf>,
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
        let remote = |uri: String| Self { given: given.to_owned(), lance_uri: uri, path: None };
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

    /// The same local directory by the scheme that makes lance write through its object store: one link a
    /// WAL entry instead of a rename and a link, which is a third of the time of a small add.
    ///
    /// `None` for other stores, and for paths that a uri would have to escape.
    pub fn direct_uri(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        let escaped = Url::from_file_path(path).ok()?;
        (escaped.path() == path.to_str()?).then(|| format!("file-object-store://{}", escaped.path()))
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
        Ok(Self { given: given.to_owned(), lance_uri: uri, path: Some(path) })
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
        let direct = |uri: &str| Location::parse(uri).unwrap().direct_uri();
        assert_eq!(direct("/a/b-1.c_d").as_deref(), Some("file-object-store:///a/b-1.c_d"));
        for escaped in ["/a b", "/a%20b", "/a#b", "/a?b", "/na\u{ef}ve", "memory://a", "s3://b/k"] {
            assert_eq!(direct(escaped), None, "{escaped}");
        }
        assert!(Location::parse("a b").unwrap().path.unwrap().is_absolute());
    }
}
