//! Storage that fails on demand, and a process that dies before a step.
//!
//! [`Faults`] wraps the object store of a place. What fails follows rules; whether a rule strikes the n-th request of
//! an operation on a class of files depends on the seed and these three alone, so that a run can be repeated although
//! requests of different classes race each other. Nothing fails before [`Faults::inject`] and after
//! [`Faults::heal`], which also lets go of what is held up.
//!
//! [`CrashAt`] stops a store for good before the n-th occurrence of a step, [`HoldAt`] one of its operations for a while.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{Error as IoError, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use lance::io::WrappingObjectStore;
use lance_context_core::storage::{Step, StepObserver};
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode, Result,
    UploadPart,
};
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What is asked of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Put,
    /// Of a whole file, a part of it, or only of its size.
    Get,
    List,
    Delete,
    /// A copy or a rename.
    Move,
}

/// What a file, or a directory that is listed, belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Log,
    ShardManifest,
    Generation,
    BaseData,
    BaseManifest,
    Other,
}

impl Class {
    fn of(path: &Path) -> Self {
        let path: &str = path.as_ref();
        let mut parts = path.split('/').skip_while(|part| !part.starts_with('_') && *part != "data");
        match parts.next() {
            Some("_mem_wal") => match parts.nth(1) {
                Some("wal") => Self::Log,
                Some("manifest") => Self::ShardManifest,
                Some(directory) if directory.contains("_gen_") => Self::Generation,
                _ => Self::Other,
            },
            Some("_versions") => Self::BaseManifest,
            Some("data" | "_indices" | "_deletions" | "_transactions") => Self::BaseData,
            _ => Self::Other,
        }
    }
}

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing happens, and the caller is told so by an error that does not say it.
    Before,
    /// It happens, and the caller gets an error.
    After,
    /// The same for a create that must not replace anything: the file is there, the reply never comes.
    LostReply,
    /// A put leaves the whole file, and the device refuses to sync what names it.
    Unsynced,
    /// A put leaves the first half of the file, and the caller gets an error.
    Torn,
    /// A put finds the disk full.
    Full,
    /// Nothing fails, it only takes until the test lets go.
    Slow,
}

impl Fault {
    fn can_befall(self, request: &Request) -> bool {
        match self {
            Self::Before | Self::Slow => true,
            Self::After => !request.creates,
            Self::LostReply => request.creates,
            Self::Unsynced | Self::Torn | Self::Full => request.operation == Operation::Put,
        }
    }
}

/// Which requests fail, and how.
#[derive(Debug, Clone)]
pub struct Rule {
    fault: Fault,
    operation: Option<Operation>,
    class: Option<Class>,
    chance: f64,
    skipped: u64,
    times: u64,
    held: bool,
}

impl Rule {
    /// Every request to which `fault` applies.
    pub fn new(fault: Fault) -> Self {
        let held = fault == Fault::Slow;
        Self { fault, operation: None, class: None, chance: 1.0, skipped: 0, times: u64::MAX, held }
    }

    /// Only this operation.
    pub fn on(self, operation: Operation) -> Self {
        Self { operation: Some(operation), ..self }
    }

    /// Only these files.
    pub fn of(self, class: Class) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Each request with this probability.
    pub fn with_chance(self, chance: f64) -> Self {
        Self { chance, ..self }
    }

    /// Not the first `count` requests that it could strike.
    pub fn after(self, count: u64) -> Self {
        Self { skipped: count, ..self }
    }

    /// At most so many requests.
    pub fn times(self, count: u64) -> Self {
        Self { times: count, ..self }
    }

    /// The caller waits until the test lets go; a request that happens has happened by then.
    pub fn held(self) -> Self {
        Self { held: true, ..self }
    }

    fn fits(&self, request: &Request) -> bool {
        self.operation.is_none_or(|operation| operation == request.operation)
            && self.class.is_none_or(|class| class == request.class)
            && self.fault.can_befall(request)
    }
}

#[derive(Debug)]
struct Request {
    operation: Operation,
    class: Class,
    /// It must not replace a file.
    creates: bool,
    path: Path,
}

/// What becomes of a request.
#[derive(Debug)]
struct Strike {
    fault: Fault,
    held: bool,
    request: Request,
}

impl Strike {
    fn error(&self) -> object_store::Error {
        let Request { operation, path, .. } = &self.request;
        let source = match self.fault {
            Fault::Full => IoError::from_raw_os_error(28),
            Fault::Unsynced => IoError::from_raw_os_error(5),
            Fault::LostReply => IoError::new(ErrorKind::TimedOut, format!("no reply to the create of {path}")),
            fault => IoError::other(format!("injected: {fault:?} in {operation:?} of {path}")),
        };
        object_store::Error::Generic { store: "faulty", source: Box::new(source) }
    }
}

/// What was injected, by operation, class and fault.
pub type Injected = BTreeMap<(Operation, Class, Fault), u64>;

