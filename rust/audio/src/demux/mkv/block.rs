//! Blocks, RFC 9559 section 10: a track, a time, and one or more packets.

use super::ebml::vint;
use crate::{
    bytes::{be_u16, from, u8_at},
    error::Reason,
};

/// The packets of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) track: u64,
    /// In the segment's timescale, from the cluster's time on.
    pub(super) time: i16,
    /// Where the packets begin in the block, and their lengths.
    pub(super) payload: usize,
    pub(super) lens: Vec<usize>,
}

impl Block {
    /// Reads a block. No packet is listed that is not there.
    pub(super) fn read(body: &[u8]) -> Result<Self, Reason> {
        Self::parse(body).ok_or_else(|| Reason::malformed("a Matroska block does not parse"))
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (track, at) = vint(body)?;
        let time = be_u16(body, at)? as i16;
        let flags = u8_at(body, at + 2)?;
        let at = at + 3;
        let mut laces = Laces { body, at, lens: Vec::new() };
        if flags & 6 == 0 {
            laces.lens.push(body.len() - at);
        } else {
            let n = usize::from(u8_at(body, at)?) + 1;
            laces.at += 1;
            match flags & 6 {
                2 => laces.xiph(n)?,
                4 => laces.fixed(n)?,
                _ => laces.ebml(n)?,
            }
        }
        Some(Self { track: track?, time, payload: laces.at, lens: laces.lens })
    }
}

struct Laces<'a> {
    body: &'a [u8],
    at: usize,
    lens: Vec<usize>,
}

impl Laces<'_> {
    /// The last packet has what the others leave.
    fn rest(&mut self) -> Option<()> {
        let before: usize = self.lens.iter().sum();
        self.lens.push((self.body.len() - self.at).checked_sub(before)?);
        Some(())
    }

    fn xiph(&mut self, n: usize) -> Option<()> {
        for _ in 1..n {
            let mut len = 0;
            loop {
                let byte = u8_at(self.body, self.at)?;
                self.at += 1;
                len += usize::from(byte);
                if byte < 255 {
                    break;
                }
            }
            self.lens.push(len);
        }
        self.rest()
    }

    fn fixed(&mut self, n: usize) -> Option<()> {
        let len = (self.body.len() - self.at) / n;
        self.lens.resize(n, len);
        (len * n == self.body.len() - self.at).then_some(())
    }

    fn ebml(&mut self, n: usize) -> Option<()> {
        let mut len = 0i64;
        for i in 1..n {
            let (value, width) = vint(from(self.body, self.at))?;
            self.at += width;
            // The first is a length, the others are differences, biased to be unsigned.
            let bias = if i == 1 { 0 } else { (1i64 << (7 * width - 1)) - 1 };
            len = if i == 1 { 0 } else { len }.checked_add(value? as i64 - bias)?;
            let len = usize::try_from(len).ok()?;
            if len > self.body.len() {
                return None;
            }
            self.lens.push(len);
        }
        self.rest()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lens(body: &[u8]) -> Option<(usize, Vec<usize>)> {
        Block::parse(body).map(|block| (block.payload, block.lens))
    }

    #[test]
    fn laces_are_taken_apart() {
        assert_eq!(lens(&[0x81, 0, 7, 0x80, 1, 2, 3]), Some((4, vec![3])));
        assert_eq!(lens(&[0x81, 0, 0, 2, 2, 1, 2, 9, 9, 9, 9]), Some((7, vec![1, 2, 1])));
        assert_eq!(lens(&[0x81, 0, 0, 4, 1, 9, 9, 9, 9]), Some((5, vec![2, 2])));
        assert_eq!(lens(&[0x81, 0, 0, 4, 1, 9, 9, 9]), None);
        // One byte, then one more, then the rest.
        assert_eq!(lens(&[0x81, 0, 0, 6, 2, 0x81, 0xC0, 9, 9, 9, 9]), Some((7, vec![1, 2, 1])));
        assert_eq!(lens(&[0x81, 0, 0, 2, 1, 9, 9]), None);
        assert_eq!(
            Block::parse(&[0x82, 0xFF, 0xFE, 0, 1]).map(|b| (b.track, b.time)),
            Some((2, -2))
        );
    }

    proptest! {
        #[test]
        fn hostile_blocks_have_no_packet_that_is_not_there(
            flags in 0u8..8, body in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let block = [&[0x81, 0, 0, flags][..], &body].concat();
            if let Ok(block) = Block::read(&block) {
                prop_assert!(block.lens.len() <= 256);
                prop_assert!(block.payload + block.lens.iter().sum::<usize>() <= body.len() + 4);
            }
        }
    }
}
