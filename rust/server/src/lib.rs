//! The REST server.
//!
//! Will own routes, the registry of stores, the maintainer and tokens, all over the engine's stores. It
//! holds no code yet; the crate exists so that the workspace builds its dependencies once, with one set
//! of features.
