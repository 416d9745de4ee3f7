//! Opus, RFC 6716: the header of a stream, and packets to planes of 48 kHz.
//!
//! Where packets come from, and which of their frames are played, is the container's business.

mod decode;
mod head;

pub(super) use decode::PacketDecoder;
pub(super) use head::{Head, packet_len};

/// Opus always decodes to this rate, whatever was recorded.
pub(super) const RATE_HZ: u32 = 48_000;

/// Frames that are decoded before the wanted ones and dropped, so that the decoder converges to
/// what it would hold had it started at the beginning: one second.
///
/// RFC 7845 asks for 80 ms, which leaves errors of some percent of full scale.
/// `docs/decisions/opus.md` has the figures.
pub(super) const PRE_ROLL: u64 = 48_000;

/// The same where SILK takes part, whose long-term prediction forgets more slowly: 5 s.
pub(super) const PRE_ROLL_SILK: u64 = 240_000;

/// Frames of a packet, where nothing else is known: 20 ms, which encoders make unless told otherwise.
pub(super) const FRAME_LEN: u32 = 960;

/// A stream in a container that lists its packets.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) head: Head,
    /// Frames to decode before the wanted ones.
    pub(super) pre_roll: u64,
    /// Whether the container says that all packets but the last are equally long.
    pub(super) is_uniform: bool,
}

impl Stream {
    /// A stream that may have SILK in it.
    pub(super) fn new(head: Head) -> Self {
        Self { head, pre_roll: PRE_ROLL_SILK, is_uniform: false }
    }

    /// Shortens the pre-roll if no packet has SILK. Of the streams of a surround packet only the first
    /// shows what it is.
    pub(super) fn settle<'a>(&mut self, mut packets: impl Iterator<Item = &'a [u8]>) {
        if !self.head.is_surround && !packets.any(has_silk) {
            self.pre_roll = PRE_ROLL;
        }
    }
}

/// Whether a packet is SILK, alone or under CELT.
pub(super) fn has_silk(packet: &[u8]) -> bool {
    packet.first().is_some_and(|toc| toc >> 3 < 16)
}
