//! The extension module `gristmill._core`: registration only.
//!
//! Every entry point releases the GIL through [`detach`] and maps errors through [`errors`].
//! `unsafe` is confined to [`buffer`], [`bytes`] and [`pages`].

mod audio;
mod buffer;
mod bytes;
mod classes;
mod convert;
mod defaults;
mod detach;
mod errors;
mod folders;
mod interruptible;
mod measured;
mod opening;
mod options;
mod order;
mod pages;
mod pipeline;
mod random_access;
mod recordings;
mod room;
mod runtime;
mod selection;
mod shards;
mod stats;
mod strict;
mod text;
mod turns;

use pyo3::pymodule;

/// The native core of gristmill.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::audio::{Checked, check, decode, decode_row, probe};
    #[pymodule_export]
    use super::buffer::Buffer;
    #[pymodule_export]
    use super::convert::ColumnSpec;
    #[pymodule_export]
    use super::defaults::{default_requests, max_open_rows, single_rows_of_a_batch, usable_cpus};
    #[pymodule_export]
    use super::interruptible::Cancel;
    #[pymodule_export]
    use super::measured::MeasuredFile;
    #[pymodule_export]
    use super::options::{AudioSpecArg, Limits, Start};
    #[pymodule_export]
    use super::order::{Order, Positions};
    #[pymodule_export]
    use super::pipeline::{Element, Opened, Pipeline, Reads, element_spec};
    #[pymodule_export]
    use super::random_access::RandomAccess;
    #[pymodule_export]
    use super::recordings::Recordings;
    #[pymodule_export]
    use super::selection::Sampling;
    #[pymodule_export]
    use super::shards::{
        audio_coverage, list_url, path_kinds, read_header, read_joint_header, read_url, shown_path,
    };
    #[pymodule_export]
    use super::turns::{Turn, Turns};
    use gristmill_core::store::SETTLED;
    use pyo3::prelude::*;

    /// In Hz, of files and of results.
    #[pymodule_export]
    const MAX_SAMPLE_RATE: u32 = *gristmill_audio::RATES_HZ.end();
    /// Of a file, and of results.
    #[pymodule_export]
    const MAX_CHANNELS: u16 = gristmill_audio::MAX_CHANNELS;
    #[pymodule_export]
    const MAX_PCM_CHANNELS: u16 = gristmill_audio::MAX_PCM_CHANNELS;
    /// Of a crop.
    #[pymodule_export]
    const MAX_CROP_SECONDS: f64 = gristmill_audio::MAX_SECONDS;
    /// Of the weights of a mixture.
    #[pymodule_export]
    const MAX_MIXTURE_TOTAL: u64 = gristmill_core::order::MAX_TOTAL;
    /// The most that `Limits.max_seconds` can be.
    #[pymodule_export]
    const MAX_RECORDING_SECONDS: f64 = gristmill_audio::Limits::LONGEST_S;
    /// A shard that changed less than this ago gets no sidecar.
    #[pymodule_export]
    const SETTLED_SECONDS: u64 = SETTLED.as_secs();

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
