//! What nothing refers to any more, told apart by whether the store's `gc_grace` has passed since.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lance::dataset::cleanup::CleanupPolicy;
use lance::dataset::mem_wal::util::{
    manifest_filename, parse_bit_reversed_filename, shard_manifest_path, shard_wal_path, wal_entry_filename,
};
use lance_context_spec::Severity;
use lance_context_spec::doctor::code;
use lance_index::mem_wal::ShardManifest;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::files::Files;
use super::manifests::generation_directories;
use super::table::Table;
use super::{Exam, Stopped, caught};
use crate::clock;
use crate::storage::shard::QUARANTINE;
use crate::storage::staging::find_staged;

/// The file beside the shard's manifests that is none.
const HINT: &str = "version_hint.json";

/// Superfluous files of the table that are looked at one by one; more are only counted.
const CANDIDATES: usize = 1000;

pub(super) async fn check(files: &Files, table: &Table, exam: &mut Exam) {
    let outcome = check_quarantine(files, exam).await;
    exam.settle("what was put aside", outcome);
    let Some(meta) = &table.meta else {
        return exam.unchecked("superfluous files", "the store's metadata is damaged");
    };
    let grace = meta.gc_grace;
    let outcome = check_table_files(files, table, grace, exam).await;
    exam.settle("superfluous files of the table", outcome);
    let outcome = check_staged_files(files, exam).await;
    exam.settle("staged files", outcome);
}

/// As [`check`], of one shard.
pub(super) async fn check_shard(files: &Files, table: &Table, manifest: Option<&ShardManifest>, exam: &mut Exam) {
    // That the metadata is damaged is said once, for the table.
    let Some(meta) = &table.meta else { return };
    let grace = meta.gc_grace;
    let outcome = check_stray_files(files, grace, exam).await;
    exam.settle(&files.of_shard("stray files"), outcome);
    let Some(manifest) = manifest else { return };
    let what = files.of_shard("superfluous generations");
    let Some(merged) = table.merged(files.shard_id) else {
        return exam.unchecked(&what, "the table does not say which are merged");
    };
    let before = match files.shard.manifest_before(grace).await {
        Ok(before) => before,
        Err(e) => return exam.settle(&what, Err(e.into())),
    };
    let outcome = check_generations(files, manifest, before.as_ref(), merged, grace, exam).await;
    exam.settle(&what, outcome);
    let outcome = check_entries(files, manifest, before.as_ref(), exam).await;
    exam.settle(&files.of_shard("superfluous WAL entries"), outcome);
}

/// A warning for what is `old`, else a note.
fn report(exam: &mut Exam, code: &'static str, old: bool, subject: impl Into<String>, message: String) {
    let severity = if old { Severity::Warning } else { Severity::Note };
    exam.report(severity, code, subject, message);
}

/// What becomes of something superfluous.
fn fate(old: bool, by: &str) -> String {
    if old {
        format!("for longer than the store's `gc_grace`; {by} or `doctor` with `repair` removes them")
    } else {
        format!("within the store's `gc_grace`; {by} removes them later")
    }
}

async fn check_quarantine(files: &Files, exam: &mut Exam) -> Result<(), Stopped> {
    let aside = files.list(&files.root.clone().join(QUARANTINE)).await?;
    if !aside.is_empty() {
        let message = format!(
            "{} files could not be decoded and were put aside; look whether rows are missed, then delete them",
            aside.len()
        );
        exam.warning(code::QUARANTINED, QUARANTINE, message);
    }
    Ok(())
}

/// Files of the table that no version refers to.
async fn check_table_files(files: &Files, table: &Table, grace: Duration, exam: &mut Exam) -> Result<(), Stopped> {
    let Some(referenced) = &table.referenced else {
        exam.unchecked("superfluous files of the table", "some versions do not open");
        return Ok(());
    };
    let cleanup = table.dataset.cleanup(unreferenced()).with_max_candidate_files(CANDIDATES);
    let explained = caught(cleanup.explain()).await?;
    let mut superfluous: BTreeMap<(String, bool), usize> = BTreeMap::new();
    let limit = clock::ago(grace);
    let mut count = |path: &Path, modified: DateTime<Utc>| {
        let relative = files.relative(path);
        let directory = relative.split('/').next().unwrap_or_default().to_owned();
        *superfluous.entry((directory, modified < limit)).or_default() += 1;
    };
    for candidate in &explained.candidate_files {
        let path = Path::parse(&candidate.path).map_err(object_store::Error::from)?;
        match files.object_store.inner.head(&path).await {
            Ok(file) => count(&path, file.last_modified),
            Err(object_store::Error::NotFound { .. }) => continue,
            Err(e) => return Err(e.into()),
        }
        exam.plan.files = true;
    }
    // Lance looks at deletions only up to the age of the oldest version.
    let deletions = table.dataset.deletions_dir();
    for (path, file) in table.present.iter().flatten() {
        let listed = || explained.candidate_files.iter().any(|candidate| candidate.path == path.to_string());
        if path.prefix_matches(&deletions) && !referenced.contains(path) && !listed() {
            count(path, file.last_modified);
            exam.plan.deletions.push(path.clone());
        }
    }
    // What a branch refers to only lance knows.
    if !explained.referenced_branches.is_empty() {
        exam.plan.deletions.clear();
    }
    for ((directory, old), count) in superfluous {
        let by = "`doctor` with `repair`, while nobody uses the store,";
        let when = if old { "older" } else { "younger" };
        let message = format!(
            "{count} files that no version refers to, {when} than the store's `gc_grace`: of a commit that did not \
             happen or is under way; {by} removes them"
        );
        report(exam, code::FILE_LEFTOVER, old, directory, message);
    }
    Ok(())
}

