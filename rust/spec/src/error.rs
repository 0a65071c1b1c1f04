//! Every error of the product, with a kind (what the caller should do) and a code (what happened).
//!
//! Variants carry data, and the codes are append-only: server status, client and Python classes all
//! derive from the two exhaustive matches below. Engine errors (lance, Arrow, object store) appear
//! only as `source`.

use thiserror::Error as ThisError;

/// A boxed cause.
pub type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A result of this product.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an error; each kind is one Python class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An illegal declaration, or one that differs from the stored one. `SchemaError`.
    Schema,
    /// A row does not fit. `RowError`.
    Row,
    /// A filter or query that cannot be understood. `QueryError`.
    Query,
    /// An argument that makes no sense. Python's own `ValueError`.
    Argument,
    /// Store, row, item or stream is not there. `NotFoundError`.
    NotFound,
    /// It is there already. `AlreadyExistsError`.
    AlreadyExists,
    /// What is stored already contradicts it. `ConflictError`.
    Conflict,
    /// Lost to another writer for good. `FencedError`.
    Fenced,
    /// Closed, forked, or a wrong order of calls. `StateError`.
    State,
    /// Disk, object store or network. `StorageError`.
    Storage,
    /// This backend or uri cannot do it. `UnsupportedError`.
    Unsupported,
    /// Stored data that cannot be read. `FormatError`.
    Format,
    /// A bug. `InternalError`.
    Internal,
}

