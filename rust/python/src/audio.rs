//! `gristmill.decode` and `gristmill.probe`.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use std::cell::RefCell;

use gristmill_core::{
    Error,
    audio::{self, AudioSpec, Channels, Crop, Decoder, Pad, Resampler, SampleType},
    batch::{AlignedBuf, PooledBuf},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes};

use crate::{
    convert::samples_to_array,
    detach::Detach,
    options::{self, ChannelsArg},
};

thread_local! {
    /// Decoders keep codebooks and filters; each of the caller's threads has its own.
    static DECODER: RefCell<Decoder> = RefCell::default();
}

/// Decodes one recording, or the part from `start` on for `seconds`.
#[pyfunction]
#[pyo3(signature = (data, *, sample_rate, channels, start, seconds, resampler, dtype))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments, one an option")]
pub(crate) fn decode(
    py: Python<'_>,
    data: PyBackedBytes,
    sample_rate: Option<u32>,
    #[pyo3(from_py_with = channels_arg)] channels: Channels,
    start: f64,
    seconds: Option<f64>,
    #[pyo3(from_py_with = resampler_arg)] resampler: Resampler,
    #[pyo3(from_py_with = dtype_arg)] dtype: SampleType,
) -> PyResult<Bound<'_, PyAny>> {
    let crop = Crop::At { start, seconds };
    let spec = AudioSpec {
        rate_hz: sample_rate,
        channels,
        crop,
        pad: Pad::None,
        resampler,
        sample_type: dtype,
    };
    let (buf, shape) = py.detach_core(|| {
        spec.validate().map_err(Error::config)?;
        DECODER.with_borrow_mut(|decoder| {
            let plan = decoder.plan(&data, &spec, 0)?;
            let mut buf = AlignedBuf::zeroed(plan.n_bytes());
            decoder.render_bytes(&data, &plan, buf.as_bytes_mut())?;
            let shape = match channels {
                Channels::Mono => vec![plan.n_frames()],
                _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
            };
            Ok((buf, shape))
        })
    })?;
    samples_to_array(py, PooledBuf::free_standing(buf), dtype, &shape)
}

fn channels_arg(arg: &Bound<'_, PyAny>) -> PyResult<Channels> {
    arg.extract::<ChannelsArg>()?.parse()
}

fn resampler_arg(arg: &Bound<'_, PyAny>) -> PyResult<Resampler> {
    options::resampler(&arg.extract::<String>()?)
}

fn dtype_arg(arg: &Bound<'_, PyAny>) -> PyResult<SampleType> {
    options::sample_type(&arg.extract::<String>()?)
}

/// `(codec, sample_rate, channels, frames)` from the headers alone.
#[pyfunction]
pub(crate) fn probe(
    py: Python<'_>,
    data: PyBackedBytes,
) -> PyResult<(&'static str, u32, u16, u64)> {
    let info = py.detach_core(|| Ok(audio::probe(&data)?))?;
    Ok((info.codec.key(), info.rate_hz, info.n_channels, info.n_frames))
}
