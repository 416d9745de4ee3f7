//! From a granule's samples to 18 slots of 32 subbands: order, aliases, and the transform with its
//! overlap. ISO/IEC 11172-3, 2.4.3.4.8 and 2.4.3.4.10.
//!
//! Rows are places within a subband, columns are subbands: every step works on whole rows, which
//! compiles to vectors without a change of order, so the bits are the same on every machine.

// Rows and columns have fixed numbers, and zipping eighteen of them is not possible. What `pulp`
// dispatches to must be inlined into the function that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use super::{
    bands::{N_SAMPLES, Rate},
    side_info::{Block, Channel},
};
use crate::trig::{cos_pi, sin_pi, sqrt};

/// Subbands.
pub(super) const WIDTH: usize = 32;
/// Samples of a subband in a granule.
pub(super) const HEIGHT: usize = 18;

/// One for each place within the subbands.
pub(super) type Rows = [[f32; WIDTH]; HEIGHT];

/// Puts the first `n` samples into rows, and returns how many subbands they reach. The windows of
/// short blocks alternate.
#[inline(always)]
pub(super) fn to_rows(
    channel: &Channel,
    rate: &Rate,
    n: usize,
    samples: &[f32; N_SAMPLES],
    rows: &mut Rows,
) -> usize {
    let bands = channel.bands(rate);
    let n_plain = match (channel.block, channel.is_mixed) {
        (Block::Short, false) => 0,
        (Block::Short, true) => rate.n_mixed_subbands,
        _ => WIDTH,
    };
    let n_used = n.div_ceil(HEIGHT);
    let n_moved = n_plain.min(n_used).min(WIDTH);
    for (column, subband) in samples.as_chunks::<HEIGHT>().0.iter().enumerate().take(n_moved) {
        for (row, sample) in rows.iter_mut().zip(subband) {
            row[column % WIDTH] = *sample;
        }
    }
    for row in rows.iter_mut() {
        row[n_moved..].fill(0.0);
    }
    if n_plain == WIDTH {
        return n_moved;
    }
    let mut at = n_plain * HEIGHT;
    for (_, start, end) in bands.iter().skip(bands.n_long).step_by(3).take_while(|band| band.1 < n)
    {
        let width = end - start;
        for k in start..end {
            for window in 0..3 {
                let sample = samples.get(k + window * width).copied().unwrap_or(0.0);
                rows[at % HEIGHT][at / HEIGHT % WIDTH] = sample;
                at += 1;
            }
        }
    }
    n_moved.max(at.div_ceil(HEIGHT))
}

/// Takes back the aliases between neighbours of the lowest `n` subbands.
#[inline(always)]
pub(super) fn reduce_aliases(n: usize, rows: &mut Rows) {
    /// Table B.9.
    const C: [f64; 8] = [-0.6, -0.535, -0.33, -0.185, -0.095, -0.041, -0.0142, -0.0037];
    const GAINS: [(f32, f32); 8] = {
        let mut gains = [(0.0, 0.0); 8];
        let mut i = 0;
        while i < 8 {
            let root = sqrt(1.0 + C[i] * C[i]);
            gains[i] = ((1.0 / root) as f32, (C[i] / root) as f32);
            i += 1;
        }
        gains
    };
    let n = n.clamp(1, WIDTH) - 1;
    for (i, (direct, across)) in GAINS.into_iter().enumerate() {
        let (head, tail) = rows.split_at_mut(HEIGHT / 2);
        let (upper, lower) = (&mut head[i], &mut tail[HEIGHT / 2 - 1 - i]);
        for (below, above) in lower[..n].iter_mut().zip(&mut upper[1..=n]) {
            let (l, u) = (*below, *above);
            *below = l * direct - u * across;
            *above = u * direct + l * across;
        }
    }
}

