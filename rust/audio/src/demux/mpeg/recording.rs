//! MPEG audio as a container: frames one after another.

use std::ops::Range;

use super::{
    decode::{Entry, decode},
    scan::{self, MpegLayout},
    table::MpegTable,
};
use crate::{
    cancel::Cancel,
    demux::{Container, Input, OpenResult, Recording, Scratch},
    error::Reason,
    info::AudioInfo,
    names::Codec,
    report::Ledger,
    seek::SeekTable,
    sink::Sink,
};

/// MPEG-1/2/2.5 audio, layers I to III.
pub(crate) struct Mpeg;

impl Container for Mpeg {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        scan::find_first(bytes, at)
    }

    fn codec(&self, bytes: &[u8], at: usize) -> Option<Codec> {
        Some(scan::codec(bytes, at))
    }

    fn open(&self, input: Input<'_>, scratch: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let layout = scan::open(input.bytes, input.at, &mut scratch.mpeg_frames, ledger)?;
        Ok(Box::new(Opened { layout, entry: None }))
    }
}

#[derive(Debug)]
struct Opened {
    layout: MpegLayout,
    entry: Option<Entry>,
}

impl Recording for Opened {
    fn info(&self) -> AudioInfo {
        let MpegLayout { codec, rate_hz, n_channels, n_frames, .. } = self.layout;
        AudioInfo { codec, rate_hz, n_channels, n_frames }
    }

    fn seek(&mut self, bytes: &[u8], window: &Range<u64>, scratch: &Scratch) -> Result<(), Reason> {
        let len = window.end - window.start;
        let frames = &scratch.mpeg_frames;
        self.entry = Some(Entry::find(bytes, &self.layout, frames, window.start, len));
        Ok(())
    }

    fn seek_table(&self, _: &[u8], scratch: &Scratch) -> Option<Box<dyn SeekTable>> {
        let table = MpegTable::new(&self.layout, &scratch.mpeg_frames)?;
        Some(Box::new(table))
    }

    fn decode(
        &self,
        bytes: &[u8],
        _: bool,
        _: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        match &self.entry {
            Some(entry) => decode(bytes, &self.layout, entry, sink, cancel),
            None => Ok(()),
        }
    }
}
