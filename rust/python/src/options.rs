//! The options as they come from Python: its data classes, read by the names of their attributes.
//!
//! Each option stands here once, beside the core's field that it becomes: the compiler tells which of the
//! core's is missing, and `tests/options/test_groups.py` which of Python's. Python has checked the values
//! where users give them; a wrong value here is a bug of ours.

use std::{path::PathBuf, time::Duration};

use gristmill_audio::{
    self as audio, AudioSpec, Channels, Pad, Place, Resampler, SampleType, Tail,
};
use gristmill_core::{
    batch::{Binary, Classes, EventColumns, FillValue, Ragged, Style, Styles},
    engine::{
        self, AudioRequest, EventOptions, MixtureOptions, OnError, OtherAudio, Pick, Remainder,
        SourceOptions,
    },
    order::{self, Fingerprint, OrderSpec, Partition, Slice, Stop, Window},
    shard::Labels,
    store::StorageOptions,
};
use pyo3::{
    call::PyCallArgs, conversion::FromPyObjectOwned, exceptions::PyValueError, prelude::*,
    pybacked::PyBackedBytes, types::PyString,
};

use crate::{
    errors::InternalError,
    folders::{index_dir, range_cache},
    selection::{Sampling, selection},
    strict::StrictArg,
};

/// A data class of Python's.
#[derive(Debug)]
pub(crate) struct Group<'py>(Bound<'py, PyAny>);

impl<'py> Group<'py> {
    /// The value of an attribute.
    pub(crate) fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<T> {
        self.0.getattr(name)?.extract().map_err(Into::into)
    }

    /// What a method gives.
    pub(crate) fn call<A: PyCallArgs<'py>, T: FromPyObjectOwned<'py>>(
        &self,
        name: &str,
        args: A,
    ) -> PyResult<T> {
        self.0.call_method1(name, args)?.extract().map_err(Into::into)
    }

