//! From encoded bytes to the wanted frames at the wanted rate.
//!
//! [`Decoder::plan`] reads headers and decides what the result will be (channels, frames, crop);
//! [`Decoder::render`] decodes only the packets that the crop needs and writes into the caller's
//! slot. A crop equals the same slice of the whole decoded and resampled recording, bit for bit.

mod error;
mod spec;

pub use error::{Codec, DecodeError, Reason};
pub use spec::{AudioSpec, Channels, Crop, Pad};
