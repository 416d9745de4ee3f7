//! From the first page to the last: headers, timeline, and where decoding can begin.

use std::ops::Range;

use super::{
    page::{NoPage, Page, PageRef, find_capture},
    setup::{Ident, Modes},
};
use crate::audio::{error::Reason, spec::MAX_CHANNELS};

/// What the walk over all pages found.
#[derive(Clone, Debug)]
pub(in crate::audio) struct Layout {
    pub(super) ident: Ident,
    pub(super) modes: Option<Modes>,
    pub(super) serial: u32,
    /// Identification and setup header, one after the other: what the decoder is made from.
    pub(super) headers: Box<[u8]>,
    /// Where the first page with audio begins.
    pub(super) audio: usize,
    /// The granule of the first decoded frame, below 0 if the encoder added some.
    pub(super) origin: i64,
    /// The granule range that can be played.
    pub(super) played: Range<u64>,
}

impl Layout {
    pub(in crate::audio) fn rate_hz(&self) -> u32 {
        self.ident.rate_hz
    }

    pub(in crate::audio) fn n_channels(&self) -> u16 {
        self.ident.n_channels
    }

    pub(in crate::audio) fn n_frames(&self) -> u64 {
        self.played.end - self.played.start
    }
}

/// Walks all pages of the Vorbis stream at `offset`; its audio pages are listed in `pages`.
///
/// # Errors
/// Another codec, headers that do not parse, missing pages, a missing end.
pub(in crate::audio) fn open(
    bytes: &[u8],
    offset: usize,
    pages: &mut Vec<PageRef>,
) -> Result<Layout, Reason> {
    pages.clear();
    let serial = find_serial(bytes, offset)?;
    let mut walk = Walk::new(bytes, offset, serial);
    let (ident_packet, setup) = walk.headers()?;
    let ident = Ident::read(&ident_packet)?;
    if ident.n_channels == 0 || ident.n_channels > MAX_CHANNELS {
        let n = ident.n_channels;
        return Err(Reason::Limit(format!("{n} channels are not within 1 and {MAX_CHANNELS}")));
    }
    let modes = Modes::read(&setup);
    let audio = walk.at;
    let mut first = FirstPage::default();
    let mut n_packets = 0u64;
    let mut is_monotonic = true;
    let mut end = 0;
    let ended = loop {
        match walk.next() {
            Ok(page) => {
                if first.end.is_none() {
                    first.add(&page, modes, &ident);
                }
                n_packets += page.n_packets() as u64;
                if let Some(granule) = page.granule {
                    is_monotonic &= granule >= end;
                    end = granule;
                }
                let fresh = page.n_packets() > usize::from(page.is_continued());
                let is_entry = page.granule.is_some() && fresh && !page.is_last();
                pages.push(PageRef { offset: page.offset, end, is_entry });
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
    if !ended {
        return Err(Reason::Truncated { decoded: end, expected: None });
    }
    if walk.is_chained() {
        return Err(Reason::UnsupportedCodec("a chain of several Ogg streams".to_owned()));
    }
    // Each packet gives at most half of two long blocks.
    let [_, long] = ident.block_lens;
    let start = first.origin().max(0) as u64;
    if !is_monotonic || end.saturating_sub(start) > n_packets * u64::from(long / 2) {
        return Err(Reason::malformed("the page granules are impossible"));
    }
    Ok(Layout {
        ident,
        modes,
        serial,
        headers: [ident_packet, setup].concat().into(),
        audio,
        origin: first.origin(),
        played: start.min(end)..end,
    })
}

/// The serial number of the first Vorbis stream among those that begin at `offset`.
fn find_serial(bytes: &[u8], offset: usize) -> Result<u32, Reason> {
    let mut at = offset;
    let mut other = None;
    while let Ok(page) = Page::read(bytes, at) {
        if !page.is_first() {
            break;
        }
        let packet = page.pieces().next().map_or(&[][..], |(piece, _)| piece);
        match packet {
            [1, b'v', b'o', b'r', b'b', b'i', b's', ..] => return Ok(page.serial),
            [b'O', b'p', b'u', b's', b'H', b'e', b'a', b'd', ..] => other = Some("Opus in Ogg"),
            [b'S', b'p', b'e', b'e', b'x', ..] => other = Some("Speex"),
            [0x80, b't', b'h', b'e', b'o', ..] => other = Some("Theora"),
            _ => other = other.or(Some("another codec in Ogg")),
        }
        at = page.end();
    }
    Err(match other {
        Some(name) => Reason::UnsupportedCodec(name.to_owned()),
        None => Reason::malformed("the first Ogg page does not parse"),
    })
}

/// The pages of one logical stream.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    serial: u32,
    pub(super) at: usize,
    sequence: Option<u32>,
    /// Pages that are missing or unreadable.
    pub(super) n_lost: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize, serial: u32) -> Self {
        Self { bytes, serial, at, sequence: None, n_lost: 0 }
    }

    /// The next page of the stream. Junk is skipped and counted.
    pub(super) fn next(&mut self) -> Result<Page<'a>, NoPage> {
        loop {
            match Page::read(self.bytes, self.at) {
                Ok(page) => {
                    self.at = page.end();
                    if page.serial != self.serial {
                        continue;
                    }
                    let expected = self.sequence.map(|n| n.wrapping_add(1));
                    self.n_lost += u64::from(expected.is_some_and(|n| n != page.sequence));
                    self.sequence = Some(page.sequence);
                    return Ok(page);
                }
                Err(NoPage::Junk) => {
                    self.at = find_capture(self.bytes, self.at).ok_or(NoPage::Junk)?;
                    self.n_lost += 1;
                }
                Err(end) => return Err(end),
            }
        }
    }

    /// Identification and setup header. Audio begins on the page after them.
    fn headers(&mut self) -> Result<(Vec<u8>, Vec<u8>), Reason> {
        let broken = |why: &str| Reason::malformed(format!("the Vorbis headers {why}"));
        let mut packets = vec![Vec::new()];
        while packets.len() <= 3 {
            let page = self.next().map_err(|_| broken("are incomplete"))?;
            if !page.is_intact() {
                return Err(broken("have a wrong checksum"));
            }
            for (piece, ends) in page.pieces() {
                if let Some(packet) = packets.last_mut() {
                    packet.extend_from_slice(piece);
                }
                if ends {
                    packets.push(Vec::new());
                }
            }
        }
        let mut packets = packets.into_iter();
        match (packets.next(), packets.next(), packets.next(), packets.next()) {
            (Some(ident), Some(comment), Some(setup), Some(rest))
                if ident.starts_with(b"\x01vorbis")
                    && comment.starts_with(b"\x03vorbis")
                    && setup.starts_with(b"\x05vorbis")
                    && rest.is_empty() =>
            {
                Ok((ident, setup))
            }
            _ => Err(broken("are out of order")),
        }
    }

    /// Whether another stream begins behind the end.
    pub(super) fn is_chained(&self) -> bool {
        Page::read(self.bytes, self.at).is_ok_and(|page| page.is_first())
    }
}

