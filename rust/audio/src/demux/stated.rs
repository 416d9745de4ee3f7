//! What headers say of the bytes of stored samples, and when they are believed.
//!
//! Writers that cannot go back leave a placeholder, others add their header, or never write the length at
//! all. Sound is lost if nothing but a cut explains the length; everything else is a lie about sound
//! that the file has.

use crate::{
    bytes::from,
    error::Reason,
    report::{Ledger, Note},
};

/// What a header says of the samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    /// Their bytes; `None` if it says that nobody knows.
    pub(crate) len: Option<u64>,
    /// What the header says of them, believed or not, if it is no way to say that nobody knows.
    pub(crate) told: Option<u64>,
    /// The bytes of the file before them.
    pub(crate) header: u64,
    /// Whether another field says that the file ends where it does.
    pub(crate) is_closed: bool,
    /// Whether a field outside the samples, or what follows them, contradicts the file.
    pub(crate) is_odd: bool,
}

/// What the length around the whole file says of its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outer {
    /// It ends where the file does.
    pub(crate) is_right: bool,
    /// It ends elsewhere.
    pub(crate) is_wrong: bool,
}

impl Outer {
    /// `end` is where the file should end, if the header says it; a byte of padding may be missing.
    pub(crate) fn of(end: Option<u64>, n_bytes: usize) -> Self {
        let is_right = end.is_some_and(|end| end.abs_diff(n_bytes as u64) <= 1);
        Self { is_right, is_wrong: end.is_some() && !is_right }
    }
}

/// How much of it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// As many bytes as it says, some of which may be missing.
    Len(u64),
    /// All bytes up to the end of the file.
    ToEnd,
}

/// Lengths this near to a multiple of 2^30 that do not fit the file are no lengths: 0x7FFFFFFF,
/// 0x7FFFF000, 0x80000024, 0xFFFFFFFF and what others make of them.
const NEAR: u64 = 0x1_0000;
const STEP: u64 = 1 << 30;

/// A stated length is forgotten if there are so many times more bytes that nothing explains.
const MANY: u64 = 100;

/// The most that a length may be and be forgotten: nothing farther in the file is looked at for it.
pub(crate) const MOST_FORGOTTEN: u64 = 4096;

impl Stated {
    /// What to make of it if `there` bytes follow.
    pub(crate) fn believe(&self, there: u64) -> Believed {
        match self.len {
            Some(len) if len <= there => Believed::Len(len),
            Some(len) if !self.is_closed && !is_placeholder(len) && !self.is_slip(len - there) => {
                Believed::Len(len)
            }
            _ => Believed::ToEnd,
        }
    }

    /// Whether a writer's mistake explains that a length is `excess` bytes too long: a padding byte, the
    /// header of a chunk or of the file that was counted as samples.
    fn is_slip(&self, excess: u64) -> bool {
        let own = [self.header, self.header.saturating_sub(8)];
        [1, 4, 8, 12, 16, 36, 44].contains(&excess) || own.contains(&excess)
    }
}

fn is_placeholder(len: u64) -> bool {
    len >= STEP - NEAR && (len.wrapping_add(NEAR) & (STEP - 1)) < 2 * NEAR
}

/// Whether so many bytes cannot be all samples of the file: `behind` more follow, of which nothing says what
/// they are.
pub(crate) fn is_forgotten(len: u64, behind: u64) -> bool {
    len <= MOST_FORGOTTEN && len.saturating_mul(MANY) < behind
}

/// How chunks are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks {
    /// The size that the header of a chunk says, if it is all there.
    pub(crate) size: fn(&[u8]) -> Option<u64>,
    /// Bytes of that header.
    pub(crate) header: usize,
    /// Whether chunks of odd size have a byte of padding.
    pub(crate) is_padded: bool,
}

/// Chunks that writers put behind samples.
const KNOWN: [&[u8; 4]; 47] = [
    b"LIST", b"id3 ", b"ID3 ", b"bext", b"iXML", b"cue ", b"smpl", b"inst", b"fact", b"PEAK",
    b"JUNK", b"junk", b"PAD ", b"FLLR", b"axml", b"chna", b"cart", b"acid", b"afsp", b"_PMX",
    b"umid", b"minf", b"elm1", b"DISP", b"plst", b"LGWV", b"data", b"fmt ", b"NAME", b"AUTH",
    b"(c) ", b"ANNO", b"MARK", b"INST", b"COMT", b"COMM", b"SSND", b"CHAN", b"free", b"info",
    b"strg", b"mark", b"chan", b"peak", b"uuid", b"pakt", b"desc",
];

