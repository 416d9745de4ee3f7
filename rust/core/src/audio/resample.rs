//! Rational resampling by polyphase filtering: zero delay, and a pure function of the frame.
//!
//! Output frame `m` is `sum_k h[phase(m)][k] * x[floor(m * down / up) - half + 1 + k]`, so a crop
//! of the output needs only `half` more input frames on each side and has the bits of the whole.
//! Products are summed in 16 lanes that are added up in a fixed order, with no fused
//! multiply-add, so the bits do not depend on the vector width of the machine either.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an
// instruction set; a call to a function outside would run with the instructions of the baseline.
#![allow(clippy::inline_always)]

use pulp::{Simd, WithSimd};

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

/// Output frames between two looks at the cancel flag, about.
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
    let block = TOGETHER * up as usize;
    let stride = block * (STRIDE / block).max(1);
    for (i, out) in out.chunks_mut(stride).enumerate() {
        cancel.check()?;
        let first = first + (i * stride) as u64;
        let x = x.get((first * down / up - start) as usize..).unwrap_or_default();
        arch.dispatch(Run { kernel, first, x, out });
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

/// The loop over output frames, compiled for each instruction set.
struct Run<'a> {
    kernel: &'a Kernel,
    first: u64,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { kernel, first, x, out } = self;
        run(simd, kernel, first, x, out);
    }
}

#[inline(always)]
fn run<S: Simd>(simd: S, kernel: &Kernel, first: u64, x: &[f32], out: &mut [f32]) {
    let ratio = kernel.ratio;
    let (up, down) = (ratio.up as usize, ratio.down as usize);
    let mut place = Place { offset: 0, remainder: first * ratio.down % ratio.up };
    let mut blocks = out.chunks_exact_mut(TOGETHER * up);
    for block in &mut blocks {
        let start = place;
        let (head, tail) = block.split_at_mut(2 * up);
        let ((y0, y1), (y2, y3)) = (head.split_at_mut(up), tail.split_at_mut(up));
        for (((y0, y1), y2), y3) in y0.iter_mut().zip(y1).zip(y2).zip(y3) {
            let at = |i: usize| x.get(place.offset + i * down..).unwrap_or_default();
            [*y0, *y1, *y2, *y3] =
                frames(simd, kernel, place.remainder, [at(0), at(1), at(2), at(3)]);
            place.advance(ratio);
        }
        place = Place { offset: start.offset + TOGETHER * down, ..start };
    }
    for out in blocks.into_remainder() {
        let x = x.get(place.offset..).unwrap_or_default();
        [*out] = frames(simd, kernel, place.remainder, [x]);
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

/// Output frames of one phase.
#[inline(always)]
fn frames<S: Simd, const N: usize>(
    simd: S,
    kernel: &Kernel,
    remainder: u64,
    x: [&[f32]; N],
) -> [f32; N] {
    let (row, next) = rows(kernel, remainder);
    let mut y = dots(simd, row, x);
    if let Some((next, weight)) = next {
        for (y, z) in y.iter_mut().zip(dots(simd, next, x)) {
            *y += weight * (z - *y);
        }
    }
    y
}

/// The sums of products of one row of coefficients with several inputs.
///
/// Each has 16 lanes, kept in one, two or more registers, and the same bits on every machine.
#[inline(always)]
fn dots<S: Simd, const N: usize>(simd: S, h: &[f32], x: [&[f32]; N]) -> [f32; N] {
    // The branch is decided by the compiler.
    match S::F32_LANES {
        16 => dots_in::<S, N, 1>(simd, h, x),
        8 => dots_in::<S, N, 2>(simd, h, x),
        4 => dots_in::<S, N, 4>(simd, h, x),
        _ => dots_in::<S, N, 16>(simd, h, x),
    }
}

/// The lanes of one sum in `R` registers.
#[inline(always)]
fn dots_in<S: Simd, const N: usize, const R: usize>(
    simd: S,
    h: &[f32],
    x: [&[f32]; N],
) -> [f32; N] {
    let h = S::as_simd_f32s(h).0.as_chunks::<R>().0;
    let x = x.map(|x| S::as_simd_f32s(x).0.as_chunks::<R>().0);
    let n = x.iter().fold(h.len(), |n, x| n.min(x.len()));
    let h = h.get(..n).unwrap_or_default();
    let x = x.map(|x| x.get(..n).unwrap_or_default());
    #[allow(clippy::indexing_slicing)] // both have `n` entries; zipping N slices is not possible
    let at = |x: &[[S::f32s; R]], i: usize| x[i];
    let mut sums = [[simd.splat_f32s(0.0); R]; N];
    for (i, h) in h.iter().enumerate() {
        for (sum, x) in sums.iter_mut().zip(&x) {
            for ((sum, h), x) in sum.iter_mut().zip(h).zip(at(x, i)) {
                *sum = simd.add_f32s(*sum, simd.mul_f32s(*h, x));
            }
        }
    }
    sums.map(|sum| {
        let mut lanes = [0.0; LANES];
        for (to, from) in lanes.iter_mut().zip(bytemuck::cast_slice::<S::f32s, f32>(&sum)) {
            *to = *from;
        }
        reduce(lanes)
    })
}

/// Adds up the lanes: halves onto each other, four times.
#[inline(always)]
fn reduce(sum: [f32; LANES]) -> f32 {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = sum;
    let [c0, c1, c2, c3] = [a0 + b0, a1 + b1, a2 + b2, a3 + b3];
    let [d0, d1, d2, d3] = [a4 + b4, a5 + b5, a6 + b6, a7 + b7];
    ((c0 + d0) + (c2 + d2)) + ((c1 + d1) + (c3 + d3))
}
