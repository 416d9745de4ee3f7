//! As much of the Vorbis headers as the timeline needs: rate, channels and block sizes.

use crate::{
    bytes::{le_u32, u8_at},
    error::Reason,
};

/// The identification header, Vorbis I section 4.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ident {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    /// Frames in short and long blocks.
    pub(crate) block_lens: [u32; 2],
}

impl Ident {
    pub(crate) fn read(packet: &[u8]) -> Result<Self, Reason> {
        let short = || Reason::malformed("the Vorbis identification header is too short");
        let exponents = u8_at(packet, 28).ok_or_else(short)?;
        let (short_exp, long_exp) = (exponents & 15, exponents >> 4);
        if !(6..=13).contains(&short_exp) || !(short_exp..=13).contains(&long_exp) {
            return Err(Reason::malformed("Vorbis block sizes are out of range"));
        }
        Ok(Self {
            rate_hz: le_u32(packet, 12).ok_or_else(short)?,
            n_channels: u16::from(u8_at(packet, 11).ok_or_else(short)?),
            block_lens: [1 << short_exp, 1 << long_exp],
        })
    }

    /// Frames in a block of this kind.
    pub(crate) fn block_len(&self, is_long: bool) -> usize {
        let [short, long] = self.block_lens;
        (if is_long { long } else { short }) as usize
    }
}

/// Which modes use long blocks: the last thing in the setup header.
///
/// Everything before it has variable length, so it is read backwards from the framing bit: each
/// mode ends in 8 bits of mapping, after 32 bits of zero and the block flag. The count of modes in
/// front of them confirms it. A wrong guess cannot do harm: the lengths that it predicts are
/// compared with what the decoder gives, and a crop then starts from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    long: u64,
    n_bits: u32,
}

impl Modes {
    pub(crate) fn read(setup: &[u8]) -> Option<Self> {
        let framing = setup.len().checked_mul(8)?.checked_sub(1)?;
        let framing = (0..=framing).rev().find(|&at| bit(setup, at) == Some(1))?;
        let mut at = framing;
        let mut found = None;
        let mut long = 0u64;
        for n in 1..=64u32 {
            let Some(mode) = at.checked_sub(41) else { break };
            if bits(setup, mode + 1, 16)? != 0
                || bits(setup, mode + 17, 16)? != 0
                || bits(setup, mode + 33, 8)? >= 64
            {
                break;
            }
            long = long << 1 | u64::from(bits(setup, mode, 1)?);
            at = mode;
            if let Some(count) = at.checked_sub(6)
                && bits(setup, count, 6)? == n - 1
            {
                found = Some(Self { long, n_bits: 32 - (n - 1).leading_zeros() });
            }
        }
        found
    }

    /// The block length of an audio packet; `None` for other packets.
    pub(crate) fn block_len(self, packet: &[u8], ident: &Ident) -> Option<u32> {
        let first = u32::from(*packet.first()?);
        if first & 1 != 0 {
            return None;
        }
        let mode = first >> 1 & ((1 << self.n_bits) - 1);
        let [short, long] = ident.block_lens;
        Some(if self.long >> mode & 1 != 0 { long } else { short })
    }
}

/// One bit; Vorbis packs the least significant first.
fn bit(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u8_at(bytes, at / 8)?) >> (at % 8) & 1)
}

fn bits(bytes: &[u8], at: usize, n: usize) -> Option<u32> {
    (0..n).try_fold(0, |value, i| Some(value | bit(bytes, at + i)? << i))
}
