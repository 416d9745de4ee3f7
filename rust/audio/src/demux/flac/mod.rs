//! FLAC, RFC 9639: the way from frame to frame, and frames to samples.
//!
//! Metadata blocks are walked by their length, and where a length is wrong the first frame is
//! searched: an odd cue sheet, picture or comment does not cost the recording. The frames have the
//! last word on everything that STREAMINFO says: it has no checksum, and they have two each.

mod recording;
mod table;
mod walk;

use crate::{
    bytes::from,
    cancel::Cancel,
    codec::flac::{Feed, Header, StreamInfo, info},
    demux::tags::{is_lost_sound, without_tags},
    error::Reason,
    report::{Damage, Ledger, Note},
    sink::Sink,
    stream::{Outcome, Tally},
};
use walk::{Walk, find};

pub(crate) use recording::Flac;
pub(crate) use table::{KIND, read_table};
pub(crate) use walk::Timeline;

#[cfg(test)]
pub(crate) use walk::tests::{frame as test_frame, frame_of as test_frame_of};

/// Where the frames are, and how they are coded.
#[derive(Clone, Debug)]
struct FlacLayout {
    info: StreamInfo,
    n_frames: u64,
    timeline: Timeline,
    /// The PCM frames that the numbers count before the first frame.
    base: u64,
    audio: usize,
    end: usize,
}

/// Frames for each byte above which a length is checked before anything is sized by it. Music has
/// less than one; digital silence has thousands.
const PLAUSIBLE_FRAMES_PER_BYTE: u64 = 8;

/// Reads the metadata of the stream at `offset`, and its first and last frame.
fn open(
    bytes: &[u8],
    offset: usize,
    cancel: &Cancel,
    ledger: &mut Ledger,
) -> Result<FlacLayout, Reason> {
    let (mut info, behind, audio) = info::read(bytes, offset)?;
    let bytes = without_tags(bytes, behind);
    let promised = info.promised;
    let first = audio.and_then(|at| Some((at, Header::parse(from(bytes, at))?)));
    // A frame right behind the metadata begins the recording, whatever its number: a cut, or a broadcast that
    // was joined late.
    let is_beginning = first.is_some();
    let first = match first {
        Some(first) => Some(first),
        None => search(bytes, behind, &info, cancel)?,
    };
    let Some((audio, header)) = first else {
        return match promised {
            0 if audio.is_none_or(|at| at < bytes.len()) => {
                Err(Reason::malformed("no audio follows"))
            }
            _ => {
                if promised > 0 {
                    let reason = Reason::Truncated { decoded: 0, expected: Some(promised) };
                    ledger.lose(Damage::Truncated, 1, reason)?;
                }
                let (n_frames, timeline) = (promised, Timeline::Numbered);
                Ok(FlacLayout { info, n_frames, timeline, base: 0, audio: behind, end: behind })
            }
        };
    };
    info.agree(&header)?;
    let timeline = Timeline::new(&info, &header);
    let mut layout =
        FlacLayout { info, n_frames: promised, timeline, base: 0, audio, end: bytes.len() };
    if is_beginning {
        layout.base = layout.base(bytes, &header);
    }
    if layout.base > 0 {
        let reason = Reason::malformed("the numbers of the frames do not begin at 0");
        ledger.remark(Note::LateStart, 1, reason)?;
    }
    let walk = layout.walk(bytes);
    let Some((last, walk)) = walk.and_then(|walk| Some((walk.last(audio)?, walk))) else {
        return Err(Reason::malformed("no frame parses"));
    };
    let rises = walk.rises(audio, &last);
    let is_plausible = last.end / PLAUSIBLE_FRAMES_PER_BYTE <= (layout.end - audio) as u64;
    let is_sure = is_plausible
        && timeline != Timeline::Counted
        && last.is_intact()
        && rises
        && walk::is_nothing(from(bytes, last.at + last.data.len()));
    layout.n_frames = match promised {
        0 if is_sure => last.end,
        _ if is_sure && last.end == promised => promised,
        // Something is wrong, so all frames are counted.
        _ => layout.settle(bytes, rises, cancel, ledger)?,
    };
    Ok(layout)
}