/// Transforms the lowest `n` subbands into `out`, adds what the granule before left in `overlap`,
/// and leaves there what the next one needs. The lowest `n_normal` of them have a normal window.
#[inline(always)]
pub(super) fn transform(
    block: Block,
    n_normal: usize,
    n: usize,
    rows: &Rows,
    overlap: &mut Rows,
    out: &mut Rows,
) {
    // Whole vectors, whatever the machine has: zeros have signs.
    let n = n.next_multiple_of(8).min(WIDTH);
    if n_normal > 0 && block != Block::Long {
        let (mut low_overlap, mut low) = (*overlap, [[0.0; WIDTH]; HEIGHT]);
        long(&WINDOWS[0], n, rows, &mut low_overlap, &mut low);
        windowed(block, n, rows, overlap, out);
        for (to, from) in [(out, low), (overlap, low_overlap)] {
            for (to, from) in to.iter_mut().zip(from) {
                to[..n_normal].copy_from_slice(&from[..n_normal]);
            }
        }
    } else {
        windowed(block, n, rows, overlap, out);
    }
}

#[inline(always)]
fn windowed(block: Block, n: usize, rows: &Rows, overlap: &mut Rows, out: &mut Rows) {
    match block {
        Block::Short => short(n, rows, overlap, out),
        Block::Long => long(&WINDOWS[0], n, rows, overlap, out),
        Block::Start => long(&WINDOWS[1], n, rows, overlap, out),
        Block::Stop => long(&WINDOWS[2], n, rows, overlap, out),
    }
    for (out, overlap) in out.iter_mut().zip(overlap) {
        out[n..].copy_from_slice(&overlap[n..]);
        overlap[n..].fill(0.0);
    }
}

/// Windows of normal, start and stop blocks, with the signs of the transform's symmetries.
static WINDOWS: [[f32; 36]; 3] = {
    let mut windows = [[0.0; 36]; 3];
    let mut i = 0;
    while i < 36 {
        let n = i as u32;
        let long = sin_pi(2 * n + 1, 72);
        let (start, stop) = match i {
            0..6 => (long, 0.0),
            6..12 => (long, sin_pi(2 * (n - 6) + 1, 24)),
            12..18 => (long, 1.0),
            18..24 => (1.0, long),
            24..30 => (sin_pi(2 * (n - 18) + 1, 24), long),
            _ => (0.0, long),
        };
        let sign = if i < 9 { 1.0 } else { -1.0 };
        windows[0][i] = (sign * long) as f32;
        windows[1][i] = (sign * start) as f32;
        windows[2][i] = (sign * stop) as f32;
        i += 1;
    }
    windows
};

/// Cosines and sines of `pi (2 m + 1) / denominator`.
const fn turns<const N: usize>(denominator: u32) -> [(f32, f32); N] {
    let mut turns = [(0.0, 0.0); N];
    let mut m = 0;
    while m < N {
        let n = 2 * m as u32 + 1;
        turns[m] = (cos_pi(n, denominator) as f32, sin_pi(n, denominator) as f32);
        m += 1;
    }
    turns
}

/// The transform of 18 values into 36, windowed and overlapped.
///
/// With `u[m] = sum_k x[k] cos(pi/72 (2m+1)(2k+1))` the 36 are `u[9..18]`, `-u[17..8]`, `-u[8..]`
/// down and `-u[..9]` up. By the sum formulas of `4j + 1` and `4j - 1`, `u[m]` and `u[17-m]` are a
/// rotation of two cosine transforms of nine: of `x[2j] + x[2j-1]`, and of `x[17-2j] - x[18-2j]`.
#[inline(always)]
fn long(window: &[f32; 36], n: usize, rows: &Rows, overlap: &mut Rows, out: &mut Rows) {
    const TURNS: [(f32, f32); 9] = turns(72);
    for column in 0..n.min(WIDTH) {
        let x = |k: usize| rows[k][column];
        let mut sums = [x(0); 9];
        let mut differences = [x(17); 9];
        for j in 1..9 {
            sums[j] = x(2 * j) + x(2 * j - 1);
            differences[j] = x(17 - 2 * j) - x(18 - 2 * j);
        }
        let (sums, differences) = (cosines_of_9(sums), cosines_of_9(differences));
        for m in 0..9 {
            let (cos, sin) = TURNS[m];
            let (sum, mut other) = (sums[m], differences[m]);
            if m % 2 == 1 {
                other = -other;
            }
            let (u, v) = (sum * cos + other * sin, sum * sin - other * cos);
            out[8 - m][column] = overlap[8 - m][column] + v * window[8 - m];
            out[9 + m][column] = overlap[9 + m][column] + v * window[9 + m];
            overlap[8 - m][column] = u * window[26 - m];
            overlap[9 + m][column] = u * window[27 + m];
        }
    }
}

