//! From the spectrum of a block to samples, Vorbis I section 4.3.7, and the joint between two blocks,
//! section 4.3.8.
//!
//! The transform of `n` coefficients gives `2 n` samples, of which each half says the same twice: the first
//! half is odd about its middle, the second one even. So it is a cosine transform of type IV, which is a
//! Fourier transform of `n / 2` points between two turns.

// Lengths that go together are made together. What `pulp` dispatches to must be inlined into the function
// that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use std::f64::consts::FRAC_PI_2;

use pulp::Simd;

use crate::{
    fourier::{
        Complex, Fourier, Points, Source, evens, load, odds_reversed, reversed, store, zipped,
    },
    trig::{cos, cos_pi, sin_pi},
};

/// Tables for blocks of one length.
#[derive(Clone, Debug)]
pub(super) struct Transform {
    fourier: Fourier,
    /// By how much points are turned before and after.
    cos: Vec<f32>,
    sin: Vec<f32>,
    /// The window's slope between two such blocks, up to its middle, and from its end back.
    rise: Vec<f32>,
    fall: Vec<f32>,
}

/// The spectrum of a channel: each line is a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spectrum<'a> {
    pub(super) residue: &'a [f32],
    pub(super) curve: &'a [f32],
}

/// Memory for transforms.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    points: Points,
    spare: Points,
}

impl Scratch {
    fn fit(&mut self, n: usize) {
        if self.points.re.len() < n {
            *self = Self { points: Points::new(n), spare: Points::new(n) };
        }
    }
}

impl Transform {
    pub(super) fn new(block_len: u32) -> Self {
        let n = block_len / 4;
        let table = |f: fn(u32, u32) -> f64| (0..n).map(|k| f(8 * k + 1, 16 * n) as f32).collect();
        // The slope has `2 n` samples.
        let slope = |i: u32| {
            let sin = sin_pi(2 * i + 1, 8 * n);
            cos(FRAC_PI_2 * (1.0 - sin * sin)) as f32
        };
        Self {
            fourier: Fourier::new(n as usize),
            cos: table(cos_pi),
            sin: table(sin_pi),
            rise: (0..n).map(slope).collect(),
            fall: (n..2 * n).rev().map(slope).collect(),
        }
    }

    /// Turns a spectrum into the first quarter of its block and the third one. They mirror the others.
    #[inline(always)]
    pub(super) fn run<S: Simd>(
        &self,
        simd: S,
        spectrum: Spectrum<'_>,
        scratch: &mut Scratch,
        first: &mut [f32],
        third: &mut [f32],
    ) {
        let n = self.cos.len();
        scratch.fit(n);
        let Scratch { points, spare } = scratch;
        let source = Lines { spectrum, cos: &self.cos, sin: &self.sin };
        self.fourier.run(simd, &source, points, spare);
        // Even samples come from the middle up, odd ones from the middle down.
        for i in (0..n / 2).step_by(S::F32_LANES) {
            let (above, below) = (n / 2 + i, n / 2 - i - S::F32_LANES);
            let (up, down) = (self.sample(simd, points, above), self.sample(simd, points, below));
            let [a, b] = zipped(simd, up.re, reversed(simd, simd.neg_f32s(down.im)));
            store::<S>(first, 2 * i, a);
            store::<S>(first, 2 * i + S::F32_LANES, b);
            let [a, b] = zipped(simd, up.im, reversed(simd, simd.neg_f32s(down.re)));
            store::<S>(third, 2 * i, a);
            store::<S>(third, 2 * i + S::F32_LANES, b);
        }
    }

    /// Transformed points, turned: samples of both quarters.
    #[inline(always)]
    fn sample<S: Simd>(&self, simd: S, points: &Points, i: usize) -> Complex<S> {
        points.get(simd, i).turned(simd, load::<S>(&self.cos, i), load::<S>(&self.sin, i))
    }

    /// Joins a block, of which the third quarter is given, with the next one, of which it is the first.
    /// The frames between their middles go to `out`. `self` is of the shorter block.
    #[inline(always)]
    pub(super) fn join<S: Simd>(&self, simd: S, third: &[f32], first: &[f32], out: &mut Vec<f32>) {
        // Outside of the slope, which is that of the shorter block, the longer one is alone.
        let n = self.rise.len();
        out.resize(third.len() + first.len(), 0.0);
        let (alone, third) = third.split_at(third.len() - n);
        let (after, first) = first.split_at(first.len() - n);
        let (to, rest) = out.split_at_mut(alone.len());
        to.copy_from_slice(alone);
        let (slope, rest) = rest.split_at_mut(2 * n);
        let product = |a, b| simd.mul_f32s(a, b);
        for i in (0..n).step_by(S::F32_LANES) {
            let (a, b) = (load::<S>(first, i), load::<S>(third, i));
            let (rise, fall) = (load::<S>(&self.rise, i), load::<S>(&self.fall, i));
            store::<S>(slope, i, simd.add_f32s(product(a, rise), product(b, fall)));
            let back = simd.sub_f32s(product(b, rise), product(a, fall));
            store::<S>(slope, 2 * n - i - S::F32_LANES, reversed(simd, back));
        }
        rest.iter_mut().zip(after.iter().rev()).for_each(|(to, x)| *to = -x);
    }
}

