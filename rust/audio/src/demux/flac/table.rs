//! The seek table of FLAC: where one frame in every second or two begins.

use std::ops::Range;

use super::{
    FlacLayout, Timeline, decode,
    walk::{Walk, find},
};
use crate::{
    bytes::from,
    cancel::Cancel,
    codec::flac::{Header, StreamInfo},
    error::Reason,
    info::AudioInfo,
    names::Codec,
    sink::Sink,
    stream::{
        About, Part, Point, Points, Reader, Recording, Scratch, SeekTable, put_number, unexpected,
    },
};

/// The kind of the table in entries.
pub(crate) const KIND: u8 = 3;

/// How far from where a point could be its frame is looked for: a frame is seldom longer.
const MAX_SEARCH: usize = 64 << 10;

/// Points count blocks of one length, or PCM frames where blocks differ in length.
#[derive(Debug)]
pub(super) struct FlacTable {
    bits: u32,
    /// PCM frames of a block; 0 where they differ.
    block_len: u32,
    points: Points,
}

impl FlacTable {
    /// Looks for frames without a walk over all of them. One that is none costs no more than a part that
    /// does not decode.
    pub(super) fn new(bytes: &[u8], layout: &FlacLayout) -> Option<Self> {
        let FlacLayout { info, n_frames, timeline, base, audio, end } = *layout;
        let block_len = match timeline {
            Timeline::Numbered => 0,
            Timeline::Blocks(len) => len,
            Timeline::Counted => return None,
        };
        if base > 0 {
            return None; // the numbers are not those of the recording
        }
        let unit_len = u64::from(block_len.max(1));
        let bytes = bytes.get(..end)?;
        let model = Header::parse(from(bytes, audio))?;
        let n_seconds = (n_frames / u64::from(info.rate_hz).max(1)).max(1);
        let step = (end.checked_sub(audio)? / usize::try_from(n_seconds).ok()?).max(4 << 10);
        let mut next = Some(audio);
        let places = std::iter::from_fn(|| {
            let target = next?;
            let search = target..end.min(target.saturating_add(MAX_SEARCH));
            let (at, header) = find(bytes, search, |header| header.is_like(&model))?;
            next = at.checked_add(step).filter(|&next| next < end);
            let unit = timeline.pts(&header, 0) / unit_len;
            Some(Point { unit, byte: at as u64 })
        });
        let end = Point { unit: n_frames.div_ceil(unit_len), byte: end as u64 };
        let units_per_s = f64::from(info.rate_hz) / unit_len as f64;
        let points = Points::choose(places, end, units_per_s)?;
        Some(Self { bits: info.bits, block_len, points })
    }

    fn unit_len(&self) -> u64 {
        self.block_len.max(1).into()
    }
}

/// Reads the table.
pub(crate) fn read_table(
    reader: &mut Reader<'_>,
    _: &[u8],
    about: &About,
) -> Option<Box<dyn SeekTable>> {
    let bits = u32::from(reader.byte()?);
    let block_len = u32::try_from(reader.number()?).ok()?;
    let points = Points::read(reader, about.n_bytes)?;
    let is_possible = about.info.codec == Codec::Flac
        && (1..=32).contains(&bits)
        && block_len <= 65_535
        && points.start().unit == 0
        && about.info.n_frames.div_ceil(u64::from(block_len.max(1))) == points.end().unit;
    is_possible.then(|| Box::new(FlacTable { bits, block_len, points }) as _)
}

impl SeekTable for FlacTable {
    fn kind(&self) -> u8 {
        KIND
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.bits as u8);
        put_number(out, self.block_len.into());
        self.points.write(out);
    }

    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part> {
        let from = self.points.before(window.start / self.unit_len());
        let to = self.points.behind(window.end.div_ceil(self.unit_len()));
        let AudioInfo { rate_hz, n_channels, n_frames, .. } = about.info;
        let len = self.block_len as u16;
        let block_lens = if len > 0 { [len; 2] } else { [0, u16::MAX] };
        let info = StreamInfo { rate_hz, n_channels, bits: self.bits, promised: 0, block_lens };
        let timeline = match self.block_len {
            0 => Timeline::Numbered,
            len => Timeline::Blocks(len),
        };
        let end = usize::try_from(to.byte - from.byte).ok()?;
        let first = from.unit * self.unit_len();
        let end_frame = n_frames.min(to.unit.saturating_mul(self.unit_len()));
        let layout = FlacLayout { info, n_frames: end_frame, timeline, base: 0, audio: 0, end };
        Some(Part::of(from.byte..to.byte, FlacPart { layout, first, n_frames }))
    }
}

/// The frames from one point to another.
#[derive(Debug)]
struct FlacPart {
    /// Its PCM frames are those up to the end of the part.
    layout: FlacLayout,
    /// The PCM frame that they begin with.
    first: u64,
    /// All PCM frames of the recording.
    n_frames: u64,
}

impl Recording for FlacPart {
    fn info(&self) -> AudioInfo {
        let FlacLayout { info: StreamInfo { rate_hz, n_channels, .. }, .. } = self.layout;
        AudioInfo { codec: Codec::Flac, rate_hz, n_channels, n_frames: self.n_frames }
    }

    /// Numbers and checksums of frames bear the table out.
    fn decode(
        &self,
        bytes: &[u8],
        _: bool,
        _: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let FlacLayout { info, timeline, .. } = &self.layout;
        let first = Walk::new(bytes, 0, info, *timeline).and_then(|mut walk| walk.next());
        if first.is_none_or(|frame| frame.pts != self.first) {
            return Err(unexpected());
        }
        decode(bytes, &self.layout, 0, sink, cancel)
    }
}
