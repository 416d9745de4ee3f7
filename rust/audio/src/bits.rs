//! Reads bits, the most significant first.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

/// A place in a run of bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// A reader that stands on bit `at`.
    pub(super) fn starting_at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The bits that are left.
    pub(super) fn left(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.at)
    }

    /// The next `n` bits, at most 32; `None` if there are fewer, and then none is read.
    pub(super) fn read(&mut self, n: usize) -> Option<u32> {
        if n > 32 || n > self.left() {
            return None;
        }
        let value = self.peek() >> 32;
        self.at += n;
        Some((value >> (32 - n)) as u32)
    }

    /// The next bits from the top down, 57 of them; behind the end they are zeros.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(next) => u64::from_be_bytes(*next),
            None => last_word(rest),
        };
        word << (self.at % 8)
    }

    /// How many bits were read or skipped.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Moves on by `n` bits, possibly past the end.
    pub(super) fn skip(&mut self, n: usize) {
        self.at = self.at.saturating_add(n);
    }
}

/// Fewer than eight bytes, and zeros.
#[inline(never)]
fn last_word(rest: &[u8]) -> u64 {
    let bytes = rest.iter().chain(std::iter::repeat(&0)).take(8);
    bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order() {
        let mut bits = BitReader::new(&[0b1010_0111, 0xFF, 0, 0x80, 1, 2]);
        assert_eq!(bits.read(3), Some(0b101));
        assert_eq!(bits.read(7), Some(0b1_1111));
        assert_eq!(bits.read(6), Some(0b11_1111));
        assert_eq!(bits.read(0), Some(0));
        assert_eq!(bits.read(32), Some(0x0080_0102));
        assert_eq!((bits.read(1), bits.peek()), (None, 0));
        assert_eq!(BitReader::starting_at(&[0xFF, 0x0F, 0x80], 12).peek(), 0xF8 << 56);
        assert_eq!(BitReader::starting_at(&[0x0F], 6).read(2), Some(3));
        bits.skip(usize::MAX);
        assert_eq!((bits.left(), bits.read(1)), (0, None));
    }
}
