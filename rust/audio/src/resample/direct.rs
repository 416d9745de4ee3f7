//! Filtering by sums: output frame `m` is the sum over `k` of
//! `h[phase(m)][k] * x[floor(m * down / up) - half + 1 + k]`.
//!
//! For short filters, and for ratios for which there is no transform. Products are summed in 8 lanes by fused
//! multiply-add, which IEEE 754 defines to the bit, and lanes are added up in a fixed order: the bits do not
//! depend on the machine.

// Lanes have fixed numbers, and slices that go together are cut to one length. What `pulp` dispatches to must
// be inlined into the function that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use pulp::{Simd, WithSimd};

use super::{Ratio, design::Design};
use crate::{cancel::Cancel, error::Reason};

/// Taps come in groups of this many, one for each lane of the inner product.
const LANES: usize = 8;

/// The most coefficients in a table with all phases (2 MiB). A ratio with more is interpolated.
const MAX_COEFFICIENTS: usize = 1 << 19;

/// Cycles of output frames that are computed together: frames that are a cycle apart share their
/// coefficients.
const TOGETHER: usize = 4;

/// Input frames on each side of an output frame that its value depends on.
fn half(design: &Design) -> usize {
    (design.half_width.ceil() as usize).next_multiple_of(LANES / 2)
}

/// See [`super::Filter::input_window`].
pub(super) fn input_window(ratio: Ratio, design: &Design, first: u64, end: u64) -> (i64, usize) {
    let half = half(design);
    let base = |m: u64| m * ratio.down / ratio.up;
    let len = base(end.saturating_sub(1)).saturating_sub(base(first)) as usize + 2 * half;
    (base(first) as i64 - half as i64 + 1, len)
}

/// The coefficients of a filter.
#[derive(Debug)]
pub(super) struct Table {
    ratio: Ratio,
    /// Coefficients of an output frame.
    n_taps: usize,
    /// Rows of the table for one input frame, and whether those between must be interpolated.
    pub(super) n_phases: u64,
    pub(super) is_interpolated: bool,
    /// Row after row, one for each phase. An interpolated table has one more at its end, which is the first
    /// one an input frame later.
    coefficients: Vec<f32>,
}

impl Table {
    /// The lower the cutoff, the more taps and the fewer phases: the product is bounded.
    pub(super) fn new(ratio: Ratio, design: &Design) -> Self {
        let n_taps = 2 * half(design);
        let is_interpolated = ratio.up > (MAX_COEFFICIENTS / n_taps) as u64;
        let n_phases = if is_interpolated { (design.resolution as u64).max(2) } else { ratio.up };
        let n_rows = n_phases + u64::from(is_interpolated);
        let mut coefficients = vec![0.0; n_rows as usize * n_taps];
        for (row, phase) in coefficients.chunks_exact_mut(n_taps).zip(0u64..) {
            fill(design, phase as f64 / n_phases as f64, row);
        }
        Self { ratio, n_taps, n_phases, is_interpolated, coefficients }
    }

    #[cfg(test)]
    pub(super) fn n_coefficients(&self) -> usize {
        self.coefficients.len()
    }

    fn row(&self, phase: usize) -> &[f32] {
        &self.coefficients[phase * self.n_taps..(phase + 1) * self.n_taps]
    }
}

/// The coefficients of an output frame that is `phase` input frames behind the middle ones of `row`.
fn fill(design: &Design, phase: f64, row: &mut [f32]) {
    let before = (row.len() / 2).saturating_sub(1) as f64;
    let taps: Vec<_> = (0..row.len()).map(|k| design.at(k as f64 - before - phase)).collect();
    let sum = if design.is_band_limited { taps.iter().sum() } else { 1.0 };
    row.iter_mut().zip(taps).for_each(|(to, tap)| *to = (tap / sum) as f32);
}

/// The loop over output frames, compiled for each instruction set.
pub(super) struct Sums<'a> {
    pub(super) table: &'a Table,
    pub(super) first: u64,
    pub(super) window: &'a [f32],
    pub(super) out: &'a mut [f32],
    pub(super) cancel: &'a Cancel,
}

impl WithSimd for Sums<'_> {
    type Output = Result<(), Reason>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        if self.table.is_interpolated {
            self.frames::<S, true>(simd)
        } else {
            self.frames::<S, false>(simd)
        }
    }
}

