//! Vorbis in Ogg: headers, timeline, and where decoding can begin.

use std::{ops::Range, sync::Arc};

use super::{
    chain::Place,
    page::{NoPage, Page, PageRef},
    salvage::{Intact, Packets, survey},
    walk::Walk,
};
use crate::{
    codec::vorbis::{Ident, Modes},
    error::{Exceeded, Reason},
    memory,
    report::Ledger,
    spec::MAX_CHANNELS,
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
}

/// Walks all pages of the stream; its audio pages are listed in `pages`.
pub(super) fn open(walk: &mut Walk<'_>, pages: &mut Vec<PageRef>) -> Result<VorbisLayout, Reason> {
    let mut layout = begin(walk)?;
    let VorbisLayout { ident, modes, .. } = layout;
    let audio = Walk::new(walk.bytes, walk.group, Some(layout.audio));
    let mut time = Time::default();
    // Packets end behind the last granule.
    let mut is_open = false;
    let mut n_packets = 0u64;
    let mut is_monotonic = true;
    let mut end = 0;
    let ended = loop {
        match walk.next() {
            Ok(page) => {
                // Between the first granule and the last nothing more is asked of the packets, and
                // in a long file the first byte of each is a wait for the memory.
                if !time.has_granule {
                    time.add(&page, modes, &ident);
                }
                let n_ended = page.n_packets();
                n_packets += n_ended as u64;
                is_open = page.granule.is_none() && (is_open || n_ended > 0);
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
    walk.junk.note(&mut Ledger::default())?;
    if !ended {
        return Err(Reason::Truncated { decoded: end, expected: None });
    }
    let n_after = if is_open { n_after(audio, modes, &ident) } else { Some(0) };
    let n_after =
        n_after.ok_or_else(|| Reason::malformed("the last Ogg page does not say where it ends"))?;
    let end = end.saturating_add(n_after);
    // Each packet gives at most half of two long blocks.
    let [_, long] = ident.block_lens;
    let origin = time.origin.unwrap_or(0);
    let start = origin.max(0) as u64;
    if !is_monotonic || end.saturating_sub(start) > n_packets * u64::from(long / 2) {
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

/// Frames behind the last granule, of pages at the end that have none; `None` if that is unknown.
fn n_after(mut walk: Walk<'_>, modes: Option<Modes>, ident: &Ident) -> Option<u64> {
    let mut time = Time::default();
    while let Ok(page) = walk.next() {
        time.add(&page, modes, ident);
        if page.is_last() {
            break;
        }
    }
    (!time.unknown).then_some(time.n_frames as u64)
}

/// What the headers say, with nothing to be played yet.
fn begin(walk: &mut Walk<'_>) -> Result<VorbisLayout, Reason> {
    let (ident_packet, setup) = headers(walk)?;
    let ident = Ident::read(&ident_packet)?;
    if ident.n_channels == 0 || ident.n_channels > MAX_CHANNELS {
        return Err(Exceeded::channels(ident.n_channels));
    }
    Ok(VorbisLayout {
        ident,
        modes: Modes::read(&setup),
        headers: [ident_packet, setup].concat().into(),
        audio: walk.at,
        origin: 0,
        played: 0..0,
        is_salvaged: false,
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

    fn decode(&mut self, packet: &[u8], _: i64, _: &mut Place<'_, '_>) -> Option<u64> {
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

/// Adds up the lengths that packets promise. Against the first granule they tell where time begins;
/// behind the last one, where it ends.
#[derive(Default)]
struct Time {
    /// Frames since the last granule.
    n_frames: i64,
    previous: Option<u32>,
    piece: Option<u32>,
    unknown: bool,
    has_granule: bool,
    /// The granule of the first decoded frame.
    origin: Option<i64>,
}

impl Time {
    fn add(&mut self, page: &Page<'_>, modes: Option<Modes>, ident: &Ident) {
        for (i, (piece, ends)) in page.pieces().enumerate() {
            if !(i == 0 && page.is_continued()) {
                self.piece = modes.and_then(|modes| modes.block_len(piece, ident));
                self.unknown |= modes.is_none();
            }
            if let (true, Some(len)) = (ends, self.piece) {
                self.n_frames +=
                    self.previous.map_or(0, |previous| i64::from((previous + len) / 4));
                self.previous = Some(len);
            }
        }
        let Some(granule) = page.granule else { return };
        // The end of a stream of one page is cut, not its start.
        if !self.has_granule && !page.is_last() && !self.unknown {
            self.origin = Some(granule as i64 - self.n_frames);
        }
        self.has_granule = true;
        self.n_frames = 0;
    }
}
