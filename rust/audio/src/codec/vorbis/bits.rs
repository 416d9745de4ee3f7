//! Reads bits, the least significant first, Vorbis I section 2.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

/// A place in a packet. A read behind the end gives `None`, and so do all reads after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'a> {
    /// Bytes of which no bit counts yet.
    rest: &'a [u8],
    /// The next bits, the first one lowest. Those above `n` may be there already or be zeros.
    word: u64,
    /// How many bits of the word count.
    n: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, word: 0, n: 0 }
    }

    /// Makes at least 56 bits count, or all that are left.
    #[inline(always)]
    pub(super) fn fill(&mut self) {
        if let Some(next) = self.rest.first_chunk::<8>() {
            let n_bytes = (63 - (self.n & 63)) / 8;
            self.word |= u64::from_le_bytes(*next) << (self.n & 63);
            self.n += 8 * n_bytes;
            self.rest = self.rest.get(n_bytes as usize..).unwrap_or_default();
        } else {
            *self = self.with_last();
        }
    }

    /// The same for fewer than eight bytes. Nothing here has a reference to the place that is read from
    /// all the time, so that it stays in registers.
    #[inline(never)]
    fn with_last(mut self) -> Self {
        while let ([byte, rest @ ..], ..=55) = (self.rest, self.n) {
            self.word |= u64::from(*byte) << self.n;
            self.n += 8;
            self.rest = rest;
        }
        self
    }

    /// The next bits, at least 32 of them; behind the end they are zeros.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> u64 {
        if self.n < 32 {
            self.fill();
        }
        self.word
    }

    /// The next bits, as many as were left by what was read since they were [filled](Self::fill) up.
    #[inline(always)]
    pub(super) fn filled(&self) -> u64 {
        self.word
    }

    /// Moves on by `n` bits, at most 32 and no more than were seen; `None` behind the end.
    #[inline(always)]
    pub(super) fn skip(&mut self, n: u32) -> Option<()> {
        let Some(left) = self.n.checked_sub(n) else {
            self.end();
            return None;
        };
        self.word >>= n;
        self.n = left;
        Some(())
    }

    /// Goes to the end.
    #[inline(always)]
    pub(super) fn end(&mut self) {
        *self = Self::new(&[]);
    }

    /// The next `n` bits, at most 32.
    #[inline(always)]
    pub(super) fn read(&mut self, n: u32) -> Option<u32> {
        let value = self.peek() & ((1 << n) - 1);
        self.skip(n)?;
        Some(value as u32)
    }

    /// The next bit.
    #[inline(always)]
    pub(super) fn flag(&mut self) -> Option<bool> {
        self.read(1).map(|bit| bit != 0)
    }

    /// How many bits are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len() * 8 + self.n as usize
    }
}

/// Bits that a number up to `n` takes: `ilog` of the specification.
pub(super) fn width(n: u32) -> u32 {
    32 - n.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order() {
        let bytes: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(73) ^ 0x5A).collect();
        for width in 1..=32 {
            let mut bits = Bits::new(&bytes);
            let mut at = 0;
            while at + width <= bytes.len() * 8 {
                let bit = |i: usize| u64::from(bytes[i / 8] >> (i % 8) & 1);
                let want: u64 = (0..width).map(|i| bit(at + i) << i).sum();
                assert_eq!(bits.left(), bytes.len() * 8 - at);
                assert_eq!(bits.read(width as u32).map(u64::from), Some(want));
                at += width;
            }
            assert!(at == bytes.len() * 8 || bits.read(width as u32).is_none());
            assert_eq!((bits.read(1), bits.left()), (None, 0));
        }
    }

    #[test]
    fn nothing_comes_after_a_read_behind_the_end() {
        let mut bits = Bits::new(&[0xFF, 0xFF]);
        assert_eq!((bits.read(17), bits.read(1), bits.read(0)), (None, None, Some(0)));
        assert_eq!([0, 1, 2, 3, 4, 7, 255].map(width), [0, 1, 2, 2, 3, 3, 8]);
    }
}
