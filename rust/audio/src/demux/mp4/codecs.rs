//! Which codecs MP4 carries, and where it keeps their headers.

use super::sample_entry::SampleEntry;
use crate::{
    bytes::from,
    codec::{aac, alac, flac, opus},
    error::Reason,
    stream::Track,
};

/// How the track of a sample entry is coded.
pub(super) fn track(entry: &SampleEntry<'_>) -> Result<Track, Reason> {
    match (entry.kind(), entry.object()) {
        // MPEG-4 audio, and AAC-LC as MPEG-2 has it.
        (_, Some(0x40 | 0x67)) => aac::track(entry.config()),
        // A full box, which begins with version and flags.
        (b"alac", _) => alac::track(from(entry.child(*b"alac"), 4)),
        // Version and flags of the box, then the header of a metadata block.
        (b"fLaC", _) => flac::track(from(entry.child(*b"dfLa"), 8)),
        (b"Opus", _) => {
            let specific = entry.child(*b"dOps");
            let head = opus::Head::read_specific(specific)?;
            Ok(Track { delay: Some(head.pre_skip), ..opus::track(head, specific) })
        }
        _ => Err(entry.refusal()),
    }
}