#[derive(Debug, Default)]
struct Plan {
    /// How many plans there were.
    number: u64,
    rules: Vec<Active>,
    /// Requests since the rules were given.
    asked: BTreeMap<(Operation, Class), u64>,
    injected: Injected,
}

#[derive(Debug)]
struct Active {
    rule: Rule,
    fitted: u64,
    struck: u64,
}

/// The faults of one place. Clones share everything; use one `Arc` for all handles of a place, because lance tells
/// object stores apart by the address of their wrapper.
#[derive(Debug, Clone)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seed: u64,
    plan: Mutex<Plan>,
    /// Rises when everything that is held up may go on.
    released: watch::Sender<u64>,
    /// How many requests were held up since the rules were given.
    held: watch::Sender<u64>,
}

impl Faults {
    pub fn new(seed: u64) -> Arc<Self> {
        let (released, held) = (watch::Sender::new(0), watch::Sender::new(0));
        Arc::new(Self(Arc::new(Shared { seed, plan: Mutex::default(), released, held })))
    }

    /// From here on, requests fail by the first of `rules` that strikes.
    pub fn inject(&self, rules: impl IntoIterator<Item = Rule>) {
        let mut plan = self.0.plan.lock().unwrap();
        plan.rules = rules.into_iter().map(|rule| Active { rule, fitted: 0, struck: 0 }).collect();
        plan.asked.clear();
        plan.number += 1;
        self.0.held.send_replace(0);
    }

    /// Nothing fails any more, and what is held up goes on.
    pub fn heal(&self) {
        self.inject([]);
        self.release();
    }

    /// What is held up goes on.
    pub fn release(&self) {
        self.0.released.send_modify(|count| *count += 1);
    }

    /// Waits until a request is held up, of those that `inject` was told to.
    pub async fn held(&self) {
        self.held_up(1).await;
    }

    /// Waits until so many requests were held up.
    pub async fn held_up(&self, count: u64) {
        self.0.held.subscribe().wait_for(|held| *held >= count).await.unwrap();
    }

    pub fn injected(&self) -> Injected {
        self.0.plan.lock().unwrap().injected.clone()
    }

    /// How many requests failed by `fault`.
    pub fn count(&self, fault: Fault) -> u64 {
        self.injected().iter().filter(|((_, _, injected), _)| *injected == fault).map(|(_, count)| count).sum()
    }
}

impl Shared {
    fn strike(&self, operation: Operation, path: &Path, creates: bool) -> Option<Strike> {
        let request = Request { operation, class: Class::of(path), creates, path: path.clone() };
        let mut plan = self.plan.lock().unwrap();
        let plan = &mut *plan;
        let asked = plan.asked.entry((operation, request.class)).or_default();
        *asked += 1;
        for (number, active) in plan.rules.iter_mut().enumerate() {
            if !active.rule.fits(&request) {
                continue;
            }
            active.fitted += 1;
            if active.fitted <= active.rule.skipped || active.struck >= active.rule.times {
                continue;
            }
            let coordinates = format!("{} {number} {operation:?} {:?} {asked}", plan.number, request.class);
            let drawn = xxh3_64_with_seed(coordinates.as_bytes(), self.seed) >> 11;
            if drawn as f64 / (1_u64 << 53) as f64 >= active.rule.chance {
                continue;
            }
            active.struck += 1;
            let (fault, held) = (active.rule.fault, active.rule.held);
            *plan.injected.entry((operation, request.class, fault)).or_default() += 1;
            return Some(Strike { fault, held, request });
        }
        None
    }

    async fn hold(&self, strike: &Strike) {
        if strike.held {
            let mut released = self.released.subscribe();
            self.held.send_modify(|count| *count += 1);
            // The sender lives as long as `self`.
            drop(released.changed().await);
        }
    }

    /// Does `work`, or not, as the plan wants it.
    async fn around<T>(&self, struck: Option<Strike>, work: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(strike) = struck else { return work.await };
        match strike.fault {
            Fault::Slow => {
                self.hold(&strike).await;
                work.await
            }
            Fault::After | Fault::LostReply | Fault::Unsynced | Fault::Torn => {
                work.await?;
                self.hold(&strike).await;
                Err(strike.error())
            }
            Fault::Before | Fault::Full => {
                self.hold(&strike).await;
                Err(strike.error())
            }
        }
    }
}

impl WrappingObjectStore for Faults {
    fn wrap(&self, _prefix: &str, inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(Faulty { inner, faults: Arc::clone(&self.0) })
    }

    // A listing by pages would walk past the faults.
    fn wrap_paginated(&self, _: &str, _: Arc<dyn PaginatedListStore>) -> Option<Arc<dyn PaginatedListStore>> {
        None
    }
}

