//! Rational resampling by polyphase filtering: zero delay, and a pure function of the frame.
//!
//! Output frame `m` is `sum_k h[phase(m)][k] * x[floor(m * down / up) - half + 1 + k]`, so a crop
//! of the output needs only `half` more input frames on each side and has the bits of the whole.
//! Products are summed in 16 lanes that are added up in a fixed order, with no fused
//! multiply-add, so the bits do not depend on the vector width of the machine either.

use super::{
    cancel::Cancel,
    error::Reason,
    kernel::{Kernel, LANES, Ratio},
};

/// The input frames that output frames `first..end` depend on, as first frame and length. They
/// may reach over both ends of the recording, where they count as zero.
pub(super) fn input_window(ratio: Ratio, first: u64, end: u64) -> (i64, usize) {
    let half = ratio.half();
    let base = |m: u64| m * ratio.down / ratio.up;
    let len = base(end.saturating_sub(1)).saturating_sub(base(first)) as usize + 2 * half;
    (base(first) as i64 - half as i64 + 1, len)
}

/// Output frames between two looks at the cancel flag.
const STRIDE: usize = 1 << 16;

/// Computes output frames from `first` on into `out`, from their [`input_window`] `x`.
pub(super) fn resample(
    kernel: &Kernel,
    first: u64,
    x: &[f32],
    out: &mut [f32],
    cancel: &Cancel,
) -> Result<(), Reason> {
    let arch = pulp::Arch::new();
    let Ratio { up, down } = kernel.ratio;
    let start = first * down / up;
    for (i, out) in out.chunks_mut(STRIDE).enumerate() {
        cancel.check()?;
        let first = first + (i * STRIDE) as u64;
        let x = x.get((first * down / up - start) as usize..).unwrap_or_default();
        arch.dispatch(|| run(kernel, first, x, out));
    }
    Ok(())
}

/// Where an output frame reads: its offset in the window and its phase.
#[derive(Clone, Copy)]
struct Place {
    offset: usize,
    remainder: u64,
}

impl Place {
    fn advance(&mut self, ratio: Ratio) {
        self.remainder += ratio.down;
        self.offset += (self.remainder / ratio.up) as usize;
        self.remainder %= ratio.up;
    }
}

/// Frames that are `up` apart share their coefficients, so four of them go together.
const TOGETHER: usize = 4;

#[inline(always)]
fn run(kernel: &Kernel, first: u64, x: &[f32], out: &mut [f32]) {
    let ratio = kernel.ratio;
    let (up, down) = (ratio.up as usize, ratio.down as usize);
    let mut place = Place { offset: 0, remainder: first * ratio.down % ratio.up };
    let mut blocks = out.chunks_exact_mut(TOGETHER * up);
    for block in &mut blocks {
        let start = place;
        let (a, b) = block.split_at_mut(2 * up);
        let ((a, b), (c, d)) = (a.split_at_mut(up), b.split_at_mut(up));
        for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
            let at = |i: usize| x.get(place.offset + i * down..).unwrap_or_default();
            [*a, *b, *c, *d] = frames4(kernel, place.remainder, [at(0), at(1), at(2), at(3)]);
            place.advance(ratio);
        }
        place = Place { offset: start.offset + TOGETHER * down, ..start };
    }
    for out in blocks.into_remainder() {
        *out = frame(kernel, place.remainder, x.get(place.offset..).unwrap_or_default());
        place.advance(ratio);
    }
}

/// The coefficients of a phase, and those of the next one with the distance to it where the table
/// is interpolated.
#[inline(always)]
fn rows(kernel: &Kernel, remainder: u64) -> (&[f32], Option<(&[f32], f32)>) {
    let n = kernel.n_taps;
    let row = |i: usize| kernel.coefficients.get(i * n..(i + 1) * n).unwrap_or_default();
    if !kernel.is_interpolated {
        return (row(remainder as usize), None);
    }
    let scaled = remainder * kernel.n_phases;
    let (i, rest) = ((scaled / kernel.ratio.up) as usize, scaled % kernel.ratio.up);
    (row(i), Some((row(i + 1), rest as f32 / kernel.ratio.up as f32)))
}

#[inline(always)]
fn frame(kernel: &Kernel, remainder: u64, x: &[f32]) -> f32 {
    let (row, next) = rows(kernel, remainder);
    let y = dot(row, x);
    next.map_or(y, |(next, weight)| y + weight * (dot(next, x) - y))
}

#[inline(always)]
fn frames4(kernel: &Kernel, remainder: u64, x: [&[f32]; TOGETHER]) -> [f32; TOGETHER] {
    let (row, next) = rows(kernel, remainder);
    let mut y = dot4(row, x);
    if let Some((next, weight)) = next {
        for (y, z) in y.iter_mut().zip(dot4(next, x)) {
            *y += weight * (z - *y);
        }
    }
    y
}

type Lanes = [f32; LANES];

#[inline(always)]
fn add_products(sum: &mut Lanes, h: &Lanes, x: &Lanes) {
    for ((sum, h), x) in sum.iter_mut().zip(h).zip(x) {
        *sum += h * x;
    }
}

/// Adds up the lanes: halves onto each other, four times.
#[inline(always)]
fn reduce(sum: Lanes) -> f32 {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = sum;
    let [c0, c1, c2, c3] = [a0 + b0, a1 + b1, a2 + b2, a3 + b3];
    let [d0, d1, d2, d3] = [a4 + b4, a5 + b5, a6 + b6, a7 + b7];
    ((c0 + d0) + (c2 + d2)) + ((c1 + d1) + (c3 + d3))
}

#[inline(always)]
fn dot(h: &[f32], x: &[f32]) -> f32 {
    let mut sum = [0.0; LANES];
    for (h, x) in h.as_chunks().0.iter().zip(x.as_chunks().0) {
        add_products(&mut sum, h, x);
    }
    reduce(sum)
}

#[inline(always)]
fn dot4(h: &[f32], [a, b, c, d]: [&[f32]; TOGETHER]) -> [f32; TOGETHER] {
    let [mut sum_a, mut sum_b, mut sum_c, mut sum_d] = [[0.0; LANES]; TOGETHER];
    let inputs = a.as_chunks().0.iter().zip(b.as_chunks().0);
    let inputs = inputs.zip(c.as_chunks().0.iter().zip(d.as_chunks().0));
    for (h, ((a, b), (c, d))) in h.as_chunks().0.iter().zip(inputs) {
        add_products(&mut sum_a, h, a);
        add_products(&mut sum_b, h, b);
        add_products(&mut sum_c, h, c);
        add_products(&mut sum_d, h, d);
    }
    [reduce(sum_a), reduce(sum_b), reduce(sum_c), reduce(sum_d)]
}
