//! Frames of CELT that are lost, or empty because there was nothing to say: the last pitch continues and
//! fades, later the noise that was there, as libopus has it. The standard leaves this to the decoder.

// Orders, lags and places in the past are fixed numbers, or between two of them.
#![allow(clippy::indexing_slicing)]
// Samples and coefficients are what the standard calls them; a comparison also catches what is no number.
#![allow(
    clippy::many_single_char_names,
    clippy::neg_cmp_op_on_partial_ord,
    clippy::needless_for_each
)]

use std::ops::Range;

use super::{
    bands::{N_COEFFICIENTS, Noise},
    shape::normalise,
    synthesis::{Channel, OVERLAP, PAST, WINDOW},
    tables::EDGES,
    transform::LONGEST,
};

/// Coefficients of the filter that tells the spectrum of a sound from its excitation.
pub(super) const ORDER: usize = 24;
pub(super) type Predictor = [f32; ORDER];

/// Samples in which an excitation is looked for.
const WITHIN: usize = 1_024;

/// The lags of a pitch.
const LAGS: Range<usize> = 100..720;

/// Limits in libopus are those of samples of 16 bits.
const SCALE: f32 = 32_768.0;

/// Fills bands with noise of length one.
pub(super) fn noise(
    x: &mut [f32; N_COEFFICIENTS],
    seed: &mut u32,
    bands: Range<usize>,
    log_len: usize,
) {
    let mut noise = Noise(*seed);
    for edges in EDGES[bands.start..=bands.end].windows(2) {
        let band = &mut x[edges[0] << log_len..edges[1] << log_len];
        band.iter_mut().for_each(|x| *x = (noise.next().cast_signed() >> 20) as f32);
        normalise(band, 1.0);
    }
    *seed = noise.0;
}

/// The sums of products of `x` with itself, `lag` samples apart.
fn correlations<const N: usize>(x: &[f32]) -> [f32; N] {
    let mut sums = std::array::from_fn(|lag| x.iter().zip(&x[lag..]).map(|(a, b)| a * b).sum());
    // A floor of noise, and less of what is far, so that the filter is stable.
    sums[0] *= 1.0001;
    for (lag, sum) in sums.iter_mut().enumerate() {
        let far = 0.008 * lag as f32;
        *sum -= *sum * far * far;
    }
    sums
}

/// The filter that best predicts what has these correlations, one more than its order.
fn predictor<const N: usize>(sums: &[f32]) -> [f32; N] {
    let mut a = [0.0; N];
    let mut error = sums[0];
    if error <= 1e-10 {
        return a;
    }
    for i in 0..N {
        let rest: f32 = (0..i).map(|j| a[j] * sums[i - j]).sum::<f32>() + sums[i + 1];
        let turn = -rest / error;
        a[i] = turn;
        for j in 0..i.div_ceil(2) {
            let (low, high) = (a[j], a[i - 1 - j]);
            (a[j], a[i - 1 - j]) = (low + turn * high, high + turn * low);
        }
        error -= turn * turn * error;
        if error <= 0.001 * sums[0] {
            break;
        }
    }
    a
}

/// What a filter leaves of `x`, behind the first samples, which it reaches back to.
fn residual(x: &[f32], a: &[f32], to: &mut [f32]) {
    for (window, to) in x.windows(a.len() + 1).zip(to) {
        let Some((now, past)) = window.split_last() else { return };
        *to = past.iter().rev().zip(a).fold(*now, |sum, (x, a)| sum + a * x);
    }
}

/// The lag at which the sound of all channels repeats.
pub(super) fn pitch(channels: &[Channel]) -> usize {
    const HALF: usize = PAST / 2;
    let mut x = [0.0; HALF + 5];
    for channel in channels {
        let past = channel.past();
        for (i, x) in x[5..].iter_mut().enumerate() {
            let before = if i == 0 { 0.0 } else { past[2 * i - 1] };
            *x += SCALE * (0.25 * before + 0.25 * past[2 * i + 1] + 0.5 * past[2 * i]);
        }
    }
    // Whitened, but for a zero at the top.
    let mut a: [f32; 4] = predictor(&correlations::<5>(&x[5..]));
    let mut less = 1.0;
    for a in &mut a {
        less *= 0.9;
        *a *= less;
    }
    let a = [a[0] + 0.8, a[1] + 0.8 * a[0], a[2] + 0.8 * a[1], a[3] + 0.8 * a[2], 0.8 * a[3]];
    let mut white = [0.0; HALF];
    residual(&x, &a, &mut white);
    LAGS.end - search(&white)
}

