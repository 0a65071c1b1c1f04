//! Files that a local write was staged in and that a crash left behind.
//!
//! Writes become visible by a rename or a link; until then they have names that no listing shows: those of
//! object_store's `LocalFileSystem` end in `#` and a number, those of lance's own writer begin with `.tmp`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lance_context_spec::Result;

use super::Inner;
use crate::clock;
use crate::error::storage;

/// A write that took longer than this is not going on any more.
const STAGED_FOR: std::time::Duration = std::time::Duration::from_secs(600);

impl Inner {
    /// Removes what crashed writes left behind, on local disks.
    pub(super) async fn remove_staged(&self) -> Result<usize> {
        let Some(root) = self.location.path.clone() else { return Ok(0) };
        remove_staged(root).await.map_err(storage(self.store(), "remove staged files"))
    }
}

/// Removes what crashed writes left below a local directory; returns how many files that were.
pub(super) async fn remove_staged(root: PathBuf) -> lance::Result<usize> {
    in_background(move || {
        let mut removed = 0;
        for file in find(&root, before())? {
            removed += usize::from(unless_gone(fs::remove_file(file))?.is_some());
        }
        Ok(removed)
    })
    .await
}

/// What [`remove_staged`] would remove.
pub(super) async fn find_staged(root: PathBuf) -> lance::Result<Vec<PathBuf>> {
    in_background(move || find(&root, before())).await
}

fn before() -> SystemTime {
    SystemTime::from(clock::ago(STAGED_FOR))
}

async fn in_background<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> lance::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(lance::Error::from),
        Err(e) => Err(lance::Error::io(e.to_string())),
    }
}

fn find(root: &Path, before: SystemTime) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in unless_gone(fs::read_dir(&directory))?.into_iter().flatten() {
            let entry = entry?;
            let Some(kind) = unless_gone(entry.file_type())? else { continue };
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file()
                && is_staged(&entry.file_name().to_string_lossy())
                && let Some(file) = unless_gone(entry.metadata())?
                && file.modified()? <= before
            {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

pub(super) fn is_staged(name: &str) -> bool {
    let numbered = |suffix: &str| !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit());
    name.starts_with(".tmp") || name.rsplit_once('#').is_some_and(|(_, suffix)| numbered(suffix))
}

/// `None` for what another process removed meanwhile.
fn unless_gone<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}
