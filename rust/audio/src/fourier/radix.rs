//! The short Fourier transforms that longer ones are made of, in each lane one.

use pulp::Simd;

use super::Complex;
use crate::trig::{cos_pi, sin_pi};

/// A transform of `R` points in each lane.
///
/// A trait, since a function that is passed as a value is not inlined where it is called.
pub(super) trait Radix<const R: usize> {
    fn transform<S: Simd>(simd: S, x: [Complex<S>; R]) -> [Complex<S>; R];
}

pub(super) struct Two;

impl Radix<2> for Two {
    #[inline(always)]
    fn transform<S: Simd>(simd: S, x: [Complex<S>; 2]) -> [Complex<S>; 2] {
        of_two(simd, x)
    }
}

pub(super) struct Four;

impl Radix<4> for Four {
    #[inline(always)]
    fn transform<S: Simd>(simd: S, x: [Complex<S>; 4]) -> [Complex<S>; 4] {
        of_four(simd, x)
    }
}

/// `2 H + 1` points.
pub(super) struct Odd<const H: usize>;

impl Radix<3> for Odd<1> {
    #[inline(always)]
    fn transform<S: Simd>(simd: S, x: [Complex<S>; 3]) -> [Complex<S>; 3] {
        of_odd::<S, 3, 1>(simd, x)
    }
}

impl Radix<5> for Odd<2> {
    #[inline(always)]
    fn transform<S: Simd>(simd: S, x: [Complex<S>; 5]) -> [Complex<S>; 5] {
        of_odd::<S, 5, 2>(simd, x)
    }
}

impl Radix<7> for Odd<3> {
    #[inline(always)]
    fn transform<S: Simd>(simd: S, x: [Complex<S>; 7]) -> [Complex<S>; 7] {
        of_odd::<S, 7, 3>(simd, x)
    }
}

#[inline(always)]
fn of_two<S: Simd>(simd: S, [a, b]: [Complex<S>; 2]) -> [Complex<S>; 2] {
    [a.plus(simd, b), a.minus(simd, b)]
}

#[inline(always)]
fn of_four<S: Simd>(simd: S, [a, b, c, d]: [Complex<S>; 4]) -> [Complex<S>; 4] {
    let ([sum, difference], [others, turned]) = (of_two(simd, [a, c]), of_two(simd, [b, d]));
    let [first, third] = difference.with_quarter(simd, turned);
    [sum.plus(simd, others), first, sum.minus(simd, others), third]
}

#[inline(always)]
pub(super) fn of_eight<S: Simd>(
    simd: S,
    [a, b, c, d, e, f, g, h]: [Complex<S>; 8],
) -> [Complex<S>; 8] {
    const ROOT: f32 = sin_pi(1, 4) as f32;
    let root = simd.splat_f32s(ROOT);
    let [a, c, e, g] = of_four(simd, [a, c, e, g]);
    let [b, d, f, h] = of_four(simd, [b, d, f, h]);
    // An eighth of a turn. `h` has a quarter left to go, which its sums with `g` make good.
    let (d, h) = (d.eighth(simd).times(simd, root), h.eighth(simd).times(simd, root));
    let ([y0, y4], [y1, y5]) = (of_two(simd, [a, b]), of_two(simd, [c, d]));
    let ([y2, y6], [y3, y7]) = (e.with_quarter(simd, f), g.with_quarter(simd, h));
    [y0, y1, y2, y3, y4, y5, y6, y7]
}

/// `R = 2 H + 1` points: `y[k]` and `y[R - k]` are the sum and the difference of an even and an odd part.
#[inline(always)]
fn of_odd<S: Simd, const R: usize, const H: usize>(simd: S, x: [Complex<S>; R]) -> [Complex<S>; R] {
    let (mut sums, mut differences) = ([x[0]; H], [x[0]; H]);
    let mut y = [x[0]; R];
    for j in 0..H {
        [sums[j], differences[j]] = of_two(simd, [x[j + 1], x[R - 1 - j]]);
        y[0] = y[0].plus(simd, sums[j]);
    }
    let roots = const { roots::<R>() };
    for k in 1..=H {
        let (mut even, mut odd) = (x[0], Complex::zero(simd));
        for j in 0..H {
            let [cos, sin] = roots[k * (j + 1) % R];
            even = even.plus(simd, sums[j].times(simd, simd.splat_f32s(cos)));
            let term = differences[j].times(simd, simd.splat_f32s(sin));
            odd = if j == 0 { term } else { odd.plus(simd, term) };
        }
        [y[k], y[R - k]] = even.with_quarter(simd, odd);
    }
    y
}

/// Cosine and sine of `k / R` of a turn.
const fn roots<const R: usize>() -> [[f32; 2]; R] {
    let mut roots = [[1.0, 0.0]; R];
    let (mut k, n) = (1, R as u32);
    while k < R {
        let turn = 2 * k as u32;
        let sin = if turn <= n { sin_pi(turn, n) } else { -sin_pi(turn - n, n) };
        roots[k] = [cos_pi(turn, n) as f32, sin as f32];
        k += 1;
    }
    roots
}
