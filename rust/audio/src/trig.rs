//! Sines, roots and powers of two that are the same on every machine; those of libraries differ in their
//! last bits. All but [`exp2`] are worked out when this is compiled.

use std::f64::consts::{LN_2, PI};

/// Two to the power of `x`, to 1e-15 of it; beyond -1000 and 1000, of these two.
pub(crate) fn exp2(x: f64) -> f64 {
    let x = x.clamp(-1000.0, 1000.0);
    let whole = x.round();
    let rest = (x - whole) * LN_2;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while k < 14.0 {
        term *= rest / k;
        sum += term;
        k += 1.0;
    }
    sum * f64::from_bits(((whole as i64 + 1023) as u64) << 52)
}

/// `cos(pi * numerator / denominator)`.
pub(crate) const fn cos_pi(numerator: u32, denominator: u32) -> f64 {
    // Into the first quadrant, where few terms suffice.
    let turn = 2 * denominator;
    let mut n = numerator % turn;
    if n > denominator {
        n = turn - n;
    }
    let is_negative = 2 * n > denominator;
    if is_negative {
        n = denominator - n;
    }
    let sum = cos(PI * n as f64 / denominator as f64);
    if is_negative { -sum } else { sum }
}

/// The cosine of up to a quarter turn, in radians.
pub(crate) const fn cos(x: f64) -> f64 {
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while k < 30.0 {
        term *= -x * x / (k * (k + 1.0));
        sum += term;
        k += 2.0;
    }
    sum
}

/// `sin(pi * numerator / denominator)`, for at most half a turn.
pub(crate) const fn sin_pi(numerator: u32, denominator: u32) -> f64 {
    // The cosine of what is left to a quarter, or of what is over.
    cos_pi((2 * numerator).abs_diff(denominator), 2 * denominator)
}

pub(crate) const fn sqrt(x: f64) -> f64 {
    let (mut root, mut i) = (if x > 1.0 { x } else { 1.0 }, 0);
    while i < 60 {
        root = 0.5 * (root + x / root);
        i += 1;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_equal_the_library() {
        for i in -40_000..=40_000 {
            let x = f64::from(i) / 1024.0 + 1e-5;
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-15, "{x}");
            let whole = f64::from(i / 40);
            assert_eq!(exp2(whole).to_bits(), whole.exp2().to_bits());
        }
        assert!(exp2(f64::NAN).is_nan());
    }

    #[test]
    fn equals_the_library() {
        for d in [12, 18, 24, 36, 60, 64, 72, 1920] {
            for n in 0..4 * d {
                let x = PI * f64::from(n) / f64::from(d);
                assert!((cos_pi(n, d) - x.cos()).abs() < 3e-15, "cos {n}/{d}");
                assert!(n > d || (sin_pi(n, d) - x.sin()).abs() < 3e-15, "sin {n}/{d}");
            }
        }
        assert!((sqrt(2.0) - std::f64::consts::SQRT_2).abs() < 1e-15);
    }
}
