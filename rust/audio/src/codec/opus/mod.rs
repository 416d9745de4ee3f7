//! Opus, RFC 6716: the header of a stream, and packets to planes of 48 kHz.
//!
//! Where packets come from, and which of their frames are played, is the container's business.

mod celt;
mod decode;
mod frames;
mod head;
mod packets;
mod range_decoder;
mod silk;
mod stream;

pub(crate) use decode::{PLANES, PacketDecoder};
pub(crate) use head::{Head, packet_len};
pub(crate) use packets::{from_seek_header, track};

/// Opus always decodes to this rate, whatever was recorded.
pub(crate) const RATE_HZ: u32 = 48_000;

/// Frames that are decoded before the wanted ones and dropped, so that the decoder converges to
/// what it would hold had it started at the beginning: one second.
///
/// RFC 7845 asks for 80 ms, which leaves errors of some percent of full scale.
/// `docs/decisions/opus.md` has the figures.
const PRE_ROLL: u64 = 48_000;

/// The same where SILK takes part, whose long-term prediction forgets more slowly: 10 s.
const PRE_ROLL_SILK: u64 = 480_000;

/// Which of the two a stream needs. Of the streams of a surround packet only the first shows what it is.
pub(crate) fn pre_roll(head: &Head, has_silk: bool) -> u64 {
    if has_silk || head.is_surround { PRE_ROLL_SILK } else { PRE_ROLL }
}

/// Frames of a packet if nothing else is known: 20 ms, which encoders make unless told otherwise.
const FRAME_LEN: u32 = 960;

/// Whether a packet is SILK, alone or under CELT.
pub(crate) fn has_silk(packet: &[u8]) -> bool {
    packet.first().is_some_and(|toc| toc >> 3 < 16)
}
