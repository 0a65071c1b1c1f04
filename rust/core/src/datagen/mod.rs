//! The item log: events of data-generation items, appended under a check and folded on read.
//!
//! Check and write are one: a batch is checked against the heads of its items in the writer task, with nothing of
//! anyone else in between ([`append`]). Everything about what events mean is in `lance_context_spec::datagen`; this
//! module brings rows to it ([`rows`], [`read`]) and asks it for answers.

mod append;
mod cursor;
mod filter;
mod folds;
mod heads;
mod read;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use lance_context_spec::datagen::{Event, Intent, ItemId, columns};
use lance_context_spec::{DoctorReport, Error, MergeReport, OpenOptions, OptimizeReport, Result, SchemaSpec, Stats};

use crate::storage::{Kind, Location, StorageBase, doctor};
use append::Append;
pub use append::AppendedEvents;
use folds::Folds;
use heads::Heads;
pub use read::EventPage;
use read::Pass;
use tokio::sync::Mutex;

const KIND: Kind = Kind { name: "datagen", key: "event_id", append_only: true, lookups: &["item_id", "root_item_id"] };

/// An append-only log of items. One handle serves many tasks; every method promises what [`StorageBase`] promises.
#[derive(Debug)]
pub struct DatagenStore {
    storage: StorageBase,
    heads: Arc<Heads>,
    folds: Folds,
    /// The last pass over all events, which the next one continues.
    pass: Mutex<Option<Pass>>,
}

impl DatagenStore {
    /// Opens the log at `uri`, creating it if nothing is there.
    ///
    /// # Errors
    /// As [`StorageBase::open`].
    pub async fn open(uri: &str, options: OpenOptions) -> Result<Self> {
        Self::open_at(Location::parse(uri)?, options).await
    }

    /// As [`DatagenStore::open`], at a place that may be wrapped or observed.
    ///
    /// # Errors
    /// As [`StorageBase::open`].
    pub async fn open_at(location: Location, options: OpenOptions) -> Result<Self> {
        let schema = SchemaSpec::keyed(KIND.key, columns().into_iter().chain(cursor::columns()).collect())?;
        Self::open_storage(location, Some(schema), false, options).await
    }

    /// Opens a log that must be there.
    ///
    /// # Errors
    /// As [`StorageBase::open`]; [`Error::StoreNotFound`] when nothing is there.
    pub async fn open_existing(uri: &str, options: OpenOptions) -> Result<Self> {
        Self::open_storage(Location::parse(uri)?, None, true, options).await
    }

    /// Looks at every file of the log at `uri`; see [`doctor`].
    ///
    /// # Errors
    /// As [`doctor`].
    pub async fn doctor(uri: &str, options: OpenOptions, repair: bool) -> Result<DoctorReport> {
        let location = Location::parse(uri)?;
        let looking = async move { doctor(location, KIND, &options, repair).await };
        crate::task::join(crate::task::spawn(looking)).await
    }

    async fn open_storage(
        location: Location,
        schema: Option<SchemaSpec>,
        must_exist: bool,
        options: OpenOptions,
    ) -> Result<Self> {
        let opening = async move { StorageBase::open(location, KIND, schema, must_exist, options).await };
        let storage = crate::task::join(crate::task::spawn(opening)).await?;
        Ok(Self { storage, heads: Arc::default(), folds: Folds::default(), pass: Mutex::default() })
    }

    /// The uri as given.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.storage.uri()
    }

    /// The storage below.
    #[must_use]
    pub fn storage(&self) -> &StorageBase {
        &self.storage
    }

    /// The columns of the log.
    #[must_use]
    pub fn schema(&self) -> &Arc<SchemaSpec> {
        self.storage.schema()
    }

    /// Whether the handle was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.storage.is_closed()
    }

    /// Events that this handle made durable and did not seal yet. No I/O.
    #[must_use]
    pub fn unsealed_rows(&self) -> u64 {
        self.storage.unsealed_rows()
    }

    /// Appends `events`, of one item or several, atomically and durably, if their items' heads allow it. Events that
    /// are stored already are recognised and not written again.
    ///
    /// Cancellation: once the batch is handed over it is checked and written whole, or refused whole, whether or not
    /// the caller still waits. Sending it again is safe.
    ///
    /// # Errors
    /// The refusals of [`lance_context_spec::datagen::check_batch`], else as [`StorageBase::append`].
    pub async fn append(&self, events: Vec<Event>, intent: Intent) -> Result<AppendedEvents> {
        if events.is_empty() && intent == Intent::Append {
            return Ok(AppendedEvents { count: 0, new: 0 });
        }
        let plan = Append::new(events, intent, Arc::clone(self.schema()), Arc::clone(&self.heads))?;
        let outcome = self.storage.append(Arc::new(plan)).await?;
        outcome
            .downcast::<AppendedEvents>()
            .map(|appended| *appended)
            .map_err(|_| Error::Internal { message: "an append came to something else".to_owned(), source: None })
    }

    /// Seals every durable event and waits for it.
    ///
    /// # Errors
    /// As [`StorageBase::flush`].
    pub async fn flush(&self) -> Result<()> {
        self.storage.flush().await
    }

    /// Folds the sealed generations of every writer into the base table.
    ///
    /// # Errors
    /// As [`StorageBase::merge`].
    pub async fn merge(&self) -> Result<MergeReport> {
        self.storage.merge().await
    }

    /// Merges, rewrites small files into larger ones, and removes old versions.
    ///
    /// # Errors
    /// As [`StorageBase::optimize`].
    pub async fn optimize(&self, older_than: Option<Duration>) -> Result<OptimizeReport> {
        self.storage.optimize(older_than).await
    }

    /// What is known of the store.
    ///
    /// # Errors
    /// As [`StorageBase::stats`].
    pub async fn stats(&self) -> Result<Stats> {
        self.storage.stats().await
    }

    /// Seals and closes. Closing twice is fine.
    ///
    /// # Errors
    /// As [`StorageBase::close`].
    pub async fn close(&self) -> Result<()> {
        self.storage.close().await
    }
}

fn texts(ids: &[ItemId]) -> Vec<String> {
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}
