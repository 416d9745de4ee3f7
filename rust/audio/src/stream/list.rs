//! The packets of a track, as a container's parser finds them.

use super::{
    packet::Packet,
    track::{ToldBy, Track},
};
use crate::{
    error::Reason,
    memory,
    report::{Damage, Ledger},
};

/// So many packets show whether the length that a container gives is theirs.
const N_ASKED: usize = 64;

/// Collects the packets of a track.
///
/// Packets have at least a byte and do not overlap, so there are never more of them than the file
/// has bytes, whatever its tables say.
#[derive(Debug)]
pub(crate) struct List<'a> {
    packets: &'a mut Vec<Packet>,
    n_bytes: usize,
    spare: usize,
    n_frames: u64,
    /// Packets that are not all in the file, and the frames before the first of them.
    n_missing: u64,
    whole: u64,
}

impl<'a> List<'a> {
    /// An empty list for a file of these bytes.
    pub(crate) fn new(packets: &'a mut Vec<Packet>, bytes: &[u8]) -> Self {
        packets.clear();
        let n_bytes = bytes.len();
        Self { packets, n_bytes, spare: n_bytes, n_frames: 0, n_missing: 0, whole: 0 }
    }

    /// Adds a packet behind the others. One that reaches over the end of the file is counted and
    /// not listed.
    pub(crate) fn push(&mut self, offset: usize, len: usize, n_frames: u32) -> Result<(), Reason> {
        if len == 0 {
            return Err(Reason::malformed("a packet is empty"));
        }
        let start = self.n_frames;
        self.n_frames = start.saturating_add(u64::from(n_frames));
        if offset.checked_add(len).is_none_or(|end| end > self.n_bytes) {
            if self.n_missing == 0 {
                self.whole = start;
            }
            self.n_missing += 1;
            // Tables of packets outside the file are bounded by their own bytes or by this.
            let is_absurd = self.n_missing > self.n_bytes as u64;
            return if is_absurd { Err(self.truncated(None)) } else { Ok(()) };
        }
        let Some(spare) = self.spare.checked_sub(len) else {
            return Err(Reason::malformed("packets overlap"));
        };
        self.spare = spare;
        memory::push(
            self.packets,
            Packet { offset, len: len as u32, n_frames, n_trimmed: 0, start },
        )
    }

    /// Has the last packet play so many frames fewer.
    pub(crate) fn trim_last(&mut self, n_frames: u32) {
        let Some(packet) = self.packets.last_mut() else { return };
        let n_trimmed = n_frames.min(packet.n_frames);
        packet.n_frames -= n_trimmed;
        packet.n_trimmed += n_trimmed;
        self.n_frames = self.n_frames.saturating_sub(u64::from(n_trimmed));
    }

    /// Leaves a place for frames whose packets are lost.
    pub(crate) fn skip(&mut self, n_frames: u64) {
        self.n_frames = self.n_frames.saturating_add(n_frames);
    }

    /// Leaves places for frames whose packets are lost: as many (second) before the packets that have
    /// so many frames (first) before them, in their order.
    pub(crate) fn spread(&mut self, gaps: &[(u64, u64)]) {
        let mut gaps = gaps.iter().peekable();
        let mut n_lost = 0u64;
        for packet in self.packets.iter_mut() {
            while let Some((_, lost)) = gaps.next_if(|(before, _)| *before <= packet.start) {
                n_lost = n_lost.saturating_add(*lost);
            }
            packet.start = packet.start.saturating_add(n_lost);
        }
        let rest = gaps.map(|(_, lost)| *lost).fold(n_lost, u64::saturating_add);
        self.n_frames = self.n_frames.saturating_add(rest);
        self.whole = self.whole.saturating_add(n_lost);
    }

    /// Bytes in the mean of the packets, at least 1.
    pub(crate) fn mean_len(&self) -> usize {
        ((self.n_bytes - self.spare) / self.packets.len().max(1)).max(1)
    }

    /// Frames of the first packet.
    pub(crate) fn first_len(&self) -> u32 {
        self.packets.first().map_or(0, |packet| packet.n_frames)
    }

    /// Frames of the longest packet.
    pub(crate) fn longest(&self) -> u32 {
        self.packets.iter().map(|packet| packet.n_frames).max().unwrap_or(0)
    }

