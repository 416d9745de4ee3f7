//! Powers that are worked out when this is compiled, the same on every machine.

// Tables are made when this is compiled, where an index out of range is an error.
#![allow(clippy::indexing_slicing)]

use crate::trig::sqrt;

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
