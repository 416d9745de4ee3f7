//! Fourier transforms of complex numbers, real and imaginary parts apart.
//!
//! Each pass takes the points of the one before in an order that leaves its results in the next one's, so
//! that nothing is sorted (Stockham's algorithm, decimation in frequency). The first pass is of radix 8;
//! behind it eight neighbours share each factor, so that whole vectors are computed. No lane depends on
//! another and no multiplication is fused with an addition: all instruction sets give the same bits.

// Points, lanes and radices have fixed numbers. What `pulp` dispatches to must be inlined into the function
// that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]
// Points of a short transform have no names.
#![allow(clippy::many_single_char_names)]

mod lanes;
mod pass;
mod radix;

use pulp::Simd;

pub(crate) use self::lanes::{Complex, evens, load, odds_reversed, reversed, store, zipped};
use self::{
    lanes::store_transposed,
    pass::Pass,
    radix::{Four, Odd, Two, of_eight},
};
use crate::trig::{cos_pi, sin_pi};

/// Columns of the first pass that are computed together.
const COLUMNS: usize = 8;

/// Cosines and sines for the first pass over [`COLUMNS`] columns: for all results but the first.
type Twiddles = [[[f32; COLUMNS]; 2]; 7];

/// The tables of a transform.
#[derive(Clone, Debug)]
pub(crate) struct Fourier {
    n: usize,
    first: Vec<Twiddles>,
    passes: Vec<Pass>,
}

/// The real and the imaginary parts of points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) re: Vec<f32>,
    pub(crate) im: Vec<f32>,
}

impl Points {
    pub(crate) fn new(n: usize) -> Self {
        Self { re: vec![0.0; n], im: vec![0.0; n] }
    }
}

/// Where the points of a transform come from.
pub(crate) trait Source {
    /// The points from `i` on, as many as a vector has lanes.
    fn get<S: Simd>(&self, simd: S, i: usize) -> Complex<S>;
}

impl Fourier {
    /// Whether transforms of `n` points can be made: those of 8 times a product of 2, 3, 5 and 7.
    pub(crate) fn has(n: usize) -> bool {
        n.is_multiple_of(8) && n > 0 && radices(n / 8).1 == 1
    }

    /// The tables for `n` points.
    ///
    /// # Panics
    /// If it does not [have](Self::has) them.
    pub(crate) fn new(n: usize) -> Self {
        assert!(Self::has(n), "no Fourier transform of {n} points");
        let n_columns = n / 8;
        let first = (0..n_columns).step_by(COLUMNS).map(|p| {
            let p = p.min(n_columns.saturating_sub(COLUMNS));
            std::array::from_fn(|k| {
                let twiddles: [_; COLUMNS] = std::array::from_fn(|i| twiddle((p + i) * (k + 1), n));
                [twiddles.map(|[cos, _]| cos), twiddles.map(|[_, sin]| sin)]
            })
        });
        let (mut left, mut stride) = (n_columns, 8);
        let mut passes = Vec::new();
        for radix in radices(n_columns).0 {
            passes.push(Pass::new(radix, stride, left));
            (left, stride) = (left / radix, stride * radix);
        }
        Self { n, first: first.collect(), passes }
    }

    /// Transforms points into `to`: `X[k]` is the sum of `x[n] exp(-2 pi i k n / N)`. Both memories must
    /// have room for all points.
    ///
    /// # Panics
    /// If they have not.
    #[inline(always)]
    pub(crate) fn run<S: Simd>(
        &self,
        simd: S,
        source: &impl Source,
        to: &mut Points,
        spare: &mut Points,
    ) {
        let (mut from, mut to) =
            if self.passes.len().is_multiple_of(2) { (spare, to) } else { (to, spare) };
        if self.n < 8 * S::F32_LANES {
            self.first_pass(pulp::Scalar, source, to);
        } else {
            self.first_pass(simd, source, to);
        }
        for pass in &self.passes {
            std::mem::swap(&mut from, &mut to);
            match pass.radix {
                2 => pass.run::<S, Two, 2>(simd, self.n, from, to),
                3 => pass.run::<S, Odd<1>, 3>(simd, self.n, from, to),
                4 => pass.run::<S, Four, 4>(simd, self.n, from, to),
                5 => pass.run::<S, Odd<2>, 5>(simd, self.n, from, to),
                _ => pass.run::<S, Odd<3>, 7>(simd, self.n, from, to),
            }
        }
    }

