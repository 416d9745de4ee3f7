//! Ogg pages, RFC 3533.

use std::{array, hint::black_box};

use crate::{
    bytes::{from, le_u32, le_u64, u8_at},
    cancel::Cancel,
    crc,
    error::Reason,
};

const HEADER_LEN: usize = 27;

/// Bytes from which on a file is more than the processor's caches keep for a core.
const LONG: usize = 1 << 20;
/// Parts of a long file whose pages are looked at in turns.
const N_PARTS: usize = 8;
/// Bytes that come from memory together.
const LINE: usize = 64;

/// One page, borrowed from the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    pub(super) offset: usize,
    pub(super) granule: Option<u64>,
    pub(super) serial: u32,
    pub(super) sequence: u32,
    flags: u8,
    lacing: &'a [u8],
    body: &'a [u8],
    bytes: &'a [u8],
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPage {
    /// The bytes end.
    End,
    /// A page begins and the bytes end within it; its granule, if the file has it.
    Cut(Option<u64>),
    /// No page begins here.
    Junk,
}

impl<'a> Page<'a> {
    /// The page at `offset`. Its checksum is not looked at.
    pub(super) fn read(bytes: &'a [u8], offset: usize) -> Result<Self, NoPage> {
        let rest = from(bytes, offset);
        if rest.is_empty() {
            return Err(NoPage::End);
        }
        if !rest.starts_with(b"OggS") {
            let is_cut = rest.len() < 4 && b"OggS".starts_with(rest);
            return Err(if is_cut { NoPage::Cut(None) } else { NoPage::Junk });
        }
        if u8_at(rest, 4).is_some_and(|version| version != 0) {
            return Err(NoPage::Junk);
        }
        let granule = le_u64(rest, 6);
        let cut = NoPage::Cut(granule.filter(|&g| g != u64::MAX));
        let n_segments = usize::from(u8_at(rest, 26).ok_or(cut)?);
        let lacing = rest.get(HEADER_LEN..HEADER_LEN + n_segments).ok_or(cut)?;
        // At most 255 times 255. In small integers many are added at a time.
        let body_len = usize::from(lacing.iter().map(|&n| u16::from(n)).sum::<u16>());
        let body_at = HEADER_LEN + n_segments;
        Ok(Self {
            offset,
            granule: granule.filter(|&g| g != u64::MAX),
            serial: le_u32(rest, 14).ok_or(cut)?,
            sequence: le_u32(rest, 18).ok_or(cut)?,
            flags: u8_at(rest, 5).ok_or(cut)?,
            lacing,
            body: rest.get(body_at..body_at + body_len).ok_or(cut)?,
            bytes: rest.get(..body_at + body_len).ok_or(cut)?,
        })
    }

    /// Where the next page begins.
    pub(super) fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }

    /// Whether its first packet began on an earlier page.
    pub(super) fn is_continued(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether a logical stream begins here.
    pub(super) fn is_first(&self) -> bool {
        self.flags & 2 != 0
    }

    /// Whether the logical stream ends here.
    pub(super) fn is_last(&self) -> bool {
        self.flags & 4 != 0
    }

    /// Whether more of a stream is on it, of which the page with this number was taken for the end.
    /// One that has no bytes, or repeats an earlier one, adds nothing.
    pub(super) fn continues(&self, serial: u32, sequence: u32) -> bool {
        let n_between = self.sequence.wrapping_sub(sequence).wrapping_sub(1);
        let is_ahead = n_between >> 24 == 0;
        self.serial == serial && is_ahead && !self.is_first() && !self.body.is_empty()
    }

    /// Packets that end on this page.
    pub(super) fn n_packets(&self) -> usize {
        usize::from(self.lacing.iter().map(|&n| u8::from(n < 255)).sum::<u8>())
    }

    /// Whether the bytes are those that were written.
    pub(super) fn is_intact(&self) -> bool {
        let Some((head, tail)) = self.bytes.split_at_checked(22) else { return false };
        let (stored, tail) = tail.split_at_checked(4).unwrap_or_default();
        let crc = crc::update(crc::update(crc::update(0, head), &[0; 4]), tail);
        stored == crc.to_le_bytes()
    }

    /// The pieces of packets in it, and whether each is the end of its packet.
    pub(super) fn pieces(&self) -> Pieces<'a> {
        Pieces { lacing: self.lacing, body: self.body }
    }
}