    /// How many packets are listed.
    pub(crate) fn len(&self) -> usize {
        self.packets.len() + self.n_missing as usize
    }

    /// Frames of all packets, missing ones included.
    pub(crate) fn n_frames(&self) -> u64 {
        self.n_frames
    }

    /// The frames of the first packet that says its length, if fewer than half of the first packets have the
    /// length that the container says all have.
    pub(crate) fn contradicts(&self, bytes: &[u8], track: &Track) -> Option<u32> {
        let lens = self.packets.iter().take(N_ASKED);
        let lens = lens.filter_map(|packet| track.coding.packet_len(packet.data(bytes)?));
        let (mut n_told, mut n_agreed, mut first) = (0, 0, None);
        for len in lens {
            n_told += 1;
            n_agreed += usize::from(len == track.frame_len);
            first = first.or(Some(len));
        }
        first.filter(|_| track.is_uniform && 2 * n_agreed < n_told)
    }

    /// Lets packets say how long they are, where they do.
    pub(crate) fn measure(
        &mut self,
        bytes: &[u8],
        track: &Track,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        if self.n_missing > 0 {
            return Ok(());
        }
        let corrupt = || Reason::CorruptPackets { count: 1 };
        let coding = &track.coding;
        match coding.told_by() {
            ToldBy::Each => {
                self.n_frames = 0;
                let mut behind = 0;
                // The last one may be shorter.
                let n_equal = self.packets.len().saturating_sub(1);
                for (i, packet) in self.packets.iter_mut().enumerate() {
                    self.n_frames += packet.start.saturating_sub(behind); // what was skipped
                    behind = packet.end();
                    packet.start = self.n_frames;
                    let data = packet.data(bytes).unwrap_or_default();
                    let len = coding.packet_len(data);
                    match len.filter(|n| i >= n_equal || track.may_be(*n)) {
                        Some(n_frames) => packet.n_frames = n_frames,
                        // It keeps the length of the others.
                        None => ledger.lose(Damage::CorruptPackets, 1, corrupt())?,
                    }
                    self.n_frames += u64::from(packet.n_frames);
                }
            }
            ToldBy::Last => {
                let Some(last) = self.packets.last_mut() else { return Ok(()) };
                let n_frames = last.data(bytes).and_then(|data| coding.packet_len(data));
                let n_frames = n_frames.unwrap_or(track.frame_len);
                if n_frames > track.frame_len {
                    ledger.lose(Damage::CorruptPackets, 1, corrupt())?;
                }
                let n_frames = n_frames.min(track.frame_len);
                last.n_frames = n_frames;
                self.n_frames = last.start + u64::from(n_frames);
            }
            ToldBy::None => {}
        }
        Ok(())
    }

    /// Whether everything is in the file. `promised`: the frames that headers speak of, if more.
    /// They get a place as well.
    pub(crate) fn check(
        &mut self,
        promised: Option<u64>,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        if self.n_missing == 0 && promised.is_none() {
            return Ok(());
        }
        ledger.lose(Damage::Truncated, 1, self.truncated(promised))?;
        self.n_frames = self.n_frames.max(promised.unwrap_or(0));
        Ok(())
    }

    fn truncated(&self, promised: Option<u64>) -> Reason {
        let decoded = if self.n_missing == 0 { self.n_frames } else { self.whole };
        Reason::Truncated { decoded, expected: Some(promised.unwrap_or(self.n_frames)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_cannot_outgrow_its_file() {
        let bytes = [0; 100];
        let mut packets = Vec::new();
        let mut list = List::new(&mut packets, &bytes);
        assert!(list.push(0, 0, 1).is_err());
        for at in 0..10 {
            list.push(at * 10, 10, 1024).unwrap();
        }
        assert_eq!(list.push(0, 1, 1024), Err(Reason::malformed("packets overlap")));
        let mut list = List::new(&mut packets, &bytes);
        list.push(90, 10, 7).unwrap();
        list.push(95, 10, 7).unwrap();
        list.push(usize::MAX, 10, 7).unwrap();
        let found = list.check(None, &mut Ledger::default());
        assert_eq!(found, Err(Reason::Truncated { decoded: 7, expected: Some(21) }));
        assert!((0..200).any(|_| list.push(1000, 1, 1).is_err()));
    }
}
