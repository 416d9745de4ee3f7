//! The numbers of pages, one after the other, in a buffer of the pool.

use ::parquet::basic::Encoding;

use super::hybrid::{Hybrid, MAX_WIDTH, Stretch, unpack};
use crate::{Error, Result, memory::Buffer};

/// Numbers of `N` bytes so far, and the dictionary that pages may refer to.
#[derive(Debug)]
pub(super) struct Numbers<const N: usize> {
    dictionary: Vec<[u8; N]>,
    buffer: Buffer,
    len: usize,
}

impl<const N: usize> Numbers<N> {
    /// None yet, with room for what the buffer takes.
    pub(super) fn new(buffer: Buffer) -> Self {
        Self { dictionary: Vec::new(), buffer, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// Sets the dictionary, of `n` numbers.
    pub(super) fn set_dictionary(&mut self, bytes: &[u8], n: usize) -> Result<()> {
        self.dictionary = plain(bytes, n)?.to_vec();
        Ok(())
    }

    /// Adds `n` numbers of a page; `false` where its encoding is another one.
    pub(super) fn add(&mut self, bytes: &[u8], n: usize, encoding: Encoding) -> Result<bool> {
        let all = self.buffer.as_bytes_mut().as_chunks_mut().0;
        let into = all.get_mut(self.len..self.len.saturating_add(n));
        let into = into.ok_or_else(|| Error::corrupt("pages of more values than they say"))?;
        match encoding {
            Encoding::PLAIN => into.copy_from_slice(plain(bytes, n)?),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                refer(bytes, &self.dictionary, into)?;
            }
            _ => return Ok(false),
        }
        self.len += n;
        Ok(true)
    }
}

/// Fills `into` with numbers by where they are in the dictionary.
fn refer<const N: usize>(bytes: &[u8], dictionary: &[[u8; N]], into: &mut [[u8; N]]) -> Result<()> {
    let (width, bytes) = bytes.split_first().ok_or_else(ends)?;
    let width = u32::from(*width);
    if width > MAX_WIDTH {
        return Err(Error::corrupt(format!("references of {width} bits")));
    }
    let mut references = Hybrid::new(bytes, width, into.len() as u64);
    let mut left = into;
    while let Some(stretch) = references.next()? {
        let n = match stretch {
            Stretch::Run(_, n) | Stretch::Packed(_, n) => n as usize,
        };
        let (mut to, behind) = left.split_at_mut_checked(n).ok_or_else(ends)?;
        left = behind;
        // A reference to nothing.
        let mut outside = None;
        match stretch {
            Stretch::Run(at, _) => match dictionary.get(at as usize) {
                Some(number) => to.fill(*number),
                None => outside = Some(at),
            },
            Stretch::Packed(packed, n) => unpack(packed, width, n, |block| {
                let (these, rest) = std::mem::take(&mut to).split_at_mut(block.len());
                to = rest;
                for (to, at) in these.iter_mut().zip(block) {
                    match dictionary.get(*at as usize) {
                        Some(number) => *to = *number,
                        None => outside = Some(*at),
                    }
                }
            }),
        }
        if let Some(at) = outside {
            let n = dictionary.len();
            let what = format!("a reference to value {at} of a dictionary of {n}");
            return Err(Error::corrupt(what));
        }
    }
    Ok(())
}

/// The first `n` numbers in these bytes.
fn plain<const N: usize>(bytes: &[u8], n: usize) -> Result<&[[u8; N]]> {
    bytes.as_chunks().0.get(..n).ok_or_else(ends)
}

fn ends() -> Error {
    Error::corrupt("a page ends before its values")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::BufferPool;

    fn room_for<const N: usize>(n: usize) -> Numbers<N> {
        Numbers::new(Arc::new(BufferPool::new(0)).take(n * N, None).unwrap())
    }

    #[test]
    fn plain_numbers_and_references() {
        let mut numbers = room_for::<4>(9);
        numbers.set_dictionary(&[7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1], 3).unwrap();
        assert!(numbers.add(&[1, 2, 0, 0], 1, Encoding::PLAIN).unwrap());
        // Two bits: three times 2, then 0 1 2 0 of a group.
        let references = [2, 6, 2, 3, 0b0010_0100, 0xff];
        assert!(numbers.add(&references, 7, Encoding::RLE_DICTIONARY).unwrap());
        assert!(!numbers.add(&[], 0, Encoding::DELTA_BINARY_PACKED).unwrap());
        assert!(numbers.add(&[0; 8], 2, Encoding::PLAIN).is_err(), "no room");
        assert_eq!(numbers.len(), 8);
        let found = numbers.into_buffer();
        let found = found.as_bytes().as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        assert_eq!(found.take(8).collect::<Vec<_>>(), [0x0201, 9, 9, 9, 7, 8, 9, 7]);
    }

    #[test]
    fn pages_that_lie_are_refused() {
        let mut numbers = room_for::<8>(100);
        assert!(numbers.set_dictionary(&[0; 15], 2).is_err());
        numbers.set_dictionary(&[0; 16], 2).unwrap();
        assert!(numbers.add(&[0; 15], 2, Encoding::PLAIN).is_err());
        let mut refer = |bytes: &[u8]| numbers.add(bytes, 2, Encoding::RLE_DICTIONARY);
        assert!(refer(&[]).is_err());
        assert!(refer(&[33, 4, 0]).is_err(), "33 bits");
        assert!(refer(&[8, 4, 2]).is_err(), "a run of a third value");
        assert!(refer(&[8, 3, 0, 2, 0, 0, 0, 0, 0, 0]).is_err(), "a third value");
        assert!(refer(&[8, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap());
        assert!(refer(&[8, 2, 1]).is_err(), "one of two");
    }
}
