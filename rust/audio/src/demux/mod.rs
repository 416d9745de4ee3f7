//! Containers: how each is told by its first bytes, and what opening one gives.
//!
//! A new container is a file or folder that implements [`Container`], and a line in one of the tables here. If
//! it lists packets or stores PCM, [`packets`](crate::demux::packets) or [`pcm`](crate::demux::pcm) does the rest.

mod adts;
mod aiff;
mod caf;
pub(crate) mod container;
pub(crate) mod flac;
pub(crate) mod mkv;
pub(crate) mod mp4;
pub(crate) mod mpeg;
pub(crate) mod ogg;
pub(crate) mod packets;
pub(crate) mod pcm;
pub(crate) mod probe;
mod sphere;
mod stated;
mod tags;
mod wav;

use container::Container;

use crate::stream::ReadTable;

/// Those that begin with bytes of their own, in the order in which they are asked.
pub(crate) const BY_MAGIC: &[&dyn Container] = &[
    &wav::Wav,
    &aiff::Aiff,
    &caf::Caf,
    &sphere::Sphere,
    &flac::Flac,
    &ogg::OggFlac, // before Ogg, which would refuse it
    &ogg::Ogg,
    &mkv::Matroska,
    &mp4::Mp4,
];

/// Those that are nothing but frames one after another. They are asked last: chance looks like them.
pub(crate) const BY_FRAMES: &[&dyn Container] = &[&adts::Adts, &mpeg::Mpeg];

/// What reads the seek table of each kind, by the numbers that are stored for them. They never change.
pub(crate) const SEEK_TABLES: &[(u8, ReadTable)] = &[
    (pcm::KIND, pcm::read_table),
    (mpeg::KIND, mpeg::read_table),
    (flac::KIND, flac::read_table),
    (ogg::VORBIS_KIND, ogg::read_vorbis_table),
    (ogg::OPUS_KIND, ogg::read_opus_table),
    (packets::KIND, packets::read_table),
];
