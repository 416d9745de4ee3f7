//! Reads bits, the most significant first.

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
        let mut value = 0u64;
        let first = self.at / 8;
        for byte in self.bytes.get(first..)?.iter().take((self.at % 8 + n).div_ceil(8)) {
            value = value << 8 | u64::from(*byte);
        }
        let unread = (8 - (self.at + n) % 8) % 8;
        self.at += n;
        Some((value >> unread & ((1u64 << n) - 1)) as u32)
    }

    /// Moves on by `n` bits, possibly past the end.
    pub(super) fn skip(&mut self, n: usize) {
        self.at = self.at.saturating_add(n);
    }
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
        assert_eq!(bits.read(1), None);
        assert_eq!(BitReader::starting_at(&[0x0F], 6).read(2), Some(3));
        bits.skip(usize::MAX);
        assert_eq!((bits.left(), bits.read(1)), (0, None));
    }
}
