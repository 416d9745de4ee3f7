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

mod bits;
mod bytes;
mod cancel;
mod codec;
mod complex;
mod contained;
mod crc;
mod decoder;
mod demux;
mod error;
mod fourier;
mod info;
mod limits;
mod memory;
mod names;
mod report;
mod resample;
mod sample_type;
mod seek;
mod sink;
mod spec;
mod trig;
mod windows;

pub use contained::contained;
pub use decoder::{Checked, Decoder, Depth, Plan, probe, probe_within, warm_up};
pub use demux::probe::is_length_at_ends;
pub use error::{DecodeError, Exceeded, Reason, Remedy};
pub use info::AudioInfo;
pub use limits::{Budget, FREE_FRAMES, Limits, MAX_CHANNELS, RATES_HZ};
pub use names::Codec;
pub use report::{Counts, Damage, DecodeReport, Note, Notes};
pub use resample::Resampler;
pub use sample_type::SampleType;
pub use seek::{Entry, PartPlan};
pub use spec::{AudioSpec, Channels, Crop, MAX_SECONDS, Pad, Strict};
pub use windows::{EventCrop, Place, Tail, Windows};
