//! A frame's granules: from side information and main data to samples of left and right.

// What `pulp` dispatches to must be inlined into the function that it compiles for an instruction
// set.
#![allow(clippy::inline_always)]

use super::{
    bands::{N_SAMPLES, Rate},
    huffman, requantize,
    reservoir::Reservoir,
    scale_factors::ScaleFactors,
    side_info::{Channel, SideInfo},
    stereo::{self, Joint, Pair},
};
use crate::{
    bits::BitReader,
    codec::mp3::header::{Header, Layer, Version},
};

/// A frame, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) header: Header,
    pub(super) joint: Joint,
    pub(super) side_info: &'a [u8],
    pub(super) main_data: &'a [u8],
}

impl<'a> Parts<'a> {
    /// `None` if this is no whole frame of so many channels, or fewer.
    pub(super) fn of(frame: &'a [u8], n_channels: usize) -> Option<Self> {
        let header = Header::read(frame, 0).ok()?;
        let is_fit = header.layer == Layer::Three
            && header.len == frame.len()
            && usize::from(header.n_channels()) <= n_channels;
        let start = if header.has_crc { 6 } else { 4 };
        let (side_info, main_data) =
            frame.get(start..)?.split_at_checked(header.side_info_len()).filter(|_| is_fit)?;
        Some(Self { header, joint: Joint::of(*frame.get(3)?), side_info, main_data })
    }
}

/// A granule of a channel, as it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spectrum {
    pub(super) channel: Channel,
    factors: ScaleFactors,
    pub(super) samples: [f32; N_SAMPLES],
    /// Samples in front of those that are all zero.
    pub(super) n: usize,
}

impl Default for Spectrum {
    fn default() -> Self {
        let (channel, factors) = (Channel::default(), ScaleFactors::default());
        Self { channel, factors, samples: [0.0; N_SAMPLES], n: 0 }
    }
}

/// What the granules of a frame have in common.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) header: Header,
    pub(super) joint: Joint,
    pub(super) rate: &'static Rate,
    pub(super) info: &'a SideInfo,
}

impl Frame<'_> {
    /// Reads all granules; `None` if one of them makes no sense.
    #[inline(always)]
    pub(super) fn read(
        &self,
        reservoir: &Reservoir,
        spectra: &mut [[Spectrum; 2]; 2],
    ) -> Option<()> {
        let Self { header, joint, info, .. } = self;
        let n_channels = usize::from(header.n_channels());
        let (main_data, n_missing) = reservoir.main_data(info.main_data_begin);
        let n_missing = 8 * n_missing;
        // In bits, as if nothing were missing.
        let mut start = 0;
        let mut first: [ScaleFactors; 2] = Default::default();
        for ((granule, of_granule), spectra) in
            info.granules.iter().enumerate().take(header.n_granules()).zip(spectra)
        {
            let is_missing = start < n_missing;
            let channels = of_granule.iter().zip(spectra).zip(&mut first).zip(&info.is_shared);
            for (c, (((channel, spectrum), first), is_shared)) in
                channels.enumerate().take(n_channels)
            {
                spectrum.channel = *channel;
                let begin = start;
                start += channel.n_bits;
                if is_missing {
                    spectrum.silence();
                    continue;
                }
                let mut bits = BitReader::starting_at(main_data, begin - n_missing);
                spectrum.factors = if header.version == Version::Mpeg1 {
                    let shared = (granule == 1).then_some((&*first, is_shared));
                    ScaleFactors::read_mpeg1(&mut bits, channel, shared)?
                } else {
                    let is_position = c == 1 && joint.is_intensity;
                    ScaleFactors::read_mpeg2(&mut bits, channel, is_position)?
                };
                *first = spectrum.factors;
                spectrum.read(&mut bits, start - n_missing, 8 * main_data.len())?;
                let Spectrum { factors, samples, n, .. } = spectrum;
                requantize::scale(channel, factors, self.rate, *n, samples);
            }
            let [left, right] = of_granule;
            // Channels that are coded together have the same windows.
            if (joint.is_mid_side || joint.is_intensity) && left.block != right.block {
                return None;
            }
        }
        Some(())
    }

    /// Makes left and right of a granule.
    #[inline(always)]
    pub(super) fn join(&self, [left, right]: &mut [Spectrum; 2]) {
        if !(self.joint.is_mid_side || self.joint.is_intensity) {
            return;
        }
        let n = left.n.max(right.n);
        (left.n, right.n) = (n, n);
        let is_mpeg1 = self.header.version == Version::Mpeg1;
        let Spectrum { channel, factors, samples, .. } = right;
        let pair = Pair { right: channel, positions: factors, is_mpeg1, rate: self.rate };
        stereo::join(self.joint, &pair, n, &mut left.samples, samples);
    }
}

impl Spectrum {
    fn silence(&mut self) {
        self.factors = ScaleFactors::default();
        self.samples.fill(0.0);
        self.n = 0;
    }

    /// Reads the samples up to bit `end`; `None` if that or what is read is behind bit `limit`.
    #[inline(always)]
    fn read(&mut self, bits: &mut BitReader<'_>, end: usize, limit: usize) -> Option<()> {
        if bits.position() > end || end > limit {
            return None;
        }
        self.n = huffman::read(bits, end, &self.channel, &mut self.samples);
        (bits.position() <= limit).then_some(())
    }
}

/// Whether a frame has a mixed block, or different blocks in two channels.
#[cfg(test)]
pub(crate) fn has_odd_blocks(frame: &[u8]) -> bool {
    let header = Header::read(frame, 0).unwrap();
    let Some(parts) = Parts::of(frame, usize::from(header.n_channels())) else { return false };
    SideInfo::read(parts.side_info, &header, Rate::find(&header)).is_some_and(|info| {
        info.granules.iter().any(|[left, right]| {
            left.is_mixed || right.is_mixed || !header.is_mono && left.block != right.block
        })
    })
}
