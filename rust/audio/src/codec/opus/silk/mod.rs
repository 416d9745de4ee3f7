//! SILK, the part of Opus for speech, RFC 6716 section 4.2: frames to planes of 48 kHz.
//!
//! All in whole numbers, to the bit as libopus does it, frames that are lost included. Any bytes are a
//! frame; what is missing is read as zeros.

// Frames and channels have small fixed numbers, and samples fit the longest frame.
#![allow(clippy::indexing_slicing)]

mod channel;
mod codebooks;
mod conceal;
mod filter;
mod indices;
mod math;
mod noise;
mod pulses;
mod resample;
mod stereo;
mod tables;

use self::{
    channel::Channel,
    indices::{Format, MAX_SUBFRAMES, Reference},
    stereo::Stereo,
    tables::{COPIES_OF_2, COPIES_OF_3, MAX_FRAME_LEN},
};
use super::range_decoder::RangeDecoder;

/// Samples of the longest frame at 48 kHz.
const MAX_LEN: usize = 960;

/// How a packet's frames are coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    pub(super) khz: usize,
    /// Of all its frames together: 10, 20, 40 or 60.
    pub(super) ms: usize,
    pub(super) is_stereo: bool,
}

/// Decodes the frames of one stream in their order.
#[derive(Debug)]
pub(super) struct Decoder {
    n_channels: usize,
    channels: [Channel; 2],
    stereo: Stereo,
    /// That of the last frame.
    is_stereo: bool,
    /// Whether the last frame had no side.
    is_middle: bool,
    /// How the last packet was coded.
    coding: Option<Coding>,
}

/// What the packet says of all its frames.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    active: [bool; 3],
    copies: [bool; 3],
}

impl Decoder {
    /// A decoder to one channel or two.
    pub(super) fn new(n_channels: usize) -> Self {
        Self {
            n_channels,
            channels: [Channel::default(), Channel::default()],
            stereo: Stereo::default(),
            is_stereo: false,
            is_middle: false,
            coding: None,
        }
    }

    /// Forgets all sound, but not how packets were coded.
    pub(super) fn reset(&mut self) {
        let Self { n_channels, is_stereo, coding, .. } = *self;
        *self = Self { is_stereo, coding, ..Self::new(n_channels) };
    }

    /// Decodes the frames of a packet to the start of each plane.
    pub(super) fn decode(
        &mut self,
        code: &mut RangeDecoder<'_>,
        coding: Coding,
        planes: &mut [Vec<f32>],
    ) {
        self.coding = Some(coding);
        let n_frames = coding.ms.div_ceil(20);
        let was_stereo = self.prepare(coding);
        let n_channels = 1 + usize::from(coding.is_stereo);
        let mut flags = [Flags::default(); 2];
        for flags in &mut flags[..n_channels] {
            flags.active[..n_frames].iter_mut().for_each(|flag| *flag = code.bit(1));
            flags.copies[0] = code.bit(1);
        }
        for flags in &mut flags[..n_channels] {
            if flags.copies[0] && n_frames > 1 {
                let table: &[u8] = if n_frames == 2 { &COPIES_OF_2 } else { &COPIES_OF_3 };
                let which = code.symbol(table, 8) + 1;
                flags.copies = std::array::from_fn(|i| which >> i & 1 == 1);
            }
        }
        self.skip_copies(code, n_frames, &flags[..n_channels]);
        for i in 0..n_frames {
            let mut weights = [0; 2];
            let mut is_middle = false;
            if coding.is_stereo {
                weights = stereo::read_weights(code);
                is_middle = !flags[1].active[i] && stereo::read_is_middle(code);
                if self.is_middle && !is_middle {
                    self.channels[1].forget();
                }
            }
            let was_middle = std::mem::replace(&mut self.is_middle, is_middle);
            let mut samples = [[0; MAX_FRAME_LEN + 2]; 2];
            let len = self.channels[0].format.frame_len();
            for (n, samples) in samples.iter_mut().enumerate().take(n_channels) {
                if n == 1 && is_middle {
                    continue;
                }
                let reference = if i == 0 {
                    Reference::None
                } else if n == 1 && was_middle {
                    Reference::Unscaled
                } else {
                    Reference::Last
                };
                let to = &mut samples[2..len + 2];
                self.channels[n].decode(code, flags[n].active[i], reference, to);
            }
            let is_collapsed = was_stereo && i == 0;
            self.finish(i, weights, is_collapsed, &mut samples, planes);
        }
    }

