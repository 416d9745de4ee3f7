//! `gristmill._core.read_header`: what the headers of one shard say.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use gristmill_core::{
    shard::{IndexDir, Shard, audio_columns},
    store::{self, PathKind, Store},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{detach::Detach, runtime, text::text};

/// CPUs that this process may use, by affinity and cgroup quota.
#[pyfunction]
pub(crate) fn usable_cpus() -> usize {
    gristmill_core::engine::usable_cpus()
}

/// What lies at each path: `"folder"`, `"file"` or `None`.
#[pyfunction]
pub(crate) fn path_kinds(
    py: Python<'_>,
    paths: Vec<PathBuf>,
) -> PyResult<Vec<Option<&'static str>>> {
    let kinds = py.detach_core(move || Ok(store::path_kinds(&paths)))?;
    let name = |kind| match kind {
        PathKind::Folder => "folder",
        PathKind::File => "file",
    };
    Ok(kinds.into_iter().map(|kind| kind.map(name)).collect())
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

/// What the headers of a shard say, as the fields of `gristmill.tools.headers.ShardHeader`.
#[pyfunction]
#[pyo3(signature = (path, *, index_dir, retries))]
pub(crate) fn read_header(
    py: Python<'_>,
    path: PathBuf,
    index_dir: Option<PathBuf>,
    retries: u32,
) -> PyResult<Bound<'_, PyDict>> {
    let runtime = runtime::of_this_process(py);
    let (shard, compression) = py.detach_core(move || {
        let store = Arc::new(Store::new(runtime.descriptors()).with_retries(retries));
        let shard = Shard::open(&store, &self::index_dir(index_dir), &path)?;
        let compression = shard.compression()?;
        Ok((shard, compression))
    })?;
    let header = PyDict::new(py);
    header.set_item("path", text(py, shard.name())?)?;
    header.set_item("rows", shard.n_rows())?;
    header.set_item("record_batches", shard.n_batches())?;
    header.set_item("bytes", shard.n_bytes())?;
    header.set_item("format", shard.format())?;
    header.set_item("compression", compression)?;
    let columns = PyList::empty(py);
    for field in shard.schema().fields() {
        columns.append((field.name(), field.data_type().to_string()))?;
    }
    header.set_item("columns", columns)?;
    let metadata = PyDict::new(py);
    for (key, value) in shard.schema().metadata() {
        metadata.set_item(key, value)?;
    }
    header.set_item("metadata", metadata)?;
    let audio = audio_columns(shard.schema()).into_iter().map(|(name, _)| name);
    header.set_item("audio_columns", audio.collect::<Vec<_>>())?;
    header.set_item("requests", shard.reads().requests)?;
    header.set_item("is_indexed", shard.has_sidecar())?;
    Ok(header)
}