/// Every error of the product.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A column declaration is illegal.
    #[error("column `{column}`: {message}")]
    InvalidColumn {
        /// The column as declared.
        column: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// The declaration as a whole is illegal.
    #[error("schema: {message}")]
    InvalidSchema {
        /// What is wrong and what would be right.
        message: String,
    },
    /// The declared schema is not the stored one.
    #[error("store `{store}` has another schema: {diff}; open it without a schema, or with the stored one")]
    SchemaMismatch {
        /// The store's uri.
        store: String,
        /// What differs, column by column.
        diff: String,
    },
    /// An explicit option contradicts the one persisted in the store.
    #[error(
        "store `{store}` was created with `{option}={stored}`, not `{given}`; leave `{option}` out, or create another store"
    )]
    OptionMismatch {
        /// The store's uri.
        store: String,
        /// The option.
        option: &'static str,
        /// The persisted value.
        stored: String,
        /// The given value.
        given: String,
    },
    /// A store is to be created but no schema was given.
    #[error("no store at `{store}` and no schema to create one; pass `schema=`, or check the path")]
    SchemaMissing {
        /// The store's uri.
        store: String,
    },
    /// A row has a key that the schema does not declare.
    #[error("row {row}: unknown column `{column}`{}; the columns are {}", did_you_mean(.suggestion), names(.known))]
    UnknownColumn {
        /// Index of the row in the batch.
        row: usize,
        /// The undeclared key.
        column: String,
        /// The closest declared name.
        suggestion: Option<String>,
        /// The declared names.
        known: Vec<String>,
    },
    /// A non-null column got no value.
    #[error("row {row}, column `{column}`: a value is required; the column is not nullable")]
    MissingValue {
        /// Index of the row in the batch.
        row: usize,
        /// The column.
        column: String,
    },
    /// A value of another type than declared.
    #[error("row {row}, column `{column}`: expected {expected}, got {got}")]
    WrongType {
        /// Index of the row in the batch.
        row: usize,
        /// The column.
        column: String,
        /// The declared type and what it takes.
        expected: String,
        /// What came.
        got: String,
    },
    /// A value that the declared type cannot hold.
    #[error("row {row}, column `{column}`: {message}")]
    OutOfRange {
        /// Index of the row in the batch.
        row: usize,
        /// The column.
        column: String,
        /// What does not fit, and the limit.
        message: String,
    },
    /// A batch larger than one atomic add.
    #[error("the batch has {got}, and one atomic add takes at most {limit}; split it")]
    BatchTooLarge {
        /// Its size, with a unit.
        got: String,
        /// The limit, with a unit.
        limit: String,
    },
    /// Rows that are no rows (not mappings, or an Arrow table of another shape).
    #[error("row {row}: {message}")]
    InvalidRow {
        /// Index of the row in the batch.
        row: usize,
        /// What is wrong and what would be right.
        message: String,
    },
    /// An event of a batch for the item log does not fit.
    #[error("event {event}, key `{key}`: {message}")]
    InvalidEvent {
        /// Index of the event in the batch.
        event: usize,
        /// The key concerned.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A filter or another part of a query cannot be understood.
    #[error("{message}")]
    InvalidQuery {
        /// What is wrong, where, and what would be right.
        message: String,
    },
    /// A query names a column that is not declared.
    #[error("unknown column `{column}`{}; the columns are {}", did_you_mean(.suggestion), names(.known))]
    QueryColumn {
        /// The name.
        column: String,
        /// The closest declared name.
        suggestion: Option<String>,
        /// The declared names.
        known: Vec<String>,
    },
    /// A filter uses `$name` and no such parameter was given, or the other way round.
    #[error("parameter `{name}`: {message}")]
    QueryParameter {
        /// The parameter, without `$`.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// An argument that makes no sense.
    #[error("`{argument}`: {message}")]
    InvalidArgument {
        /// The argument.
        argument: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// There is no store.
    #[error("no store at `{store}`; check the path, or create it with `open(..., schema=...)`")]
    StoreNotFound {
        /// The store's uri.
        store: String,
    },
    /// There is no row of that key.
    #[error("`{store}` has no row `{key}`; add it first")]
    RowNotFound {
        /// The store's uri.
        store: String,
        /// The key.
        key: String,
    },
    /// The item log has no event of this item.
    #[error("there is no item `{item}`; create it with `open_stream`, or check the id")]
    ItemNotFound {
        /// The item's id.
        item: String,
    },
    /// An item that is to be created has events.
    #[error("the item `{item}` exists; go on with it by `resume_stream`")]
    ItemExists {
        /// The item's id.
        item: String,
    },
    /// A row that must be new is there.
    #[error(
        "`{store}` already has a row `{key}`, and nothing was written; add with on_conflict=\"replace\" or \"ignore\""
    )]
    RowExists {
        /// The store's uri.
        store: String,
        /// The first such key of the batch.
        key: String,
    },
    /// Another event is stored where one of the batch wants to stand; nothing of the batch was written.
    #[error("item `{item}`, event {event_id} (item_seq {item_seq}): {message}; nothing was written; resume the item")]
    EventConflict {
        /// The item's id.
        item: String,
        /// The id of the event that was sent.
        event_id: String,
        /// Its place in the stream.
        item_seq: i64,
        /// What stands there.
        message: String,
    },
    /// Another stream owns the item; nothing of the batch was written.
    #[error(
        "the stream of attempt {attempt}, epoch `{writer_epoch}` does not own item `{item}`: {message}; \
         nothing was written; stop this writer, do not reopen the store"
    )]
    StreamFenced {
        /// The item's id.
        item: String,
        /// The attempt of the refused stream.
        attempt: i32,
        /// The epoch of the refused stream.
        writer_epoch: String,
        /// Who owns the item.
        message: String,
    },
    /// An event is not the next one of its stream; nothing of the batch was written.
    #[error(
        "item `{item}`: the stream's next item_seq is {expected}, not {got}; nothing was written; \
         send the events before it, or resume the item"
    )]
    StreamGap {
        /// The item's id.
        item: String,
        /// The `item_seq` that comes next.
        expected: i64,
        /// The `item_seq` that was sent.
        got: i64,
    },
    /// The item has ended.
    #[error("the item `{item}` is {status} and takes no more events")]
    ItemTerminal {
        /// The item's id.
        item: String,
        /// Its status.
        status: &'static str,
    },
    /// The configuration is not the one that the item was started with.
    #[error(
        "the item `{item}` was started with another config (hash {stored}, now {given}); \
         pass the former config, or `on_config_change=\"warn\"`"
    )]
    ConfigChanged {
        /// The item's id.
        item: String,
        /// The stored hash.
        stored: String,
        /// The hash of the given configuration.
        given: String,
    },
    /// A position completes a second time in one attempt.
    #[error(
        "item `{item}`: the step `{position}` has completed in this attempt; give iteration= to tell repeats apart"
    )]
    RepeatedPosition {
        /// The item's id.
        item: String,
        /// The position.
        position: String,
    },
    /// A stream writer's calls come in an order that no stream has.
    #[error("item `{item}`: {message}")]
    WriterOrder {
        /// The item's id.
        item: String,
        /// What was called, and what would be right.
        message: String,
    },
    /// Another writer took the shard over and kept it through every retry.
    #[error(
        "another writer took over `{store}` and kept it through {attempts} attempts; the batch was not written; retry, or write through one process"
    )]
    WriterFenced {
        /// The store's uri.
        store: String,
        /// How often the write was tried.
        attempts: u32,
    },
    /// Another writer took the shard over while this one was stopped in the middle of a write.
    #[error(
        "another writer took over `{store}` during the write, and whether the batch was kept is unknown; read it back, or add it again"
    )]
    WriteUncertain {
        /// The store's uri.
        store: String,
    },
    /// The handle is closed.
    #[error("the store handle for `{store}` is closed; open the store again")]
    Closed {
        /// The store's uri.
        store: String,
    },
    /// This process was forked from one that used the engine.
    #[error(
        "this process was forked after its parent used lance-context, and the engine's threads and locks did not \
         come along; start children with the `spawn` or `forkserver` method, or fork before the first store is opened"
    )]
    Forked,
    /// The runtime was stopped: the interpreter is exiting.
    #[error("the runtime is stopped because the interpreter is exiting; close stores before that")]
    RuntimeStopped,
    /// The handle only reads.
    #[error("`{operation}` writes, and the handle for `{store}` was opened with read_only=True")]
    ReadOnly {
        /// The store's uri.
        store: String,
        /// The refused operation.
        operation: &'static str,
    },
    /// Disk, object store or network failed.
    #[error("{operation} failed on `{store}`: {message}")]
    Storage {
        /// The store's uri.
        store: String,
        /// What was being done.
        operation: &'static str,
        /// The cause, without source locations.
        message: String,
        /// Whether the same call can succeed later.
        retryable: bool,
        /// The engine's error.
        #[source]
        source: Option<Cause>,
    },
    /// The backend or uri cannot do it.
    #[error("{message}")]
    Unsupported {
        /// What is not supported, where, and what is.
        message: String,
    },
    /// The path holds something that is not a store.
    #[error("`{store}` is not a store of this package: {message}; nothing was written")]
    NotAStore {
        /// The uri.
        store: String,
        /// What is there.
        message: String,
    },
    /// Stored data is damaged or of a newer version.
    #[error("stored data of `{store}` cannot be read: {message}")]
    Damaged {
        /// The store's uri.
        store: String,
        /// What cannot be read.
        message: String,
        /// The engine's error.
        #[source]
        source: Option<Cause>,
    },
    /// A strict fold found problems.
    #[error("the log of item `{item}` has problems: {problems}; fold it without strict=True to get what it has")]
    ItemDamaged {
        /// The item's id.
        item: String,
        /// What was found.
        problems: String,
    },
    /// There is no event of that id, or not one with a blob.
    #[error("event {event_id}: {message}; take ids from `blob_event_ids` of a folded item")]
    EventNotFound {
        /// The event's id.
        event_id: String,
        /// What is missing.
        message: String,
    },
    /// A blob's bytes are not the ones that were written.
    #[error("the blob of event {event_id} is damaged: {message}")]
    BlobDamaged {
        /// The event's id.
        event_id: String,
        /// What differs.
        message: String,
    },
    /// A bug in this package.
    #[error("internal error: {message}; this is a bug in lance-context, please report it with this message")]
    Internal {
        /// What was found.
        message: String,
        /// The cause, if one exists.
        #[source]
        source: Option<Cause>,
    },
}

