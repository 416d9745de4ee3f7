//! MPEG audio as a container: frames one after another.

use std::ops::Range;

use super::{
    decode::{Wanted, decode},
    index::Index,
    scan::{self, MpegLayout},
    table::MpegTable,
};
use crate::{
    cancel::Cancel,
    demux::container::{Container, Input, OpenResult},
    error::Reason,
    info::AudioInfo,
    names::Codec,
    report::Ledger,
    sink::Sink,
    stream::{Recording, Scratch, SeekTable},
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
        let layout = scan::open(input.bytes, input.at, scratch.listed.of::<Index>(), ledger)?;
        Ok(Box::new(Opened { layout, wanted: None }))
    }
}

#[derive(Debug)]
struct Opened {
    layout: MpegLayout,
    wanted: Option<Wanted>,
}

impl Recording for Opened {
    fn info(&self) -> AudioInfo {
        let MpegLayout { codec, rate_hz, n_channels, n_frames, .. } = self.layout;
        AudioInfo { codec, rate_hz, n_channels, n_frames }
    }

    fn seek(
        &mut self,
        bytes: &[u8],
        window: &Range<u64>,
        scratch: &mut Scratch,
    ) -> Result<(), Reason> {
        let len = window.end - window.start;
        let frames = scratch.listed.of::<Index>();
        self.wanted = Some(Wanted::find(bytes, &self.layout, frames, window.start, len));
        Ok(())
    }

    fn seek_table(&self, _: &[u8], scratch: &mut Scratch) -> Option<Box<dyn SeekTable>> {
        let table = MpegTable::new(&self.layout, scratch.listed.of::<Index>())?;
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
        match &self.wanted {
            Some(wanted) => decode(bytes, &self.layout, wanted, sink, cancel),
            None => Ok(()),
        }
    }
}
