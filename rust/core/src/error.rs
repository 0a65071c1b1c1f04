//! lance errors as product errors: the cause kept as source, source locations stripped from the text.

use lance_context_spec::Error;
use lance_core::error::FenceReason;
use object_store::path::Path;

/// A mapping for `Result::map_err`: a storage failure during `operation` on `store`, or a damaged file found by it.
pub(crate) fn storage(store: &str, operation: &'static str) -> impl Fn(lance::Error) -> Error {
    let store = store.to_owned();
    move |error| match damaged_file(&error) {
        Some((file, why)) => Error::Damaged {
            store: store.clone(),
            message: format!(
                "`{file}` is damaged: {why}; restore it from a backup, or see whether the doctor can do without it: \
                 `GenericStore.doctor(uri)`"
            ),
            source: Some(Box::new(error)),
        },
        None => Error::Storage {
            store: store.clone(),
            operation,
            message: strip_locations(&error.to_string()),
            retryable: true,
            source: Some(Box::new(error)),
        },
    }
}

/// The file whose content is why an operation failed, if that is why, and what is wrong with it.
pub(crate) fn damaged_file(error: &lance::Error) -> Option<(Path, String)> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.find_root());
    while let Some(error) = cause {
        if let Some(lance::Error::CorruptFile { path, source, .. }) = error.downcast_ref() {
            return Some((path.clone(), strip_locations(&source.to_string())));
        }
        cause = error.source();
    }
    None
}

/// Whether another writer claimed the shard.
///
/// A seal that its background task finds fenced is reported as a plain I/O error, so that the text has
/// to do there.
pub(crate) fn fenced_by_peer(error: &lance::Error) -> bool {
    match error.fence_reason() {
        Some(reason) => reason == FenceReason::PeerClaimedEpoch,
        None => error.to_string().contains("Writer fenced (peer claimed epoch)"),
    }
}

/// Whether a writer could not be opened because another one claimed the shard at the same moment.
/// lance reports the lost race as a plain I/O error, so the text is all there is. It calls a write that storage
/// refuses again and again contention as well, and only the cause behind that tells.
pub(crate) fn lost_claim(error: &lance::Error) -> bool {
    let text = error.to_string();
    fenced_by_peer(error)
        || text.contains("another writer claimed epoch")
        || text.contains("due to manifest contention: Retryable commit conflict")
}

/// Whether a commit to the base table came to nothing because another one was faster.
pub(crate) fn contended(error: &lance::Error) -> bool {
    use lance::Error::{CommitConflict, IncompatibleTransaction, RetryableCommitConflict, TooMuchWriteContention};
    matches!(
        error.find_root(),
        CommitConflict { .. }
            | IncompatibleTransaction { .. }
            | RetryableCommitConflict { .. }
            | TooMuchWriteContention { .. }
    )
}

/// A lock whose holder panicked.
pub(crate) fn poisoned() -> Error {
    Error::Internal { message: "a lock is poisoned by an earlier panic".to_owned(), source: None }
}

/// Whether a file that a snapshot refers to was collected by another process while it was read.
pub(crate) fn vanished(error: &lance::Error) -> bool {
    matches!(error.find_root(), lance::Error::DatasetNotFound { .. } | lance::Error::NotFound { .. })
        || error.to_string().to_lowercase().contains("not found")
}

/// The same error for another waiter of the same batch; the source stays with the first.
pub(crate) fn replicate(error: &Error) -> Error {
    match error {
        Error::Storage { store, operation, message, retryable, .. } => Error::Storage {
            store: store.clone(),
            operation,
            message: message.clone(),
            retryable: *retryable,
            source: None,
        },
        Error::WriterFenced { store, attempts } => Error::WriterFenced { store: store.clone(), attempts: *attempts },
        Error::WriteUncertain { store } => Error::WriteUncertain { store: store.clone() },
        Error::Damaged { store, message, .. } => {
            Error::Damaged { store: store.clone(), message: message.clone(), source: None }
        }
        Error::Closed { store } => Error::Closed { store: store.clone() },
        other => Error::Internal { message: other.to_string(), source: None },
    }
}

/// `text` without the `, /path/to/file.rs:12:3` that lance appends to its messages.
pub(crate) fn strip_locations(text: &str) -> String {
    text.split(", ").filter(|part| !is_location(part.trim())).collect::<Vec<_>>().join(", ")
}

fn is_location(part: &str) -> bool {
    let Some((path, position)) = part.split_once(".rs:") else { return false };
    !path.contains(' ') && position.chars().all(|c| c.is_ascii_digit() || c == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_stripped_and_the_rest_stays() {
        let text = "LanceError(IO): cannot read x, y, /a/b-1.2/src/wal.rs:12:34";
        assert_eq!(strip_locations(text), "LanceError(IO): cannot read x, y");
        assert_eq!(strip_locations("see main.rs: it, is"), "see main.rs: it, is");
    }
}
