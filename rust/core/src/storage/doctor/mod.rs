//! Checks of every invariant that the files of a store can show, and repair of what can be repaired without a loss.
//!
//! A look opens nothing that a store uses: it has caches of its own, so that it sees the files and not what an open
//! handle remembers of them; it claims no shard and writes nothing. A check reports and goes on, and one that cannot
//! run says so, so that one damage hides no other. What a repair will do is noted while looking ([`Plan`]). Whatever
//! may hold an acknowledged row is put aside, never deleted, and nothing at all is deleted while an error is left.

mod files;
mod generations;
mod leftovers;
mod log;
mod manifests;
mod repair;
mod table;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use lance_context_spec::doctor::code;
use lance_context_spec::{DoctorReport, Error, Finding, OpenOptions, Result, Severity};
use object_store::path::Path;
use uuid::Uuid;

use super::{Kind, Location};
use crate::error::{damaged_file, strip_locations};
use files::Files;
use manifests::Newest;
use table::{Opened, Table};

/// A store that changes under every look is looked at so often.
const LOOKS: u32 = 3;

/// More findings of one code than this are counted, not listed.
const LISTED: usize = 50;

/// Looks at every file of the store at `location` and reports what is wrong with it. Of `options` only those for
/// the object store count.
///
/// Without `repair` not a byte changes, and a store that is in use can be looked at: what is found may then be of the
/// moment. With `repair`, what can be mended without losing an acknowledged row is mended, and the report says what
/// was and what is left; the caller promises that nobody else, in any process, has the store open meanwhile, and
/// opens it anew afterwards.
///
/// Of the rows, the keys are read and no other column. It takes some 50 bytes of memory for each row.
///
/// # Errors
/// [`Error::StoreNotFound`] where nothing is, [`Error::NotAStore`] for a foreign directory or file. All else is a
/// finding.
pub async fn doctor(location: Location, kind: Kind, options: &OpenOptions, repair: bool) -> Result<DoctorReport> {
    let mut first = examine(&location, kind, options).await?;
    if !repair {
        for _ in 1..LOOKS {
            if !first.findings.iter().any(|finding| finding.code == code::IN_USE) {
                break;
            }
            first = examine(&location, kind, options).await?;
        }
        return Ok(DoctorReport { findings: first.listed(), repaired: 0 });
    }
    let mut failures = repair::mend(&location, kind, options, &first).await?;
    let mended = examine(&location, kind, options).await?;
    let last = if mended.may_delete() && mended.plan.deletes() {
        failures.extend(repair::sweep(&location, kind, options, &mended).await?);
        examine(&location, kind, options).await?
    } else {
        mended
    };
    Ok(settle(first, last, failures))
}

/// What a look found, and what a repair would do about it.
#[derive(Default)]
struct Exam {
    findings: Vec<Finding>,
    plan: Plan,
}

/// What a repair will do.
#[derive(Default)]
struct Plan {
    /// Whether the store syncs, so that a repair must too.
    fsync: bool,
    /// Finish the creation: the indexes, the write-ahead log.
    complete: bool,
    /// By column.
    indexes: BTreeMap<&'static str, IndexRepair>,
    shards: BTreeMap<Uuid, ShardPlan>,
    /// Generation directories that nothing needs.
    generations: Vec<Path>,
    /// WAL entries that nothing needs.
    entries: Vec<Path>,
    /// Whether there are files of the table that no version refers to.
    files: bool,
    /// Those among them that lance does not find.
    deletions: Vec<Path>,
    /// Whether crashed writes left files behind.
    staged: bool,
}

