//! A recording whose packets are listed: from the window to its packets, and through their decoder.

use std::ops::Range;

use super::table::{Framing, PacketTable};
use crate::{
    cancel::Cancel,
    error::Reason,
    info::AudioInfo,
    memory,
    names::Codec,
    sink::Sink,
    stream::{
        Coding, Kept, Packet, PacketSink, Point, Recording, Scratch, SeekTable, Shape, Tally,
        WarmUp,
    },
};

/// What a container says of its track. The packets are in [`Scratch::packets`].
#[derive(Debug)]
pub(crate) struct TrackLayout {
    pub(crate) codec: Codec,
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
    /// Playable frames.
    pub(crate) n_frames: u64,
    /// Decoded frames before the first playable one.
    pub(crate) delay: u64,
    pub(crate) coding: Box<dyn Coding>,
}

/// An opened recording.
#[derive(Debug)]
pub(crate) struct Listed {
    layout: TrackLayout,
    wanted: Wanted,
    framing: Option<Framing>,
    /// Where blocks of packets begin, for [`Framing::Blocks`].
    places: Vec<Point>,
}

impl From<TrackLayout> for Listed {
    fn from(layout: TrackLayout) -> Self {
        Self { layout, wanted: Wanted::default(), framing: None, places: Vec::new() }
    }
}

impl Listed {
    /// A recording whose packets can be told apart in a part of it.
    pub(crate) fn framed(
        layout: TrackLayout,
        framing: Option<Framing>,
        places: Vec<Point>,
    ) -> Self {
        Self { framing, places, ..layout.into() }
    }
}

impl TrackLayout {
    /// What the headers say.
    pub(super) fn info(&self) -> AudioInfo {
        let Self { codec, rate_hz, n_channels, n_frames, .. } = *self;
        AudioInfo { codec, rate_hz, n_channels, n_frames }
    }
}

impl Recording for Listed {
    fn info(&self) -> AudioInfo {
        self.layout.info()
    }

    fn seek(&mut self, _: &[u8], window: &Range<u64>, scratch: &mut Scratch) -> Result<(), Reason> {
        let len = window.end - window.start;
        self.wanted = Wanted::find(&self.layout, &scratch.packets, window.start, len)?;
        Ok(())
    }

    fn seek_table(&self, bytes: &[u8], scratch: &mut Scratch) -> Option<Box<dyn SeekTable>> {
        let Self { layout, places, .. } = self;
        let table = PacketTable::new(bytes, layout, self.framing?, places, &scratch.packets)?;
        Some(Box::new(table))
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: bool,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        decode(bytes, &self.layout, &self.wanted, &mut scratch.decoders, sink, cancel)
    }
}

/// Decodes the packets of `wanted` until the sink is full.
pub(super) fn decode(
    bytes: &[u8],
    layout: &TrackLayout,
    wanted: &Wanted,
    kept: &mut Kept,
    sink: &mut Sink<'_>,
    cancel: &Cancel,
) -> Result<(), Reason> {
    let TrackLayout { rate_hz, n_channels, .. } = *layout;
    let shape = Shape { rate_hz, n_channels };
    let mut decoder = layout.coding.decoder(shape, kept)?;
    let mut tally = Tally::default();
    let mut end = None;
    for (i, packet) in wanted.packets.iter().enumerate() {
        if sink.is_full() {
            break;
        }
        cancel.check()?;
        if end.replace(packet.end()).is_some_and(|end| end != packet.start) {
            decoder.lose();
        }
        let pts = packet.start as i64 - layout.delay as i64;
        let (n_left, n_frames) = (packet.n_frames as usize, packet.n_frames + packet.n_trimmed);
        let mut out = PacketSink { sink: &mut *sink, cancel, pts, n_frames, n_left, n_channels };
        let outcome = decoder.decode(packet.data(bytes).unwrap_or_default(), &mut out)?;
        if i >= wanted.n_unheard {
            tally.add(outcome);
        }
    }
    tally.finish(sink)
}

/// The packets that a window needs.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    packets: Vec<Packet>,
    /// How many of them nothing is heard of, so that they may be corrupt: those that warm up, but for
    /// the last one, which overlaps.
    n_unheard: usize,
}

impl Wanted {
    /// The packets for `len` frames from playable frame `start` on.
    pub(super) fn find(
        layout: &TrackLayout,
        packets: &[Packet],
        start: u64,
        len: u64,
    ) -> Result<Self, Reason> {
        let from = start.saturating_add(layout.delay);
        let end = packets.partition_point(|p| p.start < from.saturating_add(len));
        let wanted = packets.partition_point(|p| p.end() <= from).min(end);
        let (n_warm_up, n_unheard) = match layout.coding.warm_up() {
            WarmUp::Packets(n) => (n.min(wanted), n.min(wanted).saturating_sub(1)),
            WarmUp::Frames(n) => {
                let from = from.saturating_sub(n);
                (wanted - packets.partition_point(|p| p.end() <= from).min(wanted), 0)
            }
            WarmUp::All => (wanted, 0),
        };
        let packets = memory::copy(packets.get(wanted - n_warm_up..end).unwrap_or_default())?;
        Ok(Self { packets, n_unheard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec::{aac, alac, mp3},
        stream::List,
    };

    #[test]
    fn a_window_has_its_packets_and_those_before() {
        let bytes = [0; 100];
        let mut packets = Vec::new();
        let mut list = List::new(&mut packets, &bytes);
        for at in 0..10 {
            list.push(at * 10, 10, 100).unwrap();
        }
        let mut layout = TrackLayout {
            codec: Codec::Aac,
            rate_hz: 1000,
            n_channels: 1,
            n_frames: 950,
            delay: 50,
            coding: Box::new(aac::Coded),
        };
        let found = |layout: &TrackLayout, start, len| {
            let found = Wanted::find(layout, &packets, start, len).unwrap();
            let first = found.packets.first().map_or(usize::MAX, |p| p.offset / 10);
            (first, found.packets.len(), found.n_unheard)
        };
        assert_eq!(found(&layout, 0, 50), (0, 1, 0));
        assert_eq!(found(&layout, 0, 51), (0, 2, 0));
        assert_eq!(found(&layout, 450, 100), (3, 3, 1));
        assert_eq!(found(&layout, 449, 101), (2, 4, 1));
        assert_eq!(found(&layout, 949, 99), (7, 3, 1));
        let mut cookie = [0; 24];
        (cookie[2], cookie[5], cookie[9]) = (16, 16, 1);
        layout.coding = Box::new(alac::Config::read(&cookie).unwrap());
        assert_eq!(found(&layout, 450, 100), (5, 1, 0));
        layout.coding = Box::new(mp3::Coded);
        assert_eq!(found(&layout, 450, 100), (0, 6, 0));
    }
}
