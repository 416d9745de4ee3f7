//! From encoded bytes to the wanted frames at the wanted rate.
//!
//! [`Decoder::plan`] reads headers and decides what the result will be (channels, frames, crop);
//! [`Decoder::render`] decodes only the packets that the crop needs and writes into the caller's
//! slot. A crop equals the same slice of the whole decoded and resampled recording, bit for bit.
//!
//! A row's bytes are not trusted: whatever they are, the end is frames or a [`DecodeError`], and no
//! memory is sized by a number in them that the bytes present do not bear out.
//!
//! There are no threads, no I/O and no `unsafe` here.
#![forbid(unsafe_code)]

mod aac;
mod aiff;
mod alac;
mod bits;
mod bytes;
mod caf;
mod cancel;
mod check;
mod codec;
mod complex;
mod container;
mod decoder;
mod error;
mod flac;
mod g711;
mod kernel;
mod keys;
mod limits;
mod memory;
mod mkv;
mod mp3;
mod mp4;
mod ogg;
mod opus;
mod packets;
mod pcm;
mod plan;
mod planner;
mod probe;
mod render;
mod report;
mod resample;
mod resampler;
mod sample_type;
mod sink;
mod spec;
mod trig;
mod vorbis;
mod warm_up;
mod wav;

pub use check::{Checked, Depth};
pub use codec::Codec;
pub use decoder::{Decoder, probe, probe_within};
pub use error::{DecodeError, Exceeded, Reason, Remedy};
pub use limits::{Budget, FREE_FRAMES, Limits};
pub use plan::{AudioInfo, Plan};
pub use report::{Counts, Damage, DecodeReport};
pub use resampler::Resampler;
pub use sample_type::SampleType;
pub use spec::{AudioSpec, Channels, Crop, MAX_CHANNELS, MAX_SECONDS, Pad, RATES_HZ};
pub use warm_up::warm_up;
