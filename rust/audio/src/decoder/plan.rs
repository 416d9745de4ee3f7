//! Decides which frames of a recording are decoded, and what comes out.

use std::{ops::Range, time::Duration};

use crate::{
    error::{Exceeded, Reason},
    info::AudioInfo,
    report::DecodeReport,
    resample::{Filter, Ratio},
    sample_type::SampleType,
    sink::Mix,
    spec::{AudioSpec, Crop, Pad, Strict},
    stream::Recording,
    windows::frames_of,
};

/// What [`Decoder::render`](crate::Decoder::render) will do for one row, decided from headers
/// alone.
#[derive(Debug)]
pub struct Plan {
    pub(crate) info: AudioInfo,
    pub(crate) recording: Box<dyn Recording>,
    pub(crate) frames: Frames,
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    pub(crate) pad: Pad,
    pub(crate) mix: Mix,
    pub(crate) sample_type: SampleType,
    /// Which findings are errors.
    pub(crate) strict: Strict,
    /// Whether opening the recording counted damage already, instead of ending in an error.
    pub(crate) is_salvaged: bool,
    /// What planning found; rendering adds to it.
    pub(crate) report: DecodeReport,
    /// What is left of the time that the row may take.
    pub(crate) time_left: Option<Duration>,
}

/// What comes out of a recording, before it is decided how it is decoded.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) info: AudioInfo,
    pub(crate) mix: Mix,
    pub(crate) n_channels: u16,
    pub(crate) frames: Frames,
}

/// The numbers of a plan, all in frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    /// Output frames of the resampled recording that come out.
    pub(crate) crop: Range<u64>,
    /// Frames that come out, padding included.
    pub(crate) n_out: usize,
    /// Input frames to decode.
    pub(crate) input: Range<u64>,
    /// Zeros before and after them that the filter needs.
    pub(crate) zeros: (usize, usize),
    /// The resampler's filter, where the rates differ.
    pub(crate) filter: Option<Filter>,
}

impl Frames {
    /// Places the crop in a recording. `draw` decides a random start: with `n` possible starts it
    /// is `draw * n / 2^64`.
    pub(crate) fn new(info: &AudioInfo, spec: &AudioSpec, draw: u64) -> Result<Self, Reason> {
        let rate_hz = spec.rate_hz.unwrap_or(info.rate_hz);
        let ratio = Ratio::of(info.rate_hz, rate_hz)?;
        let total = ratio.map_or(info.n_frames, |ratio| ratio.n_out(info.n_frames));
        let mut wanted = spec.crop.seconds().map(|seconds| frames_of(seconds, rate_hz));
        let spare = total.saturating_sub(wanted.unwrap_or(total));
        let start = match spec.crop {
            Crop::Whole | Crop::Start { .. } => 0,
            Crop::Center { .. } => spare / 2,
            Crop::Random { .. } => ((u128::from(draw) * u128::from(spare + 1)) >> 64) as u64,
            Crop::At { start, .. } => ((start * f64::from(rate_hz)).round() as u64).min(total),
            Crop::Window { windows, number } => windows.start(number, total, rate_hz),
            Crop::Event(event) => {
                let (start, len) = event.place(total, rate_hz, draw)?;
                wanted = Some(len);
                start
            }
        };
        let end = wanted.map_or(total, |wanted| total.min(start + wanted));
        let n_out = match (wanted, spec.pad) {
            (Some(wanted), Pad::Zero | Pad::Repeat) => wanted,
            _ => end - start,
        };
        let n_out = usize::try_from(n_out)
            .map_err(|_| Exceeded::fixed("max_seconds", format!("{n_out} frames")))?;
        let filter = ratio.map(|ratio| Filter { ratio, resampler: spec.resampler });
        let (input, zeros) = match filter {
            Some(filter) if start < end => {
                let (first, len) = filter.input_window(start, end);
                let last = first.saturating_add_unsigned(len as u64);
                let n_frames = info.n_frames as i64;
                let input = first.clamp(0, n_frames)..last.clamp(0, n_frames);
                let zeros = ((input.start - first) as usize, (last - input.end) as usize);
                (input.start as u64..input.end as u64, zeros)
            }
            _ => (start..end, (0, 0)),
        };
        Ok(Self { crop: start..end, n_out, input, zeros, filter })
    }

    /// Frames that the filter takes in; 0 without one.
    pub(crate) fn n_window(&self) -> usize {
        let (before, after) = self.zeros;
        let n_input = (self.input.end - self.input.start) as usize;
        self.filter.map_or(0, |_| n_input.saturating_add(before).saturating_add(after))
    }
}

impl Plan {
    /// Whether damage is counted instead of ending in an error.
    pub(crate) fn is_lenient(&self) -> bool {
        self.strict == Strict::Lenient
    }

    /// What the headers say.
    pub fn info(&self) -> &AudioInfo {
        &self.info
    }

    /// The rate of the result in Hz.
    pub fn rate_hz(&self) -> u32 {
        self.rate_hz
    }

    /// Channels of the result.
    pub fn n_channels(&self) -> u16 {
        self.n_channels
    }

    /// Frames of the result, padding included.
    pub fn n_frames(&self) -> usize {
        self.frames.n_out
    }

    /// Samples of the result: channels times frames.
    pub fn n_samples(&self) -> usize {
        self.frames.n_out.saturating_mul(usize::from(self.n_channels))
    }

    /// Bytes of the result in its sample type.
    pub fn n_bytes(&self) -> usize {
        self.n_samples().saturating_mul(self.sample_type.n_bytes())
    }

    /// The frames of the whole recording, at the result's rate, that come out before padding.
    pub fn crop(&self) -> Range<u64> {
        self.frames.crop.clone()
    }
}
