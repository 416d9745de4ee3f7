//! Ogg as a container: of Vorbis and Opus, and of FLAC.

use std::ops::Range;

use super::{
    chain::{self, ChainLayout, Start},
    flac::{FlacLayout, decode_flac, find_flac, open_flac},
    opus_table::OpusTable,
    page::{PageRef, n_broken_pages},
    vorbis_table::VorbisTable,
};
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

/// Ogg with Vorbis or Opus, RFC 3533.
pub(crate) struct Ogg;

impl Container for Ogg {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        bytes.get(at..)?.starts_with(b"OggS").then_some(at)
    }

    fn codec(&self, bytes: &[u8], at: usize) -> Option<Codec> {
        Some(chain::codec(bytes, at).unwrap_or(Codec::Vorbis))
    }

    fn open(&self, input: Input<'_>, scratch: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let layout =
            chain::open(input.bytes, input.at, scratch.listed.of::<Vec<PageRef>>(), ledger)?;
        Ok(Box::new(Opened { layout, from: Start::OF_FILE }))
    }
}

#[derive(Debug)]
struct Opened {
    layout: ChainLayout,
    from: Start,
}

impl Recording for Opened {
    fn info(&self) -> AudioInfo {
        let ChainLayout { codec, rate_hz, n_channels, n_frames, .. } = self.layout;
        AudioInfo { codec, rate_hz, n_channels, n_frames }
    }

    fn seek(&mut self, _: &[u8], window: &Range<u64>, scratch: &mut Scratch) -> Result<(), Reason> {
        let start = seek_target(window, self.layout.n_frames);
        self.from = Start::find(&self.layout, scratch.listed.of::<Vec<PageRef>>(), start);
        Ok(())
    }

    fn seek_table(&self, bytes: &[u8], scratch: &mut Scratch) -> Option<Box<dyn SeekTable>> {
        let link = self.layout.only()?;
        Some(match self.layout.codec {
            Codec::Opus => {
                Box::new(OpusTable::new(bytes, link, scratch.listed.of::<Vec<PageRef>>())?)
            }
            _ => Box::new(VorbisTable::new(bytes, link, scratch.listed.of::<Vec<PageRef>>())?),
        })
    }

    fn may_restart(&self) -> bool {
        self.from != Start::OF_FILE
    }

    fn decode(
        &self,
        bytes: &[u8],
        from_start: bool,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        cancel: &Cancel,
    ) -> Result<(), Reason> {
        let from = if from_start { Start::OF_FILE } else { self.from };
        chain::decode(bytes, &self.layout, from, scratch.decoders.of(), sink, cancel)
    }

    fn n_broken(&self, bytes: &[u8], cancel: &Cancel) -> Result<u64, Reason> {
        n_broken_pages(bytes, cancel)
    }
}

/// Ogg with FLAC.
pub(crate) struct OggFlac;

impl Container for OggFlac {
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        find_flac(bytes, at).map(|_| at)
    }

    fn codec(&self, _: &[u8], _: usize) -> Option<Codec> {
        Some(Codec::Flac)
    }

    fn open(&self, input: Input<'_>, _: &mut Scratch, ledger: &mut Ledger) -> OpenResult {
        let Input { bytes, at, cancel } = input;
        let no_stream = || Reason::malformed("the first Ogg page does not parse");
        let serial = find_flac(bytes, at).ok_or_else(no_stream)?;
        let layout = open_flac(bytes, at, serial, cancel, ledger)?;
        Ok(Box::new(OpenedFlac { layout, start: 0 }))
    }
}

#[derive(Debug)]
struct OpenedFlac {
    layout: FlacLayout,
    /// The PCM frame to seek to.
    start: u64,
}

impl Recording for OpenedFlac {
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
        decode_flac(bytes, &self.layout, start, sink, cancel)
    }

    fn n_broken(&self, bytes: &[u8], cancel: &Cancel) -> Result<u64, Reason> {
        n_broken_pages(bytes, cancel)
    }
}