#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn ObjectStore>,
    faults: Arc<Shared>,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let struck = self.faults.strike(Operation::Put, location, matches!(options.mode, PutMode::Create));
        let payload = match &struck {
            Some(Strike { fault: Fault::Torn, .. }) => {
                let whole = Bytes::from(payload);
                whole.slice(..whole.len() / 2).into()
            }
            _ => payload,
        };
        self.faults.around(struck, self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let struck = self.faults.strike(Operation::Put, location, false);
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload { inner, struck, faults: Arc::clone(&self.faults) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let struck = self.faults.strike(Operation::Get, location, false);
        self.faults.around(struck, self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let struck = self.faults.strike(Operation::Get, location, false);
        self.faults.around(struck, self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, faults) = (Arc::clone(&self.inner), Arc::clone(&self.faults));
        let deleted = locations.then(move |location| {
            let (inner, faults) = (Arc::clone(&inner), Arc::clone(&faults));
            async move {
                let location = location?;
                let struck = faults.strike(Operation::Delete, &location, false);
                faults.around(struck, inner.delete(&location)).await?;
                Ok(location)
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let struck = self.faults.strike(Operation::List, prefix.unwrap_or(&Path::default()), false);
        let listed = self.inner.list(prefix);
        let faults = Arc::clone(&self.faults);
        let listing = async move {
            match struck {
                None => listed,
                Some(strike) => {
                    faults.hold(&strike).await;
                    match strike.fault {
                        Fault::Slow => listed,
                        // The connection breaks when all but the end was said.
                        Fault::After => listed.chain(stream::iter([Err(strike.error())])).boxed(),
                        _ => stream::iter([Err(strike.error())]).boxed(),
                    }
                }
            }
        };
        listing.flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let struck = self.faults.strike(Operation::List, prefix.unwrap_or(&Path::default()), false);
        self.faults.around(struck, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let struck = self.faults.strike(Operation::Move, to, matches!(options.mode, CopyMode::Create));
        self.faults.around(struck, self.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let creates = matches!(options.target_mode, RenameTargetMode::Create);
        let struck = self.faults.strike(Operation::Move, to, creates);
        self.faults.around(struck, self.inner.rename_opts(from, to, options)).await
    }
}

/// An upload in parts fails when it is completed; a torn one leaves nothing, as its parts are no file yet.
#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    struck: Option<Strike>,
    faults: Arc<Shared>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        match self.struck.take() {
            Some(strike) if strike.fault == Fault::Torn => Err(strike.error()),
            struck => self.faults.around(struck, self.inner.complete()).await,
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

/// Stops a store for good before a step: no step of it is taken from there on.
#[derive(Debug)]
pub struct CrashAt {
    fatal: Option<(Step, u32)>,
    seen: Mutex<HashMap<Step, u32>>,
    crashed: watch::Sender<bool>,
}

impl CrashAt {
    /// Before the `nth` occurrence of `step`, from 1.
    pub fn new(step: Step, nth: u32) -> Arc<Self> {
        Arc::new(Self { fatal: Some((step, nth)), seen: Mutex::default(), crashed: watch::Sender::new(false) })
    }

    /// Only counts.
    pub fn never() -> Arc<Self> {
        Arc::new(Self { fatal: None, seen: Mutex::default(), crashed: watch::Sender::new(false) })
    }

    /// How often `step` came.
    pub fn seen(&self, step: Step) -> u32 {
        self.seen.lock().unwrap().get(&step).copied().unwrap_or(0)
    }

    /// Waits for the crash.
    pub async fn crashed(&self) {
        self.crashed.subscribe().wait_for(|crashed| *crashed).await.unwrap();
    }

    fn is_fatal(&self, step: Step) -> bool {
        let mut seen = self.seen.lock().unwrap();
        let count = seen.entry(step).or_default();
        *count += 1;
        if self.fatal == Some((step, *count)) {
            self.crashed.send_replace(true);
        }
        *self.crashed.borrow()
    }
}

impl StepObserver for CrashAt {
    fn before(&self, step: Step) -> BoxFuture<'_, ()> {
        async move {
            if self.is_fatal(step) {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}

/// Stops the first operation that comes to a step until the test lets go; all others go on.
#[derive(Debug)]
pub struct HoldAt {
    step: Step,
    stage: watch::Sender<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Armed,
    Held,
    Released,
}

impl HoldAt {
    pub fn new(step: Step) -> Arc<Self> {
        Arc::new(Self { step, stage: watch::Sender::new(Stage::Armed) })
    }

    /// Waits until the step is held up.
    pub async fn held(&self) {
        self.reached(Stage::Held).await;
    }

    /// What is held up goes on.
    pub fn release(&self) {
        self.stage.send_replace(Stage::Released);
    }

    async fn reached(&self, stage: Stage) {
        self.stage.subscribe().wait_for(|at| *at >= stage).await.unwrap();
    }
}

impl StepObserver for HoldAt {
    fn before(&self, step: Step) -> BoxFuture<'_, ()> {
        async move {
            let arm = |at: &mut Stage| {
                let armed = *at == Stage::Armed;
                if armed {
                    *at = Stage::Held;
                }
                armed
            };
            if step == self.step && self.stage.send_if_modified(arm) {
                self.reached(Stage::Released).await;
            }
        }
        .boxed()
    }
}
