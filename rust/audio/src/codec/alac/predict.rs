//! Samples from differences, by a predictor that learns.
//!
//! It is a sign-sign LMS filter over the last `order` samples, each less the one before them all.
//! After a sample its taps move by one towards what would have been better, the oldest first,
//! until the difference is made up for.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

/// The most samples that a prediction is made from.
pub(super) const MAX_ORDER: usize = 32;

/// In place of an order: each difference is that to the sample before.
const FIRST_DIFFERENCE: usize = 31;

/// A predictor as a packet describes it.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// The first belongs to the sample just before.
    pub(super) taps: [i16; MAX_ORDER],
    pub(super) order: usize,
    /// Of the sum to the right.
    pub(super) shift: u32,
    /// Whether the differences are themselves differences.
    pub(super) is_twice: bool,
}

impl Predictor {
    /// Replaces differences by samples of `n_bits` bits.
    ///
    /// Sums wrap as 32 bits do.
    pub(super) fn restore(&self, n_bits: u32, x: &mut [i32]) {
        let wide = 32 - n_bits;
        if self.is_twice {
            accumulate(wide, x);
        }
        match self.order {
            0 => {}
            FIRST_DIFFERENCE => accumulate(wide, x),
            4 => self.learn::<4>(wide, x),
            5 => self.learn::<5>(wide, x),
            6 => self.learn::<6>(wide, x),
            8 => self.learn::<8>(wide, x),
            order => {
                let (mut taps, order) = (self.taps, order.min(MAX_ORDER));
                let n_first = x.len().min(order + 1);
                accumulate(wide, x.get_mut(..n_first).unwrap_or_default());
                general(taps.get_mut(..order).unwrap_or_default(), self.shift, wide, x);
            }
        }
    }
}

impl Predictor {
    /// The same as [`general`], faster where nothing can overflow.
    fn learn<const N: usize>(&self, wide: u32, x: &mut [i32]) {
        let Some((first, _)) = x.split_at_mut_checked(N + 1) else {
            return accumulate(wide, x);
        };
        accumulate(wide, first);
        let mut taps = self.taps;
        let (Some(taps), Some(first)) = (taps.first_chunk_mut::<N>(), x.first()) else { return };
        // The first sample is a difference that was not cut. No encoder gets beyond these.
        let n_steps = i32::try_from(x.len()).unwrap_or(i32::MAX).min(1 << 16);
        let is_tame = wide >= 7
            && first.unsigned_abs() <= 1 << 25
            && taps.iter().all(|&tap| i32::from(tap).abs() + n_steps <= i16::MAX.into());
        if is_tame {
            let mut by = taps.map(i32::from);
            by.reverse();
            tame(&by, self.shift, wide, x);
        } else {
            general(taps, self.shift, wide, x);
        }
    }
}

/// What [`general`] does where nothing overflows, with the instructions that there are. The taps
/// begin with that of the oldest sample.
fn tame<const N: usize>(taps: &[i32; N], shift: u32, wide: u32, x: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(super::lanes::PredictPlain { simd, taps, shift, wide, x });
    }
    plain(*taps, shift, wide, x);
}

/// Samples from first differences.
fn accumulate(wide: u32, x: &mut [i32]) {
    let Some((&mut first, rest)) = x.split_first_mut() else { return };
    let mut last = first;
    for x in rest {
        last = cut(x.wrapping_add(last), wide);
        *x = last;
    }
}

/// Takes the upper `wide` bits off, and continues the sign.
#[inline(always)]
pub(super) fn cut(x: i32, wide: u32) -> i32 {
    x << wide >> wide
}

/// Any order and any numbers, step by step. Samples up to `x[order]` are there already.
#[inline(never)]
fn general(taps: &mut [i16], shift: u32, wide: u32, x: &mut [i32]) {
    let order = taps.len();
    for end in order + 1..x.len() {
        let Some((before, [now, ..])) = x.split_at_mut_checked(end) else { return };
        let Some((&oldest, last)) = before.get(end - order - 1..).and_then(<[i32]>::split_first)
        else {
            return;
        };
        let apart = || last.iter().map(|x| oldest.wrapping_sub(*x));
        let sum = apart().rev().zip(&*taps).fold(1 << shift >> 1, |sum: i32, (x, &tap)| {
            sum.wrapping_sub(x.wrapping_mul(tap.into()))
        });
        let difference = *now;
        *now = cut(difference.wrapping_add(oldest).wrapping_add(sum >> shift), wide);
        let mut rest = difference;
        for (weight, (x, tap)) in (1..).zip(apart().zip(taps.iter_mut().rev())) {
            if rest == 0 || (rest ^ difference) < 0 {
                break;
            }
            let towards = x.signum().wrapping_mul(difference.signum());
            *tap = tap.wrapping_sub(towards as i16);
            let made_up = x.wrapping_mul(towards) >> shift;
            rest = rest.wrapping_sub(made_up.wrapping_mul(weight));
        }
    }
}

