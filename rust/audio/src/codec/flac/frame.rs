//! The header of a FLAC frame, RFC 9639 section 9.1.

use super::crc::crc_8;
use crate::bytes::u8_at;

/// The longest that a header can be.
pub(crate) const MAX_HEADER_LEN: usize = 16;

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: Number,
    /// PCM frames in it.
    pub(crate) n_frames: u32,
    pub(crate) n_channels: u16,
    pub(crate) stereo: Stereo,
    /// `None`: what STREAMINFO says.
    pub(crate) rate_hz: Option<u32>,
    /// `None`: what STREAMINFO says.
    pub(crate) bits: Option<u32>,
    /// Bytes of the header.
    pub(crate) len: usize,
}

/// What the two channels of a frame are, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stereo {
    /// Channels, however many.
    Apart,
    /// The left one, and what the right one is less.
    LeftSide,
    /// The same difference, and the right one.
    SideRight,
    /// Half the sum, rounded down, and the difference.
    MidSide,
}

/// Which place a frame has in the stream. All frames of a stream count the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// Blocks of one length: how many come before.
    Block(u64),
    /// Blocks of any length: how many PCM frames come before.
    Frame(u64),
}

impl Header {
    /// The header that `bytes` begin with. Its checksum must be right.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header = Self::read(bytes)?;
        let end = header.len - 1;
        (crc_8(bytes.get(..end)?) == u8_at(bytes, end)?).then_some(header)
    }

    /// The header that `bytes` begin with, whatever its checksum.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let &[0xFF, sync @ (0xF8 | 0xF9), sizes, kinds, first] = bytes.first_chunk()? else {
            return None;
        };
        let (size_code, rate_code) = (sizes >> 4, sizes & 15);
        let (channel_code, bits_code) = (kinds >> 4, kinds >> 1 & 7);
        if size_code == 0
            || rate_code == 15
            || channel_code > 10
            || bits_code == 3
            || kinds & 1 == 1
        {
            return None;
        }
        let mut at = 5;
        let mut byte = || {
            at += 1;
            u8_at(bytes, at - 1)
        };
        let number = coded_number(first, &mut byte)?;
        let number = match sync {
            0xF8 if number < 1 << 31 => Number::Block(number),
            0xF9 => Number::Frame(number),
            _ => return None,
        };
        let mut word = |n_bytes| (0..n_bytes).try_fold(0, |n, _| Some(n << 8 | u32::from(byte()?)));
        let n_frames = match size_code {
            1 => 192,
            2..=5 => 576 << (size_code - 2),
            6 => word(1)? + 1,
            7 => word(2)? + 1,
            _ => 256 << (size_code - 8),
        };
        let rate_hz = match rate_code {
            0 => None,
            1..=11 => RATES_HZ.get(usize::from(rate_code) - 1).copied(),
            12 => Some(word(1)? * 1000),
            13 => Some(word(2)?),
            _ => Some(word(2)? * 10),
        };
        let bits = match bits_code {
            0 => None,
            1 => Some(8),
            2 => Some(12),
            4 => Some(16),
            5 => Some(20),
            6 => Some(24),
            _ => Some(32),
        };
        (n_frames <= 65_535).then_some(Self {
            number,
            n_frames,
            n_channels: if channel_code < 8 { u16::from(channel_code) + 1 } else { 2 },
            stereo: match channel_code {
                8 => Stereo::LeftSide,
                9 => Stereo::SideRight,
                10 => Stereo::MidSide,
                _ => Stereo::Apart,
            },
            rate_hz,
            bits,
            len: at + 1,
        })
    }

    /// The number that the next frame has.
    pub(crate) fn next_number(&self) -> Number {
        match self.number {
            Number::Block(n) => Number::Block(n + 1),
            Number::Frame(n) => Number::Frame(n + u64::from(self.n_frames)),
        }
    }

    /// Whether both can be frames of one stream.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.n_channels == other.n_channels
            && self.rate_hz == other.rate_hz
            && self.bits == other.bits
            && self.counts_like(other)
    }

    /// Whether both number the same thing.
    pub(crate) fn counts_like(&self, other: &Self) -> bool {
        matches!(self.number, Number::Block(_)) == matches!(other.number, Number::Block(_))
    }
}

const RATES_HZ: [u32; 11] =
    [88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];

/// A number coded as UTF-8 codes characters, extended to 36 bits.
fn coded_number(first: u8, mut next: impl FnMut() -> Option<u8>) -> Option<u64> {
    let n_ones = first.leading_ones();
    match n_ones {
        0 => return Some(u64::from(first)),
        1 | 8 => return None,
        _ => {}
    }
    let head = u64::from(first) & (0x7F >> n_ones);
    (1..n_ones).try_fold(head, |number, _| {
        let byte = next()?;
        (byte >> 6 == 0b10).then_some(number << 6 | u64::from(byte & 0x3F))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: &[u8]) -> Vec<u8> {
        [bytes, &[crc_8(bytes)]].concat()
    }

    #[test]
    fn fields_are_read() {
        let bytes = header(&[0xFF, 0xF8, 0xC9, 0xA8, 0xC4, 0x80]);
        let frame = Header::parse(&bytes).unwrap();
        assert_eq!((frame.number, frame.n_frames), (Number::Block(256), 4096));
        assert_eq!((frame.n_channels, frame.stereo), (2, Stereo::MidSide));
        assert_eq!((frame.rate_hz, frame.bits, frame.len), (Some(44_100), Some(16), 7));
        let bytes = header(&[0xFF, 0xF9, 0x7C, 0x50, 0x05, 1, 0, 96]);
        let frame = Header::parse(&bytes).unwrap();
        assert_eq!((frame.number, frame.n_frames), (Number::Frame(5), 257));
        assert_eq!((frame.n_channels, frame.rate_hz, frame.bits), (6, Some(96_000), None));
        assert_eq!(frame.next_number(), Number::Frame(262));
    }

    #[test]
    fn what_is_reserved_is_no_header() {
        for bytes in [
            [0xFF, 0xF8, 0x09, 0x18, 0],
            [0xFF, 0xF8, 0xCF, 0x18, 0],
            [0xFF, 0xF8, 0xC9, 0xB8, 0],
            [0xFF, 0xF8, 0xC9, 0x16, 0],
            [0xFF, 0xF8, 0xC9, 0x19, 0],
            [0xFF, 0xF8, 0xC9, 0x18, 0x80],
            [0xFF, 0xFA, 0xC9, 0x18, 0],
        ] {
            assert_eq!(Header::parse(&header(&bytes)), None, "{bytes:x?}");
        }
        let mut bytes = header(&[0xFF, 0xF8, 0xC9, 0x18, 0]);
        assert!(Header::parse(&bytes).is_some());
        bytes[5] ^= 1;
        assert_eq!(Header::parse(&bytes), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_parse_or_not(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..20)) {
            let bytes = [&[0xFF, 0xF8][..], &bytes].concat();
            for len in 0..bytes.len() {
                if let Some(header) = Header::parse(&header(&bytes[..len])) {
                    proptest::prop_assert!(header.len <= MAX_HEADER_LEN);
                }
            }
        }
    }
}
