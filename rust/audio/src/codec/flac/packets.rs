//! FLAC in the packets of a container: a frame each.

use super::{Feed, Header, StreamInfo, is_intact};
use crate::{
    error::Reason,
    names::Codec,
    stream::{
        Coding, Counter, Decode, DecoderResult, Kept, Outcome, PacketSink, Shape, ToldBy, Track,
        WarmUp,
    },
};

/// The track of a STREAMINFO.
pub(crate) fn track(info: &[u8]) -> Result<Track, Reason> {
    let info = StreamInfo::parse(info);
    let info = info.ok_or_else(|| Reason::malformed("there is no STREAMINFO"))?;
    let StreamInfo { rate_hz, n_channels, block_lens: [_, longest], .. } = info;
    let track = Track::new(Codec::Flac, rate_hz, n_channels, info);
    Ok(Track { frame_len: u32::from(longest), ..track })
}

impl Coding for StreamInfo {
    fn warm_up(&self) -> WarmUp {
        WarmUp::Packets(0)
    }

    fn told_by(&self) -> ToldBy {
        ToldBy::Each
    }

    fn packet_len(&self, packet: &[u8]) -> Option<u32> {
        Header::read(packet).map(|header| header.n_frames)
    }

    fn counter(&self, _: &Track) -> Result<Counter, Reason> {
        let info = *self;
        let lost = || Reason::malformed("a packet is no FLAC packet");
        Ok(Box::new(move |packet| info.packet_len(packet).ok_or_else(lost)))
    }

    fn decoder<'a>(&'a self, _: Shape, _: &'a mut Kept) -> DecoderResult<'a> {
        Ok(Box::new(Feed::new(*self)))
    }
}

impl Decode for Feed {
    fn decode(&mut self, packet: &[u8], out: &mut PacketSink<'_, '_>) -> Result<Outcome, Reason> {
        let header = Header::parse(packet).filter(|header| header.n_frames == out.n_frames);
        match header.filter(|_| is_intact(packet)) {
            Some(header) => self.push(&header, out.pts, packet, out.sink),
            None => Ok(Outcome::WrongChecksum),
        }
    }
}