/// `y[m] = sum_j x[j] cos(pi/18 (2m+1) j)`.
///
/// Even and odd `j` give `y[m]` and `y[8-m]`. Of the three cosines that are left in each, the
/// largest is the sum of the others.
#[inline(always)]
fn cosines_of_9(x: [f32; 9]) -> [f32; 9] {
    const C30: f32 = cos_pi(1, 6) as f32;
    const C40: f32 = cos_pi(2, 9) as f32;
    const C50: f32 = cos_pi(5, 18) as f32;
    const C70: f32 = cos_pi(7, 18) as f32;
    const C80: f32 = cos_pi(4, 9) as f32;
    let base = x[0] + 0.5 * x[6];
    let even2 = C40 * (x[8] - x[4]) - C80 * (x[2] + x[4]);
    let even3 = C80 * (x[4] - x[8]) - C40 * (x[2] + x[8]);
    let even0 = base - (even2 + even3);
    let rest = x[2] - x[4] - x[8];
    let even1 = (x[0] - x[6]) + 0.5 * rest;
    let even4 = (x[0] - x[6]) - rest;
    let half = C30 * x[3];
    let odd2 = C50 * (x[1] + x[7]) + C70 * (x[7] - x[5]);
    let odd3 = C50 * (x[5] - x[7]) + C70 * (x[1] + x[5]);
    let odd0 = (odd2 + odd3) + half;
    let odd1 = C30 * (x[1] - x[5] - x[7]);
    let (even2, even3, odd2, odd3) = (base + even2, base + even3, odd2 - half, odd3 - half);
    [
        even0 + odd0,
        even1 + odd1,
        even2 + odd2,
        even3 + odd3,
        even4,
        even3 - odd3,
        even2 - odd2,
        even1 - odd1,
        even0 - odd0,
    ]
}

/// Three transforms of 6 values into 12, windowed and overlapped with each other: the same as
/// [`long`], with two cosine transforms of three.
#[inline(always)]
fn short(n: usize, rows: &Rows, overlap: &mut Rows, out: &mut Rows) {
    const TURNS: [(f32, f32); 3] = turns(24);
    const WINDOW: [f32; 12] = {
        let mut window = [0.0; 12];
        let mut i = 0;
        while i < 12 {
            let sign = if i < 3 { 1.0 } else { -1.0 };
            window[i] = (sign * sin_pi(2 * i as u32 + 1, 24)) as f32;
            i += 1;
        }
        window
    };
    for column in 0..n.min(WIDTH) {
        let mut parts = [[0.0; 12]; 3];
        for (nth, part) in parts.iter_mut().enumerate() {
            let x = |k: usize| rows[3 * k + nth][column];
            let sums = cosines_of_3([x(0), x(2) + x(1), x(4) + x(3)]);
            let differences = cosines_of_3([x(5), x(3) - x(4), x(1) - x(2)]);
            for m in 0..3 {
                let (cos, sin) = TURNS[m];
                let (sum, mut other) = (sums[m], differences[m]);
                if m == 1 {
                    other = -other;
                }
                let (u, v) = (sum * cos + other * sin, sum * sin - other * cos);
                part[2 - m] = v * WINDOW[2 - m];
                part[3 + m] = v * WINDOW[3 + m];
                part[8 - m] = u * WINDOW[8 - m];
                part[9 + m] = u * WINDOW[9 + m];
            }
        }
        let [first, second, third] = parts;
        for t in 0..6 {
            out[t][column] = overlap[t][column];
            out[6 + t][column] = overlap[6 + t][column] + first[t];
            out[12 + t][column] = overlap[12 + t][column] + (first[6 + t] + second[t]);
            overlap[t][column] = second[6 + t] + third[t];
            overlap[6 + t][column] = third[6 + t];
            overlap[12 + t][column] = 0.0;
        }
    }
}

