//! `gristmill._core.read_header` and `read_joint_header`: what the headers of shards say.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use gristmill_core::{
    engine,
    shard::{Labels, Shard, audio_columns, open_all},
    store::{self, PathKind, StorageOptions, Store},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyString, PyTuple},
};

use crate::{
    classes::make,
    detach::Detach,
    folders,
    interruptible::{self, Cancel},
    options, runtime,
    text::text,
};

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

/// How many recordings of a shard its audio index knows, and of how many it knows parts.
#[pyfunction]
#[pyo3(signature = (path, *, index_dir, retries, storage_options))]
pub(crate) fn audio_coverage(
    py: Python<'_>,
    path: PathBuf,
    index_dir: Option<PathBuf>,
    retries: u32,
    storage_options: Vec<(String, String)>,
) -> PyResult<(u64, u64)> {
    let runtime = runtime::of_this_process(py);
    let index_dir = folders::index_dir(index_dir);
    py.detach_core(move || {
        let options = (path.clone(), StorageOptions::new(storage_options));
        let store = Store::new(runtime.descriptors()).with_retries(retries);
        let store = Arc::new(store.with_storage_options([options]));
        Ok(engine::audio_coverage(&Shard::open(&store, &index_dir, &path)?))
    })
}

/// A path for messages: of a URL without the user's name, password and query.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over what it converts")]
pub(crate) fn shown_path(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyString>> {
    text(py, &store::shown_path(&path))
}

/// The files and folders in a folder of a bucket or a data set of the Hub; with `recursive` all files
/// below it.
#[pyfunction]
#[pyo3(signature = (folder, storage_options, *, recursive, retries))]
pub(crate) fn list_url(
    py: Python<'_>,
    folder: &str,
    storage_options: Vec<(String, String)>,
    recursive: bool,
    retries: u32,
) -> PyResult<(Vec<String>, Vec<String>)> {
    let runtime = runtime::of_this_process(py);
    let options = StorageOptions::new(storage_options);
    let signal = Mutex::new(None);
    let listed = py.detach_core(|| {
        let is_cancelled = || {
            let raised = Python::attach(|py| py.check_signals().err());
            let mut signal = signal.lock().unwrap_or_else(PoisonError::into_inner);
            // Asked again, Python knows no more of the first.
            *signal = signal.take().or(raised);
            signal.is_some()
        };
        store::list(runtime.descriptors(), folder, &options, recursive, retries, is_cancelled)
    });
    match signal.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(signal) => Err(signal),
        None => listed.map(|listed| (listed.files, listed.folders)),
    }
}

/// A file of at most 64 MiB as a whole.
#[pyfunction]
#[pyo3(signature = (url, storage_options, *, retries))]
pub(crate) fn read_url<'py>(
    py: Python<'py>,
    url: &str,
    storage_options: Vec<(String, String)>,
    retries: u32,
) -> PyResult<Bound<'py, PyBytes>> {
    let runtime = runtime::of_this_process(py);
    let options = StorageOptions::new(storage_options);
    let url = url.to_owned();
    let read = move |_: &_| store::read(runtime.descriptors(), &url, &options, retries);
    let read = interruptible::run(py, read, || Ok(()))?;
    Ok(PyBytes::new(py, &read))
}

/// What the headers of a shard say, as `gristmill.ShardHeader`.
#[pyfunction]
#[pyo3(signature = (path, *, index_dir, retries, complete, storage_options, cancel))]
pub(crate) fn read_header<'py>(
    py: Python<'py>,
    path: PathBuf,
    index_dir: Option<PathBuf>,
    retries: u32,
    complete: bool,
    storage_options: Vec<(String, String)>,
    cancel: &Cancel,
) -> PyResult<Bound<'py, PyAny>> {
    let runtime = runtime::of_this_process(py);
    // As it was given: it is opened again by it.
    let given = path.as_os_str().to_owned();
    let index_dir = folders::index_dir(index_dir);
    let cancel = cancel.flag();
    let (shard, compression) = py.detach_core(move || {
        let options = (path.clone(), StorageOptions::new(storage_options));
        let store = Store::new(runtime.descriptors()).with_retries(retries).with_cancel(cancel);
        let store = Arc::new(store.with_storage_options([options]));
        let shard = Shard::open(&store, &index_dir, &path)?;
        if complete {
            shard.complete_sidecar()?;
        }
        let compression = shard.compression()?;
        Ok((shard, compression))
    })?;
    let schema = shard.schema();
    let columns = schema.fields().iter().map(|field| {
        // Arrow writes microseconds with a sign that not every terminal has.
        (field.name(), field.data_type().to_string().replace('\u{b5}', "u"))
    });
    let metadata = PyDict::new(py);
    for (key, value) in schema.metadata() {
        metadata.set_item(key, value)?;
    }
    let audio = audio_columns(schema).into_iter().map(|(name, _)| name);
    make!(SHARD_HEADER {
        py,
        path: given,
        rows: shard.n_rows(),
        record_batches: shard.n_batches(),
        bytes: shard.n_bytes(),
        format: shard.format(),
        compression: compression,
        columns: PyTuple::new(py, columns.collect::<Vec<_>>())?,
        metadata: metadata,
        audio_columns: PyTuple::new(py, audio.collect::<Vec<_>>())?,
        requests: shard.reads().requests,
        is_indexed: shard.has_sidecar(),
    })
}

/// Shards that are opened at a time, most of the time waiting for storage.
const N_OPENERS: usize = 16;

/// The features of several shards as JSON, each once, the columns that all of them have, and by dotted
/// path the class names of all.
type JointHeader = (Vec<String>, Vec<String>, BTreeMap<String, Vec<String>>);

/// What the headers of shards say together. Refuses `column`, or a field at that dotted path, if the
/// shards do not have it in common.
#[pyfunction]
#[pyo3(signature = (paths, *, labels, column, index_dir, retries, storage_options))]
pub(crate) fn read_joint_header(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    labels: &str,
    column: Option<String>,
    index_dir: Option<PathBuf>,
    retries: u32,
    storage_options: Vec<(String, String)>,
) -> PyResult<JointHeader> {
    let runtime = runtime::of_this_process(py);
    let index_dir = folders::index_dir(index_dir);
    let labels = options::named("labels", &Labels::ALL, labels)?;
    let read = move |cancel: &_| {
        let options = StorageOptions::new(storage_options);
        let options = paths.iter().map(|path| (path.clone(), options.clone()));
        let store = Store::new(runtime.descriptors()).with_retries(retries);
        let store = store.with_storage_options(options).with_cancel(Arc::clone(cancel));
        let store = Arc::new(store);
        let shards = open_all(&store, &index_dir, &paths, N_OPENERS, labels)?;
        let Some(first) = shards.first() else { return Ok(JointHeader::default()) };
        if let Some(column) = column {
            first.check_column(Some(&column))?;
        }
        let mut seen = HashSet::new();
        let features = shards.iter().filter_map(Shard::features_json);
        let features = features.filter(|json| seen.insert(*json)).cloned().collect();
        let fields = first.schema().fields().iter();
        let columns: Vec<String> = fields.map(|field| field.name().clone()).collect();
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let class_names = first.class_names(&names);
        Ok((features, columns, class_names))
    };
    interruptible::run(py, read, || Ok(()))
}
