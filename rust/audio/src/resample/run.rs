//! Rational resampling by polyphase filtering: zero delay, and a pure function of the frame.
//!
//! Output frame `m` is `sum_k h[phase(m)][k] * x[floor(m * down / up) - half + 1 + k]`, so a crop
//! of the output needs only `half` more input frames on each side and has the bits of the whole.
//! Products are summed in 8 lanes by fused multiply-add, which IEEE 754 defines to the bit, and lanes are
//! added up in a fixed order: the bits do not depend on the machine either.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an
// instruction set; a call to a function outside would run with the instructions of the baseline.
// Groups, inputs and registers have fixed numbers, and slices that go together are cut to one length.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::{
    cancel::Cancel,
    error::Reason,
    resample::table::{Filter, GROUP, Kernel, LANES, Ratio},
};

/// The input frames that output frames `first..end` depend on, as first frame and length. They
/// may reach over both ends of the recording, where they count as zero.
pub(crate) fn input_window(filter: Filter, first: u64, end: u64) -> (i64, usize) {
    let Filter { ratio, .. } = filter;
    let half = filter.half();
    let base = |m: u64| m * ratio.down / ratio.up;
    let len = base(end.saturating_sub(1)).saturating_sub(base(first)) as usize + 2 * half;
    (base(first) as i64 - half as i64 + 1, len)
}

/// Computes output frames from `first` on into `out`, from their [`input_window`] `x` with its
/// [margins](Filter::margins).
pub(crate) fn resample(
    kernel: &Kernel,
    first: u64,
    x: &[f32],
    out: &mut [f32],
    cancel: &Cancel,
) -> Result<(), Reason> {
    pulp::Arch::new().dispatch(Run { kernel, first, x, out, cancel })
}

/// Rows of cycles that are computed before the next group, while its coefficients are in the first-level
/// cache.
const REPEATED: usize = 4;

/// The loop over output frames, compiled for each instruction set.
struct Run<'a> {
    kernel: &'a Kernel,
    first: u64,
    x: &'a [f32],
    out: &'a mut [f32],
    cancel: &'a Cancel,
}

impl WithSimd for Run<'_> {
    type Output = Result<(), Reason>;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> Self::Output {
        // Frames that are a cycle apart share their coefficients, so three or four of them go together: as
        // many as there are registers for.
        if self.kernel.is_interpolated {
            self.cycles::<S, 4, 1, true>(simd)
        } else {
            self.cycles::<S, 3, GROUP, false>(simd)
        }
    }
}

impl Run<'_> {
    /// All cycles of output frames, `T` of them together, in groups of `G` frames.
    #[inline(always)]
    fn cycles<S: Simd, const T: usize, const G: usize, const BETWEEN: bool>(
        &mut self,
        simd: S,
    ) -> Result<(), Reason> {
        let up = self.kernel.cycle.up as usize;
        // Frames are counted from here. A table has rows for cycles that begin where all do.
        let begin = if BETWEEN { 0 } else { self.first as usize % up };
        let end = begin + self.out.len();
        let whole = begin.div_ceil(up)..end / up;
        let mut cycle = 0;
        while cycle * up < end {
            self.cancel.check()?;
            let n = if whole.contains(&cycle) { (whole.end - cycle) / T } else { 0 };
            let n = n.min(REPEATED);
            let start = cycle * up;
            if n > 0 {
                self.groups::<S, T, G, BETWEEN>(simd, begin, start, n, 0..up);
                cycle += n * T;
            } else {
                let frames = begin.saturating_sub(start)..up.min(end - start);
                self.groups::<S, 1, G, BETWEEN>(simd, begin, start, 1, frames);
                cycle += 1;
            }
        }
        Ok(())
    }

    /// The groups that hold `frames` of the cycle that begins with frame `start`, and the same of those behind
    /// it: `n` times `T`. The first wanted frame is `begin`.
    #[inline(always)]
    fn groups<S: Simd, const T: usize, const G: usize, const BETWEEN: bool>(
        &mut self,
        simd: S,
        begin: usize,
        start: usize,
        n: usize,
        frames: Range<usize>,
    ) {
        let Self { kernel, x, .. } = *self;
        let Ratio { up, down } = kernel.cycle;
        let zero = self.first - begin as u64; // what frames are counted from
        // Where the first frame's input would begin in `x`, were it the recording's.
        let origin = kernel.margin as i64 - (self.first * down / up) as i64;
        let (up, down) = (up as usize, down as usize);
        for frame in (frames.start - frames.start % G..frames.end).step_by(G) {
            let rows = Rows::<G, BETWEEN>::of(kernel, zero + frame as u64);
            let input = origin + rows.input as i64;
            for start in (0..n).map(|i| start + i * T * up) {
                let inputs: [_; T] = std::array::from_fn(|t| {
                    let at = input + ((start / up + t) * down) as i64;
                    usize::try_from(at).ok().and_then(|at| x.get(at..)).unwrap_or_default()
                });
                let sums = rows.dot(simd, inputs);
                for (t, sums) in sums.iter().enumerate() {
                    let at = start + t * up + frame;
                    let out = self.out.get_mut(at.saturating_sub(begin)..).unwrap_or_default();
                    if at >= begin
                        && up - frame >= G
                        && let Some(out) = out.first_chunk_mut()
                    {
                        *out = *sums;
                    } else {
                        let sums = sums.iter().take(up - frame).skip(begin.saturating_sub(at));
                        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
                    }
                }
            }
        }
    }
}

