//! Fourier transforms of 60 points in several lanes, and of all lanes as one.
//!
//! Sixty is three times four times five, which have no factor in common: numbered by remainders, the
//! three passes need no turns between them (Good and Thomas). A lane is a short block, or every `W`th
//! point of a long one. No lane knows of another, so this compiles to vectors without a change of order,
//! and the bits are the same on every machine.

// Points and lanes have fixed numbers. What `pulp` dispatches to must be inlined into the function that
// it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]
// Points of a short transform have no names.
#![allow(clippy::many_single_char_names)]

use crate::{
    complex::{Complex, of_eight, of_four, of_two},
    trig::{cos_pi, sin_pi},
};

/// Points of a lane.
pub(super) const N: usize = 60;

/// So many places has a row, so that it is whole vectors.
pub(super) const PADDED: usize = 64;

#[inline(always)]
fn of_three<const W: usize>([a, b, c]: [Complex<W>; 3]) -> [Complex<W>; 3] {
    const SIN: f32 = sin_pi(1, 3) as f32;
    let (sum, difference) = (b.plus(c), b.minus(c).times(SIN));
    let [first, second] = a.minus(sum.times(0.5)).with_quarter(difference);
    [a.plus(sum), first, second]
}

#[inline(always)]
fn of_five<const W: usize>([a, b, c, d, e]: [Complex<W>; 5]) -> [Complex<W>; 5] {
    const COS: [f32; 2] = [cos_pi(2, 5) as f32, cos_pi(4, 5) as f32];
    const SIN: [f32; 2] = [sin_pi(2, 5) as f32, sin_pi(4, 5) as f32];
    let ([sum, outer], [others, inner]) = (of_two([b, e]), of_two([c, d]));
    let near = a.plus(sum.times(COS[0])).plus(others.times(COS[1]));
    let far = a.plus(sum.times(COS[1])).plus(others.times(COS[0]));
    let near_turned = outer.times(SIN[0]).plus(inner.times(SIN[1]));
    let far_turned = outer.times(SIN[1]).minus(inner.times(SIN[0]));
    let ([first, fourth], [second, third]) =
        (near.with_quarter(near_turned), far.with_quarter(far_turned));
    [a.plus(sum).plus(others), first, second, third, fourth]
}

/// Where point `n` of a factor's pass stands, from the first of that pass.
#[inline(always)]
const fn at(first: usize, step: usize, n: usize) -> usize {
    (first + step * n) % N
}

/// Where the passes leave a frequency: its remainders number it.
pub(super) const PLACES: [u8; N] = {
    let mut places = [0; N];
    let mut k = 0;
    while k < N {
        places[k] = ((20 * (k % 3) + 15 * (k % 4) + 12 * (k % 5)) % N) as u8;
        k += 1;
    }
    places
};

/// Transforms each lane; frequency `k` is left at `PLACES[k]`.
#[inline(always)]
pub(super) fn lanes<const W: usize>(x: &mut [Complex<W>; N]) {
    for first in 0..12 {
        // The multiples of 20 and 15 together are those of 5.
        let first = 5 * first;
        let places: [usize; 5] = std::array::from_fn(|n| at(first, 12, n));
        let passed = of_five(places.map(|p| x[p]));
        places.iter().zip(passed).for_each(|(&p, y)| x[p] = y);
    }
    for first in 0..15 {
        let first = 4 * first;
        let places: [usize; 4] = std::array::from_fn(|n| at(first, 15, n));
        let passed = of_four(places.map(|p| x[p]));
        places.iter().zip(passed).for_each(|(&p, y)| x[p] = y);
    }
    for first in 0..20 {
        let first = 3 * first;
        let places: [usize; 3] = std::array::from_fn(|n| at(first, 20, n));
        let passed = of_three(places.map(|p| x[p]));
        places.iter().zip(passed).for_each(|(&p, y)| x[p] = y);
    }
}

/// Rows of frequencies, one a lane, or one an eighth, a quarter or half of all.
pub(super) type Rows<const W: usize> = [[f32; PADDED]; W];

/// By how much a lane's frequencies are turned before lanes are put together.
#[derive(Debug)]
pub(super) struct Turns<const W: usize> {
    cos: Rows<W>,
    sin: Rows<W>,
}

impl<const W: usize> Turns<W> {
    pub(super) const fn new() -> Self {
        let (mut cos, mut sin) = ([[0.0; PADDED]; W], [[0.0; PADDED]; W]);
        let mut lane = 0;
        while lane < W {
            let mut k = 0;
            while k < N {
                let (n, half) = ((lane * k) as u32, (N * W / 2) as u32);
                cos[lane][k] = cos_pi(n, half) as f32;
                sin[lane][k] = sin_pi(n, half) as f32;
                k += 1;
            }
            lane += 1;
        }
        Self { cos, sin }
    }
}

/// Makes one transform of those of `W` lanes: row `q` then holds the frequencies from `60 q` on.
#[inline(always)]
pub(super) fn together<const W: usize>(turns: &Turns<W>, re: &mut Rows<W>, im: &mut Rows<W>) {
    const V: usize = 8;
    for v in 0..PADDED / V {
        let load = |row: &[f32; PADDED]| row.as_chunks::<V>().0[v];
        let turned: [Complex<V>; W] = std::array::from_fn(|lane| {
            let x = Complex { re: load(&re[lane]), im: load(&im[lane]) };
            if lane == 0 { x } else { x.turned(&load(&turns.cos[lane]), &load(&turns.sin[lane])) }
        });
        let mut store = |q: usize, x: Complex<V>| {
            re[q].as_chunks_mut::<V>().0[v] = x.re;
            im[q].as_chunks_mut::<V>().0[v] = x.im;
        };
        match *turned.as_slice() {
            [a] => store(0, a),
            [a, b] => of_two([a, b]).into_iter().enumerate().for_each(|(q, x)| store(q, x)),
            [a, b, c, d] => {
                of_four([a, b, c, d]).into_iter().enumerate().for_each(|(q, x)| store(q, x));
            }
            [a, b, c, d, e, f, g, h] => {
                let eight = of_eight([a, b, c, d, e, f, g, h]);
                eight.into_iter().enumerate().for_each(|(q, x)| store(q, x));
            }
            _ => {} // there are 1, 2, 4 or 8 lanes
        }
    }
}
