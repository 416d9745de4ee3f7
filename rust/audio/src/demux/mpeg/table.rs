//! The seek table of MPEG audio: where one of every few dozen frames begins.

use std::ops::Range;

use super::{
    decode::{Needed, Wanted, decode},
    index::Index,
    scan::MpegLayout,
    walk::{Found, walk},
};
use crate::{
    cancel::Cancel,
    codec::mp3::header::{Header, Headers},
    error::Reason,
    info::AudioInfo,
    names::Codec,
    sink::Sink,
    stream::{
        About, Part, Point, Points, Reader, Recording, Scratch, SeekTable, put_number, unexpected,
    },
};

/// The kind of the table in entries.
pub(crate) const KIND: u8 = 2;

/// Header, checksum and side information of a frame: what of it is no main data, at most.
const MAX_OVERHEAD: u64 = 38;

/// Points count MPEG frames.
#[derive(Debug)]
pub(super) struct MpegTable {
    delay: u64,
    frame_len: u64,
    points: Points,
}

impl MpegTable {
    /// The table of a stream of which no frame is lost.
    pub(super) fn new(layout: &MpegLayout, index: &Index) -> Option<Self> {
        let point = |(unit, byte)| Point { unit: unit as u64, byte: byte as u64 };
        let end = point((index.n_frames(), index.end()));
        let units_per_s = f64::from(layout.rate_hz) / layout.frame_len as f64;
        let points = Points::choose(index.places().map(point), end, units_per_s)?;
        Some(Self { delay: layout.delay, frame_len: layout.frame_len, points })
    }

    /// How many frames before one that must be right hold its main data, as far as their mean length
    /// around it tells. Where it is wrong, the part does not do.
    fn n_reservoir(&self, layout: &MpegLayout, exact: u64) -> u64 {
        let (before, behind) = (self.points.before(exact), self.points.behind(exact + 1));
        let mean = (behind.byte - before.byte) / (behind.unit - before.unit).max(1);
        (layout.reservoir_len as u64).div_ceil(mean.saturating_sub(MAX_OVERHEAD).max(1)) + 1
    }

    fn layout(&self, info: AudioInfo) -> MpegLayout {
        let AudioInfo { codec, rate_hz, n_channels, n_frames } = info;
        let reservoir_len = match (codec, self.frame_len) {
            (Codec::Mp3, 1152) => 511,
            (Codec::Mp3, _) => 255,
            _ => 0,
        };
        let Self { delay, frame_len, .. } = *self;
        MpegLayout { codec, rate_hz, n_channels, n_frames, delay, frame_len, reservoir_len }
    }
}

/// Reads the table.
pub(crate) fn read_table(
    reader: &mut Reader<'_>,
    _: &[u8],
    about: &About,
) -> Option<Box<dyn SeekTable>> {
    let (delay, frame_len) = (reader.number()?, reader.number()?);
    let points = Points::read(reader, about.n_bytes)?;
    let is_frame = matches!(about.info.codec, Codec::Mp3 | Codec::Mp2 | Codec::Mp1)
        && matches!(frame_len, 384 | 576 | 1152);
    let n_pcm = points.end().unit.checked_mul(frame_len)?;
    (is_frame && points.start().unit == 0 && delay + about.info.n_frames <= n_pcm)
        .then(|| Box::new(MpegTable { delay, frame_len, points }) as _)
}

impl SeekTable for MpegTable {
    fn kind(&self) -> u8 {
        KIND
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_number(out, self.delay);
        put_number(out, self.frame_len);
        self.points.write(out);
    }

    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part> {
        let layout = self.layout(about.info);
        let len = window.end - window.start;
        let needed = Needed::of(&layout, self.points.end().unit, window.start, len);
        let n_reservoir = self.n_reservoir(&layout, needed.exact);
        let from = self.points.before(needed.exact.saturating_sub(n_reservoir));
        let to = self.points.behind(needed.end);
        let recording = MpegPart { layout, window: window.clone(), from, to };
        Some(Part::of(from.byte..to.byte, recording))
    }
}

/// The frames from one point to another.
#[derive(Debug)]
struct MpegPart {
    layout: MpegLayout,
    window: Range<u64>,
    from: Point,
    to: Point,
}

impl MpegPart {
    /// Notes the frames, which must be those that the table speaks of, and no others.
    fn walk(&self, bytes: &[u8], index: &mut Index) -> Option<Wanted> {
        let MpegLayout { codec, rate_hz, n_channels, frame_len, .. } = self.layout;
        let first = Header::read(bytes, 0).ok()?;
        let found = (first.codec(), first.rate_hz, first.n_channels(), first.n_frames());
        if found != (codec, rate_hz, n_channels, frame_len) || first.is_refused() {
            return None;
        }
        index.begin_at(usize::try_from(self.from.unit).ok()?);
        let headers = Headers::like(bytes, 0)?;
        let found = walk(bytes, &headers, 0, first.is_mono, index);
        let is_whole = found == Found::default() && index.end() == bytes.len();
        if !is_whole || index.n_frames() as u64 != self.to.unit {
            return None;
        }
        let Range { start, end } = self.window;
        let wanted = Wanted::find(bytes, &self.layout, index, start, end - start);
        (wanted.first() >= self.from.unit).then_some(wanted)
    }
}

impl Recording for MpegPart {
    fn info(&self) -> AudioInfo {
        let MpegLayout { codec, rate_hz, n_channels, n_frames, .. } = self.layout;
        AudioInfo { codec, rate_hz, n_channels, n_frames }
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: bool,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let index = scratch.listed.of::<Index>();
        let wanted = self.walk(bytes, index);
        index.check()?;
        decode(bytes, &self.layout, &wanted.ok_or_else(unexpected)?, sink, cancel)
    }
}
