//! From frame to frame. A frame does not say how long it is: it ends where the next one begins.

use crate::{
    bytes::from,
    codec::flac::{
        crc::is_intact,
        frame::{Header, MAX_HEADER_LEN, Number},
        frame_len,
        info::StreamInfo,
    },
};

/// A frame and its place in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Where it begins.
    pub(super) at: usize,
    pub(super) header: Header,
    /// The PCM frames before it.
    pub(super) pts: u64,
    /// The PCM frames before the next one, or those that it says it has, if these are fewer.
    pub(super) end: u64,
    /// All of it, and no more if nothing is damaged.
    pub(super) data: &'a [u8],
    /// Whether its number is not the one that is due, or begins again, and no frame is missing.
    pub(super) is_misnumbered: bool,
}

impl<'a> Frame<'a> {
    /// Its own bytes, without others that may follow it; `None` if they are not those that were written.
    pub(super) fn whole(&self, info: &StreamInfo) -> Option<&'a [u8]> {
        if self.is_intact() {
            return Some(self.data);
        }
        self.data.get(..frame_len(&self.header, info, self.data)?)
    }

    /// Whether the bytes are those that were written.
    pub(super) fn is_intact(&self) -> bool {
        is_intact(self.data)
    }

    /// Whether all PCM frames that it says it has come before `end`, and before the next frame.
    pub(super) fn fits(&self, end: u64) -> bool {
        self.pts + u64::from(self.header.n_frames) == self.end && self.end <= end
    }
}

/// How positions follow from the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeline {
    /// Frames state their number.
    Numbered,
    /// All blocks but the last have this many frames.
    Blocks(u32),
    /// Blocks have numbers and differ in length, as old encoders wrote them: positions come from
    /// counting.
    Counted,
}

impl Timeline {
    pub(crate) fn new(info: &StreamInfo, first: &Header) -> Self {
        let [least, most] = info.block_lens;
        match first.number {
            Number::Frame(_) => Self::Numbered,
            Number::Block(_) if least == most => Self::Blocks(first.n_frames),
            Number::Block(_) => Self::Counted,
        }
    }

    /// The PCM frames before the frame with this header; `counted` of them came.
    pub(crate) fn pts(self, header: &Header, counted: u64) -> u64 {
        match (self, header.number) {
            (Self::Counted, _) => counted,
            (Self::Blocks(len), Number::Block(n)) => n * u64::from(len),
            (_, Number::Block(n) | Number::Frame(n)) => n,
        }
    }
}

/// How many times the bytes of a file are looked through in vain at most. Of numbers that are all wrong
/// each would cost a look as far ahead as a frame can reach, which is quadratic.
const MAX_PASSES: usize = 16;

/// The bytes that may be looked through in vain in a file of these.
pub(super) fn spare(bytes: &[u8]) -> usize {
    bytes.len().saturating_mul(MAX_PASSES)
}

/// Goes over the frames of `bytes`, which end where the last one does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    timeline: Timeline,
    /// A header that is like all of the stream's.
    model: Header,
    info: StreamInfo,
    next: Option<(usize, Header)>,
    counted: u64,
    /// The PCM frame that is due, once a frame came before.
    pub(super) due: Option<u64>,
    /// The PCM frames that the numbers count before the recording begins.
    pub(super) base: u64,
    /// Bytes that may still be looked through in vain for the number that comes next.
    pub(super) spare: usize,
}

impl<'a> Walk<'a> {
    /// Begins with the frame at `audio`.
    pub(super) fn new(
        bytes: &'a [u8],
        audio: usize,
        info: &StreamInfo,
        timeline: Timeline,
    ) -> Option<Self> {
        let model = Header::parse(from(bytes, audio))?;
        let next = Some((audio, model));
        let spare = spare(bytes);
        let (info, counted, due, base) = (*info, 0, None, 0);
        Some(Self { bytes, timeline, model, info, next, counted, due, base, spare })
    }

    /// The PCM frames before the frame with this header.
    fn pts(&self, header: &Header) -> u64 {
        self.timeline.pts(header, self.counted).saturating_sub(self.base)
    }

