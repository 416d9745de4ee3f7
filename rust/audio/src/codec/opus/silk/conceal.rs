//! Frames that are lost, or empty because there was nothing to say: the last pitch and spectrum go on and
//! fade, as libopus has it. The standard leaves this to the decoder.

// Subframes and orders have fixed numbers, and lags are no longer than the history.
#![allow(clippy::indexing_slicing)]

use super::{
    channel::{Channel, MAX_MEMORY, Parameters, Taps, predict},
    filter::{self, Filter, MAX_ORDER},
    indices::{Format, Signal},
    math::{energy, inverse, next_random, root, rounded, times, times_half, to_sample},
    tables::MAX_FRAME_LEN,
};

/// What lost frames are made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Concealment {
    khz: usize,
    /// In 256ths.
    lag: i32,
    taps: Taps,
    filter: Filter,
    seed: i32,
    /// How much noise there is, in 2^14ths.
    noise: i16,
    scale: i32,
    /// Of the last two subframes, in 2^16ths.
    gains: [i32; 2],
    /// The last frame that was decoded.
    format: Format,
    /// The energy of the last frame, if that was lost.
    lost: Option<(i32, u32)>,
}

impl Concealment {
    fn set_format(&mut self, format: Format) {
        if self.khz != format.khz {
            self.khz = format.khz;
            self.lag = (format.frame_len() as i32) << 7;
            self.gains = [1 << 16; 2];
            // Subframes of 20 samples, of which there are two.
            self.format = Format { khz: 4, n_subframes: 2 };
        }
    }

    /// Takes what may be needed of a frame that was decoded.
    pub(super) fn update(&mut self, format: Format, signal: Signal, parameters: &Parameters) {
        /// The least and the largest sum of taps: 0.7 and 0.95.
        const LEAST: i32 = 11_469;
        const LARGEST: i32 = 15_565;
        self.set_format(format);
        let last = format.n_subframes - 1;
        self.taps = [0; 5];
        if signal == Signal::Voiced {
            let mut best = 0;
            for i in (0..=last).rev() {
                if (last - i) * format.subframe_len() >= parameters.lags[last] {
                    break;
                }
                let sum = parameters.taps[i].iter().map(|&tap| i32::from(tap)).sum();
                if sum > best {
                    best = sum;
                    self.lag = (parameters.lags[i] as i32) << 8;
                }
            }
            let middle = i32::from(best as i16);
            let middle = if best < LEAST {
                (middle * i32::from(((LEAST << 10) / best.max(1)) as i16)) >> 10
            } else if best > LARGEST {
                (middle * i32::from(((LARGEST << 14) / best.max(1)) as i16)) >> 14
            } else {
                middle
            };
            self.taps[2] = middle as i16;
        } else {
            self.lag = (18 * format.khz as i32) << 8;
        }
        self.filter = parameters.filters[1];
        self.scale = parameters.scale;
        self.gains = [parameters.gains[last - 1], parameters.gains[last]];
        self.format = format;
    }

    /// How loud the noise of the last frame was, in 2^16ths.
    pub(super) fn level(&self) -> i32 {
        times(i32::from(self.noise), self.gains[1])
    }

    /// Lets a frame behind lost ones begin no louder than these were.
    pub(super) fn join(&mut self, is_lost: bool, to: &mut [i16]) {
        if is_lost {
            self.lost = Some(energy(to));
            return;
        }
        let Some((mut before, shift_before)) = self.lost.take() else { return };
        let (mut now, shift) = energy(to);
        before >>= shift.saturating_sub(shift_before);
        now >>= shift_before.saturating_sub(shift);
        if now <= before {
            return;
        }
        let room = before.leading_zeros() as i32 - 1;
        before = before.wrapping_shl(room.unsigned_abs());
        now >>= (24 - room).max(0);
        let mut gain = root(before / now.max(1)) << 4;
        let slope = (((1 << 16) - gain) / to.len().max(1) as i32) << 2;
        for x in to {
            *x = times_half(gain, i32::from(*x)) as i16;
            gain += slope;
            if gain > 1 << 16 {
                break;
            }
        }
    }
}

