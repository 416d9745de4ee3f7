//! What is left of a damaged Vorbis or Opus stream: only pages whose checksum is right count.
//!
//! A page says where its last packet ends and packets say how long they are, so frames come out in
//! their places again from the next whole page on. Only the last page, whose granule may cut the
//! end, cannot be placed if the page before it is lost.

use super::{
    link_sink::LinkSink,
    page::{NoPage, Page, find_capture},
    walk::{Group, Junk, Walk},
};
use crate::{
    cancel::Cancel,
    error::Reason,
    memory,
    report::{Damage, Ledger},
};

/// A decoder of packets, as much of it as is needed here.
pub(super) trait Packets {
    /// Forgets all packets that came before.
    fn reset(&mut self);

    /// Frames that the packet adds to those since the last reset; `None` if it cannot be told.
    fn measure(&mut self, packet: &[u8]) -> Option<u64>;

    /// Decodes a packet whose first frame has this granule, and gives its frames; `None` if it is
    /// corrupt.
    fn decode(&mut self, packet: &[u8], granule: i64, place: &mut LinkSink<'_, '_>) -> Option<u64>;
}

/// Walks the pages that are intact.
#[derive(Clone, Copy)]
pub(super) struct Intact<'a> {
    bytes: &'a [u8],
    group: Group,
    pub(super) at: usize,
    sequence: Option<u32>,
    n_bad: u64,
    n_lost: u64,
    junk: Junk,
    /// The granule of a page that the file ends in.
    cut: Option<u64>,
}

impl<'a> Intact<'a> {
    /// Goes on where a walk stands.
    pub(super) fn behind(walk: &Walk<'a>) -> Self {
        let Walk { bytes, group, at, sequence, .. } = *walk;
        Self { bytes, group, at, sequence, n_bad: 0, n_lost: 0, junk: Junk::default(), cut: None }
    }

    /// The next page, and whether it follows the one before it.
    fn next(&mut self) -> Option<(Page<'a>, bool)> {
        loop {
            match Page::read(self.bytes, self.at) {
                Ok(page) if !page.is_intact() => {
                    self.n_bad += 1;
                    // Its length may be wrong as well.
                    self.at = find_capture(self.bytes, self.at)?;
                }
                Ok(page) if page.is_first() && page.offset >= self.group.end => return None,
                Ok(page) => {
                    self.at = page.end();
                    if page.serial != self.group.serial {
                        continue;
                    }
                    let expected = self.sequence.map(|n| n.wrapping_add(1));
                    let n_between = expected.map_or(0, |n| page.sequence.wrapping_sub(n));
                    // A stream that counts anew has not lost millions of pages.
                    self.n_lost += u64::from(if n_between >> 24 == 0 { n_between } else { 1 });
                    self.sequence = Some(page.sequence);
                    self.junk.settle(n_between == 0);
                    return Some((page, n_between == 0));
                }
                Err(NoPage::End) => return None,
                Err(no_page) => {
                    match no_page {
                        NoPage::Cut(granule) => self.cut = granule,
                        _ => self.junk.meet(self.at),
                    }
                    self.at = find_capture(self.bytes, self.at)?;
                }
            }
        }
    }

    /// Whether the stream ends with this page, which came last: more of it may follow what is marked
    /// as its end.
    fn ends_with(&self, page: &Page<'a>) -> bool {
        let mut ahead = *self;
        let mut next = || ahead.next().map(|(next, _)| next);
        page.is_last() && !next().is_some_and(|next| next.continues(page.serial, page.sequence))
    }

    /// Counts what was met.
    fn note(&self, ledger: &mut Ledger) {
        ledger.mark(Damage::Checksums, self.n_bad);
        ledger.mark(Damage::Junk, self.junk.count());
        ledger.mark(Damage::LostPages, self.n_lost.saturating_sub(self.n_bad));
    }
}

/// What intact pages say of time.
pub(super) struct Survey {
    /// The granule of the first decoded frame, if the first page is in the file.
    pub(super) origin: Option<i64>,
    /// The granule behind the last frame.
    pub(super) end: u64,
    pub(super) has_silk: bool,
}

/// How far a granule may be behind the last page that is intact: one page of the longest packets.
const FURTHEST: u64 = 255 * 8192;

