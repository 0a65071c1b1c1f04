//! How a store is opened, and what its operations report.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Error;

/// Which durable rows a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Everything sealed, plus what was durable when the handle was opened.
    #[default]
    Sealed,
    /// Every durable row, of this and of every other writer.
    Latest,
}

impl std::str::FromStr for ReadMode {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "sealed" => Ok(Self::Sealed),
            "latest" => Ok(Self::Latest),
            other => Err(Error::InvalidArgument {
                argument: "read".into(),
                message: format!("`{other}` is neither `sealed` nor `latest`"),
            }),
        }
    }
}

/// What an `add` does with a row whose key is there already, stored or earlier in the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The newer row replaces the older one, whole.
    #[default]
    Replace,
    /// Nothing is written, and the call fails.
    Error,
    /// The row that is there stays.
    Ignore,
}

impl std::str::FromStr for OnConflict {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "replace" => Ok(Self::Replace),
            "error" => Ok(Self::Error),
            "ignore" => Ok(Self::Ignore),
            other => Err(Error::InvalidArgument {
                argument: "on_conflict".into(),
                message: format!("`{other}` is none of `replace`, `error` and `ignore`"),
            }),
        }
    }
}

/// What a handle that writes does in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceOptions {
    /// Seal when nothing was added for this long.
    pub seal_idle: Duration,
    /// Seal when the oldest unsealed row is this old.
    pub seal_age: Duration,
    /// Merge when this many generations are pending.
    pub merge_generations: usize,
    /// Merge when the pending generations have this many bytes.
    pub merge_bytes: u64,
    /// Rewrite fragments of the base table that are smaller than half of this into ones of about this size.
    pub compact_bytes: u64,
    /// Seal what a dead writer left unsealed when its shard was silent for this long.
    pub orphan_after: Duration,
}

impl Default for MaintenanceOptions {
    fn default() -> Self {
        Self {
            seal_idle: Duration::from_secs(1),
            seal_age: Duration::from_secs(10),
            merge_generations: 8,
            merge_bytes: 64 << 20,
            compact_bytes: 256 << 20,
            orphan_after: Duration::from_secs(600),
        }
    }
}

/// How a store is opened. `None` means: as the store was created, or the default for a new one.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whether `add` seals before it returns. Belongs to the store; default `false`.
    pub seal_on_add: Option<bool>,
    /// Whether an acknowledged row also survives a crash of the machine. Belongs to the store.
    pub fsync: Option<bool>,
    /// How long superseded files stay for readers that still use them. Belongs to the store.
    pub gc_grace: Option<Duration>,
    /// The default visibility of this handle's reads.
    pub read: ReadMode,
    /// Refuse every operation that writes.
    pub read_only: bool,
    /// What this handle does in the background once it has written; `None`: nothing.
    pub maintenance: Option<MaintenanceOptions>,
    /// A memtable is sealed when it has this many bytes.
    pub max_memtable_bytes: usize,
    /// Names this writer among those that write at the same time: each name has a shard of its own, and writers of
    /// different names never fence each other. Only for stores whose rows are never rewritten.
    pub writer_id: Option<String>,
    /// Options for the object store (`s3://` and the like).
    pub storage_options: BTreeMap<String, String>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            seal_on_add: None,
            fsync: None,
            gc_grace: None,
            read: ReadMode::default(),
            read_only: false,
            maintenance: Some(MaintenanceOptions::default()),
            max_memtable_bytes: 256 << 20,
            writer_id: None,
            storage_options: BTreeMap::new(),
        }
    }
}

/// What an `add` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddResult {
    /// Rows acknowledged.
    pub count: usize,
}

/// What a `merge` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeReport {
    /// Generations folded into the base table.
    pub generations: usize,
    /// Rows written to the base table.
    pub rows: u64,
    /// Keys deleted from the base table.
    pub deleted: u64,
    /// Version of the base table after the merge.
    pub version: u64,
}

/// What an `optimize` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptimizeReport {
    /// Generations folded into the base table.
    pub generations: usize,
    /// Fragments that were rewritten.
    pub fragments_removed: usize,
    /// Fragments that they were rewritten into.
    pub fragments_added: usize,
    /// Old versions of the base table that were removed.
    pub versions_removed: u64,
    /// Bytes of files that were removed with them.
    pub bytes_removed: u64,
    /// Version of the base table afterwards.
    pub version: u64,
}

/// What is known of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Live rows of every tier, the unsealed ones of every writer too.
    pub rows: u64,
    /// Rows in the base table.
    pub base_rows: u64,
    /// Files of rows in the base table.
    pub fragments: usize,
    /// Sealed generations that are not merged.
    pub generations: usize,
    /// Their bytes.
    pub generation_bytes: u64,
    /// Rows durable in this handle's memtable and not sealed.
    pub unsealed_rows: u64,
    /// Bytes of WAL entries on storage.
    pub wal_bytes: u64,
    /// WAL entries on storage.
    pub wal_entries: u64,
    /// Version of the base table.
    pub version: u64,
    /// Versions of the base table on storage.
    pub versions: usize,
    /// WAL entries that could not be decoded and were put aside.
    pub quarantined: usize,
    /// Whether `add` seals.
    pub seal_on_add: bool,
    /// Whether `add` syncs to the device.
    pub fsync: bool,
    /// Why the last background maintenance of this handle failed; `None` after one that did not.
    pub maintenance_error: Option<String>,
}