    /// Goes to a frame from which on PCM frame `start` is found, by halving the bytes.
    pub(super) fn seek(&mut self, start: u64) {
        let Some((mut low, _)) = self.next.filter(|_| self.timeline != Timeline::Counted) else {
            return;
        };
        let (mut high, begun) = (self.bytes.len(), *self);
        // What is left is walked.
        while high - low > 16 << 10 {
            let middle = usize::midpoint(low, high);
            let found = find(self.bytes, middle..high, |header| header.is_like(&self.model));
            match found {
                Some((at, header)) if self.pts(&header) <= start => {
                    low = at;
                    self.next = Some((at, header));
                }
                _ => high = middle,
            }
        }
        self.due = None;
        // One number may be false. Two in a row that follow each other are not.
        let mut ahead = *self;
        if let Some((first, second)) = ahead.next().zip(ahead.next())
            && first.pts + u64::from(first.header.n_frames) != second.pts
        {
            *self = begun;
        }
    }

    /// Whether numbers rise from one quarter of the bytes to the next and to the last frame, as halving takes
    /// them to do.
    pub(super) fn rises(&self, audio: usize, last: &Frame<'_>) -> bool {
        let quarter = self.bytes.len().saturating_sub(audio) / 4;
        let quarters = (1..4).filter_map(|n| {
            let rest = audio + n * quarter..self.bytes.len();
            let (at, header) = find(self.bytes, rest, |header| header.is_like(&self.model))?;
            Some((at, self.pts(&header)))
        });
        let mut before = (audio, 0);
        let mut follows = |next: (usize, u64)| {
            let (at, pts) = std::mem::replace(&mut before, next);
            at == next.0 || pts < next.1
        };
        self.timeline == Timeline::Counted
            || quarters.chain([(last.at, last.pts)]).all(&mut follows)
    }

    /// The last header that looks right, as a frame that goes to the end.
    ///
    /// Channels and bits may differ from those of the first: that is for decoding to find. The
    /// checksum of several frames in a row is 0 as well, so the last one must not be overlooked.
    pub(super) fn last(&self, audio: usize) -> Option<Frame<'a>> {
        let ends = from(self.bytes, audio);
        let n_bytes = ends.len();
        ends.iter().rev().enumerate().filter(|&(_, &byte)| byte == 0xFF).find_map(|(i, _)| {
            let at = n_bytes - 1 - i;
            let data = from(ends, at);
            let header = Header::parse(data).filter(|header| header.counts_like(&self.model))?;
            let pts = self.pts(&header);
            let end = pts + u64::from(header.n_frames);
            let mut frame = Frame { at: audio + at, header, pts, end, data, is_misnumbered: false };
            frame.data = frame.whole(&self.info).unwrap_or(data);
            Some(frame)
        })
    }

    /// The next frame. Damage shows as a wrong checksum, or as a frame that is out of its place.
    ///
    /// A number that the frames on both sides contradict is a lie, and one that begins again too: checksums say
    /// that nothing is missing between.
    pub(super) fn next(&mut self) -> Option<Frame<'a>> {
        let (at, header) = self.next?;
        let n_frames = u64::from(header.n_frames);
        self.next = self.find_next(at, &header);
        let data_end = self.next.map_or(self.bytes.len(), |(at, _)| at);
        let data = self.bytes.get(at..data_end)?;
        let stated = self.pts(&header);
        self.counted += n_frames;
        let next_pts = self.next.map(|(_, next)| self.pts(&next));
        let is_lie = |due: u64| {
            stated != due
                && match next_pts {
                    Some(next) => next == due + n_frames,
                    None => self.info.promised == due + n_frames,
                }
        };
        let lie_of = self.due.filter(|&due| is_lie(due));
        let is_misnumbered = lie_of.is_some() || self.due.is_some_and(|due| stated < due);
        let pts = lie_of.unwrap_or(stated);
        let end = pts + n_frames;
        self.due = Some(end);
        // A number before this frame's says nothing of where it ends.
        let end = next_pts.filter(|&next| next > pts).map_or(end, |next| end.min(next));
        Some(Frame { at, header, pts, end, data, is_misnumbered })
    }

    /// The header behind the frame at `at`: the one whose number is due, or whichever begins where the frame
    /// ends by its checksum.
    fn find_next(&mut self, at: usize, header: &Header) -> Option<(usize, Header)> {
        let expected = header.next_number();
        // A frame takes at least a byte for each channel, and a checksum. It takes little more
        // than its samples as they are; twice that much is never seen.
        let least = at + header.len + usize::from(header.n_channels) + 2;
        let n_samples = header.n_frames as usize * usize::from(header.n_channels);
        let most = (n_samples * (self.info.bits as usize + 1) / 4).max(64 << 10);
        let range = least..least.saturating_add(most.min(self.spare)).min(self.bytes.len());
        let mut from = least;
        while let Some(found) = find(self.bytes, from..range.end, |next| {
            next.number == expected || next.is_like(&self.model)
        }) {
            let (end, next) = found;
            if next.number == expected {
                return Some(found);
            }
            let frame = self.bytes.get(at..end)?;
            let Some(spare) = self.spare.checked_sub(frame.len()) else { break };
            self.spare = spare;
            if is_intact(frame) {
                return Some(found);
            }
            from = end + 1;
        }
        self.spare = self.spare.saturating_sub(range.len());
        // Damage: whatever frame comes next.
        let rest = at + 1..self.bytes.len();
        find(self.bytes, rest, |next| {
            next.is_like(&self.model) && is_after(next.number, header.number)
        })
    }
}