/// What a walk over all frames found.
#[derive(Debug, Default)]
struct Counted {
    /// Where the last undamaged frame ends.
    end: u64,
    /// The PCM frames of undamaged frames.
    n_frames: u64,
    /// Whether the file ends inside a frame.
    is_cut: bool,
    /// Frames whose numbers begin again, and nothing is missing before them.
    n_restarts: u64,
    /// The bytes behind the last frame.
    n_behind: usize,
}

impl FlacLayout {
    fn walk<'a>(&self, bytes: &'a [u8]) -> Option<Walk<'a>> {
        let bytes = bytes.get(..self.end)?;
        let mut walk = Walk::new(bytes, self.audio, &self.info, self.timeline)?;
        walk.base = self.base;
        walk.due = Some(0);
        Some(walk)
    }

    /// The PCM frames that the number of the first frame counts. If the second one does not follow it, the
    /// number of the first is a lie.
    fn base(&self, bytes: &[u8], first: &Header) -> u64 {
        let Some(mut walk) = self.walk(bytes) else { return 0 };
        walk.due = None;
        let follows = match (walk.next(), walk.next()) {
            (Some(first), Some(second)) => first.end == second.pts,
            _ => true,
        };
        if follows { self.timeline.pts(first, 0) } else { 0 }
    }

    /// Frames whose checksum is wrong, or that do not follow the one before them.
    fn n_broken(&self, bytes: &[u8], cancel: &Cancel) -> Result<u64, Reason> {
        let Some(mut walk) = self.walk(bytes) else { return Ok(0) };
        let (mut n_broken, mut expected) = (0, 0);
        while let Some(frame) = walk.next() {
            cancel.check()?;
            // Decoding passes over these. What was cut was told when the end was looked for.
            if frame.pts >= self.n_frames || frame.end <= expected {
                continue;
            }
            let is_in_place = frame.pts == expected && frame.fits(self.n_frames);
            n_broken += u64::from(frame.whole(&self.info).is_none() || !is_in_place);
            expected = frame.end;
        }
        Ok(n_broken)
    }

    /// How long the recording is, by all its frames. A count that they contradict is a lie where they end with
    /// the file: what was cut would end inside a frame.
    ///
    /// Where numbers do not rise, as in two files that are joined, only those before the first damage are this
    /// stream's. Numbers that begin again are counted on.
    fn settle(
        &mut self,
        bytes: &[u8],
        rises: bool,
        cancel: &Cancel,
        ledger: &mut Ledger,
    ) -> Result<u64, Reason> {
        let promised = self.info.promised;
        let mut counted = self.count(bytes, rises, cancel, ledger)?;
        if counted.n_restarts > 0 && self.timeline != Timeline::Counted {
            self.timeline = Timeline::Counted;
            let n_restarts = counted.n_restarts;
            counted = Counted { n_restarts, ..self.count(bytes, true, cancel, ledger)? };
        }
        let Counted { end, n_frames, is_cut, n_behind, .. } = counted;
        let behind = from(bytes, self.end.saturating_sub(n_behind));
        let is_clean = !is_cut && walk::is_nothing(behind);
        let reason = || Reason::Truncated { decoded: end, expected: Some(promised) };
        if promised > end && !is_clean {
            ledger.lose(Damage::Truncated, 1, reason())?;
            return Ok(promised);
        }
        if counted.n_restarts > 0 {
            ledger.remark(Note::Timestamps, counted.n_restarts, reason())?;
        }
        if promised > 0 && promised != end {
            ledger.remark(Note::HeaderLength, 1, reason())?;
        }
        let n_audio = self.end.saturating_sub(self.audio + n_behind);
        let a_second = n_audio as f64 * f64::from(self.info.rate_hz) / n_frames.max(1) as f64;
        if promised == 0 && !is_clean && is_lost_sound(n_behind, a_second as usize, 1.0) {
            ledger.lose(Damage::Junk, 1, Reason::CorruptPackets { count: 1 })?;
        } else if promised == 0 && (is_cut || !is_clean) {
            ledger.mark(Damage::PartialFrame, 1);
        }
        // A number in a header alone bears nothing out.
        let is_plausible = end / PLAUSIBLE_FRAMES_PER_BYTE <= bytes.len() as u64;
        if is_plausible || end / 2 <= n_frames {
            return Ok(end);
        }
        ledger.lose(Damage::Timeline, 1, Reason::CorruptPackets { count: 1 })?;
        Ok(n_frames)
    }

    /// Walks over all frames.
    fn count(
        &mut self,
        bytes: &[u8],
        rises: bool,
        cancel: &Cancel,
        ledger: &mut Ledger,
    ) -> Result<Counted, Reason> {
        let mut counted = Counted::default();
        let Some(mut walk) = self.walk(bytes) else { return Ok(counted) };
        let mut due = 0;
        while let Some(frame) = walk.next() {
            cancel.check()?;
            let whole = frame.whole(&self.info);
            counted.is_cut = whole.is_none();
            if counted.is_cut && !rises && counted.n_restarts == 0 {
                ledger.lose(Damage::Timeline, 1, Reason::CorruptPackets { count: 1 })?;
                self.end = frame.at;
                return Ok(counted);
            }
            if let Some(data) = whole {
                let end = frame.at + data.len();
                counted.n_restarts += u64::from(frame.pts < due);
                counted.end = frame.end;
                counted.n_frames += frame.end - frame.pts;
                counted.n_behind = self.end.saturating_sub(end);
                // Another file that was joined to this one, whose frames have the same numbers again.
                if from(frame.data, data.len()).windows(4).any(|mark| mark == b"fLaC") {
                    ledger.lose(Damage::Timeline, 1, Reason::CorruptPackets { count: 1 })?;
                    (self.end, counted.n_behind) = (end, 0);
                    return Ok(counted);
                }
            }
            due = frame.end;
        }
        Ok(counted)
    }
}

