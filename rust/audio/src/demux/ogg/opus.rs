//! Opus in Ogg, RFC 7845. Packets tell their lengths, so all positions are known without decoding.

use std::{ops::Range, sync::Arc};

use super::{
    count::{Style, count, is_trim},
    link_sink::LinkSink,
    packets::Joiner,
    page::{NoPage, Page, PageRef},
    salvage::{self, Intact, Packets, survey},
    walk::{Group, Walk},
};
use crate::{
    cancel::Cancel,
    codec::opus::{Head, PacketDecoder, has_silk, packet_len, pre_roll},
    error::Reason,
    memory,
    report::Ledger,
};

/// What the walk over the pages of a stream found.
#[derive(Clone, Debug)]
pub(super) struct OpusLayout {
    pub(super) head: Head,
    /// The packet that it was read from.
    pub(super) packet: Arc<[u8]>,
    /// Where the first page with audio begins.
    pub(super) audio: usize,
    /// The granule of the first decoded frame.
    pub(super) origin: u64,
    /// The granule range that can be played.
    pub(super) played: Range<u64>,
    /// Whether any packet has SILK in it.
    pub(super) has_silk: bool,
    /// Whether this is what is left of a damaged stream.
    pub(super) is_salvaged: bool,
    /// Whether pages contradict the packets, which alone tell the time then.
    pub(super) is_counted: bool,
}

/// The header, behind which audio begins.
fn begin(walk: &mut Walk<'_>) -> Result<(Head, Arc<[u8]>), Reason> {
    let headers = walk.headers(2)?;
    let packet = headers.first().map_or(&[][..], |packet| packet);
    let head = Head::read(packet)?;
    if !headers.get(1).is_some_and(|tags| tags.starts_with(b"OpusTags")) {
        return Err(Reason::malformed("the Opus headers are out of order"));
    }
    Ok((head, packet.into()))
}

/// What is left of a damaged stream.
pub(super) fn salvage(walk: &mut Walk<'_>, ledger: &mut Ledger) -> Result<OpusLayout, Reason> {
    let (head, packet) = begin(walk)?;
    let audio = walk.at;
    let mut intact = Intact::behind(walk);
    let found = survey(&mut intact, &mut Lengths, has_silk, ledger)?;
    walk.at = intact.at;
    let origin = found.origin.unwrap_or(0).max(0) as u64;
    let start = origin + head.pre_skip;
    let played = start.min(found.end)..found.end;
    let has_silk = found.has_silk;
    let (is_salvaged, is_counted) = (true, false);
    Ok(OpusLayout { head, packet, audio, origin, played, has_silk, is_salvaged, is_counted })
}

/// Whether a packet is a header, which may come again among the others.
fn is_header(packet: &[u8]) -> bool {
    packet.starts_with(b"OpusHead") || packet.starts_with(b"OpusTags")
}

/// Tells the lengths of packets without decoding them.
struct Lengths;

impl Packets for Lengths {
    fn reset(&mut self) {}

    fn measure(&mut self, packet: &[u8]) -> Option<u64> {
        if is_header(packet) {
            return Some(0);
        }
        packet_len(packet).map(u64::from)
    }

    fn decode(&mut self, packet: &[u8], _: i64, _: &mut LinkSink<'_, '_>) -> Option<u64> {
        self.measure(packet)
    }
}

/// Decodes a damaged stream.
struct Salvage<'a> {
    head: &'a Head,
    decoder: PacketDecoder,
}

impl Packets for Salvage<'_> {
    fn reset(&mut self) {
        // One could be made for this header before.
        if let Ok(decoder) = PacketDecoder::new(self.head) {
            self.decoder = decoder;
        }
    }

    fn measure(&mut self, packet: &[u8]) -> Option<u64> {
        Lengths.measure(packet)
    }

    fn decode(&mut self, packet: &[u8], granule: i64, place: &mut LinkSink<'_, '_>) -> Option<u64> {
        if is_header(packet) {
            return Some(0);
        }
        place.push(granule, self.decoder.decode(packet)?);
        self.measure(packet)
    }
}

