//! From packets to frames: what a codec does, and where the frames go.

use crate::{
    cancel::Cancel,
    error::Reason,
    limits::MAX_CHANNELS,
    report::Damage,
    sink::{Sample, Sink},
};

/// Decodes the packets of one track in their order.
pub(crate) trait Decode {
    /// Decodes a packet into `out`.
    ///
    /// A corrupt packet must not change what the next one decodes to.
    ///
    /// # Errors
    /// What ends decoding, such as cancelling. A damaged packet is an [`Outcome`].
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason>;

    /// Packets are lost before the next one.
    fn lose(&mut self) {}
}

/// How decoding a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Decoded,
    /// Its bits make no sense, or it has not the frames that were promised.
    Corrupt,
    /// Its checksum is wrong, so it was not decoded.
    WrongChecksum,
}

/// Where the frames of one packet go.
pub(crate) struct PacketSink<'a, 'b> {
    pub(crate) sink: &'a mut Sink<'b>,
    pub(crate) cancel: &'a Cancel,
    /// The playable frame that the packet begins with.
    pub(crate) pts: i64,
    /// The frames that it has.
    pub(crate) n_frames: u32,
    /// Those of them that are still to be played.
    pub(crate) n_left: usize,
    pub(crate) n_channels: u16,
}

impl PacketSink<'_, '_> {
    /// Takes what a packet gave, a plane a channel, if it is what was promised. Further planes are left.
    pub(crate) fn push<S: Sample, P: AsRef<[S]>>(&mut self, planes: &[P]) -> Outcome {
        let n_frames = self.n_frames as usize;
        match planes.get(..usize::from(self.n_channels)) {
            Some(planes) if planes.iter().all(|plane| plane.as_ref().len() == n_frames) => {
                self.push_part(planes);
                Outcome::Decoded
            }
            _ => Outcome::Corrupt,
        }
    }

    /// Takes the next frames of a packet that is decoded in parts.
    pub(crate) fn push_part<S: Sample, P: AsRef<[S]>>(&mut self, planes: &[P]) {
        let mut slices = [&[][..]; MAX_CHANNELS as usize];
        for (slice, plane) in slices.iter_mut().zip(planes) {
            let plane = plane.as_ref();
            *slice = plane.get(..self.n_left).unwrap_or(plane);
        }
        let slices = slices.get(..planes.len()).unwrap_or_default();
        self.sink.push(self.pts, slices);
        let n_pushed = slices.first().map_or(0, |plane| plane.len());
        self.n_left -= n_pushed.min(self.n_left);
        self.pts += n_pushed as i64;
    }
}

/// Counts packets that could not be decoded.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    n_corrupt: u64,
    n_wrong: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Decoded => {}
            Outcome::Corrupt => self.n_corrupt += 1,
            Outcome::WrongChecksum => self.n_wrong += 1,
        }
    }

    /// An error, or counts, if there were some.
    pub(crate) fn finish(self, sink: &mut Sink<'_>) -> Result<(), Reason> {
        if self.n_wrong > 0 {
            let count = self.n_wrong + self.n_corrupt;
            sink.lose(Damage::Checksums, self.n_wrong, Reason::CorruptPackets { count })?;
        }
        sink.note_corrupt(self.n_corrupt)
    }
}
