//! CELT, the part of Opus for music, RFC 6716 section 4.3: frames to planes of 48 kHz.
//!
//! Whole numbers where bits depend on them, floating point for the sound. Any bytes are a frame; what is
//! missing is read as zeros, and what is lost is made up.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an instruction set.
#![allow(clippy::inline_always)]

mod allocation;
mod bands;
mod energy;
mod fourier;
mod frame;
mod lost;
mod postfilter;
mod pulses;
mod shape;
mod split;
mod synthesis;
mod tables;
#[cfg(test)]
mod tests;
mod transform;

use pulp::{Simd, WithSimd};

pub(super) use self::synthesis::WINDOW;

use self::{
    allocation::Shape,
    bands::Spectrum,
    frame::{Frame, Memory},
    postfilter::Comb,
    synthesis::{Channel, Sound},
    tables::{EDGES, MEAN_ENERGY},
    transform::{LONGEST, SHORT},
};
use super::range_decoder::RangeDecoder;
use crate::trig::exp2;

/// How the frames of a packet are coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    /// A frame has `120 << log_len` samples.
    pub(super) log_len: usize,
    pub(super) is_stereo: bool,
    /// The first band that is coded, and the first above that is not.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Coding {
    /// What the first byte of a packet without SILK says.
    #[cfg(test)]
    pub(super) fn of(toc: u8) -> Self {
        let config = usize::from(toc >> 3 & 15);
        let end = [13, 17, 19, 21][config >> 2];
        Self { log_len: config & 3, is_stereo: toc & 4 != 0, start: 0, end }
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
    /// Whether a lost frame is noise: until two frames came, one after the other.
    is_noise: bool,
    /// The pitch of what was lost last.
    pitch: usize,
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
            is_noise: true,
            pitch: 0,
        }
    }

    /// The same, with no instructions but the baseline's.
    #[cfg(test)]
    fn plain(n_channels: usize) -> Self {
        Self { arch: pulp::Arch::Scalar, ..Self::new(n_channels) }
    }

    /// Forgets all that came.
    pub(super) fn reset(&mut self) {
        *self = Self { arch: self.arch, ..Self::new(self.channels.len()) };
    }

    /// Decodes a frame into as many samples of each plane from `at` on as it has.
    pub(super) fn decode(
        &mut self,
        coding: Coding,
        code: &mut RangeDecoder<'_>,
        planes: &mut [Vec<f32>],
        at: usize,
    ) {
        // An empty frame says that there was nothing to say.
        if code.n_total() <= 8 {
            return self.conceal(coding, planes, at);
        }
        if self.memory.lost == 0 {
            self.is_noise = false;
        }
        let n_channels = 1 + usize::from(coding.is_stereo);
        let Coding { log_len, start, end, .. } = coding;
        let shape = Shape { log_len, n_channels, start, end };
        let frame = self.memory.read(code, shape, &mut self.spectrum);
        let comb = frame.comb;
        self.arch.dispatch(Synthesize { decoder: self, coding, frame: Some(frame), planes, at });
        let [_, last] = self.combs;
        self.combs = if coding.log_len == 0 { [last, comb] } else { [comb; 2] };
    }

    /// Makes up a frame that was lost.
    pub(super) fn conceal(&mut self, coding: Coding, planes: &mut [Vec<f32>], at: usize) {
        let Coding { log_len, start, end, .. } = coding;
        if self.memory.lost >= 40 || start > 0 || self.is_noise {
            self.memory.fade(self.channels.len(), start..end);
            let is_stereo = self.channels.len() == 2;
            for x in self.spectrum.iter_mut().take(self.channels.len()) {
                lost::noise(x, &mut self.memory.noise, start..end, log_len);
            }
            let coding = Coding { is_stereo, ..coding };
            self.arch.dispatch(Synthesize { decoder: self, coding, frame: None, planes, at });
            self.is_noise = true;
        } else {
            let is_first = self.memory.lost == 0;
            if is_first {
                self.pitch = lost::pitch(&self.channels);
            }
            for (channel, plane) in self.channels.iter_mut().zip(planes) {
                let Some(to) = plane.get_mut(at..at + coding.frame_len()) else { return };
                channel.extrapolate(self.pitch, is_first, to);
            }
        }
        self.memory.lost = (self.memory.lost + (1 << log_len)).min(10_000);
    }
}

/// The making of sound, compiled for each instruction set.
struct Synthesize<'a> {
    decoder: &'a mut Decoder,
    coding: Coding,
    /// `None` for noise in place of a lost one.
    frame: Option<Frame>,
    planes: &'a mut [Vec<f32>],
    at: usize,
}

impl WithSimd for Synthesize<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { decoder, coding, frame, planes, at } = self;
        let is_silent = frame.is_some_and(|frame| frame.is_silent);
        let is_transient = frame.is_some_and(|frame| frame.is_transient);
        let comb = frame.map(|frame| frame.comb);
        let Decoder { memory, spectrum, combs, channels, .. } = decoder;
        let sound = Sound { log_len: coding.log_len, is_transient, combs: *combs, comb };
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
    let bands = edges.zip(energies.iter().zip(MEAN_ENERGY)).take(coding.end).skip(coding.start);
    for ((&start, &end), (energy, mean)) in bands {
        let (start, end) = (start << coding.log_len, end << coding.log_len);
        let gain = exp2(f64::from((energy + mean).min(32.0) - 15.0)) as f32;
        let (Some(from), Some(to)) = (from.get(start..end), to.get_mut(start..end)) else { return };
        from.iter().zip(to).for_each(|(from, to)| *to = gain * from);
    }
}
