//! What a doctor's look at the files of a store found.
//!
//! Findings are data: a severity, a stable word for what is wrong, the file or key it is about, and a text for
//! people. The words are append-only; [`code`] says what each means.

use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing to do.
    Note,
    /// Slower, larger or older than it should be; every acknowledged row can be read.
    Warning,
    /// Acknowledged rows are lost, doubled or hidden, or the store cannot be read or written.
    Error,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, as a stable word of [`code`].
    pub code: &'static str,
    /// The file, directory, key or part of the store that it is about; files relative to the store.
    pub subject: String,
    /// What, where, and what to do. Not a stable text.
    pub message: String,
    /// Whether the repair mended it. Always `false` without a repair.
    pub repaired: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repaired = if self.repaired { " (repaired)" } else { "" };
        write!(f, "{} {}{repaired}: `{}`: {}", self.severity, self.code, self.subject, self.message)
    }
}

/// All findings: what a repair mended first, then what is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DoctorReport {
    /// What was found.
    pub findings: Vec<Finding>,
    /// How many of them the repair mended.
    pub repaired: usize,
}

impl DoctorReport {
    /// The findings that are left.
    pub fn left(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.repaired)
    }

    /// The worst severity among what is left; `None` where there is nothing.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.left().map(|finding| finding.severity).max()
    }
}

