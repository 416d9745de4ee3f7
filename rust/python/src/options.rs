//! The options as they come from Python: classes of `_core`, which the core's own are made of.
//!
//! They are classes and no keyword arguments, so that the stub names each field with its type, and
//! `stubtest` and the type checker hold both sides against it. Python has checked the values where
//! users give them; a wrong value here is a bug of ours.
#![expect(
    clippy::struct_excessive_bools,
    clippy::fn_params_excessive_bools,
    reason = "each is an option of its own, named in Python"
)]
#![expect(clippy::too_many_arguments, reason = "one a field, and all of them by name")]

use std::{path::PathBuf, time::Duration};

use gristmill_audio::{
    self as audio, AudioSpec, Channels, Pad, Place, Resampler, SampleType, Tail,
};
use gristmill_core::{
    batch::{Binary, Classes, EventColumns, FillValue, Ragged, Style, Styles},
    engine::{self, AudioRequest, EventOptions, OnError, Pick, Remainder, SourceOptions},
    order::{self, Fingerprint, Partition, Slice, Window},
    shard::Labels,
    store::StorageOptions,
};
use pyo3::{exceptions::PyValueError, prelude::*, pybacked::PyBackedBytes};

use crate::{
    errors::InternalError,
    folders::{CacheLimitArg, index_dir, range_cache},
    selection::{Sampling, Selection},
    strict::StrictArg,
};

/// `(start, stop, step, sequential)` of a slice.
type SliceArg = (Option<i64>, Option<i64>, Option<i64>, bool);

/// The options of a data set. Without `Debug`, which would show secrets.
#[pyclass(frozen, new = "from_fields", module = "gristmill._core")]
pub(crate) struct Options {
    paths: Vec<PathBuf>,
    labels: String,
    #[expect(clippy::struct_field_names, reason = "it is the option's name")]
    storage_options: Vec<(String, String)>,
    columns: Option<Vec<String>>,
    audio: Option<AudioArg>,
    audio_rates: Option<Vec<(String, Option<u32>)>>,
    root: Option<PathBuf>,
    events: Option<Events>,
    order: OrderSpec,
    crop_seed: u64,
    selection: Py<Selection>,
    sampling: Option<Py<Sampling>>,
    /// Of each shard 64-bit integers, for there may be millions of rows.
    exclude: Vec<(u32, PyBackedBytes)>,
    expected_rows: Vec<(u32, u64)>,
    on_error: String,
    max_missing: Option<f64>,
    batch_size: Option<usize>,
    remainder: String,
    binary: String,
    ragged: RaggedArg,
    ragged_columns: Vec<(String, RaggedArg)>,
    fill_value: Option<FillArg>,
    fill_values: Vec<(String, FillArg)>,
    multi_hot: Vec<(String, Option<ClassesArg>)>,
    with_row_id: bool,
    with_crop: bool,
    num_threads: Option<usize>,
    num_requests: Option<usize>,
    memory_budget: usize,
    prefetch_batches: usize,
    index_dir: Option<PathBuf>,
    audio_index: bool,
    cache_dir: Option<PathBuf>,
    cache_limit: CacheLimitArg,
    retries: u32,
    page_cache: bool,
}

/// The order, and the part of it that is delivered here.
#[pyclass(frozen, from_py_object, new = "from_fields", module = "gristmill._core")]
#[derive(Clone, Debug)]
pub(crate) struct OrderSpec {
    shuffle: Option<Shuffle>,
    slices: Vec<SliceArg>,
    epochs: Option<u64>,
    offset: u64,
    stride: u64,
    multiple_of: u64,
}

/// As `gristmill.Shuffle`.
#[pyclass(frozen, from_py_object, new = "from_fields", module = "gristmill._core")]
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    seed: u64,
    window: Option<u64>,
    streams: u64,
    reshuffle_each_epoch: bool,
}

/// As `gristmill.Audio`.
#[pyclass(frozen, from_py_object, new = "from_fields", module = "gristmill._core")]
#[derive(Clone, Debug)]
pub(crate) struct AudioOptions {
    column: Option<String>,
    sample_rate: Option<u32>,
    follows_features: bool,
    channels: ChannelsArg,
    crop: Option<Crop>,
    pad: Option<String>,
    resampler: String,
    dtype: String,
    strict: StrictArg,
    limits: Limits,
}