/// Searches the first frame after STREAMINFO, where a metadata block is not as long as it says. It gives
/// up where bytes that are none were looked through many times over.
fn search(
    bytes: &[u8],
    behind: usize,
    info: &StreamInfo,
    cancel: &Cancel,
) -> Result<Option<(usize, Header)>, Reason> {
    let (mut at, mut spare) = (behind, walk::spare(bytes));
    while let Some((found, header)) = find(bytes, at..bytes.len(), |_| true) {
        cancel.check()?;
        // A picture may hold what looks like a header, and nothing in it has the checksum of a
        // frame.
        let timeline = Timeline::new(info, &header);
        if let Some(mut walk) = Walk::new(bytes, found, info, timeline) {
            walk.spare = spare;
            let Some(frame) = walk.next() else { break };
            if frame.whole(info).is_some() {
                return Ok(Some((found, header)));
            }
            let Some(left) = walk.spare.checked_sub(frame.data.len()) else { break };
            spare = left;
        }
        at = found + 1;
    }
    Ok(None)
}

/// Decodes from PCM frame `start` (0: from the first frame) until the sink is full.
fn decode(
    bytes: &[u8],
    layout: &FlacLayout,
    start: u64,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let Some(mut walk) = layout.walk(bytes) else { return Ok(()) };
    if start > 0 {
        walk.seek(start);
    }
    let mut feed = Feed::new(layout.info);
    let mut tally = Tally::default();
    while !sink.is_full() {
        cancel.check()?;
        let Some(frame) = walk.next() else { break };
        // Also of a frame that is passed over, as one that comes twice.
        if frame.is_misnumbered && layout.timeline != Timeline::Counted {
            let reason = Reason::malformed("the number of a frame is a lie");
            sink.ledger().remark(Note::Timestamps, 1, reason)?;
        }
        if frame.end <= sink.next() {
            continue;
        }
        tally.add(match frame.whole(&layout.info) {
            None => Outcome::WrongChecksum,
            // Which of its PCM frames belong where another frame begins, nothing says.
            Some(_) if !frame.fits(layout.n_frames) => Outcome::Corrupt,
            Some(data) => feed.push(&frame.header, frame.pts as i64, data, sink)?,
        });
    }
    tally.finish(sink)
}

#[cfg(test)]
mod tests {
    use std::{ops::Range, time::Duration};

    use super::{
        test_frame, test_frame_of,
        walk::tests::{N_PARSED, bare_headers},
    };
    use crate::{
        AudioSpec, Crop, Decoder, Depth, Limits, Reason, cancel::Cancel, codec::flac::crc::crc_16,
        report::Ledger,
    };

