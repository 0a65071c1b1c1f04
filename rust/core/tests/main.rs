//! Integration tests of the engine, in one binary so that lance is linked once.

mod crash;
mod create;
mod merge;
mod query;
mod read;
mod support;