/// Where in the past the end of `y` is found again, in samples of twice the rate from the start.
fn search(y: &[f32]) -> usize {
    let n_lags = LAGS.len();
    let x = &y[LAGS.end / 2..];
    let len = PAST - LAGS.end;
    let product = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
    let quarter =
        |x: &[f32], n: usize| -> Vec<f32> { x.iter().step_by(2).take(n).copied().collect() };
    let (x4, y4) = (quarter(x, len / 4), quarter(y, (len + n_lags) / 4));
    let found: Vec<f32> = (0..n_lags / 4).map(|i| product(&x4, &y4[i..])).collect();
    let coarse = best_two(&found, &y4, len / 4);
    let x = &x[..len / 2];
    let found: Vec<f32> = (0..n_lags / 2)
        .map(|i| {
            let is_near = coarse.iter().any(|&c| i.abs_diff(2 * c) <= 2);
            if is_near { product(x, &y[i..]).max(-1.0) } else { 0.0 }
        })
        .collect();
    let [best, _] = best_two(&found, y, len / 2);
    let around = best.checked_sub(1).and_then(|before| found.get(before..before + 3));
    match around {
        Some(&[a, b, c]) if c - a > 0.7 * (b - a) => 2 * best - 1,
        Some(&[a, b, c]) if a - c > 0.7 * (b - c) => 2 * best + 1,
        _ => 2 * best,
    }
}

/// The two places at which the product is largest for the energy there.
fn best_two(found: &[f32], y: &[f32], len: usize) -> [usize; 2] {
    let mut energy = 1.0 + y[..len].iter().map(|y| y * y).sum::<f32>();
    let (mut best, mut values, mut energies) = ([0, 1], [-1.0f32; 2], [0.0f32; 2]);
    for (i, &found) in found.iter().enumerate() {
        if found > 0.0 {
            let found = found * 1e-12;
            let value = found * found;
            if value * energies[1] > values[1] * energy {
                if value * energies[0] > values[0] * energy {
                    best = [i, best[0]];
                    values = [value, values[0]];
                    energies = [energy, energies[0]];
                } else {
                    (best[1], values[1], energies[1]) = (i, value, energy);
                }
            }
        }
        if let Some(next) = y.get(i + len) {
            energy = (energy + next * next - y[i] * y[i]).max(1.0);
        }
    }
    best
}

impl Channel {
    /// Lets the pitch go on for a frame.
    pub(super) fn extrapolate(&mut self, pitch: usize, is_first: bool, to: &mut [f32]) {
        let past = self.past();
        let mut x = [0.0; ORDER + WITHIN];
        let from = &past[PAST - x.len()..];
        x.iter_mut().zip(from).for_each(|(x, from)| *x = SCALE * from);
        if is_first {
            let mut faded = [0.0; WITHIN];
            faded.copy_from_slice(&x[ORDER..]);
            for (i, w) in WINDOW.iter().enumerate() {
                faded[i] *= w;
                faded[WITHIN - 1 - i] *= w;
            }
            self.predictor = predictor(&correlations::<{ ORDER + 1 }>(&faded));
        }
        let a = self.predictor;
        let len = (2 * pitch).min(WITHIN);
        let mut excitation = [0.0; WITHIN];
        let excitation = &mut excitation[..len];
        residual(&x[WITHIN - len..], &a, excitation);
        // If the sound fades, it continues to fade.
        let energy = |x: &[f32]| 1.0 + x.iter().map(|x| x * x).sum::<f32>();
        let (before, last) = (energy(&excitation[..len / 2]), energy(&excitation[len - len / 2..]));
        let decay = (last.min(before) / before).sqrt();
        let n = to.len() + OVERLAP;
        let mut made = [0.0; ORDER + LONGEST + OVERLAP];
        let made = &mut made[..ORDER + n];
        made[..ORDER].copy_from_slice(&x[WITHIN..]);
        let mut level = if is_first { decay } else { 0.8 * decay };
        let (mut energy_before, mut j) = (0.0, 0);
        for made in &mut made[ORDER..] {
            if j >= pitch {
                j -= pitch;
                level *= decay;
            }
            *made = level * excitation[len - pitch + j];
            let x = x[ORDER + WITHIN - pitch + j];
            energy_before += x * x;
            j += 1;
        }
        for i in ORDER..made.len() {
            let past = made[i - ORDER..i].iter().rev();
            made[i] -= past.zip(&a).map(|(x, a)| x * a).sum::<f32>();
        }
        let made = &mut made[ORDER..];
        let energy: f32 = made.iter().map(|x| x * x).sum();
        // Also where it is no number.
        if !(energy_before > 0.2 * energy) {
            made.fill(0.0);
        } else if energy_before < energy {
            let ratio = ((energy_before + 1.0) / (energy + 1.0)).sqrt();
            for (i, x) in made.iter_mut().enumerate() {
                *x *= 1.0 - WINDOW.get(i).unwrap_or(&1.0) * (1.0 - ratio);
            }
        }
        made.iter_mut().for_each(|x| *x /= SCALE);
        self.take(made, to);
    }
}
