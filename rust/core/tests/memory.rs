//! Memory that upkeep takes, measured in a process of its own: the peak of this one is that of every test.

use std::process::Command;

use lance_context_core::GenericStore;
use lance_context_spec::Query;

use crate::support::{Place, blob, no_grace, quiet, run};

const BLOB_BYTES: usize = 4 << 20;

/// Bytes that no encoding makes fewer (Marsaglia's xorshift).
fn noise(seed: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOB_BYTES);
    let mut word = 0x9e37_79b9_7f4a_7c15 ^ seed as u64;
    while bytes.len() < BLOB_BYTES {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Does `work` on a store in another process and returns the most that was resident there.
fn peak_bytes(place: &Place, work: &str) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "memory::in_a_process_of_its_own", "--ignored", "--nocapture", "--test-threads=1"]);
    // What is freed goes back to the system, or the peak is that of the allocator; and as many threads as everywhere.
    child.env("MALLOC_MMAP_THRESHOLD_", "1048576").env("LANCE_CPU_THREADS", "2");
    let output = child.env("STORE", place.uri()).env("WORK", work).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let peak = told.split_once("peak ").unwrap().1.split_whitespace().next().unwrap();
    peak.parse::<u64>().unwrap() << 10
}

#[test]
#[ignore = "the other half of `peak_bytes`"]
fn in_a_process_of_its_own() {
    let (uri, work) = (std::env::var("STORE").unwrap(), std::env::var("WORK").unwrap());
    run(async move {
        let store = GenericStore::open_existing(&uri, quiet()).await.unwrap();
        match work.as_str() {
            "nothing" => {}
            "merge" => drop(store.merge().await.unwrap()),
            "rewrite" => drop(store.optimize(None).await.unwrap()),
            other => panic!("{other}"),
        }
        store.close().await.unwrap();
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("peak {}", status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap());
}

/// How many blobs there are in all; more than the test needs to tell by, when somebody wants the figures.
fn blobs() -> usize {
    std::env::var("BLOBS").map_or(40, |count| count.parse().unwrap())
}

/// A generation is tens of rows of 4 MB, and what rewrites the table goes through all of them.
#[test]
#[cfg(target_os = "linux")]
fn a_merge_and_a_rewrite_of_wide_rows_hold_a_few_of_them() {
    const FRAGMENTS: usize = 10;
    const ALLOWED_BYTES: u64 = 180 << 20;
    let place = Place::new();
    run({
        let uri = place.uri();
        async move {
            let store = GenericStore::open(&uri, Some(crate::support::schema()), no_grace()).await.unwrap();
            for id in 0..blobs() {
                store.add(blob(&format!("{id:04}"), &noise(id))).await.unwrap();
            }
            store.close().await.unwrap();
        }
    });
    let nothing = peak_bytes(&place, "nothing");
    let merge = peak_bytes(&place, "merge");
    // The same rows once more, each with a predecessor in the table: half of them in files of their own, half unmerged.
    run({
        let uri = place.uri();
        async move {
            let store = GenericStore::open_existing(&uri, quiet()).await.unwrap();
            for id in 0..blobs() {
                store.add(blob(&format!("{id:04}"), &noise(id + blobs()))).await.unwrap();
                if id < blobs() / 2 && id % blobs().div_ceil(2 * FRAGMENTS) == 0 {
                    store.flush().await.unwrap();
                    store.merge().await.unwrap();
                }
            }
            store.close().await.unwrap();
        }
    });
    let replacing = peak_bytes(&place, "merge");
    let rewrite = peak_bytes(&place, "rewrite");
    let figures = [nothing, merge, replacing, rewrite].map(|bytes| bytes >> 20);
    println!("of {} blobs of 4 MB: nothing, merge, merge over rows, rewrite: {figures:?} MB", blobs());
    for peak in [merge, replacing, rewrite] {
        assert!(peak < nothing + ALLOWED_BYTES, "{figures:?} MB");
    }
    run({
        let uri = place.uri();
        async move {
            let store = GenericStore::open_existing(&uri, quiet()).await.unwrap();
            let stats = store.stats().await.unwrap();
            assert_eq!((stats.generations, stats.base_rows), (0, blobs() as u64));
            assert!(stats.fragments < FRAGMENTS, "nothing was rewritten: {stats:?}");
            let mut rows = store.stream(Query::default()).await.unwrap();
            let mut count = 0;
            while let Some(batch) = rows.next().await {
                count += batch.unwrap().num_rows();
            }
            assert_eq!(count, blobs());
            let last = blobs() - 1;
            assert_eq!(crate::support::fetch(&store, &format!("{last:04}")).await, noise(last + blobs()));
        }
    });
}