    /// Eight points an eighth of all apart, for some neighbours at a time.
    #[inline(always)]
    fn first_pass<S: Simd>(&self, simd: S, source: &impl Source, to: &mut Points) {
        let n_columns = self.n / 8;
        for (group, twiddles) in self.first.iter().enumerate() {
            // The last group begins early enough to be whole. What it shares comes out the same again.
            let p = (group * COLUMNS).min(n_columns.saturating_sub(COLUMNS));
            for i in (0..COLUMNS.min(n_columns)).step_by(S::F32_LANES) {
                let mut x = [Complex::zero(simd); 8];
                for (j, x) in x.iter_mut().enumerate() {
                    *x = source.get(simd, j * n_columns + p + i);
                }
                let y = of_eight(simd, x);
                let (mut re, mut im) = ([y[0].re; 8], [y[0].im; 8]);
                for (k, [cos, sin]) in (1..).zip(twiddles) {
                    let y = y[k].turned(simd, load::<S>(cos, i), load::<S>(sin, i));
                    (re[k], im[k]) = (y.re, y.im);
                }
                let place = 8 * (p + i)..8 * (p + i + S::F32_LANES);
                store_transposed(simd, &re, &mut to.re[place.clone()]);
                store_transposed(simd, &im, &mut to.im[place]);
            }
        }
    }
}

/// The radices that `n` is a product of, and what is left of it.
fn radices(mut n: usize) -> (Vec<usize>, usize) {
    let mut radices = Vec::new();
    for radix in [4, 2, 3, 5, 7] {
        while n.is_multiple_of(radix) && n > 0 {
            radices.push(radix);
            n /= radix;
        }
    }
    (radices, n)
}

/// Cosine and sine of `k / n` of a turn.
fn twiddle(k: usize, n: usize) -> [f32; 2] {
    let (k, n) = (2 * (k % n) as u32, n as u32);
    let sin = if k <= n { sin_pi(k, n) } else { -sin_pi(k - n, n) };
    [cos_pi(k, n) as f32, sin as f32]
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use pulp::{Arch, Scalar, WithSimd};

    use super::*;

    struct RunFourier<'a> {
        fourier: &'a Fourier,
        x: &'a Points,
        to: &'a mut Points,
    }

    impl WithSimd for RunFourier<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            self.fourier.run(simd, self.x, self.to, &mut Points::new(self.fourier.n));
        }
    }

    fn noise(n: usize) -> Vec<f32> {
        let mut noise = n as u32;
        let mut next = || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn equals_its_definition_on_every_instruction_set() {
        let sizes = (1..=14).map(|j| 8 * j).chain([105, 147, 160, 441, 640, 1000].map(|j| 8 * j));
        for n in sizes.chain((4..=13).map(|log| 1 << log)) {
            if !Fourier::has(n) {
                assert!([88, 104].contains(&n), "{n}");
                continue;
            }
            let x = Points { re: noise(n), im: noise(n + 1)[..n].to_vec() };
            let fourier = Fourier::new(n);
            let (mut y, mut plain) = (Points::new(n), Points::new(n));
            Arch::new().dispatch(RunFourier { fourier: &fourier, x: &x, to: &mut y });
            RunFourier { fourier: &fourier, x: &x, to: &mut plain }.with_simd(Scalar);
            assert_eq!((&y.re, &y.im), (&plain.re, &plain.im), "{n}");
            for k in (0..n).step_by(1 + n / 64) {
                let (mut re, mut im) = (0.0, 0.0);
                for i in 0..n {
                    let angle = -2.0 * PI * (k * i % n) as f64 / n as f64;
                    let (a, b) = (f64::from(x.re[i]), f64::from(x.im[i]));
                    re += a * angle.cos() - b * angle.sin();
                    im += a * angle.sin() + b * angle.cos();
                }
                let bound = 1e-6 * (n as f64).sqrt();
                assert!((f64::from(y.re[k]) - re).abs() < bound, "{n}, {k}");
                assert!((f64::from(y.im[k]) - im).abs() < bound, "{n}, {k}");
            }
        }
    }
}