/// The coefficients of a group: rows of a table, or what lies `BETWEEN` two of its rows,
/// `taps + weight * (next - taps)`.
struct Rows<'a, const G: usize, const BETWEEN: bool> {
    taps: [&'a [f32]; G],
    next: &'a [f32],
    weight: f32,
    /// The input frame that they begin with, but for half of their length.
    input: u64,
}

impl<'a, const G: usize, const BETWEEN: bool> Rows<'a, G, BETWEEN> {
    /// The rows of the group that begins with this output frame.
    #[inline(always)]
    fn of(kernel: &'a Kernel, frame: u64) -> Self {
        let Ratio { up, down } = kernel.cycle;
        let n = kernel.n_taps;
        let row = |i: usize| kernel.coefficients.get(i * n..(i + 1) * n).unwrap_or_default();
        let input = frame * down / up;
        if !BETWEEN {
            let first = (frame % up) as usize;
            return Self {
                taps: std::array::from_fn(|i| row(first + i)),
                next: &[],
                weight: 0.0,
                input,
            };
        }
        let phase = frame * down % up * kernel.n_phases;
        let (i, rest) = ((phase / up) as usize, phase % up);
        Self { taps: [row(i); G], next: row(i + 1), weight: rest as f32 / up as f32, input }
    }

    /// The sums of products of each row with each input.
    ///
    /// Each has 8 lanes, kept in one, two or more registers, and the same bits on every machine.
    #[inline(always)]
    fn dot<S: Simd, const T: usize>(&self, simd: S, x: [&[f32]; T]) -> [[f32; G]; T] {
        // The branch is decided by the compiler.
        match S::F32_LANES {
            8 => self.dot_in::<S, T, 1>(simd, x),
            4 => self.dot_in::<S, T, 2>(simd, x),
            _ => self.dot_in::<pulp::Scalar, T, 8>(pulp::Scalar, x),
        }
    }

    /// The lanes of one sum in `R` registers.
    #[inline(always)]
    fn dot_in<S: Simd, const T: usize, const R: usize>(
        &self,
        simd: S,
        x: [&[f32]; T],
    ) -> [[f32; G]; T] {
        let registers = |x| S::as_simd_f32s(x).0.as_chunks::<R>().0;
        let rows = self.taps.map(registers);
        let next = if BETWEEN { registers(self.next) } else { rows[0] };
        let x = x.map(registers);
        let n = rows.iter().chain(&x).fold(next.len(), |n, x| n.min(x.len()));
        let rows = rows.map(|row| row.get(..n).unwrap_or_default());
        let x = x.map(|x| x.get(..n).unwrap_or_default());
        let next = next.get(..n).unwrap_or_default();
        let weight = simd.splat_f32s(self.weight);
        let mut sums = [[[simd.splat_f32s(0.0); R]; G]; T];
        for (i, next) in next.iter().enumerate() {
            let x = x.map(|x| x[i]);
            for (g, row) in rows.iter().enumerate() {
                let mut h = row[i];
                if BETWEEN {
                    for (h, next) in h.iter_mut().zip(next) {
                        *h = simd.mul_add_f32s(weight, simd.sub_f32s(*next, *h), *h);
                    }
                }
                for (sums, x) in sums.iter_mut().zip(&x) {
                    for ((sum, h), x) in sums[g].iter_mut().zip(&h).zip(x) {
                        *sum = simd.mul_add_f32s(*h, *x, *sum);
                    }
                }
            }
        }
        sums.map(|sums| {
            let mut lanes = [[0.0; LANES]; G];
            for (to, sum) in lanes.iter_mut().zip(&sums) {
                to.copy_from_slice(bytemuck::cast_slice::<S::f32s, f32>(sum));
            }
            reduce(&lanes)
        })
    }
}

/// Adds up the lanes of each sum: halves onto each other, three times.
#[inline(always)]
fn reduce<const G: usize>(sums: &[[f32; LANES]; G]) -> [f32; G] {
    // Lane by lane, so that the sums of a group are added as one vector.
    let lane = |i: usize| -> [f32; G] { std::array::from_fn(|g| sums[g][i] + sums[g][i + 4]) };
    let lanes = [lane(0), lane(1), lane(2), lane(3)];
    let [a, b, c, d] = &lanes;
    // What a margin adds is a zero of either sign. The last sum makes one zero of them.
    std::array::from_fn(|g| ((a[g] + c[g]) + (b[g] + d[g])) + 0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Resampler, resample::table};

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
        let (before, behind) = filter.margins();
        let window = (start..start + len as i64)
            .map(|i| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0));
        let window = [vec![0.0; before], window.collect(), vec![0.0; behind]].concat();
        let mut out = vec![f32::NAN; (end - first) as usize];
        resample(&table::shared(filter), first, &window, &mut out, &Cancel::default()).unwrap();
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
        let (design, kernel) = (filter.resampler.design(filter.ratio), table::shared(filter));
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
            let kernel = table::shared(filter);
            let (_, len) = input_window(filter, 5, 5005);
            let (before, behind) = filter.margins();
            let x = noise(before + len + behind, 3);
            let (mut fast, mut plain) = (vec![0.0; 5000], vec![0.0; 5000]);
            let cancel = Cancel::default();
            resample(&kernel, 5, &x, &mut fast, &cancel).unwrap();
            let plain_run =
                Run { kernel: &kernel, first: 5, x: &x, out: &mut plain, cancel: &cancel };
            plain_run.with_simd(pulp::Scalar).unwrap();
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
