//! One channel: from what a frame says to samples at the rate inside, RFC 6716 section 4.2.7.9.

// Subframes and orders have fixed numbers, and lags are no longer than the history.
#![allow(clippy::indexing_slicing)]

use super::{
    conceal::Concealment,
    filter::{self, Filter, MAX_ORDER},
    indices::{self, Before, Format, Indices, MAX_SUBFRAMES, Reference, Signal},
    math::{inverse, next_random, power, quotient, rounded, times, times_half, to_sample},
    noise::Noise,
    pulses::{self, Pulses},
    resample::Resampler,
    tables::{
        FILTERS_0, FILTERS_1, FILTERS_2, MAX_FRAME_LEN, OFFSETS, OFFSETS_NARROW,
        OFFSETS_NARROW_SHORT, OFFSETS_SHORT, QUANT_OFFSETS, SCALES_Q14,
    },
};
use crate::codec::opus::range_decoder::RangeDecoder;

/// Samples that long-term prediction reaches back at most.
pub(super) const MAX_MEMORY: usize = 320;

/// Taps of a long-term filter, in 2^14ths; the middle one is a lag ago.
pub(super) type Taps = [i16; 5];

/// What the sound of a frame is made with.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    /// In 2^16ths.
    pub(super) gains: [i32; MAX_SUBFRAMES],
    /// Those of the first two subframes, and of the last two.
    pub(super) filters: [Filter; 2],
    pub(super) lags: [usize; MAX_SUBFRAMES],
    pub(super) taps: [Taps; MAX_SUBFRAMES],
    pub(super) scale: i32,
}

/// What a channel carries from frame to frame.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) format: Format,
    before: Before,
    /// Samples of the past, the last of them at the end.
    pub(super) past: [i16; MAX_MEMORY],
    /// The last samples ahead of their gain, in 2^14ths.
    pub(super) state: [i32; MAX_ORDER],
    pub(super) excitation: [i32; MAX_FRAME_LEN],
    gain: i32,
    pub(super) last_gain: i32,
    pub(super) lag: usize,
    pub(super) n_lost: u32,
    pub(super) signal: Signal,
    pub(super) is_first: bool,
    pub(super) frequencies: [i16; MAX_ORDER],
    pub(super) concealment: Concealment,
    noise: Noise,
    pub(super) resampler: Resampler,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            format: Format::default(),
            before: Before::default(),
            past: [0; MAX_MEMORY],
            state: [0; MAX_ORDER],
            excitation: [0; MAX_FRAME_LEN],
            gain: 1 << 16,
            last_gain: 0,
            lag: 0,
            n_lost: 0,
            signal: Signal::default(),
            is_first: true,
            frequencies: [0; MAX_ORDER],
            concealment: Concealment::default(),
            noise: Noise::default(),
            resampler: Resampler::default(),
        }
    }
}

impl Channel {
    /// Prepares for frames of this format.
    pub(super) fn set_format(&mut self, format: Format) {
        if self.format.khz != format.khz {
            self.resampler = Resampler::new(format.khz);
            self.forget();
        }
        self.format = format;
    }

    /// Forgets what sound is predicted from.
    pub(super) fn forget(&mut self) {
        self.past = [0; MAX_MEMORY];
        self.state = [0; MAX_ORDER];
        self.lag = 100;
        self.last_gain = 10;
        self.signal = Signal::Inactive;
        self.is_first = true;
    }

    /// Reads a frame and leaves it.
    pub(super) fn skip(&mut self, code: &mut RangeDecoder<'_>, reference: Reference) {
        let frame = indices::read(code, self.format, true, reference, &mut self.before);
        pulses::read(code, self.format, frame.signal, frame.offset);
    }

    /// Decodes a frame.
    pub(super) fn decode(
        &mut self,
        code: &mut RangeDecoder<'_>,
        is_active: bool,
        reference: Reference,
        to: &mut [i16],
    ) {
        let format = self.format;
        let frame = indices::read(code, format, is_active, reference, &mut self.before);
        let pulses = pulses::read(code, format, frame.signal, frame.offset);
        let mut parameters = self.parameters(&frame, reference);
        self.synthesise(&frame, &mut parameters, &pulses, to);
        self.keep(to);
        self.concealment.update(format, frame.signal, &parameters);
        self.n_lost = 0;
        self.signal = frame.signal;
        self.is_first = false;
        self.finish(&parameters, parameters.lags[format.n_subframes - 1], to);
    }

