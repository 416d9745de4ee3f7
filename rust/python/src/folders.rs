//! The folders in which things are kept, as they come from Python.

use std::path::{Path, PathBuf};

use gristmill_core::{
    shard::IndexDir,
    store::{CacheLimit, RangeCacheOptions},
};
use pyo3::prelude::*;

/// An integer of bytes, or a float: a share.
#[derive(Clone, Copy, Debug, FromPyObject)]
pub(crate) enum CacheLimitArg {
    Bytes(u64),
    Share(f64),
}

/// The folder for sidecars, as `ReadOptions.resolved_index_dir` names it.
pub(crate) fn index_dir(name: Option<PathBuf>) -> IndexDir {
    match name {
        None => IndexDir::Nowhere,
        // Folders come as absolute paths.
        Some(name) if name == Path::new("beside") => IndexDir::Beside,
        Some(folder) => IndexDir::Folder(folder),
    }
}

/// The folder for what is read of shards, as `ReadOptions.resolved_cache_dir` names it.
pub(crate) fn range_cache(
    folder: Option<PathBuf>,
    limit: CacheLimitArg,
) -> Option<RangeCacheOptions> {
    let limit = match limit {
        CacheLimitArg::Bytes(n_bytes) => CacheLimit::Bytes(n_bytes),
        CacheLimitArg::Share(share) => CacheLimit::Share(share),
    };
    folder.map(|folder| RangeCacheOptions { folder, limit })
}
