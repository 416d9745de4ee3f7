//! Short-term filters: from line spectral frequencies to coefficients, RFC 6716 sections 4.2.7.5.6 to 8.

// Orders are fixed numbers, which the types of the arrays say.
#![allow(clippy::indexing_slicing)]

use super::{
    codebooks::COSINES_Q12,
    math::{inverse, rounded, rounded_long, times, times_high, to_sample},
};

/// The most coefficients.
pub(super) const MAX_ORDER: usize = 16;

/// Coefficients in 2^12ths; those beyond the order are zero.
pub(super) type Filter = [i16; MAX_ORDER];

/// The filter of these frequencies, of which as many count as the order says.
pub(super) fn of_frequencies(frequencies: &[i16; MAX_ORDER], order: usize) -> Filter {
    /// In this order the polynomials lose least.
    const ORDER_16: [usize; 16] = [0, 15, 8, 7, 4, 11, 12, 3, 2, 13, 10, 5, 6, 9, 14, 1];
    const ORDER_10: [usize; 10] = [0, 9, 6, 3, 4, 5, 8, 1, 2, 7];
    let places = if order == MAX_ORDER { &ORDER_16[..] } else { &ORDER_10 };
    let mut cosines = [0; MAX_ORDER];
    for (&frequency, &place) in frequencies.iter().zip(places) {
        let frequency = i32::from(frequency.max(0));
        let (at, rest) = ((frequency >> 8) as usize, frequency & 0xff);
        let step = COSINES_Q12[at + 1] - COSINES_Q12[at];
        cosines[place] = rounded((COSINES_Q12[at] << 8) + step * rest, 4);
    }
    let half = order / 2;
    let even = polynomial(cosines.iter().step_by(2), half);
    let odd = polynomial(cosines.iter().skip(1).step_by(2), half);
    let mut a = [0; MAX_ORDER];
    for k in 0..half {
        let sum = even[k + 1].wrapping_add(even[k]);
        let difference = odd[k + 1].wrapping_sub(odd[k]);
        a[k] = 0i32.wrapping_sub(difference).wrapping_sub(sum);
        a[order - k - 1] = difference.wrapping_sub(sum);
    }
    let a = &mut a[..order];
    let mut filter = fitted(a);
    for i in 0..16 {
        if inverse_gain(&filter, order) != 0 {
            break;
        }
        widen(a, 65_536 - (2 << i));
        filter[..order].iter_mut().zip(&*a).for_each(|(to, a)| *to = rounded(*a, 5) as i16);
    }
    filter
}

/// The polynomial with these roots, in 2^16ths.
fn polynomial<'a>(cosines: impl Iterator<Item = &'a i32>, half: usize) -> [i32; 9] {
    let product = |a: i32, b: i32| rounded_long(i64::from(a) * i64::from(b), 16) as i32;
    let mut p = [0i32; 9];
    p[0] = 1 << 16;
    for (k, &cosine) in cosines.enumerate().take(half) {
        if k == 0 {
            p[1] = -cosine;
            continue;
        }
        p[k + 1] = p[k - 1].wrapping_mul(2).wrapping_sub(product(cosine, p[k]));
        for n in (2..=k).rev() {
            p[n] = p[n].wrapping_add(p[n - 2].wrapping_sub(product(cosine, p[n - 1])));
        }
        p[1] = p[1].wrapping_sub(cosine);
    }
    p
}

/// Coefficients in 2^12ths of those in 2^17ths, widened until they fit.
fn fitted(a: &mut [i32]) -> Filter {
    let mut filter = [0; MAX_ORDER];
    for _ in 0..10 {
        let (mut at, mut largest) = (0, 0);
        for (k, a) in a.iter().enumerate() {
            let size = a.unsigned_abs().min(i32::MAX as u32) as i32;
            if size > largest {
                (at, largest) = (k, size);
            }
        }
        let largest = rounded(largest, 5);
        if largest <= i32::from(i16::MAX) {
            filter.iter_mut().zip(&*a).for_each(|(to, a)| *to = rounded(*a, 5) as i16);
            return filter;
        }
        let largest = largest.min(163_838);
        let over = (largest - i32::from(i16::MAX)) << 14;
        widen(a, 65_470 - over / ((largest * (at as i32 + 1)) >> 2));
    }
    for (to, a) in filter.iter_mut().zip(a) {
        *to = to_sample(rounded(*a, 5));
        *a = i32::from(*to) << 5;
    }
    filter
}

