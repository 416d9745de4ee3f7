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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::audio::kernel;

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
    fn crop(ratio: Ratio, x: &[f32], first: u64, end: u64) -> Vec<f32> {
        let (start, len) = input_window(ratio, first, end);
        let window: Vec<_> = (start..start + len as i64)
            .map(|i| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0))
            .collect();
        let mut out = vec![f32::NAN; (end - first) as usize];
        resample(&kernel::shared(ratio), first, &window, &mut out, &Cancel::default()).unwrap();
        out
    }

    fn ratio(from: u32, to: u32) -> Ratio {
        Ratio::of(from, to).unwrap().unwrap()
    }

    /// One output frame in double precision with the library's functions, from the definition.
    fn naive(from: u32, to: u32, x: &[f32], m: u64) -> f64 {
        let cutoff = 0.9565 * (f64::from(to) / f64::from(from)).min(1.0);
        let half = 88.0 / cutoff;
        let place = m as f64 * f64::from(from) / f64::from(to);
        let i0 = |x: f64| {
            (1..60).fold((1.0, 1.0), |(sum, term), k| {
                let term = term * (x / 2.0 / f64::from(k)).powi(2);
                (sum + term, term)
            })
        };
        let tap = |t: f64| {
            let sinc = if t == 0.0 {
                1.0
            } else {
                let x = std::f64::consts::PI * cutoff * t;
                x.sin() / x
            };
            sinc * i0(11.5 * (1.0 - (t / half).powi(2)).max(0.0).sqrt()).0
        };
        let (mut sum, mut gain) = (0.0, 0.0);
        let (first, last) = ((place - half).ceil() as i64, (place + half).floor() as i64);
        for i in first..=last {
            let h = tap(i as f64 - place);
            gain += h;
            sum += h * usize::try_from(i).ok().and_then(|i| x.get(i)).map_or(0.0, |&x| x.into());
        }
        sum / gain
    }

    const RATES: [u32; 12] = [
        8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_099, 44_100, 48_000, 50_000, 96_000,
        192_000,
    ];

    fn rates() -> impl Strategy<Value = (u32, u32)> {
        (prop::sample::select(&RATES[..]), prop::sample::select(&RATES[..]))
            .prop_filter("equal rates are copied", |(from, to)| from != to)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn equals_the_definition((from, to) in rates(), seed: u32, n in 1usize..3000) {
            let ratio = ratio(from, to);
            let x = noise(n, seed);
            let n_out = ratio.n_out(n as u64);
            prop_assert_eq!(n_out, (n as u64 * u64::from(to)).div_ceil(u64::from(from)));
            let y = crop(ratio, &x, 0, n_out);
            for m in (0..n_out).step_by(97) {
                let want = naive(from, to, &x, m);
                let got = f64::from(y[m as usize]);
                prop_assert!((got - want).abs() < 3e-6, "{} to {}, frame {}: {} {}", from, to, m, got, want);
            }
        }

        #[test]
        fn a_crop_has_the_bits_of_the_whole(
            (from, to) in rates(), seed: u32, n in 1usize..5000, a: u64, b: u64,
        ) {
            let ratio = ratio(from, to);
            let x = noise(n, seed);
            let n_out = ratio.n_out(n as u64);
            let first = a % n_out;
            let end = first + 1 + b % (n_out - first);
            let whole = crop(ratio, &x, 0, n_out);
            let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
            let slice = &whole[first as usize..end as usize];
            prop_assert_eq!(bits(&crop(ratio, &x, first, end)), bits(slice));
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        for (from, to) in [(44_100, 32_000), (32_000, 16_000), (44_099, 32_000)] {
            let ratio = ratio(from, to);
            let kernel = kernel::shared(ratio);
            let (_, len) = input_window(ratio, 5, 5005);
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
        let y = crop(ratio(from, to), &x, 1000, 9000);
        for (i, y) in y.iter().enumerate() {
            assert!((f64::from(*y) - tone(to, 1000 + i as u64)).abs() < 2e-6);
        }
    }
}
