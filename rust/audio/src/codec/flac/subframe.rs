//! One channel of a frame, RFC 9639 section 9.2.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::{
    bits::Bits,
    predict::{self, MAX_ORDER},
};

/// Decodes the channel into all of `x`; `None` if its bits make no sense.
///
/// `n_bits` is the width of its samples, at most 32.
#[inline(always)]
pub(super) fn decode(bits: &mut Bits<'_>, n_bits: u32, x: &mut [i32]) -> Option<()> {
    let head = bits.take(8)?;
    if head >> 7 == 1 {
        return None;
    }
    let n_wasted = if head & 1 == 1 { bits.take_zeros()? + 1 } else { 0 };
    let n_bits = n_bits.checked_sub(n_wasted).filter(|&n| n > 0)?;
    match head >> 1 {
        0 => x.fill(bits.take_signed(n_bits)?),
        1 => verbatim(bits, n_bits, x)?,
        kind @ 8..=12 => {
            let order = (kind - 8) as usize;
            verbatim(bits, n_bits, x.get_mut(..order)?)?;
            residual(bits, order, x)?;
            predict::fixed(order, x);
        }
        kind @ 32..=63 => {
            let order = (kind - 31) as usize;
            verbatim(bits, n_bits, x.get_mut(..order)?)?;
            let precision = bits.take(4)? + 1;
            let shift = bits.take_signed(5)?;
            if precision > 15 || shift < 0 {
                return None;
            }
            let mut taps = [0; MAX_ORDER];
            let taps = taps.get_mut(..order)?;
            verbatim(bits, precision, taps)?;
            residual(bits, order, x)?;
            predict::linear(taps, shift.cast_unsigned(), x);
        }
        _ => return None,
    }
    if n_wasted > 0 {
        for x in x {
            *x = x.wrapping_shl(n_wasted);
        }
    }
    Some(())
}

fn verbatim(bits: &mut Bits<'_>, n_bits: u32, x: &mut [i32]) -> Option<()> {
    x.iter_mut().try_for_each(|x| {
        *x = bits.take_signed(n_bits)?;
        Some(())
    })
}

/// Differences behind the first `order` samples: RFC 9639, section 9.2.7.
#[inline(always)]
fn residual(bits: &mut Bits<'_>, order: usize, x: &mut [i32]) -> Option<()> {
    let n_bits_of_k = match bits.take(2)? {
        0 => 4,
        1 => 5,
        _ => return None,
    };
    let escape = (1 << n_bits_of_k) - 1;
    let partition_order = bits.take(4)?;
    let len = x.len() >> partition_order;
    if len << partition_order != x.len() || len < order {
        return None;
    }
    let mut at = order;
    for end in (1..=1usize << partition_order).map(|i| i * len) {
        let part = x.get_mut(at..end)?;
        at = end;
        match bits.take(n_bits_of_k)? {
            k if k == escape => {
                let n_bits = bits.take(5)?;
                verbatim(bits, n_bits, part)?;
            }
            k @ 0..=8 => bits.rice::<4>(k, part)?,
            k @ 9..=20 => bits.rice::<2>(k, part)?,
            k => bits.rice::<1>(k, part)?,
        }
    }
    Some(())
}
