//! The steps of every operation that writes more than one file: between any two of them the process may end,
//! and nothing acknowledged may be lost by it.
//!
//! Tests observe the steps to stop a store exactly there. Nothing observes them otherwise.

use futures::future::BoxFuture;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Creation: the first version of the table.
    CreateTable,
    /// Creation: the key index.
    CreateIndex,
    /// Creation: the write-ahead log.
    CreateLog,
    /// A claim: an undecodable last entry is put aside.
    Quarantine,
    /// A first claim: the table learns of the shard.
    Announce,
    /// A claim: the shard's next epoch.
    Claim,
    /// A claim: what it replayed is sealed.
    SealReplayed,
    /// A write: the WAL entry.
    Put,
    /// A write: the acknowledgement.
    Acknowledge,
    /// A seal: the generation and the manifest that names it.
    Seal,
    /// A merge: the commit that removes deleted keys.
    CommitDelete,
    /// A merge: the commit of rows and mark.
    CommitMerge,
    /// A merge: merged generations leave the shard manifest.
    Trim,
    /// Collection: one superfluous generation or WAL entry goes.
    Collect,
    /// Upkeep: the key index covers new rows.
    Index,
    /// Upkeep: small fragments become larger ones.
    Compact,
    /// Upkeep: old versions of the table go.
    Clean,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 17] = [
        Self::CreateTable,
        Self::CreateIndex,
        Self::CreateLog,
        Self::Quarantine,
        Self::Announce,
        Self::Claim,
        Self::SealReplayed,
        Self::Put,
        Self::Acknowledge,
        Self::Seal,
        Self::CommitDelete,
        Self::CommitMerge,
        Self::Trim,
        Self::Collect,
        Self::Index,
        Self::Compact,
        Self::Clean,
    ];
}

/// Sees each step before it is taken, and may hold it up, for good if it likes.
pub trait StepObserver: std::fmt::Debug + Send + Sync {
    /// Returns when the step may be taken.
    fn before(&self, step: Step) -> BoxFuture<'_, ()>;
}
