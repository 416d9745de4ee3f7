//! Frames into the sink.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use pulp::{Simd, WithSimd};

use super::{
    bits::Bits,
    crc::is_intact,
    frame::{Header, Stereo},
    info::StreamInfo,
    subframe,
};
use crate::{error::Reason, limits::MAX_CHANNELS, report::Damage, sink::Sink, stream::Outcome};

/// Decodes frames one by one; they need nothing of each other.
pub(crate) struct Feed {
    info: StreamInfo,
    arch: pulp::Arch,
    planes: Vec<Vec<i32>>,
}

impl Feed {
    pub(crate) fn new(info: StreamInfo) -> Self {
        let arch = pulp::Arch::new();
        Self { info, arch, planes: Vec::new() }
    }

    /// Decodes a frame whose bytes are as they were written.
    pub(crate) fn push(
        &mut self,
        header: &Header,
        pts: i64,
        data: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<Outcome, Reason> {
        let is_rate = header.rate_hz.is_none_or(|rate| rate == self.info.rate_hz);
        let n_bits = header.bits.unwrap_or(self.info.bits);
        if header.n_channels != self.info.n_channels || !is_rate {
            sink.lose(Damage::ParamsChanged, 1, Reason::ParamsChanged)?;
            return Ok(Outcome::Decoded);
        }
        if n_bits == 32 && header.stereo != Stereo::Apart {
            let what = "FLAC of 32 bits with stereo differences".to_owned();
            return Err(Reason::UnsupportedCodec(what));
        }
        self.planes.resize_with(usize::from(header.n_channels), Vec::new);
        for plane in &mut self.planes {
            plane.resize(header.n_frames as usize, 0);
        }
        let bits = Bits::new(data.get(header.len..).unwrap_or_default());
        let run = DecodeChannels { bits, n_bits, stereo: header.stereo, planes: &mut self.planes };
        if self.arch.dispatch(run).is_none() {
            return Ok(Outcome::Corrupt);
        }
        let mut planes = [&[][..]; MAX_CHANNELS as usize];
        for (slice, plane) in planes.iter_mut().zip(&self.planes) {
            *slice = plane;
        }
        sink.push(pts, planes.get(..self.planes.len()).unwrap_or_default());
        Ok(Outcome::Decoded)
    }
}

/// Bytes of the frame that `data` begin with, whatever follows it. `None` if its checksum does not say so.
pub(crate) fn frame_len(header: &Header, info: &StreamInfo, data: &[u8]) -> Option<usize> {
    // Decoding must not cost more than the bytes that it explains.
    if header.n_frames as usize > data.len().saturating_mul(MOST_PER_BYTE) {
        return None;
    }
    let mut planes = vec![vec![0; header.n_frames as usize]; usize::from(header.n_channels)];
    let body = data.get(header.len..)?;
    let n_bits = header.bits.unwrap_or(info.bits);
    let (bits, stereo) = (Bits::new(body), header.stereo);
    let run = DecodeChannels { bits, n_bits, stereo, planes: &mut planes };
    let n_left = pulp::Arch::new().dispatch(run)?;
    let len = (data.len() - n_left).checked_add(2)?;
    data.get(..len).filter(|frame| is_intact(frame)).map(<[u8]>::len)
}

/// PCM frames for each byte that are decoded only to learn how long a frame is.
const MOST_PER_BYTE: usize = 64;

/// All channels of a frame, compiled for each instruction set, and the bytes that are left; `None` if its bits
/// make no sense.
struct DecodeChannels<'a> {
    bits: Bits<'a>,
    n_bits: u32,
    stereo: Stereo,
    planes: &'a mut [Vec<i32>],
}

impl WithSimd for DecodeChannels<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<usize> {
        let Self { mut bits, n_bits, stereo, planes } = self;
        let shift = 32 - n_bits;
        for (i, plane) in planes.iter_mut().enumerate() {
            // A difference of two channels has a bit more.
            let is_side = match stereo {
                Stereo::Apart => false,
                Stereo::LeftSide | Stereo::MidSide => i == 1,
                Stereo::SideRight => i == 0,
            };
            subframe::decode(&mut bits, n_bits + u32::from(is_side), plane)?;
        }
        // The checksum is behind them.
        let n_left = bits.n_bytes_left();
        if n_left < 2 {
            return None;
        }
        match (stereo, planes) {
            (Stereo::Apart, planes) => {
                planes.iter_mut().flatten().for_each(|x| *x = x.wrapping_shl(shift));
            }
            (stereo, [a, b]) => {
                let pairs = a.iter_mut().zip(b);
                match stereo {
                    Stereo::LeftSide => pairs.for_each(|(left, side)| {
                        *side = left.wrapping_sub(*side).wrapping_shl(shift);
                        *left = left.wrapping_shl(shift);
                    }),
                    Stereo::SideRight => pairs.for_each(|(side, right)| {
                        *side = side.wrapping_add(*right).wrapping_shl(shift);
                        *right = right.wrapping_shl(shift);
                    }),
                    // Half the sum was rounded down: it was odd where the difference is.
                    _ => pairs.for_each(|(mid, side)| {
                        let sum = mid.wrapping_shl(1) | (*side & 1);
                        let (left, right) = (sum.wrapping_add(*side), sum.wrapping_sub(*side));
                        *mid = (left >> 1).wrapping_shl(shift);
                        *side = (right >> 1).wrapping_shl(shift);
                    }),
                }
            }
            _ => return None,
        }
        Some(n_left)
    }
}
