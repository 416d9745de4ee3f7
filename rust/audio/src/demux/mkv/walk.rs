//! The walk over the elements of a file: what they say of the track, and where its packets are.

use super::{
    block::Block,
    codecs,
    ebml::{Element, float, int, uint},
    gaps::Timed,
    id,
    track_entry::TrackEntry,
};
use crate::{
    error::Reason,
    memory,
    report::{Damage, Ledger, Note},
    stream::{Counter, List, Point, Track},
};

/// Elements that are entered rather than skipped. That makes the walk flat, and sizes that are not known
/// or are false no matter.
const ENTERED: [u32; 10] = [
    id::HEADER,
    id::SEGMENT,
    id::INFO,
    id::TRACKS,
    id::TRACK_ENTRY,
    id::AUDIO,
    id::ENCODINGS,
    id::ENCODING,
    id::CLUSTER,
    id::BLOCK_GROUP,
];

/// Elements of a segment that have no sound.
const SOUNDLESS: [u32; 5] = [id::CUES, id::TAGS, id::SEEK_HEAD, id::CHAPTERS, id::ATTACHMENTS];

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Behind its last element.
    Whole,
    /// Behind an element, before the end of its segment.
    Short,
    /// Inside an element.
    Inside,
}

/// Whether an element that only a segment has begins at `at`.
fn is_part_of_segment(bytes: &[u8], at: usize) -> bool {
    Element::read(bytes, at).is_some_and(|element| {
        matches!(element.id, id::INFO | id::TRACKS | id::CLUSTER) || SOUNDLESS.contains(&element.id)
    })
}

/// The audio track that is read.
pub(super) struct Stream {
    pub(super) number: u64,
    pub(super) track: Track,
    pub(super) delay_ns: u64,
    counter: Counter,
}

pub(super) struct Walk<'a, 'l> {
    pub(super) list: List<'l>,
    pub(super) ledger: &'l mut Ledger,
    pub(super) scale_ns: u64,
    /// In the segment's timescale, which may come behind it.
    pub(super) duration: Option<f64>,
    entry: Option<TrackEntry<'a>>,
    pub(super) n_tracks: u64,
    pub(super) stream: Option<Stream>,
    cluster_time: i64,
    /// When the blocks of the track say that they begin.
    pub(super) blocks: Vec<Timed>,
    /// Where they begin, and the frames before each.
    pub(super) places: Vec<Point>,
    /// Where the element begins that is looked at.
    at: usize,
    /// Frames at the end of the last block that are not meant to be heard.
    pub(super) discard_ns: u64,
    /// Whether the block that was met last is one of the track.
    is_own: bool,
    /// What its group said of padding before the block came.
    group_discard_ns: u64,
    /// Why audio tracks before the one that is read are not.
    pub(super) refused: Option<Reason>,
    /// Whether what is no element is inside a cluster, or goes on to the end and is more than zeros behind the
    /// segment.
    pub(super) is_torn: bool,
    /// Where the cluster ends that was entered last, if its size is known.
    cluster_end: Option<usize>,
    /// Whether an element without sound has followed the last block.
    pub(super) is_past_sound: bool,
    /// Sizes that are false and cost no sound.
    pub(super) n_odd: u64,
    /// In how many places there is something else than an element, and where the first of it begins.
    pub(super) junk: Option<(u64, u64)>,
}

impl<'a, 'l> Walk<'a, 'l> {
    pub(super) fn new(list: List<'l>, ledger: &'l mut Ledger) -> Self {
        Self {
            list,
            ledger,
            scale_ns: 1_000_000,
            duration: None,
            entry: None,
            n_tracks: 0,
            stream: None,
            cluster_time: 0,
            blocks: Vec::new(),
            places: Vec::new(),
            at: 0,
            discard_ns: 0,
            is_own: false,
            group_discard_ns: 0,
            refused: None,
            is_torn: false,
            cluster_end: None,
            is_past_sound: false,
            n_odd: 0,
            junk: None,
        }
    }

