//! Vectors of whole numbers with a fixed sum of absolute values, by their index: RFC 6716 section
//! 4.3.4.2.

// Rows and columns of the table are bounded where they are looked up.
#![allow(clippy::indexing_slicing)]

use super::tables::{COST_STARTS, COSTS};
use crate::codec::opus::range_decoder::RangeDecoder;

/// The most coefficients of a band.
pub(super) const MAX_WIDTH: usize = 176;

/// The costs of numbers of pulses in a band, less one and in eighths of a bit; that of none is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs(&'static [u8]);

impl Costs {
    /// Those of a band of which `1 << (log_len + 1)` halves are together; `None` if it is too small.
    pub(super) fn of(log_len: i32, band: usize) -> Option<Self> {
        let start = usize::from(*COST_STARTS.get((log_len + 1) as usize)?.get(band)?);
        let (&n, costs) = COSTS.get(start..)?.split_first()?;
        Some(Self(costs.get(..usize::from(n))?))
    }

    /// What the most pulses cost.
    pub(super) fn most(self) -> i32 {
        self.0.last().map_or(0, |&cost| i32::from(cost))
    }

    /// The step of pulses whose cost is next to `bits`.
    pub(super) fn step(self, bits: i32) -> usize {
        let bits = bits - 1;
        let above = self.0.partition_point(|&cost| i32::from(cost) < bits);
        let below = above.checked_sub(1).map_or(-1, |i| i32::from(self.0[i]));
        match self.0.get(above) {
            Some(&cost) if bits - below > i32::from(cost) - bits => above + 1,
            _ => above,
        }
    }

    /// What a step costs.
    pub(super) fn cost(self, step: usize) -> i32 {
        let cost = step.checked_sub(1).and_then(|i| self.0.get(i));
        cost.map_or(0, |&cost| i32::from(cost) + 1)
    }
}

/// How many pulses a step is: all up to 8, from there on eight a power of two.
pub(super) fn n_pulses(step: usize) -> usize {
    if step < 8 { step } else { (8 + (step & 7)) << ((step >> 3) - 1) }
}

/// The smaller number of an entry of [`COUNTS`] is at most this, wherever 32 bits hold an index.
const N_ROWS: usize = 15;

/// How many vectors of `n` numbers have a sum below `k`, of those that do not begin with a negative one,
/// by the smaller and the larger of `n` and `k`.
static COUNTS: [[u32; MAX_WIDTH + 2]; N_ROWS] = {
    let mut counts = [[0u32; MAX_WIDTH + 2]; N_ROWS];
    let mut column = 1;
    while column < MAX_WIDTH + 2 {
        counts[1][column] = 1;
        let mut row = 2;
        while row < N_ROWS && row <= column {
            // Behind the diagonal, the table is its mirror image.
            let left = if column > row { counts[row][column - 1] } else { counts[row - 1][column] };
            counts[row][column] = left
                .saturating_add(counts[row - 1][column])
                .saturating_add(counts[row - 1][column - 1]);
            row += 1;
        }
        column += 1;
    }
    counts
};

fn count(n: usize, k: usize) -> u32 {
    COUNTS[n.min(k).min(N_ROWS - 1)][n.max(k).min(MAX_WIDTH + 1)]
}

/// The same where `k` is at most `n`.
fn column(n: usize, k: usize) -> u32 {
    COUNTS[k.min(N_ROWS - 1)][n.min(MAX_WIDTH)]
}

/// Reads a vector with `k` pulses into zeros, and returns the sum of its squares.
pub(super) fn read(code: &mut RangeDecoder<'_>, k: usize, to: &mut [f32]) -> f32 {
    let n = to.len();
    let index = code.uniform(count(n, k).saturating_add(count(n, k + 1)));
    vector(index, k, to)
}

/// The vector of this index with `k` pulses, written into zeros, and the sum of its squares.
fn vector(mut index: u32, mut k: usize, to: &mut [f32]) -> f32 {
    let mut sum = 0;
    let len = to.len();
    // Of the last `n` numbers, the first one is next.
    let mut n = len;
    while k > 0 && n > 0 {
        if k < n && k + 1 < N_ROWS {
            // Most numbers of a wide band are zero: they are between these two rows.
            let (row, above) = (&COUNTS[k], &COUNTS[k + 1]);
            for (&first, &next) in row[k + 1..=n].iter().zip(&above[k + 1..=n]).rev() {
                if index < first || index >= next {
                    break;
                }
                index -= first;
                n -= 1;
            }
        }
        // Negative ones come last, and those with more pulses left first.
        let is_wide = k < n;
        let row = &COUNTS[n.min(N_ROWS - 1)];
        let n_not_negative = if is_wide { column(n, k + 1) } else { row[(k + 1).min(MAX_WIDTH)] };
        let is_negative = index >= n_not_negative;
        if is_negative {
            index -= n_not_negative;
        }
        let before = k;
        let mut first = 0;
        if !is_wide && row[n.min(MAX_WIDTH)] <= index {
            // There may be many entries beyond the diagonal.
            let entries = row.get(n..=k).unwrap_or_default();
            k = n + entries.partition_point(|&entry| entry <= index) - 1;
            first = row[k.min(MAX_WIDTH)];
        } else {
            k = k.min(n - 1) + 1;
            while k > 0 {
                k -= 1;
                first = column(n, k);
                if first <= index {
                    break;
                }
            }
        }
        index -= first;
        let value = (before - k) as i32;
        sum += value * value;
        to[len - n] = (if is_negative { -value } else { value }) as f32;
        n -= 1;
    }
    sum as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_list_every_vector_once() {
        for (n, k) in [(1, 3), (2, 1), (2, 5), (3, 4), (4, 3), (5, 5), (6, 2)] {
            let total = count(n, k) + count(n, k + 1);
            let mut seen = std::collections::HashSet::new();
            for index in 0..total {
                let mut to = vec![0.0; n];
                let squares = vector(index, k, &mut to);
                let to: Vec<i32> = to.iter().map(|&x| x as i32).collect();
                assert_eq!(to.iter().map(|x| x.abs()).sum::<i32>(), k as i32);
                assert_eq!(squares as i32, to.iter().map(|x| x * x).sum::<i32>());
                assert!(seen.insert(to));
            }
            let all = (2 * k as i32 + 1).pow(n as u32);
            let digits = |mut number: i32| {
                let mut sum = 0;
                for _ in 0..n {
                    sum += (number % (2 * k as i32 + 1) - k as i32).abs();
                    number /= 2 * k as i32 + 1;
                }
                sum
            };
            assert_eq!(total, (0..all).filter(|&x| digits(x) == k as i32).count() as u32);
        }
    }
}