    /// Makes up 10 or 20 ms that were lost.
    pub(super) fn conceal(&mut self, ms: usize, planes: &mut [Vec<f32>]) {
        let Some(coding) = self.coding else { return };
        let was_stereo = self.prepare(Coding { ms, ..coding });
        let weights = self.stereo.weights();
        if coding.is_stereo && self.is_middle {
            self.channels[1].forget();
        }
        let mut samples = [[0; MAX_FRAME_LEN + 2]; 2];
        let len = self.channels[0].format.frame_len();
        let n = if coding.is_stereo && !self.is_middle { 2 } else { 1 };
        for (channel, samples) in self.channels.iter_mut().zip(&mut samples).take(n) {
            channel.conceal(&mut samples[2..len + 2]);
        }
        self.finish(0, weights, was_stereo, &mut samples, planes);
        // What follows may be as loud as it likes.
        for channel in self.channels.iter_mut().take(1 + usize::from(coding.is_stereo)) {
            channel.last_gain = 10;
        }
    }

    /// Prepares channels for a packet; whether right is about to become the same as left.
    fn prepare(&mut self, coding: Coding) -> bool {
        let Coding { khz, ms, is_stereo } = coding;
        let [left, right] = &mut self.channels;
        if is_stereo && !self.is_stereo {
            *right = Channel::default();
        }
        let is_collapsed = !is_stereo && self.is_stereo && khz == left.format.khz;
        let n_subframes = if ms == 10 { 2 } else { MAX_SUBFRAMES };
        let format = Format { khz, n_subframes };
        left.set_format(format);
        if is_stereo {
            right.set_format(format);
            if self.n_channels == 2 && !self.is_stereo {
                self.stereo.start();
                right.resampler = left.resampler.clone();
            }
        }
        self.is_stereo = is_stereo;
        is_collapsed
    }

    /// Skips what repeats earlier frames in case they were lost.
    fn skip_copies(&mut self, code: &mut RangeDecoder<'_>, n_frames: usize, flags: &[Flags]) {
        for i in 0..n_frames {
            for (n, (channel, of)) in self.channels.iter_mut().zip(flags).enumerate() {
                if !of.copies[i] {
                    continue;
                }
                if let (0, [_, side]) = (n, flags) {
                    stereo::read_weights(code);
                    if !side.copies[i] {
                        stereo::read_is_middle(code);
                    }
                }
                let is_second = i > 0 && of.copies[i - 1];
                channel.skip(code, if is_second { Reference::Last } else { Reference::None });
            }
        }
    }

    /// Turns the samples of a frame into sound.
    fn finish(
        &mut self,
        number: usize,
        weights: [i32; 2],
        is_collapsed: bool,
        samples: &mut [[i16; MAX_FRAME_LEN + 2]; 2],
        planes: &mut [Vec<f32>],
    ) {
        let Self { n_channels, channels, stereo, is_stereo, .. } = self;
        let format = channels[0].format;
        let len = format.frame_len();
        let is_wide = *is_stereo && *n_channels == 2;
        if is_wide {
            stereo.mix(samples, weights, format);
        } else {
            stereo.keep_middle(&mut samples[0], len);
        }
        let n = len * 48 / format.khz.max(1);
        let mut out = [0; MAX_LEN];
        for (i, plane) in planes.iter_mut().enumerate() {
            if i == 0 || is_wide || is_collapsed {
                let from = if is_wide { &samples[i] } else { &samples[0] };
                channels[i].resampler.run(&from[1..=len], &mut out[..n]);
            }
            let at = number * n;
            let Some(to) = plane.get_mut(at..) else { return };
            to.iter_mut().zip(&out[..n]).for_each(|(to, &x)| *to = f32::from(x) / 32_768.0);
        }
    }
}
