//! Tables that read a whole pair of values, signs included, at a glance at the next bits.

// Tables are made when this is compiled, where an index out of range is an error.
#![allow(clippy::indexing_slicing)]

use super::codes;

/// Bits that are looked at first.
pub(super) const FIRST_BITS: u32 = 11;
/// Marks what needs a second look.
pub(super) const IS_LONG: u16 = 0x8000;
/// Entries for second looks in the table that needs most.
const MAX_LONG: usize = 474;

/// A table of pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    /// By the next bits: code word and signs together, times 1024, and two values of five bits, the
    /// first times 32, each with its sign on top. Or that it is long: the bits of the second look
    /// times 2048, and where its entries begin.
    pub(super) first: [u16; 1 << FIRST_BITS],
    /// By the bits behind those: all of the code word's bits times 256, the first value times 16,
    /// and the second.
    pub(super) long: [u16; MAX_LONG],
}

impl Pairs {
    /// `has_more` says that more bits follow a value of 15.
    const fn of(leaves: &[u16], has_more: bool) -> Self {
        let mut pairs = Self { first: [0; 1 << FIRST_BITS], long: [0; MAX_LONG] };
        let mut n_long = 0;
        // Where the second look that is being filled in begins, and its bits.
        let (mut open_at, mut open, mut open_width) = (usize::MAX, 0, 0);
        let (mut i, mut code) = (0, 0u32);
        while i < leaves.len() {
            let leaf = leaves[i];
            let n_bits = leaf as u32 >> 8;
            let (first, second) = (leaf >> 4 & 15, leaf & 15);
            let n_all = n_bits + (first > 0) as u32 + (second > 0) as u32;
            let at = (code >> (32 - FIRST_BITS)) as usize;
            if n_all <= FIRST_BITS && !(has_more && (first == 15 || second == 15)) {
                pairs.fill(at, n_bits, n_all, first, second);
            } else if n_bits <= FIRST_BITS {
                pairs.long[n_long] = leaf;
                let mut n = 0;
                while n < 1 << (FIRST_BITS - n_bits) {
                    pairs.first[at + n] = IS_LONG | n_long as u16;
                    n += 1;
                }
                n_long += 1;
            } else {
                if open_at != at {
                    (open_at, open, open_width) =
                        (at, n_long, longest(leaves, i, code) - FIRST_BITS);
                    pairs.first[at] = IS_LONG | (open_width as u16) << 11 | n_long as u16;
                    n_long += 1 << open_width;
                }
                let rest = code << FIRST_BITS >> 1 >> (31 - open_width);
                let mut n = 0;
                while n < 1 << (FIRST_BITS + open_width - n_bits) {
                    pairs.long[open + rest as usize + n] = leaf;
                    n += 1;
                }
            }
            code = code.wrapping_add(1 << (32 - n_bits));
            i += 1;
        }
        pairs
    }

    /// The entries from `at` on that begin with a code word, for all signs.
    const fn fill(&mut self, at: usize, n_bits: u32, n_all: u32, first: u16, second: u16) {
        let mut k = 0;
        while k < 1usize << (FIRST_BITS - n_bits) {
            // The signs are the highest bits behind the code word.
            let behind = (k as u32) << (32 + n_bits - FIRST_BITS - 1) << 1;
            let (mut signs, mut of_x, mut of_y) = (behind, first, second);
            if first > 0 {
                of_x |= (signs >> 31 << 4) as u16;
                signs <<= 1;
            }
            if second > 0 {
                of_y |= (signs >> 31 << 4) as u16;
            }
            self.first[at + k] = (n_all as u16) << 10 | of_x << 5 | of_y;
            k += 1;
        }
    }
}

/// Bits of the longest code word, from leaf `i` with its code word on, that begins like that one.
const fn longest(leaves: &[u16], i: usize, code: u32) -> u32 {
    let (mut i, mut next, mut longest) = (i, code, 0);
    while i < leaves.len() && next >> (32 - FIRST_BITS) == code >> (32 - FIRST_BITS) {
        let n_bits = leaves[i] as u32 >> 8;
        longest = if n_bits > longest { n_bits } else { longest };
        next = next.wrapping_add(1 << (32 - n_bits));
        i += 1;
    }
    longest
}