    /// Makes up a frame that was lost.
    pub(super) fn conceal(&mut self, to: &mut [i16]) {
        let lag = self.extrapolate(to);
        self.n_lost = self.n_lost.saturating_add(1);
        self.keep(to);
        self.finish(&Parameters::default(), lag, to);
    }

    /// What follows samples, decoded or made up.
    fn finish(&mut self, parameters: &Parameters, lag: usize, to: &mut [i16]) {
        if self.n_lost == 0 && self.signal == Signal::Inactive {
            self.noise.update(self.format, &self.frequencies, &parameters.gains, &self.excitation);
        }
        if self.n_lost == 0 {
            self.noise.stop(self.format);
        } else {
            self.noise.add(self.format, self.concealment.level(), to);
        }
        self.concealment.join(self.n_lost > 0, to);
        self.lag = lag;
    }

    /// Keeps samples for long-term prediction.
    fn keep(&mut self, samples: &[i16]) {
        self.past.copy_within(samples.len().., 0);
        self.past[MAX_MEMORY - samples.len()..].copy_from_slice(samples);
    }

    fn parameters(&mut self, frame: &Indices, reference: Reference) -> Parameters {
        /// How filters are widened behind a loss.
        const WIDER: i32 = 63_570;
        let format = self.format;
        let (n, order) = (format.n_subframes, format.order());
        let mut to = Parameters::default();
        for (i, (gain, &index)) in to.gains.iter_mut().zip(&frame.gains).enumerate().take(n) {
            let last = self.last_gain;
            let next = if i == 0 && reference != Reference::Last {
                index.max(last - 16)
            } else {
                // Large steps are doubled.
                let (step, single) = (index - 4, 8 + last);
                last + if step > single { 2 * step - single } else { step }
            };
            self.last_gain = next.clamp(0, 63);
            *gain = power((times_half_of_gain(self.last_gain) + 2_090).min(3_967));
        }
        to.filters[1] = filter::of_frequencies(&frame.frequencies, order);
        to.filters[0] = if frame.interpolation < 4 && !self.is_first {
            let mut between = [0; MAX_ORDER];
            let pairs = self.frequencies.iter().zip(&frame.frequencies);
            for (to, (&before, &now)) in between.iter_mut().zip(pairs) {
                let (before, now) = (i32::from(before), i32::from(now));
                *to = (before + ((frame.interpolation * (now - before)) >> 2)) as i16;
            }
            filter::of_frequencies(&between, order)
        } else {
            to.filters[1]
        };
        self.frequencies = frame.frequencies;
        if self.n_lost > 0 {
            to.filters.iter_mut().for_each(|filter| filter::widen_filter(filter, WIDER));
        }
        if frame.signal == Signal::Voiced {
            let (least, most) = (2 * format.khz as i32, 18 * format.khz as i32);
            for i in 0..n {
                let offset = match (format.khz, n) {
                    (8, 4) => OFFSETS_NARROW[i][frame.contour],
                    (8, _) => OFFSETS_NARROW_SHORT[i][frame.contour],
                    (_, 4) => OFFSETS[i][frame.contour],
                    _ => OFFSETS_SHORT[i][frame.contour],
                };
                let lag = least + frame.lag + i32::from(offset);
                to.lags[i] = lag.clamp(least, most) as usize;
                let taps = match frame.filter_set {
                    0 => FILTERS_0[frame.filters[i]],
                    1 => FILTERS_1[frame.filters[i]],
                    _ => FILTERS_2[frame.filters[i]],
                };
                to.taps[i] = taps.map(|tap| i16::from(tap) << 7);
            }
            to.scale = SCALES_Q14[frame.scale];
        }
        to
    }