/// The words of [`Finding::code`](super::Finding::code).
pub mod code {
    /// The newest version of the table does not open.
    pub const TABLE_UNREADABLE: &str = "table-unreadable";
    /// The table is not of this package, or of another kind of store.
    pub const NOT_A_STORE: &str = "not-a-store";
    /// What the store persists about itself does not parse, or is of a newer version.
    pub const METADATA_DAMAGED: &str = "metadata-damaged";
    /// The persisted schema and the table's columns differ.
    pub const SCHEMA_MISMATCH: &str = "schema-mismatch";
    /// Creation ended before the write-ahead log was set up. Repairable.
    pub const CREATION_INCOMPLETE: &str = "creation-incomplete";
    /// The table lost its record of the write-ahead log, and with it the mark of what is merged.
    pub const LOG_MISSING: &str = "log-missing";
    /// There is no index on the key or on a lookup column. Repairable.
    pub const KEY_INDEX_MISSING: &str = "key-index-missing";
    /// It does not cover all files of rows yet. Repairable.
    pub const KEY_INDEX_BEHIND: &str = "key-index-behind";
    /// It cannot be read or misses rows, so that reads by it miss them. Repairable.
    pub const KEY_INDEX_DAMAGED: &str = "key-index-damaged";
    /// A file that the table or a generation refers to is not there.
    pub const FILE_MISSING: &str = "file-missing";
    /// A file has another size than the table or generation knows.
    pub const FILE_SIZE: &str = "file-size";
    /// The rows of the table or of a generation cannot be read.
    pub const ROWS_UNREADABLE: &str = "rows-unreadable";
    /// An older version of the table cannot be read.
    pub const VERSION_UNREADABLE: &str = "version-unreadable";
    /// A key that has two live rows in the table, or in one generation.
    pub const DUPLICATE_KEY: &str = "duplicate-key";
    /// A directory of a shard that is not this store's; its rows are never read.
    pub const UNKNOWN_SHARD: &str = "unknown-shard";
    /// A shard that the table does not name, so that nobody reads its rows. Repairable.
    pub const SHARD_UNANNOUNCED: &str = "shard-unannounced";
    /// There are generations or WAL entries, and no shard manifest.
    pub const SHARD_MANIFEST_MISSING: &str = "shard-manifest-missing";
    /// A shard manifest cannot be read. Repairable where it is the newest and the WAL has all that it can have added.
    pub const SHARD_MANIFEST_UNREADABLE: &str = "shard-manifest-unreadable";
    /// Versions of the shard manifest are missing between others.
    pub const SHARD_MANIFEST_GAP: &str = "shard-manifest-gap";
    /// Shard manifests contradict themselves or each other.
    pub const SHARD_MANIFEST_ORDER: &str = "shard-manifest-order";
    /// The shard refuses every writer.
    pub const SHARD_CLOSED: &str = "shard-closed";
    /// The table claims to have merged generations that were never sealed. Repairable unless the shard lists any.
    pub const MARK_AHEAD: &str = "mark-ahead";
    /// A generation that is neither merged nor listed.
    pub const GENERATION_LOST: &str = "generation-lost";
    /// A listed generation is not on storage.
    pub const GENERATION_MISSING: &str = "generation-missing";
    /// A listed generation does not open.
    pub const GENERATION_UNREADABLE: &str = "generation-unreadable";
    /// A generation has other columns than the table.
    pub const GENERATION_SCHEMA: &str = "generation-schema";
    /// A generation has another number of rows than the shard manifest says.
    pub const GENERATION_ROWS: &str = "generation-rows";
    /// A generation's own key index is missing or differs from its rows, so that stale rows show or rows hide.
    /// Repairable.
    pub const GENERATION_KEYS: &str = "generation-keys";
    /// A WAL entry that cannot be decoded, with others behind it. Repairable.
    pub const WAL_TORN: &str = "wal-torn";
    /// The last WAL entry cannot be decoded. The next claim puts it aside. Repairable.
    pub const WAL_TORN_END: &str = "wal-torn-end";
    /// A position of the WAL without an entry, with others behind it. Repairable.
    pub const WAL_HOLE: &str = "wal-hole";
    /// The WAL ends before what the shard manifest has seen of it. Repairable.
    pub const WAL_CUT: &str = "wal-cut";
    /// A WAL entry that cannot be read at all.
    pub const WAL_UNREADABLE: &str = "wal-unreadable";
    /// A WAL entry has other columns than the table.
    pub const WAL_SCHEMA: &str = "wal-schema";
    /// The writers of the WAL do not follow each other, or the shard manifest does not know one. The latter is
    /// repairable.
    pub const WAL_ORDER: &str = "wal-order";
    /// Generations that nothing needs any more. Repairable once they are older than the store's `gc_grace`.
    pub const GENERATION_LEFTOVER: &str = "generation-leftover";
    /// A generation that no manifest lists yet: a seal under way, or one that did not finish.
    pub const GENERATION_UNLISTED: &str = "generation-unlisted";
    /// WAL entries that are sealed. Repairable once they are older than the store's `gc_grace`.
    pub const WAL_LEFTOVER: &str = "wal-leftover";
    /// Files of the table that no version refers to. Repairable.
    pub const FILE_LEFTOVER: &str = "file-leftover";
    /// Files of writes that a crash interrupted. Repairable.
    pub const STAGED_FILE: &str = "staged-file";
    /// A file among those of the shard that is none of them.
    pub const STRAY_FILE: &str = "stray-file";
    /// Files that could not be decoded and were put aside.
    pub const QUARANTINED: &str = "quarantined";
    /// Something could not be looked at.
    pub const NOT_CHECKED: &str = "not-checked";
    /// The store changed while it was looked at.
    pub const IN_USE: &str = "in-use";
    /// A repair that did not work.
    pub const REPAIR_FAILED: &str = "repair-failed";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, repaired: bool) -> Finding {
        Finding { severity, code: code::WAL_HOLE, subject: "wal".into(), message: "gone".into(), repaired }
    }

    #[test]
    fn what_is_repaired_does_not_count_as_left() {
        let findings = vec![finding(Severity::Error, true), finding(Severity::Warning, false)];
        let report = DoctorReport { findings, repaired: 1 };
        assert_eq!(report.worst(), Some(Severity::Warning));
        assert_eq!(report.left().count(), 1);
        assert_eq!(DoctorReport::default().worst(), None);
    }

    #[test]
    fn a_finding_reads_as_a_sentence() {
        assert_eq!(finding(Severity::Error, true).to_string(), "error wal-hole (repaired): `wal`: gone");
        assert!(Severity::Note < Severity::Warning && Severity::Warning < Severity::Error);
    }
}
