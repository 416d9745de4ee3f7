//! FLAC, RFC 9639: the way from frame to frame, and frames to samples.
//!
//! Metadata blocks are walked by their length, and where a length is wrong the first frame is
//! searched: an odd cue sheet, picture or comment does not cost the recording. The frames have the
//! last word on everything that STREAMINFO says: it has no checksum, and they have two each.

mod recording;
mod table;
#[cfg(test)]
mod tests;
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
