#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Each room knows only those below it (`tests/rooms.rs`):
//
//   decoder   plans a crop, renders it from a recording or from parts of one; checks and probes
//   seek      entries: what is remembered of a recording, so that parts of it do
//   demux     containers: where packets or samples are, and the timeline
//   codec     packets to frames
//   stream    what containers and codecs share: packets, tracks, recordings, seek tables
//   resample, fourier, sink, report, limits, spec, error and smaller ones: the ground

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
mod stream;
mod trig;
mod windows;

pub use contained::contained;
pub use decoder::{Checked, Decoder, Depth, PartPlan, Plan, probe, probe_within, warm_up};
pub use demux::probe::is_length_at_ends;
pub use error::{DecodeError, Exceeded, Reason, Remedy};
pub use info::AudioInfo;
pub use limits::{Budget, FREE_FRAMES, Limits, MAX_CHANNELS, MAX_PCM_CHANNELS, RATES_HZ};
pub use names::Codec;
pub use report::{Counts, Damage, DecodeReport, Note, Notes};
pub use resample::Resampler;
pub use sample_type::SampleType;
pub use seek::Entry;
pub use spec::{AudioSpec, Channels, Crop, MAX_SECONDS, Pad, Picked, Strict};
pub use windows::{EventCrop, Place, Tail, Windows};
