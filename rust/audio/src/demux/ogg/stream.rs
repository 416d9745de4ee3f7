//! Vorbis in Ogg: headers, timeline, and where decoding can begin.

use std::{ops::Range, sync::Arc};

use super::{
    count::{Style, count, is_trim},
    link_sink::LinkSink,
    page::{NoPage, Page, PageRef},
    salvage::{Intact, Packets, survey},
    walk::Walk,
};
use crate::{
    codec::vorbis::{Ident, Modes},
    error::{Exceeded, Reason},
    limits::MAX_CHANNELS,
    memory,
    report::Ledger,
};

/// What the walk over the pages of a stream found.
#[derive(Clone, Debug)]
pub(super) struct VorbisLayout {
    pub(super) ident: Ident,
    pub(super) modes: Option<Modes>,
    /// Identification and setup header, one after the other: what the decoder is made from.
    pub(super) headers: Arc<[u8]>,
    /// Where the first page with audio begins.
    pub(super) audio: usize,
    /// The granule of the first decoded frame, below 0 if the encoder added some.
    pub(super) origin: i64,
    /// The granule range that can be played.
    pub(super) played: Range<u64>,
    /// Whether this is what is left of a damaged stream.
    pub(super) is_salvaged: bool,
    /// Whether pages contradict the packets, which alone tell the time then.
    pub(super) is_counted: bool,
}

/// Walks all pages of the stream; its audio pages are listed in `pages`. Where they contradict the
/// packets, the packets are right, if all of them are there.
pub(super) fn open(
    walk: &mut Walk<'_>,
    pages: &mut Vec<PageRef>,
    ledger: &mut Ledger,
) -> Result<VorbisLayout, Reason> {
    let layout = begin(walk)?;
    let n_listed = pages.len();
    let mut again = walk.clone();
    let reason = match open_with(walk, pages, layout.clone()) {
        Err(reason) if reason.is_damage() => reason,
        opened => return opened,
    };
    pages.truncate(n_listed);
    let style = Style { by_start: false, has_silk: |_| false };
    let mut measure = Measure::new(&layout);
    let Some(found) = count(&mut again, &mut measure, style, pages)? else { return Err(reason) };
    found.remark(&reason, ledger)?;
    *walk = again;
    let played = 0..found.end;
    Ok(VorbisLayout { origin: found.origin, played, is_counted: true, ..layout })
}

/// The same, as pages tell it.
fn open_with(
    walk: &mut Walk<'_>,
    pages: &mut Vec<PageRef>,
    mut layout: VorbisLayout,
) -> Result<VorbisLayout, Reason> {
    let mut time = Time::new(&layout);
    let mut is_monotonic = true;
    let mut end = 0;
    let ended = loop {
        match walk.next() {
            Ok(page) => {
                time.add(&page);
                is_monotonic &= page.granule.is_none_or(|granule| granule >= end);
                memory::push(pages, page_ref(&page, &mut end))?;
                if page.is_last() {
                    break true;
                }
            }
            Err(NoPage::Cut(granule)) => {
                return Err(Reason::Truncated { decoded: end, expected: granule });
            }
            Err(NoPage::End | NoPage::Junk) => break false,
        }
    };
    if walk.n_lost > 0 {
        return Err(Reason::CorruptPackets { count: walk.n_lost });
    }
    if let Some(junk) = walk.junk.reason() {
        return Err(junk);
    }
    if ended && walk.goes_on() {
        return Err(Reason::CorruptPackets { count: 1 });
    }
    if !ended {
        return Err(Reason::Truncated { decoded: end, expected: None });
    }
    if time.n_after > 0 && layout.modes.is_none() {
        return Err(Reason::malformed("the last Ogg page does not say where it ends"));
    }
    let end = end.saturating_add(time.n_after);
    let origin = time.origin.unwrap_or(0);
    let start = origin.max(0) as u64;
    // Each packet gives at most half of two long blocks.
    let [_, long] = layout.ident.block_lens;
    let is_possible = end.saturating_sub(start) <= time.n_packets * u64::from(long / 2);
    if !is_monotonic || !is_possible || time.n_false > 0 {
        return Err(Reason::malformed("the page granules are impossible"));
    }
    (layout.origin, layout.played) = (origin, start.min(end)..end);
    Ok(layout)
}

/// What is kept of a page. `end`: the last granule up to and including it.
pub(super) fn page_ref(page: &Page<'_>, end: &mut u64) -> PageRef {
    *end = page.granule.unwrap_or(*end);
    let fresh = page.n_packets() > usize::from(page.is_continued());
    let is_entry = page.granule.is_some() && fresh && !page.is_last();
    PageRef { offset: page.offset, end: *end, is_entry }
}

/// What the headers say, with nothing to be played yet.
fn begin(walk: &mut Walk<'_>) -> Result<VorbisLayout, Reason> {
    let (ident_packet, setup) = headers(walk)?;
    let ident = Ident::read(&ident_packet)?;
    if ident.n_channels == 0 || ident.n_channels > MAX_CHANNELS {
        return Err(Exceeded::channels(ident.n_channels, MAX_CHANNELS));
    }
    Ok(VorbisLayout {
        ident,
        modes: Modes::read(&setup),
        headers: [ident_packet, setup].concat().into(),
        audio: walk.at,
        origin: 0,
        played: 0..0,
        is_salvaged: false,
        is_counted: false,
    })
}