/// The same for any processor, without a branch on what the samples are.
fn plain<const N: usize>(mut by: [i32; N], shift: u32, wide: u32, x: &mut [i32]) {
    let Some((first, rest)) = x.split_at_mut_checked(N + 1) else { return };
    let Some((&mut mut oldest, last)) = first.split_first_mut() else { return };
    let Some(&mut mut last) = last.first_chunk_mut::<N>() else { return };
    let half = 1 << shift >> 1;
    for now in rest {
        let difference = *now;
        let apart = last.map(|x| x.wrapping_sub(oldest));
        let sum = by
            .iter()
            .zip(&apart)
            .fold(half, |sum: i32, (by, x)| sum.wrapping_add(by.wrapping_mul(*x)));
        let sample = cut(difference.wrapping_add(oldest).wrapping_add(sum >> shift), wide);
        *now = sample;
        let sign = difference >> 31;
        let up = sign & ((1 << shift) - 1); // below zero, shifting rounds away from it
        let mut short = (difference ^ sign).wrapping_sub(sign);
        for (weight, (by, &x)) in (1..).zip(by.iter_mut().zip(&apart)) {
            let is_short = short.wrapping_neg() >> 31;
            let towards = (x.signum() ^ sign).wrapping_sub(sign);
            *by = by.wrapping_add(towards & is_short);
            let made_up = x.wrapping_abs().wrapping_add(up) >> shift;
            short = short.wrapping_sub(made_up.wrapping_mul(weight));
        }
        oldest = last.first().copied().unwrap_or_default();
        last.rotate_left(1);
        if let Some(newest) = last.last_mut() {
            *newest = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Taps wrap at 16 bits, which Symphonia's do not.
    #[test]
    fn taps_wrap() {
        let mut taps = [i16::MAX; 4];
        let mut x = [0, 5, 5, 5, 5, i32::MAX];
        general(&mut taps, 15, 0, &mut x);
        assert_eq!(taps, [i16::MIN; 4]);
    }

    fn tame_numbers<const N: usize>() -> impl Strategy<Value = (Vec<i16>, u32, u32, Vec<i32>)> {
        let shift = prop_oneof![2 => Just(9u32), 1 => 0u32..16];
        let wide = prop_oneof![Just(16u32), Just(15), Just(7), 7u32..31];
        (prop::collection::vec(-32_000i16..=32_000, N), shift, wide).prop_flat_map(
            |(taps, shift, wide)| {
                let full = i32::MAX >> wide;
                let number = prop_oneof![-full..=full, -9i32..9, Just(0), -300i32..300];
                let x = prop::collection::vec(number, 0..200);
                (Just(taps), Just(shift), Just(wide), x)
            },
        )
    }

    fn all_ways_agree<const N: usize>(
        taps: &[i16],
        shift: u32,
        wide: u32,
        mut x: Vec<i32>,
    ) -> Result<(), TestCaseError> {
        let n_first = x.len().min(N + 1);
        accumulate(wide, &mut x[..n_first]);
        let mut taps: [i16; N] = taps.try_into().unwrap();
        let mut by = taps.map(i32::from);
        by.reverse();
        let (mut one, mut other) = (x.clone(), x.clone());
        general(&mut taps, shift, wide, &mut x);
        plain(by, shift, wide, &mut one);
        tame(&by, shift, wide, &mut other);
        prop_assert_eq!(&one, &x);
        prop_assert_eq!(&other, &x);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn four_taps_agree((taps, shift, wide, x) in tame_numbers::<4>()) {
            all_ways_agree::<4>(&taps, shift, wide, x)?;
        }

        #[test]
        fn five_taps_agree((taps, shift, wide, x) in tame_numbers::<5>()) {
            all_ways_agree::<5>(&taps, shift, wide, x)?;
        }

        #[test]
        fn six_taps_agree((taps, shift, wide, x) in tame_numbers::<6>()) {
            all_ways_agree::<6>(&taps, shift, wide, x)?;
        }

        #[test]
        fn eight_taps_agree((taps, shift, wide, x) in tame_numbers::<8>()) {
            all_ways_agree::<8>(&taps, shift, wide, x)?;
        }
    }
}
