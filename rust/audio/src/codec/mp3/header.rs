//! The four bytes in front of every frame.

use crate::{bytes::be_u32, names::Codec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Mpeg1,
    Mpeg2,
    Mpeg25,
}

/// Which of the three codecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    One,
    Two,
    Three,
}

/// One frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) layer: Layer,
    pub(crate) rate_hz: u32,
    pub(crate) is_mono: bool,
    pub(crate) has_crc: bool,
    pub(crate) kbits: u32,
    /// The whole frame, header included.
    pub(crate) len: usize,
}

/// The headers that a stream can have, worked out once: a walk over a long stream reads many.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    word: u32,
    /// By the index of the bit rate, without padding.
    of_rate: [Option<Header>; 16],
    /// Their lengths; 0 where there is none.
    lens: [u16; 16],
    /// What padding adds.
    slot: usize,
}

impl Headers {
    /// Sync, version, layer and rate: all that [`Header::agrees_with`] compares.
    const SAME: u32 = 0xFFFE_0C00;

    /// Headers that agree with the one at `offset`.
    pub(crate) fn like(bytes: &[u8], offset: usize) -> Option<Self> {
        let word = be_u32(bytes, offset)? & Self::SAME;
        let of_rate = std::array::from_fn(|i| Header::of(word | (i as u32) << 12).ok());
        let lens = of_rate.map(|header: Option<Header>| header.map_or(0, |h| h.len as u16));
        let is_layer_1 = of_rate.iter().flatten().any(|header| header.layer == Layer::One);
        Some(Self { word, of_rate, lens, slot: if is_layer_1 { 4 } else { 1 } })
    }

    /// The length of the frame with this header, and whether it is mono, if the header agrees.
    #[inline]
    pub(crate) fn len(&self, word: u32) -> Option<(usize, bool)> {
        let len = *self.lens.get((word >> 12 & 15) as usize)?;
        let agrees = word & Self::SAME == self.word && len != 0;
        let padding = if word >> 9 & 1 == 1 { self.slot } else { 0 };
        agrees.then_some((usize::from(len) + padding, word >> 6 & 3 == 3))
    }

    /// The header at `offset`, if there is one that agrees.
    pub(crate) fn read(&self, bytes: &[u8], offset: usize) -> Option<Header> {
        let word = be_u32(bytes, offset)?;
        if word & Self::SAME != self.word {
            return None;
        }
        let mut header = (*self.of_rate.get((word >> 12 & 15) as usize)?)?;
        header.len += self.slot * (word >> 9 & 1) as usize;
        header.has_crc = word >> 16 & 1 == 0;
        header.is_mono = word >> 6 & 3 == 3;
        Some(header)
    }
}

/// Why four bytes are no usable header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// They are something else.
    Other,
    /// A free bit rate.
    FreeFormat(Layer),
}

/// Bit rates by index, of MPEG-1 and of MPEG-2, each of layers I to III. Index 0 is a free bit rate.
const KBITS: [[[u32; 15]; 3]; 2] = [
    [
        [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
        [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    ],
    [
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
        [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
        [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ],
];

impl Header {
    /// The header at `offset`.
    pub(crate) fn read(bytes: &[u8], offset: usize) -> Result<Self, NoHeader> {
        Self::of(be_u32(bytes, offset).ok_or(NoHeader::Other)?)
    }

    fn of(word: u32) -> Result<Self, NoHeader> {
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
        let layer = match word >> 17 & 3 {
            1 => Layer::Three,
            2 => Layer::Two,
            3 => Layer::One,
            _ => return Err(NoHeader::Other),
        };
        let of_version = KBITS.get(usize::from(version != Version::Mpeg1));
        let of_layer = of_version.and_then(|rates| rates.get(layer as usize));
        let kbits = of_layer.and_then(|rates| rates.get((word >> 12 & 15) as usize));
        let kbits = *kbits.ok_or(NoHeader::Other)?;
        if kbits == 0 {
            return Err(NoHeader::FreeFormat(layer));
        }
        let padding = word >> 9 & 1;
        let len = match (layer, version) {
            (Layer::One, _) => (12_000 * kbits / rate_hz + padding) * 4,
            (Layer::Three, Version::Mpeg2 | Version::Mpeg25) => 72_000 * kbits / rate_hz + padding,
            _ => 144_000 * kbits / rate_hz + padding,
        };
        Ok(Self {
            version,
            layer,
            rate_hz,
            is_mono: word >> 6 & 3 == 3,
            has_crc: word >> 16 & 1 == 0,
            kbits,
            len: len as usize,
        })
    }

    /// Whether `other` can belong to the same stream. The channel mode may differ: a change of it
    /// is found and reported, not taken for junk.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.version == other.version && self.layer == other.layer && self.rate_hz == other.rate_hz
    }

    pub(crate) fn n_channels(&self) -> u16 {
        if self.is_mono { 1 } else { 2 }
    }

    /// Frames of PCM in one frame of MPEG.
    pub(crate) fn n_frames(&self) -> u64 {
        match (self.layer, self.version) {
            (Layer::One, _) => 384,
            (Layer::Three, Version::Mpeg2 | Version::Mpeg25) => 576,
            _ => 1152,
        }
    }

    pub(crate) fn side_info_len(&self) -> usize {
        match (self.version, self.is_mono) {
            (Version::Mpeg1, false) => 32,
            (Version::Mpeg1, true) | (_, false) => 17,
            (_, true) => 9,
        }
    }

    /// Granules of a frame of layer III.
    pub(crate) fn n_granules(&self) -> usize {
        if self.version == Version::Mpeg1 { 2 } else { 1 }
    }

    /// Whether Symphonia refuses it: it holds MPEG-2 to rules on bit rates that are MPEG-1's.
    pub(crate) fn is_refused(&self) -> bool {
        self.layer == Layer::Two
            && if self.is_mono {
                self.kbits >= 224
            } else {
                matches!(self.kbits, 32 | 48 | 56 | 80)
            }
    }

    pub(crate) fn codec(&self) -> Codec {
        match self.layer {
            Layer::One => Codec::Mp1,
            Layer::Two => Codec::Mp2,
            Layer::Three => Codec::Mp3,
        }
    }

    /// Bytes that go through the bit reservoir.
    pub(crate) fn main_data_len(&self) -> usize {
        let crc = if self.has_crc { 2 } else { 0 };
        self.len.saturating_sub(4 + crc + self.side_info_len())
    }

    /// How far back main data may begin.
    pub(crate) fn reservoir_len(&self) -> usize {
        match (self.layer, self.version) {
            (Layer::One | Layer::Two, _) => 0,
            (Layer::Three, Version::Mpeg1) => 511,
            (Layer::Three, _) => 255,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_worked_out_equal_those_that_are_read() {
        for first in (0..1u32 << 9).map(|bits| 0xFFE0_1000 | (bits & 0x1F) << 16 | bits >> 5 << 8) {
            let first = first.to_be_bytes();
            let Ok(header) = Header::read(&first, 0) else { continue };
            let headers = Headers::like(&first, 0).unwrap();
            for bits in 0..1u32 << 21 {
                if bits & 0x3F != 0 {
                    continue; // emphasis and the like
                }
                let word = (0xFFE0_0000 | bits).to_be_bytes();
                let read = Header::read(&word, 0).ok().filter(|h| h.agrees_with(&header));
                assert_eq!(headers.read(&word, 0), read);
                let len = headers.len(u32::from_be_bytes(word));
                assert_eq!(len, read.map(|header| (header.len, header.is_mono)));
            }
        }
    }
}
