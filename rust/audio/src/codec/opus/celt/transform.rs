//! From coefficients to samples, RFC 6716 section 4.3.7: the inverse transform of a frame, as one long
//! block or several short ones.
//!
//! The transform of `n` coefficients is a cosine transform of type IV, from which the overlapping halves
//! follow by symmetry. That is a Fourier transform of `n / 2` points between two turns.

// Points and lanes have fixed numbers. What `pulp` dispatches to must be inlined into the function that
// it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use super::fourier::{N, PADDED, PLACES, Rows, Turns, lanes, together};
use crate::{
    complex::Complex,
    trig::{cos_pi, sin_pi},
};

/// Coefficients, and samples, of a short block.
pub(super) const SHORT: usize = 2 * N;

/// The longest frame.
pub(super) const LONGEST: usize = 8 * SHORT;

/// Angles at the points of a block, 60 a row.
struct Points<const W: usize> {
    cos: Rows<W>,
    sin: Rows<W>,
}

impl<const W: usize> Points<W> {
    const fn new() -> Self {
        let (mut cos, mut sin) = ([[0.0; PADDED]; W], [[0.0; PADDED]; W]);
        let mut n = 0;
        while n < N * W {
            let (turn, half) = (8 * n as u32 + 1, (16 * N * W) as u32);
            cos[n / N][n % N] = cos_pi(turn, half) as f32;
            sin[n / N][n % N] = sin_pi(turn, half) as f32;
            n += 1;
        }
        Self { cos, sin }
    }
}

/// Turns the coefficients of one long block into `n` samples between the middles of its overlaps.
#[inline(always)]
pub(super) fn long(log_len: usize, x: &[f32; LONGEST], to: &mut [f32; LONGEST]) {
    static POINTS_1: Points<1> = Points::new();
    static POINTS_2: Points<2> = Points::new();
    static POINTS_4: Points<4> = Points::new();
    static POINTS_8: Points<8> = Points::new();
    static TURNS_1: Turns<1> = Turns::new();
    static TURNS_2: Turns<2> = Turns::new();
    static TURNS_4: Turns<4> = Turns::new();
    static TURNS_8: Turns<8> = Turns::new();
    match log_len {
        0 => long_of(&POINTS_1, &TURNS_1, x, to),
        1 => long_of(&POINTS_2, &TURNS_2, x, to),
        2 => long_of(&POINTS_4, &TURNS_4, x, to),
        _ => long_of(&POINTS_8, &TURNS_8, x, to),
    }
}

#[inline(always)]
fn long_of<const W: usize>(
    points: &Points<W>,
    turns: &Turns<W>,
    x: &[f32; LONGEST],
    to: &mut [f32; LONGEST],
) {
    let n = SHORT * W;
    let mut lane_points = [Complex::<W>::ZERO; N];
    for (m, point) in lane_points.iter_mut().enumerate() {
        *point = Complex::from_fn(|lane| {
            let at = W * m + lane;
            let (re, im) = (x[2 * at], x[n - 1 - 2 * at]);
            let (cos, sin) = (points.cos[at / N][at % N], points.sin[at / N][at % N]);
            (re * cos + im * sin, im * cos - re * sin)
        });
    }
    lanes(&mut lane_points);
    let (mut re, mut im) = ([[0.0; PADDED]; W], [[0.0; PADDED]; W]);
    for (k, &place) in PLACES.iter().enumerate() {
        let point = &lane_points[usize::from(place)];
        for lane in 0..W {
            re[lane][k] = point.re[lane];
            im[lane][k] = point.im[lane];
        }
    }
    together(turns, &mut re, &mut im);
    for q in 0..W {
        let (re, im) = (&mut re[q], &mut im[q]);
        let (cos, sin) = (&points.cos[q], &points.sin[q]);
        for k in 0..PADDED {
            let (a, b) = (re[k], im[k]);
            (re[k], im[k]) = (a * cos[k] + b * sin[k], b * cos[k] - a * sin[k]);
        }
    }
    // Even samples from the front, odd ones from the end.
    for q in 0..W {
        let (evens, odds) = (&im[q], &re[W - 1 - q]);
        let pairs = to[SHORT * q..SHORT * (q + 1)].as_chunks_mut::<2>().0;
        for (k, pair) in pairs.iter_mut().enumerate().take(N) {
            *pair = [evens[k], -odds[N - 1 - k]];
        }
    }
}

/// The same for `1 << log_len` short blocks, whose coefficients alternate. Blocks follow each other.
#[inline(always)]
pub(super) fn short(log_len: usize, x: &[f32; LONGEST], to: &mut [f32; LONGEST]) {
    match log_len {
        0 => short_of::<1>(x, to),
        1 => short_of::<2>(x, to),
        2 => short_of::<4>(x, to),
        _ => short_of::<8>(x, to),
    }
}

#[inline(always)]
fn short_of<const W: usize>(x: &[f32; LONGEST], to: &mut [f32; LONGEST]) {
    static POINTS: Points<1> = Points::new();
    let (cos, sin) = (&POINTS.cos[0], &POINTS.sin[0]);
    let mut blocks = [Complex::<W>::ZERO; N];
    for (m, point) in blocks.iter_mut().enumerate() {
        let (even, odd) = (2 * m * W, (SHORT - 1 - 2 * m) * W);
        *point = Complex::from_fn(|block| (x[even + block], x[odd + block]))
            .turned(&[cos[m]; W], &[sin[m]; W]);
    }
    lanes(&mut blocks);
    for (k, &place) in PLACES.iter().enumerate() {
        let point = blocks[usize::from(place)].turned(&[cos[k]; W], &[sin[k]; W]);
        for block in 0..W {
            to[block * SHORT + 2 * k] = point.im[block];
            to[block * SHORT + SHORT - 1 - 2 * k] = -point.re[block];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    /// The transform as it is defined, in the samples that are not mirrored.
    fn slowly(x: &[f64]) -> Vec<f64> {
        let n = x.len() as f64;
        let sample = |t: usize| {
            let at = t as f64 + 0.5 + n / 2.0 + n / 2.0;
            let terms = x.iter().enumerate();
            terms.map(|(k, x)| x * (PI / n * at * (k as f64 + 0.5)).cos()).sum()
        };
        (0..x.len()).map(sample).collect()
    }

    #[test]
    fn equals_its_definition() {
        let mut noise = 1u32;
        let x: [f32; LONGEST] = std::array::from_fn(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 8) as f32 / 8_388_608.0 - 1.0
        });
        for log_len in 0..4 {
            let n = SHORT << log_len;
            let mut to = [0.0; LONGEST];
            long(log_len, &x, &mut to);
            let all: Vec<f64> = x[..n].iter().map(|&x| f64::from(x)).collect();
            for (i, want) in slowly(&all).into_iter().enumerate() {
                assert!((f64::from(to[i]) - want).abs() < 3e-5, "{n}, {i}: {} {want}", to[i]);
            }
            short(log_len, &x, &mut to);
            for block in 0..1 << log_len {
                let one: Vec<f64> = all.iter().skip(block).step_by(1 << log_len).copied().collect();
                for (i, want) in slowly(&one).into_iter().enumerate() {
                    let got = f64::from(to[block * SHORT + i]);
                    assert!((got - want).abs() < 3e-5, "{n}, {block}, {i}: {got} {want}");
                }
            }
        }
    }
}