/// The table of this number, and how many bits follow a 15; `None` for those that say that all
/// values are 0.
pub(super) fn pairs(number: u8) -> Option<(&'static Pairs, u32)> {
    static PAIRS: [Pairs; 15] = [
        Pairs::of(&codes::PAIRS_1, false),
        Pairs::of(&codes::PAIRS_2, false),
        Pairs::of(&codes::PAIRS_3, false),
        Pairs::of(&codes::PAIRS_5, false),
        Pairs::of(&codes::PAIRS_6, false),
        Pairs::of(&codes::PAIRS_7, false),
        Pairs::of(&codes::PAIRS_8, false),
        Pairs::of(&codes::PAIRS_9, false),
        Pairs::of(&codes::PAIRS_10, false),
        Pairs::of(&codes::PAIRS_11, false),
        Pairs::of(&codes::PAIRS_12, false),
        Pairs::of(&codes::PAIRS_13, false),
        Pairs::of(&codes::PAIRS_15, false),
        Pairs::of(&codes::PAIRS_16, true),
        Pairs::of(&codes::PAIRS_24, true),
    ];
    const MORE: [u32; 16] = [1, 2, 3, 4, 6, 8, 10, 13, 4, 5, 6, 7, 8, 9, 11, 13];
    let index = match number {
        0 | 4 | 14 => return None,
        1..=3 => number - 1,
        5..=13 => number - 2,
        15 => 12,
        16..=23 => 13,
        _ => 14,
    };
    let n_more = number.checked_sub(16).and_then(|i| MORE.get(usize::from(i)));
    Some((PAIRS.get(usize::from(index))?, n_more.copied().unwrap_or(0)))
}

/// Bits of a code word of four values, and their signs.
pub(super) const QUAD_BITS: u32 = 10;

/// By the next bits: code word and signs together, times 256, and four values of two bits, the
/// first on top: 0, 1, or 2 for -1.
pub(super) type Quads = [u16; 1 << QUAD_BITS];

const fn quads_of(leaves: &[u16]) -> Quads {
    let mut quads = [0; 1 << QUAD_BITS];
    let (mut i, mut at) = (0, 0);
    while i < leaves.len() {
        let (n_bits, values) = (leaves[i] as u32 >> 8, leaves[i] & 15);
        let mut k = 0;
        while k < 1 << (QUAD_BITS - n_bits) {
            let (mut n_all, mut entry, mut value) = (n_bits, 0, 4);
            while value > 0 {
                value -= 1;
                entry <<= 2;
                if values >> value & 1 == 1 {
                    n_all += 1;
                    let sign = (at + k) >> (QUAD_BITS - n_all) & 1;
                    entry |= 1 + sign as u16;
                }
            }
            quads[at + k] = (n_all as u16) << 8 | entry;
            k += 1;
        }
        at += k;
        i += 1;
    }
    quads
}

/// Table A or B.
pub(super) fn quads(is_b: bool) -> &'static Quads {
    static A: Quads = quads_of(&codes::QUADS_A);
    static B: Quads = quads_of(&codes::QUADS_B);
    if is_b { &B } else { &A }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_complete() {
        for number in 1..32 {
            let Some((pairs, _)) = pairs(number) else { continue };
            for entry in pairs.first {
                if entry & IS_LONG == 0 {
                    assert!((1..=FIRST_BITS).contains(&u32::from(entry >> 10)), "{number}");
                    continue;
                }
                let (at, width) = (usize::from(entry & 0x7FF), entry >> 11 & 15);
                for leaf in &pairs.long[at..at + (1 << width)] {
                    assert!(u32::from(leaf >> 8) <= FIRST_BITS + u32::from(width), "{number}");
                    assert!(leaf >> 8 > 0, "{number}");
                }
            }
        }
        for is_b in [false, true] {
            assert!(quads(is_b).iter().all(|entry| (1..=10).contains(&(entry >> 8))));
        }
    }
}