impl Channel {
    /// Makes up a frame, and returns its last lag.
    pub(super) fn extrapolate(&mut self, to: &mut [i16]) -> usize {
        /// What is left of taps from subframe to subframe, first and later.
        const TAPS_LEFT: [i32; 2] = [32_440, 31_130];
        const NOISE_LEFT_VOICED: [i32; 2] = [31_130, 26_214];
        const NOISE_LEFT: [i32; 2] = [32_440, 29_491];
        /// How the filter is widened, and how the pitch falls.
        const WIDER: i32 = 64_881;
        const DRIFT: i32 = 655;
        const N_RANDOM: usize = 128;
        let format = self.format;
        let (len, order) = (format.subframe_len(), format.order());
        self.concealment.set_format(format);
        if self.is_first {
            self.concealment.filter = [0; MAX_ORDER];
        }
        let from = self.quietest();
        let random = &self.excitation[from..from + N_RANDOM];
        let plc = &mut self.concealment;
        let later = usize::from(self.n_lost > 0);
        let is_voiced = self.signal == Signal::Voiced;
        let taps_left = TAPS_LEFT[later];
        let mut noise_left = if is_voiced { NOISE_LEFT_VOICED } else { NOISE_LEFT }[later];
        filter::widen_filter(&mut plc.filter, WIDER);
        let mut noise = plc.noise;
        if self.n_lost == 0 {
            noise = 1 << 14;
            if is_voiced {
                let left = plc.taps.iter().fold(noise, |left, &tap| left.wrapping_sub(tap));
                noise = ((i32::from(left.max(3_277)) * i32::from(plc.scale as i16)) >> 14) as i16;
            } else {
                // Less noise where the filter makes much of it.
                let gain = filter::inverse_gain(&plc.filter, order);
                let down = gain.clamp(1 << 22, 1 << 27) << 3;
                noise_left = times_half(down, noise_left) >> 14;
            }
        }
        let mut lag = rounded(plc.lag, 8) as usize;
        let mut long = [0i32; MAX_MEMORY + MAX_FRAME_LEN];
        let reach = (lag + 2).min(MAX_MEMORY - order);
        let n = reach + order;
        let mut rest = [0; MAX_MEMORY];
        filter::residual(&self.past[MAX_MEMORY - n..], &plc.filter, order, &mut rest[..n]);
        let inverse_gain = inverse(plc.gains[1], 46).min(i32::MAX >> 1);
        for (to, &rest) in long[MAX_MEMORY - reach..MAX_MEMORY].iter_mut().zip(&rest[order..n]) {
            *to = times_half(inverse_gain, i32::from(rest));
        }
        for i in 0..format.n_subframes {
            for j in 0..len {
                let now = MAX_MEMORY + i * len + j;
                let predicted = predict(2, &long[now - lag - 2..=now - lag + 2], &plc.taps);
                plc.seed = next_random(plc.seed);
                let excitation = random[(plc.seed >> 25) as usize & (N_RANDOM - 1)];
                let sum = predicted.wrapping_add(times_half(excitation, i32::from(noise)));
                long[now] = sum.wrapping_shl(2);
            }
            for tap in &mut plc.taps {
                *tap = ((taps_left * i32::from(*tap)) >> 15) as i16;
            }
            noise = ((i32::from(noise) * i32::from(noise_left as i16)) >> 15) as i16;
            plc.lag = plc.lag.wrapping_add(times_half(plc.lag, DRIFT));
            plc.lag = plc.lag.min((18 * format.khz as i32) << 8);
            lag = rounded(plc.lag, 8) as usize;
        }
        plc.noise = noise;
        let x = &mut long[MAX_MEMORY - MAX_ORDER..MAX_MEMORY + format.frame_len()];
        x[..MAX_ORDER].copy_from_slice(&self.state);
        filter::synthesise(x, MAX_ORDER, &plc.filter, order);
        let gain = plc.gains[1] >> 6;
        for (to, &x) in to.iter_mut().zip(&x[MAX_ORDER..]) {
            *to = to_sample(rounded(times(x, gain), 8));
        }
        self.state.copy_from_slice(&x[format.frame_len()..]);
        lag
    }

    /// Where the quieter of the last two subframes ends the samples that noise is taken from.
    fn quietest(&self) -> usize {
        let plc = &self.concealment;
        let format = self.format;
        let (len, n) = (format.subframe_len(), format.n_subframes);
        let energies = [0, 1].map(|i| {
            let gain = plc.gains[i] >> 6;
            let at = (n - 2 + i) * len;
            let mut scaled = [0; MAX_FRAME_LEN / 4];
            for (to, &x) in scaled.iter_mut().zip(&self.excitation[at..at + len]) {
                *to = to_sample(times(x, gain) >> 8);
            }
            energy(&scaled[..len])
        });
        let [(first, shift_first), (second, shift_second)] = energies;
        let is_first = first >> shift_second.min(31) < second >> shift_first.min(31);
        let last = plc.format.frame_len() - usize::from(is_first) * plc.format.subframe_len();
        last.saturating_sub(128)
    }
}
