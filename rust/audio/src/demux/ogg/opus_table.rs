//! The seek table of Opus in Ogg: where one page in every second or two begins.

use std::{ops::Range, sync::Arc};

use super::{
    chain::{Link, Stream},
    link_sink::LinkSink,
    opus::{OpusLayout, Time},
    page::{Page, PageRef},
    walk::{Group, Walk},
};
use crate::{
    cancel::Cancel,
    codec::opus::{Head, RATE_HZ, pre_roll},
    error::Reason,
    info::AudioInfo,
    memory,
    names::Codec,
    sink::Sink,
    stream::{
        About, Part, Point, Points, Reader, Recording, Scratch, SeekTable, put_number, seek_target,
        unexpected,
    },
};

/// The kind of the table in entries.
pub(crate) const KIND: u8 = 5;

/// Points are pages on which no packet continues, and count the granules before them.
#[derive(Debug)]
pub(super) struct OpusTable {
    head: Head,
    /// The header packet.
    packet: Arc<[u8]>,
    origin: u64,
    has_silk: bool,
    points: Points,
}

impl OpusTable {
    /// The table of a stream that is the only one of its file.
    pub(super) fn new(bytes: &[u8], link: &Link, pages: &[PageRef]) -> Option<Self> {
        let Stream::Opus(layout) = &link.stream else { return None };
        if layout.is_counted {
            return None;
        }
        let OpusLayout { origin, has_silk, .. } = *layout;
        let last = Page::read(bytes, pages.last()?.offset).ok()?;
        let end = Point { unit: layout.played.end, byte: last.end() as u64 };
        let places = pages.iter().filter(|page| page.is_entry && page.begins_packet(bytes));
        let places = places.map(|page| Point { unit: page.end, byte: page.offset as u64 });
        let points = Points::choose(places, end, f64::from(RATE_HZ))?;
        let is_first = points.start() == Point { unit: origin, byte: layout.audio as u64 };
        let packet = Arc::clone(&layout.packet);
        let table = Self { head: layout.head.clone(), packet, origin, has_silk, points };
        is_first.then_some(table)
    }

    /// The granules that are played.
    fn played(&self) -> Option<Range<u64>> {
        let start = self.origin + self.head.pre_skip;
        (start <= self.points.end().unit).then(|| start..self.points.end().unit)
    }
}

/// Reads the table.
pub(crate) fn read_table(
    reader: &mut Reader<'_>,
    headers: &[u8],
    about: &About,
) -> Option<Box<dyn SeekTable>> {
    let has_silk = reader.byte()? != 0;
    let origin = reader.number()?;
    let points = Points::read(reader, about.n_bytes)?;
    let head = Head::read(headers).ok()?;
    let is_right = about.info.codec == Codec::Opus
        && (RATE_HZ, head.n_channels) == (about.info.rate_hz, about.info.n_channels)
        && points.start().unit == origin;
    let table = OpusTable { head, packet: headers.into(), origin, has_silk, points };
    let n_frames = table.played().map(|played| played.end - played.start);
    (is_right && n_frames == Some(about.info.n_frames)).then(|| Box::new(table) as _)
}

impl SeekTable for OpusTable {
    fn kind(&self) -> u8 {
        KIND
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.has_silk));
        put_number(out, self.origin);
        self.points.write(out);
    }

    fn headers(&self) -> &[u8] {
        &self.packet
    }

    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part> {
        let played = self.played()?;
        let start = seek_target(window, about.info.n_frames);
        let pre_roll = pre_roll(&self.head, self.has_silk);
        let wanted = (start + played.start).checked_sub(pre_roll).filter(|_| start > 0);
        let from = wanted.map_or(self.points.start(), |wanted| self.points.before(wanted));
        let to = self.points.behind(window.end + played.start);
        let layout = OpusLayout {
            head: self.head.clone(),
            packet: Arc::clone(&self.packet),
            audio: 0,
            origin: self.origin,
            played,
            has_silk: self.has_silk,
            is_salvaged: false,
            is_counted: false,
        };
        let (is_first, is_last) = (from == self.points.start(), to == self.points.end());
        let part = OpusPart { info: about.info, layout, start, is_first, is_last, from, to };
        Some(Part::of(from.byte..to.byte, part))
    }
}

/// The pages from one point to another.
#[derive(Debug)]
struct OpusPart {
    info: AudioInfo,
    layout: OpusLayout,
    /// The playable frame to seek to.
    start: u64,
    /// Whether audio begins with the first page, and ends with the last.
    is_first: bool,
    is_last: bool,
    from: Point,
    to: Point,
}

impl OpusPart {
    /// Lists the pages, which must be those that the table speaks of, and no others: granules and the
    /// lengths of packets bear it out.
    fn walk(&self, bytes: &[u8], pages: &mut Vec<PageRef>) -> Result<Group, Reason> {
        let serial = Page::read(bytes, 0).map_err(|_| unexpected())?.serial;
        let group = Group { serial, at: 0, end: 0 };
        let origin = self.layout.origin;
        let mut time = Time::from(origin, self.from.unit);
        pages.clear();
        if !self.is_first {
            // It stands for the page before, from which decoding does not begin.
            memory::push(pages, PageRef { offset: 0, end: self.from.unit, is_entry: false })?;
        }
        let mut walk = Walk::new(bytes, group, None);
        while let Ok(page) = walk.next() {
            let page = time.add(&page)?;
            memory::push(pages, PageRef { end: page.end + origin, ..page })?;
        }
        let end = if self.is_last { time.last } else { Some(time.end()) };
        let is_whole = walk.at == bytes.len() && walk.n_lost == 0 && walk.junk.count() == 0;
        let is_same = end == Some(self.to.unit)
            && time.n_corrupt == 0
            && (self.layout.has_silk || !time.has_silk);
        if is_whole && is_same { Ok(group) } else { Err(unexpected()) }
    }
}

impl Recording for OpusPart {
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
        self.layout.decode(bytes, group, entry, &mut place, cancel)
    }
}