/// Widens the peaks of a filter.
fn widen(a: &mut [i32], by: i32) {
    let mut factor = by;
    for a in a {
        *a = times(factor, *a);
        factor = factor.wrapping_add(rounded(factor.wrapping_mul(by - 65_536), 16));
    }
}

/// The same for coefficients in 2^12ths.
pub(super) fn widen_filter(filter: &mut Filter, by: i32) {
    let mut factor = by;
    for a in filter {
        *a = rounded(factor.wrapping_mul(i32::from(*a)), 16) as i16;
        factor = factor.wrapping_add(rounded(factor.wrapping_mul(by - 65_536), 16));
    }
}

/// The inverse of the gain of a filter's prediction in 2^30ths, zero if the filter is not stable.
pub(super) fn inverse_gain(filter: &Filter, order: usize) -> i32 {
    /// The largest coefficient of reflection, 0.99975.
    const MAX_REFLECTION: i32 = 16_773_022;
    /// The inverse of the largest gain, 10000.
    const LEAST: i32 = 107_374;
    let product = |a: i32, b: i32, shift| rounded_long(i64::from(a) * i64::from(b), shift);
    let filter = &filter[..order];
    if filter.iter().map(|&a| i32::from(a)).sum::<i32>() >= 4_096 {
        return 0;
    }
    let mut a = [0; MAX_ORDER];
    a.iter_mut().zip(filter).for_each(|(to, &a)| *to = i32::from(a) << 12);
    let mut gain = 1i32 << 30;
    for k in (0..order).rev() {
        if a[k].abs() > MAX_REFLECTION {
            return 0;
        }
        let reflection = -(a[k] << 7);
        let rest = (1 << 30) - times_high(reflection, reflection);
        gain = times_high(gain, rest) << 2;
        if gain < LEAST {
            return 0;
        }
        if k == 0 {
            break;
        }
        let place = 32 - rest.unsigned_abs().leading_zeros();
        let factor = inverse(rest, place as i32 + 30);
        for n in 0..k.div_ceil(2) {
            let (low, high) = (a[n], a[k - n - 1]);
            let step = |x: i32, y: i32| {
                let x = x.saturating_sub(product(y, reflection, 31) as i32);
                i32::try_from(product(x, factor, place)).ok()
            };
            let (Some(low), Some(high)) = (step(low, high), step(high, low)) else { return 0 };
            (a[n], a[k - n - 1]) = (low, high);
        }
    }
    gain
}

/// What a filter leaves of samples; the first ones, as many as the order, are zero.
pub(super) fn residual(x: &[i16], filter: &Filter, order: usize, to: &mut [i16]) {
    let filter = &filter[..order];
    to.iter_mut().take(order).for_each(|to| *to = 0);
    for (window, to) in x.windows(order + 1).zip(to.iter_mut().skip(order)) {
        let Some((&now, past)) = window.split_last() else { return };
        let predicted = past
            .iter()
            .rev()
            .zip(filter)
            .fold(0i32, |sum, (&x, &a)| sum.wrapping_add(i32::from(x) * i32::from(a)));
        *to = to_sample(rounded((i32::from(now) << 12).wrapping_sub(predicted), 12));
    }
}

/// Filters an excitation, in 2^14ths, of which the samples before `at` are past.
#[inline]
pub(super) fn synthesise(x: &mut [i32], at: usize, filter: &Filter, order: usize) {
    if order == MAX_ORDER {
        run::<16>(x, at, filter);
    } else {
        run::<10>(x, at, filter);
    }
}

#[inline]
fn run<const N: usize>(x: &mut [i32], at: usize, filter: &Filter) {
    let filter: [i64; N] = std::array::from_fn(|i| i64::from(filter[i]));
    for i in at..x.len() {
        let past = &x[i - N..i];
        // The newest sample comes last, so that only one product waits for it.
        let mut sum = N as i32 / 2;
        for (x, a) in past.iter().zip(filter.iter().rev()) {
            sum = sum.wrapping_add(((i64::from(*x) * a) >> 16) as i32);
        }
        x[i] = x[i].saturating_add(super::math::raised(sum, 4));
    }
}
