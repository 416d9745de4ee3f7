//! Samples from Huffman codes: ISO/IEC 11172-3, 2.4.3.4.6. They come as their powers of 4/3.

// What `pulp` dispatches to must be inlined into the function that it compiles for an instruction
// set.
#![allow(clippy::inline_always)]

use super::{
    bands::N_SAMPLES,
    books::{self, FIRST_BITS, IS_LONG, Pairs, QUAD_BITS, Quads},
    math::POWERS,
    side_info::Channel,
};
use crate::bits::BitReader;

/// Powers of values of four bits, and behind them their negatives.
#[allow(clippy::indexing_slicing)] // when this is compiled
static SMALL: [f32; 32] = {
    let mut small = [0.0; 32];
    let mut i = 0;
    while i < 16 {
        small[i] = POWERS[i];
        small[i + 16] = -POWERS[i];
        i += 1;
    }
    small
};

/// Reads the samples of a channel from `bits`, which end at bit `end`, and returns how many there
/// are before those that are all zero.
///
/// What reaches over the end is taken where it is a large value, and left out where it is a small
/// one: some encoders stuff their frames badly.
#[inline(always)]
pub(super) fn read(
    bits: &mut BitReader<'_>,
    end: usize,
    channel: &Channel,
    out: &mut [f32; N_SAMPLES],
) -> usize {
    let mut n = 0;
    for (region_end, number) in channel.regions {
        let region = out.get_mut(n..region_end).unwrap_or_default();
        if region.is_empty() {
            continue;
        }
        let Some((pairs, n_more)) = books::pairs(number) else {
            region.fill(0.0);
            n = region_end;
            continue;
        };
        n += read_pairs(bits, end, pairs, n_more, region);
        if n < region_end {
            break; // no bits are left
        }
    }
    let small = out.get_mut(n..).unwrap_or_default();
    n += read_quads(bits, end, books::quads(channel.is_table_b), small);
    out.get_mut(n..).unwrap_or_default().fill(0.0);
    n
}

/// Reads pairs until `out` is full or the bits are at their end; how many values there are.
#[inline(always)]
fn read_pairs(
    bits: &mut BitReader<'_>,
    end: usize,
    pairs: &Pairs,
    n_more: u32,
    out: &mut [f32],
) -> usize {
    // Four pairs are at most 44 bits, where none is long, and so in one word.
    const GROUP: usize = 8;
    let mut n = 0;
    let n_whole = out.len() / GROUP * GROUP;
    for group in out.get_mut(..n_whole).unwrap_or_default().as_chunks_mut::<GROUP>().0 {
        if bits.position() >= end {
            return n;
        }
        let start = *bits;
        let mut word = bits.peek();
        for pair in group.as_chunks_mut::<2>().0 {
            let entry = first_look(pairs, word);
            if entry & IS_LONG == 0 {
                *pair = small(entry);
                word <<= entry >> 10;
                bits.skip(usize::from(entry >> 10));
            } else {
                *pair = read_long(bits, pairs, entry, n_more);
                word = bits.peek();
            }
        }
        if bits.position() > end {
            *bits = start;
            break;
        }
        n += GROUP;
    }
    for pair in out.get_mut(n..).unwrap_or_default().as_chunks_mut::<2>().0 {
        if bits.position() >= end {
            return n;
        }
        let entry = first_look(pairs, bits.peek());
        if entry & IS_LONG == 0 {
            *pair = small(entry);
            bits.skip(usize::from(entry >> 10));
        } else {
            *pair = read_long(bits, pairs, entry, n_more);
        }
        n += 2;
    }
    n
}

#[inline(always)]
fn first_look(pairs: &Pairs, word: u64) -> u16 {
    *pairs.first.get((word >> (64 - FIRST_BITS)) as usize).unwrap_or(&0)
}

#[inline(always)]
fn small(entry: u16) -> [f32; 2] {
    [entry >> 5 & 31, entry & 31].map(|value| *SMALL.get(usize::from(value)).unwrap_or(&0.0))
}

/// A pair with a long code word, or with more bits behind: at most 47 in all.
#[inline(always)]
fn read_long(bits: &mut BitReader<'_>, pairs: &Pairs, entry: u16, n_more: u32) -> [f32; 2] {
    let word = bits.peek();
    let (at, width) = (usize::from(entry & 0x7FF), u32::from(entry >> 11 & 15));
    let rest = word << FIRST_BITS >> 1 >> (63 - width);
    let leaf = *pairs.long.get(at + rest as usize).unwrap_or(&0);
    let mut n_bits = u32::from(leaf >> 8);
    let pair = [leaf >> 4 & 15, leaf & 15].map(|value| {
        let mut value = usize::from(value);
        if value == 15 && n_more > 0 {
            value += (word << n_bits >> 1 >> (63 - n_more)) as usize;
            n_bits += n_more;
        }
        let power = *POWERS.get(value).unwrap_or(&0.0);
        if value == 0 {
            return 0.0;
        }
        let is_negative = (word << n_bits).cast_signed() < 0;
        n_bits += 1;
        if is_negative { -power } else { power }
    });
    bits.skip(n_bits as usize);
    pair
}

/// Reads values of -1, 0 and 1, four at a time; how many there are.
#[inline(always)]
fn read_quads(bits: &mut BitReader<'_>, end: usize, quads: &Quads, out: &mut [f32]) -> usize {
    const VALUES: [f32; 4] = [0.0, 1.0, -1.0, 0.0];
    let mut n = 0;
    for quad in out.as_chunks_mut::<4>().0 {
        if bits.position() >= end {
            break;
        }
        let entry = *quads.get((bits.peek() >> (64 - QUAD_BITS)) as usize).unwrap_or(&0);
        bits.skip(usize::from(entry >> 8));
        if bits.position() > end {
            break;
        }
        *quad =
            [6, 4, 2, 0].map(|shift| *VALUES.get(usize::from(entry >> shift & 3)).unwrap_or(&0.0));
        n += 4;
    }
    n
}
