//! An Ogg file: one stream, or a chain of several that follow each other and play as one.

use super::{
    link_sink::LinkSink,
    opus,
    page::{Page, PageRef, fetch_headers},
    stream,
    walk::{Group, Walk},
};
use crate::{
    cancel::Cancel,
    codec::vorbis,
    error::Reason,
    names::Codec,
    report::{Damage, Ledger},
    sink::Sink,
};

/// What the walk over all pages found.
#[derive(Clone, Debug)]
pub(crate) struct ChainLayout {
    pub(crate) codec: Codec,
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    pub(crate) n_frames: u64,
    links: Vec<Link>,
}

/// One stream of a chain.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The number of its first frame in the recording.
    first: u64,
    n_frames: u64,
    group: Group,
    /// Its part of the list of pages.
    pages: std::ops::Range<usize>,
    pub(super) stream: Stream,
}

#[derive(Clone, Debug)]
pub(super) enum Stream {
    Vorbis(stream::VorbisLayout),
    Opus(opus::OpusLayout),
}

impl Stream {
    fn params(&self) -> (Codec, u32, u16) {
        match self {
            Self::Vorbis(s) => (Codec::Vorbis, s.ident.rate_hz, s.ident.n_channels),
            Self::Opus(s) => (Codec::Opus, crate::codec::opus::RATE_HZ, s.head.n_channels),
        }
    }

    fn n_frames(&self) -> u64 {
        let played = match self {
            Self::Vorbis(s) => &s.played,
            Self::Opus(s) => &s.played,
        };
        played.end - played.start
    }
}

impl ChainLayout {
    /// The stream, if there is only one.
    pub(super) fn only(&self) -> Option<&Link> {
        match self.links.as_slice() {
            [link] => Some(link),
            _ => None,
        }
    }
}

/// The codec that the first group holds, as far as its first pages tell.
pub(crate) fn codec(bytes: &[u8], offset: usize) -> Option<Codec> {
    find_group(bytes, offset).ok().map(|(_, codec)| codec)
}

/// Walks all pages of the file from `offset` on; the audio pages are listed in `pages`.
///
/// # Errors
/// Another codec, headers that do not parse, missing pages, a missing end.
pub(crate) fn open(
    bytes: &[u8],
    offset: usize,
    pages: &mut Vec<PageRef>,
    ledger: &mut Ledger,
) -> Result<ChainLayout, Reason> {
    pages.clear();
    fetch_headers(bytes);
    let mut links: Vec<Link> = Vec::new();
    let mut next = Some(offset);
    let mut n_frames = 0;
    while let Some(at) = next {
        let (group, codec) = find_group(bytes, at)?;
        let first_page = pages.len();
        let mut walk = Walk::new(bytes, group, None);
        let begun = walk.clone();
        let mut stream = match codec {
            Codec::Opus => opus::open(&mut walk, pages, ledger).map(Stream::Opus),
            _ => stream::open(&mut walk, pages, ledger).map(Stream::Vorbis),
        };
        if ledger.is_lenient() && stream.as_ref().is_err_and(Reason::is_damage) {
            pages.truncate(first_page);
            walk = begun;
            stream = match codec {
                Codec::Opus => opus::salvage(&mut walk, ledger).map(Stream::Opus),
                _ => stream::salvage(&mut walk, ledger).map(Stream::Vorbis),
            };
        }
        let stream = stream.map_err(|reason| match reason {
            // Frames are counted from the start of the file.
            Reason::Truncated { decoded, expected } => Reason::Truncated {
                decoded: decoded.saturating_add(n_frames),
                expected: expected.map(|n| n.saturating_add(n_frames)),
            },
            other => other,
        });
        let stream = match stream {
            // The links before it are whole.
            Err(reason) if !links.is_empty() && reason.is_damage() => {
                ledger.lose(Damage::Truncated, 1, reason)?;
                break;
            }
            stream => stream?,
        };
        if links.first().is_some_and(|link| link.stream.params() != stream.params()) {
            ledger.lose(Damage::ParamsChanged, 1, Reason::ParamsChanged)?;
            break;
        }
        let (first, pages) = (n_frames, first_page..pages.len());
        n_frames += stream.n_frames();
        links.push(Link { first, n_frames: stream.n_frames(), group, pages, stream });
        next = walk.next_group(n_frames, ledger)?;
    }
    let (codec, rate_hz, n_channels) = links
        .first()
        .map(|link| link.stream.params())
        .ok_or_else(|| Reason::malformed("there is no Ogg page"))?;
    Ok(ChainLayout { codec, rate_hz, n_channels, n_frames, links })
}