/// Walks all pages of the stream; its audio pages are listed in `pages`. Where they contradict the
/// packets, the packets are right, if all of them are there.
pub(super) fn open(
    walk: &mut Walk<'_>,
    pages: &mut Vec<PageRef>,
    ledger: &mut Ledger,
) -> Result<OpusLayout, Reason> {
    let (head, packet) = begin(walk)?;
    let (audio, n_listed) = (walk.at, pages.len());
    let mut again = walk.clone();
    let reason = match open_with(walk, pages, head.clone(), Arc::clone(&packet)) {
        Err(reason) if reason.is_damage() => reason,
        opened => return opened,
    };
    pages.truncate(n_listed);
    let style = Style { by_start: true, has_silk };
    let Some(found) = count(&mut again, &mut Lengths, style, pages)? else { return Err(reason) };
    found.remark(&reason, ledger)?;
    *walk = again;
    let played = head.pre_skip.min(found.end)..found.end;
    Ok(OpusLayout {
        head,
        packet,
        audio,
        origin: 0,
        played,
        has_silk: found.has_silk,
        is_salvaged: false,
        is_counted: true,
    })
}

/// The same, as pages tell it.
fn open_with(
    walk: &mut Walk<'_>,
    pages: &mut Vec<PageRef>,
    head: Head,
    packet: Arc<[u8]>,
) -> Result<OpusLayout, Reason> {
    let audio = walk.at;
    let first_page = pages.len();
    let mut time = Time::default();
    let ended = loop {
        match walk.next() {
            Ok(page) => {
                memory::push(pages, time.add(&page)?)?;
                if page.is_last() {
                    break true;
                }
            }
            Err(NoPage::Cut(granule)) => {
                let frames = |granule: u64| granule.saturating_sub(time.start(&head));
                let (decoded, expected) = (frames(time.end()), granule.map(frames));
                return Err(Reason::Truncated { decoded, expected });
            }
            Err(NoPage::End | NoPage::Junk) => break false,
        }
    };
    if walk.n_lost + time.n_corrupt > 0 {
        return Err(Reason::CorruptPackets { count: walk.n_lost + time.n_corrupt });
    }
    if let Some(junk) = walk.junk.reason() {
        return Err(junk);
    }
    let start = time.start(&head);
    let decoded = time.end().saturating_sub(start);
    if ended && walk.goes_on() {
        return Err(Reason::CorruptPackets { count: 1 });
    }
    if !ended {
        return Err(Reason::Truncated { decoded, expected: None });
    }
    let end = time.last.unwrap_or(time.end());
    if end > time.end() {
        let expected = Some(end.saturating_sub(start));
        return Err(Reason::Truncated { decoded, expected });
    }
    if !is_trim(time.end() - end, time.before_last, time.n_frames) {
        return Err(Reason::malformed("the last Ogg page ends before it begins"));
    }
    let origin = time.origin.unwrap_or(0);
    // Pages were listed before it was known when time begins.
    for page in pages.get_mut(first_page..).unwrap_or_default() {
        page.end += origin;
    }
    let played = start.min(end)..end;
    let has_silk = time.has_silk;
    let (is_salvaged, is_counted) = (false, false);
    Ok(OpusLayout { head, packet, audio, origin, played, has_silk, is_salvaged, is_counted })
}

/// Adds up the lengths of packets and holds them against the granules of pages.
#[derive(Default)]
pub(super) struct Time {
    /// Frames of the packets that have ended.
    n_frames: u64,
    /// The length of a packet that continues on the next page.
    open: u64,
    /// The granule of the first decoded frame, once a page told.
    origin: Option<u64>,
    /// The granule of the last page, if it has one.
    pub(super) last: Option<u64>,
    /// Frames before the page that was added last.
    before_last: u64,
    pub(super) has_silk: bool,
    pub(super) n_corrupt: u64,
}

impl Time {
    /// From a page on that begins with a packet and follows `granule`.
    pub(super) fn from(origin: u64, granule: u64) -> Self {
        let n_frames = granule.saturating_sub(origin);
        Self { n_frames, origin: Some(origin), ..Self::default() }
    }