/// `y[m] = sum_j x[j] cos(pi/6 (2m+1) j)`.
#[inline(always)]
fn cosines_of_3([a, b, c]: [f32; 3]) -> [f32; 3] {
    const C30: f32 = cos_pi(1, 6) as f32;
    let (even, odd) = (a + 0.5 * c, C30 * b);
    [even + odd, a - c, even - odd]
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn noise(seed: u32) -> impl FnMut() -> f32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        }
    }

    /// The standard's formula.
    fn naive(x: &[f32], i: usize) -> f64 {
        let n = 2 * x.len();
        x.iter()
            .enumerate()
            .map(|(k, x)| {
                let angle = PI / (2 * n) as f64 * ((2 * i + 1 + n / 2) * (2 * k + 1)) as f64;
                f64::from(*x) * angle.cos()
            })
            .sum()
    }

    /// One subband of the standard: 36 values, windowed.
    fn subband(block: Block, x: &[f32; HEIGHT]) -> [f64; 36] {
        let sine = |i: usize, n: f64| (PI / n * (i as f64 + 0.5)).sin();
        let mut y = [0.0; 36];
        if block == Block::Short {
            for w in 0..3 {
                let x: Vec<_> = (0..6).map(|k| x[3 * k + w]).collect();
                for i in 0..12 {
                    y[6 + 6 * w + i] += naive(&x, i) * sine(i, 12.0);
                }
            }
            return y;
        }
        for (i, y) in y.iter_mut().enumerate() {
            let window = match (block, i) {
                (Block::Start, 18..24) | (Block::Stop, 12..18) => 1.0,
                (Block::Start, 24..30) => sine(i - 18, 12.0),
                (Block::Start, 30..) | (Block::Stop, 0..6) => 0.0,
                (Block::Stop, 6..12) => sine(i - 6, 12.0),
                _ => sine(i, 36.0),
            };
            *y = naive(x, i) * window;
        }
        y
    }

    #[test]
    fn transforms_equal_the_formula() {
        let mut draw = noise(1);
        let blocks = [Block::Long, Block::Start, Block::Short, Block::Stop];
        for (block, n_normal) in blocks.into_iter().flat_map(|block| [(block, 0), (block, 2)]) {
            let mut rows = [[0.0; WIDTH]; HEIGHT];
            let mut overlap = rows;
            rows.iter_mut().chain(&mut overlap).flatten().for_each(|x| *x = draw());
            let (before, mut out) = (overlap, rows);
            for row in &mut rows {
                row[24..].fill(0.0);
            }
            transform(block, n_normal, 23, &rows, &mut overlap, &mut out);
            for c in 0..WIDTH {
                let block = if c < n_normal { Block::Long } else { block };
                let want = subband(block, &rows.map(|row| row[c]));
                for t in 0..HEIGHT {
                    let first = f64::from(before[t][c]) + want[t];
                    assert!((f64::from(out[t][c]) - first).abs() < 3e-6, "{block:?} {c} {t}");
                    let second = want[18 + t];
                    assert!((f64::from(overlap[t][c]) - second).abs() < 3e-6, "{block:?} {c} {t}");
                }
            }
        }
    }
}
