//! Codecs: what each is called, and what one is that comes in the packets of a container.
//!
//! A new codec is a name in [`Codec`], a folder that implements [`Carriage`], [`Coding`] and
//! [`Decode`](crate::demux::packets::Decode), and a line in [`CODECS`].

pub(crate) mod aac;
pub(crate) mod alac;
pub(crate) mod flac;
pub(crate) mod g711;
pub(crate) mod mp3;
pub(crate) mod opus;
pub(crate) mod pcm;
pub(crate) mod vorbis;

use std::fmt;

use crate::{
    demux::{
        mkv, mp4,
        packets::{Decode, Packet, Track},
    },
    error::Reason,
};

/// The codecs that MP4 and Matroska may carry.
pub(crate) const CODECS: [&dyn Carriage; 7] = [
    &aac::InPackets,
    &alac::InPackets,
    &flac::InPackets,
    &mp3::InPackets,
    &opus::InPackets,
    &pcm::PcmInPackets,
    &vorbis::InPackets,
];

/// How containers name a codec and what they keep of its headers.
pub(crate) trait Carriage: Sync {
    /// The track of an MP4 sample entry, if it is of this codec.
    fn in_mp4(&self, _entry: &mp4::SampleEntry<'_>) -> Option<Result<Track, Reason>> {
        None
    }

    /// The track of a Matroska track entry, if it is of this codec.
    fn in_matroska(&self, _entry: &mkv::TrackEntry<'_>) -> Option<Result<Track, Reason>> {
        None
    }
}

/// How the packets of a track are coded.
pub(crate) trait Coding: fmt::Debug + Send + Sync {
    /// What is decoded before the first wanted packet, for the same bits as from the start.
    fn warm_up(&self) -> WarmUp;

    /// Which packets say themselves how long they are.
    fn told_by(&self) -> ToldBy {
        ToldBy::None
    }

    /// The frames that a packet says it has.
    fn packet_len(&self, _packet: &[u8]) -> Option<u32> {
        None
    }

    /// Tells the frames of packets where the container does not.
    fn counter(&self, track: &Track) -> Result<Counter, Reason>;

    /// Takes in what only the packets tell, or refuses it.
    fn settle(&mut self, _bytes: &[u8], _packets: &[Packet], _rate_hz: u32) -> Result<(), Reason> {
        Ok(())
    }

    /// What a coding like this is made from again, for packets of seek tables; `None` where parts of a
    /// recording do not do.
    fn seek_header(&self) -> Option<Vec<u8>> {
        None
    }

    /// A decoder that begins with the first packet that it is given.
    fn decoder<'a>(&'a self, shape: Shape, cache: &'a mut vorbis::Cache) -> DecoderResult<'a>;
}

/// The frames of a track's packets, which it must be asked for in their order.
pub(crate) type Counter = Box<dyn FnMut(&[u8]) -> Result<u32, Reason> + Send>;

/// What [`Coding::decoder`] gives.
pub(crate) type DecoderResult<'a> = Result<Box<dyn Decode + 'a>, Reason>;

/// What a decoder must give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) rate_hz: u32,
    pub(crate) n_channels: u16,
}

/// What is decoded before the first wanted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmUp {
    Packets(usize),
    /// As many packets as hold these frames.
    Frames(u64),
    All,
}

/// Which packets of a track say how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToldBy {
    None,
    /// The last one, if it is shorter than the others.
    Last,
    Each,
}
