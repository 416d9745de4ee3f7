//! The four bytes in front of every frame.

use crate::audio::bytes::be_u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Mpeg1,
    Mpeg2,
    Mpeg25,
}

/// One frame header of layer III.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: Version,
    pub(super) rate_hz: u32,
    pub(super) is_mono: bool,
    pub(super) has_crc: bool,
    /// The whole frame, header included.
    pub(super) len: usize,
}

/// Why four bytes are no usable header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// They are something else.
    Other,
    /// Layer I or II.
    OtherLayer(&'static str),
    /// Layer III with a free bit rate.
    FreeFormat,
}

const KBITS_MPEG1: [u32; 15] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const KBITS_MPEG2: [u32; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];

impl Header {
    /// The header at `offset`.
    pub(super) fn read(bytes: &[u8], offset: usize) -> Result<Self, NoHeader> {
        let word = be_u32(bytes, offset).ok_or(NoHeader::Other)?;
        if word >> 21 != 0x7FF {
            return Err(NoHeader::Other);
        }
        let version = match word >> 19 & 3 {
            0 => Version::Mpeg25,
            2 => Version::Mpeg2,
            3 => Version::Mpeg1,
            _ => return Err(NoHeader::Other),
        };
        let rates = match version {
            Version::Mpeg1 => [44_100, 48_000, 32_000],
            Version::Mpeg2 => [22_050, 24_000, 16_000],
            Version::Mpeg25 => [11_025, 12_000, 8_000],
        };
        let rate_hz = *rates.get((word >> 10 & 3) as usize).ok_or(NoHeader::Other)?;
        let kbits = if version == Version::Mpeg1 { KBITS_MPEG1 } else { KBITS_MPEG2 };
        let kbits = *kbits.get((word >> 12 & 15) as usize).ok_or(NoHeader::Other)?;
        match word >> 17 & 3 {
            1 => {}
            2 => return Err(NoHeader::OtherLayer("MPEG layer II")),
            3 => return Err(NoHeader::OtherLayer("MPEG layer I")),
            _ => return Err(NoHeader::Other),
        }
        if kbits == 0 {
            return Err(NoHeader::FreeFormat);
        }
        let slots = if version == Version::Mpeg1 { 144_000 } else { 72_000 };
        let padding = word >> 9 & 1;
        Ok(Self {
            version,
            rate_hz,
            is_mono: word >> 6 & 3 == 3,
            has_crc: word >> 16 & 1 == 0,
            len: (slots * kbits / rate_hz + padding) as usize,
        })
    }

    /// Whether `other` can belong to the same stream. The channel mode may differ: a change of it
    /// is found and reported, not taken for junk.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        self.version == other.version && self.rate_hz == other.rate_hz
    }

    pub(super) fn n_channels(&self) -> u16 {
        if self.is_mono { 1 } else { 2 }
    }

    /// Frames of PCM in one frame of MPEG.
    pub(super) fn n_frames(&self) -> u64 {
        if self.version == Version::Mpeg1 { 1152 } else { 576 }
    }

    pub(super) fn side_info_len(&self) -> usize {
        match (self.version, self.is_mono) {
            (Version::Mpeg1, false) => 32,
            (Version::Mpeg1, true) | (_, false) => 17,
            (_, true) => 9,
        }
    }

    /// Bytes that go through the bit reservoir.
    pub(super) fn main_data_len(&self) -> usize {
        let crc = if self.has_crc { 2 } else { 0 };
        self.len.saturating_sub(4 + crc + self.side_info_len())
    }

    /// How far back main data may begin.
    pub(super) fn reservoir_len(&self) -> usize {
        if self.version == Version::Mpeg1 { 511 } else { 255 }
    }
}
