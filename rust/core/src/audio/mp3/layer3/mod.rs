//! A decoder of layer III: MPEG-1 (ISO/IEC 11172-3), MPEG-2 (13818-3) and MPEG-2.5.
//!
//! What a frame gives depends on the bytes of its main data, which begin up to 511 bytes before it, and on
//! the two granules before: the transform overlaps by one, and the synthesis filter
//! remembers 15 slots of what came out of that. Nothing else is remembered, so a decoder that is
//! given that much has the bits of one that began with the file.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an
// instruction set.
#![allow(clippy::inline_always)]

mod bands;
mod books;
mod codes;
mod huffman;
mod hybrid;
mod math;
mod requantize;
mod reservoir;
mod scale_factors;
mod side_info;
mod stereo;
mod synthesis;
mod window;

use pulp::{Simd, WithSimd};

use self::{
    bands::{N_SAMPLES, Rate},
    hybrid::{HEIGHT, Rows, WIDTH},
    reservoir::Reservoir,
    scale_factors::ScaleFactors,
    side_info::{Block, Channel, SideInfo},
    stereo::{Joint, Pair},
    synthesis::Filter,
};
use super::header::{Header, Layer, Version};
use crate::audio::bits::BitReader;

/// Granules before a wanted one that must be decoded for it to be right.
pub(super) const N_BEFORE: u64 = 2;
/// PCM frames of a granule.
pub(super) const GRANULE_LEN: u64 = N_SAMPLES as u64;

/// The most PCM frames of one MPEG frame.
const MAX_FRAMES: usize = 2 * N_SAMPLES;

/// What a channel keeps from granule to granule.
#[derive(Clone, Debug)]
struct Memory {
    overlap: Rows,
    filter: Filter,
}

impl Default for Memory {
    fn default() -> Self {
        Self { overlap: [[0.0; WIDTH]; HEIGHT], filter: Filter::default() }
    }
}

/// A decoder for the frames of one stream.
#[derive(Debug)]
pub(in crate::audio) struct Decoder {
    arch: pulp::Arch,
    n_channels: usize,
    reservoir: Reservoir,
    memory: Box<[Memory; 2]>,
    spectra: Box<[[Spectrum; 2]; 2]>,
    pcm: Box<[[f32; MAX_FRAMES]; 2]>,
}

/// A granule of a channel, as it is read.
#[derive(Clone, Copy, Debug)]
struct Spectrum {
    channel: Channel,
    factors: ScaleFactors,
    samples: [f32; N_SAMPLES],
    /// Samples in front of those that are all zero.
    n: usize,
}

impl Default for Spectrum {
    fn default() -> Self {
        let (channel, factors) = (Channel::default(), ScaleFactors::default());
        Self { channel, factors, samples: [0.0; N_SAMPLES], n: 0 }
    }
}

impl Decoder {
    /// A decoder for frames of so many channels, 1 or 2.
    pub(in crate::audio) fn new(n_channels: u16) -> Self {
        Self {
            arch: pulp::Arch::new(),
            n_channels: usize::from(n_channels),
            reservoir: Reservoir::default(),
            memory: Box::default(),
            spectra: Box::default(),
            pcm: Box::new([[0.0; MAX_FRAMES]; 2]),
        }
    }

    /// The same, with no instructions but the baseline's.
    #[cfg(test)]
    pub(super) fn plain(n_channels: u16) -> Self {
        Self { arch: pulp::Arch::Scalar, ..Self::new(n_channels) }
    }

    /// Keeps the main data of a frame that is not decoded.
    pub(super) fn keep(&mut self, frame: &[u8]) {
        match Parts::of(frame, self.n_channels) {
            Some(parts) => self.reservoir.push(parts.main_data),
            None => self.reservoir.clear(),
        }
    }

    /// Forgets what came before: frames are lost.
    pub(in crate::audio) fn lose(&mut self) {
        self.reservoir.clear();
        self.forget();
    }

    /// What comes next begins in silence.
    fn forget(&mut self) {
        *self.memory = <[Memory; 2]>::default();
    }

    /// Decodes a frame; one slice a channel, or `None` if the frame makes no sense.
    ///
    /// Nothing can be heard of granules that lack bytes of main data from before the frame. Of the
    /// first `n_early` granules only what later ones depend on is worked out, where it is
    /// certain that there are [`N_BEFORE`] of them at most before a wanted one; their PCM frames are unspecified.
    pub(in crate::audio) fn decode(&mut self, frame: &[u8], n_early: u64) -> Option<[&[f32]; 2]> {
        let Some(parts) = Parts::of(frame, self.n_channels) else {
            self.lose();
            return None;
        };
        let arch = self.arch;
        if arch.dispatch(Run { parts, n_early, decoder: self }).is_none() {
            self.forget();
            return None;
        }
        let n = parts.header.n_granules() * N_SAMPLES;
        let [left, right] = &*self.pcm;
        Some([left, right].map(|pcm| pcm.get(..n).unwrap_or_default()))
    }
}

