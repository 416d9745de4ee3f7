//! Vorbis in the packets of a container.

use super::{Cache, Decoder, Ident, Modes};
use crate::{
    bytes::{from, u8_at},
    codec::{Carriage, Coding, Counter, DecoderResult, Shape, WarmUp},
    demux::{
        mkv::TrackEntry,
        packets::{Decode, Outcome, PacketSink, Track, limited},
    },
    error::Reason,
    names::Codec,
};

/// How containers carry Vorbis.
pub(crate) struct InPackets;

impl Carriage for InPackets {
    fn in_matroska(&self, entry: &TrackEntry<'_>) -> Option<Result<Track, Reason>> {
        (entry.codec_id() == "A_VORBIS").then(|| {
            let headers = unlace(entry.private);
            let (ident, setup) =
                headers.ok_or_else(|| Reason::malformed("the Vorbis headers do not parse"))?;
            let Ident { rate_hz, n_channels, .. } = Ident::read(ident)?;
            let headers = Headers([ident, setup].concat().into());
            let track = Track::new(Codec::Vorbis, rate_hz, limited(n_channels)?, headers);
            // A delay stands for what the first packet does not give, and FFmpeg passes it over too.
            Ok(Track { delay: Some(0), ..track })
        })
    }
}

/// Identification and setup header of the three that are laced as in Ogg.
fn unlace(headers: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 1;
    let mut lens = [0usize; 2];
    for len in &mut lens {
        loop {
            let byte = u8_at(headers, at)?;
            at += 1;
            *len += usize::from(byte);
            if byte < 255 {
                break;
            }
        }
    }
    let [ident, comment] = lens;
    let rest = (u8_at(headers, 0)? == 2).then(|| from(headers, at))?;
    let (ident, rest) = rest.split_at_checked(ident)?;
    let (_, setup) = rest.split_at_checked(comment)?;
    Some((ident, setup))
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

    fn decoder<'a>(&'a self, _: Shape, cache: &'a mut Cache) -> DecoderResult<'a> {
        Ok(Box::new(cache.get(&self.0)?))
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
