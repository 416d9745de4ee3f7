//! What the caller wants of a recording.

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