    /// A stream of blocks of 256 samples, and no count of them in STREAMINFO.
    fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = b"fLaC\x80\0\0\x22\x01\0\x01\0\0\0\0\0\0\0".to_vec();
        bytes.extend((44_100u64 << 44 | 15 << 36).to_be_bytes());
        bytes.extend([0; 16]);
        bytes.extend(frames.iter().flatten());
        bytes
    }

    /// Three frames.
    fn uncounted() -> Vec<u8> {
        stream(&[0, 1, 2].map(|number| test_frame(number, -7)))
    }

    #[test]
    fn a_frame_that_is_cut_is_told_where_nothing_is_promised() {
        let (whole, mut decoder) = (uncounted(), Decoder::default());
        assert_eq!(decoder.plan(&whole, &AudioSpec::WHOLE, 0).unwrap().n_samples(), 768);
        let mut broken = whole.clone();
        *broken.last_mut().unwrap() ^= 1;
        for bytes in [&broken, &whole[..whole.len() - 1]] {
            for depth in [Depth::Checksums, Depth::Decode] {
                let checked = decoder.check(bytes, Limits::default(), depth).unwrap();
                assert_eq!((checked.info.n_frames, checked.error), (512, None));
                assert_eq!(
                    checked.report.damage.iter().collect::<Vec<_>>(),
                    [("partial_frame", 1)]
                );
            }
        }
    }

    #[test]
    fn a_cut_that_keeps_its_numbers_begins_with_its_first_frame() {
        let frames: Vec<_> = (50..90).map(|number| test_frame(number, i16::from(number))).collect();
        let (bytes, mut decoder) = (stream(&frames), Decoder::default());
        for depth in [Depth::Checksums, Depth::Decode] {
            let checked = decoder.check(&bytes, Limits::default(), depth).unwrap();
            assert_eq!((checked.info.n_frames, checked.error), (40 * 256, None), "{depth:?}");
        }
        let (whole, _) = lenient(&bytes, 0..40 * 256);
        let values = whole.iter().map(|x| (x * 32_768.0) as i32);
        assert!(values.eq((50..90).flat_map(|value| [value; 256])));
        assert_eq!(lenient(&bytes, 5000..5300), (whole[5000..5300].to_vec(), 0));
        // A count that the frames contradict changes nothing. Where metadata are broken, frames are missing.
        let mut promised = bytes.clone();
        promised[25] = 1;
        assert_eq!(lenient(&promised, 0..40 * 256), (whole, 0));
        let broken = with_a_wrong_length(&frames.concat());
        assert!(decoder.check(&broken, Limits::default(), Depth::Decode).unwrap().error.is_some());
    }

    /// A frame of 256 equal samples that are stored each, so that its length is plausible.
    fn verbatim(number: u8) -> Vec<u8> {
        let mut frame = test_frame(number, 0)[..6].to_vec();
        frame.push(2);
        frame.extend(i16::from(number).to_be_bytes().repeat(256));
        let crc = crc_16(&frame);
        frame.extend(crc.to_be_bytes());
        frame
    }

    #[test]
    fn frames_whose_numbers_begin_again_near_the_end_are_played() {
        let frames = |n: u8| (0..n).map(verbatim);
        for (n, n_again) in [(100, 5), (1, 1), (3, 1)] {
            let bytes = stream(&frames(n).chain(frames(n_again)).collect::<Vec<_>>());
            let n_frames = 256 * u64::from(n + n_again);
            for depth in [Depth::Checksums, Depth::Decode] {
                let checked = Decoder::default().check(&bytes, Limits::default(), depth).unwrap();
                assert_eq!((checked.info.n_frames, checked.error), (n_frames, None), "{depth:?}");
                assert_eq!(checked.report.notes.iter().collect::<Vec<_>>(), [("timestamps", 1)]);
            }
            let values = lenient(&bytes, 0..n_frames).0.into_iter().map(|x| (x * 32_768.0) as u8);
            assert!(values.eq((0..n).chain(0..n_again).flat_map(|value| [value; 256])));
        }
    }

    #[test]
    fn a_frame_that_comes_twice_is_a_note() {
        let numbers = (0..=30).chain(30..100);
        let bytes = stream(&numbers.map(verbatim).collect::<Vec<_>>());
        for depth in [Depth::Checksums, Depth::Decode] {
            let checked = Decoder::default().check(&bytes, Limits::default(), depth).unwrap();
            assert_eq!((checked.info.n_frames, checked.error), (25_600, None), "{depth:?}");
            let n_notes = checked.report.notes.iter().map(|(_, n)| n).sum::<u64>();
            assert_eq!(n_notes, u64::from(depth == Depth::Decode), "{depth:?}");
        }
    }

    /// A stream whose last block of metadata says that it is longer than the file.
    fn with_a_wrong_length(behind: &[u8]) -> Vec<u8> {
        let mut bytes = stream(&[]);
        bytes[4] = 0;
        bytes.extend([0x81, 0xFF, 0xFF, 0xFF]);
        bytes.extend(behind);
        bytes
    }

    #[test]
    fn headers_without_frames_are_not_looked_at_again_and_again() {
        let n = 10_000;
        let bytes = with_a_wrong_length(&bare_headers((0..n).map(|_| 5)));
        let before = N_PARSED.get();
        let opened = super::open(&bytes, 0, &Cancel::default(), &mut Ledger::default());
        assert_eq!(opened.unwrap_err(), Reason::malformed("no audio follows"));
        let n_parsed = N_PARSED.get() - before;
        assert!(n_parsed <= 60 * n as usize, "{n_parsed}");
    }

    #[test]
    fn the_search_for_the_first_frame_can_be_cancelled() {
        let bytes = with_a_wrong_length(&[0, 1, 2].map(|number| test_frame(number, -7)).concat());
        let (mut cancel, mut ledger) = (Cancel::default(), Ledger::default());
        assert_eq!(super::open(&bytes, 0, &cancel, &mut ledger).unwrap().n_frames, 768);
        cancel.begin(Some(Duration::ZERO));
        let opened = super::open(&bytes, 0, &cancel, &mut ledger);
        assert!(matches!(opened.unwrap_err(), Reason::Limit(_)));
    }

    /// The crop `range` of a stream, without `strict`, and how many packets were corrupt.
    fn lenient(bytes: &[u8], range: Range<u64>) -> (Vec<f32>, u64) {
        let seconds = |n: u64| n as f64 / 44_100.0;
        let (start, len) = (seconds(range.start), seconds(range.end - range.start));
        let crop = Crop::At { start, seconds: Some(len) };
        let spec = AudioSpec { crop, strict: false.into(), ..AudioSpec::WHOLE };
        let mut decoder = Decoder::default();
        let plan = decoder.plan(bytes, &spec, 0).unwrap();
        let mut samples = vec![0.0; plan.n_samples()];
        let report = decoder.render(bytes, &plan, &mut samples).unwrap();
        (
            samples,
            report.damage.iter().find(|(name, _)| *name == "corrupt_packets").map_or(0, |d| d.1),
        )
    }

    #[test]
    fn a_frame_that_reaches_into_the_next_is_damage() {
        let frames = [test_frame(0, 1), test_frame_of(9, 1, 2), test_frame(2, 3), test_frame(3, 4)];
        let (bytes, mut decoder) = (stream(&frames), Decoder::default());
        for depth in [Depth::Checksums, Depth::Decode] {
            let error = decoder.check(&bytes, Limits::default(), depth).unwrap().error.unwrap();
            assert_eq!(error.reason, Reason::CorruptPackets { count: 1 }, "{depth:?}");
        }
        let (whole, n_corrupt) = lenient(&bytes, 0..1024);
        assert_eq!(n_corrupt, 1);
        let values = whole.iter().map(|x| (x * 32_768.0) as i32);
        assert!(values.eq([1, 0, 3, 4].into_iter().flat_map(|value| [value; 256])));
        // Whether decoding begins with it or behind it, crops are those of the whole.
        assert_eq!(lenient(&bytes, 600..700), (whole[600..700].to_vec(), 0));
        assert_eq!(lenient(&bytes, 400..700), (whole[400..700].to_vec(), 1));
    }
}
