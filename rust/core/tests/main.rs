//! Integration tests of the engine, in one binary so that lance is linked once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helper functions too")]

mod adopt;
mod append;
mod crash;
mod create;
mod datagen;
mod doctor;
mod edit;
mod failing;
mod faults;
mod find;
mod folds;
mod log;
mod log_machine;
mod machine;
mod maintain;
mod memory;
mod merge;
mod query;
mod read;
mod shard_steps;
mod shards;
mod steps;
mod support;
mod torn;
