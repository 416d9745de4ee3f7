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
            [0x7F, b'F', b'L', b'A', b'C', ..] => other = Some("FLAC in Ogg"),
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
    n_lost: u64,
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
    fn is_chained(&self) -> bool {
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
