//! Manifests that a crash tore, found before lance reads them: it panics on some, and takes others for failed reads.
//!
//! Only a local disk can keep a part of a file, so only there is a table's manifest read twice.

use bytes::Bytes;
use lance_index::mem_wal::ShardManifest;
use lance_io::object_store::ObjectStore;
use lance_io::utils::{read_message_from_buf, read_metadata_offset, read_struct_from_buf};
use lance_table::format::{MAGIC, Manifest, pb};
use lance_table::io::commit::{CommitHandler, ConditionalPutCommitHandler};
use object_store::ObjectStoreExt;
use object_store::path::Path;

/// Bytes behind the last part of a table's manifest: where that begins, a version, and the magic.
const FOOTER: usize = 16;

/// Bytes of a part's length, which stand before it.
const LENGTH: usize = 4;

/// Checks the newest manifest of a table, unless it is that of the version `read`, which was read before. Where there is
/// none, that is for whoever opens the table to say.
///
/// # Errors
/// [`lance::Error::CorruptFile`] with its path.
pub(super) async fn check_newest(object_store: &ObjectStore, root: &Path, read: Option<u64>) -> lance::Result<()> {
    if !object_store.store_prefix.starts_with("file") {
        return Ok(());
    }
    match ConditionalPutCommitHandler.resolve_latest_location(root, object_store).await {
        Ok(newest) if read != Some(newest.version) => check(object_store, &newest.path).await,
        _ => Ok(()),
    }
}

/// As [`check_newest`], of one manifest.
pub(super) async fn check(object_store: &ObjectStore, path: &Path) -> lance::Result<()> {
    let Some(bytes) = read(object_store, path).await? else { return Ok(()) };
    check_table(&bytes).map_err(|why| lance::Error::corrupt_file(path.clone(), why))
}

/// As [`check`], of a shard's manifest.
pub(super) async fn check_shard(object_store: &ObjectStore, path: &Path) -> lance::Result<()> {
    let Some(bytes) = read(object_store, path).await? else { return Ok(()) };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let part = Bytes::from([&length, bytes.as_ref()].concat());
    let decoded = read_message_from_buf::<pb::ShardManifest>(&part).and_then(ShardManifest::try_from);
    decoded.map(drop).map_err(|e| lance::Error::corrupt_file(path.clone(), e.to_string()))
}

async fn read(object_store: &ObjectStore, path: &Path) -> lance::Result<Option<Bytes>> {
    let reading = async { object_store.inner.get(path).await?.bytes().await };
    match reading.await {
        Ok(bytes) => Ok(Some(bytes)),
        // Cleaned up in the meantime.
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// A table's manifest is its indexes, its transaction and the manifest proper, each behind its length, and a footer. Each
/// part must end where the next one begins: a part of zeros would else be one without anything in it.
fn check_table(bytes: &Bytes) -> Result<(), String> {
    let size = bytes.len();
    let Some(end) = size.checked_sub(FOOTER).filter(|_| bytes.ends_with(MAGIC)) else {
        return Err(format!("its {size} bytes do not end as a manifest does"));
    };
    let undecodable = |e: lance::Error| format!("it cannot be decoded: {e}");
    let begin = read_metadata_offset(bytes).map_err(undecodable)?;
    check_part(bytes, begin, end)?;
    let manifest = read_struct_from_buf::<pb::Manifest, Manifest>(&bytes.slice(begin..)).map_err(undecodable)?;
    let mut begins: Vec<usize> = [manifest.index_section, manifest.transaction_section].into_iter().flatten().collect();
    begins.push(begin);
    begins.sort_unstable();
    for part in begins.windows(2) {
        check_part(bytes, part[0], part[1])?;
    }
    if let Some(indexes) = manifest.index_section {
        read_message_from_buf::<pb::IndexSection>(&bytes.slice(indexes..)).map_err(undecodable)?;
    }
    Ok(())
}

fn check_part(bytes: &Bytes, begin: usize, end: usize) -> Result<(), String> {
    let content = begin.checked_add(LENGTH).filter(|content| *content <= end);
    let length = content.and_then(|content| bytes.get(begin..content)?.try_into().ok()).map(u32::from_le_bytes);
    match (content, length) {
        (Some(content), Some(length)) if usize::try_from(length) == Ok(end - content) => Ok(()),
        _ => Err(format!("what lies between its bytes {begin} and {end} is not as long as it says")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, RecordBatch, RecordBatchIterator};
    use lance::Dataset;
    use lance::index::DatasetIndexExt;
    use lance_index::IndexType;
    use lance_index::scalar::ScalarIndexParams;

    use super::*;

    /// The manifest of a table with an index, whole.
    async fn manifest() -> Bytes {
        let numbers = Arc::new(Int32Array::from_iter_values(0..9));
        let batch = RecordBatch::try_from_iter([("n", numbers as _)]).unwrap();
        let schema = batch.schema();
        let rows = RecordBatchIterator::new([Ok(batch)], schema);
        let place = tempfile::TempDir::new().unwrap();
        let mut table = Dataset::write(rows, place.path().to_str().unwrap(), None).await.unwrap();
        table.create_index(&["n"], IndexType::BTree, None, &ScalarIndexParams::default(), false).await.unwrap();
        let object_store = table.object_store(None).await.unwrap();
        read(&object_store, &table.manifest_location().path).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_manifest_is_whole_or_torn() {
        let whole = manifest().await;
        check_table(&whole).unwrap();
        for size in 0..whole.len() {
            let cut = check_table(&whole.slice(..size));
            assert!(cut.is_err(), "{size} of {} bytes pass", whole.len());
            let zeros = Bytes::from([&vec![0; size], &whole[size..]].concat());
            assert!(zeros == whole || check_table(&zeros).is_err(), "{size} zeros and the rest pass");
        }
    }
}
