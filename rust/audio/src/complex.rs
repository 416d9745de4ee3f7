//! Complex numbers in lanes, and the short Fourier transforms that longer ones are made of.
//!
//! No lane knows of another, so this compiles to vectors without a change of order.

// Lanes have fixed numbers. What `pulp` dispatches to must be inlined into the function that it compiles for
// an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]
// Points of a short transform have no names.
#![allow(clippy::many_single_char_names)]

use crate::trig::sin_pi;

/// A complex number in each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complex<const W: usize> {
    pub(crate) re: [f32; W],
    pub(crate) im: [f32; W],
}

impl<const W: usize> Complex<W> {
    pub(crate) const ZERO: Self = Self { re: [0.0; W], im: [0.0; W] };

    #[inline(always)]
    pub(crate) fn from_fn(f: impl Fn(usize) -> (f32, f32)) -> Self {
        let mut to = Self::ZERO;
        for i in 0..W {
            (to.re[i], to.im[i]) = f(i);
        }
        to
    }

    #[inline(always)]
    pub(crate) fn plus(self, b: Self) -> Self {
        Self::from_fn(|i| (self.re[i] + b.re[i], self.im[i] + b.im[i]))
    }

    #[inline(always)]
    pub(crate) fn minus(self, b: Self) -> Self {
        Self::from_fn(|i| (self.re[i] - b.re[i], self.im[i] - b.im[i]))
    }

    #[inline(always)]
    pub(crate) fn times(self, x: f32) -> Self {
        Self::from_fn(|i| (self.re[i] * x, self.im[i] * x))
    }

    /// Less `b` a quarter turn on, and with it.
    #[inline(always)]
    pub(crate) fn with_quarter(self, b: Self) -> [Self; 2] {
        [
            Self::from_fn(|i| (self.re[i] + b.im[i], self.im[i] - b.re[i])),
            Self::from_fn(|i| (self.re[i] - b.im[i], self.im[i] + b.re[i])),
        ]
    }

    #[inline(always)]
    pub(crate) fn turned(self, cos: &[f32; W], sin: &[f32; W]) -> Self {
        Self::from_fn(|i| {
            let (re, im) = (self.re[i], self.im[i]);
            (re * cos[i] + im * sin[i], im * cos[i] - re * sin[i])
        })
    }
}

/// The Fourier transform of two points.
#[inline(always)]
pub(crate) fn of_two<const W: usize>([a, b]: [Complex<W>; 2]) -> [Complex<W>; 2] {
    [a.plus(b), a.minus(b)]
}

/// The Fourier transform of four points.
#[inline(always)]
pub(crate) fn of_four<const W: usize>([a, b, c, d]: [Complex<W>; 4]) -> [Complex<W>; 4] {
    let ([sum, difference], [others, turned]) = (of_two([a, c]), of_two([b, d]));
    let [first, third] = difference.with_quarter(turned);
    [sum.plus(others), first, sum.minus(others), third]
}

/// The Fourier transform of eight points.
#[inline(always)]
pub(crate) fn of_eight<const W: usize>(
    [a, b, c, d, e, f, g, h]: [Complex<W>; 8],
) -> [Complex<W>; 8] {
    const ROOT: f32 = sin_pi(1, 4) as f32;
    let [a, c, e, g] = of_four([a, c, e, g]);
    let [b, d, f, h] = of_four([b, d, f, h]);
    // An eighth of a turn, a quarter, and three eighths.
    let d = Complex::from_fn(|i| ((d.re[i] + d.im[i]) * ROOT, (d.im[i] - d.re[i]) * ROOT));
    let h = Complex::from_fn(|i| ((h.im[i] - h.re[i]) * ROOT, (-h.re[i] - h.im[i]) * ROOT));
    let ([a, e2], [c, g2]) = (of_two([a, b]), of_two([c, d]));
    let ([e, a2], [g, c2]) = (e.with_quarter(f), of_two([g, h]));
    [a, c, e, g, e2, g2, a2, c2]
}
