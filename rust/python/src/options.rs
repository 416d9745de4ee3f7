//! The keyword arguments of `_core.Pipeline` become the core's options.

use std::{path::PathBuf, time::Duration};

use gristmill_audio::{AudioSpec, Budget, Channels, Crop, Limits, Pad, Resampler, SampleType};
use gristmill_core::{
    batch::{Binary, FillValue, Ragged, Style, Styles},
    engine::{AudioRequest, OnError, Options, Start},
    order::{Fingerprint, OrderSpec, Partition, Shuffle, Slice, Window},
};
use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    pybacked::PyBackedBytes,
    types::PyDict,
};

use crate::shards::index_dir;

/// `(start, stop, step, sequential)` of a slice.
type SliceArg = (Option<i64>, Option<i64>, Option<i64>, bool);

/// The shuffle, by the attributes of `gristmill.Shuffle`.
#[derive(Debug, FromPyObject)]
struct ShuffleArg {
    seed: u64,
    window: Option<u64>,
    streams: u64,
    reshuffle_each_epoch: bool,
}

impl ShuffleArg {
    fn parse(self) -> Shuffle {
        let Self { seed, window, streams, reshuffle_each_epoch: reshuffle } = self;
        Shuffle { seed, window: window.map(|rows| Window { rows, streams }), reshuffle }
    }
}

/// The audio options, by the attributes of `gristmill.Audio`.
#[derive(Debug, FromPyObject)]
struct AudioArg {
    column: Option<String>,
    sample_rate: Option<u32>,
    channels: ChannelsArg,
    crop: Option<CropArg>,
    pad: Option<String>,
    resampler: String,
    dtype: String,
    strict: bool,
    limits: LimitsArg,
}

/// The limits, by the attributes of `gristmill.Limits`.
#[derive(Debug, FromPyObject)]
#[expect(clippy::struct_field_names, reason = "they are the attributes' names in Python")]
pub(crate) struct LimitsArg {
    max_bytes: u64,
    max_sample_rate: u32,
    max_channels: u16,
    max_seconds: f64,
    max_frames_per_byte: u64,
    max_decoded_bytes: u64,
    max_decode_seconds: Option<f64>,
}

impl LimitsArg {
    /// The limits that it names.
    pub(crate) fn parse(self) -> PyResult<Limits> {
        let max_decode_time = match self.max_decode_seconds.map(Duration::try_from_secs_f64) {
            Some(Err(_)) => {
                return Err(PyValueError::new_err("max_decode_seconds is no time"));
            }
            Some(Ok(time)) => Some(time),
            None => None,
        };
        let limits = Limits {
            max_bytes: self.max_bytes,
            max_sample_rate: self.max_sample_rate,
            max_channels: self.max_channels,
            max_seconds: self.max_seconds,
            max_frames_per_byte: self.max_frames_per_byte,
            max_decoded_bytes: self.max_decoded_bytes,
            budget: Budget::NONE,
            max_decode_time,
        };
        limits.validate().map_err(PyValueError::new_err)?;
        Ok(limits)
    }
}

#[derive(Debug, FromPyObject)]
struct CropArg {
    place: String,
    seconds: f64,
}

/// The resampler of this name.
pub(crate) fn resampler(name: &str) -> PyResult<Resampler> {
    let names = || Resampler::ALL.map(|(name, _)| name).join("', '");
    Resampler::from_name(name).ok_or_else(|| {
        PyValueError::new_err(format!("resampler is one of '{}', not {name:?}", names()))
    })
}

/// The sample type of this name.
pub(crate) fn sample_type(name: &str) -> PyResult<SampleType> {
    let names = || SampleType::ALL.map(|(name, _)| name).join("', '");
    SampleType::from_name(name).ok_or_else(|| {
        PyValueError::new_err(format!("dtype is one of '{}', not {name:?}", names()))
    })
}

/// `"mono"`, `"keep"` or a number.
#[derive(Debug, FromPyObject)]
pub(crate) enum ChannelsArg {
    Count(u16),
    Name(String),
}

impl ChannelsArg {
    /// The channels that it names.
    pub(crate) fn parse(self) -> PyResult<Channels> {
        match self {
            Self::Count(n) => Ok(Channels::Exact(n)),
            Self::Name(name) => match name.as_str() {
                "mono" => Ok(Channels::Mono),
                "keep" => Ok(Channels::Keep),
                other => Err(PyValueError::new_err(format!(
                    "channels is 'mono', 'keep' or a number, not {other:?}"
                ))),
            },
        }
    }
}

/// Takes the options apart; every one must be there, as `ArrowIterDataset` gives them.
pub(crate) fn parse(kwargs: &Bound<'_, PyDict>) -> PyResult<(Options, Start)> {
    let audio = item(kwargs, "audio")?;
    let audio = if audio.is_none() {
        AudioRequest::Encoded
    } else if audio.extract::<String>().is_ok() {
        AudioRequest::Auto
    } else {
        audio.extract::<AudioArg>()?.parse()?
    };
    let options = Options {
        paths: get::<Vec<PathBuf>>(kwargs, "paths")?,
        columns: get(kwargs, "columns")?,
        audio,
        order: order_spec(kwargs)?,
        crop_seed: get(kwargs, "crop_seed")?,
        exclude: exclude(kwargs)?,
        expected_rows: get(kwargs, "expected_rows")?,
        on_error: on_error(kwargs)?,
        max_missing: get(kwargs, "max_missing")?,
        batch_size: get(kwargs, "batch_size")?,
        drop_remainder: get(kwargs, "drop_remainder")?,
        styles: styles(kwargs)?,
        binary: binary(kwargs)?,
        with_row_id: get(kwargs, "with_row_id")?,
        n_threads: get(kwargs, "num_threads")?,
        n_requests: get(kwargs, "num_requests")?,
        memory_budget: get(kwargs, "memory_budget")?,
        prefetch_batches: get(kwargs, "prefetch_batches")?,
        index_dir: index_dir(get(kwargs, "index_dir")?),
        retries: get(kwargs, "retries")?,
        page_cache: get(kwargs, "page_cache")?,
    };
    let fingerprint = match get::<Option<String>>(kwargs, "fingerprint")? {
        Some(text) => Some(Fingerprint::parse(&text).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            PyValueError::new_err(format!("the state's fingerprint {shown:?} is not one"))
        })?),
        None => None,
    };
    let start = Start {
        epoch: get(kwargs, "start_epoch")?,
        next_index: get(kwargs, "start_index")?,
        fingerprint,
        allow_changed: get(kwargs, "allow_changed")?,
    };
    Ok((options, start))
}

