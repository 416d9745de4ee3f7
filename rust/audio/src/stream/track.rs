//! The track that a container says it has, and how its packets are coded.

use std::fmt;

use super::{decode::Decode, packet::Packet, scratch::Kept};
use crate::{
    error::{Exceeded, Reason},
    limits::MAX_CHANNELS,
    names::Codec,
};

/// How a track is coded.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) codec: Codec,
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    pub(crate) coding: Box<dyn Coding>,
    /// PCM frames in a packet, where all but the last have the same; 0 elsewhere.
    pub(crate) frame_len: u32,
    /// Whether the container says that all packets but the last have this length.
    pub(crate) is_uniform: bool,
    /// Decoded frames before the first playable one, where the codec's own header has the last word.
    pub(crate) delay: Option<u64>,
}

impl Track {
    /// A track of which only the coding is known.
    pub(crate) fn new(
        codec: Codec,
        rate_hz: u32,
        n_channels: u16,
        coding: impl Coding + 'static,
    ) -> Self {
        let (frame_len, is_uniform, delay) = (0, false, None);
        let coding = Box::new(coding);
        Self { codec, rate_hz, n_channels, coding, frame_len, is_uniform, delay }
    }

    /// Whether a packet that others follow may have so many frames.
    pub(super) fn may_be(&self, n_frames: u32) -> bool {
        !self.is_uniform || n_frames == self.frame_len
    }
}

/// How the packets of a track are coded.
pub(crate) trait Coding: fmt::Debug + Send + Sync {
    /// What is decoded before the first wanted packet, for the same bits as from the start.
    fn warm_up(&self) -> WarmUp;

    /// Which packets say themselves how long they are.
    fn told_by(&self) -> ToldBy {
        ToldBy::None
    }

    /// The frames that a packet says it has.
    fn packet_len(&self, _packet: &[u8]) -> Option<u32> {
        None
    }

    /// Tells the frames of packets where the container does not.
    fn counter(&self, track: &Track) -> Result<Counter, Reason>;

    /// Learns what only the packets tell, or refuses them.
    fn settle(&mut self, _bytes: &[u8], _packets: &[Packet], _rate_hz: u32) -> Result<(), Reason> {
        Ok(())
    }

    /// The bytes from which a seek table makes this coding again; `None` if parts of a recording cannot be
    /// decoded.
    fn seek_header(&self) -> Option<Vec<u8>> {
        None
    }

    /// A decoder that begins with the first packet that it is given. What is worth keeping for other
    /// recordings is in `kept`.
    fn decoder<'a>(&'a self, shape: Shape, kept: &'a mut Kept) -> DecoderResult<'a>;
}

/// Tells the frames of a track's packets, one after the other.
pub(crate) type Counter = Box<dyn FnMut(&[u8]) -> Result<u32, Reason> + Send>;

/// What [`Coding::decoder`] gives.
pub(crate) type DecoderResult<'a> = Result<Box<dyn Decode + 'a>, Reason>;

/// What a decoder must give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
}

/// What is decoded before the first wanted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmUp {
    Packets(usize),
    /// As many packets as hold these frames.
    Frames(u64),
    All,
}

/// Which packets of a track say how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToldBy {
    None,
    /// The last one, if it is shorter than the others.
    Last,
    Each,
}

/// A count of channels that is within the limits.
pub(crate) fn limited(n_channels: impl Into<u64>) -> Result<u16, Reason> {
    let n = n_channels.into();
    if (1..=u64::from(MAX_CHANNELS)).contains(&n) {
        return Ok(n as u16);
    }
    Err(Exceeded::channels(n, MAX_CHANNELS))
}