    fn synthesise(
        &mut self,
        frame: &Indices,
        parameters: &mut Parameters,
        pulses: &Pulses,
        to: &mut [i16],
    ) {
        let format = self.format;
        let (len, order) = (format.subframe_len(), format.order());
        self.excite(frame, pulses);
        let is_interpolated = frame.interpolation < 4 && !self.is_first;
        // Behind what is past, in 2^15ths of the gain.
        let mut long = [0i32; MAX_MEMORY + MAX_FRAME_LEN];
        let mut x = [0i32; MAX_ORDER + MAX_FRAME_LEN / 4];
        let x = &mut x[..MAX_ORDER + len];
        x[..MAX_ORDER].copy_from_slice(&self.state);
        for i in 0..format.n_subframes {
            let gain = parameters.gains[i];
            let mut inverse_gain = inverse(gain, 47);
            let change = if gain == self.gain { 1 << 16 } else { quotient(self.gain, gain, 16) };
            if gain != self.gain {
                x[..MAX_ORDER].iter_mut().for_each(|x| *x = times(change, *x));
            }
            self.gain = gain;
            let mut is_voiced = frame.signal == Signal::Voiced;
            // A voice that was made up does not end at once.
            if self.n_lost > 0 && self.signal == Signal::Voiced && !is_voiced && i < 2 {
                parameters.taps[i] = [0, 0, 1 << 12, 0, 0];
                parameters.lags[i] = self.lag;
                is_voiced = true;
            }
            let filter = &parameters.filters[i / 2];
            let at = i * len;
            let excitation = &self.excitation[at..at + len];
            if is_voiced {
                let lag = parameters.lags[i];
                let reach = lag + 2;
                if i == 0 || i == 2 && is_interpolated {
                    // What is past is filtered anew.
                    let mut past = [0; MAX_MEMORY + MAX_FRAME_LEN / 2];
                    past[..MAX_MEMORY].copy_from_slice(&self.past);
                    past[MAX_MEMORY..MAX_MEMORY + at].copy_from_slice(&to[..at]);
                    let mut rest = [0; MAX_MEMORY];
                    let n = reach + order;
                    let end = MAX_MEMORY + at;
                    filter::residual(&past[end - n..end], filter, order, &mut rest[..n]);
                    if i == 0 {
                        inverse_gain = times_half(inverse_gain, parameters.scale) << 2;
                    }
                    for (to, &rest) in long[end - reach..end].iter_mut().zip(&rest[order..n]) {
                        *to = times_half(inverse_gain, i32::from(rest));
                    }
                } else if change != 1 << 16 {
                    let end = MAX_MEMORY + at;
                    long[end - reach..end].iter_mut().for_each(|x| *x = times(change, *x));
                }
                let taps = parameters.taps[i];
                for (j, &excitation) in excitation.iter().enumerate() {
                    let now = MAX_MEMORY + at + j;
                    let around = &long[now - lag - 2..=now - lag + 2];
                    let predicted = predict(2, around, &taps);
                    let sum = excitation.wrapping_add(predicted.wrapping_shl(1));
                    x[MAX_ORDER + j] = sum;
                    long[now] = sum.wrapping_shl(1);
                }
            } else {
                x[MAX_ORDER..].copy_from_slice(excitation);
            }
            filter::synthesise(x, MAX_ORDER, filter, order);
            for (to, &x) in to[at..at + len].iter_mut().zip(&x[MAX_ORDER..]) {
                *to = to_sample(rounded(times(x, gain >> 6), 8));
            }
            x.copy_within(len.., 0);
        }
        self.state.copy_from_slice(&x[..MAX_ORDER]);
    }

    /// Turns pulses into the excitation, in 2^14ths.
    fn excite(&mut self, frame: &Indices, pulses: &Pulses) {
        /// By how much a pulse is closer to zero than its number.
        const CLOSER: i32 = 80 << 4;
        let voiced = usize::from(frame.signal == Signal::Voiced);
        let offset = QUANT_OFFSETS[voiced][frame.offset] << 4;
        let mut seed = frame.seed;
        let n = self.format.frame_len();
        for (to, &pulse) in self.excitation.iter_mut().zip(pulses).take(n) {
            let pulse = i32::from(pulse);
            seed = next_random(seed);
            let x = (pulse << 14) - CLOSER * pulse.signum() + offset;
            *to = if seed < 0 { -x } else { x };
            seed = seed.wrapping_add(pulse);
        }
    }
}

/// A gain's step in 128ths of a power of two.
fn times_half_of_gain(index: i32) -> i32 {
    times(1_907_825, index)
}

/// Adds what long-term taps predict; of the samples around a lag ago the newest comes first in the taps.
#[inline]
pub(super) fn predict(bias: i32, around: &[i32], taps: &Taps) -> i32 {
    around
        .iter()
        .rev()
        .zip(taps)
        .fold(bias, |sum, (&x, &tap)| sum.wrapping_add(times_half(x, i32::from(tap))))
}
