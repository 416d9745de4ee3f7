//! The timeline of a stream whose pages contradict their packets: the packets alone are counted.
//!
//! Granules, page numbers and the mark of the end are what writers get wrong. As long as every page is
//! intact, no packet breaks off and no page number shows a gap, all sound is there, and what packets say of
//! their own lengths places it. The contradictions are notes.

use super::{
    page::{NoPage, Page, PageRef, find_capture},
    salvage::Packets,
    walk::{Group, Junk, Walk},
};
use crate::{
    error::Reason,
    memory,
    report::{Ledger, Note},
};

/// The longest end that may be cut off beside the frames of the last page.
const LONGEST_TRIM: u64 = 8192;

/// Pages that are missing right behind the headers are a loss if there are at most so many. More of them
/// were never written: the stream was joined late.
const MAX_LOST_AT_START: u32 = 8;

/// Whether the last page may cut off so many frames: its own and some of those before it, and of an only
/// page those of a block.
pub(super) fn is_trim(n_trimmed: u64, n_before: u64, n_all: u64) -> bool {
    let n_own = if n_before == 0 { 0 } else { n_all.saturating_sub(n_before) };
    n_trimmed <= n_own.saturating_add(LONGEST_TRIM)
}

/// Whether so many pages that are missing right behind the headers were never written.
pub(super) fn is_late(n_pages: u32) -> bool {
    n_pages > MAX_LOST_AT_START && n_pages >> 24 == 0
}

/// How pages are listed.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Whether a page is listed with the frames before the first packet that begins on it, and not
    /// with those before its end.
    pub(super) by_start: bool,
    pub(super) has_silk: fn(&[u8]) -> bool,
}

/// What counting found.
#[derive(Default)]
pub(super) struct Counted {
    /// The place of the first decoded frame: below 0 if the first ones are not played.
    pub(super) origin: i64,
    /// The place behind the last frame that is played.
    pub(super) end: u64,
    pub(super) has_silk: bool,
    /// Frames of all packets so far.
    n_frames: u64,
    /// The granules of the pages that have one, and the frames before their ends: the first two, and
    /// the last three.
    first: Vec<(u64, u64)>,
    last: Vec<(u64, u64)>,
    is_trimmed: bool,
    n_pages: u64,
    /// Pages whose numbers follow the one before, jump ahead of it, or do neither.
    n_following: u64,
    n_ahead: u64,
    n_astray: u64,
    /// 1 if the stream was joined late.
    n_late: u64,
    has_end: bool,
    n_early_ends: u64,
    /// 1 if the headers come again.
    n_repeated: u64,
    junk: Junk,
}

/// Counts the packets of the stream behind its headers, where `walk` stands, and lists its pages.
///
/// `None`: something is missing, and the file proves it.
pub(super) fn count(
    walk: &mut Walk<'_>,
    codec: &mut impl Packets,
    style: Style,
    pages: &mut Vec<PageRef>,
) -> Result<Option<Counted>, Reason> {
    let first_page = pages.len();
    let Group { serial, end: group_end, .. } = walk.group;
    let mut found = Counted { junk: walk.junk, ..Counted::default() };
    let (mut open, mut is_open) = (0, false);
    loop {
        let page = match Page::read(walk.bytes, walk.at) {
            Ok(page) if !page.is_intact() => return Ok(None),
            Ok(page) if page.is_first() && page.offset >= group_end => {
                found.n_repeated = u64::from(found.n_pages == 0 && page.serial == serial);
                break;
            }
            Ok(page) => page,
            Err(NoPage::End) => break,
            Err(NoPage::Cut(_)) => return Ok(None),
            Err(NoPage::Junk) => {
                found.junk.meet(walk.at);
                let Some(at) = find_capture(walk.bytes, walk.at) else { break };
                walk.at = at;
                continue;
            }
        };
        walk.at = page.end();
        if page.serial != serial {
            continue;
        }
        found.number(&page, walk.sequence);
        walk.sequence = Some(page.sequence);
        found.junk.settle(true);
        if page.is_continued() != is_open {
            if found.n_pages > 0 || is_open {
                return Ok(None);
            }
            found.n_late = 1;
        }
        let (mut begins, mut is_lost) = (None, page.is_continued() && !is_open);
        for (piece, ends) in page.pieces() {
            if std::mem::take(&mut is_lost) {
                continue; // the end of a packet from before the beginning
            }
            if !std::mem::take(&mut is_open) {
                begins = begins.or(Some(found.n_frames));
                let Some(len) = codec.measure(piece) else { return Ok(None) };
                open = len;
                found.has_silk |= (style.has_silk)(piece);
            }
            if ends {
                found.n_frames += std::mem::take(&mut open);
            }
            is_open = !ends;
        }
        found.n_pages += 1;
        let end = if style.by_start { begins.unwrap_or(found.n_frames) } else { found.n_frames };
        let is_entry = begins.is_some()
            && (style.by_start
                || !page.is_last() && page.n_packets() > usize::from(page.is_continued()));
        memory::push(pages, PageRef { offset: page.offset, end, is_entry })?;
        found.stamp(&page);
        if page.is_last() {
            found.has_end = true;
            if !walk.goes_on() {
                break;
            }
            found.n_early_ends += 1;
        }
    }
    // Numbers that count pages as a rule show where some are missing.
    let is_gap = found.n_ahead > 0 && found.n_ahead <= found.n_following;
    if is_open || is_gap {
        return Ok(None);
    }
    found.settle(style);
    for page in pages.get_mut(first_page..).unwrap_or_default() {
        page.end = page.end.saturating_add_signed(found.origin);
    }
    Ok(Some(found))
}

