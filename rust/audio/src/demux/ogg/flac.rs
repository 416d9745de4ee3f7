//! FLAC in Ogg: one frame a packet, so nothing has to be searched.
//!
//! The mapping is that of <https://xiph.org/flac/ogg_mapping.html>: the first packet holds
//! STREAMINFO, each other header packet one metadata block.

use super::{
    count::is_late,
    page::{NoPage, Page, Pieces},
    walk::{Group, Walk},
};
use crate::{
    bytes::from,
    cancel::Cancel,
    codec::flac::{Feed, Header, StreamInfo},
    demux::flac::Timeline,
    error::Reason,
    memory,
    report::{Damage, Ledger, Note},
    sink::Sink,
    stream::{Outcome, Tally},
};

/// Longer packets hold metadata at most: eight channels of the longest blocks are 3 MB.
const MAX_PACKET: usize = 16 << 20;

/// STREAMINFO, and where each page's first frame begins.
#[derive(Clone, Debug)]
pub(crate) struct FlacLayout {
    pub(crate) info: StreamInfo,
    pub(crate) n_frames: u64,
    timeline: Timeline,
    /// The PCM frames that the numbers count before the first frame.
    base: u64,
    serial: u32,
    /// The offset of a page on which a frame begins, and the PCM frames before that frame.
    pages: Vec<(usize, u64)>,
}

/// The serial number of the first FLAC stream among those that begin at `offset`.
pub(crate) fn find_flac(bytes: &[u8], offset: usize) -> Option<u32> {
    let mut at = offset;
    while let Ok(page) = Page::read(bytes, at) {
        if !page.is_first() {
            break;
        }
        if page.pieces().next().is_some_and(|(packet, _)| packet.starts_with(b"\x7FFLAC")) {
            return Some(page.serial);
        }
        at = page.end();
    }
    None
}

/// Walks all pages of the stream, and reads the header of every frame.
///
/// # Errors
/// Headers that do not parse, missing pages or frames, a missing end.
pub(crate) fn open_flac(
    bytes: &[u8],
    offset: usize,
    serial: u32,
    cancel: &Cancel,
    ledger: &mut Ledger,
) -> Result<FlacLayout, Reason> {
    let mut packets = Packets::new(bytes, offset, serial);
    if ledger.is_lenient() {
        // What damaged pages say of time is not to be believed.
        packets.check = |page| page.is_intact();
    }
    let head =
        packets.next().map_err(|_| Reason::malformed("the first Ogg page does not parse"))?;
    // Signature, version 1.x, a count of headers, the marker of native FLAC, a block header.
    let is_head =
        matches!(head.data, [0x7F, b'F', b'L', b'A', b'C', 1, _, _, _, b'f', b'L', b'a', b'C', ..]);
    let info = StreamInfo::parse(from(head.data, 17)).filter(|_| is_head);
    let mut info =
        info.ok_or_else(|| Reason::malformed("the first Ogg packet is no FLAC header"))?;
    let mut timeline = None;
    let mut found = Found::default();
    let (mut base, mut n_before) = (0, 0);
    let no_page = loop {
        cancel.check()?;
        let packet = match packets.next() {
            Ok(packet) => packet,
            Err(no_page) => break no_page,
        };
        // Metadata blocks have their type there.
        if timeline.is_none() && packet.data.first() != Some(&0xFF) {
            continue;
        }
        let header = Header::parse(packet.data).filter(|_| packet.is_intact);
        let Some(header) = header else {
            found.n_bad += 1;
            continue;
        };
        let timeline = if let Some(timeline) = timeline {
            timeline
        } else {
            info.agree(&header)?;
            let timeline = *timeline.insert(Timeline::new(&info, &header));
            // Where nothing is lost, the first frame begins the recording: a cut, or a broadcast that
            // was joined late.
            n_before = u64::from(packet.n_lost == 1 && is_late(packet.n_ahead));
            let is_beginning = found.n_bad + packet.n_lost == n_before;
            base = if is_beginning { timeline.pts(&header, 0) } else { 0 };
            if base > 0 || n_before > 0 {
                let reason = Reason::malformed("the beginning of the stream is missing");
                ledger.remark(Note::LateStart, 1, reason)?;
            }
            timeline
        };
        let pts = timeline.pts(&header, found.end).saturating_sub(base);
        found.add(packet.page, pts, u64::from(header.n_frames))?;
    };
    let n_pages = packets.walk.n_lost - n_before;
    if n_pages == 0 && found.n_bad == 0 && found.n_back > 0 {
        // No page is missing, and so no frame: their numbers are wrong.
        let reason = Reason::malformed("the numbers of the frames begin again");
        ledger.remark(Note::Timestamps, found.n_back, reason)?;
        timeline = Some(Timeline::Counted);
        found = Found { end: found.n_frames, pages: found.counted, ..Found::default() };
    }
    let Found { end, pages, n_bad, n_ahead, n_back, .. } = found;
    let mut n_lost = n_bad + n_ahead + n_back;
    if n_lost == 0 {
        // Frames that follow each other say that no page is missing.
        let reason = Reason::CorruptPackets { count: n_pages };
        ledger.remark(Note::PageNumbers, n_pages, reason)?;
    } else {
        n_lost += n_pages;
    }
    let expected = Some(info.promised).filter(|&promised| promised > 0);
    let is_cut = matches!(no_page, NoPage::Cut(_));
    packets.walk.junk.remark(ledger)?;
    if n_lost > 0 && !is_cut {
        ledger.lose(Damage::LostPages, n_lost, Reason::CorruptPackets { count: n_lost })?;
    }
    let truncated = Reason::Truncated { decoded: end, expected };
    let is_short = expected.is_some_and(|promised| promised > end);
    let is_lost = is_cut || is_short && !packets.ended;
    if is_lost {
        ledger.lose(Damage::Truncated, 1, truncated)?;
    } else {
        // Behind the mark of the end nothing is missing, and a count that is met needs no mark.
        let is_odd = expected.is_some_and(|promised| promised != end);
        ledger.remark(Note::HeaderLength, u64::from(is_odd), truncated.clone())?;
        ledger.remark(Note::EndMark, packets.n_marks + u64::from(!packets.ended), truncated)?;
    }
    if !is_cut && packets.walk.is_chained() {
        return Err(Reason::UnsupportedCodec("a chain of several Ogg streams".to_owned()));
    }
    let n_frames = if is_lost { end.max(info.promised) } else { end };
    let timeline = timeline.unwrap_or(Timeline::Counted);
    Ok(FlacLayout { info, n_frames, timeline, base, serial, pages })
}

