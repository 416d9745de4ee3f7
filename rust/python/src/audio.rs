//! `gristmill.decode` and `gristmill.probe`.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use std::{cell::RefCell, path::PathBuf};

use gristmill_audio::{
    AudioInfo, AudioSpec, Channels, Codec, Crop, DecodeError, DecodeReport, Decoder, Depth, Pad,
    Reason,
};
use gristmill_core::{Error, store::shown_path};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyDict};

use crate::{
    classes::make,
    convert::samples_to_array,
    detach::Detach,
    errors::into_py_err,
    options::{AudioSpecArg, Limits},
    pipeline::Pipeline,
    runtime::of_this_process,
};

thread_local! {
    /// Decoders keep codebooks and filters; each of the caller's threads has its own.
    static DECODER: RefCell<Decoder> = RefCell::default();
}

/// The report as `gristmill.DecodeReport`.
pub(crate) fn report_to_py(
    py: Python<'_>,
    codec: Codec,
    report: DecodeReport,
) -> PyResult<Bound<'_, PyAny>> {
    let damage = PyDict::new(py);
    for (kind, count) in report.damage.iter() {
        damage.set_item(kind, count)?;
    }
    let notes = PyDict::new(py);
    for (kind, count) in report.notes.iter() {
        notes.set_item(kind, count)?;
    }
    make!(DECODE_REPORT {
        py,
        codec: codec.key(),
        frames_promised: report.frames_promised,
        frames_wanted: report.frames_wanted,
        frames_decoded: report.frames_decoded,
        damage: damage,
        notes: notes,
    })
}

/// Decodes one recording, or the part from `start` on for `seconds`.
#[pyfunction]
#[pyo3(signature = (data, audio, *, start, seconds))]
pub(crate) fn decode<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    audio: &AudioSpecArg,
    start: f64,
    seconds: Option<f64>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let spec = AudioSpec { crop: Crop::At { start, seconds }, pad: Pad::None, ..audio.0.clone() };
    decode_spec(py, &data, &spec, 0, None)
}

/// Decodes one recording as a row of a data set is decoded, with its crop and padding. `draw` says
/// where a random crop lies.
#[pyfunction]
#[pyo3(signature = (data, audio, *, draw, max_missing))]
pub(crate) fn decode_row<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    audio: &AudioSpecArg,
    draw: u64,
    max_missing: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(decode_spec(py, &data, &audio.0, draw, max_missing)?.0)
}

/// The samples, and a report on the recording.
fn decode_spec<'py>(
    py: Python<'py>,
    data: &[u8],
    spec: &AudioSpec,
    draw: u64,
    max_missing: Option<f64>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let runtime = of_this_process(py);
    let (buffer, shape, codec, report) = py.detach_core(|| {
        spec.validate().map_err(Error::config)?;
        DECODER.with_borrow_mut(|decoder| {
            let plan = decoder.plan(data, spec, draw)?;
            let mut buffer = runtime.decoded_buffer(plan.n_bytes())?;
            let report = decoder.render_bytes(data, &plan, buffer.as_bytes_mut())?;
            report.check_missing(plan.info().codec, max_missing)?;
            let shape = match spec.channels {
                Channels::Mono => vec![plan.n_frames()],
                _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
            };
            Ok((buffer, shape, plan.info().codec, report))
        })
    })?;
    let samples = samples_to_array(py, buffer, spec.sample_type, &shape)?;
    Ok((samples, report_to_py(py, codec, report)?))
}

/// What checking a recording found.
#[pyclass(frozen, get_all, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Checked {
    info: Py<PyAny>,
    report: Py<PyAny>,
    /// What decoding would raise where damage is an error.
    error: Option<Py<PyAny>>,
}

/// Decodes a whole recording, or looks at its checksums alone, and keeps nothing of it. Exceptions
/// name the place. `learner` is the stream that delivered the row, and the number of its shard there: the
/// audio index of the shard learns of the recording.
#[pyfunction]
#[pyo3(signature = (data, *, decode, limits, shard=None, row=None, learner=None))]
pub(crate) fn check(
    py: Python<'_>,
    data: Option<PyBackedBytes>,
    decode: bool,
    limits: Limits,
    shard: Option<PathBuf>,
    row: Option<u64>,
    learner: Option<(Py<Pipeline>, u32)>,
) -> PyResult<Checked> {
    let (limits, shard) = (limits.parse()?, shard.as_deref().map(shown_path));
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
    let checked = py.detach_core(|| {
        let Some(data) = &data else {
            return Err(place(DecodeError { codec: None, reason: Reason::Null }));
        };
        DECODER.with_borrow_mut(|decoder| {
            let Some(((pipeline, number), row)) = learner.as_ref().zip(row) else {
                return decoder.check(data, limits, depth).map_err(place);
            };
            let checked = decoder.check_and_learn(data, limits, depth);
            let found = checked.as_ref().map(|(_, entry)| entry.as_ref());
            pipeline.get().learned(*number, row, found);
            checked.map(|(checked, _)| checked).map_err(place)
        })
    })?;
    let error = checked.error.map(|error| into_py_err(py, &place(error)).into_value(py).into_any());
    Ok(Checked {
        report: report_to_py(py, checked.info.codec, checked.report)?.unbind(),
        info: info_to_py(py, checked.info)?.unbind(),
        error,
    })
}

fn info_to_py(py: Python<'_>, info: AudioInfo) -> PyResult<Bound<'_, PyAny>> {
    make!(AUDIO_INFO {
        py,
        codec: info.codec.key(),
        sample_rate: info.rate_hz,
        channels: info.n_channels,
        frames: info.n_frames,
    })
}

/// What the headers say, as `gristmill.AudioInfo`.
#[pyfunction]
#[pyo3(signature = (data, *, limits))]
pub(crate) fn probe(
    py: Python<'_>,
    data: PyBackedBytes,
    limits: Limits,
) -> PyResult<Bound<'_, PyAny>> {
    let limits = limits.parse()?;
    let info = py.detach_core(|| Ok(gristmill_audio::probe_within(&data, limits)?))?;
    info_to_py(py, info)
}