    pub(super) fn add(&mut self, page: &Page<'_>) -> Result<PageRef, Reason> {
        let mut begins = None;
        self.before_last = self.n_frames;
        for (i, (piece, ends)) in page.pieces().enumerate() {
            if !(i == 0 && page.is_continued()) {
                begins = begins.or(Some(self.n_frames));
                self.open = packet_len(piece).map_or(0, u64::from);
                self.n_corrupt += u64::from(self.open == 0);
                self.has_silk |= has_silk(piece);
            }
            if ends {
                self.n_frames += std::mem::take(&mut self.open);
            }
        }
        if let Some(granule) = page.granule {
            self.check(granule, page)?;
        }
        let end = begins.unwrap_or(self.n_frames);
        Ok(PageRef { offset: page.offset, end, is_entry: begins.is_some() })
    }

    fn check(&mut self, granule: u64, page: &Page<'_>) -> Result<(), Reason> {
        let impossible = || {
            Reason::malformed(format!(
                "the Ogg page at byte {} says frame {granule}, which its packets do not bear out",
                page.offset
            ))
        };
        if granule >= 1 << 62 {
            return Err(impossible());
        }
        if page.is_last() {
            self.last = Some(granule);
            // The end of a stream of one page is cut, not its start.
            self.origin.get_or_insert(granule.saturating_sub(self.n_frames));
            return Ok(());
        }
        let origin = match self.origin {
            Some(origin) => origin,
            None => granule.checked_sub(self.n_frames).ok_or_else(impossible)?,
        };
        self.origin = Some(origin);
        // More frames than there are packets for were lost before this stream was written.
        match (origin + self.n_frames).cmp(&granule) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(Reason::CorruptPackets { count: 1 }),
            std::cmp::Ordering::Greater => Err(impossible()),
        }
    }

    /// The granule of the first playable frame.
    fn start(&self, head: &Head) -> u64 {
        self.origin.unwrap_or(0) + head.pre_skip
    }

    /// The granule behind the last packet.
    pub(super) fn end(&self) -> u64 {
        self.origin.unwrap_or(0) + self.n_frames
    }
}

impl OpusLayout {
    /// The last page that begins early enough for playable frame `start`.
    pub(super) fn entry(&self, pages: &[PageRef], start: u64) -> Option<PageRef> {
        let wanted =
            (start + self.played.start).checked_sub(pre_roll(&self.head, self.has_silk))?;
        let n_before = pages.partition_point(|page| page.end <= wanted);
        let before = pages.get(1..n_before)?;
        before.iter().rev().find(|page| page.is_entry).copied()
    }

    /// Decodes from `entry` until the place is full or the stream ends.
    pub(super) fn decode(
        &self,
        bytes: &[u8],
        group: Group,
        entry: Option<PageRef>,
        place: &mut LinkSink<'_, '_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let mut decoder = PacketDecoder::new(&self.head)?;
        if place.is_lenient() {
            let mut walk = Walk::new(bytes, group, None);
            walk.headers(2)?;
            let mut salvage = Salvage { head: &self.head, decoder };
            let intact = Intact::behind(&walk);
            let counts = (!self.is_salvaged, self.is_counted);
            let origin = self.origin as i64;
            return salvage::decode(intact, &mut salvage, origin, counts, place, cancel);
        }
        let mut walk = Walk::new(bytes, group, Some(entry.map_or(self.audio, |e| e.offset)));
        let mut position = entry.map_or(self.origin, |e| e.end);
        // Packets that end before the pre-roll are not decoded, unless decoding is from the start.
        let needed =
            entry.map_or(0, |_| place.next().saturating_sub(pre_roll(&self.head, self.has_silk)));
        let mut joiner = Joiner::default();
        let mut n_corrupt = 0;
        'pages: while let Ok(page) = walk.next() {
            cancel.check()?;
            if !page.is_intact() {
                return Err(Reason::CorruptPackets { count: page.n_packets().max(1) as u64 });
            }
            for (i, piece) in page.pieces().enumerate() {
                let Some(packet) = joiner.add(&page, i, piece)? else { continue };
                if is_header(packet) {
                    continue;
                }
                let end = position + packet_len(packet).map_or(0, u64::from);
                if end > needed {
                    match decoder.decode(packet) {
                        Some(planes) => place.push(position as i64, planes),
                        None => n_corrupt += 1,
                    }
                }
                position = end;
                if place.is_full() {
                    break 'pages;
                }
            }
            // A mark of the end may be false.
            if page.is_last() && !(self.is_counted && walk.goes_on()) {
                break;
            }
        }
        match n_corrupt {
            0 => Ok(()),
            count => Err(Reason::CorruptPackets { count }),
        }
    }
}
