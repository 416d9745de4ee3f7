//! ALAC in the packets of a container.

use super::{Config, Decoder};
use crate::{
    bits::BitReader,
    error::Reason,
    names::Codec,
    stream::{
        Coding, Counter, Decode, DecoderResult, Kept, Outcome, PacketSink, Shape, ToldBy, Track,
        WarmUp,
    },
};

/// The track of a magic cookie.
pub(crate) fn track(cookie: &[u8]) -> Result<Track, Reason> {
    let config = Config::read(cookie)?;
    let Config { frame_len, rate_hz, n_channels, .. } = config;
    Ok(Track { frame_len, ..Track::new(Codec::Alac, rate_hz, n_channels, config) })
}

impl Coding for Config {
    fn warm_up(&self) -> WarmUp {
        WarmUp::Packets(0)
    }

    fn told_by(&self) -> ToldBy {
        ToldBy::Last
    }

    /// Only one that is shorter than the others says it.
    fn packet_len(&self, packet: &[u8]) -> Option<u32> {
        let mut bits = BitReader::new(packet);
        let element = bits.read(3)?;
        bits.read(16)?;
        let is_partial = bits.read(1)? == 1;
        bits.read(3)?;
        if matches!(element, 0 | 1 | 3) && is_partial { bits.read(32) } else { None }
    }

    fn counter(&self, track: &Track) -> Result<Counter, Reason> {
        let (config, frame_len) = (*self, track.frame_len);
        Ok(Box::new(move |packet| Ok(config.packet_len(packet).unwrap_or(frame_len))))
    }

    fn seek_header(&self) -> Option<Vec<u8>> {
        Some(self.cookie())
    }

    fn decoder<'a>(&'a self, _: Shape, _: &'a mut Kept) -> DecoderResult<'a> {
        Ok(Box::new(Decoder::new(*self)))
    }
}

impl Decode for Decoder {
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason> {
        let planes =
            if is_whole(packet, out.n_channels) { Self::decode(self, packet) } else { None };
        Ok(planes.map_or(Outcome::Corrupt, |planes| out.push(&planes)))
    }
}

/// Whether a packet begins and ends as it must. It has no checksum, and zeros decode.
fn is_whole(packet: &[u8], n_channels: u16) -> bool {
    let first = BitReader::new(packet).read(3);
    let begins = match n_channels {
        1 => first == Some(0),
        2 => first == Some(1),
        _ => true,
    };
    // The element that ends it is three ones; less than a byte of zeros follows.
    let last = packet.last().map_or(8, |byte| byte.trailing_zeros() as usize);
    let end = (packet.len() * 8).checked_sub(last + 3);
    begins && last < 8 && end.and_then(|at| BitReader::starting_at(packet, at).read(3)) == Some(7)
}
