//! MPEG layer III in the packets of a container: a frame each.

use super::{Decoder, packet_shape};
use crate::{
    error::Reason,
    stream::{
        Coding, Counter, Decode, DecoderResult, Kept, Outcome, PacketSink, Shape, Track, WarmUp,
    },
};

/// Packets of layer III.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coded;

impl Coding for Coded {
    /// Containers say nothing of how far back main data begin.
    fn warm_up(&self) -> WarmUp {
        WarmUp::All
    }

    fn counter(&self, track: &Track) -> Result<Counter, Reason> {
        let expected = (track.rate_hz, track.n_channels);
        Ok(Box::new(move |packet| match packet_shape(packet) {
            None => Err(Reason::malformed("a packet is no MP3 packet")),
            Some((rate_hz, n_channels, _)) if (rate_hz, n_channels) != expected => {
                Err(Reason::ParamsChanged)
            }
            Some((.., n_frames)) => Ok(n_frames),
        }))
    }

    fn decoder<'a>(&'a self, shape: Shape, _: &'a mut Kept) -> DecoderResult<'a> {
        Ok(Box::new(Decoder::new(shape.n_channels)))
    }
}

impl Decode for Decoder {
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason> {
        let planes = Self::decode(self, packet, 0);
        Ok(planes.map_or(Outcome::Corrupt, |planes| out.push(&planes)))
    }

    fn lose(&mut self) {
        Self::lose(self);
    }
}