/// Whether bytes behind the last frame are no more than padding.
pub(super) fn is_nothing(behind: &[u8]) -> bool {
    behind.iter().all(|&byte| byte == 0)
}

fn is_after(number: Number, other: Number) -> bool {
    match (number, other) {
        (Number::Block(a), Number::Block(b)) | (Number::Frame(a), Number::Frame(b)) => a > b,
        _ => false,
    }
}

/// The first header that begins in `range` and is as wanted.
pub(super) fn find(
    bytes: &[u8],
    range: std::ops::Range<usize>,
    is_wanted: impl Fn(&Header) -> bool,
) -> Option<(usize, Header)> {
    let mut at = range.start;
    while at < range.end {
        at += next_ff(bytes.get(at..range.end)?)?;
        let start = bytes.get(at..bytes.len().min(at + MAX_HEADER_LEN))?;
        #[cfg(test)]
        tests::N_PARSED.set(tests::N_PARSED.get() + 1);
        if let Some(header) = Header::parse(start).filter(&is_wanted) {
            return Some((at, header));
        }
        at += 1;
    }
    None
}

/// Where the next byte 0xFF is, looking at eight at a time.
fn next_ff(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let has_ff = |word: &[u8; 8]| {
        let zero_where_ff = !u64::from_le_bytes(*word);
        zero_where_ff.wrapping_sub(ONES) & !zero_where_ff & (ONES << 7) != 0
    };
    let words = bytes.as_chunks::<8>().0;
    let skipped = words.iter().position(has_ff).unwrap_or(words.len()) * 8;
    from(bytes, skipped).iter().position(|&byte| byte == 0xFF).map(|at| skipped + at)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::codec::flac::crc::{crc_8, crc_16};

    thread_local! {
        /// The places at which a header was looked for.
        pub(crate) static N_PARSED: Cell<usize> = const { Cell::new(0) };
    }

    /// Headers of blocks of 4096 with these numbers, and no frames behind them: mono, 44.1 kHz, 16 bits.
    pub(crate) fn bare_headers(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in numbers {
            let mut header = vec![0xFF, 0xF8, 0xC9, 0x08];
            // The number as a character of UTF-8 of four bytes.
            header.extend([0xF0 | (number >> 18) as u8, 0x80 | (number >> 12) as u8 & 0x3F]);
            header.extend([0x80 | (number >> 6) as u8 & 0x3F, 0x80 | number as u8 & 0x3F]);
            header.push(crc_8(&header));
            bytes.extend(header);
        }
        bytes
    }

    /// A frame of 256 equal samples: mono, 44.1 kHz, 16 bits.
    pub(crate) fn frame(number: u8, value: i16) -> Vec<u8> {
        frame_of(8, number, value)
    }

    /// The same of 1 << `log_len` samples.
    pub(crate) fn frame_of(log_len: u8, number: u8, value: i16) -> Vec<u8> {
        let mut frame = vec![0xFF, 0xF8, log_len << 4 | 9, 0x08, number];
        frame.push(crc_8(&frame));
        frame.push(0);
        frame.extend(value.to_be_bytes());
        let crc = crc_16(&frame);
        frame.extend(crc.to_be_bytes());
        frame
    }

    const INFO: StreamInfo = StreamInfo {
        rate_hz: 44_100,
        n_channels: 1,
        bits: 16,
        promised: 0,
        block_lens: [256, 256],
    };

    fn walk(bytes: &[u8]) -> Vec<(u64, bool)> {
        let mut walk = Walk::new(bytes, 0, &INFO, Timeline::Blocks(256)).unwrap();
        std::iter::from_fn(|| walk.next().map(|frame| (frame.pts, frame.is_intact()))).collect()
    }

    #[test]
    fn frames_end_where_the_next_begins() {
        let frames: Vec<_> = (0..4).map(|n| frame(n, -7)).collect();
        let whole = [(0, true), (256, true), (512, true), (768, true)];
        assert_eq!(walk(&frames.concat()), whole);
        assert_eq!(walk(&[frames.concat(), vec![0; 9]].concat()), whole);
        let cut = &frames.concat()[..40];
        assert_eq!(walk(cut), [(0, true), (256, true), (512, true), (768, false)]);
    }

    #[test]
    fn damage_costs_a_frame_and_no_more() {
        let mut frames: Vec<_> = (0..4).map(|n| frame(n, 1000)).collect();
        frames[1][8] ^= 1;
        assert_eq!(walk(&frames.concat()), [(0, true), (256, false), (512, true), (768, true)]);
        frames[1][8] ^= 1;
        frames[2].clear();
        assert_eq!(walk(&frames.concat()), [(0, true), (256, true), (768, true)]);
    }

    #[test]
    fn numbers_that_never_follow_are_not_looked_for_again_and_again() {
        let n = 10_000;
        let bytes = bare_headers((0..n).map(|i| 2 * i));
        let before = N_PARSED.get();
        let info = StreamInfo { block_lens: [4096, 4096], ..INFO };
        let mut walk = Walk::new(&bytes, 0, &info, Timeline::Blocks(4096)).unwrap();
        assert_eq!(std::iter::from_fn(|| walk.next()).count(), n as usize);
        let n_parsed = N_PARSED.get() - before;
        assert!(n_parsed <= 20 * n as usize, "{n_parsed}");
    }

    #[test]
    fn the_last_frame_is_found_from_the_end() {
        let frames: Vec<_> = (0..4).map(|n| frame(n, 5)).collect();
        let bytes = frames.concat();
        let walk = Walk::new(&bytes, 0, &INFO, Timeline::Blocks(256)).unwrap();
        let last = walk.last(0).unwrap();
        assert_eq!((last.pts, last.end, last.is_intact()), (768, 1024, true));
    }

    #[test]
    fn old_streams_are_counted() {
        let frames: Vec<_> = (0..3).map(|n| frame(n, 5)).collect();
        let info = StreamInfo { block_lens: [16, 4096], ..INFO };
        let header = Header::parse(&frames[0]).unwrap();
        assert_eq!(Timeline::new(&info, &header), Timeline::Counted);
        let bytes = frames.concat();
        let mut walk = Walk::new(&bytes, 0, &info, Timeline::Counted).unwrap();
        assert_eq!(walk.next().unwrap().pts, 0);
        assert_eq!(walk.next().unwrap().pts, 256);
    }

    proptest::proptest! {
        #[test]
        fn seeking_finds_what_walking_finds(start in 0u64..128 * 256) {
            // Far enough apart that halving has something to do.
            let frames: Vec<_> =
                (0..128).map(|n| [frame(n, 3), vec![0; 700]].concat()).collect();
            let bytes = frames.concat();
            let mut walk = Walk::new(&bytes, 0, &INFO, Timeline::Blocks(256)).unwrap();
            walk.seek(start);
            let first = walk.next().unwrap();
            proptest::prop_assert!(first.pts <= start && start - first.pts < 32 * 256);
        }

        #[test]
        fn mutated_streams_end(
            changes in proptest::collection::vec((0usize..500, proptest::num::u8::ANY), 0..20),
        ) {
            let mut bytes = (0..40).map(|n| frame(n, 3)).collect::<Vec<_>>().concat();
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if let Some(mut walk) = Walk::new(&bytes, 0, &INFO, Timeline::Blocks(256)) {
                walk.seek(5000);
                let n_frames = std::iter::from_fn(|| walk.next()).count();
                proptest::prop_assert!(n_frames <= 40);
            }
        }

        #[test]
        fn bytes_of_ff_are_all_found(bytes in proptest::collection::vec(250u8.., 0..40)) {
            let slow = bytes.iter().position(|&byte| byte == 0xFF);
            proptest::prop_assert_eq!(next_ff(&bytes), slow);
        }
    }
}