fn did_you_mean(name: &Option<String>) -> String {
    name.as_ref().map_or_else(String::new, |n| format!(", did you mean `{n}`?"))
}

fn names(known: &[String]) -> String {
    known.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// What the caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::InvalidColumn { .. }
            | Self::InvalidSchema { .. }
            | Self::SchemaMismatch { .. }
            | Self::OptionMismatch { .. }
            | Self::SchemaMissing { .. } => Kind::Schema,
            Self::UnknownColumn { .. }
            | Self::MissingValue { .. }
            | Self::WrongType { .. }
            | Self::OutOfRange { .. }
            | Self::BatchTooLarge { .. }
            | Self::InvalidRow { .. }
            | Self::InvalidEvent { .. } => Kind::Row,
            Self::InvalidQuery { .. } | Self::QueryColumn { .. } | Self::QueryParameter { .. } => Kind::Query,
            Self::InvalidArgument { .. } => Kind::Argument,
            Self::StoreNotFound { .. }
            | Self::RowNotFound { .. }
            | Self::ItemNotFound { .. }
            | Self::EventNotFound { .. } => Kind::NotFound,
            Self::RowExists { .. } | Self::ItemExists { .. } => Kind::AlreadyExists,
            Self::EventConflict { .. } => Kind::Conflict,
            Self::WriterFenced { .. } | Self::WriteUncertain { .. } | Self::StreamFenced { .. } => Kind::Fenced,
            Self::Closed { .. }
            | Self::Forked
            | Self::RuntimeStopped
            | Self::ReadOnly { .. }
            | Self::StreamGap { .. }
            | Self::ItemTerminal { .. }
            | Self::ConfigChanged { .. }
            | Self::RepeatedPosition { .. }
            | Self::WriterOrder { .. } => Kind::State,
            Self::Storage { .. } => Kind::Storage,
            Self::Unsupported { .. } => Kind::Unsupported,
            Self::NotAStore { .. } | Self::Damaged { .. } | Self::ItemDamaged { .. } | Self::BlobDamaged { .. } => {
                Kind::Format
            }
            Self::Internal { .. } => Kind::Internal,
        }
    }

    /// What happened, as a stable word. Codes are never renamed.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidColumn { .. } => "invalid-column",
            Self::InvalidSchema { .. } => "invalid-schema",
            Self::SchemaMismatch { .. } => "schema-mismatch",
            Self::OptionMismatch { .. } => "option-mismatch",
            Self::SchemaMissing { .. } => "schema-missing",
            Self::UnknownColumn { .. } => "unknown-column",
            Self::MissingValue { .. } => "missing-value",
            Self::WrongType { .. } => "wrong-type",
            Self::OutOfRange { .. } => "out-of-range",
            Self::BatchTooLarge { .. } => "batch-too-large",
            Self::InvalidRow { .. } => "invalid-row",
            Self::InvalidQuery { .. } => "invalid-query",
            Self::QueryColumn { .. } => "query-column",
            Self::QueryParameter { .. } => "query-parameter",
            Self::InvalidArgument { .. } => "invalid-argument",
            Self::StoreNotFound { .. } => "store-not-found",
            Self::RowNotFound { .. } => "row-not-found",
            Self::RowExists { .. } => "row-exists",
            Self::WriterFenced { .. } => "writer-fenced",
            Self::WriteUncertain { .. } => "write-uncertain",
            Self::Closed { .. } => "closed",
            Self::Forked => "forked",
            Self::RuntimeStopped => "runtime-stopped",
            Self::ReadOnly { .. } => "read-only",
            Self::Storage { .. } => "storage",
            Self::Unsupported { .. } => "unsupported",
            Self::NotAStore { .. } => "not-a-store",
            Self::Damaged { .. } => "damaged",
            Self::InvalidEvent { .. } => "invalid-event",
            Self::ItemNotFound { .. } => "item-not-found",
            Self::EventNotFound { .. } => "event-not-found",
            Self::ItemExists { .. } => "item-exists",
            Self::EventConflict { .. } => "event-conflict",
            Self::StreamFenced { .. } => "stream-fenced",
            Self::StreamGap { .. } => "stream-gap",
            Self::ItemTerminal { .. } => "item-terminal",
            Self::ConfigChanged { .. } => "config-changed",
            Self::RepeatedPosition { .. } => "repeated-position",
            Self::WriterOrder { .. } => "writer-order",
            Self::ItemDamaged { .. } => "item-damaged",
            Self::BlobDamaged { .. } => "blob-damaged",
            Self::Internal { .. } => "internal",
        }
    }

    /// Whether the same call can succeed later without a change by the caller.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        match self {
            Self::Storage { retryable, .. } => *retryable,
            Self::WriterFenced { .. } | Self::WriteUncertain { .. } => true,
            _ => false,
        }
    }

    /// The column concerned, if it is about one.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::InvalidColumn { column, .. }
            | Self::UnknownColumn { column, .. }
            | Self::MissingValue { column, .. }
            | Self::WrongType { column, .. }
            | Self::OutOfRange { column, .. }
            | Self::QueryColumn { column, .. } => Some(column),
            Self::InvalidEvent { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The index of the row concerned, if it is about one.
    #[must_use]
    pub const fn row(&self) -> Option<usize> {
        match self {
            Self::UnknownColumn { row, .. }
            | Self::MissingValue { row, .. }
            | Self::WrongType { row, .. }
            | Self::OutOfRange { row, .. }
            | Self::InvalidRow { row, .. }
            | Self::InvalidEvent { event: row, .. } => Some(*row),
            _ => None,
        }
    }
}
