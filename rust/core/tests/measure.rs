use crate::log::{self, decode, events, scan};
use crate::support::{Place, no_grace, runtime};
use datafusion::prelude::{ident, lit};
use lance_context_core::StorageBase;
use lance_context_core::storage::Scan;
use lance_context_spec::ReadMode::Latest;
use std::time::Instant;

async fn fill(store: &StorageBase, from: usize, rows: usize, items: usize) {
    let names: Vec<_> = (from..from + rows).map(|n| (format!("event-{:016x}", (n as u64).wrapping_mul(0x9e3779b97f4a7c15)), format!("item-{}", n % items), n as i64)).collect();
    store.add(events(&names.iter().map(|(e, i, n)| (e.as_str(), i.as_str(), *n)).collect::<Vec<_>>())).await.unwrap();
}

async fn time<F: AsyncFnMut(usize) -> usize>(what: &str, rounds: usize, mut work: F) {
    let mut times = Vec::new();
    let mut rows = 0;
    for round in 0..rounds {
        let start = Instant::now();
        rows = work(round).await;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let cold = times[0];
    times.sort_by(f64::total_cmp);
    println!("{what:50} cold {cold:9.2}  p50 {:9.2}  min {:9.2} ms  rows {rows}", times[times.len() / 2], times[0]);
}

async fn all(store: &StorageBase) {
    let columns = || scan(Latest).columns;
    time("find one item", 15, async |n| decode(&store.find("item_id", &format!("item-{}", n * 7), columns(), Some(Latest)).await.unwrap()).len()).await;
    time("find ten items at once", 9, async |n| {
        let items = (0..10).map(|i| format!("item-{}", n * 17 + i * 100)).collect();
        decode(&store.find_many("item_id", items, columns(), Some(Latest)).await.unwrap()).len()
    }).await;
    time("list with filter on the item", 7, async |n| {
        let filter = Some(ident("item_id").eq(lit(format!("item-{}", n * 11))));
        decode(&store.list(Scan { filter, ..scan(Latest) }).await.unwrap()).len()
    }).await;
    time("list with filter on n (no index)", 3, async |n| {
        let filter = Some((ident("n") % lit(2000_i64)).eq(lit(n as i64)));
        decode(&store.list(Scan { filter, ..scan(Latest) }).await.unwrap()).len()
    }).await;
    time("count", 3, async |_| store.count(None, Some(Latest)).await.unwrap() as usize).await;
}

#[test]
#[ignore]
fn measure_find() {
    let place = Place::new();
    runtime().block_on(async move {
        let store = log::open(&place, Some("a"), no_grace()).await;
        let other = log::open(&place, Some("b"), no_grace()).await;
        for part in 0..4 {
            fill(&store, part * 50_000, 50_000, 2_000).await;
            store.flush().await.unwrap();
            store.merge().await.unwrap();
        }
        println!("-- 200,000 rows in the base table, {:?} fragments", store.stats().await.unwrap().fragments);
        all(&store).await;
        for part in 0..4 {
            fill(&store, 200_000 + part * 2_000, 1_000, 2_000).await;
            store.flush().await.unwrap();
            fill(&other, 201_000 + part * 2_000, 1_000, 2_000).await;
            other.flush().await.unwrap();
        }
        println!("-- and 8 generations of 1,000 rows in two shards");
        all(&store).await;
        fill(&store, 300_000, 1_000, 2_000).await;
        fill(&other, 301_000, 1_000, 2_000).await;
        println!("-- and 1,000 rows in each memtable");
        all(&store).await;
        store.merge().await.unwrap();
        store.optimize(None).await.unwrap();
        println!("-- optimized");
        all(&store).await;
    });
}