impl Chunks {
    /// Where the chunk behind one that ends at `end` begins. Some writers forget the padding.
    pub(crate) fn next(&self, bytes: &[u8], start: usize, len: usize) -> usize {
        let end = start.saturating_add(len);
        if !self.is_padded || len.is_multiple_of(2) {
            return end.min(bytes.len());
        }
        let padded = end.saturating_add(1);
        let is_unpadded = id(bytes, end).is_some_and(is_name)
            && !id(bytes, padded).is_some_and(|id| KNOWN.contains(&&id));
        if is_unpadded { end } else { padded.min(bytes.len()) }
    }

    /// A note on a chunk of odd length whose successor begins right behind it.
    pub(crate) fn remark(
        &self,
        step: usize,
        len: usize,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        let is_unpadded = self.is_padded && step == len && !len.is_multiple_of(2);
        let reason = Reason::malformed("a chunk of odd length has no pad byte");
        ledger.remark(Note::ChunkPadding, u64::from(is_unpadded), reason)
    }

    /// Whether from `at` to the end of the file one chunk follows the other, and the first is a known one.
    pub(crate) fn explain(&self, bytes: &[u8], mut at: usize) -> bool {
        let is_known = id(bytes, at).is_some_and(|id| KNOWN.contains(&&id));
        if !is_known && bytes.len().saturating_sub(at) > 1 {
            return false;
        }
        while bytes.len().saturating_sub(at) > 1 {
            if !id(bytes, at).is_some_and(is_name) {
                return false;
            }
            let Some(len) = (self.size)(from(bytes, at)) else { return false };
            let body = at + self.header;
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            if len > bytes.len().saturating_sub(body) {
                return false;
            }
            at = self.next(bytes, body, len);
        }
        true
    }
}

fn id(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    from(bytes, at).first_chunk().copied()
}

fn is_name(id: [u8; 4]) -> bool {
    id.iter().all(|byte| (0x20..0x7F).contains(byte))
}

/// Bytes of one integer sample: its bits decide it, as players have it, and not the size of a block, which
/// may be 0 or anything. Up to 24 bits may be stored in four bytes. `None` if the bits say nothing.
pub(crate) fn sample_bytes(bits: u32, of_block: u32) -> u32 {
    match bits {
        0 | 33.. => of_block,
        17..=24 if of_block == 4 => 4,
        bits => bits.div_ceil(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_believed_unless_a_lie_explains_them() {
        let believe = |len| {
            Stated { len: Some(len), told: None, header: 60, is_closed: false, is_odd: false }
                .believe(1000)
        };
        for len in [0, 10, 1000, 1002, 1060 + 1, 2000, 0x2000_0000, 0x7100_0000] {
            assert_eq!(believe(len), Believed::Len(len), "{len:#x}");
        }
        for len in [1001, 1044, 1060, 1052, 0x7FFF_FFFF, 0x7FFF_FF00, 0x8000_0000, 0x8000_0024] {
            assert_eq!(believe(len), Believed::ToEnd, "{len:#x}");
        }
        for len in [0x3FFF_FFFF, 0xFFFF_FFDB, u64::MAX, i64::MAX as u64, 1 << 63] {
            assert_eq!(believe(len), Believed::ToEnd, "{len:#x}");
        }
        let closed =
            Stated { len: Some(2000), told: None, header: 60, is_closed: true, is_odd: false };
        assert_eq!(closed.believe(1000), Believed::ToEnd);
        assert_eq!(closed.believe(3000), Believed::Len(2000));
        assert_eq!(Stated { len: None, ..closed }.believe(7), Believed::ToEnd);
    }

    #[test]
    fn bits_decide_how_long_a_sample_is() {
        for (bits, of_block, n_bytes) in [
            (16, 2, 2),
            (16, 0, 2),
            (16, 4, 2),
            (12, 2, 2),
            (24, 3, 3),
            (24, 4, 4),
            (24, 8, 3),
            (0, 2, 2),
        ] {
            assert_eq!(sample_bytes(bits, of_block), n_bytes);
        }
    }
}
