//! `lance_context._native`: the engine as a Python extension module.
//!
//! Owns the border and nothing else: a tokio runtime of our own ([`runtime`]), blocking and awaitable
//! calls over it ([`bridge`]), Python objects to cells and back ([`value`], [`rows`], [`timestamp`],
//! [`decimal`], [`json`], [`filter`]), Arrow across the border ([`mod@arrow`]), rows one after another
//! ([`stream`]), rows as JSON lines ([`lines`]), errors as Python exceptions ([`errors`]), events as log
//! records ([`log`]), open stores and their end ([`handle`]) and the native classes behind the Python ones
//! ([`generic`], [`datagen`]). Checks of arguments, defaults and docstrings live in the Python package.

use mimalloc::MiMalloc;

mod arrow;
mod blocking;
mod bridge;
mod datagen;
mod decimal;
mod errors;
mod filter;
mod generic;
mod handle;
mod json;
mod lines;
mod log;
mod reports;
mod rows;
mod runtime;
mod stream;
mod timestamp;
mod value;

/// Buffers come and go with every call, and a page that the kernel has to map anew costs more than the copy into it:
/// mimalloc takes huge pages where it may, and keeps freed ones for a moment.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The engine of `lance_context`. Private: use the classes of the package.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::arrow::PyRecordBatch;
    #[pymodule_export]
    use crate::datagen::{
        Log, PyEventBatch, PyFieldList, PyItemId, PyStreamWriter, check_config, datagen_event_id, fold_batch,
    };
    #[pymodule_export]
    use crate::generic::{PyMaintenance, PyOpenOptions, PyQuery, Store};
    #[pymodule_export]
    use crate::handle::shutdown;
    #[pymodule_export]
    use crate::lines::PyLines;
    #[pymodule_export]
    use crate::stream::PyStream;
}
