//! Comfort noise under lost frames: the spectrum and the level of frames without a voice, as libopus has it.

// Orders and the length of a frame are fixed numbers.
#![allow(clippy::indexing_slicing)]

use super::{
    filter::{self, MAX_ORDER},
    indices::{Format, MAX_SUBFRAMES},
    math::{next_random, root, rounded, times, times_half, to_sample},
    tables::MAX_FRAME_LEN,
};

#[derive(Clone, Debug)]
pub(super) struct Noise {
    khz: usize,
    excitation: [i32; MAX_FRAME_LEN],
    frequencies: [i16; MAX_ORDER],
    state: [i32; MAX_ORDER],
    gain: i32,
    seed: i32,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            khz: 0,
            excitation: [0; MAX_FRAME_LEN],
            frequencies: [0; MAX_ORDER],
            state: [0; MAX_ORDER],
            gain: 0,
            seed: 0,
        }
    }
}

impl Noise {
    fn set_format(&mut self, format: Format) {
        if self.khz == format.khz {
            return;
        }
        self.khz = format.khz;
        let step = i16::MAX / (format.order() as i16 + 1);
        for (i, to) in self.frequencies.iter_mut().enumerate().take(format.order()) {
            *to = step * (i as i16 + 1);
        }
        self.gain = 0;
        self.seed = 3_176_576;
    }

    /// Follows a frame without a voice.
    pub(super) fn update(
        &mut self,
        format: Format,
        frequencies: &[i16; MAX_ORDER],
        gains: &[i32; MAX_SUBFRAMES],
        excitation: &[i32; MAX_FRAME_LEN],
    ) {
        self.set_format(format);
        let (n, len) = (format.n_subframes, format.subframe_len());
        for (to, &now) in self.frequencies.iter_mut().zip(frequencies).take(format.order()) {
            let change = times_half(i32::from(now) - i32::from(*to), 16_348);
            *to = to.wrapping_add(change as i16);
        }
        let mut loudest = 0;
        for i in 1..n {
            if gains[i] > gains[loudest] {
                loudest = i;
            }
        }
        self.excitation.copy_within(..(n - 1) * len, len);
        self.excitation[..len].copy_from_slice(&excitation[loudest * len..(loudest + 1) * len]);
        for &gain in &gains[..n] {
            self.gain = self.gain.wrapping_add(times_half(gain.wrapping_sub(self.gain), 4_634));
            // More than 3 dB are taken back at once.
            if times(self.gain, 46_396) > gain {
                self.gain = gain;
            }
        }
    }

    /// A frame was decoded. Of a short filter's state the newest samples stay, as in libopus.
    pub(super) fn stop(&mut self, format: Format) {
        self.state[..format.order()].fill(0);
    }

    /// Adds noise to a frame that was made up, of which the level of noise is known.
    pub(super) fn add(&mut self, format: Format, level: i32, to: &mut [i16]) {
        self.set_format(format);
        let high = |a: i32| (a >> 16).wrapping_mul(a >> 16);
        let gain = if level >= 1 << 21 || self.gain > 1 << 23 {
            let rest = high(self.gain).wrapping_sub(high(level).wrapping_shl(5));
            root(rest).wrapping_shl(16)
        } else {
            let rest = times(self.gain, self.gain).wrapping_sub(times(level, level) << 5);
            root(rest).wrapping_shl(8)
        };
        let order = format.order();
        let mut mask = 255;
        while mask > to.len() {
            mask >>= 1;
        }
        let mut x = [0; MAX_ORDER + MAX_FRAME_LEN];
        let x = &mut x[..MAX_ORDER + to.len()];
        x[..MAX_ORDER].copy_from_slice(&self.state);
        for x in &mut x[MAX_ORDER..] {
            self.seed = next_random(self.seed);
            *x = self.excitation[(self.seed >> 24) as usize & mask];
        }
        let filter = filter::of_frequencies(&self.frequencies, order);
        filter::synthesise(x, MAX_ORDER, &filter, order);
        for (to, &x) in to.iter_mut().zip(&x[MAX_ORDER..]) {
            *to = to.saturating_add(to_sample(rounded(times(x, gain >> 6), 8)));
        }
        self.state.copy_from_slice(&x[to.len()..]);
    }
}