impl Sums<'_> {
    /// All frames, some cycles together.
    #[inline(always)]
    fn frames<S: Simd, const BETWEEN: bool>(self, simd: S) -> Result<(), Reason> {
        let Self { table, first, window, out, cancel } = self;
        let Ratio { up, down } = table.ratio;
        let (cycle_in, cycle_out) = (down as usize, up as usize);
        let origin = first * down / up;
        for (n, out) in out.chunks_mut(cycle_out.saturating_mul(TOGETHER)).enumerate() {
            cancel.check()?;
            let first = first + (n * cycle_out * TOGETHER) as u64;
            for i in 0..out.len().min(cycle_out) {
                let place = (first + i as u64) * down;
                let at = (place / up - origin) as usize;
                let row = Row::<BETWEEN>::of(table, place % up);
                let mut frames = out[i..].iter_mut().step_by(cycle_out);
                let input = |t: usize| &window[at + t * cycle_in..][..table.n_taps];
                if frames.len() == TOGETHER {
                    let inputs: [_; TOGETHER] = std::array::from_fn(input);
                    let sums = row.dot(simd, inputs);
                    frames.zip(sums).for_each(|(out, sum)| *out = sum);
                } else {
                    for t in 0..frames.len() {
                        let [sum] = row.dot(simd, [input(t)]);
                        frames.next().into_iter().for_each(|out| *out = sum);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The coefficients of an output frame: a row of a table, or, if `BETWEEN`, a mean of two of its rows,
/// `taps + weight * (next - taps)`.
struct Row<'a, const BETWEEN: bool> {
    taps: &'a [f32],
    next: &'a [f32],
    weight: f32,
}

impl<'a, const BETWEEN: bool> Row<'a, BETWEEN> {
    /// The coefficients for a frame that is `rest / up` input frames behind an input frame.
    #[inline(always)]
    fn of(table: &'a Table, rest: u64) -> Self {
        if !BETWEEN {
            return Self { taps: table.row(rest as usize), next: &[], weight: 0.0 };
        }
        let up = table.ratio.up;
        let phase = rest * table.n_phases;
        let (i, rest) = ((phase / up) as usize, phase % up);
        Self { taps: table.row(i), next: table.row(i + 1), weight: rest as f32 / up as f32 }
    }

    /// The sums of products with each input.
    ///
    /// Each has 8 lanes, kept in one, two or more registers, and the same bits on every machine.
    #[inline(always)]
    fn dot<S: Simd, const T: usize>(&self, simd: S, x: [&[f32]; T]) -> [f32; T] {
        // The branch is decided by the compiler.
        match S::F32_LANES {
            8 => self.dot_in::<S, T, 1>(simd, x),
            4 => self.dot_in::<S, T, 2>(simd, x),
            _ => self.dot_in::<pulp::Scalar, T, 8>(pulp::Scalar, x),
        }
    }

    /// The lanes of one sum in `R` registers.
    #[inline(always)]
    fn dot_in<S: Simd, const T: usize, const R: usize>(&self, simd: S, x: [&[f32]; T]) -> [f32; T] {
        let registers = |x| S::as_simd_f32s(x).0.as_chunks::<R>().0;
        let taps = registers(self.taps);
        let next = if BETWEEN { registers(self.next) } else { taps };
        let x = x.map(|x| &registers(x)[..taps.len()]);
        let next = &next[..taps.len()];
        let weight = simd.splat_f32s(self.weight);
        let mut sums = [[simd.splat_f32s(0.0); R]; T];
        for (i, h) in taps.iter().enumerate() {
            let mut h = *h;
            if BETWEEN {
                for (h, next) in h.iter_mut().zip(&next[i]) {
                    *h = simd.mul_add_f32s(weight, simd.sub_f32s(*next, *h), *h);
                }
            }
            for (sums, x) in sums.iter_mut().zip(x) {
                for ((sum, h), x) in sums.iter_mut().zip(&h).zip(&x[i]) {
                    *sum = simd.mul_add_f32s(*h, *x, *sum);
                }
            }
        }
        sums.map(|sums| {
            let mut lanes = [0.0; LANES];
            lanes.copy_from_slice(bytemuck::cast_slice::<S::f32s, f32>(&sums));
            let [first, second] =
                [0, 1].map(|i| (lanes[i] + lanes[i + 4]) + (lanes[i + 2] + lanes[i + 6]));
            first + second
        })
    }
}