/// What a repair will do to a shard.
#[derive(Default)]
struct ShardPlan {
    /// The table is to name it.
    announce: bool,
    /// The newest manifest, to put aside in favour of the one before it.
    manifest: Option<u64>,
    /// The next generation and writer epoch must be at least these.
    floor: Option<Floor>,
    /// WAL positions to put aside.
    torn: Vec<u64>,
    /// WAL positions to fill with an empty entry, each with the epoch to write it under.
    fill: Vec<(u64, u64)>,
    /// Generations whose own key index is to be written anew, by directory name.
    generation_keys: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Floor {
    generation: u64,
    epoch: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IndexRepair {
    /// It covers some of the files of rows.
    Extend,
    Rebuild,
}

impl Plan {
    fn shard(&mut self, shard_id: Uuid) -> &mut ShardPlan {
        self.shards.entry(shard_id).or_default()
    }

    fn deletes(&self) -> bool {
        self.files
            || self.staged
            || !(self.generations.is_empty() && self.entries.is_empty() && self.deletions.is_empty())
    }
}

impl Exam {
    fn report(
        &mut self,
        severity: Severity,
        code: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) {
        let (subject, message) = (subject.into(), message.into());
        self.findings.push(Finding { severity, code, subject, message, repaired: false });
    }

    fn error(&mut self, code: &'static str, subject: impl Into<String>, message: impl Into<String>) {
        self.report(Severity::Error, code, subject, message);
    }

    fn warning(&mut self, code: &'static str, subject: impl Into<String>, message: impl Into<String>) {
        self.report(Severity::Warning, code, subject, message);
    }

    fn note(&mut self, code: &'static str, subject: impl Into<String>, message: impl Into<String>) {
        self.report(Severity::Note, code, subject, message);
    }

    /// `what` cannot be checked because of damage that is reported already.
    fn unchecked(&mut self, what: &str, because: &str) {
        self.note(code::NOT_CHECKED, what, format!("not checked: {because}; see to that first"));
    }

    /// What became of a check that may have been stopped.
    fn settle(&mut self, what: &str, outcome: Result<(), Stopped>) {
        if let Err(Stopped(why)) = outcome {
            let message = format!("not checked: {why}; run the doctor again when that is seen to");
            self.warning(code::NOT_CHECKED, what, message);
        }
    }

    /// Whether every check ran and found no error: only then can nothing of what is left over be needed.
    fn may_delete(&self) -> bool {
        !self.findings.iter().any(|f| f.severity == Severity::Error || f.code == code::NOT_CHECKED)
    }

    /// The findings, worst first, with those that are too many summed up.
    fn listed(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let mut listed: Vec<Finding> = Vec::new();
        let mut run: Vec<(Severity, &'static str, usize)> = Vec::new();
        for finding in self.findings {
            let group =
                run.iter_mut().find(|(severity, code, _)| (*severity, *code) == (finding.severity, finding.code));
            let count = match group {
                Some((.., count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    run.push((finding.severity, finding.code, 1));
                    1
                }
            };
            if count <= LISTED {
                listed.push(finding);
            }
        }
        for (severity, code, count) in run.into_iter().filter(|(.., count)| *count > LISTED) {
            let subject = format!("{} more", count - LISTED);
            let message = "and so many of the same kind".to_owned();
            listed.push(Finding { severity, code, subject, message, repaired: false });
        }
        listed
    }
}

/// Why a check could not run to its end.
struct Stopped(String);

impl From<lance::Error> for Stopped {
    fn from(error: lance::Error) -> Self {
        Self(told(&error))
    }
}

impl From<object_store::Error> for Stopped {
    fn from(error: object_store::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Awaits `work` and makes an error of a panic: lance panics on some torn files.
async fn caught<T, E: From<lance::Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let text = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    };
    AssertUnwindSafe(Box::pin(work))
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(lance::Error::io(format!("the reader panics: {}", text(panic))).into()))
}

/// An engine's error in a sentence.
fn told(error: &lance::Error) -> String {
    strip_locations(&error.to_string())
}

/// The file that an error is about, `otherwise` if it is about none, and what is wrong.
fn blamed(files: &Files, otherwise: &str, error: &lance::Error) -> (String, String) {
    match damaged_file(error) {
        Some((file, why)) => (files.relative(&file), why),
        None => (otherwise.to_owned(), told(error)),
    }
}

/// All checks, in an order in which each finds what it needs to know.
async fn examine(location: &Location, kind: Kind, options: &OpenOptions) -> Result<Exam> {
    let files = Files::open(location, kind, options, false).await?;
    let mut exam = Exam::default();
    let table = match table::open(&files, &mut exam).await {
        Opened::Foreign => return Ok(exam),
        Opened::Unreadable => {
            exam.unchecked("the table's files, keys and versions", "the table does not open");
            None
        }
        Opened::Table(mut table) => {
            exam.plan.fsync = table.meta.as_ref().is_some_and(|meta| meta.fsync);
            table::check(&files, &mut table, &mut exam).await;
            Some(*table)
        }
    };
    let outcome = manifests::check_other_directories(&files, &mut exam).await;
    exam.settle("other shards", outcome);
    let mut shards: Vec<(Files, Newest)> = Vec::new();
    for shard_id in shards_of(&files, table.as_ref()) {
        let shard = files.at(shard_id);
        let newest = manifests::check(&shard, table.as_ref(), &mut exam).await;
        check_shard(&shard, table.as_ref(), &newest, &mut exam).await;
        shards.push((shard, newest));
    }
    match &table {
        Some(table) => leftovers::check(&files, table, &mut exam).await,
        None => exam.unchecked("superfluous files", "the table does not open"),
    }
    let outcome = check_in_use(&shards, table.as_ref(), &mut exam).await;
    exam.settle("whether the store is in use", outcome);
    Ok(exam)
}

/// The shards that have a directory, and those that the table has merged something of.
fn shards_of(files: &Files, table: Option<&Table>) -> BTreeSet<Uuid> {
    let merged = table.and_then(|table| table.merged.as_ref()).into_iter().flat_map(|merged| merged.keys());
    files.shard_ids.iter().chain(merged).copied().collect()
}

/// What the newest manifest refers to, and what nothing does.
async fn check_shard(files: &Files, table: Option<&Table>, newest: &Newest, exam: &mut Exam) {
    let manifest = match newest {
        Newest::Nothing => None,
        Newest::Manifest(manifest) => Some(manifest.as_ref()),
        Newest::Unreadable(_) => {
            let what = files.of_shard("generations and the WAL");
            return exam.unchecked(&what, "there is no readable shard manifest");
        }
    };
    match (table, manifest) {
        (Some(table), Some(manifest)) => generations::check(files, table, manifest, exam).await,
        (None, Some(_)) => exam.unchecked(&files.of_shard("generations"), "the table does not open"),
        (_, None) => {}
    }
    if let Some(manifest) = manifest {
        let outcome = log::check(files, table, manifest, exam).await;
        exam.settle(&files.of_shard("the WAL"), outcome);
    }
    if let Some(table) = table {
        leftovers::check_shard(files, table, manifest, exam).await;
    }
}

/// Says when the store moved on while it was looked at.
async fn check_in_use(shards: &[(Files, Newest)], table: Option<&Table>, exam: &mut Exam) -> Result<(), Stopped> {
    let mut moved = false;
    for (files, newest) in shards {
        moved |= files.shard.manifests.list_versions().await?.last().copied() != newest.version();
    }
    let version = match table {
        Some(table) => Some(table.dataset.latest_version_id().await?),
        None => None,
    };
    if moved || version != table.map(|table| table.dataset.version().version) {
        let message = "the store changed while it was looked at, and findings may be of the moment; \
                       run the doctor again when nobody writes";
        exam.note(code::IN_USE, "store", message);
    }
    Ok(())
}

/// The report of a repair: what the first look found and the last did not, then what is left.
fn settle(first: Exam, last: Exam, failures: Vec<Finding>) -> DoctorReport {
    let (first, left) = (first.listed(), last.listed());
    let passing = [code::NOT_CHECKED, code::IN_USE];
    let is_left = |found: &Finding| {
        left.iter().any(|l| (l.severity, l.code, &l.subject) == (found.severity, found.code, &found.subject))
    };
    let mut findings: Vec<Finding> = first
        .into_iter()
        .filter(|found| !passing.contains(&found.code) && !is_left(found))
        .map(|found| Finding { repaired: true, ..found })
        .collect();
    let repaired = findings.len();
    findings.extend(failures);
    findings.extend(left);
    DoctorReport { findings, repaired }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_worst_first_and_are_summed_up_when_they_are_many() {
        let mut exam = Exam::default();
        exam.note(code::QUARANTINED, "_quarantine", "a note");
        for i in 0..LISTED + 3 {
            exam.error(code::WAL_HOLE, format!("entry {i}"), "gone");
        }
        let listed = exam.listed();
        assert_eq!(listed.len(), LISTED + 2);
        assert_eq!((listed[0].code, listed[0].severity), (code::WAL_HOLE, Severity::Error));
        assert_eq!(listed[LISTED + 1].subject, "3 more");
    }

    #[test]
    fn nothing_is_deleted_while_something_is_wrong_or_unknown() {
        let mut exam = Exam::default();
        exam.warning(code::FILE_LEFTOVER, "data", "old");
        assert!(exam.may_delete());
        exam.unchecked("keys", "the table does not open");
        assert!(!exam.may_delete());
        let mut exam = Exam::default();
        exam.error(code::WAL_HOLE, "wal", "gone");
        assert!(!exam.may_delete());
    }
}
