//! Fourier transforms of 16 to 2,048 points.
//!
//! Each pass takes the points of the one before in an order that leaves its results in the next one's,
//! so nothing is sorted (Stockham). The first pass is of eight points, and behind it eight
//! neighbours share each factor: all passes are loops over eight lanes, none of which knows of another.
//! So this compiles to vectors without a change of order, and the bits are the same on every machine.

// Points and lanes have fixed numbers. What `pulp` dispatches to must be inlined into the function that
// it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]
// Points of a short transform have no names.
#![allow(clippy::many_single_char_names)]

use crate::{
    complex::{Complex, of_eight, of_four},
    trig::{cos_pi, sin_pi},
};

/// Factors of the first pass: for each group of lanes those of the results but the first.
type Turns = [[[f32; 8]; 2]; 7];

/// A pass behind the first: of four points or two.
#[derive(Clone, Debug)]
struct Pass {
    /// Neighbours that share a factor.
    stride: usize,
    /// For each group, cosine and sine of the three results behind the first; none if the pass is of two.
    turns: Vec<[[f32; 2]; 3]>,
}

/// The tables of a transform.
#[derive(Clone, Debug)]
pub(super) struct Fourier {
    n: usize,
    first: Vec<Turns>,
    passes: Vec<Pass>,
}

/// The real and the imaginary parts of points.
#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    pub(super) re: Vec<f32>,
    pub(super) im: Vec<f32>,
}

impl Points {
    pub(super) fn new(n: usize) -> Self {
        Self { re: vec![0.0; n], im: vec![0.0; n] }
    }
}

impl Fourier {
    /// The tables for `n` points, a power of two from 16 on.
    pub(super) fn new(n: usize) -> Self {
        let turn = |k: usize, n: usize| {
            let (k, n) = (2 * (k % n) as u32, n as u32);
            [cos_pi(k, n) as f32, if k <= n { sin_pi(k, n) } else { -sin_pi(k - n, n) } as f32]
        };
        let first = (0..n / 8).step_by(8).map(|p| {
            std::array::from_fn(|q| {
                let turns: [[f32; 2]; 8] =
                    std::array::from_fn(|lane| turn((p + lane) * (q + 1), n));
                [turns.map(|[cos, _]| cos), turns.map(|[_, sin]| sin)]
            })
        });
        let mut passes = Vec::new();
        let (mut left, mut stride) = (n / 8, 8);
        while left >= 4 {
            let turns = (0..left / 4).map(|p| [p, 2 * p, 3 * p].map(|k| turn(k, left)));
            passes.push(Pass { stride, turns: turns.collect() });
            (left, stride) = (left / 4, stride * 4);
        }
        if left == 2 {
            passes.push(Pass { stride, turns: Vec::new() });
        }
        Self { n, first: first.collect(), passes }
    }

    /// Transforms the points, whose content is lost; the result is in `points` again. `other` is as long.
    #[inline(always)]
    pub(super) fn transform(&self, points: &mut Points, other: &mut Points) {
        match self.n {
            16 => self.first_pass::<2>(points, other),
            32 => self.first_pass::<4>(points, other),
            _ => self.first_pass::<8>(points, other),
        }
        std::mem::swap(points, other);
        for pass in &self.passes {
            if pass.turns.is_empty() {
                pass.by_two(points, other);
            } else {
                pass.by_four(points, other);
            }
            std::mem::swap(points, other);
        }
    }

    /// Eight points an eighth of all apart, for `W` neighbours at a time.
    #[inline(always)]
    fn first_pass<const W: usize>(&self, from: &Points, to: &mut Points) {
        let n_groups = self.n / 8 / W;
        let (re, im) = (from.re.as_chunks::<W>().0, from.im.as_chunks::<W>().0);
        let rows: [_; 8] = std::array::from_fn(|j| {
            let row = j * n_groups..(j + 1) * n_groups;
            (&re[row.clone()], &im[row])
        });
        let to_re = to.re.as_chunks_mut::<8>().0.chunks_exact_mut(W);
        let to_im = to.im.as_chunks_mut::<8>().0.chunks_exact_mut(W);
        let groups = to_re.zip(to_im).zip(&self.first).enumerate().take(n_groups);
        for (group, ((to_re, to_im), turns)) in groups {
            let x = |j: usize| Complex { re: rows[j].0[group], im: rows[j].1[group] };
            let mut y = of_eight([x(0), x(1), x(2), x(3), x(4), x(5), x(6), x(7)]);
            for (y, [cos, sin]) in y[1..].iter_mut().zip(turns) {
                let (cos, sin) = (cos.first_chunk::<W>(), sin.first_chunk::<W>());
                if let (Some(cos), Some(sin)) = (cos, sin) {
                    *y = y.turned(cos, sin);
                }
            }
            for (q, y) in y.iter().enumerate() {
                for lane in 0..W {
                    to_re[lane][q] = y.re[lane];
                    to_im[lane][q] = y.im[lane];
                }
            }
        }
    }
}

