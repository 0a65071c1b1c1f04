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

/// How a store is opened. `None` means: as the store was created, or the default for a new one.
#[derive(Debug, Clone, Default)]
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
    /// Options for the object store (`s3://` and the like).
    pub storage_options: BTreeMap<String, String>,
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

/// What is known of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Rows in the base table.
    pub base_rows: u64,
    /// Sealed generations that are not merged.
    pub generations: usize,
    /// Rows durable in this handle's memtable and not sealed.
    pub unsealed_rows: u64,
    /// Bytes of WAL entries on storage.
    pub wal_bytes: u64,
    /// WAL entries on storage.
    pub wal_entries: u64,
    /// Version of the base table.
    pub version: u64,
    /// Whether `add` seals.
    pub seal_on_add: bool,
    /// Whether `add` syncs to the device.
    pub fsync: bool,
}
