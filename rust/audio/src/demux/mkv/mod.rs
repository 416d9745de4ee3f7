//! Matroska and `WebM`, RFC 9559: one walk over all elements lists the packets.
//!
//! Times in Matroska are rounded, to milliseconds as a rule, so they place nothing: the frames
//! before a packet are the sum of what the packets before it hold. Times only show gaps ([`gaps`]).

mod block;
mod codecs;
mod ebml;
mod gaps;
mod id;
pub(super) mod part_blocks;
mod track_entry;

use block::Block;
use ebml::{Element, float, int, uint};
use gaps::{Clock, Gaps, Timed};
use track_entry::TrackEntry;

use crate::{
    demux::{
        container::{Container, Input, OpenResult},
        packets::{Framing, Listed, TrackLayout},
    },
    error::Reason,
    memory,
    names::Codec,
    report::{Damage, Ledger, Note},
    stream::{Counter, List, Packet, Point, Scratch, Track},
};

/// Matroska and `WebM`.
pub(crate) struct Matroska;

impl Container for Matroska {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        (at == 0 && bytes.starts_with(&[0x1A, 0x45, 0xDF, 0xA3])).then_some(at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        None
    }

    fn open(&self, input: Input<'_>, scratch: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let Opened { layout, track, places } = open(input.bytes, &mut scratch.packets, ledger)?;
        Ok(Box::new(Listed::framed(layout, Some(Framing::Blocks(track)), places)))
    }
}

