//! From subbands to PCM: ISO/IEC 11172-3, 2.4.3.2.2 and annex A.
//!
//! The standard multiplies the 32 subbands of a slot by a matrix of cosines into 64 values, keeps
//! those of 16 slots, and sums them by a window. The 64 are 32, mirrored: with `y[n] = sum_k s[k]
//! cos(pi/64 (2k+1) n)` a frame `j` of a slot takes `y[16 + j]` and `y[16 - j]` of these slots in
//! turn, and frame `32 - j` takes the same two with other weights. Sums and differences of `s[k]`
//! and `s[31 - k]` give `y` of even and of odd `n`. So even `j` and odd `j` are stored apart here until
//! the end.
//!
//! Each lane of a vector sums in the same order, without fused multiply-add, so the bits do not
//! depend on the width of vectors.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an
// instruction set. Slots and lanes have fixed numbers.
#![allow(clippy::inline_always, clippy::indexing_slicing)]

use pulp::Simd;

use super::{
    bands::N_SAMPLES,
    hybrid::{HEIGHT, Rows},
    window::window,
};
use crate::trig::cos_pi;

/// Slots that a PCM frame depends on.
const N_TAPS: usize = 16;
/// Slots that are worked on together.
const TOGETHER: usize = 3;
/// Values that go together: one, two or more vectors.
const LANES: usize = 16;

type Row = [f32; LANES];

/// What is kept of a slot: for frames `j` of 0, 2 to 14 and of 1, 3 to 15, and in the second of
/// each two for frames `32 - j` with `j` of 2, 4 to 16 and of 1, 3 to 15.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// `y[16 + j]`.
    high: [Row; 2],
    /// `y[16 - j]`.
    low: [Row; 2],
}

/// The synthesis filter of a channel.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// The slots before, then those of a granule.
    slots: [Slot; N_TAPS - 1 + HEIGHT],
}

/// The weights of the slot so many slots back, for frames `j` and `32 - j`.
static WEIGHTS: [[Row; 2]; N_TAPS] = {
    let mut weights = [[[0.0; LANES]; 2]; N_TAPS];
    let mut back = 0;
    while back < N_TAPS {
        let mut lane = 0;
        while lane < LANES {
            let (j, k) = if lane < 8 {
                (2 * lane, 32 - (2 * lane + 2))
            } else {
                (2 * lane - 15, 32 - (2 * lane - 15))
            };
            let (of_j, of_k) = (window(32 * back + j), window(32 * back + k));
            let is_high = back % 2 == 0;
            weights[back][0][lane] = if is_high { of_j } else { -of_j };
            weights[back][1][lane] = -of_k;
            lane += 1;
        }
        back += 1;
    }
    weights
};

/// For even and for odd slots: by `k`, the cosines of `n` of 16, 18 to 30 and 14, 12 to 0, and of
/// 17, 19 to 31 and 15, 13 to 1. In odd slots every second subband is negated, which undoes the
/// analysis filter's mirroring: 2.4.3.4.10.
static COSINES: [[[Row; 16]; 2]; 2] = {
    let mut cosines = [[[[0.0; LANES]; 16]; 2]; 2];
    let mut k = 0;
    while k < 16 {
        let mut lane = 0;
        while lane < LANES {
            let even = if lane < 8 { 16 + 2 * lane } else { 30 - 2 * lane };
            let odd = if lane < 8 { 17 + 2 * lane } else { 31 - 2 * lane };
            let of_even = cos_pi((2 * k as u32 + 1) * even as u32, 64) as f32;
            let of_odd = cos_pi((2 * k as u32 + 1) * odd as u32, 64) as f32;
            let sign = if k % 2 == 1 { -1.0 } else { 1.0 };
            cosines[0][0][k][lane] = of_even;
            cosines[0][1][k][lane] = of_odd;
            cosines[1][0][k][lane] = sign * of_even;
            cosines[1][1][k][lane] = sign * of_odd;
            lane += 1;
        }
        k += 1;
    }
    cosines
};

impl Default for Filter {
    fn default() -> Self {
        Self { slots: [Slot::default(); N_TAPS - 1 + HEIGHT] }
    }
}