/// What the frames of all pages say of time.
#[derive(Default)]
struct Found {
    /// The PCM frame behind the last one, by the numbers.
    end: u64,
    /// PCM frames of all.
    n_frames: u64,
    /// Pages and the PCM frames before them, by the numbers and counted.
    pages: Vec<(usize, u64)>,
    counted: Vec<(usize, u64)>,
    /// Packets that are no frames.
    n_bad: u64,
    /// Numbers that jump ahead, and those that go back.
    n_ahead: u64,
    n_back: u64,
}

impl Found {
    /// Adds a frame that begins on `page` and is numbered as PCM frame `pts`.
    fn add(&mut self, page: usize, pts: u64, n_frames: u64) -> Result<(), Reason> {
        self.n_ahead += u64::from(pts > self.end);
        self.n_back += u64::from(pts < self.end);
        if self.pages.last().is_none_or(|&(last, _)| last != page) {
            memory::push(&mut self.pages, (page, pts))?;
            memory::push(&mut self.counted, (page, self.n_frames))?;
        }
        self.end = pts + n_frames;
        self.n_frames += n_frames;
        Ok(())
    }
}

/// Decodes from PCM frame `start` until the sink is full.
pub(crate) fn decode_flac(
    bytes: &[u8],
    layout: &FlacLayout,
    start: u64,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let n_before = layout.pages.partition_point(|&(_, pts)| pts <= start);
    let Some(&(page, first)) = layout.pages.get(n_before.saturating_sub(1)) else { return Ok(()) };
    let mut packets =
        Packets { check: |page| page.is_intact(), ..Packets::new(bytes, page, layout.serial) };
    let mut feed = Feed::new(layout.info);
    let mut tally = Tally::default();
    let mut end = first;
    let mut has_begun = false;
    while !sink.is_full() {
        cancel.check()?;
        let Ok(packet) = packets.next() else { break };
        let Some(header) = Header::parse(packet.data) else {
            // Metadata comes before the first frame only.
            if has_begun {
                tally.add(Outcome::WrongChecksum);
            }
            continue;
        };
        has_begun = true;
        let pts = layout.timeline.pts(&header, end).saturating_sub(layout.base);
        end = pts + u64::from(header.n_frames);
        if end <= sink.next() {
            continue;
        }
        tally.add(if packet.is_intact {
            feed.push(&header, pts as i64, packet.data, sink)?
        } else {
            Outcome::WrongChecksum
        });
    }
    tally.finish(sink)
}

