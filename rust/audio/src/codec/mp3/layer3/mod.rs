//! A decoder of layer III: MPEG-1 (ISO/IEC 11172-3), MPEG-2 (13818-3) and MPEG-2.5.
//!
//! What a frame gives depends on the bytes of its main data, which begin up to 511 bytes before it,
//! and on the two granules before: the transform overlaps by one, and the synthesis filter
//! remembers 15 slots of what came out of that. Nothing else is remembered, so a decoder that is
//! given that much has the bits of one that began with the file.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an
// instruction set.
#![allow(clippy::inline_always)]

mod bands;
mod books;
mod codes;
mod frame;
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

#[cfg(test)]
pub(crate) use self::frame::has_odd_blocks;
use self::{
    bands::{N_SAMPLES, Rate},
    frame::{Frame, Parts, Spectrum},
    hybrid::{HEIGHT, Rows, WIDTH},
    reservoir::Reservoir,
    side_info::{Block, SideInfo},
    synthesis::Filter,
};

/// Granules before a wanted one that must be decoded for it to be right.
pub(crate) const N_BEFORE: u64 = 2;
/// PCM frames of a granule.
pub(crate) const GRANULE_LEN: u64 = N_SAMPLES as u64;

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
pub(crate) struct Decoder {
    arch: pulp::Arch,
    n_channels: usize,
    reservoir: Reservoir,
    memory: Box<[Memory; 2]>,
    spectra: Box<[[Spectrum; 2]; 2]>,
    pcm: Box<[[f32; MAX_FRAMES]; 2]>,
}

impl Decoder {
    /// A decoder for frames of so many channels, 1 or 2. Of two channels, frames of one give both.
    pub(crate) fn new(n_channels: u16) -> Self {
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
    pub(crate) fn plain(n_channels: u16) -> Self {
        Self { arch: pulp::Arch::Scalar, ..Self::new(n_channels) }
    }

    /// Keeps the main data of a frame that is not decoded.
    pub(crate) fn keep(&mut self, frame: &[u8]) {
        match Parts::of(frame, self.n_channels) {
            Some(parts) => self.reservoir.push(parts.main_data),
            None => self.reservoir.clear(),
        }
    }

    /// Forgets what came before: frames are lost.
    pub(crate) fn lose(&mut self) {
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
    /// first `n_early` granules only what later ones depend on is worked out, where it is certain
    /// that there are [`N_BEFORE`] of them at most before a wanted one; their PCM frames are
    /// unspecified.
    pub(crate) fn decode(&mut self, frame: &[u8], n_early: u64) -> Option<[&[f32]; 2]> {
        let Some(parts) = Parts::of(frame, self.n_channels) else {
            self.lose();
            return None;
        };
        let arch = self.arch;
        if arch.dispatch(DecodeFrame { parts, n_early, decoder: self }).is_none() {
            self.forget();
            return None;
        }
        let n = parts.header.n_granules() * N_SAMPLES;
        let [left, right] = &*self.pcm;
        Some([left, right].map(|pcm| pcm.get(..n).unwrap_or_default()))
    }
}

/// The decoding of a frame, compiled for each instruction set.
struct DecodeFrame<'a, 'b> {
    parts: Parts<'b>,
    n_early: u64,
    decoder: &'a mut Decoder,
}

impl WithSimd for DecodeFrame<'_, '_> {
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
            if *n_channels == 2 && header.is_mono {
                let [left, right] = both;
                *right = *left;
            } else if *n_channels == 2 {
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