/// The lines of a spectrum as points, turned: the real parts are even lines from the front, the imaginary
/// ones odd lines from the end.
struct Lines<'a> {
    spectrum: Spectrum<'a>,
    cos: &'a [f32],
    sin: &'a [f32],
}

impl Source for Lines<'_> {
    #[inline(always)]
    fn get<S: Simd>(&self, simd: S, i: usize) -> Complex<S> {
        let lanes = S::F32_LANES;
        let Spectrum { residue, curve } = self.spectrum;
        let line = |i: usize| simd.mul_f32s(load::<S>(residue, i), load::<S>(curve, i));
        let back = residue.len() - 2 * i - 2 * lanes;
        let points = Complex {
            re: evens(simd, line(2 * i), line(2 * i + lanes)),
            im: odds_reversed(simd, line(back), line(back + lanes)),
        };
        points.turned(simd, load::<S>(self.cos, i), load::<S>(self.sin, i))
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn noise(n: usize) -> Vec<f32> {
        let mut noise = n as u32;
        let mut next = || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    /// All samples of a block, without a window, as they are defined.
    fn block(spectrum: &[f32]) -> Vec<f64> {
        let n = spectrum.len() as f64;
        let sample = |t: usize| {
            let at = t as f64 + 0.5 + n / 2.0;
            let terms = spectrum.iter().enumerate();
            terms.map(|(k, &x)| f64::from(x) * (PI / n * at * (k as f64 + 0.5)).cos()).sum()
        };
        (0..2 * spectrum.len()).map(sample).collect()
    }

    fn halves(transform: &Transform, spectrum: &[f32]) -> [Vec<f32>; 2] {
        let doubled: Vec<f32> = spectrum.iter().map(|x| x * 2.0).collect();
        let (mut first, mut second) =
            (vec![0.0; spectrum.len() / 2], vec![0.0; spectrum.len() / 2]);
        let scratch = &mut Scratch::default();
        let spectrum = Spectrum { residue: &doubled, curve: &vec![0.5; spectrum.len()] };
        transform.run(pulp::Scalar, spectrum, scratch, &mut first, &mut second);
        [first, second]
    }

    #[test]
    fn blocks_equal_their_definition() {
        for log in 6..=11 {
            let n = 1usize << log >> 1;
            let spectrum = noise(n);
            let [first, second] = halves(&Transform::new(2 * n as u32), &spectrum);
            let want = block(&spectrum);
            for i in 0..n / 2 {
                let bound = 1e-6 * n as f64;
                assert!((f64::from(first[i]) - want[i]).abs() < bound, "{n}, {i}");
                assert!((f64::from(second[i]) - want[n + i]).abs() < bound, "{n}, {i}");
            }
        }
    }

    #[test]
    fn joints_equal_their_definition() {
        for lens in [[64, 64], [64, 256], [256, 64], [256, 256]] {
            let transforms = lens.map(Transform::new);
            let spectra = lens.map(|len| noise(len as usize / 2));
            let [_, second] = halves(&transforms[0], &spectra[0]);
            let [first, _] = halves(&transforms[1], &spectra[1]);
            let shorter = usize::from(lens[1] < lens[0]);
            let mut out = vec![9.0; 7];
            transforms[shorter].join(pulp::Scalar, &second, &first, &mut out);

            let [before, after] = lens.map(|len| len as usize);
            let slope = before.min(after) / 2;
            let window = |i: usize| {
                let sin = (PI / 2.0 * (i as f64 + 0.5) / slope as f64).sin();
                (PI / 2.0 * sin * sin).sin()
            };
            assert_eq!(out.len(), before / 4 + after / 4);
            let blocks = spectra.map(|spectrum| block(&spectrum));
            let start = before / 4 - slope / 2;
            for (i, &x) in out.iter().enumerate() {
                // The place of the sample in both blocks.
                let at = [Some(before / 2 + i), (after / 4 + i).checked_sub(before / 4)];
                let [old, new] = [0, 1].map(|b| at[b].and_then(|at| blocks[b].get(at)).copied());
                let weights = if i < start {
                    [1.0, 0.0]
                } else if i < start + slope {
                    [window(slope - 1 - (i - start)), window(i - start)]
                } else {
                    [0.0, 1.0]
                };
                let want = old.unwrap_or(0.0) * weights[0] + new.unwrap_or(0.0) * weights[1];
                assert!((f64::from(x) - want).abs() < 1e-4, "{lens:?}, {i}: {x} {want}");
            }
        }
    }
}
