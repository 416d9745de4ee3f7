//! How many frames a packet holds, from its first bytes.

use crate::audio::{
    aac,
    error::Reason,
    flac, mp3, ogg, opus,
    packets::{Coding, Pcm, Track},
};

/// Tells the lengths of a track's packets, which must be asked in order.
pub(super) enum Measure {
    Fixed(u32),
    /// All packets but the last have as many.
    Alac(Track),
    Flac,
    Mp3 {
        rate_hz: u32,
        n_channels: u16,
    },
    Vorbis {
        ident: ogg::Ident,
        modes: ogg::Modes,
        before: Option<u32>,
    },
    Opus,
    Pcm {
        pcm: Pcm,
        n_channels: u16,
    },
}

impl Measure {
    pub(super) fn new(track: &Track) -> Result<Self, Reason> {
        Ok(match &track.coding {
            Coding::Aac => Self::Fixed(aac::FRAME_LEN),
            Coding::Alac(_) => Self::Alac(track.clone()),
            Coding::Flac(_) => Self::Flac,
            Coding::Mp3 => Self::Mp3 { rate_hz: track.rate_hz, n_channels: track.n_channels },
            Coding::Opus(_) => Self::Opus,
            Coding::Pcm(pcm) => Self::Pcm { pcm: *pcm, n_channels: track.n_channels },
            Coding::Vorbis(headers) => {
                let malformed = || Reason::malformed("the Vorbis setup does not parse");
                // The identification header has 30 bytes.
                let (ident, setup) = headers.split_at_checked(30).ok_or_else(malformed)?;
                let ident = ogg::Ident::read(ident)?;
                let modes = ogg::Modes::read(setup).ok_or_else(malformed)?;
                Self::Vorbis { ident, modes, before: None }
            }
        })
    }

    /// The frames of the next packet.
    pub(super) fn frames(&mut self, packet: &[u8]) -> Result<u32, Reason> {
        let lost = |what| Reason::malformed(format!("a packet is no {what} packet"));
        match self {
            Self::Fixed(n) => Ok(*n),
            Self::Alac(track) => Ok(track.packet_len(packet)),
            Self::Flac => {
                let header = flac::Header::read(packet).ok_or_else(|| lost("FLAC"))?;
                Ok(header.n_frames)
            }
            Self::Mp3 { rate_hz, n_channels } => {
                match mp3::packet_shape(packet).ok_or_else(|| lost("MP3"))? {
                    shape if (shape.0, shape.1) != (*rate_hz, *n_channels) => {
                        Err(Reason::ParamsChanged)
                    }
                    (.., n_frames) => Ok(n_frames),
                }
            }
            Self::Vorbis { ident, modes, before } => {
                let len = modes.block_len(packet, ident).ok_or_else(|| lost("Vorbis"))?;
                let before = before.replace(len);
                Ok(before.map_or(0, |before| (before + len) / 4))
            }
            Self::Opus => opus::packet_len(packet).ok_or_else(|| lost("Opus")),
            Self::Pcm { pcm, n_channels } => {
                let block = pcm.n_bytes() * usize::from(*n_channels);
                if !packet.len().is_multiple_of(block.max(1)) {
                    return Err(lost("PCM"));
                }
                Ok((packet.len() / block.max(1)) as u32)
            }
        }
    }
}
