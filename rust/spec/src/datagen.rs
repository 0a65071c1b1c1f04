//! The item log: ids, events, the stream writer, the append check, the fold, the overview and the tree.
//!
//! Everything here is a pure function of its arguments: no clock, no randomness and no I/O, so that the
//! engine, the server, the client and Python share one source for the protocol. Times and writer epochs
//! come from the caller. What is stored folds always; what is appended is checked strictly.

pub mod append;
pub mod cell;
pub mod columns;
pub mod config;
pub mod event;
pub mod fold;
pub mod folded;
pub mod head;
pub mod ids;
pub mod input;
pub mod outline;
pub mod overview;
pub mod position;
pub mod problem;
pub mod state;
pub mod tree;
pub mod writer;

mod canonical;
mod check;
mod identity;
mod json;
mod row;
mod stream;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod work;

pub use append::{Intent, Plan, check_batch, lookups};
pub use cell::Cell;
pub use columns::{EVENT_KEYS, FIELD_WRITE_KEYS, OUTLINE_COLUMNS, POSITION_KEYS, VALUE_KEYS, columns};
pub use config::{check_config, config_hash};
pub use event::{Event, EventType, FieldOp, FieldWrite, SCHEMA_VERSION, Status};
pub use fold::fold;
pub use folded::{BlobIds, Failure, FencedStream, FoldedField, FoldedItem, FoldedValue, TrajectoryEntry};
pub use head::Head;
pub use identity::{CheckpointId, event_id};
pub use ids::ItemId;
pub use input::EventInput;
pub use outline::{Outline, PositionRef};
pub use overview::{FailureGroup, ItemSummary, Overview, OverviewBuilder};
pub use position::{StepKind, StepPosition};
pub use problem::{Problem, ProblemKind};
pub use row::{DamagedEvent, Stored};
pub use state::{Extension, FoldState};
pub use tree::{ItemTree, TreeBounds, TreeEntry, TreeNode, TreeSelection};
pub use writer::{FailureNote, StreamWriter};
