//! `lance_context._native`: the engine as a Python extension module.
//!
//! Owns the border and nothing else: a tokio runtime of our own ([`runtime`]), blocking and awaitable
//! calls over it ([`bridge`]), Python objects to cells and back ([`value`], [`rows`], [`timestamp`],
//! [`filter`]), errors as Python exceptions ([`errors`]) and the native class behind the two Python
//! ones ([`generic`]). Checks of arguments, defaults and docstrings live in the Python package.

mod bridge;
mod errors;
mod filter;
mod generic;
mod reports;
mod rows;
mod runtime;
mod timestamp;
mod value;

/// The engine of `lance_context`. Private: use the classes of the package.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::generic::{PyOpenOptions, PyQuery, Store, shutdown};
}