impl Filter {
    /// Takes the 18 slots of a granule, and makes their PCM frames if they are wanted.
    #[inline(always)]
    pub(super) fn push<S: Simd>(
        &mut self,
        simd: S,
        subbands: &Rows,
        pcm: Option<&mut [f32; N_SAMPLES]>,
    ) {
        // The branch is decided by the compiler.
        match S::F32_LANES {
            16 => self.push_in::<S, 1>(simd, subbands, pcm),
            8 => self.push_in::<S, 2>(simd, subbands, pcm),
            4 => self.push_in::<S, 4>(simd, subbands, pcm),
            _ => self.push_in::<S, 16>(simd, subbands, pcm),
        }
    }

    /// With a row in `R` registers.
    #[inline(always)]
    fn push_in<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        subbands: &Rows,
        pcm: Option<&mut [f32; N_SAMPLES]>,
    ) {
        self.slots.copy_within(HEIGHT.., 0);
        // Slots of one kind are two apart.
        for first in [0, 1, 6, 7, 12, 13] {
            let mut sums = [[0.0; 16]; TOGETHER];
            let mut differences = sums;
            for i in 0..TOGETHER {
                let (lower, upper) = subbands[first + 2 * i].split_at(16);
                for (k, (a, b)) in lower.iter().zip(upper.iter().rev()).enumerate() {
                    sums[i][k] = a + b;
                    differences[i][k] = a - b;
                }
            }
            let [of_even, of_odd] = &COSINES[first % 2];
            let (even, odd) =
                if first % 2 == 0 { (sums, differences) } else { (differences, sums) };
            let even = multiply::<S, R>(simd, of_even, &even);
            let odd = multiply::<S, R>(simd, of_odd, &odd);
            for i in 0..TOGETHER {
                self.slots[N_TAPS - 1 + first + 2 * i].set(&even[i], &odd[i]);
            }
        }
        let Some(pcm) = pcm else { return };
        for (i, pcm) in pcm.as_chunks_mut::<{ 32 * TOGETHER }>().0.iter_mut().enumerate() {
            let Some(slots) = self.slots[TOGETHER * i..].first_chunk() else { return };
            let rows = weigh::<S, R>(simd, slots);
            for (pcm, [a, b]) in pcm.as_chunks_mut::<32>().0.iter_mut().zip(&rows) {
                let (head, tail) = pcm.split_at_mut(16);
                for m in 0..8 {
                    head[2 * m] = a[m];
                    head[2 * m + 1] = a[8 + m];
                    tail[2 * m] = b[7 - m];
                    tail[2 * m + 1] = b[15 - m];
                }
            }
        }
    }
}

impl Slot {
    /// From `y` of 16, 18 to 30 and 14, 12 to 0, and of 17, 19 to 31 and 15, 13 to 1.
    #[inline(always)]
    fn set(&mut self, even: &Row, odd: &Row) {
        let [of_high, of_high_back] = &mut self.high;
        of_high[..8].copy_from_slice(&even[..8]);
        of_high[8..].copy_from_slice(&odd[..8]);
        of_high_back[..7].copy_from_slice(&even[1..8]);
        of_high_back[7] = 0.0; // y[32]
        of_high_back[8..].copy_from_slice(&odd[..8]);
        let [of_low, of_low_back] = &mut self.low;
        of_low[0] = even[0];
        of_low[1..8].copy_from_slice(&even[8..15]);
        of_low[8..].copy_from_slice(&odd[8..]);
        of_low_back[..8].copy_from_slice(&even[8..]);
        of_low_back[8..].copy_from_slice(&odd[8..]);
    }
}

#[inline(always)]
fn splat_row<S: Simd, const R: usize>(row: &Row) -> [S::f32s; R] {
    let vectors = S::as_simd_f32s(row).0;
    std::array::from_fn(|i| vectors[i])
}

/// The products of some vectors of 16 and a matrix.
#[inline(always)]
fn multiply<S: Simd, const R: usize>(
    simd: S,
    matrix: &[Row; 16],
    x: &[[f32; 16]; TOGETHER],
) -> [Row; TOGETHER] {
    let mut sums = [[simd.splat_f32s(0.0); R]; TOGETHER];
    for (k, row) in matrix.iter().enumerate() {
        let row = splat_row::<S, R>(row);
        for (sum, x) in sums.iter_mut().zip(x) {
            let x = simd.splat_f32s(x[k]);
            for (sum, row) in sum.iter_mut().zip(row) {
                *sum = simd.add_f32s(*sum, simd.mul_f32s(row, x));
            }
        }
    }
    sums.map(|sum| to_row::<S, R>(&sum))
}