/// Cleans up no version, and every file that none refers to.
pub(super) fn unreferenced() -> CleanupPolicy {
    CleanupPolicy {
        before_version: Some(0),
        delete_unverified: true,
        error_if_tagged_old_versions: false,
        ..CleanupPolicy::default()
    }
}

/// Files of interrupted writes, and others, where only manifests and WAL entries should be.
async fn check_stray_files(files: &Files, grace: Duration, exam: &mut Exam) -> Result<(), Stopped> {
    let limit = clock::ago(grace);
    let manifests = shard_manifest_path(&files.root, &files.shard_id);
    let wal = shard_wal_path(&files.root, &files.shard_id);
    for directory in [&manifests, &wal] {
        for file in files.list(directory).await? {
            let found = file.location.filename().unwrap_or_default();
            let own = parse_bit_reversed_filename(found).is_some_and(|number| {
                [manifest_filename(number), wal_entry_filename(number)].iter().any(|n| n == found)
            });
            if own || found == HINT {
                continue;
            }
            let message = "it is neither a manifest nor a WAL entry: of a write that was interrupted, or somebody \
                           else's; delete it when nobody has the store open";
            let old = file.last_modified < limit;
            report(exam, code::STRAY_FILE, old, files.relative(&file.location), message.to_owned());
        }
    }
    Ok(())
}

/// Files of writes that a crash interrupted, which no listing of an object store shows.
async fn check_staged_files(files: &Files, exam: &mut Exam) -> Result<(), Stopped> {
    let Some(directory) = files.directory.clone() else { return Ok(()) };
    let staged = find_staged(directory.clone()).await?;
    let Some(first) = staged.first() else { return Ok(()) };
    exam.plan.staged = true;
    let subject = first.strip_prefix(&directory).unwrap_or(first).display().to_string();
    let message = format!(
        "{} files of interrupted writes are left, this one among them; `optimize` or `doctor` with `repair` removes them",
        staged.len()
    );
    exam.warning(code::STAGED_FILE, subject, message);
    Ok(())
}

/// Generations that are merged, or that a failed seal left.
async fn check_generations(
    files: &Files,
    manifest: &ShardManifest,
    before: Option<&ShardManifest>,
    merged: u64,
    grace: Duration,
    exam: &mut Exam,
) -> Result<(), Stopped> {
    let lists = |manifest: &ShardManifest, name: &str| manifest.sstables.iter().any(|sealed| sealed.path == name);
    let (mut young, mut old, mut untrimmed) = (0_usize, 0_usize, 0_usize);
    for (number, directory) in generation_directories(files).await? {
        let name = directory.filename().unwrap_or_default();
        if lists(manifest, name) {
            untrimmed += usize::from(number <= merged);
            continue;
        }
        if number >= manifest.current_generation {
            check_unlisted(files, &directory, grace, exam).await?;
            continue;
        }
        // Its rows are merged, or in another directory of the same number.
        let accounted = number <= merged || manifest.sstables.iter().any(|sealed| sealed.generation == number);
        if !accounted {
            continue;
        }
        if before.is_some_and(|before| number < before.current_generation && !lists(before, name)) {
            old += 1;
            exam.plan.generations.push(directory);
        } else {
            young += 1;
        }
    }
    let subject = format!("_mem_wal/{}", files.shard_id);
    for (count, is_old) in [(young, false), (old, true)].into_iter().filter(|(count, _)| *count > 0) {
        let message = format!("{count} generations are merged or superseded, {}", fate(is_old, "the next merge"));
        report(exam, code::GENERATION_LEFTOVER, is_old, subject.as_str(), message);
    }
    if untrimmed > 0 {
        let message = format!("{untrimmed} merged generations are still listed; the next merge drops them");
        exam.note(code::GENERATION_LEFTOVER, subject, message);
    }
    Ok(())
}

/// A seal writes a generation before it lists it; if it never does, the rows are still in the WAL.
async fn check_unlisted(files: &Files, directory: &Path, grace: Duration, exam: &mut Exam) -> Result<(), Stopped> {
    let modified = files.list(directory).await?.iter().map(|file| file.last_modified).max();
    let old = modified.is_some_and(|modified| modified < clock::ago(grace));
    let message = "no manifest lists it: a seal is writing it, or did not finish, and the rows are in the WAL; a merge \
                   after the next seal removes it";
    report(exam, code::GENERATION_UNLISTED, old, files.relative(directory), message.to_owned());
    Ok(())
}

/// WAL entries before the replay position. The one at that position stays: writers look for the end from there.
async fn check_entries(
    files: &Files,
    manifest: &ShardManifest,
    before: Option<&ShardManifest>,
    exam: &mut Exam,
) -> Result<(), Stopped> {
    let (mut young, mut old) = (0_usize, 0_usize);
    let limit = before.map_or(0, |before| before.replay_after_wal_entry_position);
    for (position, file) in files.shard.wal_files().await? {
        if position >= manifest.replay_after_wal_entry_position
            || file.location.filename() != Some(wal_entry_filename(position).as_str())
        {
            continue;
        }
        if position < limit {
            old += 1;
            exam.plan.entries.push(file.location);
        } else {
            young += 1;
        }
    }
    let subject = format!("_mem_wal/{}/wal", files.shard_id);
    for (count, is_old) in [(young, false), (old, true)].into_iter().filter(|(count, _)| *count > 0) {
        let message = format!("{count} entries are sealed, {}", fate(is_old, "the next merge"));
        report(exam, code::WAL_LEFTOVER, is_old, subject.as_str(), message);
    }
    Ok(())
}