impl Counted {
    /// Looks at the number of a page behind the one of this number.
    fn number(&mut self, page: &Page<'_>, before: Option<u32>) {
        let Some(before) = before else { return };
        match page.sequence.wrapping_sub(before).wrapping_sub(1) {
            0 => self.n_following += 1,
            ahead if ahead >> 24 != 0 => self.n_astray += 1,
            ahead if self.n_pages == 0 && is_late(ahead) => self.n_late = 1,
            _ => self.n_ahead += 1,
        }
    }

    /// Keeps the granule of a page.
    fn stamp(&mut self, page: &Page<'_>) {
        let Some(granule) = page.granule else { return };
        let stamp = (granule, self.n_frames);
        if self.first.len() < 2 {
            self.first.push(stamp);
        }
        if self.last.len() == 3 {
            self.last.remove(0);
        }
        self.last.push(stamp);
        self.is_trimmed = page.is_last();
    }

    /// Decides where time begins and ends. A granule counts where the one before it agrees.
    fn settle(&mut self, style: Style) {
        let agree = |(a, before): (u64, u64), (b, after): (u64, u64)| {
            b.wrapping_sub(a) == after.wrapping_sub(before)
        };
        if let (&[one, two], false) = (&self.first[..], style.by_start)
            && agree(one, two)
            && one.0 < one.1
        {
            self.origin = one.0 as i64 - one.1 as i64;
        }
        self.end = self.n_frames.saturating_add_signed(self.origin);
        let start = (0, 0);
        let (before, before_it, last) = match self.last[..] {
            [a, b, c] => (b, a, c),
            [b, c] => (b, start, c),
            [c] => (start, start, c),
            _ => return,
        };
        let expected = before.0.wrapping_add(self.n_frames.saturating_sub(before.1));
        let n_trimmed = expected.wrapping_sub(last.0);
        let is_believed = agree(before_it, before) && last.0 > before.0;
        if self.is_trimmed && is_believed && is_trim(n_trimmed, before.1, self.n_frames) {
            self.end = self.end.saturating_sub(n_trimmed);
        }
    }

    /// Makes notes of what was met, or `reason` an error where notes are errors.
    pub(super) fn remark(&self, reason: &Reason, ledger: &mut Ledger) -> Result<(), Reason> {
        let numbers = self.n_astray + self.n_ahead;
        let n_marks = u64::from(!self.has_end && self.n_repeated == 0) + self.n_early_ends;
        let others = numbers + self.n_late + n_marks + self.n_repeated + self.junk.count();
        let notes = [
            (Note::PageNumbers, numbers),
            (Note::LateStart, self.n_late),
            (Note::EndMark, n_marks),
            (Note::RepeatedHeaders, self.n_repeated),
            (Note::Junk, self.junk.count()),
            (Note::Timestamps, u64::from(self.is_false_time() || others == 0)),
        ];
        notes.iter().try_for_each(|&(note, n)| ledger.remark(note, n, reason.clone()))
    }

    /// Whether granules contradict each other, as far as they were kept.
    fn is_false_time(&self) -> bool {
        let offset = |&(granule, n_frames): &(u64, u64)| granule.wrapping_sub(n_frames);
        let n_last = self.last.len() - usize::from(self.is_trimmed).min(self.last.len());
        let last = self.last.get(..n_last).unwrap_or_default();
        let mut offsets = self.first.iter().take(1).chain(last).map(offset);
        let first = offsets.next();
        offsets.any(|other| Some(other) != first)
    }
}