/// Walks all pages from `intact` on.
///
/// # Errors
/// None is there.
pub(super) fn survey(
    intact: &mut Intact<'_>,
    codec: &mut impl Packets,
    has_silk: fn(&[u8]) -> bool,
    ledger: &mut Ledger,
) -> Result<Survey, Reason> {
    let mut found = Survey { origin: None, end: 0, has_silk: false };
    let (mut n_pages, mut is_ended) = (0u64, false);
    // Frames of the pages before the first granule, as long as nothing is missing there, and of
    // a packet that continues on the next page.
    let mut begun = Some(0);
    let mut open = Some(0);
    let mut n_there = 0u64;
    while let Some((page, follows)) = intact.next() {
        n_pages += 1;
        is_ended = intact.ends_with(&page);
        if page.is_last() && !is_ended {
            ledger.mark(Damage::Timeline, 1);
        }
        begun = begun.filter(|_| follows);
        for (i, (piece, ends)) in page.pieces().enumerate() {
            if !(i == 0 && page.is_continued()) {
                open = codec.measure(piece);
                found.has_silk |= has_silk(piece);
            }
            if ends {
                n_there = n_there.saturating_add(open.unwrap_or(u64::MAX));
                begun = begun.zip(open.replace(0)).map(|(sum, n_frames)| sum + n_frames);
            }
        }
        if let Some(granule) = page.granule {
            found.end = found.end.max(granule);
            let start = begun.take().filter(|_| !is_ended);
            found.origin = found.origin.or(start.map(|n_frames| granule as i64 - n_frames as i64));
        }
        if is_ended {
            break;
        }
    }
    codec.reset();
    intact.note(ledger);
    let start = found.origin.unwrap_or(0).max(0) as u64;
    if intact.n_bad + intact.n_lost == 0 && found.end.saturating_sub(start) > n_there {
        ledger.mark(Damage::Truncated, 1);
    }
    if !is_ended {
        let reason = Reason::Truncated { decoded: found.end, expected: intact.cut };
        if n_pages == 0 {
            return Err(reason);
        }
        ledger.lose(Damage::Truncated, 1, reason)?;
        if let Some(cut) = intact.cut
            && cut > found.end
            && cut - found.end <= FURTHEST
        {
            found.end = cut;
        }
    }
    Ok(found)
}

/// The packets that begin on a page, and whether each also ends there.
fn fresh<'a>(page: &Page<'a>) -> impl Iterator<Item = (&'a [u8], bool)> {
    page.pieces().skip(usize::from(page.is_continued()))
}

/// Decodes from the first page on until the place is full or the stream ends.
///
/// `origin`: where time begins if the first page is in the file. What is wrong with pages is counted if `counts`.
/// If `is_counted`, all packets are there, and they and not the pages tell the time.
pub(super) fn decode(
    mut intact: Intact<'_>,
    codec: &mut impl Packets,
    origin: i64,
    (counts, is_counted): (bool, bool),
    place: &mut LinkSink<'_, '_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let mut position = Some(origin);
    let mut carry = Vec::new();
    let mut carries = false;
    let (mut n_corrupt, mut n_wrong) = (0, 0);
    while let Some((page, follows)) = intact.next() {
        cancel.check()?;
        let is_end = intact.ends_with(&page);
        if !is_counted && (!follows || position.is_none()) {
            position = start_of(&page, codec);
            codec.reset();
            carries = false;
        }
        for (i, (piece, ends)) in page.pieces().enumerate() {
            let continues = i == 0 && page.is_continued();
            if continues && !carries {
                continue; // its beginning is lost
            }
            if carries || !ends {
                if !continues {
                    carry.clear();
                }
                memory::extend(&mut carry, piece)?;
                carries = !ends;
                if carries {
                    continue;
                }
            }
            let Some(granule) = position else { continue };
            let packet = if continues { &carry } else { piece };
            let len = if is_counted { codec.measure(packet) } else { None };
            let n_frames = codec.decode(packet, granule, place);
            n_corrupt += u64::from(n_frames.is_none());
            position = len.or(n_frames).map(|n_frames| granule + n_frames as i64);
        }
        if !is_counted
            && let (Some(found), Some(said), false) = (position, page.granule, is_end)
            && found != said as i64
        {
            n_wrong += 1;
            position = Some(said as i64);
        }
        if is_end || place.is_full() {
            break;
        }
    }
    let ledger = place.ledger();
    ledger.mark(Damage::CorruptPackets, n_corrupt);
    ledger.mark(Damage::Timeline, n_wrong);
    if counts && !is_counted {
        intact.note(ledger);
    }
    Ok(())
}

/// The granule of the first frame that the packets of a page give on their own.
fn start_of(page: &Page<'_>, codec: &mut impl Packets) -> Option<i64> {
    let end = page.granule.filter(|_| !page.is_last())?;
    codec.reset();
    let whole = fresh(page).filter(|&(_, ends)| ends);
    let n_frames = whole.map(|(packet, _)| codec.measure(packet)).sum::<Option<u64>>()?;
    Some(end as i64 - n_frames as i64)
}
