//! The extension module `gristmill._core`: registration only.
//!
//! Every entry point releases the GIL through [`detach`] and maps errors through [`errors`].
//! `unsafe` is confined to [`buffer`], [`bytes`] and [`pages`].

mod audio;
mod buffer;
mod bytes;
mod convert;
mod detach;
mod errors;
mod options;
mod order;
mod pages;
mod pipeline;
mod process;
mod shards;
mod stats;

use pyo3::pymodule;

/// The native core of gristmill.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::audio::{check, decode, probe};
    #[pymodule_export]
    use super::buffer::Buffer;
    #[pymodule_export]
    use super::order::Order;
    #[pymodule_export]
    use super::pipeline::{Pipeline, element_spec};
    #[pymodule_export]
    use super::shards::{path_kinds, read_header, usable_cpus};
    #[cfg(feature = "stats-switch")]
    #[pymodule_export]
    use super::stats::measure;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
