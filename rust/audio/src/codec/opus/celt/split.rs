//! How a vector is split in two: the angle between the halves' lengths, RFC 6716 sections 4.3.4.3 and
//! 4.3.4.4. In whole numbers, for bits depend on it.

use super::allocation::BIT;
use crate::codec::opus::range_decoder::RangeDecoder;

/// A quarter turn: all is in the second half.
pub(super) const QUARTER: i32 = 16_384;

/// What is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halves {
    /// A band's two channels.
    Channels,
    /// Parts of a vector that has several blocks.
    Blocks,
    /// Parts of a vector of one block.
    Frequencies,
}

/// An angle, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Angle {
    /// From 0 to [`QUARTER`].
    pub(super) turn: i32,
    /// The lengths of the halves.
    pub(super) lengths: [f32; 2],
    /// How many more bits the first half needs than the second, in eighths.
    pub(super) delta: i32,
}

impl Angle {
    /// That of halves of `n` coefficients.
    pub(super) fn new(angle: i32, n: usize) -> Self {
        let length = |cos: i32| cos as f32 / 32_768.0;
        match angle {
            0 => Self { turn: angle, lengths: [length(32_767), 0.0], delta: -QUARTER },
            QUARTER => Self { turn: angle, lengths: [0.0, length(32_767)], delta: QUARTER },
            _ => {
                let (first, second) = (cos(angle), cos(QUARTER - angle));
                let lengths = [length(first), length(second)];
                let delta = rounded((n as i32 - 1) << 7, log_ratio(second, first));
                Self { turn: angle, lengths, delta }
            }
        }
    }
}

/// A product of fractions of `2^15`, rounded.
fn rounded(a: i32, b: i32) -> i32 {
    (a.wrapping_mul(b) + 16_384) >> 15
}

/// The cosine of an angle, in fractions of `2^15`.
fn cos(angle: i32) -> i32 {
    let square = (angle * angle + 4_096) >> 13;
    let series = -7_651 + rounded(square, 8_277 + rounded(-626, square));
    32_768 - square + rounded(square, series)
}

/// The logarithm of `a / b`, in fractions of `2^11`.
fn log_ratio(a: i32, b: i32) -> i32 {
    let log = |x: i32| {
        let len = (32 - x.leading_zeros()) as i32;
        let mantissa = x << (15 - len).max(0);
        (len << 11) + rounded(mantissa, rounded(mantissa, -2_597) + 7_932)
    };
    log(a.max(1)) - log(b.max(1))
}

/// How many steps an angle has for `bits`; an even number, or 1 if there are too few bits.
fn n_steps(n: usize, bits: i32, log_width: i32, halves: Halves) -> i32 {
    /// `2^(14 + i/8)`.
    const POWERS: [i32; 8] = [16_384, 17_866, 19_483, 21_247, 23_170, 25_267, 27_554, 30_048];
    let is_pair = halves == Halves::Channels && n == 2;
    let offset = (log_width >> 1) - if is_pair { 16 } else { 4 };
    let n_free = 2 * n as i32 - 1 - i32::from(is_pair);
    let each = (bits + n_free * offset) / n_free.max(1);
    let each = each.min(bits - log_width - 4 * BIT).min(8 * BIT);
    if each < BIT / 2 {
        return 1;
    }
    let power = POWERS.get((each & 7) as usize).map_or(0, |&power| power);
    ((power >> (14 - each / BIT)) + 1) >> 1 << 1
}

/// Reads an angle for halves of `n` coefficients, and returns it with the number of its steps, 1 if none
/// was read.
pub(super) fn read(
    code: &mut RangeDecoder<'_>,
    n: usize,
    bits: i32,
    log_width: i32,
    halves: Halves,
) -> (i32, i32) {
    let steps = n_steps(n, bits, log_width, halves);
    if steps == 1 {
        return (0, 1);
    }
    let half = (steps / 2) as u32;
    let step = match halves {
        // The lower half of the angles is three times as likely.
        Halves::Channels if n > 2 => {
            let low = 3 * (half + 1);
            let parts = code.parts(low + half);
            if parts.at < low {
                let step = parts.at / 3;
                code.take(&parts, 3 * step, 3 * step + 3);
                step
            } else {
                code.take(&parts, parts.at, parts.at + 1);
                parts.at - low + half + 1
            }
        }
        Halves::Channels | Halves::Blocks => code.uniform(steps as u32 + 1),
        // Equal halves are likeliest, in a triangle.
        Halves::Frequencies => {
            let all = (half + 1) * (half + 1);
            let parts = code.parts(all);
            let steps = steps as u32;
            if parts.at < half * (half + 1) / 2 {
                let step = ((8 * parts.at + 1).isqrt() - 1) / 2;
                let low = step * (step + 1) / 2;
                code.take(&parts, low, low + step + 1);
                step
            } else {
                let step = (2 * (steps + 1) - (8 * (all - parts.at - 1) + 1).isqrt()) / 2;
                let width = steps + 1 - step;
                let low = all - width * (width + 1) / 2;
                code.take(&parts, low, low + width);
                step
            }
        }
    };
    (step as i32 * QUARTER / steps, steps)
}

/// The bits of two halves.
pub(super) fn halve(bits: i32, delta: i32) -> (i32, i32) {
    let first = ((bits - delta) / 2).min(bits).max(0);
    (first, bits - first)
}

/// What one half passes on of the bits that it has left, where the other can use them.
pub(super) fn spare(left: i32, is_used: bool) -> i32 {
    if is_used && left > 3 * BIT { left - 3 * BIT } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_near_the_functions() {
        assert_eq!([cos(64), cos(8_192), cos(16_320)], [32_767, 23_171, 200]);
        assert_eq!(
            [(32_767, 200), (30_274, 12_540)].map(|(a, b)| log_ratio(a, b)),
            [15_059, 2_611]
        );
        for angle in 64..=QUARTER - 64 {
            let turn = f64::from(angle) / f64::from(QUARTER) * std::f64::consts::FRAC_PI_2;
            assert!((f64::from(cos(angle)) - 32_768.0 * turn.cos()).abs() < 6.0, "{angle}");
            let (a, b) = (cos(QUARTER - angle), cos(angle));
            let log = 2_048.0 * (f64::from(a) / f64::from(b)).log2();
            assert!((f64::from(log_ratio(a, b)) - log).abs() < 48.0, "{angle}");
        }
    }
}
