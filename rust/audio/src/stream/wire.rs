//! Numbers of an entry: seven bits a byte, the lowest first; the last byte is below 128.

/// The most that a count of bytes or frames in an entry can be. Sums of a few stay far from overflow.
pub(crate) const MAX_NUMBER: u64 = 1 << 48;

/// Writes a number.
pub(crate) fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Writes a number of either sign.
pub(crate) fn put_signed(out: &mut Vec<u8>, n: i64) {
    put_number(out, folded(n.cast_unsigned()));
}

/// Small numbers of either sign as small numbers: 0, -1, 1, -2 as 0, 1, 2, 3.
pub(super) fn folded(n: u64) -> u64 {
    n << 1 ^ (n.cast_signed() >> 63).cast_unsigned()
}

/// What [`folded`] made this of.
pub(super) fn unfolded(n: u64) -> u64 {
    n >> 1 ^ (n & 1).wrapping_neg()
}

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next number, if it is not above [`MAX_NUMBER`].
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..=49).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return (n <= MAX_NUMBER).then_some(n);
            }
        }
        None
    }

    /// The next number of either sign.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.number().map(|n| unfolded(n).cast_signed())
    }

    /// Whether everything is read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn numbers_come_back(n in 0..=MAX_NUMBER, shift in 0u32..48) {
            let mut out = Vec::new();
            put_number(&mut out, n >> shift);
            put_number(&mut out, n);
            let mut reader = Reader::new(&out);
            proptest::prop_assert_eq!(reader.number(), Some(n >> shift));
            proptest::prop_assert_eq!(reader.number(), Some(n));
            proptest::prop_assert!(reader.is_empty() && reader.number().is_none());
        }

        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while let Some(n) = reader.number() {
                proptest::prop_assert!(n <= MAX_NUMBER);
            }
        }
    }
}