/// A crop of any kind; what a kind does not have is not looked at.
#[pyclass(frozen, from_py_object, new = "from_fields", module = "gristmill._core")]
#[derive(Clone, Debug)]
pub(crate) struct Crop {
    kind: String,
    seconds: Option<f64>,
    hop_seconds: f64,
    tail: String,
    place: String,
}

/// Where the events of rows are found, and which of them are delivered.
#[pyclass(frozen, from_py_object, new = "from_fields", module = "gristmill._core")]
#[derive(Clone, Debug)]
pub(crate) struct Events {
    start: String,
    end: String,
    pairs: Option<String>,
    pick: String,
}

/// As `gristmill.Limits`.
#[pyclass(frozen, from_py_object, get_all, new = "from_fields", module = "gristmill._core")]
#[derive(Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "they are the attributes' names in Python")]
pub(crate) struct Limits {
    max_bytes: u64,
    max_sample_rate: u32,
    max_channels: u16,
    max_seconds: f64,
    max_frames_per_byte: u64,
    max_decoded_bytes: u64,
    max_decode_seconds: Option<f64>,
}

/// The position at which the stream starts.
#[pyclass(frozen, from_py_object, new = "from_fields", module = "gristmill._core")]
#[derive(Clone, Debug)]
pub(crate) struct Start {
    epoch: u64,
    next_index: u64,
    fingerprint: Option<String>,
    allow_changed: bool,
}

/// What is decoded, or `"auto"`.
#[derive(Debug, FromPyObject)]
#[expect(clippy::large_enum_variant, reason = "a data set has one")]
enum AudioArg {
    Decode(AudioOptions),
    Auto(#[expect(dead_code, reason = "it is the only name")] String),
}

/// `"mono"`, `"keep"`, a number, or the numbers of channels.
#[derive(Clone, Debug, FromPyObject)]
enum ChannelsArg {
    Count(u16),
    Name(String),
    Picked(Vec<u16>),
}

/// A length, or the name of a mode.
#[derive(Debug, FromPyObject)]
enum RaggedArg {
    Width(usize),
    Mode(String),
}

/// The number of classes, or their names.
#[derive(Debug, FromPyObject)]
enum ClassesArg {
    Count(usize),
    Names(Vec<String>),
}

/// A number for `fill_value`; the order tells `True` from 1, and 1 from 1.0.
#[derive(Clone, Copy, Debug, FromPyObject)]
enum FillArg {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl Options {
    /// The core's options.
    pub(crate) fn parse(&self) -> PyResult<engine::Options> {
        let audio = match &self.audio {
            None => AudioRequest::Encoded,
            Some(AudioArg::Auto(_)) => AudioRequest::Auto,
            Some(AudioArg::Decode(audio)) => AudioRequest::Decode {
                column: audio.column.clone(),
                spec: audio.spec()?,
                follows_features: audio.follows_features,
            },
        };
        let exclude = self.exclude.iter().flat_map(|(shard, rows)| {
            rows.as_chunks().0.iter().map(|row| (*shard, u64::from_ne_bytes(*row)))
        });
        let (selection, sampling) = (self.selection.get(), self.sampling.as_ref());
        let sampling = sampling.map(|sampling| sampling.get().parse()).transpose()?;
        let (draws, weights) = sampling.unzip();
        let source = SourceOptions {
            paths: self.paths.clone(),
            labels: named("labels", &Labels::ALL, &self.labels)?,
            storage_options: StorageOptions::new(self.storage_options.clone()),
            columns: self.columns.clone(),
            audio,
            audio_rates: self.audio_rates.clone(),
            root: self.root.clone(),
            events: self.events.as_ref().map(Events::parse).transpose()?,
            order: order::OrderSpec { draws, is_list: selection.is_list(), ..self.order.parse() },
            crop_seed: self.crop_seed,
            rows: selection.parse()?,
            weights,
            exclude: exclude.collect(),
            expected_rows: self.expected_rows.clone(),
            max_missing: self.max_missing,
        };
        Ok(engine::Options {
            sources: vec![source],
            mixture: None,
            on_error: named("on_error", &OnError::ALL, &self.on_error)?,
            batch_size: self.batch_size,
            remainder: named("remainder", &Remainder::ALL, &self.remainder)?,
            styles: self.styles()?,
            binary: named("binary", &Binary::ALL, &self.binary)?,
            with_row_id: self.with_row_id,
            with_crop: self.with_crop,
            n_threads: self.num_threads,
            n_requests: self.num_requests,
            memory_budget: self.memory_budget,
            prefetch_batches: self.prefetch_batches,
            index_dir: index_dir(self.index_dir.clone()),
            audio_index: self.audio_index,
            range_cache: range_cache(self.cache_dir.clone(), self.cache_limit),
            retries: self.retries,
            page_cache: self.page_cache,
        })
    }

