//! Samples from what they differ from their prediction by, RFC 9639 sections 9.2.5 and 9.2.6.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

/// The most samples that a prediction is made from.
pub(super) const MAX_ORDER: usize = 32;

/// Replaces differences by samples; the first `order` of them, at most 4, are samples already.
///
/// Sums wrap, so what is right in the end is right whatever is between.
pub(super) fn fixed(order: usize, x: &mut [i32]) {
    // The differences of differences, and so on, of the last samples.
    let mut last = [0i32; 4];
    let (samples, rest) = x.split_at_mut_checked(order).unwrap_or_default();
    for &x in &*samples {
        step(&mut last, x);
    }
    let [mut value, mut first, mut second, mut third] = last;
    match order {
        0 => {}
        1 => rest.iter_mut().for_each(|x| {
            value = value.wrapping_add(*x);
            *x = value;
        }),
        2 => rest.iter_mut().for_each(|x| {
            first = first.wrapping_add(*x);
            value = value.wrapping_add(first);
            *x = value;
        }),
        3 => rest.iter_mut().for_each(|x| {
            second = second.wrapping_add(*x);
            first = first.wrapping_add(second);
            value = value.wrapping_add(first);
            *x = value;
        }),
        _ => rest.iter_mut().for_each(|x| {
            third = third.wrapping_add(*x);
            second = second.wrapping_add(third);
            first = first.wrapping_add(second);
            value = value.wrapping_add(first);
            *x = value;
        }),
    }
}

/// Takes a sample in: each entry becomes the difference of the one before it.
fn step(last: &mut [i32; 4], x: i32) {
    let mut x = x;
    for entry in last {
        let before = std::mem::replace(entry, x);
        x = x.wrapping_sub(before);
    }
}

/// Replaces differences by samples; the first `taps.len()` of them, at most 32, are samples
/// already. The first tap belongs to the sample just before.
///
/// For the baseline's instructions: with vectors, each sample would wait for the load of those just
/// stored one by one, which takes three times as long.
#[inline(never)]
pub(super) fn linear(taps: &[i32], shift: u32, x: &mut [i32]) {
    match taps.len() {
        0 => {}
        1..=2 => linear_of::<2>(taps, shift, x),
        3..=4 => linear_of::<4>(taps, shift, x),
        5..=6 => linear_of::<6>(taps, shift, x),
        7 => linear_of::<7>(taps, shift, x),
        8 => linear_of::<8>(taps, shift, x),
        9..=10 => linear_of::<10>(taps, shift, x),
        11..=12 => linear_of::<12>(taps, shift, x),
        _ => linear_of::<MAX_ORDER>(taps, shift, x),
    }
}

/// With taps of zero up to `N`, and the last samples in registers.
#[inline(always)]
fn linear_of<const N: usize>(taps: &[i32], shift: u32, x: &mut [i32]) {
    let (samples, rest) = x.split_at_mut_checked(taps.len()).unwrap_or_default();
    let mut by = [0i64; N];
    for (to, &tap) in by.iter_mut().zip(taps) {
        *to = i64::from(tap);
    }
    let mut last = [0i64; N];
    for (to, &x) in last.iter_mut().zip(samples.iter().rev()) {
        *to = i64::from(x);
    }
    for x in rest {
        let sum: i64 = last.iter().zip(&by).rev().map(|(last, by)| last * by).sum();
        *x = x.wrapping_add((sum >> shift) as i32);
        let before = last;
        #[allow(clippy::indexing_slicing)] // `k - 1` is below `N`
        let shifted = std::array::from_fn(|k| if k > 0 { before[k - 1] } else { i64::from(*x) });
        last = shifted;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sums of the RFC, one by one.
    fn naive(taps: &[i32], shift: u32, x: &[i32]) -> Vec<i32> {
        let mut out: Vec<i32> = Vec::new();
        for (i, &x) in x.iter().enumerate() {
            let sum: i64 = if i < taps.len() {
                0
            } else {
                (0..taps.len()).map(|k| i64::from(taps[k]) * i64::from(out[i - 1 - k])).sum()
            };
            out.push(x.wrapping_add((sum >> shift) as i32));
        }
        out
    }

    proptest! {
        #[test]
        fn linear_prediction_equals_the_definition(
            taps in prop::collection::vec(-16_384i32..16_384, 1..=32),
            shift in 0u32..16,
            x in prop::collection::vec(any::<i32>(), 0..120),
        ) {
            if x.len() >= taps.len() {
                let mut got = x.clone();
                linear(&taps, shift, &mut got);
                prop_assert_eq!(got, naive(&taps, shift, &x));
            }
        }

        #[test]
        fn fixed_prediction_equals_the_definition(
            order in 0usize..=4,
            x in prop::collection::vec(-1000i32..1000, 4..120),
        ) {
            let taps = [&[][..], &[1], &[2, -1], &[3, -3, 1], &[4, -6, 4, -1]][order];
            let mut got = x.clone();
            fixed(order, &mut got);
            prop_assert_eq!(got, naive(taps, 0, &x));
        }
    }
}
