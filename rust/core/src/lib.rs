//! The storage engine of lance-context over Lance's MemWAL.
//!
//! [`StorageBase`] is the one path to lance: creation, writing, sealing, reading, merging. Stores such
//! as [`GenericStore`] and [`DatagenStore`] are a schema and a codec over it. The engine needs a multi-thread tokio runtime
//! whose worker stacks are at least 4 MiB, and it owns every write that it accepted: a caller that goes
//! away leaves the write to finish on its own.

pub mod clock;
pub mod codec;
pub mod datagen;
pub mod looking;
pub mod storage;
pub mod task;

mod error;
mod filter;
mod generic;

pub use datagen::DatagenStore;
pub use generic::GenericStore;
pub use lance_context_spec as spec;
pub use storage::StorageBase;
