//! STREAMINFO, RFC 9639 section 8.2, and the way past the other metadata.

use super::frame::Header;
use crate::{
    bytes::{be_u16, be_u32, be_u64, from},
    error::Reason,
};

const LEN: usize = 34;

/// What is said of all frames of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamInfo {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    pub(crate) bits: u32,
    /// PCM frames in the stream, 0 if unknown.
    pub(crate) promised: u64,
    /// The fewest and most PCM frames in a block.
    pub(crate) block_lens: [u16; 2],
}

impl StreamInfo {
    /// Reads the body of the block.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let body = body.first_chunk::<LEN>()?;
        let packed = be_u64(body, 10)?;
        Some(Self {
            rate_hz: (packed >> 44) as u32,
            n_channels: (packed >> 41 & 7) as u16 + 1,
            bits: (packed >> 36 & 31) as u32 + 1,
            promised: packed & 0xF_FFFF_FFFF,
            block_lens: [be_u16(body, 0)?, be_u16(body, 2)?],
        })
    }

    /// Takes bits and channels from the first frame: they are right where the two disagree, since
    /// the frame has a checksum and STREAMINFO has none.
    pub(crate) fn agree(&mut self, first: &Header) -> Result<(), Reason> {
        self.n_channels = first.n_channels;
        self.bits = first.bits.unwrap_or(self.bits);
        match first.rate_hz {
            // Which of two rates is meant cannot be heard from the samples.
            Some(rate) if rate != self.rate_hz => Err(Reason::malformed(format!(
                "STREAMINFO says {} Hz and the frames {rate} Hz",
                self.rate_hz
            ))),
            _ => Ok(()),
        }
    }
}

/// STREAMINFO of the stream at `offset`; the offset behind it, and that behind all metadata blocks
/// if their lengths can be believed.
pub(crate) fn read(
    bytes: &[u8],
    offset: usize,
) -> Result<(StreamInfo, usize, Option<usize>), Reason> {
    let mut at = offset.saturating_add(4);
    let mut info = None;
    let mut behind = at;
    let end = loop {
        let Some(header) = be_u32(bytes, at) else { break None };
        let (kind, len) = (header >> 24 & 0x7F, (header & 0x00FF_FFFF) as usize);
        if kind == 0 && info.is_none() {
            info = StreamInfo::parse(from(bytes, at + 4));
            behind = at + 4 + len;
        }
        at = at + 4 + len;
        if header >> 31 == 1 {
            break (at <= bytes.len()).then_some(at);
        }
    };
    let info = info.ok_or_else(|| Reason::malformed("there is no STREAMINFO"))?;
    Ok((info, behind, end))
}
