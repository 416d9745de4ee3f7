//! Vorbis in the packets of a container.

use super::{Cache, Decoder, Ident, Modes};
use crate::{
    error::Reason,
    names::Codec,
    stream::{
        Coding, Counter, Decode, DecoderResult, Kept, Outcome, PacketSink, Shape, Track, WarmUp,
        limited,
    },
};

/// The track of an identification and a setup header.
pub(crate) fn track(ident: &[u8], setup: &[u8]) -> Result<Track, Reason> {
    let Ident { rate_hz, n_channels, .. } = Ident::read(ident)?;
    let headers = Headers([ident, setup].concat().into());
    Ok(Track::new(Codec::Vorbis, rate_hz, limited(n_channels)?, headers))
}

/// Identification and setup header, one after the other.
#[derive(Clone, Debug)]
struct Headers(Box<[u8]>);

impl Coding for Headers {
    /// One packet would do for the bits. From the start on, damage before the window is found too.
    fn warm_up(&self) -> WarmUp {
        WarmUp::All
    }

    fn counter(&self, _: &Track) -> Result<Counter, Reason> {
        let malformed = || Reason::malformed("the Vorbis setup does not parse");
        // The identification header has 30 bytes.
        let (ident, setup) = self.0.split_at_checked(30).ok_or_else(malformed)?;
        let ident = Ident::read(ident)?;
        let modes = Modes::read(setup).ok_or_else(malformed)?;
        let mut before = None;
        Ok(Box::new(move |packet| {
            let lost = || Reason::malformed("a packet is no Vorbis packet");
            let len = modes.block_len(packet, &ident).ok_or_else(lost)?;
            Ok(before.replace(len).map_or(0, |before| (before + len) / 4))
        }))
    }

    fn decoder<'a>(&'a self, _: Shape, kept: &'a mut Kept) -> DecoderResult<'a> {
        Ok(Box::new(kept.of::<Cache>().get(&self.0)?))
    }
}

impl Decode for &mut Decoder {
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason> {
        let is_first = self.is_new();
        let outcome = match Decoder::decode(self, packet) {
            // The first packet only prepares the next one.
            Some(_) if is_first => Outcome::Decoded,
            Some(planes) => out.push(planes),
            None => Outcome::Corrupt,
        };
        if outcome == Outcome::Corrupt {
            self.reset();
        }
        Ok(outcome)
    }

    fn lose(&mut self) {
        self.reset();
    }
}