    /// The value that has this name.
    fn named<T: Copy>(&self, option: &str, all: &[(&'static str, T)]) -> PyResult<T> {
        named(option, all, &self.get::<String>(option)?)
    }

    /// A group in this one, unless it is `None`.
    pub(crate) fn group(&self, name: &str) -> PyResult<Option<Self>> {
        let group: Option<Bound<'py, PyAny>> = self.get(name)?;
        Ok(group.map(Self))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Group<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(object.to_owned()))
    }
}

/// `(start, stop, step, sequential)` of a slice.
type SliceArg = (Option<i64>, Option<i64>, Option<i64>, bool);

/// An option's value for all columns, and for single ones.
#[derive(Debug, FromPyObject)]
struct PerColumn<T> {
    default: T,
    named: Vec<(String, T)>,
}

/// What the file system says of the options. Without `Debug`, which would show secrets.
#[derive(FromPyObject)]
struct Shards {
    paths: Vec<PathBuf>,
    storage_options: Vec<(String, String)>,
    /// Of each shard 64-bit integers, for there may be millions of rows.
    exclude: Vec<(u32, PyBackedBytes)>,
    expected_rows: Vec<(u32, u64)>,
}

/// A number, one of a few names, or the numbers of channels.
#[derive(Debug, FromPyObject)]
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

/// What is decoded of recordings: made once of `gristmill.Audio`.
#[pyclass(frozen, name = "AudioSpec", module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct AudioSpecArg(pub(crate) AudioSpec);

/// What is read of `gristmill.Limits`. The class has the core's defaults.
#[pyclass(frozen, get_all, name = "DefaultLimits", module = "gristmill._core")]
#[derive(Clone, Debug, FromPyObject)]
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

/// All options of a stream.
pub(crate) fn stream(options: &Group<'_>) -> PyResult<engine::Options> {
    let batches: Group<'_> = options.get("batches")?;
    let (policy, read): (Group<'_>, Group<'_>) = (batches.get("policy")?, batches.get("read")?);
    let sources: Vec<Group<'_>> = options.get("sources")?;
    let mixture = options.group("mixing")?.map(|mixing| {
        Ok::<_, PyErr>(MixtureOptions {
            weights: mixing.get("weights")?,
            stop: mixing.named("stop", &Stop::ALL)?,
            labels: mixing.named("labels", &Labels::ALL)?,
        })
    });
    Ok(engine::Options {
        sources: sources.iter().map(|rows| source(rows, &batches)).collect::<PyResult<_>>()?,
        mixture: mixture.transpose()?,
        on_error: policy.named("on_error", &OnError::ALL)?,
        batch_size: batches.get("batch_size")?,
        remainder: batches.named("remainder", &Remainder::ALL)?,
        styles: styles(&batches)?,
        binary: batches.named("binary", &Binary::ALL)?,
        with_row_id: batches.get("with_row_id")?,
        with_crop: batches.get("with_crop")?,
        n_threads: read.get("num_threads")?,
        n_requests: read.get("num_requests")?,
        memory_budget: read.get("memory_budget_bytes")?,
        prefetch_batches: read.get("prefetch_batches")?,
        index_dir: index_dir(read.get("resolved_index_dir")?),
        audio_index: read.get("audio_index")?,
        range_cache: range_cache(read.get("resolved_cache_dir")?, read.get("cache_limit")?),
        retries: read.get("retries")?,
        page_cache: read.get("page_cache")?,
    })
}

/// The rows of one data set. Looks at the file system for the shards.
fn source(rows: &Group<'_>, batches: &Group<'_>) -> PyResult<SourceOptions> {
    let read: Group<'_> = batches.get("read")?;
    let shards: Shards = rows.call("shards", (read.get::<u32>("retries")?,))?;
    let exclude = shards.exclude.iter().flat_map(|(shard, rows)| {
        rows.as_chunks().0.iter().map(|row| (*shard, u64::from_ne_bytes(*row)))
    });
    let audio = rows.group("decoded")?;
    let sampling: Option<Py<Sampling>> = rows.get("draws")?;
    let sampling = sampling.map(|sampling| sampling.get().parse()).transpose()?;
    let (draws, weights) = sampling.unzip();
    let partition: Group<'_> = batches.get("partition")?;
    let slices: Vec<SliceArg> = partition.get("slices")?;
    let slice = |(start, stop, step, sequential)| Slice { start, stop, step, sequential };
    let is_even: bool = partition.get("is_even")?;
    let table = rows.group("table")?;
    Ok(SourceOptions {
        paths: shards.paths,
        labels: rows.named("labels", &Labels::ALL)?,
        storage_options: StorageOptions::new(shards.storage_options),
        columns: rows.get("columns")?,
        audio: match &audio {
            Some(audio) => AudioRequest::Decode {
                column: audio.get("column")?,
                spec: audio_spec(audio)?,
                follows_features: is_auto(audio)?,
            },
            None if rows.group("audio")?.is_some() => AudioRequest::Auto,
            None => AudioRequest::Encoded,
        },
        audio_rates: table.map(|table| table.get("audio_rates")).transpose()?,
        other_audio: rows
            .get::<Vec<Group<'_>>>("other_audio")?
            .iter()
            .map(other_audio)
            .collect::<PyResult<_>>()?,
        root: of_audio(audio.as_ref(), "root")?,
        max_missing: of_audio(audio.as_ref(), "max_missing")?,
        events: audio.map_or(Ok(None), |audio| events(&audio))?,
        order: OrderSpec {
            slices: slices.into_iter().map(slice).collect(),
            draws,
            is_list: rows.get("is_list")?,
            partition: Partition {
                offset: partition.get("stream_offset")?,
                stride: partition.get("stream_stride")?,
                multiple_of: if is_even { partition.get("hosts")? } else { 1 },
            },
            ..order(rows.group("shuffle")?, rows.get("epochs")?)?
        },
        crop_seed: rows.get("crop_seed")?,
        rows: selection(rows)?,
        weights,
        exclude: exclude.collect(),
        expected_rows: shards.expected_rows,
    })
}

/// The order of all rows, on one host.
pub(crate) fn order(shuffle: Option<Group<'_>>, epochs: Option<u64>) -> PyResult<OrderSpec> {
    let shuffle = shuffle.map(|shuffle| {
        let (window, streams): (Option<u64>, u64) =
            (shuffle.get("window")?, shuffle.get("streams")?);
        Ok::<_, PyErr>(order::Shuffle {
            seed: shuffle.get("seed")?,
            window: window.map(|rows| Window { rows, streams }),
            reshuffle: shuffle.get("reshuffle_each_epoch")?,
        })
    });
    Ok(OrderSpec {
        shuffle: shuffle.transpose()?,
        slices: Vec::new(),
        epochs,
        draws: None,
        is_list: false,
        partition: Partition { offset: 0, stride: 1, multiple_of: 1 },
    })
}

/// What batches do with nulls and ragged columns.
fn styles(batches: &Group<'_>) -> PyResult<Styles> {
    let ragged: PerColumn<RaggedArg> = batches.get("ragged")?;
    let fill: PerColumn<Option<FillArg>> = batches.get("fill_value")?;
    let multi_hot: Vec<(String, Option<ClassesArg>)> = batches.get("multi_hot")?;
    let fills = fill.named.into_iter();
    let named = ragged.named.into_iter();
    Ok(Styles {
        default: Style { ragged: ragged.default.parse()?, fill: fill.default.map(FillArg::parse) },
        ragged: named.map(|(name, one)| Ok((name, one.parse()?))).collect::<PyResult<_>>()?,
        fill: fills.filter_map(|(name, value)| Some((name, value?.parse()))).collect(),
        multi_hot: multi_hot
            .into_iter()
            .map(|(name, classes)| (name, classes.map(ClassesArg::parse)))
            .collect(),
    })
}

/// What is wanted of each recording.
fn audio_spec(audio: &Group<'_>) -> PyResult<AudioSpec> {
    let pad: Option<String> = audio.get("pad")?;
    Ok(AudioSpec {
        rate_hz: if is_auto(audio)? { None } else { audio.get("sample_rate")? },
        channels: match audio.get("channels")? {
            ChannelsArg::Count(n) => Channels::Exact(n),
            ChannelsArg::Name(name) if name == "mono" => Channels::Mono,
            ChannelsArg::Name(name) if name == "keep" => Channels::Keep,
            ChannelsArg::Name(other) => return Err(unknown("channels", &other)),
            ChannelsArg::Picked(picked) => {
                Channels::Picked(audio::Picked::new(&picked).map_err(PyValueError::new_err)?)
            }
        },
        crop: audio.group("crop")?.map_or(Ok(audio::Crop::Whole), |of| crop(&of))?,
        pad: match pad.as_deref() {
            None => Pad::None,
            Some("zero") => Pad::Zero,
            Some("repeat") => Pad::Repeat,
            Some(other) => return Err(unknown("pad", other)),
        },
        resampler: audio.named("resampler", &Resampler::ALL)?,
        sample_type: audio.named("dtype", &SampleType::ALL)?,
        strict: audio.get::<StrictArg>("strict")?.parse()?,
        limits: audio.get::<Limits>("limits")?.parse()?,
    })
}

/// One more column that is decoded.
fn other_audio(audio: &Group<'_>) -> PyResult<OtherAudio> {
    Ok(OtherAudio {
        column: audio.get("column")?,
        spec: audio_spec(audio)?,
        follows_features: is_auto(audio)?,
        root: audio.get("root")?,
        max_missing: audio.get("max_missing")?,
    })
}

/// Whether the rate is that of the features.
fn is_auto(audio: &Group<'_>) -> PyResult<bool> {
    Ok(audio.get::<Bound<'_, PyAny>>("sample_rate")?.is_instance_of::<PyString>())
}

/// An attribute of `gristmill.Audio`, if there is one.
fn of_audio<'py, T>(audio: Option<&Group<'py>>, name: &str) -> PyResult<Option<T>>
where
    Option<T>: FromPyObjectOwned<'py>,
{
    audio.map_or(Ok(None), |audio| audio.get(name))
}

fn crop(crop: &Group<'_>) -> PyResult<audio::Crop> {
    Ok(match crop.get::<String>("_kind")?.as_str() {
        "start" => audio::Crop::Start { seconds: crop.get("seconds")? },
        "center" => audio::Crop::Center { seconds: crop.get("seconds")? },
        "random" => audio::Crop::Random { seconds: crop.get("seconds")? },
        "windows" => {
            let (seconds, hop): (f64, Option<f64>) = (crop.get("seconds")?, crop.get("hop")?);
            let tail = crop.named("tail", &Tail::ALL)?;
            let windows = audio::Windows { seconds, hop_s: hop.unwrap_or(seconds), tail };
            audio::Crop::Window { windows, number: 0 }
        }
        "events" => {
            let (seconds, place) = (crop.get("seconds")?, crop.named("place", &Place::ALL)?);
            audio::Crop::Event(audio::EventCrop { seconds, place, start_s: 0.0, end_s: 0.0 })
        }
        other => return Err(unknown("crop", other)),
    })
}

/// Where the crop's events are, if it is about events.
fn events(audio: &Group<'_>) -> PyResult<Option<EventOptions>> {
    let Some(crop) = audio.group("crop")? else { return Ok(None) };
    if crop.get::<String>("_kind")? != "events" {
        return Ok(None);
    }
    let columns = match crop.get("pairs")? {
        Some(pairs) => EventColumns::Pairs(pairs),
        None => EventColumns::Times { start: crop.get("start")?, end: crop.get("end")? },
    };
    Ok(Some(EventOptions { columns, pick: crop.named("pick", &Pick::ALL)? }))
}

#[pymethods]
impl AudioSpecArg {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]
    fn new(audio: Group<'_>) -> PyResult<Self> {
        audio_spec(&audio).map(Self)
    }
}

#[pymethods]
impl Limits {
    #[new]
    fn new() -> Self {
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

impl RaggedArg {
    fn parse(self) -> PyResult<Ragged> {
        match self {
            Self::Width(width) => Ok(Ragged::Width(width)),
            Self::Mode(name) => named("ragged", &Ragged::ALL, &name),
        }
    }
}

impl ClassesArg {
    fn parse(self) -> Classes {
        match self {
            Self::Count(n) => Classes::Count(n),
            Self::Names(names) => Classes::Names(names),
        }
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
