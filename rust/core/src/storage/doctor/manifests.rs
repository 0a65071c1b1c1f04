//! The shard's manifests: that they can be read, follow each other, and account for every generation.

use std::collections::BTreeSet;

use lance::dataset::mem_wal::util::{manifest_filename, shard_base_path};
use lance_context_spec::doctor::code;
use lance_index::mem_wal::{ShardManifest, ShardStatus};
use object_store::path::Path;
use uuid::Uuid;

use super::files::Files;
use super::table::Table;
use super::{Exam, Floor, Stopped, log, told};
use crate::error::vanished;
use crate::storage::collect::generation_number;

/// The newest shard manifest.
pub(super) enum Newest {
    /// Nothing was ever written.
    Nothing,
    /// With its version, if that much is known.
    Unreadable(Option<u64>),
    Manifest(Box<ShardManifest>),
}

impl Newest {
    pub fn version(&self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Unreadable(version) => *version,
            Self::Manifest(manifest) => Some(manifest.version),
        }
    }
}

pub(super) async fn check(files: &Files, table: Option<&Table>, exam: &mut Exam) -> Newest {
    let merged = table.and_then(|table| table.merged(files.shard_id));
    let newest = match check_manifests(files, merged, exam).await {
        Ok(newest) => newest,
        Err(stopped) => {
            exam.settle(&files.of_shard("the shard manifests"), Err(stopped));
            return Newest::Unreadable(None);
        }
    };
    if let (Newest::Nothing, Some(merged)) = (&newest, merged)
        && merged > 0
    {
        report_mark_ahead(files, format!("_mem_wal/{}", files.shard_id), merged, 1, true, exam);
    }
    if let Newest::Manifest(manifest) = &newest {
        if manifest.status != ShardStatus::Active {
            let message = "the shard is closed for a removal that did not happen, and no writer can claim it; restore \
                           its newest manifest from a backup";
            exam.error(code::SHARD_CLOSED, manifest_name(files, manifest.version), message);
        }
        if let Some(table) = table.filter(|table| files.kind.append_only && !table.announces(files.shard_id)) {
            let message = format!(
                "version {} of the table does not name the shard, and nobody reads its rows; repair it",
                table.dataset.version().version
            );
            exam.error(code::SHARD_UNANNOUNCED, format!("_mem_wal/{}", files.shard_id), message);
            exam.plan.shard(files.shard_id).announce = true;
        }
        match merged {
            Some(merged) => check_accounts(files, manifest, merged, exam),
            None => exam.unchecked(&files.of_shard("which generations are merged"), "the table does not say"),
        }
    }
    newest
}

fn manifest_name(files: &Files, version: u64) -> String {
    format!("_mem_wal/{}/manifest/{}", files.shard_id, manifest_filename(version))
}

/// Reads every manifest, oldest first, and compares each with the one before it.
async fn check_manifests(files: &Files, merged: Option<u64>, exam: &mut Exam) -> Result<Newest, Stopped> {
    let versions = files.shard.manifests.list_versions().await?;
    let Some(newest) = versions.last().copied() else {
        let shard = files.list(&shard_base_path(&files.root, &files.shard_id)).await?;
        if shard.is_empty() {
            return Ok(Newest::Nothing);
        }
        let message = "there are generations or WAL entries and no manifest that names them; restore it from a backup";
        exam.error(code::SHARD_MANIFEST_MISSING, format!("_mem_wal/{}/manifest", files.shard_id), message);
        return Ok(Newest::Unreadable(None));
    };
    let mut last: Option<ShardManifest> = None;
    for (index, version) in versions.iter().copied().enumerate() {
        if let Some(before) = index.checked_sub(1).and_then(|i| versions.get(i))
            && before + 1 != version
        {
            let message = format!("versions {} to {} are missing; restore them from a backup", before + 1, version - 1);
            exam.error(code::SHARD_MANIFEST_GAP, manifest_name(files, before + 1), message);
        }
        let manifest = match files.shard.manifests.read_version(version).await {
            Ok(manifest) => manifest,
            // Pruned in the meantime.
            Err(e) if version != newest && vanished(&e) => continue,
            Err(e) if version == newest => {
                report_unreadable(files, version, &told(&e), last.as_ref(), merged, exam).await?;
                return Ok(Newest::Unreadable(Some(version)));
            }
            Err(e) => {
                let message = format!("an older manifest cannot be read, which nobody needs: {}", told(&e));
                exam.warning(code::SHARD_MANIFEST_UNREADABLE, manifest_name(files, version), message);
                continue;
            }
        };
        for contradiction in contradictions(files, version, &manifest, last.as_ref()) {
            let message = format!("{contradiction}; restore the newest manifest from a backup");
            exam.error(code::SHARD_MANIFEST_ORDER, manifest_name(files, version), message);
        }
        last = Some(manifest);
    }
    Ok(last.map_or(Newest::Unreadable(None), |manifest| Newest::Manifest(Box::new(manifest))))
}

