//! Sines, roots and powers that are worked out when this is compiled, the same on every machine.

// Tables are made when this is compiled, where an index out of range is an error.
#![allow(clippy::indexing_slicing)]

use std::f64::consts::PI;

/// `cos(pi * numerator / denominator)`.
pub(super) const fn cos_pi(numerator: u32, denominator: u32) -> f64 {
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
    let x = PI * n as f64 / denominator as f64;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while k < 30.0 {
        term *= -x * x / (k * (k + 1.0));
        sum += term;
        k += 2.0;
    }
    if is_negative { -sum } else { sum }
}

/// `sin(pi * numerator / denominator)`, for at most half a turn.
pub(super) const fn sin_pi(numerator: u32, denominator: u32) -> f64 {
    // The cosine of what is left to a quarter, or of what is over.
    cos_pi((2 * numerator).abs_diff(denominator), 2 * denominator)
}

pub(super) const fn sqrt(x: f64) -> f64 {
    let (mut root, mut i) = (if x > 1.0 { x } else { 1.0 }, 0);
    while i < 60 {
        root = 0.5 * (root + x / root);
        i += 1;
    }
    root
}

/// The largest absolute value of a coded sample: 15 and 13 bits behind it.
pub(super) const MAX_VALUE: usize = 15 + (1 << 13) - 1;

/// `x^(4/3)`, by which samples are coded.
pub(super) static POWERS: [f32; MAX_VALUE + 1] = {
    let mut powers = [0.0; MAX_VALUE + 1];
    let mut root = 1.0f64; // the cube root, by Newton's method from the one before
    let mut i = 1;
    while i <= MAX_VALUE {
        let x = i as f64;
        let mut step = 0;
        while step < 6 {
            root -= (root - x / (root * root)) / 3.0;
            step += 1;
        }
        powers[i] = (x * root) as f32;
        i += 1;
    }
    powers
};

/// `2^(quarters / 4)`, for -500 to 500.
pub(super) fn exp2_quarters(quarters: i32) -> f32 {
    const ROOTS: [f32; 4] = {
        let root = sqrt(sqrt(2.0));
        [1.0, root as f32, (root * root) as f32, (root * root * root) as f32]
    };
    let exponent = (quarters >> 2).clamp(-126, 127) + 127;
    let [a, b, c, d] = ROOTS;
    let root = match quarters & 3 {
        0 => a,
        1 => b,
        2 => c,
        _ => d,
    };
    root * f32::from_bits((exponent as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_library() {
        for d in [12, 18, 24, 36, 64, 72] {
            for n in 0..4 * d {
                let x = PI * f64::from(n) / f64::from(d);
                assert!((cos_pi(n, d) - x.cos()).abs() < 3e-15, "cos {n}/{d}");
                assert!(n > d || (sin_pi(n, d) - x.sin()).abs() < 3e-15, "sin {n}/{d}");
            }
        }
        assert!((sqrt(2.0) - std::f64::consts::SQRT_2).abs() < 1e-15);
        for (i, x) in POWERS.iter().enumerate() {
            let want = (i as f64).powf(4.0 / 3.0);
            assert!((f64::from(*x) - want).abs() <= want * 6e-8, "{i}");
        }
        for q in -500..=500 {
            let want = (f64::from(q) / 4.0).exp2();
            assert!((f64::from(exp2_quarters(q)) - want).abs() <= want * 1e-7, "{q}");
        }
    }
}
