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
    kernel::{Filter, Kernel, LANES, Ratio},
};

/// The input frames that output frames `first..end` depend on, as first frame and length. They
/// may reach over both ends of the recording, where they count as zero.
pub(super) fn input_window(filter: Filter, first: u64, end: u64) -> (i64, usize) {
    let Filter { ratio, .. } = filter;
    let half = filter.half();
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
    let Ratio { up, down } = kernel.filter.ratio;
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
        if kernel.is_interpolated {
            run::<S, true>(simd, kernel, first, x, out);
        } else {
            run::<S, false>(simd, kernel, first, x, out);
        }
    }
}

#[inline(always)]
fn run<S: Simd, const BETWEEN: bool>(
    simd: S,
    kernel: &Kernel,
    first: u64,
    x: &[f32],
    out: &mut [f32],
) {
    let ratio = kernel.filter.ratio;
    let (up, down) = (ratio.up as usize, ratio.down as usize);
    let mut place = Place { offset: 0, remainder: first * ratio.down % ratio.up };
    let mut blocks = out.chunks_exact_mut(TOGETHER * up);
    for block in &mut blocks {
        let start = place;
        let (head, tail) = block.split_at_mut(2 * up);
        let ((y0, y1), (y2, y3)) = (head.split_at_mut(up), tail.split_at_mut(up));
        for (((y0, y1), y2), y3) in y0.iter_mut().zip(y1).zip(y2).zip(y3) {
            let at = |i: usize| x.get(place.offset + i * down..).unwrap_or_default();
            let row = Row::<BETWEEN>::of(kernel, place.remainder);
            [*y0, *y1, *y2, *y3] = dots(simd, &row, [at(0), at(1), at(2), at(3)]);
            place.advance(ratio);
        }
        place = Place { offset: start.offset + TOGETHER * down, ..start };
    }
    for out in blocks.into_remainder() {
        let x = x.get(place.offset..).unwrap_or_default();
        let row = Row::<BETWEEN>::of(kernel, place.remainder);
        [*out] = dots(simd, &row, [x]);
        place.advance(ratio);
    }
}

/// The coefficients of a phase. Where the table is interpolated they lie `BETWEEN` two of its rows:
/// `taps + weight * (next - taps)`.
struct Row<'a, const BETWEEN: bool> {
    taps: &'a [f32],
    next: &'a [f32],
    weight: f32,
}

impl<'a, const BETWEEN: bool> Row<'a, BETWEEN> {
    #[inline(always)]
    fn of(kernel: &'a Kernel, remainder: u64) -> Self {
        let n = kernel.n_taps;
        let row = |i: usize| kernel.coefficients.get(i * n..(i + 1) * n).unwrap_or_default();
        if !BETWEEN {
            return Self { taps: row(remainder as usize), next: &[], weight: 0.0 };
        }
        let up = kernel.filter.ratio.up;
        let scaled = remainder * kernel.n_phases;
        let (i, rest) = ((scaled / up) as usize, scaled % up);
        Self { taps: row(i), next: row(i + 1), weight: rest as f32 / up as f32 }
    }
}

/// The sums of products of one row of coefficients with several inputs.
///
/// Each has 16 lanes, kept in one, two or more registers, and the same bits on every machine.
#[inline(always)]
fn dots<S: Simd, const N: usize, const BETWEEN: bool>(
    simd: S,
    row: &Row<'_, BETWEEN>,
    x: [&[f32]; N],
) -> [f32; N] {
    // The branch is decided by the compiler.
    match S::F32_LANES {
        16 => dots_in::<S, N, 1, BETWEEN>(simd, row, x),
        8 => dots_in::<S, N, 2, BETWEEN>(simd, row, x),
        4 => dots_in::<S, N, 4, BETWEEN>(simd, row, x),
        _ => dots_in::<S, N, 16, BETWEEN>(simd, row, x),
    }
}

