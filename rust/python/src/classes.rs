//! Classes of Python's that the core makes, because users get them.

use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyType},
};

/// A class, imported when it is first needed.
pub(crate) struct Class {
    module: &'static str,
    name: &'static str,
    found: PyOnceLock<Py<PyType>>,
}

impl Class {
    const fn new(module: &'static str, name: &'static str) -> Self {
        Self { module, name, found: PyOnceLock::new() }
    }

    fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyType>> {
        self.found.import(py, self.module, self.name)
    }

    /// One of these fields; see [`make`].
    pub(crate) fn make<'py>(&self, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        self.get(fields.py())?.call((), Some(fields))
    }
}

macro_rules! classes {
    ($($module:literal: $($class:ident = $name:literal),*;)*) => {
        $($(pub(crate) static $class: Class = Class::new($module, $name);)*)*

        /// Imports all of them: at the exit of the interpreter nothing can be imported any more, and
        /// a pipeline that ends there still tells what it has measured.
        pub(crate) fn load(py: Python<'_>) -> PyResult<()> {
            $($($class.get(py)?;)*)*
            Ok(())
        }
    };
}

classes! {
    "gristmill.report": AUDIO_INFO = "AudioInfo", DECODE_REPORT = "DecodeReport";
    "gristmill.bad_rows.rows": BAD_ROW = "BadRow", DAMAGED_ROW = "DamagedRow";
    "gristmill.tools.shards": SHARD_HEADER = "ShardHeader";
    "gristmill.metrics.stats": STATS = "Stats", STAGES = "Stages", STAGE = "StageStats",
        STORAGE = "StorageStats", CACHES = "CacheStats", QUEUES = "QueueStats",
        MEMORY = "MemoryStats", READER_WAITS = "ReaderWaitStats", PAUSES = "PauseStats",
        THREADS = "ThreadStats", SHARD = "ShardStats", SETTINGS = "Settings";
}

/// Makes one of a class by the names of its fields: `make!(STAGE { py, count: 3 })`.
macro_rules! make {
    ($class:ident { $py:ident, $($field:ident: $value:expr),* $(,)? }) => {{
        let fields = pyo3::types::PyDict::new($py);
        $(fields.set_item(pyo3::intern!($py, stringify!($field)), $value)?;)*
        $crate::classes::$class.make(&fields)
    }};
}
pub(crate) use make;
