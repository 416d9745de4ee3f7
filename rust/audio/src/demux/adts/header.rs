//! The headers of ADTS, and the packets that follow each other behind them.

use crate::{
    bits::BitReader,
    codec::aac::{config::RATES_HZ, raw::FRAME_LEN},
    error::Reason,
    info::AudioInfo,
    stream::List,
};

/// One header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Version, object type, rate and channels: the same in the whole stream.
    pub(super) object: u32,
    pub(super) rate_index: u32,
    pub(super) channels: u32,
    /// Where the packet begins, and where it ends.
    pub(super) body: usize,
    pub(super) len: usize,
    pub(super) n_blocks: u32,
}

impl Header {
    pub(super) fn read(bytes: &[u8], offset: usize) -> Option<Self> {
        let mut bits = BitReader::new(bytes.get(offset..offset.checked_add(7)?)?);
        if bits.read(12)? != 0xFFF {
            return None;
        }
        bits.read(1)?;
        let layer = bits.read(2)?;
        let has_crc = bits.read(1)? == 0;
        let object = bits.read(2)? + 1;
        let rate_index = bits.read(4)?;
        bits.read(1)?;
        let channels = bits.read(3)?;
        bits.read(4)?;
        let len = bits.read(13)? as usize;
        bits.read(11)?;
        let n_blocks = bits.read(2)? + 1;
        let body = if has_crc { 9 } else { 7 };
        let is_valid = layer == 0 && (rate_index as usize) < RATES_HZ.len() && len > body;
        is_valid.then_some(Self { object, rate_index, channels, body, len, n_blocks })
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        (self.object, self.rate_index, self.channels)
            == (other.object, other.rate_index, other.channels)
    }
}

/// Where the header of the packet at `body` begins.
pub(in crate::demux) fn header_of(bytes: &[u8], body: usize) -> Option<usize> {
    [7, 9].into_iter().find_map(|len| {
        let at = body.checked_sub(len)?;
        (Header::read(bytes, at)?.body == len).then_some(at)
    })
}

/// Lists up to `n` packets of a stream like `info` that follow each other from the first byte on. Where
/// the last one ends.
pub(in crate::demux) fn list(
    bytes: &[u8],
    info: &AudioInfo,
    n: usize,
    list: &mut List<'_>,
) -> Result<usize, Reason> {
    let first = Header::read(bytes, 0).filter(|first| {
        let rate_hz = RATES_HZ.get(first.rate_index as usize);
        first.object == 2
            && rate_hz == Some(&info.rate_hz)
            && first.channels == info.n_channels.into()
    });
    let mut at = 0;
    for _ in 0..n {
        let is_next = |header: &Header| {
            header.n_blocks == 1 && first.is_some_and(|first| header.agrees_with(&first))
        };
        let Some(header) = Header::read(bytes, at).filter(is_next) else { break };
        list.push(at + header.body, header.len - header.body, FRAME_LEN)?;
        at += header.len;
    }
    Ok(at)
}
