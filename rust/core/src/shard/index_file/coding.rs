//! Numbers and bytes in index files.
//!
//! A number is a varint ([`varint`]). Bytes follow their number. Words follow their number too, each a
//! little-endian `u64`: long lists of offsets are read as fast as they are copied.

use super::varint;

/// Writes numbers and bytes.
#[derive(Debug, Default)]
pub(in crate::shard) struct IndexWriter(Vec<u8>);

impl IndexWriter {
    /// The number of bytes so far.
    pub(in crate::shard) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::shard) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(in crate::shard) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(in crate::shard) fn number(&mut self, number: u64) {
        varint::write(&mut self.0, number);
    }

    pub(in crate::shard) fn numbers(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.number(*number);
        }
    }

    pub(in crate::shard) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub(in crate::shard) fn words(&mut self, words: &[u64]) {
        self.number(words.len() as u64);
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}

/// Reads numbers and bytes; `None` beyond the end.
#[derive(Debug)]
pub(in crate::shard) struct IndexReader<'a>(&'a [u8]);

impl<'a> IndexReader<'a> {
    pub(in crate::shard) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all was read.
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, n_bytes: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(n_bytes).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    pub(in crate::shard) fn number(&mut self) -> Option<u64> {
        varint::read(&mut self.0)
    }

    pub(in crate::shard) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(len)
    }

    pub(in crate::shard) fn words(&mut self) -> Option<Vec<u64>> {
        let n_bytes = self.number()?.checked_mul(8)?;
        let words = self.take(n_bytes)?.as_chunks().0;
        Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_comes_back(
            number in any::<u64>(),
            words in prop::collection::vec(any::<u64>(), 0..20),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut out = IndexWriter::default();
            out.number(number);
            out.words(&words);
            out.bytes(&bytes);
            let written = out.into_bytes();
            let mut back = IndexReader::new(&written);
            prop_assert_eq!(back.number(), Some(number));
            prop_assert_eq!(back.words(), Some(words));
            prop_assert_eq!(back.bytes(), Some(bytes.as_slice()));
            prop_assert!(back.is_empty());
        }
    }

    #[test]
    fn what_is_longer_than_the_bytes_is_none() {
        let mut out = IndexWriter::default();
        out.number(u64::MAX);
        let written = out.into_bytes();
        assert_eq!(IndexReader::new(&written).bytes(), None);
        assert_eq!(IndexReader::new(&written).words(), None);
        assert_eq!(IndexReader::new(&[2, 0, 0, 0, 0, 0, 0, 0, 0]).words(), None);
    }
}