/// The lanes of one sum in `R` registers.
#[inline(always)]
fn dots_in<S: Simd, const N: usize, const R: usize, const BETWEEN: bool>(
    simd: S,
    row: &Row<'_, BETWEEN>,
    x: [&[f32]; N],
) -> [f32; N] {
    let h = S::as_simd_f32s(row.taps).0.as_chunks::<R>().0;
    let next = S::as_simd_f32s(if BETWEEN { row.next } else { row.taps }).0.as_chunks::<R>().0;
    let x = x.map(|x| S::as_simd_f32s(x).0.as_chunks::<R>().0);
    let n = x.iter().fold(h.len().min(next.len()), |n, x| n.min(x.len()));
    let h = h.get(..n).unwrap_or_default();
    let next = next.get(..n).unwrap_or_default();
    let x = x.map(|x| x.get(..n).unwrap_or_default());
    let weight = simd.splat_f32s(row.weight);
    #[allow(clippy::indexing_slicing)] // all have `n` entries; zipping N slices is not possible
    let at = |x: &[[S::f32s; R]], i: usize| x[i];
    let mut sums = [[simd.splat_f32s(0.0); R]; N];
    for (i, (h, next)) in h.iter().zip(next).enumerate() {
        let mut h = *h;
        if BETWEEN {
            for (h, next) in h.iter_mut().zip(next) {
                *h = simd.add_f32s(*h, simd.mul_f32s(weight, simd.sub_f32s(*next, *h)));
            }
        }
        for (sum, x) in sums.iter_mut().zip(&x) {
            for ((sum, h), x) in sum.iter_mut().zip(h).zip(at(x, i)) {
                *sum = simd.add_f32s(*sum, simd.mul_f32s(h, x));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Resampler, kernel};

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        })
        .take(n)
        .collect()
    }

    /// Output frames `first..end` of `x`.
    fn crop(filter: Filter, x: &[f32], first: u64, end: u64) -> Vec<f32> {
        let (start, len) = input_window(filter, first, end);
        let window: Vec<_> = (start..start + len as i64)
            .map(|i| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0))
            .collect();
        let mut out = vec![f32::NAN; (end - first) as usize];
        resample(&kernel::shared(filter), first, &window, &mut out, &Cancel::default()).unwrap();
        out
    }

    fn filter(from: u32, to: u32, resampler: Resampler) -> Filter {
        Filter { ratio: Ratio::of(from, to).unwrap().unwrap(), resampler }
    }

    /// One output frame in double precision, straight from the filter.
    fn naive(filter: Filter, x: &[f32], m: u64) -> f64 {
        let design = filter.resampler.design(filter.ratio);
        let place = m as f64 * filter.ratio.down as f64 / filter.ratio.up as f64;
        let (first, last) = (place - design.half_width, place + design.half_width);
        let (mut sum, mut gain) = (0.0, 0.0);
        for i in first.ceil() as i64..=last.floor() as i64 {
            let h = design.at(i as f64 - place);
            gain += h;
            sum += h * usize::try_from(i).ok().and_then(|i| x.get(i)).map_or(0.0, |&x| x.into());
        }
        if design.passes_constants { sum / gain } else { sum }
    }

    const RATES: [u32; 12] = [
        8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_099, 44_100, 48_000, 50_000, 96_000,
        192_000,
    ];

    fn filters() -> impl Strategy<Value = Filter> {
        let rate = || prop::sample::select(&RATES[..]);
        let resampler = prop::sample::select(&Resampler::ALL[..]);
        (rate(), rate(), resampler)
            .prop_filter("equal rates are copied", |(from, to, _)| from != to)
            .prop_map(|(from, to, (_, resampler))| filter(from, to, resampler))
    }

    /// How far frame `m` may be from the definition: what rounding makes, and where phases are
    /// interpolated, an eighth of the second difference at each tap, and the step in which the
    /// window ends, if a tap lies within one phase of it.
    fn bound(filter: Filter, m: u64) -> f64 {
        let (design, kernel) = (filter.resampler.design(filter.ratio), kernel::shared(filter));
        if !kernel.is_interpolated {
            return 3e-6;
        }
        let place = m as f64 * filter.ratio.down as f64 / filter.ratio.up as f64;
        let ends = [place - design.half_width, place + design.half_width];
        let phase = 1.0 / kernel.n_phases as f64;
        let n_steps = ends.iter().filter(|end| (**end - end.round()).abs() <= phase).count();
        let step = design.at(design.half_width * (1.0 - 1e-12)).abs();
        let taps = (ends[0].ceil() as i64..=ends[1].floor() as i64).map(|i| i as f64 - place);
        let bend = |t: f64| design.at(t - phase) - 2.0 * design.at(t) + design.at(t + phase);
        3e-6 + taps.map(|t| bend(t).abs() / 8.0).sum::<f64>() + n_steps as f64 * step
    }

    #[test]
    fn interpolated_tables_equal_the_definition() {
        for (_, resampler) in Resampler::ALL {
            for (from, to) in [(48_000, 44_099), (44_099, 32_000), (44_099, 48_000)] {
                let filter = filter(from, to, resampler);
                for seed in [216_548_116, 1, 2] {
                    let x = noise(500, seed);
                    let y = crop(filter, &x, 0, filter.ratio.n_out(500));
                    for (m, &got) in y.iter().enumerate() {
                        let error = (f64::from(got) - naive(filter, &x, m as u64)).abs();
                        assert!(
                            error < bound(filter, m as u64),
                            "{filter:?}, seed {seed}, frame {m}: {error}"
                        );
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn equals_the_definition(filter in filters(), seed: u32, n in 1usize..3000) {
            let x = noise(n, seed);
            let n_out = filter.ratio.n_out(n as u64);
            let y = crop(filter, &x, 0, n_out);
            for m in (0..n_out).step_by(97) {
                let want = naive(filter, &x, m);
                let got = f64::from(y[m as usize]);
                prop_assert!((got - want).abs() < bound(filter, m), "{:?}, frame {}: {} {}", filter, m, got, want);
            }
        }

        #[test]
        fn a_crop_has_the_bits_of_the_whole(
            filter in filters(), seed: u32, n in 1usize..5000, a: u64, b: u64,
        ) {
            let x = noise(n, seed);
            let n_out = filter.ratio.n_out(n as u64);
            let first = a % n_out;
            let end = first + 1 + b % (n_out - first);
            let whole = crop(filter, &x, 0, n_out);
            let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
            let slice = &whole[first as usize..end as usize];
            prop_assert_eq!(bits(&crop(filter, &x, first, end)), bits(slice));
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        for (from, to) in [(44_100, 32_000), (32_000, 16_000), (44_099, 32_000)] {
            let filter = filter(from, to, Resampler::Hq);
            let kernel = kernel::shared(filter);
            let (_, len) = input_window(filter, 5, 5005);
            let x = noise(len, 3);
            let (mut fast, mut plain) = (vec![0.0; 5000], vec![0.0; 5000]);
            resample(&kernel, 5, &x, &mut fast, &Cancel::default()).unwrap();
            Run { kernel: &kernel, first: 5, x: &x, out: &mut plain }.with_simd(pulp::Scalar);
            assert!(fast.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }

    #[test]
    fn a_tone_keeps_its_phase_and_gain() {
        let (from, to) = (44_100, 32_000);
        let tone = |rate: u32, i: u64| {
            (2.0 * std::f64::consts::PI * 997.0 * i as f64 / f64::from(rate)).sin()
        };
        let x: Vec<_> = (0..20_000).map(|i| tone(from, i) as f32).collect();
        let y = crop(filter(from, to, Resampler::Hq), &x, 1000, 9000);
        for (i, y) in y.iter().enumerate() {
            assert!((f64::from(*y) - tone(to, 1000 + i as u64)).abs() < 2e-6);
        }
    }
}
