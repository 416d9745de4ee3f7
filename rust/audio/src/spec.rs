//! What the caller wants of a recording.

use crate::{
    limits::{Limits, MAX_CHANNELS, MAX_PCM_CHANNELS, RATES_HZ},
    resample::Resampler,
    sample_type::SampleType,
    windows::{EventCrop, Windows, frames_of},
};

/// The wanted rate, channels, crop and padding: the same for every row of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioSpec {
    /// Target rate in Hz; `None` keeps the file's own.
    pub rate_hz: Option<u32>,
    /// Which channels come out.
    pub channels: Channels,
    /// Which part comes out.
    pub crop: Crop,
    /// What happens to a recording that is shorter than the crop.
    pub pad: Pad,
    /// The filter for recordings of another rate.
    pub resampler: Resampler,
    /// What samples are stored as.
    pub sample_type: SampleType,
    /// Which findings are errors.
    pub strict: Strict,
    /// What a recording may ask for.
    pub limits: Limits,
}

/// Which findings are errors. All others are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strict {
    /// None: what cannot be decoded comes out as zeros.
    Lenient,
    /// Losses: sound that is missing or wrong.
    #[default]
    Strict,
    /// Losses, and notes: headers, counts, times and marks that contradict the sound.
    Pedantic,
}

impl From<bool> for Strict {
    fn from(is_strict: bool) -> Self {
        if is_strict { Self::Strict } else { Self::Lenient }
    }
}

/// The longest crop in seconds: one day.
pub const MAX_SECONDS: f64 = 86_400.0;

impl AudioSpec {
    /// A whole recording as it is: its own rate and channels.
    pub const WHOLE: Self = Self {
        rate_hz: None,
        channels: Channels::Keep,
        crop: Crop::Whole,
        pad: Pad::None,
        resampler: Resampler::Hq,
        sample_type: SampleType::F32,
        strict: Strict::Strict,
        limits: Limits::DEFAULT,
    };

    /// Checks that the options make sense by themselves, before any row is seen.
    ///
    /// # Errors
    /// What is wrong, as a sentence for the user.
    pub fn validate(&self) -> Result<(), String> {
        self.limits.validate()?;
        if let Some(rate) = self.rate_hz
            && !RATES_HZ.contains(&rate)
        {
            return Err(format!("the sample rate must be within 1 and 768000 Hz, not {rate}"));
        }
        if let Channels::Exact(n) = self.channels
            && !(1..=MAX_PCM_CHANNELS).contains(&n)
        {
            return Err(format!("the channels must be within 1 and {MAX_PCM_CHANNELS}, not {n}"));
        }
        // As far as a recording may reach: only the length of a crop has a limit of its own.
        if let Crop::At { start, .. } = self.crop
            && !(0.0..=Limits::LONGEST_S).contains(&start)
        {
            let most = Limits::LONGEST_S;
            return Err(format!("the crop must start within 0 and {most} s, not at {start}"));
        }
        if let Crop::Window { windows, .. } = self.crop
            && !(windows.hop_s > 0.0 && windows.hop_s <= MAX_SECONDS)
        {
            return Err(format!(
                "a hop must be above 0 and at most {MAX_SECONDS} s long, not {}",
                windows.hop_s
            ));
        }
        match self.crop.seconds() {
            Some(s) if !(s > 0.0 && s <= MAX_SECONDS) => {
                Err(format!("a crop must be above 0 and at most {MAX_SECONDS} s long, not {s}"))
            }
            _ => Ok(()),
        }
    }

    /// `(channels, frames)` of every row, where the options alone decide it: a target rate, a
    /// crop with a length, padding, and a fixed number of channels.
    pub fn fixed_shape(&self) -> Option<(u16, usize)> {
        let n_channels = match self.channels {
            Channels::Mono => 1,
            Channels::Exact(n) => n,
            Channels::Picked(picked) => picked.n,
            Channels::Keep => return None,
        };
        if self.pad == Pad::None {
            return None;
        }
        let n_frames = frames_of(self.crop.seconds()?, self.rate_hz?);
        Some((n_channels, usize::try_from(n_frames).ok()?))
    }
}

impl Crop {
    /// The length asked for, if one is.
    pub fn seconds(&self) -> Option<f64> {
        match *self {
            Self::Whole => None,
            Self::Start { seconds } | Self::Center { seconds } | Self::Random { seconds } => {
                Some(seconds)
            }
            Self::At { seconds, .. } => seconds,
            Self::Window { windows, .. } => Some(windows.seconds),
            Self::Event(event) => event.seconds,
        }
    }
}

/// Which channels come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// The mean of all channels; the result has no channel axis.
    Mono,
    /// As in the file: `(channels, frames)`.
    Keep,
    /// Exactly this many, `(channels, frames)`: the first ones of the file; a mono file is
    /// repeated; any other file with fewer channels is an error.
    Exact(u16),
    /// These, `(channels, frames)`; a file without one of them is an error.
    Picked(Picked),
}

/// Channels of a file by their numbers, in the order in which they come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    places: [u16; MAX_CHANNELS as usize],
    n: u16,
}

impl Picked {
    /// Picks channels, counted from 0.
    ///
    /// # Errors
    /// None are picked, or more than [`MAX_CHANNELS`].
    pub fn new(picked: &[u16]) -> Result<Self, String> {
        let mut places = [0; MAX_CHANNELS as usize];
        match places.get_mut(..picked.len()) {
            Some(to) if !picked.is_empty() => to.copy_from_slice(picked),
            _ => {
                let n = picked.len();
                return Err(format!("1 to {MAX_CHANNELS} channels can be picked, not {n}"));
            }
        }
        Ok(Self { places, n: picked.len() as u16 })
    }

    /// The numbers of the channels.
    pub fn places(&self) -> &[u16] {
        self.places.get(..usize::from(self.n)).unwrap_or_default()
    }
}

/// Which part of the recording comes out, in frames at the target rate.
///
/// Lengths and starts in seconds are rounded to the nearest frame at the target rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crop {
    /// The whole recording.
    Whole,
    /// The first `seconds`.
    Start {
        /// Length in seconds, above 0.
        seconds: f64,
    },
    /// The middle `seconds`; with an odd remainder the earlier of the two.
    Center {
        /// Length in seconds, above 0.
        seconds: f64,
    },
    /// `seconds` from anywhere: every start frame is equally likely, chosen by the row's draw.
    Random {
        /// Length in seconds, above 0.
        seconds: f64,
    },
    /// From `start` on, for `seconds` or to the end.
    At {
        /// Start in seconds, at least 0.
        start: f64,
        /// Length in seconds; `None` is to the end.
        seconds: Option<f64>,
    },
    /// One of its windows.
    Window {
        /// All of them.
        windows: Windows,
        /// Its number, from 0.
        number: u64,
    },
    /// A part around an event.
    Event(EventCrop),
}

/// What happens to a recording that is shorter than the crop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pad {
    /// Zeros follow it.
    Zero,
    /// It is repeated from its start.
    Repeat,
    /// Nothing: the result is short.
    None,
}