/// What is left of a damaged stream.
pub(super) fn salvage(walk: &mut Walk<'_>, ledger: &mut Ledger) -> Result<VorbisLayout, Reason> {
    let layout = begin(walk)?;
    let mut intact = Intact::behind(walk);
    let found = survey(&mut intact, &mut Measure::new(&layout), |_| false, ledger)?;
    walk.at = intact.at;
    let origin = found.origin.unwrap_or(0);
    let start = origin.max(0) as u64;
    Ok(VorbisLayout {
        origin,
        played: start.min(found.end)..found.end,
        is_salvaged: true,
        ..layout
    })
}

/// Tells the lengths of packets without decoding them.
pub(super) struct Measure {
    ident: Ident,
    modes: Option<Modes>,
    previous: Option<u32>,
}

impl Measure {
    pub(super) fn new(layout: &VorbisLayout) -> Self {
        Self { ident: layout.ident, modes: layout.modes, previous: None }
    }
}

impl Packets for Measure {
    fn reset(&mut self) {
        self.previous = None;
    }

    fn measure(&mut self, packet: &[u8]) -> Option<u64> {
        // What is no audio packet adds nothing.
        let Some(len) = self.modes?.block_len(packet, &self.ident) else { return Some(0) };
        let previous = self.previous.replace(len);
        Some(previous.map_or(0, |previous| u64::from((previous + len) / 4)))
    }

    fn decode(&mut self, packet: &[u8], _: i64, _: &mut LinkSink<'_, '_>) -> Option<u64> {
        self.measure(packet)
    }
}

/// Identification and setup header.
fn headers(walk: &mut Walk<'_>) -> Result<(Vec<u8>, Vec<u8>), Reason> {
    let mut packets = walk.headers(3)?.into_iter();
    match (packets.next(), packets.next(), packets.next()) {
        (Some(ident), Some(comment), Some(setup))
            if ident.starts_with(b"\x01vorbis")
                && comment.starts_with(b"\x03vorbis")
                && setup.starts_with(b"\x05vorbis") =>
        {
            Ok((ident, setup))
        }
        _ => Err(Reason::malformed("the Vorbis headers are out of order")),
    }
}

impl VorbisLayout {
    /// The last page from which playable frame `start` can be decoded.
    ///
    /// The first packet that begins on a page needs its predecessor, so what it gives is dropped,
    /// and a packet from the page before may end first: up to one long block is lost.
    pub(super) fn entry(&self, pages: &[PageRef], start: u64) -> Option<PageRef> {
        self.modes?;
        let [_, long] = self.ident.block_lens;
        let wanted = (start + self.played.start).saturating_sub(u64::from(long));
        let n_before = pages.partition_point(|page| page.end <= wanted);
        let candidates = pages.get(1..=n_before.min(pages.len().saturating_sub(1)));
        candidates.unwrap_or_default().iter().rev().find(|page| page.is_entry).copied()
    }
}

/// Adds up the lengths that packets promise, and holds them against the granules. Against the first one
/// they tell where time begins; behind the last one, where it ends.
struct Time {
    measure: Measure,
    is_known: bool,
    /// Frames of the packet that continues on the next page.
    open: u64,
    /// Frames of all packets that have ended, and those of them before the last granule.
    n_frames: u64,
    n_stamped: u64,
    n_packets: u64,
    /// The granule of the first decoded frame.
    origin: Option<i64>,
    /// Granules that the packets do not bear out.
    n_false: u64,
    /// Frames behind the last granule.
    n_after: u64,
}

impl Time {
    fn new(layout: &VorbisLayout) -> Self {
        let (measure, is_known) = (Measure::new(layout), layout.modes.is_some());
        let (open, n_frames, n_stamped, n_packets, n_false, n_after) = (0, 0, 0, 0, 0, 0);
        let origin = None;
        Self { measure, is_known, open, n_frames, n_stamped, n_packets, origin, n_false, n_after }
    }

    fn add(&mut self, page: &Page<'_>) {
        for (i, (piece, ends)) in page.pieces().enumerate() {
            if !(i == 0 && page.is_continued()) {
                self.open = self.measure.measure(piece).unwrap_or(u64::from(!self.is_known));
            }
            if ends {
                self.n_packets += 1;
                self.n_frames = self.n_frames.saturating_add(std::mem::take(&mut self.open));
            }
        }
        self.n_after = self.n_frames - self.n_stamped;
        let Some(granule) = page.granule else { return };
        let n_stamped = std::mem::replace(&mut self.n_stamped, self.n_frames);
        self.n_after = 0;
        if !self.is_known {
            return;
        }
        // The end of a stream of one page is cut, not its start.
        let is_only = self.origin.is_none() && page.is_last();
        let offset = (granule as i64).saturating_sub(self.n_frames as i64);
        let origin = *self.origin.get_or_insert(if is_only { offset.max(0) } else { offset });
        let n_trimmed = origin.saturating_sub(offset);
        let is_right = n_trimmed == 0
            || page.is_last()
                && u64::try_from(n_trimmed).is_ok_and(|n| is_trim(n, n_stamped, self.n_frames));
        self.n_false += u64::from(!is_right);
    }
}