impl Pass {
    #[inline(always)]
    fn by_four(&self, from: &Points, to: &mut Points) {
        let quarter = from.re.len() / 4;
        let re = from.re.as_chunks::<8>().0.chunks_exact(quarter / 8);
        let im = from.im.as_chunks::<8>().0.chunks_exact(quarter / 8);
        let mut rows = [(&[][..], &[][..]); 4];
        rows.iter_mut().zip(re.zip(im)).for_each(|(row, from)| *row = from);
        let n = self.stride / 8;
        let to_re = to.re.as_chunks_mut::<8>().0.chunks_exact_mut(4 * n);
        let to_im = to.im.as_chunks_mut::<8>().0.chunks_exact_mut(4 * n);
        for (p, ((to_re, to_im), turns)) in to_re.zip(to_im).zip(&self.turns).enumerate() {
            let (a_re, rest) = to_re.split_at_mut(n);
            let (b_re, rest) = rest.split_at_mut(n);
            let (c_re, d_re) = rest.split_at_mut(n);
            let (a_im, rest) = to_im.split_at_mut(n);
            let (b_im, rest) = rest.split_at_mut(n);
            let (c_im, d_im) = rest.split_at_mut(n);
            for q in 0..n {
                let x = |j: usize| Complex { re: rows[j].0[p * n + q], im: rows[j].1[p * n + q] };
                let [a, b, c, d] = of_four([x(0), x(1), x(2), x(3)]);
                let [b_turn, c_turn, d_turn] = turns;
                let b = b.turned(&[b_turn[0]; 8], &[b_turn[1]; 8]);
                let c = c.turned(&[c_turn[0]; 8], &[c_turn[1]; 8]);
                let d = d.turned(&[d_turn[0]; 8], &[d_turn[1]; 8]);
                (a_re[q], a_im[q]) = (a.re, a.im);
                (b_re[q], b_im[q]) = (b.re, b.im);
                (c_re[q], c_im[q]) = (c.re, c.im);
                (d_re[q], d_im[q]) = (d.re, d.im);
            }
        }
    }

    /// The last pass, without factors.
    #[inline(always)]
    fn by_two(&self, from: &Points, to: &mut Points) {
        let parts = [(&from.re, &mut to.re), (&from.im, &mut to.im)];
        for (from, to) in parts {
            let (a, b) = from.split_at(self.stride);
            let (sum, difference) = to.split_at_mut(self.stride);
            let rows = a.iter().zip(b).zip(sum.iter_mut().zip(difference));
            rows.for_each(|((a, b), (sum, difference))| (*sum, *difference) = (a + b, a - b));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    #[test]
    fn equals_its_definition() {
        for n in (4..=11).map(|log| 1usize << log) {
            let mut noise = n as u32;
            let mut next = || {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 8) as f32 / 8_388_608.0 - 1.0
            };
            let x = Points {
                re: (0..n).map(|_| next()).collect(),
                im: (0..n).map(|_| next()).collect(),
            };
            let (mut points, mut other) = (x.clone(), Points::new(n));
            Fourier::new(n).transform(&mut points, &mut other);
            for k in (0..n).step_by(1 + n / 64) {
                let (mut re, mut im) = (0.0, 0.0);
                for i in 0..n {
                    let angle = -2.0 * PI * (k * i % n) as f64 / n as f64;
                    let (a, b) = (f64::from(x.re[i]), f64::from(x.im[i]));
                    re += a * angle.cos() - b * angle.sin();
                    im += a * angle.sin() + b * angle.cos();
                }
                let bound = 1e-6 * (n as f64).sqrt();
                assert!((f64::from(points.re[k]) - re).abs() < bound, "{n}, {k}");
                assert!((f64::from(points.im[k]) - im).abs() < bound, "{n}, {k}");
            }
        }
    }
}
