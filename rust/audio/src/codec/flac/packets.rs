//! FLAC in the packets of a container: a frame each.

use super::{Feed, Header, StreamInfo, is_intact};
use crate::{
    bytes::from,
    codec::{Carriage, Coding, Counter, DecoderResult, Shape, ToldBy, WarmUp, vorbis},
    demux::{
        mkv::TrackEntry,
        mp4::SampleEntry,
        packets::{Decode, Outcome, PacketSink, Track},
    },
    error::Reason,
    names::Codec,
};

/// How containers carry FLAC.
pub(crate) struct InPackets;

impl Carriage for InPackets {
    fn in_mp4(&self, entry: &SampleEntry<'_>) -> Option<Result<Track, Reason>> {
        // Version and flags of the box, then the header of a metadata block.
        entry.is(*b"fLaC").then(|| track(from(entry.child(*b"dfLa"), 8)))
    }

    fn in_matroska(&self, entry: &TrackEntry<'_>) -> Option<Result<Track, Reason>> {
        (entry.codec_id() == "A_FLAC").then(|| {
            let is_whole = entry.private.starts_with(b"fLaC");
            track(if is_whole { from(entry.private, 8) } else { &[] })
        })
    }
}

/// The track of a STREAMINFO.
fn track(info: &[u8]) -> Result<Track, Reason> {
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

    fn decoder<'a>(&'a self, _: Shape, _: &'a mut vorbis::Cache) -> DecoderResult<'a> {
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