/// The newest manifest, `version`, cannot be read. The one before it does instead when the WAL still has everything
/// that the lost one can have added, and when nothing of that is merged.
async fn report_unreadable(
    files: &Files,
    version: u64,
    why: &str,
    before: Option<&ShardManifest>,
    merged: Option<u64>,
    exam: &mut Exam,
) -> Result<(), Stopped> {
    let replaceable = match before {
        Some(before) if before.version + 1 == version && merged.is_some_and(|m| m < before.current_generation) => {
            log::is_whole_behind(files, before).await?
        }
        _ => false,
    };
    let remedy = if replaceable {
        exam.plan.shard(files.shard_id).manifest = Some(version);
        "run `doctor` with `repair` to go on from the manifest before it, which loses nothing"
    } else {
        "restore it from a backup"
    };
    let message = format!("the newest manifest cannot be read, so that reads and writes fail: {why}; {remedy}");
    exam.error(code::SHARD_MANIFEST_UNREADABLE, manifest_name(files, version), message);
    Ok(())
}

/// What `manifest` says that cannot be, alone or behind `last`.
fn contradictions(files: &Files, version: u64, manifest: &ShardManifest, last: Option<&ShardManifest>) -> Vec<String> {
    let mut found = Vec::new();
    if manifest.version != version || manifest.shard_id != files.shard_id {
        found.push(format!("it is version {} of shard {}", manifest.version, manifest.shard_id));
    }
    if manifest.sstables.windows(2).any(|pair| pair[0].generation >= pair[1].generation) {
        found.push("its generations do not ascend".to_owned());
    }
    if let Some(ahead) = manifest.sstables.iter().find(|sealed| sealed.generation >= manifest.current_generation) {
        found.push(format!(
            "it lists generation {} and says that {} comes next",
            ahead.generation, manifest.current_generation
        ));
    }
    let Some(last) = last else { return found };
    let fell = [
        ("writer epoch", last.writer_epoch, manifest.writer_epoch),
        ("next generation", last.current_generation, manifest.current_generation),
        ("replay position", last.replay_after_wal_entry_position, manifest.replay_after_wal_entry_position),
    ];
    for (what, before, after) in fell.into_iter().filter(|(_, before, after)| before > after) {
        found.push(format!("its {what} is {after}, and was {before} one version earlier"));
    }
    found
}

/// Each generation that was ever sealed is merged or listed, and none is merged that was not sealed.
fn check_accounts(files: &Files, manifest: &ShardManifest, merged: u64, exam: &mut Exam) {
    if merged >= manifest.current_generation {
        let subject = manifest_name(files, manifest.version);
        // What it lists may be other generations than those merged under the same numbers.
        let repairable = manifest.sstables.is_empty();
        report_mark_ahead(files, subject, merged, manifest.current_generation, repairable, exam);
        return;
    }
    let listed: BTreeSet<u64> = manifest.sstables.iter().map(|sealed| sealed.generation).collect();
    for lost in (merged + 1..manifest.current_generation).filter(|generation| !listed.contains(generation)) {
        let message = "it was sealed, and is neither merged nor listed: its rows are not read; restore the shard's \
                       newest manifest from a backup";
        exam.error(code::GENERATION_LOST, files.of_shard(&format!("generation {lost}")), message);
    }
}

/// The shard's newest manifests are lost: it would give numbers to generations that readers take for merged ones.
fn report_mark_ahead(files: &Files, subject: String, merged: u64, next: u64, repairable: bool, exam: &mut Exam) {
    let remedy = if repairable {
        exam.plan.shard(files.shard_id).floor = Some(Floor { generation: merged + 1, epoch: 0 });
        "or run `doctor` with `repair` to go on behind it"
    } else {
        "which alone tells what is merged"
    };
    let message = format!(
        "the table says that generation {merged} is merged, and the shard's next one is {next}: what is sealed until \
         then will not be read; restore the shard's newest manifest from a backup, {remedy}"
    );
    exam.error(code::MARK_AHEAD, subject, message);
}

/// There is no directory of a shard that this store does not have.
pub(super) async fn check_other_directories(files: &Files, exam: &mut Exam) -> Result<(), Stopped> {
    let root = files.root.clone().join("_mem_wal");
    let listing = match files.object_store.inner.list_with_delimiter(Some(&root)).await {
        Ok(listing) => listing,
        Err(object_store::Error::NotFound { .. }) => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    let is_own = |directory: &&Path| {
        let shard_id = directory.filename().and_then(|name| Uuid::parse_str(name).ok());
        shard_id.is_some_and(|shard_id| files.shard_ids.contains(&shard_id))
    };
    for directory in listing.common_prefixes.iter().filter(|directory| !is_own(directory)) {
        let message = "it is no shard of this store, and what is in it is not read; move it away if it is yours";
        exam.warning(code::UNKNOWN_SHARD, files.relative(directory), message);
    }
    Ok(())
}

/// The generation directories on storage, by number, and what else lies beside them.
pub(super) async fn generation_directories(files: &Files) -> Result<Vec<(u64, Path)>, Stopped> {
    let root = shard_base_path(&files.root, &files.shard_id);
    let listing = match files.object_store.inner.list_with_delimiter(Some(&root)).await {
        Ok(listing) => listing,
        Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let numbered = listing.common_prefixes.into_iter().filter_map(|directory| {
        let number = generation_number(directory.filename()?)?;
        Some((number, directory))
    });
    Ok(numbered.collect())
}