    /// Goes over all elements.
    pub(super) fn run(&mut self, bytes: &'a [u8]) -> Result<End, Reason> {
        let mut at = 0;
        let mut segment_end = None;
        let mut header_end = None;
        while at < bytes.len() {
            let element = Element::read(bytes, at);
            let is_entered = element.is_some_and(|element| ENTERED.contains(&element.id));
            let end = element.and_then(|element| element.end());
            // Another element of the segment shows that the size is false and not that of the header.
            if let Some(next) =
                header_end.filter(|&next| at < next && end.is_none_or(|end| end > next))
                && !is_entered
                && is_part_of_segment(bytes, next)
            {
                self.n_odd += 1;
                at = next;
                continue;
            }
            let Some(element) = element else {
                // Fewer bytes than a header has, or something else behind the segment.
                let is_behind = segment_end.is_some_and(|end| at >= end);
                let is_open = segment_end == Some(usize::MAX);
                if is_open && bytes.iter().skip(at).all(|&byte| byte == 0) {
                    self.meet_junk(at, false);
                    break; // zeros behind a segment of unknown length
                }
                if is_behind {
                    return Ok(End::Whole);
                }
                if bytes.len() - at < 12 {
                    return Ok(self.end(End::Inside));
                }
                let next = self.resync(bytes, at + 1);
                if next >= bytes.len() && self.end(End::Inside) == End::Whole {
                    return Ok(End::Whole);
                }
                self.meet_junk(at, self.is_inside(bytes, at, next));
                at = next;
                self.is_torn |= at >= bytes.len();
                continue;
            };
            if element.id == id::SEGMENT {
                if segment_end.is_some() && !self.blocks.is_empty() {
                    break; // a second segment is another recording
                }
                if segment_end.is_some() {
                    // The first one has headers only.
                    (self.stream, self.entry, self.n_tracks) = (None, None, 0);
                    let reason = Reason::malformed("the headers come twice");
                    self.ledger.remark(Note::RepeatedHeaders, 1, reason)?;
                }
                segment_end = Some(element.end().unwrap_or(usize::MAX));
            }
            if is_entered {
                self.enter(element.id)?;
                match element.id {
                    id::INFO | id::TRACKS => header_end = end,
                    id::CLUSTER => (self.cluster_end, self.is_past_sound) = (end, false),
                    _ => {}
                }
                at = element.body;
                continue;
            }
            let is_soundless = SOUNDLESS.contains(&element.id) && !self.blocks.is_empty();
            let Some(end) = end.filter(|&end| end <= bytes.len()) else {
                let next = self.resync(bytes, at + 1);
                if next < bytes.len() {
                    self.meet_junk(at, self.is_inside(bytes, at, next));
                    at = next;
                    continue;
                }
                self.is_past_sound |= is_soundless;
                return Ok(self.end(End::Inside));
            };
            self.is_past_sound |= is_soundless;
            self.at = at;
            match self.element(bytes, &element) {
                Err(reason) if reason.is_damage() => {
                    self.ledger.lose(Damage::CorruptPackets, 1, reason)?;
                }
                result => result?,
            }
            at = end;
        }
        self.leave_entry()?;
        let is_short = segment_end.is_some_and(|end| end != usize::MAX && end > bytes.len());
        Ok(if is_short { End::Short } else { End::Whole })
    }

    /// The end of a file that breaks off: behind all sound, that is a false size at most.
    fn end(&mut self, end: End) -> End {
        if !self.is_past_sound {
            return end;
        }
        self.n_odd += 1;
        End::Whole
    }

    /// Whether what is no element from `at` on is inside a cluster, so that a block was there. The walk goes on
    /// at `next`.
    fn is_inside(&self, bytes: &[u8], at: usize, next: usize) -> bool {
        match self.cluster_end {
            Some(end) => at < end,
            None => Element::read(bytes, next).is_some_and(|element| element.id != id::CLUSTER),
        }
    }

    fn meet_junk(&mut self, at: usize, is_inside: bool) {
        let (count, _) = self.junk.get_or_insert((0, at as u64));
        *count += 1;
        self.is_torn |= is_inside;
    }

    /// Where the walk can go on from `at`: a cluster, or a block of the track with another element
    /// or the end behind it. The end of the bytes if there is none.
    fn resync(&self, bytes: &[u8], at: usize) -> usize {
        let mut places = at..bytes.len();
        let track = self.stream.as_ref().map(|stream| stream.number);
        let is_place = |&at: &usize| {
            let Some(element) = Element::read(bytes, at) else { return false };
            match element.id {
                id::CLUSTER => true,
                id::SIMPLE_BLOCK => {
                    let Some(end) = element.end().filter(|&end| end <= bytes.len()) else {
                        return false;
                    };
                    let follows = Element::read(bytes, end).map(|next| next.id);
                    let is_known = match follows {
                        Some(id) => {
                            matches!(
                                id,
                                id::SIMPLE_BLOCK | id::BLOCK_GROUP | id::CLUSTER | id::CUES
                            )
                        }
                        None => end == bytes.len(),
                    };
                    is_known
                        && Block::read(element.data(bytes))
                            .is_ok_and(|block| Some(block.track) == track)
                }
                _ => false,
            }
        };
        places.find(is_place).unwrap_or(bytes.len())
    }

