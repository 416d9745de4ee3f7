//! The predictor of up to eight taps in eight lanes, for x86-64 with AVX2.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use std::cell::Cell;

use pulp::{NullaryFnOnce, cast, x86::V3};

use super::predict::cut;

/// What `predict::plain` does; the taps begin with that of the oldest sample, and there are at most eight.
pub(super) struct PredictPlain<'a> {
    pub(super) simd: V3,
    pub(super) taps: &'a [i32],
    pub(super) shift: u32,
    pub(super) wide: u32,
    /// Samples up to that of the index `taps.len()`, then differences.
    pub(super) x: &'a mut [i32],
}

impl NullaryFnOnce for PredictPlain<'_> {
    type Output = ();

    /// The newest sample has no lane: what the lanes take is ready when it comes. The last lane is the
    /// sample before it. Where there are fewer taps than lanes, the first lanes count for nothing.
    #[inline(always)]
    fn call(self) {
        let Self { simd, taps, shift, wide, x } = self;
        let (sse2, avx, avx2) = (simd.sse2, simd.avx, simd.avx2);
        let order = taps.len();
        let Some((&newest, older)) = taps.split_last() else { return };
        let mut newest = newest;
        let free = 8usize.saturating_sub(older.len());
        let lane = |number: &dyn Fn(usize) -> i32| {
            let numbers: [i32; 8] = std::array::from_fn(number);
            cast(numbers)
        };
        let tap = |k: usize| k.checked_sub(free).and_then(|k| older.get(k).copied()).unwrap_or(0);
        let mut by = lane(&tap);
        let weights = lane(&|k| (k + 1).saturating_sub(free) as i32);
        let is_used = lane(&|k| if k < free { 0 } else { -1 });
        let moved = lane(&|k| (k as i32 + 1) & 7);
        let mut older =
            lane(&|k| (order + k).checked_sub(8).and_then(|k| x.get(k).copied()).unwrap_or(0));
        let mut last = x.get(order).copied().unwrap_or(0);
        let half = 1 << shift >> 1;
        let by_shift = sse2._mm_cvtsi32_si128(shift.cast_signed());
        let cells = Cell::from_mut(x).as_slice_of_cells();
        let rest = cells.get(order + 1..).unwrap_or_default();
        for (now, oldest) in rest.iter().zip(cells) {
            let (difference, oldest) = (now.get(), oldest.get());
            let apart = avx2._mm256_sub_epi32(older, avx._mm256_set1_epi32(oldest));
            let apart = avx2._mm256_and_si256(apart, is_used);
            let last_apart = last.wrapping_sub(oldest);

            let sums = avx2._mm256_mullo_epi32(by, apart);
            let high = avx2._mm256_extracti128_si256::<1>(sums);
            let sums = sse2._mm_add_epi32(avx._mm256_castsi256_si128(sums), high);
            let sums = sse2._mm_add_epi32(sums, sse2._mm_shuffle_epi32::<0b01_00_11_10>(sums));
            let sums = sse2._mm_add_epi32(sums, sse2._mm_shuffle_epi32::<0b10_11_00_01>(sums));
            let sum = sse2._mm_cvtsi128_si32(sums).wrapping_add(half);
            let sum = sum.wrapping_add(last_apart.wrapping_mul(newest));
            let sample = cut(difference.wrapping_add(oldest).wrapping_add(sum >> shift), wide);
            now.set(sample);

            // What each lane makes up for, and what those before it did.
            let sign = difference >> 31;
            let up = avx._mm256_set1_epi32(sign & ((1 << shift) - 1));
            let short = avx._mm256_set1_epi32((difference ^ sign).wrapping_sub(sign));
            let made_up = avx2._mm256_add_epi32(avx2._mm256_abs_epi32(apart), up);
            let made_up = avx2._mm256_sra_epi32(made_up, by_shift);
            let made_up = avx2._mm256_mullo_epi32(made_up, weights);
            let before = avx2._mm256_slli_si256::<4>(made_up);
            let pairs = avx2._mm256_add_epi32(before, made_up);
            let before = avx2._mm256_add_epi32(before, avx2._mm256_slli_si256::<8>(pairs));
            let whole = avx2._mm256_add_epi32(before, made_up);
            let carry = avx2._mm256_permute2x128_si256::<0x08>(whole, whole);
            let carry = avx2._mm256_shuffle_epi32::<0xff>(carry);
            let is_short = avx2._mm256_cmpgt_epi32(short, avx2._mm256_add_epi32(before, carry));
            let towards = avx2._mm256_and_si256(is_short, avx._mm256_set1_epi32(sign | 1));
            by = avx2._mm256_add_epi32(by, avx2._mm256_sign_epi32(towards, apart));

            let left_over = avx2._mm256_cmpgt_epi32(short, avx2._mm256_add_epi32(whole, carry));
            let is_short = avx._mm256_movemask_ps(avx._mm256_castsi256_ps(left_over)) >> 7;
            let towards = (last_apart.signum() ^ sign).wrapping_sub(sign);
            newest = newest.wrapping_add(towards & -(is_short & 1));

            let older_moved = avx2._mm256_permutevar8x32_epi32(older, moved);
            older = avx2._mm256_blend_epi32::<0x80>(older_moved, avx._mm256_set1_epi32(last));
            last = sample;
        }
    }
}
