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
mod walk;

use gaps::{Clock, Gaps};
use walk::{End, Walk};

use crate::{
    demux::{
        container::{Container, Input, OpenResult},
        packets::{Framing, Listed, TrackLayout},
    },
    error::Reason,
    names::Codec,
    report::{Damage, Ledger, Note},
    stream::{List, Packet, Point, Scratch, Track},
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

/// Lists the packets of the first audio track.
///
/// If an element does not parse, the walk continues with the next block or cluster. The times of blocks then
/// tell how many packets are lost between two.
fn open(bytes: &[u8], listed: &mut Vec<Packet>, ledger: &mut Ledger) -> Result<Opened, Reason> {
    let mut walk = Walk::new(List::new(listed, bytes), ledger);
    let end = walk.run(bytes)?;
    let mut is_cut = end != End::Whole;
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
    let promised = frames(duration_ns.unwrap_or(0));
    // A duration that the blocks fill shows that the size of the segment is false.
    let last = walk.blocks.last().map_or(0, |block| block.own / 2) + u64::from(rate_hz / 300);
    let is_filled = promised > 0 && promised <= list.n_frames().saturating_add(last);
    if end == End::Short && (is_filled || walk.is_past_sound) {
        is_cut = false;
        walk.n_odd += 1;
    }
    let reason = Reason::malformed("the size of a Matroska element is false");
    ledger.remark(Note::HeaderLength, walk.n_odd, reason)?;
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

#[cfg(test)]
mod tests;