/// Elements that are entered rather than passed over. That makes the walk flat, and sizes that
/// are not known no matter.
const ENTERED: [u32; 9] = [
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

/// Lists the packets of the first audio track.
///
/// Where elements do not parse, the walk goes on with the next block or cluster. The times of blocks then
/// tell how many packets are lost between two.
fn open(bytes: &[u8], listed: &mut Vec<Packet>, ledger: &mut Ledger) -> Result<Opened, Reason> {
    let mut walk = Walk::new(List::new(listed, bytes), ledger);
    let is_cut = walk.run(bytes)?;
    let Some(stream) = walk.stream else {
        return Err(match walk.refused {
            Some(reason) => reason,
            None if is_cut => Reason::Truncated { decoded: 0, expected: None },
            None => Reason::malformed("there is no audio track"),
        });
    };
    if let Some(reason) = walk.refused {
        walk.ledger.remark(Note::SkippedTracks, 1, reason)?;
    }
    let (mut list, ledger, places) = (walk.list, walk.ledger, walk.places);
    let rate_hz = stream.track.rate_hz;
    let frames = |ns: u64| {
        let frames = (u128::from(ns) * u128::from(rate_hz) + 500_000_000) / 1_000_000_000;
        u64::try_from(frames).unwrap_or(u64::MAX)
    };
    let delay = stream.track.delay.unwrap_or_else(|| frames(stream.delay_ns));
    let delay_ns = u128::from(delay) * 1_000_000_000 / u128::from(rate_hz.max(1));
    let duration_ns = walk.duration.map(|ticks| (ticks * walk.scale_ns as f64) as u64);
    // Some writers count a duration from time 0 on, wherever the first block stands. Where something
    // else than blocks was met, that may be what is left of the first ones.
    let first = walk.blocks.first().filter(|_| walk.junk.is_none());
    let first_ns = first.map_or(0, |block| block.time.max(0).unsigned_abs());
    let first_ns = first_ns.saturating_mul(walk.scale_ns);
    let duration_ns = duration_ns.map(|ns| ns.saturating_sub(first_ns));
    let clock = Clock {
        scale_ns: walk.scale_ns,
        rate_hz,
        duration_ns,
        trimmed_ns: u64::try_from(delay_ns).unwrap_or(u64::MAX).saturating_add(walk.discard_ns),
    };
    let Gaps { places: gaps, are_packets } = clock.gaps(&walk.blocks, list.n_frames())?;
    if let Some((count, byte)) = walk.junk {
        if gaps.is_empty() && !walk.is_torn {
            ledger.remark(Note::Junk, count, Reason::Junk { count, byte })?;
        } else {
            // Where packets are missing, it is what is left of them.
            ledger.lose(Damage::Junk, count, Reason::CorruptPackets { count })?;
        }
    }
    let count = gaps.len() as u64;
    if are_packets || walk.junk.is_some() {
        if count > 0 {
            ledger.lose(Damage::LostPackets, count, Reason::LostPackets { count })?;
            list.spread(&gaps);
        }
    } else {
        ledger.remark(Note::Timestamps, count, Reason::LostPackets { count })?;
    }
    list.check(None, ledger)?;
    if is_cut {
        let reason = Reason::Truncated { decoded: list.n_frames(), expected: None };
        ledger.lose(Damage::Truncated, 1, reason)?;
    }
    // Half a second covers what the other tracks of a film last longer.
    let slack = if is_cut { 0 } else { u64::from(rate_hz / 2) };
    let promised = frames(duration_ns.unwrap_or(0));
    let n_coded = list.n_frames();
    if walk.n_tracks == 1 && promised > n_coded.saturating_add(slack) {
        if is_cut || walk.junk.is_some() {
            list.check(Some(promised), ledger)?;
        } else {
            let reason = Reason::Truncated { decoded: n_coded, expected: Some(promised) };
            ledger.remark(Note::HeaderLength, 1, reason)?;
        }
    }
    let n_coded = list.n_frames();
    let Track { codec, rate_hz, n_channels, mut coding, .. } = stream.track;
    let delay = delay.min(n_coded);
    let n_frames = (n_coded - delay).saturating_sub(frames(walk.discard_ns));
    coding.settle(bytes, listed, rate_hz)?;
    let layout = TrackLayout { codec, rate_hz, n_channels, n_frames, delay, coding };
    Ok(Opened { layout, track: stream.number, places })
}

/// What the walk found.
#[derive(Debug)]
struct Opened {
    layout: TrackLayout,
    /// The number of the track.
    track: u64,
    /// Where its blocks begin, and the frames before each.
    places: Vec<Point>,
}

/// The audio track that is read.
struct Stream {
    number: u64,
    track: Track,
    delay_ns: u64,
    counter: Counter,
}

struct Walk<'a, 'l> {
    list: List<'l>,
    ledger: &'l mut Ledger,
    scale_ns: u64,
    /// In the segment's timescale, which may come behind it.
    duration: Option<f64>,
    entry: Option<TrackEntry<'a>>,
    n_tracks: u64,
    stream: Option<Stream>,
    cluster_time: i64,
    /// When the blocks of the track say that they begin.
    blocks: Vec<Timed>,
    /// Where they begin, and the frames before each.
    places: Vec<Point>,
    /// Where the element begins that is looked at.
    at: usize,
    /// Frames at the end of the last block that are not meant to be heard.
    discard_ns: u64,
    /// Whether the block that was met last is one of the track.
    is_own: bool,
    /// What its group said of padding before the block came.
    group_discard_ns: u64,
    /// Why audio tracks before the one that is read are not.
    refused: Option<Reason>,
    /// Whether what is no element goes on to the end, and is more than zeros behind the segment.
    is_torn: bool,
    /// In how many places something else than an element lies, and where the first of it begins.
    junk: Option<(u64, u64)>,
}

impl<'a, 'l> Walk<'a, 'l> {
    fn new(list: List<'l>, ledger: &'l mut Ledger) -> Self {
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
            junk: None,
        }
    }

    /// Goes over all elements; whether the file breaks off.
    fn run(&mut self, bytes: &'a [u8]) -> Result<bool, Reason> {
        let mut at = 0;
        let mut segment_end = None;
        while at < bytes.len() {
            let Some(element) = Element::read(bytes, at) else {
                // Fewer bytes than a header has, or something else behind the segment.
                let is_behind = segment_end.is_some_and(|end| at >= end);
                let is_open = segment_end == Some(usize::MAX);
                if is_open && bytes.iter().skip(at).all(|&byte| byte == 0) {
                    self.meet_junk(at);
                    break; // zeros behind a segment of unknown length
                }
                if !is_behind && bytes.len() - at >= 12 {
                    self.meet_junk(at);
                    at = self.resync(bytes, at + 1);
                    self.is_torn |= at >= bytes.len();
                    continue;
                }
                return Ok(!is_behind);
            };
            if element.id == id::SEGMENT {
                if segment_end.is_some() {
                    break; // a second segment is another recording
                }
                segment_end = Some(element.end().unwrap_or(usize::MAX));
            }
            if ENTERED.contains(&element.id) {
                self.enter(element.id)?;
                at = element.body;
                continue;
            }
            let Some(end) = element.end().filter(|&end| end <= bytes.len()) else {
                let next = self.resync(bytes, at + 1);
                if next < bytes.len() {
                    self.meet_junk(at);
                    at = next;
                    continue;
                }
                return Ok(true);
            };
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
        Ok(segment_end.is_some_and(|end| end != usize::MAX && end > bytes.len()))
    }

    fn meet_junk(&mut self, at: usize) {
        let (count, _) = self.junk.get_or_insert((0, at as u64));
        *count += 1;
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

#[cfg(test)]
mod tests;