/// The excluded rows: of each shard 64-bit integers, for there may be millions.
fn exclude(kwargs: &Bound<'_, PyDict>) -> PyResult<Vec<(u32, u64)>> {
    let by_shard = get::<Vec<(u32, PyBackedBytes)>>(kwargs, "exclude")?;
    let rows = by_shard.iter().flat_map(|(shard, rows)| {
        rows.as_chunks().0.iter().map(|row| (*shard, u64::from_ne_bytes(*row)))
    });
    Ok(rows.collect())
}

fn on_error(kwargs: &Bound<'_, PyDict>) -> PyResult<OnError> {
    let name: String = get(kwargs, "on_error")?;
    let found = OnError::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, policy)| *policy).ok_or_else(|| {
        let names = OnError::ALL.map(|(name, _)| name).join("', '");
        PyValueError::new_err(format!("on_error is one of '{names}', not {name:?}"))
    })
}

fn binary(kwargs: &Bound<'_, PyDict>) -> PyResult<Binary> {
    let name: String = get(kwargs, "binary")?;
    let found = Binary::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, binary)| *binary).ok_or_else(|| {
        let names = Binary::ALL.map(|(name, _)| name).join("', '");
        PyValueError::new_err(format!("binary is one of '{names}', not {name:?}"))
    })
}

/// A number for `fill_value`; the order tells `True` from 1, and 1 from 1.0.
#[derive(Debug, FromPyObject)]
enum FillArg {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

/// The options for nulls and ragged columns: `(default, [(column, value)])` each.
fn styles(kwargs: &Bound<'_, PyDict>) -> PyResult<Styles> {
    let ragged = |name: String| {
        let found = Ragged::ALL.iter().find(|(known, _)| *known == name).map(|(_, ragged)| *ragged);
        found.ok_or_else(|| {
            let names = Ragged::ALL.map(|(name, _)| name).join("', '");
            PyValueError::new_err(format!("ragged is one of '{names}', not {name:?}"))
        })
    };
    let fill = |value: FillArg| match value {
        FillArg::Bool(value) => FillValue::Bool(value),
        FillArg::Signed(value) => FillValue::Int(value.into()),
        FillArg::Unsigned(value) => FillValue::Int(value.into()),
        FillArg::Float(value) => FillValue::Float(value),
    };
    let (all, by_name) = get::<(String, Vec<(String, String)>)>(kwargs, "ragged")?;
    let (all_filled, filled) =
        get::<(Option<FillArg>, Vec<(String, FillArg)>)>(kwargs, "fill_value")?;
    let by_name = by_name.into_iter().map(|(name, value)| Ok((name, ragged(value)?)));
    Ok(Styles {
        default: Style { ragged: ragged(all)?, fill: all_filled.map(fill) },
        ragged: by_name.collect::<PyResult<_>>()?,
        fill: filled.into_iter().map(|(name, value)| (name, fill(value))).collect(),
    })
}

/// The order's part of the options.
pub(crate) fn order_spec(kwargs: &Bound<'_, PyDict>) -> PyResult<OrderSpec> {
    let slice = |(start, stop, step, sequential): SliceArg| Slice { start, stop, step, sequential };
    let (offset, stride, multiple_of) = get(kwargs, "lane")?;
    Ok(OrderSpec {
        shuffle: get::<Option<ShuffleArg>>(kwargs, "shuffle")?.map(ShuffleArg::parse),
        slices: get::<Vec<SliceArg>>(kwargs, "slices")?.into_iter().map(slice).collect(),
        epochs: get(kwargs, "epochs")?,
        partition: Partition { offset, stride, multiple_of },
    })
}

fn item<'py>(kwargs: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    kwargs.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
}

/// One option, as the type that is asked for.
pub(crate) fn get<'py, T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>>(
    kwargs: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    item(kwargs, name)?
        .extract()
        .map_err(|e| PyValueError::new_err(format!("{name}: {}", Into::<PyErr>::into(e))))
}

impl AudioArg {
    fn parse(self) -> PyResult<AudioRequest> {
        let crop = match self.crop {
            None => Crop::Whole,
            Some(CropArg { place, seconds }) => match place.as_str() {
                "start" => Crop::Start { seconds },
                "center" => Crop::Center { seconds },
                _ => Crop::Random { seconds },
            },
        };
        let pad = match self.pad.as_deref() {
            Some("repeat") => Pad::Repeat,
            Some(_) => Pad::Zero,
            None => Pad::None,
        };
        let channels = self.channels.parse()?;
        let spec = AudioSpec {
            rate_hz: self.sample_rate,
            channels,
            crop,
            pad,
            resampler: resampler(&self.resampler)?,
            sample_type: sample_type(&self.dtype)?,
            strict: self.strict,
            limits: self.limits.parse()?,
        };
        Ok(AudioRequest::Decode { column: self.column, spec })
    }
}