/// Pages of all streams whose checksum is wrong. Bytes between pages are ignored.
pub(crate) fn n_broken_pages(bytes: &[u8], cancel: &Cancel) -> Result<u64, Reason> {
    let mut n_broken = 0;
    let mut next = bytes.windows(4).position(|w| w == b"OggS");
    while let Some(at) = next {
        cancel.check()?;
        next = match Page::read(bytes, at) {
            Ok(page) if page.is_intact() => Some(page.end()),
            Err(NoPage::End) => None,
            // Its length may be wrong as well.
            Ok(_) => {
                n_broken += 1;
                find_capture(bytes, at)
            }
            Err(_) => find_capture(bytes, at),
        };
    }
    Ok(n_broken)
}

/// See [`Page::pieces`].
#[derive(Debug, Default)]
pub(super) struct Pieces<'a> {
    lacing: &'a [u8],
    body: &'a [u8],
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (&'a [u8], bool);

    fn next(&mut self) -> Option<Self::Item> {
        if self.lacing.is_empty() {
            return None;
        }
        let n_full = self.lacing.iter().take_while(|&&n| n == 255).count();
        let ends = n_full < self.lacing.len();
        let n_segments = n_full + usize::from(ends);
        let (segments, lacing) = self.lacing.split_at_checked(n_segments)?;
        let len = segments.iter().map(|&n| usize::from(n)).sum();
        let (piece, body) = self.body.split_at_checked(len)?;
        (self.lacing, self.body) = (lacing, body);
        Some((piece, ends))
    }
}

/// What the walk keeps of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(super) offset: usize,
    /// Vorbis: the granule of the last page up to and including this one that had one.
    /// Opus: the granule at which the first packet that begins on the page starts.
    pub(super) end: u64,
    /// Whether decoding can begin here: a packet begins on it. Vorbis, which needs the granule to
    /// tell where, begins only on a page that has one, is not the last, and has a packet whole.
    pub(super) is_entry: bool,
}

impl PageRef {
    /// Whether the page begins with a packet, and not with what is left of one.
    pub(super) fn begins_packet(&self, bytes: &[u8]) -> bool {
        Page::read(bytes, self.offset).is_ok_and(|page| !page.is_continued())
    }
}

/// Has the processor fetch the page headers of a long file, before a walk over them.
///
/// Only a page's header tells where the next page is, so that a walk waits for the memory at each
/// page. Here several parts of the file wait at the same time. Nothing is kept: pages that this does
/// not come upon cost the walk time, and nothing else.
pub(super) fn fetch_headers(bytes: &[u8]) {
    if bytes.len() < LONG {
        return;
    }
    let len = bytes.len().div_ceil(N_PARTS);
    let mut parts: [_; N_PARTS] = array::from_fn(|i| {
        let (start, end) = (i * len, bytes.len().min((i + 1) * len));
        let part = bytes.get(start..end).unwrap_or_default();
        let first = part.windows(4).position(|w| w == b"OggS");
        first.map_or(end, |at| start + at)..end
    });
    while parts.iter().any(|part| !part.is_empty()) {
        for part in parts.iter().filter(|part| !part.is_empty()) {
            black_box((u8_at(bytes, part.start), u8_at(bytes, part.start + LINE)));
        }
        for part in &mut parts {
            if part.start < part.end {
                part.start = Page::read(bytes, part.start).map_or(part.end, |page| page.end());
            }
        }
    }
}

/// The offset of the next `OggS` after `offset`.
pub(super) fn find_capture(bytes: &[u8], offset: usize) -> Option<usize> {
    let rest = from(bytes, offset + 1);
    rest.windows(4).position(|w| w == b"OggS").map(|at| offset + 1 + at)
}
