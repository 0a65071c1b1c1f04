//! Opened generations, shared by all stores of the process. A generation never changes, so it is opened once.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use lance::Dataset;
use lance::dataset::mem_wal::scanner::DatasetCache;
use lance::io::ObjectStoreParams;
use lance::session::Session;
use moka::future::Cache;

use super::SESSION;
use super::location::Access;

/// So many are kept open.
const OPENED: u64 = 512;

pub(super) static GENERATIONS: LazyLock<Arc<Generations>> = LazyLock::new(|| {
    Arc::new(Generations(Cache::builder().max_capacity(OPENED).support_invalidation_closures().build()))
});

/// By the uri of the dataset and by how it is read: a handle whose credentials have expired has only itself to hold up.
#[derive(Debug)]
pub(super) struct Generations(Cache<(String, Option<ObjectStoreParams>), Arc<Dataset>>);

#[async_trait]
impl DatasetCache for Generations {
    async fn get_or_open(
        &self,
        uri: &str,
        session: Option<Arc<Session>>,
        params: Option<ObjectStoreParams>,
    ) -> lance::Result<Arc<Dataset>> {
        let session = session.unwrap_or_else(|| Arc::clone(&SESSION));
        let key = (uri.to_owned(), params);
        let access = Access { uri: key.0.clone(), params: key.1.clone() };
        let opening = async { access.load(&session).await.map(Arc::new) };
        // Whoever waits for the same generation gets the same error.
        self.0.try_get_with(key, opening).await.map_err(|source| lance::Error::Shared { source })
    }

    async fn retain_paths(&self, live: &HashSet<String>) {
        let live = live.clone();
        // It fails when too many of these are pending, and what is not dropped now is dropped when room is needed.
        drop(self.0.invalidate_entries_if(move |(uri, _), _| !live.contains(uri)));
    }
}
