//! FLAC as a container of its own.

use std::ops::Range;

use super::{FlacLayout, decode, open, table::FlacTable};
use crate::{
    cancel::Cancel,
    demux::container::{Container, Input, OpenResult},
    error::Reason,
    info::AudioInfo,
    names::Codec,
    report::Ledger,
    sink::Sink,
    stream::{Recording, Scratch, SeekTable, seek_target},
};

/// Native FLAC, RFC 9639.
pub(crate) struct Flac;

impl Container for Flac {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        bytes.get(at..)?.starts_with(b"fLaC").then_some(at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        Some(Codec::Flac)
    }

    fn open(&self, input: Input<'_>, _: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let layout = open(input.bytes, input.at, input.cancel, ledger)?;
        Ok(Box::new(Opened { layout, start: 0 }))
    }
}

#[derive(Debug)]
struct Opened {
    layout: FlacLayout,
    /// The PCM frame to seek to.
    start: u64,
}

impl Recording for Opened {
    fn info(&self) -> AudioInfo {
        let FlacLayout { info, n_frames, .. } = &self.layout;
        AudioInfo {
            codec: Codec::Flac,
            rate_hz: info.rate_hz,
            n_channels: info.n_channels,
            n_frames: *n_frames,
        }
    }

    fn seek(&mut self, _: &[u8], window: &Range<u64>, _: &mut Scratch) -> Result<(), Reason> {
        self.start = seek_target(window, self.layout.n_frames);
        Ok(())
    }

    fn seek_table(&self, bytes: &[u8], _: &mut Scratch) -> Option<Box<dyn SeekTable>> {
        let table = FlacTable::new(bytes, &self.layout)?;
        Some(Box::new(table))
    }

    fn may_restart(&self) -> bool {
        self.start > 0
    }

    fn decode(
        &self,
        bytes: &[u8],
        from_start: bool,
        _: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let start = if from_start { 0 } else { self.start };
        decode(bytes, &self.layout, start, sink, cancel)
    }

    fn n_broken(&self, bytes: &[u8], cancel: &Cancel) -> Result<u64, Reason> {
        self.layout.n_broken(bytes, cancel)
    }
}
