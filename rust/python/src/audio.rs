//! `gristmill.decode` and `gristmill.probe`.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use std::{cell::RefCell, path::PathBuf};

use gristmill_audio::{
    AudioInfo, AudioSpec, Channels, Checked, Codec, Crop, DecodeError, DecodeReport, Decoder,
    Depth, Limits, Pad, Reason, Resampler, SampleType,
};
use gristmill_core::{
    Error,
    memory::{AlignedBuf, Buffer},
    store::path_text,
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyDict};

use crate::{
    convert::samples_to_array,
    detach::Detach,
    errors::into_py_err,
    options::{self, ChannelsArg, LimitsArg},
};

thread_local! {
    /// Decoders keep codebooks and filters; each of the caller's threads has its own.
    static DECODER: RefCell<Decoder> = RefCell::default();
}

/// `(codec, frames promised, wanted and decoded, {damage: count})`.
pub(crate) type Report<'py> = (&'static str, u64, u64, u64, Bound<'py, PyDict>);

/// The report as Python's constructors take it.
pub(crate) fn report_to_py(
    py: Python<'_>,
    codec: Codec,
    report: DecodeReport,
) -> PyResult<Report<'_>> {
    let damage = PyDict::new(py);
    for (kind, count) in report.damage.iter() {
        damage.set_item(kind, count)?;
    }
    let DecodeReport { frames_promised, frames_wanted, frames_decoded, .. } = report;
    Ok((codec.key(), frames_promised, frames_wanted, frames_decoded, damage))
}

/// Decodes one recording, or the part from `start` on for `seconds`; with what came of it.
#[pyfunction]
#[pyo3(signature = (
    data, *, sample_rate, channels, start, seconds, resampler, dtype, strict, limits
))]
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
    strict: bool,
    #[pyo3(from_py_with = limits_arg)] limits: Limits,
) -> PyResult<(Bound<'_, PyAny>, Report<'_>)> {
    let crop = Crop::At { start, seconds };
    let spec = AudioSpec {
        rate_hz: sample_rate,
        channels,
        crop,
        pad: Pad::None,
        resampler,
        sample_type: dtype,
        strict,
        limits,
    };
    let (buf, shape, codec, report) = py.detach_core(|| {
        spec.validate().map_err(Error::config)?;
        DECODER.with_borrow_mut(|decoder| {
            let plan = decoder.plan(&data, &spec, 0)?;
            let mut buf = AlignedBuf::zeroed(plan.n_bytes())?;
            let report = decoder.render_bytes(&data, &plan, buf.as_bytes_mut())?;
            let shape = match channels {
                Channels::Mono => vec![plan.n_frames()],
                _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
            };
            Ok((buf, shape, plan.info().codec, report))
        })
    })?;
    let samples = samples_to_array(py, Buffer::unpooled(buf), dtype, &shape)?;
    Ok((samples, report_to_py(py, codec, report)?))
}

fn channels_arg(arg: &Bound<'_, PyAny>) -> PyResult<Channels> {
    arg.extract::<ChannelsArg>()?.parse()
}

fn resampler_arg(arg: &Bound<'_, PyAny>) -> PyResult<Resampler> {
    options::resampler(&arg.extract::<String>()?)
}

fn limits_arg(arg: &Bound<'_, PyAny>) -> PyResult<Limits> {
    arg.extract::<LimitsArg>()?.parse()
}

fn dtype_arg(arg: &Bound<'_, PyAny>) -> PyResult<SampleType> {
    options::sample_type(&arg.extract::<String>()?)
}

/// `(codec, sample_rate, channels, frames)`.
type Info = (&'static str, u32, u16, u64);

/// Decodes a whole recording, or looks at its checksums alone, and keeps nothing of it:
/// `(info, report, exception where damage is an error or None)`. Exceptions name the place.
#[pyfunction]
#[pyo3(signature = (data, *, decode, limits, shard=None, row=None))]
pub(crate) fn check(
    py: Python<'_>,
    data: Option<PyBackedBytes>,
    decode: bool,
    #[pyo3(from_py_with = limits_arg)] limits: Limits,
    shard: Option<PathBuf>,
    row: Option<u64>,
) -> PyResult<(Info, Report<'_>, Option<PyErr>)> {
    let shard = shard.as_deref().map(path_text);
    let depth = if decode { Depth::Decode } else { Depth::Checksums };
    let place = |error: DecodeError| {
        let error = match row {
            Some(row) => Error::from(error).in_row(row),
            None => error.into(),
        };
        match &shard {
            Some(shard) => error.in_shard(shard),
            None => error,
        }
    };
    let Checked { info, report, error } = py.detach_core(|| {
        let Some(data) = &data else {
            return Err(place(DecodeError { codec: None, reason: Reason::Null }));
        };
        DECODER.with_borrow_mut(|decoder| decoder.check(data, limits, depth)).map_err(place)
    })?;
    let error = error.map(|error| into_py_err(py, &place(error)));
    Ok((info_to_py(info), report_to_py(py, info.codec, report)?, error))
}

fn info_to_py(info: AudioInfo) -> Info {
    (info.codec.key(), info.rate_hz, info.n_channels, info.n_frames)
}

/// `(codec, sample_rate, channels, frames)` from the headers alone.
#[pyfunction]
#[pyo3(signature = (data, *, limits))]
pub(crate) fn probe(
    py: Python<'_>,
    data: PyBackedBytes,
    #[pyo3(from_py_with = limits_arg)] limits: Limits,
) -> PyResult<Info> {
    py.detach_core(|| Ok(gristmill_audio::probe_within(&data, limits)?)).map(info_to_py)
}
