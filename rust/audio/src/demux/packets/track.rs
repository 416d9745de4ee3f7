//! The track that a container says it has.

use crate::{
    codec::Coding,
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
    /// Whether the container says that packets which others follow have no other length.
    pub(crate) is_uniform: bool,
    /// Decoded frames before the first playable one, where the codec's own header has the last word.
    pub(crate) delay: Option<u64>,
}

impl Track {
    /// A track that nothing but its coding is known of.
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

/// A count of channels that is within the limits.
pub(crate) fn limited(n_channels: impl Into<u64>) -> Result<u16, Reason> {
    let n = n_channels.into();
    if (1..=u64::from(MAX_CHANNELS)).contains(&n) {
        return Ok(n as u16);
    }
    Err(Exceeded::channels(n))
}
