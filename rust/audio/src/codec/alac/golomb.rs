//! Differences in a Golomb code whose parameter follows their mean.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::config::Config;
use crate::codec::flac::Bits;

/// So many ones, and a number follows as it is.
const ESCAPE: u32 = 9;

/// A mean above which nothing is learned from the number that was read.
const MAX_MEAN: u32 = 0xffff;

/// Below this mean a count of zeros follows each number.
const QUIET: u32 = 128;

/// Reads all of `out`; `None` if the bits end before.
///
/// `pace` is that of the channel, and `n_bits` the width of a number that is not in the code.
#[inline(always)]
pub(super) fn read(
    bits: &mut Bits<'_>,
    config: &Config,
    pace: u32,
    n_bits: u32,
    out: &mut [i32],
) -> Option<()> {
    let mut from = *bits; // stays in registers
    let mut out = out.iter_mut();
    let (mut mean, mut was_zero) = (config.mean, 0);
    while let Some(x) = out.next() {
        let k = ((mean >> 9) + 3).ilog2().min(config.max_k);
        // A difference that follows zeros is none itself.
        let folded = number(&mut from, k, n_bits)?.wrapping_add(was_zero);
        was_zero = 0;
        *x = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
        let kept = mean.wrapping_sub(mean.wrapping_mul(pace) >> 9);
        mean = if folded > MAX_MEAN { MAX_MEAN } else { kept.wrapping_add(folded * pace) };
        if mean < QUIET && !out.as_slice().is_empty() {
            let k = (mean.leading_zeros() - 24 + ((mean + 16) >> 6)).min(config.max_k);
            let n_zeros = number(&mut from, k, 16)? as usize;
            out.by_ref().take(n_zeros).for_each(|x| *x = 0);
            was_zero = u32::from(n_zeros < 0xffff);
            mean = 0;
        }
    }
    *bits = from;
    Some(())
}

/// One number: ones, a zero, and `k` bits, or one fewer where these would be 0 or 1.
#[inline(always)]
fn number(bits: &mut Bits<'_>, k: u32, n_bits: u32) -> Option<u32> {
    bits.fill();
    let n_ones = (!bits.peek()).leading_zeros();
    if n_ones >= ESCAPE {
        let (after, number) = escaped(*bits, n_bits)?;
        *bits = after;
        return Some(number);
    }
    let low = (bits.peek() << n_ones << 1 >> 1 >> (63 - k)) as u32;
    let len = n_ones + k.max(1) + u32::from(low >= 2);
    if len > bits.n_ready() {
        return None;
    }
    bits.advance(len);
    Some((n_ones << k) - n_ones + low.saturating_sub(1))
}

#[cold]
#[inline(never)]
fn escaped(mut bits: Bits<'_>, n_bits: u32) -> Option<(Bits<'_>, u32)> {
    bits.take(ESCAPE)?;
    let number = bits.take(n_bits)?;
    Some((bits, number))
}