    fn enter(&mut self, id: u32) -> Result<(), Reason> {
        match id {
            id::TRACK_ENTRY => {
                self.leave_entry()?;
                self.entry = Some(TrackEntry::default());
                self.n_tracks += 1;
            }
            id::CLUSTER => self.leave_entry()?,
            id::BLOCK_GROUP => (self.is_own, self.group_discard_ns) = (false, 0),
            id::ENCODINGS => {
                if let Some(entry) = &mut self.entry {
                    entry.is_encoded = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the entry that was read if it is the first of an audio track.
    fn leave_entry(&mut self) -> Result<(), Reason> {
        if let Some(entry) = self.entry.take()
            && entry.kind == 2
            && self.stream.is_none()
        {
            let delay_ns = entry.delay_ns;
            let opened = codecs::track(&entry).and_then(|track| {
                let counter = track.coding.counter(&track)?;
                Ok(Stream { number: entry.number, track, delay_ns, counter })
            });
            match opened {
                Ok(stream) => self.stream = Some(stream),
                // Another track may be one that can be decoded.
                Err(reason @ Reason::UnsupportedCodec(_)) => {
                    self.refused = self.refused.take().or(Some(reason));
                }
                Err(reason) => return Err(reason),
            }
        }
        Ok(())
    }

    fn element(&mut self, bytes: &'a [u8], element: &Element) -> Result<(), Reason> {
        let data = element.data(bytes);
        let number = || uint(data).unwrap_or(0);
        match element.id {
            id::TIMESTAMP_SCALE => self.scale_ns = number().max(1),
            id::DURATION => self.duration = float(data),
            id::CLUSTER_TIME => self.cluster_time = number() as i64,
            id::SIMPLE_BLOCK => {
                self.group_discard_ns = 0;
                return self.block(bytes, element);
            }
            id::BLOCK => return self.block(bytes, element),
            // It may come before the block of its group. That of another track's block is not ours.
            id::DISCARD_PADDING => {
                let padding_ns = int(data).unwrap_or(0).max(0) as u64;
                if self.is_own {
                    self.discard_ns = padding_ns;
                } else {
                    self.group_discard_ns = padding_ns;
                }
            }
            _ => {}
        }
        let Some(entry) = &mut self.entry else { return Ok(()) };
        match element.id {
            id::TRACK_NUMBER => entry.number = number(),
            id::TRACK_TYPE => entry.kind = number(),
            id::CODEC_ID => entry.codec = data,
            id::CODEC_PRIVATE => entry.private = data,
            id::CODEC_DELAY => entry.delay_ns = number(),
            id::RATE => entry.rate_hz = float(data),
            id::OUTPUT_RATE => entry.output_rate_hz = float(data),
            id::CHANNELS => entry.n_channels = Some(number()),
            id::BIT_DEPTH => entry.bits = Some(number()),
            id::ENCRYPTION => entry.is_encrypted = true,
            _ => {}
        }
        Ok(())
    }

    fn block(&mut self, bytes: &[u8], element: &Element) -> Result<(), Reason> {
        self.is_own = false;
        let block = Block::read(element.data(bytes))?;
        let Some(stream) = self.stream.as_mut().filter(|s| s.number == block.track) else {
            return Ok(());
        };
        // The padding of the block before: that of the last block is left to the end.
        let rate_hz = u128::from(stream.track.rate_hz);
        let padding = (u128::from(self.discard_ns) * rate_hz + 500_000_000) / 1_000_000_000;
        self.list.trim_last(u32::try_from(padding).unwrap_or(u32::MAX));
        (self.is_own, self.discard_ns) = (true, std::mem::take(&mut self.group_discard_ns));
        let time = self.cluster_time.saturating_add(i64::from(block.time));
        let before = self.list.n_frames();
        let mut at = element.body + block.payload;
        let mut packets = Vec::with_capacity(block.lens.len());
        for len in block.lens {
            let packet = bytes.get(at..at + len).unwrap_or_default();
            packets.push((at, len, (stream.counter)(packet)?));
            at += len;
        }
        let own = packets.iter().map(|&(.., n_frames)| u64::from(n_frames)).sum::<u64>();
        memory::push(&mut self.blocks, Timed { time, before, own })?;
        memory::push(&mut self.places, Point { unit: before, byte: self.at as u64 })?;
        for (at, len, n_frames) in packets {
            self.list.push(at, len, n_frames)?;
        }
        Ok(())
    }
}
