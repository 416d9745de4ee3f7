//! Containers: how each is told by its first bytes, and what opening one gives.
//!
//! A new container is a file or folder that implements [`Container`], and a line in one of the tables here. If
//! it lists packets or stores PCM, [`packets`](crate::demux::packets) or [`pcm`](crate::demux::pcm) does the rest.

pub(crate) mod adts;
mod aiff;
mod caf;
pub(crate) mod flac;
pub(crate) mod mpeg;
pub(crate) mod ogg;
pub(crate) mod pcm;
mod sphere;
mod stated;
mod wav;

pub(crate) mod mkv;
pub(crate) mod mp4;
pub(crate) mod packets;
pub(crate) mod probe;
mod tail;

use std::{fmt, ops::Range};

use crate::{
    cancel::Cancel, codec::vorbis, error::Reason, info::AudioInfo, names::Codec, report::Ledger,
    seek::SeekTable, sink::Sink,
};

use packets::Packet;

/// Those that begin with bytes of their own, in the order in which they are asked.
pub(crate) const BY_MAGIC: [&dyn Container; 9] = [
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
pub(crate) const BY_FRAMES: [&dyn Container; 2] = [&adts::Adts, &mpeg::Mpeg];

/// A kind of container.
pub(crate) trait Container: Sync {
    /// Where it begins, if it begins at `at` or as soon after it as it may. Tags end at `at`.
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize>;

    /// The codec, as far as the first bytes tell: what an error in the headers is an error of.
    fn codec(&self, bytes: &[u8], at: usize) -> Option<Codec>;

    /// Reads headers and framing; nothing is decoded.
    ///
    /// Damage goes through the ledger, which makes an error or a count of it.
    fn open(&self, input: Input<'_>, scratch: &mut Scratch, ledger: &mut Ledger) -> OpenResult;
}

/// What [`Container::open`] gives.
pub(crate) type OpenResult = Result<Box<dyn Recording>, Reason>;

/// What is opened.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where [`Container::find`] found it.
    pub(crate) at: usize,
    pub(crate) cancel: &'a Cancel,
}

/// An opened recording: its timeline, and the way from there to frames.
pub(crate) trait Recording: fmt::Debug + Send + Sync {
    /// What its headers say.
    fn info(&self) -> AudioInfo;

    /// Decides where decoding begins for a window of frames. Called once, with the scratch memory that it
    /// was opened with. In a part, or where frames are found by their number, there is nothing to decide.
    fn seek(
        &mut self,
        _bytes: &[u8],
        _window: &Range<u64>,
        _scratch: &Scratch,
    ) -> Result<(), Reason> {
        Ok(())
    }

    /// Whether decoding from the very start may end better than decoding from where [`Self::seek`] chose.
    fn may_restart(&self) -> bool {
        false
    }

    /// Decodes until the sink is full or the recording ends.
    fn decode(
        &self,
        bytes: &[u8],
        from_start: bool,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason>;

    /// Where its frames lie. Only asked of a recording that nothing is wrong with, with the scratch memory
    /// that it was opened with.
    fn seek_table(&self, _bytes: &[u8], _scratch: &Scratch) -> Option<Box<dyn SeekTable>> {
        None
    }

    /// How many of its checksums are wrong, if it has any.
    fn n_broken(&self, _bytes: &[u8], _cancel: &Cancel) -> Result<u64, Reason> {
        Ok(0)
    }
}

/// Memory that recordings share one after another. What a recording comes to does not depend on what is
/// in it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) vorbis: vorbis::Cache,
    pub(crate) pages: Vec<ogg::PageRef>,
    pub(crate) mpeg_frames: mpeg::Index,
    pub(crate) packets: Vec<Packet>,
}

/// The frame to seek to: 0 where most of the recording is wanted, and seeking cannot help.
pub(crate) fn seek_target(window: &Range<u64>, n_frames: u64) -> u64 {
    let is_most = (window.end - window.start) as f64 >= 0.6 * n_frames as f64;
    if is_most { 0 } else { window.start }
}