    /// What batches do with nulls and ragged columns.
    fn styles(&self) -> PyResult<Styles> {
        let ragged = |arg: &RaggedArg| match arg {
            RaggedArg::Width(width) => Ok(Ragged::Width(*width)),
            RaggedArg::Mode(name) => named("ragged", &Ragged::ALL, name),
        };
        let classes = |arg: &ClassesArg| match arg {
            ClassesArg::Count(n) => Classes::Count(*n),
            ClassesArg::Names(names) => Classes::Names(names.clone()),
        };
        let by_name = self.ragged_columns.iter();
        Ok(Styles {
            default: Style {
                ragged: ragged(&self.ragged)?,
                fill: self.fill_value.map(FillArg::parse),
            },
            ragged: by_name
                .map(|(column, name)| Ok((column.clone(), ragged(name)?)))
                .collect::<PyResult<_>>()?,
            fill: self
                .fill_values
                .iter()
                .map(|(name, value)| (name.clone(), value.parse()))
                .collect(),
            multi_hot: self
                .multi_hot
                .iter()
                .map(|(name, of)| (name.clone(), of.as_ref().map(classes)))
                .collect(),
        })
    }
}

impl OrderSpec {
    /// The core's.
    pub(crate) fn parse(&self) -> order::OrderSpec {
        let slices = self.slices.iter();
        let slice = |&(start, stop, step, sequential)| Slice { start, stop, step, sequential };
        let shuffle = |shuffle: &Shuffle| {
            let &Shuffle { seed, window, streams, reshuffle_each_epoch: reshuffle } = shuffle;
            order::Shuffle { seed, window: window.map(|rows| Window { rows, streams }), reshuffle }
        };
        order::OrderSpec {
            shuffle: self.shuffle.as_ref().map(shuffle),
            slices: slices.map(slice).collect(),
            epochs: self.epochs,
            draws: None,
            is_list: false,
            partition: Partition {
                offset: self.offset,
                stride: self.stride,
                multiple_of: self.multiple_of,
            },
        }
    }
}

impl Crop {
    /// The core's.
    fn parse(&self) -> PyResult<audio::Crop> {
        let seconds = self.seconds.unwrap_or_default();
        Ok(match self.kind.as_str() {
            "start" => audio::Crop::Start { seconds },
            "center" => audio::Crop::Center { seconds },
            "random" => audio::Crop::Random { seconds },
            "windows" => {
                let tail = named("tail", &Tail::ALL, &self.tail)?;
                let windows = audio::Windows { seconds, hop_s: self.hop_seconds, tail };
                audio::Crop::Window { windows, number: 0 }
            }
            "events" => {
                let place = named("place", &Place::ALL, &self.place)?;
                let seconds = self.seconds;
                audio::Crop::Event(audio::EventCrop { seconds, place, start_s: 0.0, end_s: 0.0 })
            }
            other => return Err(unknown("crop", other)),
        })
    }
}

impl Events {
    /// The core's.
    fn parse(&self) -> PyResult<EventOptions> {
        let columns = match &self.pairs {
            Some(pairs) => EventColumns::Pairs(pairs.clone()),
            None => EventColumns::Times { start: self.start.clone(), end: self.end.clone() },
        };
        Ok(EventOptions { columns, pick: named("pick", &Pick::ALL, &self.pick)? })
    }
}

impl AudioOptions {
    /// What is wanted of each recording.
    pub(crate) fn spec(&self) -> PyResult<AudioSpec> {
        let crop = self.crop.as_ref().map_or(Ok(audio::Crop::Whole), Crop::parse)?;
        let pad = match self.pad.as_deref() {
            None => Pad::None,
            Some("zero") => Pad::Zero,
            Some("repeat") => Pad::Repeat,
            Some(other) => return Err(unknown("pad", other)),
        };
        let channels = match &self.channels {
            ChannelsArg::Count(n) => Channels::Exact(*n),
            ChannelsArg::Picked(picked) => {
                Channels::Picked(audio::Picked::new(picked).map_err(PyValueError::new_err)?)
            }
            ChannelsArg::Name(name) if name == "mono" => Channels::Mono,
            ChannelsArg::Name(name) if name == "keep" => Channels::Keep,
            ChannelsArg::Name(other) => return Err(unknown("channels", other)),
        };
        Ok(AudioSpec {
            rate_hz: self.sample_rate,
            channels,
            crop,
            pad,
            resampler: named("resampler", &Resampler::ALL, &self.resampler)?,
            sample_type: named("dtype", &SampleType::ALL, &self.dtype)?,
            strict: self.strict.parse()?,
            limits: self.limits.parse()?,
        })
    }
}

#[pymethods]
impl Limits {
    /// The core's defaults.
    #[staticmethod]
    fn defaults() -> Self {
        let limits = audio::Limits::DEFAULT;
        Self {
            max_bytes: limits.max_bytes,
            max_sample_rate: limits.max_sample_rate,
            max_channels: limits.max_channels,
            max_seconds: limits.max_seconds,
            max_frames_per_byte: limits.max_frames_per_byte,
            max_decoded_bytes: limits.max_decoded_bytes,
            max_decode_seconds: limits.max_decode_time.map(|time| time.as_secs_f64()),
        }
    }
}

impl Limits {
    /// The core's limits.
    pub(crate) fn parse(&self) -> PyResult<audio::Limits> {
        let max_decode_time = self.max_decode_seconds.map(Duration::try_from_secs_f64);
        let limits = audio::Limits {
            max_bytes: self.max_bytes,
            max_sample_rate: self.max_sample_rate,
            max_channels: self.max_channels,
            max_seconds: self.max_seconds,
            max_frames_per_byte: self.max_frames_per_byte,
            max_decoded_bytes: self.max_decoded_bytes,
            budget: audio::Budget::NONE,
            max_decode_time: max_decode_time
                .transpose()
                .map_err(|error| InternalError::new_err(format!("max_decode_seconds: {error}")))?,
        };
        limits.validate().map_err(InternalError::new_err)?;
        Ok(limits)
    }
}

impl Start {
    /// The core's start. The fingerprint is what a user's state says.
    pub(crate) fn parse(self) -> PyResult<engine::Start> {
        let fingerprint = self.fingerprint.map(|text| {
            Fingerprint::parse(&text).ok_or_else(|| {
                let shown: String = text.chars().take(80).collect();
                PyValueError::new_err(format!("the state's fingerprint {shown:?} is not one"))
            })
        });
        Ok(engine::Start {
            epoch: self.epoch,
            next_index: self.next_index,
            fingerprint: fingerprint.transpose()?,
            allow_changed: self.allow_changed,
        })
    }
}

impl FillArg {
    fn parse(self) -> FillValue {
        match self {
            Self::Bool(value) => FillValue::Bool(value),
            Self::Signed(value) => FillValue::Int(value.into()),
            Self::Unsigned(value) => FillValue::Int(value.into()),
            Self::Float(value) => FillValue::Float(value),
        }
    }
}

pub(crate) fn named<T: Copy>(option: &str, all: &[(&'static str, T)], name: &str) -> PyResult<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| unknown(option, name))
}

pub(crate) fn unknown(option: &str, name: &str) -> PyErr {
    InternalError::new_err(format!("{option} is never {name:?}"))
}