/// The first stream that is decoded here among those that begin at `offset`.
fn find_group(bytes: &[u8], offset: usize) -> Result<(Group, Codec), Reason> {
    let mut end = offset;
    let mut found = None;
    let mut other = None;
    while let Ok(page) = Page::read(bytes, end) {
        if !page.is_first() {
            break;
        }
        let packet = page.pieces().next().map_or(&[][..], |(piece, _)| piece);
        let codec = match packet {
            [1, b'v', b'o', b'r', b'b', b'i', b's', ..] => Some(Codec::Vorbis),
            [b'O', b'p', b'u', b's', b'H', b'e', b'a', b'd', ..] => Some(Codec::Opus),
            _ => None,
        };
        match codec {
            Some(codec) => found = found.or(Some((page.serial, page.offset, codec))),
            None => other = other.or(Some(other_codec(packet))),
        }
        end = page.end();
    }
    match (found, other) {
        (Some((serial, at, codec)), _) => Ok((Group { serial, at, end }, codec)),
        (None, Some(name)) => Err(Reason::UnsupportedCodec(name.to_owned())),
        (None, None) => Err(Reason::malformed("the first Ogg page does not parse")),
    }
}

fn other_codec(packet: &[u8]) -> &'static str {
    match packet {
        [b'S', b'p', b'e', b'e', b'x', ..] => "Speex",
        [0x80, b't', b'h', b'e', b'o', ..] => "Theora",
        _ => "another codec in Ogg",
    }
}

/// Where decoding begins: a link, and a page of it; no page is its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    link: usize,
    page: Option<PageRef>,
}

impl Start {
    /// From the first packet on.
    pub(crate) const OF_FILE: Self = Self { link: 0, page: None };

    /// The last page from which frame `start` can be decoded.
    pub(crate) fn find(layout: &ChainLayout, pages: &[PageRef], start: u64) -> Self {
        let link = layout.links.partition_point(|link| link.first <= start).saturating_sub(1);
        let page = layout.links.get(link).and_then(|l| {
            let pages = pages.get(l.pages.clone()).unwrap_or_default();
            match &l.stream {
                Stream::Vorbis(s) => s.entry(pages, start - l.first),
                Stream::Opus(s) => s.entry(pages, start - l.first),
            }
        });
        Self { link, page }
    }
}

/// Decodes from `start` on until the sink is full or the file ends.
pub(crate) fn decode(
    bytes: &[u8],
    layout: &ChainLayout,
    start: Start,
    cache: &mut vorbis::Cache,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    for (i, link) in layout.links.iter().enumerate().skip(start.link) {
        let page = start.page.filter(|_| i == start.link);
        let end = link.first + link.n_frames;
        match &link.stream {
            Stream::Vorbis(s) => {
                let mut place = LinkSink { sink, first: link.first, played: s.played.clone() };
                super::decode::decode(bytes, s, link.group, page, cache, &mut place, cancel)?;
            }
            Stream::Opus(s) => {
                let mut place = LinkSink { sink, first: link.first, played: s.played.clone() };
                s.decode(bytes, link.group, page, &mut place, cancel)?;
            }
        }
        if sink.is_full() || sink.next() < end && !sink.is_lenient() {
            break; // what is missing, the caller sees
        }
    }
    Ok(())
}
