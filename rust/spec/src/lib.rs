//! The contract of lance-context and all of its pure logic.
//!
//! Owns the schema declaration ([`SchemaSpec`]), one cell ([`Value`]), the JSON form of rows
//! ([`wire`]), the query a store answers ([`Query`]) and every error the product can raise
//! ([`Error`]). Nothing here does I/O: no tokio, no lance, no Arrow and no pyo3, so the engine, the
//! server, the client and the Python package share one source for each rule.

pub mod datagen;
pub mod doctor;
pub mod error;
pub mod json;
pub mod moment;
pub mod options;
pub mod query;
pub mod schema;
pub mod value;
pub mod wire;

mod members;
mod validate;

pub use doctor::{DoctorReport, Finding, Severity};
pub use error::{Error, Kind, Result};
pub use options::{
    AddResult, MaintenanceOptions, MergeReport, OnConflict, OpenOptions, OptimizeReport, ReadMode, Stats,
};
pub use query::{Filter, OrderBy, Query};
pub use schema::{ColumnSpec, ColumnType, Fields, Metric, SchemaSpec, VectorType};
pub use value::Value;