/// The PCM frames of the last three slots, still apart.
#[inline(always)]
fn weigh<S: Simd, const R: usize>(
    simd: S,
    slots: &[Slot; N_TAPS - 1 + TOGETHER],
) -> [[Row; 2]; TOGETHER] {
    let mut sums = [[[simd.splat_f32s(0.0); R]; 2]; TOGETHER];
    for (back, weights) in WEIGHTS.iter().enumerate() {
        for half in 0..2 {
            let weights = splat_row::<S, R>(&weights[half]);
            for i in 0..TOGETHER {
                let slot = &slots[N_TAPS - 1 + i - back];
                let rows = if back % 2 == 0 { &slot.high } else { &slot.low };
                let row = splat_row::<S, R>(&rows[half]);
                for ((sum, row), weight) in sums[i][half].iter_mut().zip(row).zip(weights) {
                    *sum = simd.add_f32s(*sum, simd.mul_f32s(row, weight));
                }
            }
        }
    }
    sums.map(|sums| sums.map(|sum| to_row::<S, R>(&sum)))
}

#[inline(always)]
fn to_row<S: Simd, const R: usize>(vectors: &[S::f32s; R]) -> Row {
    let mut row = [0.0; LANES];
    for (to, from) in row.iter_mut().zip(bytemuck::cast_slice::<S::f32s, f32>(vectors)) {
        *to = *from;
    }
    row
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::codec::mp3::layer3::hybrid::WIDTH;

    /// The standard's flow chart, figure A.2, in double precision.
    struct Naive(Vec<f64>);

    impl Naive {
        fn push(&mut self, subbands: &[f64; WIDTH]) -> Vec<f64> {
            self.0.rotate_right(64);
            for i in 0..64 {
                let terms = subbands
                    .iter()
                    .enumerate()
                    .map(|(k, s)| s * (PI / 64.0 * ((16 + i) * (2 * k + 1)) as f64).cos());
                self.0[i] = terms.sum();
            }
            let u = |i: usize| self.0[i / 64 * 128 + i % 64 + if i % 64 < 32 { 0 } else { 64 }];
            (0..32)
                .map(|j| (0..16).map(|i| u(32 * i + j) * f64::from(window(32 * i + j))).sum())
                .collect()
        }
    }

    fn granules(n: usize) -> Vec<Rows> {
        let mut state = 7u32;
        let mut granules = vec![[[0.0; WIDTH]; HEIGHT]; n];
        for x in granules.iter_mut().flatten().flatten() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *x = (state >> 8) as f32 / 8_388_608.0 - 1.0;
        }
        granules
    }

    struct Push<'a>(&'a mut Filter, &'a Rows, &'a mut [f32; N_SAMPLES]);

    impl pulp::WithSimd for Push<'_> {
        type Output = ();

        fn with_simd<S: Simd>(self, simd: S) {
            self.0.push(simd, self.1, Some(self.2));
        }
    }

    #[test]
    fn equals_the_flow_chart() {
        let (mut filter, mut naive) = (Filter::default(), Naive(vec![0.0; 1024]));
        for granule in granules(3) {
            let mut pcm = [0.0; N_SAMPLES];
            pulp::Arch::new().dispatch(Push(&mut filter, &granule, &mut pcm));
            for (t, (row, pcm)) in granule.iter().zip(pcm.chunks(32)).enumerate() {
                let mirrored = std::array::from_fn(|k| {
                    f64::from(if t % 2 == 1 && k % 2 == 1 { -row[k] } else { row[k] })
                });
                for (got, want) in pcm.iter().zip(naive.push(&mirrored)) {
                    assert!((f64::from(*got) - want).abs() < 1e-5, "slot {t}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let (mut fast, mut plain) = (Filter::default(), Filter::default());
        for granule in granules(3) {
            let (mut a, mut b) = ([0.0; N_SAMPLES], [0.0; N_SAMPLES]);
            pulp::Arch::new().dispatch(Push(&mut fast, &granule, &mut a));
            plain.push(pulp::Scalar, &granule, Some(&mut b));
            assert_eq!(a.map(f32::to_bits), b.map(f32::to_bits));
        }
    }
}
