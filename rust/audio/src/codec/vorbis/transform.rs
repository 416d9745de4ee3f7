//! From the spectrum of a block to samples, Vorbis I section 4.3.7, and the joint between two blocks,
//! section 4.3.8.
//!
//! The transform of `n` coefficients gives `2 n` samples, of which each half says the same twice: the first
//! half is odd about its middle, the second one even. So it is a cosine transform of type IV, which is a
//! Fourier transform of `n / 2` points between two turns.

// Lanes have fixed numbers. What `pulp` dispatches to must be inlined into the function that it compiles
// for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use std::f64::consts::FRAC_PI_2;

use super::fourier::{Fourier, Points};
use crate::trig::{cos, cos_pi, sin_pi};

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

/// Memory for transforms.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    points: Points,
    other: Points,
}

impl Scratch {
    fn fit(&mut self, n: usize) {
        if self.points.re.len() != n {
            *self = Self { points: Points::new(n), other: Points::new(n) };
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
    pub(super) fn run(
        &self,
        spectrum: &[f32],
        scratch: &mut Scratch,
        first: &mut [f32],
        third: &mut [f32],
    ) {
        scratch.fit(self.cos.len());
        let Scratch { points, other } = scratch;
        // Even lines come from the front, odd ones from the end.
        let front = spectrum.as_chunks::<16>().0;
        let turns = self.cos.as_chunks::<8>().0.iter().zip(self.sin.as_chunks::<8>().0);
        let inputs = front.iter().zip(front.iter().rev()).zip(turns.clone());
        let to = points.re.as_chunks_mut::<8>().0.iter_mut().zip(points.im.as_chunks_mut::<8>().0);
        for (((front, back), (cos, sin)), (re, im)) in inputs.zip(to) {
            let (a, b) = (evens(front), odds_back(back));
            (*re, *im) = turned(&a, &b, cos, sin);
        }
        self.fourier.transform(points, other);
        let to = points.re.as_chunks_mut::<8>().0.iter_mut().zip(points.im.as_chunks_mut::<8>().0);
        for ((re, im), (cos, sin)) in to.zip(turns) {
            (*re, *im) = turned(re, im, cos, sin);
        }
        // So do samples; both quarters begin in the middle.
        let (re, im) = (points.re.as_chunks::<8>().0, points.im.as_chunks::<8>().0);
        let (re_below, re_above) = re.split_at(re.len() / 2);
        let (im_below, im_above) = im.split_at(im.len() / 2);
        let quarters = first.as_chunks_mut::<16>().0.iter_mut().zip(third.as_chunks_mut::<16>().0);
        let evens = re_above.iter().zip(im_above);
        let odds = im_below.iter().rev().zip(re_below.iter().rev());
        for (((a, b), evens), odds) in quarters.zip(evens).zip(odds) {
            *a = in_turns(evens.0, odds.0);
            *b = in_turns(evens.1, odds.1);
        }
    }

    /// Joins a block, of which the third quarter is given, with the next one, of which it is the first.
    /// What lies between their middles goes to `out`. `self` is of the shorter block.
    #[inline(always)]
    pub(super) fn join(&self, third: &[f32], first: &[f32], out: &mut Vec<f32>) {
        // Outside of the slope, which is that of the shorter block, the longer one is alone.
        let n = self.rise.len();
        out.resize(third.len() + first.len(), 0.0);
        let (alone, third) = third.split_at(third.len() - n);
        let (after, first) = first.split_at(first.len() - n);
        let (to, rest) = out.split_at_mut(alone.len());
        to.copy_from_slice(alone);
        let (slope, rest) = rest.split_at_mut(2 * n);
        let (front, back) = slope.split_at_mut(n);
        let weights = self.rise.as_chunks::<8>().0.iter().zip(self.fall.as_chunks::<8>().0);
        let from = first.as_chunks::<8>().0.iter().zip(third.as_chunks::<8>().0);
        let front = front.as_chunks_mut::<8>().0.iter_mut();
        let back = back.as_chunks_mut::<8>().0.iter_mut().rev();
        for (((a, b), (rise, fall)), (front, back)) in from.zip(weights).zip(front.zip(back)) {
            for i in 0..8 {
                front[i] = a[i] * rise[i] + b[i] * fall[i];
                back[7 - i] = b[i] * rise[i] - a[i] * fall[i];
            }
        }
        rest.iter_mut().zip(after.iter().rev()).for_each(|(to, x)| *to = -x);
    }
}

#[inline(always)]
fn turned(re: &[f32; 8], im: &[f32; 8], cos: &[f32; 8], sin: &[f32; 8]) -> ([f32; 8], [f32; 8]) {
    let (mut a, mut b) = ([0.0; 8], [0.0; 8]);
    for i in 0..8 {
        a[i] = re[i] * cos[i] + im[i] * sin[i];
        b[i] = im[i] * cos[i] - re[i] * sin[i];
    }
    (a, b)
}

#[inline(always)]
fn evens(x: &[f32; 16]) -> [f32; 8] {
    [x[0], x[2], x[4], x[6], x[8], x[10], x[12], x[14]]
}

#[inline(always)]
fn odds_back(x: &[f32; 16]) -> [f32; 8] {
    [x[15], x[13], x[11], x[9], x[7], x[5], x[3], x[1]]
}

/// Values of `a`, and between them those of `b` from the last one back, which change their sign.
#[inline(always)]
fn in_turns(a: &[f32; 8], b: &[f32; 8]) -> [f32; 16] {
    let mut to = [0.0; 16];
    for i in 0..8 {
        to[2 * i] = a[i];
        to[2 * i + 1] = -b[7 - i];
    }
    to
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
        let (mut first, mut second) =
            (vec![0.0; spectrum.len() / 2], vec![0.0; spectrum.len() / 2]);
        transform.run(spectrum, &mut Scratch::default(), &mut first, &mut second);
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
            transforms[shorter].join(&second, &first, &mut out);

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
                // Where the sample stands in both blocks.
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
