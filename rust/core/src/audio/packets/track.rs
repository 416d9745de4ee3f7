//! Codec configurations, as containers carry them.

use super::Coding;
use crate::audio::{
    aac::{self, Config},
    alac,
    bits::BitReader,
    error::{Codec, Exceeded, Reason},
    flac::{Header, StreamInfo},
    opus::{self, Head},
    spec::MAX_CHANNELS,
};

/// How a track is coded.
#[derive(Clone, Debug)]
pub(in crate::audio) struct Track {
    pub(in crate::audio) codec: Codec,
    pub(in crate::audio) rate_hz: u32,
    pub(in crate::audio) n_channels: u16,
    pub(in crate::audio) coding: Coding,
    /// PCM frames in a packet, where all but the last have the same; 0 elsewhere.
    pub(in crate::audio) frame_len: u32,
}

impl Track {
    /// AAC, from its `AudioSpecificConfig`.
    pub(in crate::audio) fn aac(config: &[u8]) -> Result<Self, Reason> {
        let Config { rate_hz, n_channels } = Config::read(config)?;
        let (codec, coding, frame_len) = (Codec::Aac, Coding::Aac, aac::FRAME_LEN);
        Ok(Self { codec, rate_hz, n_channels, coding, frame_len })
    }

    /// ALAC, from its magic cookie.
    pub(in crate::audio) fn alac(cookie: &[u8]) -> Result<Self, Reason> {
        let config = alac::Config::read(cookie)?;
        Ok(Self {
            codec: Codec::Alac,
            rate_hz: config.rate_hz,
            n_channels: config.n_channels,
            coding: Coding::Alac(config),
            frame_len: config.frame_len,
        })
    }

    /// FLAC, from its STREAMINFO.
    pub(in crate::audio) fn flac(info: &[u8]) -> Result<Self, Reason> {
        let info = StreamInfo::parse(info);
        let info = info.ok_or_else(|| Reason::malformed("there is no STREAMINFO"))?;
        Ok(Self {
            codec: Codec::Flac,
            rate_hz: info.rate_hz,
            n_channels: info.n_channels,
            coding: Coding::Flac(info),
            frame_len: u32::from(info.block_lens[1]),
        })
    }

    /// Opus, from its identification header.
    pub(in crate::audio) fn opus(head: Head) -> Self {
        Self {
            codec: Codec::Opus,
            rate_hz: opus::RATE_HZ,
            n_channels: head.n_channels,
            coding: Coding::Opus(opus::Stream::new(head)),
            frame_len: opus::FRAME_LEN,
        }
    }

    /// Whether a packet that others follow may have so many frames.
    pub(super) fn may_be(&self, n_frames: u32) -> bool {
        match &self.coding {
            Coding::Opus(stream) => !stream.is_uniform || n_frames == self.frame_len,
            _ => true,
        }
    }

    /// The frames of a packet: what it says, or as many as the others have.
    pub(in crate::audio) fn packet_len(&self, data: &[u8]) -> u32 {
        self.coding.packet_len(data).unwrap_or(self.frame_len)
    }
}

/// A count of channels that is within the limits.
pub(in crate::audio) fn limited(n_channels: impl Into<u64>) -> Result<u16, Reason> {
    let n = n_channels.into();
    if (1..=u64::from(MAX_CHANNELS)).contains(&n) {
        return Ok(n as u16);
    }
    Err(Exceeded::channels(n))
}

impl Coding {
    /// The frames that a packet says it has. Most do not say it: `None`.
    pub(super) fn packet_len(&self, data: &[u8]) -> Option<u32> {
        match self {
            Self::Flac(_) => Header::read(data).map(|header| header.n_frames),
            Self::Alac(_) => alac_len(data),
            Self::Opus(_) => opus::packet_len(data),
            _ => None,
        }
    }
}

/// Whether a packet of ALAC begins and ends as it must. It has no checksum, and zeros decode.
pub(super) fn is_alac(packet: &[u8], n_channels: u16) -> bool {
    let first = BitReader::new(packet).read(3);
    let begins = match n_channels {
        1 => first == Some(0),
        2 => first == Some(1),
        _ => true,
    };
    // The element that ends it is three ones; less than a byte of zeros follows.
    let last = packet.last().map_or(8, |byte| byte.trailing_zeros() as usize);
    let end = (packet.len() * 8).checked_sub(last + 3);
    begins && last < 8 && end.and_then(|at| BitReader::starting_at(packet, at).read(3)) == Some(7)
}

/// The frames of an ALAC packet that is shorter than the others.
fn alac_len(packet: &[u8]) -> Option<u32> {
    let mut bits = BitReader::new(packet);
    let element = bits.read(3)?;
    bits.read(16)?;
    let is_partial = bits.read(1)? == 1;
    bits.read(3)?;
    if matches!(element, 0 | 1 | 3) && is_partial { bits.read(32) } else { None }
}
