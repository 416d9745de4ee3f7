//! The seek table of Vorbis in Ogg: where one page in every second or two begins.

use std::{ops::Range, sync::Arc};

use super::{
    chain::{Link, Stream},
    decode::decode,
    link_sink::LinkSink,
    page::{Page, PageRef},
    stream::{self, page_ref},
    walk::{Group, Walk},
};
use crate::{
    cancel::Cancel,
    codec::vorbis::{Ident, Modes},
    error::Reason,
    info::AudioInfo,
    memory,
    names::Codec,
    sink::Sink,
    stream::{
        About, Part, Point, Points, Reader, Recording, Scratch, SeekTable, put_signed, seek_target,
        unexpected,
    },
};

/// The kind of the table in entries.
pub(crate) const KIND: u8 = 4;

/// Bytes of the identification header.
const IDENT_LEN: usize = 30;

/// Points are pages on which no packet continues, and count the granules before them.
#[derive(Debug)]
pub(super) struct VorbisTable {
    ident: Ident,
    modes: Modes,
    headers: Arc<[u8]>,
    origin: i64,
    points: Points,
}

impl VorbisTable {
    /// The table of a stream that is the only one of its file.
    pub(super) fn new(bytes: &[u8], link: &Link, pages: &[PageRef]) -> Option<Self> {
        let Stream::Vorbis(layout) = &link.stream else { return None };
        if layout.is_counted {
            return None;
        }
        let stream::VorbisLayout { ident, modes, origin, .. } = *layout;
        let played = &layout.played;
        let last = pages.last().filter(|page| page.end == played.end)?;
        let start = Point { unit: origin.max(0) as u64, byte: layout.audio as u64 };
        let end = Point { unit: last.end, byte: Page::read(bytes, last.offset).ok()?.end() as u64 };
        let places = pages.windows(2).filter_map(|pair| match pair {
            [before, page] if page.is_entry && page.begins_packet(bytes) => {
                Some(Point { unit: before.end, byte: page.offset as u64 })
            }
            _ => None,
        });
        let places = std::iter::once(start).chain(places);
        let points = Points::choose(places, end, f64::from(ident.rate_hz))?;
        let headers = Arc::clone(&layout.headers);
        let is_split = headers.get(IDENT_LEN..)?.starts_with(b"\x05vorbis");
        is_split.then_some(Self { ident, modes: modes?, headers, origin, points })
    }
}

/// Reads the table.
pub(crate) fn read_table(
    reader: &mut Reader<'_>,
    headers: &[u8],
    about: &About,
) -> Option<Box<dyn SeekTable>> {
    let origin = reader.signed()?;
    let points = Points::read(reader, about.n_bytes)?;
    let (ident, setup) = headers.split_at_checked(IDENT_LEN)?;
    let (ident, modes) = (Ident::read(ident).ok()?, Modes::read(setup)?);
    let start = origin.max(0) as u64;
    let is_right = about.info.codec == Codec::Vorbis
        && (ident.rate_hz, ident.n_channels) == (about.info.rate_hz, about.info.n_channels)
        && points.start().unit == start
        && start + about.info.n_frames == points.end().unit;
    let headers = headers.into();
    is_right.then(|| Box::new(VorbisTable { ident, modes, headers, origin, points }) as _)
}

impl SeekTable for VorbisTable {
    fn kind(&self) -> u8 {
        KIND
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_signed(out, self.origin);
        self.points.write(out);
    }

    fn headers(&self) -> &[u8] {
        &self.headers
    }

    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part> {
        let played = self.points.start().unit..self.points.end().unit;
        let start = seek_target(window, about.info.n_frames);
        let [_, long] = self.ident.block_lens;
        let wanted = (start + played.start).saturating_sub(u64::from(long));
        let from = if start == 0 { self.points.start() } else { self.points.before(wanted) };
        let to = self.points.behind(window.end + played.start);
        let layout = stream::VorbisLayout {
            ident: self.ident,
            modes: Some(self.modes),
            headers: Arc::clone(&self.headers),
            audio: 0,
            origin: self.origin,
            played,
            is_salvaged: false,
            is_counted: false,
        };
        let is_first = from == self.points.start();
        let part = VorbisPart { info: about.info, layout, start, is_first, from, to };
        Some(Part::of(from.byte..to.byte, part))
    }
}

/// The pages from one point to another.
#[derive(Debug)]
struct VorbisPart {
    info: AudioInfo,
    layout: stream::VorbisLayout,
    /// The playable frame to seek to.
    start: u64,
    /// Whether audio begins with the first page.
    is_first: bool,
    from: Point,
    to: Point,
}

impl VorbisPart {
    /// Lists the pages, which must be those that the table speaks of, and no others.
    fn walk(&self, bytes: &[u8], pages: &mut Vec<PageRef>) -> Result<Group, Reason> {
        let serial = Page::read(bytes, 0).map_err(|_| unexpected())?.serial;
        let group = Group { serial, at: 0, end: 0 };
        let mut end = self.from.unit;
        pages.clear();
        if !self.is_first {
            // It stands for the page before, from which decoding does not begin.
            memory::push(pages, PageRef { offset: 0, end, is_entry: false })?;
        }
        let mut walk = Walk::new(bytes, group, None);
        while let Ok(page) = walk.next() {
            let before = end;
            memory::push(pages, page_ref(&page, &mut end))?;
            if end < before {
                return Err(unexpected());
            }
        }
        let is_whole = walk.at == bytes.len() && walk.n_lost == 0 && walk.junk.count() == 0;
        if is_whole && end == self.to.unit { Ok(group) } else { Err(unexpected()) }
    }
}

impl Recording for VorbisPart {
    fn info(&self) -> AudioInfo {
        self.info
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: bool,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let pages = scratch.listed.of::<Vec<PageRef>>();
        let group = self.walk(bytes, pages)?;
        let entry = self.layout.entry(pages, self.start);
        if entry.is_none() && !self.is_first {
            return Err(unexpected());
        }
        let mut place = LinkSink::new(sink, self.layout.played.clone());
        decode(bytes, &self.layout, group, entry, scratch.decoders.of(), &mut place, cancel)
    }
}
