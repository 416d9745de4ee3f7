//! CELT, the part of Opus for music, RFC 6716 section 4.3: frames to planes of 48 kHz.
//!
//! Whole numbers where bits depend on them, floating point for the sound. Any bytes are a frame; what is
//! missing is read as zeros.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an instruction set.
#![allow(clippy::inline_always)]

mod allocation;
mod bands;
mod energy;
mod fourier;
mod frame;
mod postfilter;
mod pulses;
mod range_decoder;
mod shape;
mod split;
mod synthesis;
mod tables;
#[cfg(test)]
mod tests;
mod transform;

use pulp::{Simd, WithSimd};

use self::{
    allocation::Shape,
    bands::Spectrum,
    frame::{Frame, Memory},
    postfilter::Comb,
    synthesis::{Channel, Sound},
    tables::{EDGES, MEAN_ENERGY},
    transform::{LONGEST, SHORT},
};
use crate::trig::exp2;

/// How the frames of a packet are coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    /// A frame has `120 << log_len` samples.
    pub(super) log_len: usize,
    pub(super) is_stereo: bool,
    /// The first band that is not coded.
    pub(super) end: usize,
}

impl Coding {
    /// What the first byte of a packet says; `None` if there is SILK in it.
    pub(super) fn of(toc: u8) -> Option<Self> {
        let config = usize::from(toc >> 3).checked_sub(16)?;
        let end = match config >> 2 {
            0 => 13,
            1 => 17,
            2 => 19,
            _ => 21,
        };
        Some(Self { log_len: config & 3, is_stereo: toc & 4 != 0, end })
    }

    pub(super) fn frame_len(self) -> usize {
        SHORT << self.log_len
    }
}

/// Decodes the frames of one stream in their order.
#[derive(Debug)]
pub(super) struct Decoder {
    arch: pulp::Arch,
    memory: Memory,
    spectrum: Box<Spectrum>,
    /// The combs of the last two frames.
    combs: [Comb; 2],
    channels: Vec<Channel>,
}

impl Decoder {
    /// A decoder to one channel or two.
    pub(super) fn new(n_channels: usize) -> Self {
        Self {
            arch: pulp::Arch::new(),
            memory: Memory::default(),
            spectrum: Box::new([[0.0; bands::N_COEFFICIENTS]; 2]),
            combs: [Comb::default(); 2],
            channels: vec![Channel::default(); n_channels],
        }
    }

    /// The same, with no instructions but the baseline's.
    #[cfg(test)]
    fn plain(n_channels: usize) -> Self {
        Self { arch: pulp::Arch::Scalar, ..Self::new(n_channels) }
    }

    /// Decodes a frame into as many samples of each plane from `at` on as it has.
    pub(super) fn decode(
        &mut self,
        coding: Coding,
        frame: &[u8],
        planes: &mut [Vec<f32>],
        at: usize,
    ) {
        let n_channels = 1 + usize::from(coding.is_stereo);
        let shape = Shape { log_len: coding.log_len, n_channels, end: coding.end };
        let frame = self.memory.read(frame, shape, &mut self.spectrum);
        self.arch.dispatch(Synthesize { decoder: self, coding, frame, planes, at });
        let [_, last] = self.combs;
        self.combs = if coding.log_len == 0 { [last, frame.comb] } else { [frame.comb; 2] };
    }
}

/// The making of sound, compiled for each instruction set.
struct Synthesize<'a> {
    decoder: &'a mut Decoder,
    coding: Coding,
    frame: Frame,
    planes: &'a mut [Vec<f32>],
    at: usize,
}

impl WithSimd for Synthesize<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { decoder, coding, frame, planes, at } = self;
        let Frame { is_silent, is_transient, comb } = frame;
        let Decoder { memory, spectrum, combs: [before, last], channels, .. } = decoder;
        let sound = Sound { log_len: coding.log_len, is_transient, combs: [*before, *last, comb] };
        let mut x = [[0.0; LONGEST]; 2];
        if !is_silent {
            let parts = x.iter_mut().zip(spectrum.iter()).zip(&memory.energies);
            for ((x, from), energies) in parts.take(1 + usize::from(coding.is_stereo)) {
                denormalise(coding, energies, from, x);
            }
        }
        let [left, right] = &mut x;
        if coding.is_stereo && channels.len() == 1 {
            left.iter_mut().zip(right.iter()).for_each(|(l, r)| *l = 0.5 * (*l + r));
        }
        let parts = channels.iter_mut().zip(planes);
        for (i, (channel, plane)) in parts.enumerate() {
            let x = if i == 1 && coding.is_stereo { &*right } else { &*left };
            let Some(to) = plane.get_mut(at..at + coding.frame_len()) else { return };
            channel.make(sound, x, to);
        }
    }
}

/// Gives the bands their energies, and full scale that of one.
#[inline(always)]
fn denormalise(coding: Coding, energies: &[f32; 21], from: &[f32], to: &mut [f32; LONGEST]) {
    let edges = EDGES.iter().zip(EDGES.iter().skip(1));
    let bands = edges.zip(energies.iter().zip(MEAN_ENERGY)).take(coding.end);
    for ((&start, &end), (energy, mean)) in bands {
        let (start, end) = (start << coding.log_len, end << coding.log_len);
        let gain = exp2(f64::from((energy + mean).min(32.0) - 15.0)) as f32;
        let (Some(from), Some(to)) = (from.get(start..end), to.get_mut(start..end)) else { return };
        from.iter().zip(to).for_each(|(from, to)| *to = gain * from);
    }
}
