//! Codecs: from packets to frames. None knows the containers that it comes in.
//!
//! A codec that comes in packets implements [`Coding`](crate::stream::Coding) and
//! [`Decode`](crate::stream::Decode). Which containers carry it, and where they keep its headers, is told in
//! `codecs.rs` of MP4 and of Matroska.

pub(crate) mod aac;
pub(crate) mod alac;
pub(crate) mod flac;
pub(crate) mod g711;
pub(crate) mod mp3;
pub(crate) mod opus;
pub(crate) mod pcm;
pub(crate) mod vorbis;
