//! The item log across the border: ids, events, the stream writer, folded items and the native store.
//!
//! Ids and the writer are pure, so they serve any kind of store. Keys of mappings are checked here and their
//! values by the spec; what is wrong names the key and the index of the event.

mod cell;
mod event;
mod field;
mod folded;
mod item_id;
mod outlook;
mod position;
mod record;
mod store;
mod writer;

pub use cell::dump_model;
pub use event::PyEventBatch;
pub use field::PyFieldList;
pub use item_id::PyItemId;
pub use store::Log;
pub use writer::{PyStreamWriter, check_config, datagen_event_id, fold_batch};