/// The packets of one stream, put together where they cross pages.
struct Packets<'a> {
    walk: Walk<'a>,
    pieces: Pieces<'a>,
    /// Where the page of the next piece begins.
    page: usize,
    /// Whether the next piece continues a packet.
    continues: bool,
    is_page_intact: bool,
    /// Whether a page is intact, as far as the caller cares.
    check: fn(&Page<'_>) -> bool,
    ended: bool,
    /// Marks of the end before it.
    n_marks: u64,
    carry: Vec<u8>,
}

struct Packet<'a> {
    data: &'a [u8],
    /// The offset of the page on which it begins.
    page: usize,
    is_intact: bool,
    /// Pages that are missing before it ends.
    n_lost: u64,
    /// How many are missing where some were missed last.
    n_ahead: u32,
}

impl<'a> Packets<'a> {
    fn new(bytes: &'a [u8], at: usize, serial: u32) -> Self {
        Self {
            walk: Walk::new(bytes, Group { serial, at, end: usize::MAX }, None),
            pieces: Pieces::default(),
            page: at,
            continues: false,
            is_page_intact: true,
            check: |_| true,
            ended: false,
            n_marks: 0,
            carry: Vec::new(),
        }
    }

    fn next(&mut self) -> Result<Packet<'_>, NoPage> {
        let mut begun = None;
        let mut is_intact = true;
        self.carry.clear();
        loop {
            let Some((piece, ends)) = self.pieces.next() else {
                self.turn()?;
                continue;
            };
            let continues = std::mem::take(&mut self.continues);
            if continues && begun.is_none() {
                continue; // the end of a packet that began before the first page
            }
            if !continues {
                // What was begun and is not continued is lost, as the page after it is.
                begun = None;
                self.carry.clear();
                if ends && piece.is_empty() {
                    continue; // FFmpeg has such a packet behind the last frame
                }
            }
            is_intact = self.is_page_intact && (is_intact || !continues);
            if ends && begun.is_none() {
                let Walk { n_lost, n_ahead, .. } = self.walk;
                return Ok(Packet { data: piece, page: self.page, is_intact, n_lost, n_ahead });
            }
            let page = *begun.get_or_insert(self.page);
            if self.carry.len() <= MAX_PACKET {
                self.carry.extend_from_slice(piece);
            } else {
                is_intact = false; // no frame is as long
            }
            if ends {
                let Walk { n_lost, n_ahead, .. } = self.walk;
                return Ok(Packet { data: &self.carry, page, is_intact, n_lost, n_ahead });
            }
        }
    }

    /// Goes to the next page.
    fn turn(&mut self) -> Result<(), NoPage> {
        if self.ended {
            return Err(NoPage::End);
        }
        let page = self.walk.next()?;
        // A mark of the end may be false.
        self.ended = page.is_last() && !self.walk.goes_on();
        self.n_marks += u64::from(page.is_last() && !self.ended);
        self.page = page.offset;
        self.continues = page.is_continued();
        self.is_page_intact = (self.check)(&page);
        self.pieces = page.pieces();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{demux::flac::test_frame, demux::ogg::tests::page, sink::Mix};

    const FIRST: u8 = 2;
    const LAST: u8 = 4;

    fn head(promised: u32) -> Vec<u8> {
        let mut head = b"\x7FFLAC\x01\0\0\x01fLaC\0\0\0\x22\x01\0\x01\0\0\0\0\0\0\0".to_vec();
        head.extend([0x0A, 0xC4, 0x40, 0xF0]);
        head.extend(promised.to_be_bytes());
        head.extend([0; 16]);
        page(0, FIRST, 0, &[&head])
    }

    /// Six frames on three pages, behind a comment.
    fn stream(promised: u32) -> Vec<Vec<u8>> {
        let frames: Vec<_> = (0..6).map(|n| test_frame(n, i16::from(n) * 1000)).collect();
        let pair = |i: usize| [&frames[i][..], &frames[i + 1][..]];
        let comment = page(1, 0, 0, &[b"\x84\0\0\x08\0\0\0\0\0\0\0\0"]);
        let pages =
            [page(2, 0, 512, &pair(0)), page(3, 0, 1024, &pair(2)), page(4, LAST, 1536, &pair(4))];
        [vec![head(promised), comment], pages.to_vec()].concat()
    }

    fn open(bytes: &[u8]) -> Result<FlacLayout, Reason> {
        let serial = find_flac(bytes, 0).expect("a first page");
        open_flac(bytes, 0, serial, &Cancel::default(), &mut Ledger::default())
    }

    #[test]
    fn crops_begin_on_the_page_that_has_them() {
        let bytes = stream(0).concat();
        let layout = open(&bytes).unwrap();
        assert_eq!((layout.n_frames, layout.pages.len()), (1536, 3));
        for start in [0, 255, 256, 700, 1024, 1535] {
            let mut out = vec![0.0; (1536 - start).min(300)];
            let len = out.len();
            let mut sink = Sink::new(&mut out, len, Mix::Take, start as u64, len);
            decode_flac(&bytes, &layout, start as u64, &mut sink, &Cancel::default()).unwrap();
            assert!(sink.is_full());
            for (i, x) in out.iter().enumerate() {
                let want = ((start + i) / 256) as f32 * 1000.0 / 32_768.0;
                assert_eq!(x.to_bits(), want.to_bits());
            }
        }
    }

    #[test]
    fn empty_packets_say_nothing() {
        let mut pages = stream(0);
        let frames: Vec<_> = (4..6).map(|n| test_frame(n, i16::from(n) * 1000)).collect();
        pages[4] = page(4, LAST, 1536, &[&frames[0], &[], &frames[1], &[]]);
        let bytes = pages.concat();
        let layout = open(&bytes).unwrap();
        assert_eq!(layout.n_frames, 1536);
        let mut out = vec![0.0; 512];
        let mut sink = Sink::new(&mut out, 512, Mix::Take, 1024, 512);
        decode_flac(&bytes, &layout, 1024, &mut sink, &Cancel::default()).unwrap();
        assert!(sink.is_full());
    }

    #[test]
    fn a_stream_that_was_joined_late_begins_with_its_first_frame() {
        let frames: Vec<_> = (70..74).map(|n| test_frame(n, i16::from(n))).collect();
        let last = page(2, LAST, 74 * 256, &[&frames[0], &frames[1], &frames[2], &frames[3]]);
        let start = |promised| [stream(promised)[..2].concat(), last.clone()].concat();
        let layout = open(&start(0)).unwrap();
        assert_eq!(layout.n_frames, 1024);
        let mut out = vec![0.0; 256];
        let mut sink = Sink::new(&mut out, 256, Mix::Take, 512, 256);
        decode_flac(&start(0), &layout, 512, &mut sink, &Cancel::default()).unwrap();
        assert!(out.iter().all(|x| x.to_bits() == (72.0f32 / 32_768.0).to_bits()));
        // A count of all that was there once takes nothing away.
        assert_eq!(open(&start(74 * 256)).unwrap().n_frames, 1024);
    }

    #[test]
    fn what_is_missing_is_told() {
        let n_frames = |pages: &[Vec<u8>]| open(&pages.concat()).map(|layout| layout.n_frames);
        assert_eq!(n_frames(&stream(1536)), Ok(1536));
        assert_eq!(n_frames(&stream(1000)), Ok(1536));
        // The mark of the end says that no more was written, and where no count and no number of a
        // page says otherwise, nothing is missing without it.
        assert_eq!(n_frames(&stream(2000)), Ok(1536));
        assert_eq!(n_frames(&stream(0)[..4]), Ok(1024));
        let expected = Some(2000);
        let cut = Reason::Truncated { decoded: 1024, expected };
        assert_eq!(n_frames(&stream(2000)[..4]), Err(cut));
        let missing = Reason::Truncated { decoded: 1024, expected: None };
        assert_eq!(n_frames(&[&stream(0)[..4], &[vec![0x4F, 0x67, 0x67]]].concat()), Err(missing));
        let mut hole = stream(0);
        hole.remove(3);
        assert_eq!(n_frames(&hole), Err(Reason::CorruptPackets { count: 2 }));
    }

    proptest::proptest! {
        #[test]
        fn mutated_streams_end_in_frames_or_an_error(
            changes in proptest::collection::vec((0usize..400, proptest::num::u8::ANY), 0..6),
            cut in 0usize..400,
        ) {
            let mut bytes = stream(0).concat();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let Some(serial) = find_flac(&bytes, 0) else { return Ok(()) };
            if let Ok(layout) = open_flac(&bytes, 0, serial, &Cancel::default(), &mut Ledger::default()) {
                proptest::prop_assert!(layout.n_frames <= 65_536 * bytes.len() as u64);
                let mut out = [0.0; 8 * 300];
                let mut sink = Sink::new(&mut out, 300, Mix::Take, 300, 300);
                let _ = decode_flac(&bytes, &layout, 300, &mut sink, &Cancel::default());
            }
        }
    }
}