/// A frame, taken apart.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    header: Header,
    joint: Joint,
    side_info: &'a [u8],
    main_data: &'a [u8],
}

impl<'a> Parts<'a> {
    /// `None` if this is no whole frame of so many channels.
    fn of(frame: &'a [u8], n_channels: usize) -> Option<Self> {
        let header = Header::read(frame, 0).ok()?;
        let is_fit = header.layer == Layer::Three
            && header.len == frame.len()
            && usize::from(header.n_channels()) == n_channels;
        let start = if header.has_crc { 6 } else { 4 };
        let (side_info, main_data) =
            frame.get(start..)?.split_at_checked(header.side_info_len()).filter(|_| is_fit)?;
        Some(Self { header, joint: Joint::of(*frame.get(3)?), side_info, main_data })
    }
}

/// The decoding of a frame, compiled for each instruction set.
struct Run<'a, 'b> {
    parts: Parts<'b>,
    n_early: u64,
    decoder: &'a mut Decoder,
}

impl WithSimd for Run<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Option<()> {
        let Self { parts: Parts { header, joint, side_info, main_data }, n_early, decoder } = self;
        let Decoder { n_channels, reservoir, memory, spectra, pcm, .. } = decoder;
        let rate = Rate::find(&header);
        reservoir.push(main_data);
        let info = SideInfo::read(side_info, &header, rate)?;
        let frame = Frame { header, joint, rate, info: &info };
        frame.read(reservoir, spectra)?;
        for (granule, both) in spectra.iter_mut().enumerate().take(header.n_granules()) {
            let n_until = n_early.saturating_sub(granule as u64);
            if n_until > N_BEFORE {
                continue;
            }
            if *n_channels == 2 {
                frame.join(both);
            }
            let channels = memory.iter_mut().zip(both).zip(pcm.iter_mut());
            for ((memory, spectrum), pcm) in channels.take(*n_channels) {
                let pcm = pcm.as_chunks_mut().0.get_mut(granule)?;
                memory.push(simd, spectrum, rate, n_until, pcm);
            }
        }
        Some(())
    }
}

/// What the granules of a frame have in common.
#[derive(Clone, Copy)]
struct Frame<'a> {
    header: Header,
    joint: Joint,
    rate: &'static Rate,
    info: &'a SideInfo,
}

impl Frame<'_> {
    /// Reads all granules; `None` if one of them makes no sense.
    #[inline(always)]
    fn read(&self, reservoir: &Reservoir, spectra: &mut [[Spectrum; 2]; 2]) -> Option<()> {
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
    fn join(&self, [left, right]: &mut [Spectrum; 2]) {
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

    /// Reads the samples up to bit `end`; `None` if that or what is read lies behind bit `limit`.
    #[inline(always)]
    fn read(&mut self, bits: &mut BitReader<'_>, end: usize, limit: usize) -> Option<()> {
        if bits.position() > end || end > limit {
            return None;
        }
        self.n = huffman::read(bits, end, &self.channel, &mut self.samples);
        (bits.position() <= limit).then_some(())
    }
}

impl Memory {
    /// Takes the next granule, which is followed by the first wanted one after `n_until` granules,
    /// itself included.
    #[inline(always)]
    fn push<S: Simd>(
        &mut self,
        simd: S,
        spectrum: &Spectrum,
        rate: &Rate,
        n_until: u64,
        pcm: &mut [f32; N_SAMPLES],
    ) {
        let channel = &spectrum.channel;
        let n_normal = if channel.is_mixed { rate.n_mixed_subbands } else { 0 };
        let mut rows = [[0.0; WIDTH]; HEIGHT];
        let mut n = hybrid::to_rows(channel, rate, spectrum.n, &spectrum.samples, &mut rows);
        if channel.block == Block::Short {
            n = n.max(n_normal);
            hybrid::reduce_aliases(n_normal, &mut rows);
        } else {
            n = (n + 1).min(WIDTH);
            hybrid::reduce_aliases(n, &mut rows);
        }
        let mut subbands = [[0.0; WIDTH]; HEIGHT];
        hybrid::transform(channel.block, n_normal, n, &rows, &mut self.overlap, &mut subbands);
        if n_until < N_BEFORE {
            self.filter.push(simd, &subbands, (n_until == 0).then_some(pcm));
        }
    }
}

/// Whether a frame has a mixed block, or different blocks in two channels.
#[cfg(test)]
pub(super) fn has_odd_blocks(frame: &[u8]) -> bool {
    let header = Header::read(frame, 0).unwrap();
    let Some(parts) = Parts::of(frame, usize::from(header.n_channels())) else { return false };
    SideInfo::read(parts.side_info, &header, Rate::find(&header)).is_some_and(|info| {
        info.granules.iter().any(|[left, right]| {
            left.is_mixed || right.is_mixed || !header.is_mono && left.block != right.block
        })
    })
}