/// The first granule, against the lengths of the packets before it, tells where time begins.
#[derive(Default)]
struct FirstPage {
    n_frames: i64,
    previous: Option<u32>,
    end: Option<(u64, bool)>,
    piece: Option<u32>,
    unknown: bool,
}

impl FirstPage {
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
        self.end = page.granule.map(|granule| (granule, page.is_last()));
    }

    /// The granule of the first decoded frame.
    fn origin(&self) -> i64 {
        match self.end {
            // The end of a stream of one page is cut, not its start.
            Some((granule, false)) if !self.unknown => granule as i64 - self.n_frames,
            _ => 0,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::audio::ogg::crc;

    const FIRST: u8 = 2;
    const LAST: u8 = 4;

    pub(in crate::audio::ogg) fn page(
        sequence: u32,
        flags: u8,
        granule: u64,
        packets: &[&[u8]],
    ) -> Vec<u8> {
        let mut lacing = Vec::new();
        for packet in packets {
            lacing.extend(vec![255; packet.len() / 255]);
            lacing.push((packet.len() % 255) as u8);
        }
        let mut page = [b"OggS\0", &[flags][..], &granule.to_le_bytes()].concat();
        page.extend([7u32, sequence, 0].iter().flat_map(|n| n.to_le_bytes()));
        page.push(lacing.len() as u8);
        page.extend(lacing);
        page.extend(packets.concat());
        let crc = crc::update(0, &page);
        page[22..26].copy_from_slice(&crc.to_le_bytes());
        page
    }

    /// Blocks of 256 and 2048 frames, 32 kHz, mono.
    fn ident() -> Vec<u8> {
        let mut ident = b"\x01vorbis\0\0\0\0\x01".to_vec();
        ident.extend(32_000u32.to_le_bytes());
        ident.extend([0; 12]);
        ident.extend([0xB8, 1]);
        ident
    }

    /// The end of a setup header with a short and a long mode, behind some other bits.
    fn setup() -> Vec<u8> {
        let mut bits = vec![true, false, true, true, false];
        bits.extend([true, false, false, false, false, false]); // two modes, less one
        for is_long in [false, true] {
            bits.push(is_long);
            bits.extend([false; 40]);
        }
        bits.push(true);
        let bytes = bits.chunks(8).map(|byte| {
            byte.iter().enumerate().fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i)
        });
        b"\x05vorbis".iter().copied().chain(bytes).collect()
    }

    const SHORT: &[u8] = &[0b00, 9, 9];
    const LONG: &[u8] = &[0b10, 9, 9];

    fn headers() -> Vec<u8> {
        [page(0, FIRST, 0, &[&ident()]), page(1, 0, 0, &[b"\x03vorbis", &setup()])].concat()
    }

    fn length(pages: &[Vec<u8>]) -> Result<u64, Reason> {
        let bytes = [headers(), pages.concat()].concat();
        open(&bytes, 0, &mut Vec::new()).map(|layout| layout.n_frames())
    }

    #[test]
    fn modes_are_found_from_the_end() {
        let ident = Ident::read(&ident()).unwrap();
        let modes = Modes::read(&setup()).unwrap();
        assert_eq!(modes.block_len(SHORT, &ident), Some(256));
        assert_eq!(modes.block_len(LONG, &ident), Some(2048));
        assert_eq!(modes.block_len(&[1], &ident), None);
        assert_eq!(modes.block_len(&[], &ident), None);
    }

    #[test]
    fn time_begins_where_the_first_page_says() {
        // Long after long gives 1024 frames, long after short 576.
        let whole = [page(2, 0, 2048, &[LONG, LONG, LONG]), page(3, LAST, 3000, &[LONG])];
        assert_eq!(length(&whole), Ok(3000));
        let delayed = [page(2, 0, 2000, &[LONG, LONG, LONG]), page(3, LAST, 3000, &[LONG])];
        assert_eq!(length(&delayed), Ok(3000));
        let later = [page(2, 0, 5576, &[SHORT, LONG]), page(3, LAST, 6600, &[LONG])];
        assert_eq!(length(&later), Ok(1600));
        assert_eq!(length(&[page(2, LAST, 700, &[LONG, LONG])]), Ok(700));
    }

    #[test]
    fn damage_is_found_without_decoding() {
        let (first, last) = (page(2, 0, 1024, &[LONG, LONG]), page(3, LAST, 2048, &[LONG]));
        assert_eq!(length(&[first.clone(), last.clone()]), Ok(2048));
        let missing = Reason::Truncated { decoded: 1024, expected: None };
        assert_eq!(length(std::slice::from_ref(&first)), Err(missing));
        let cut = last[..last.len() - 1].to_vec();
        let expected = Some(2048);
        assert_eq!(
            length(&[first.clone(), cut]),
            Err(Reason::Truncated { decoded: 1024, expected })
        );
        let hole = page(4, LAST, 2048, &[LONG]);
        assert_eq!(length(&[first.clone(), hole]), Err(Reason::CorruptPackets { count: 1 }));
        let junk = vec![0x55; 100];
        let torn = length(&[first.clone(), junk, last.clone()]);
        assert_eq!(torn, Err(Reason::CorruptPackets { count: 1 }));
        let lie = page(3, LAST, 1 << 40, &[LONG]);
        assert!(matches!(length(&[first.clone(), lie]), Err(Reason::MalformedHeader(_))));
        assert!(matches!(length(&[first, last, headers()]), Err(Reason::UnsupportedCodec(_))));
    }

    #[test]
    fn other_codecs_are_named() {
        let opus = page(0, FIRST, 0, &[b"OpusHead"]);
        let error = open(&opus, 0, &mut Vec::new()).unwrap_err();
        assert_eq!(error, Reason::UnsupportedCodec("Opus in Ogg".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn mutated_streams_end_in_a_layout_or_an_error(
            changes in proptest::collection::vec((0usize..400, proptest::num::u8::ANY), 0..6),
            cut in 0usize..400,
        ) {
            let pages = [page(2, 0, 2048, &[LONG, LONG, LONG]), page(3, LAST, 3000, &[LONG])];
            let mut bytes = [headers(), pages.concat()].concat();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Ok(layout) = open(&bytes, 0, &mut Vec::new()) {
                proptest::prop_assert!(layout.n_frames() <= 4096 * bytes.len() as u64);
            }
        }
    }
}
