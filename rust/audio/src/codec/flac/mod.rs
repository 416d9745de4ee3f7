//! FLAC, RFC 9639: a frame to samples.

mod bits;
pub(crate) mod crc;
mod decode;
pub(crate) mod frame;
pub(crate) mod info;
mod packets;
mod predict;
mod subframe;

pub(crate) use bits::Bits;
pub(crate) use crc::is_intact;
pub(crate) use decode::{Feed, frame_len};
pub(crate) use frame::Header;
pub(crate) use info::StreamInfo;
pub(crate) use packets::track;
