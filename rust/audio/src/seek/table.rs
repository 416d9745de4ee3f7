//! What each kind of container knows of where its frames lie.

use std::{fmt, ops::Range};

use super::wire::Reader;
use crate::{
    demux::{Recording, flac, mpeg, ogg, packets, pcm},
    error::Reason,
    info::AudioInfo,
};

/// What an entry says of every recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) info: AudioInfo,
    /// Bytes of the recording.
    pub(crate) n_bytes: u64,
}

/// Where the frames of a recording lie.
pub(crate) trait SeekTable: fmt::Debug + Send + Sync {
    /// The number of its kind in [`KINDS`].
    fn kind(&self) -> u8;

    /// Writes what its reader in [`KINDS`] reads.
    fn write(&self, out: &mut Vec<u8>);

    /// Bytes that many recordings have in common.
    fn headers(&self) -> &[u8] {
        &[]
    }

    /// What a window of frames is decoded from; `None` if only the whole recording will do. The window is
    /// not empty and within the recording.
    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part>;
}

/// Bytes of a recording, and how they are decoded.
#[derive(Debug)]
pub(crate) struct Part {
    /// In the order in which `recording` takes them, one behind the other.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Decodes the window out of them. It must not be asked to seek.
    pub(crate) recording: Box<dyn Recording>,
}

impl Part {
    /// A part of one range.
    pub(crate) fn of(range: Range<u64>, recording: impl Recording + 'static) -> Self {
        Self { ranges: std::iter::once(range).collect(), recording: Box::new(recording) }
    }
}

/// A part is not what its entry says.
pub(crate) fn unexpected() -> Reason {
    Reason::malformed("the bytes are not what their seek table says")
}

/// Reads a table, and checks each number in it against the others: all byte ranges lie within the
/// recording.
type Read = fn(&mut Reader<'_>, &[u8], &About) -> Option<Box<dyn SeekTable>>;

/// The kinds of tables, by the numbers that entries have for them. They never change.
pub(crate) const KINDS: [(u8, Read); 6] = [
    (pcm::KIND, pcm::read_table),
    (mpeg::KIND, mpeg::read_table),
    (flac::KIND, flac::read_table),
    (ogg::VORBIS_KIND, ogg::read_vorbis_table),
    (ogg::OPUS_KIND, ogg::read_opus_table),
    (packets::KIND, packets::read_table),
];
