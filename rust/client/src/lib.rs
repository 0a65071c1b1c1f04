//! The store surface over HTTP.
//!
//! Will own retries, timeouts and the wire form of rows, and pass the same conformance suite as the
//! embedded stores. It holds no code yet; the crate exists so that the workspace builds its
//! dependencies once, with one set of features.
