//! An opened recording, and what is known of the places of its frames.

use std::{fmt, ops::Range};

use super::{scratch::Scratch, wire::Reader};
use crate::{cancel::Cancel, error::Reason, info::AudioInfo, sink::Sink};

/// An opened recording: tells its timeline, and decodes.
pub(crate) trait Recording: fmt::Debug + Send + Sync {
    /// What its headers say.
    fn info(&self) -> AudioInfo;

    /// Decides where decoding begins for a window of frames. Called once, with the scratch memory of opening.
    /// A part begins where its table says, and stored samples are found by their number: they decide nothing.
    fn seek(
        &mut self,
        _bytes: &[u8],
        _window: &Range<u64>,
        _scratch: &mut Scratch,
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

    /// Its seek table, if parts of it can be decoded. Only asked of a recording that nothing is wrong with,
    /// with the scratch memory of opening.
    fn seek_table(&self, _bytes: &[u8], _scratch: &mut Scratch) -> Option<Box<dyn SeekTable>> {
        None
    }

    /// How many of its checksums are wrong, if it has any.
    fn n_broken(&self, _bytes: &[u8], _cancel: &Cancel) -> Result<u64, Reason> {
        Ok(0)
    }
}

/// What is known of every recording that has a seek table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) info: AudioInfo,
    /// Bytes of the recording.
    pub(crate) n_bytes: u64,
}

/// Which bytes of a recording hold which frames.
pub(crate) trait SeekTable: fmt::Debug + Send + Sync {
    /// The number of its kind, which stands for its reader in entries.
    fn kind(&self) -> u8;

    /// Writes what the reader of its kind reads.
    fn write(&self, out: &mut Vec<u8>);

    /// Bytes that many recordings have in common.
    fn headers(&self) -> &[u8] {
        &[]
    }

    /// The part that a window of frames is decoded from; `None` if that takes the whole recording. The window
    /// is not empty and within the recording.
    fn part(&self, about: &About, window: &Range<u64>) -> Option<Part>;
}

/// Which bytes of a recording a window needs, and how they are decoded.
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

/// The bytes of a part are not what the seek table says.
pub(crate) fn unexpected() -> Reason {
    Reason::malformed("the bytes are not what their seek table says")
}

/// Reads a table, and checks each number in it against the others: all byte ranges are within the
/// recording.
pub(crate) type ReadTable = fn(&mut Reader<'_>, &[u8], &About) -> Option<Box<dyn SeekTable>>;

/// The frame to seek to: 0 where most of the recording is wanted, and seeking cannot help.
pub(crate) fn seek_target(window: &Range<u64>, n_frames: u64) -> u64 {
    let is_most = (window.end - window.start) as f64 >= 0.6 * n_frames as f64;
    if is_most { 0 } else { window.start }
}
