//! The `stsd` box: how a track is coded.

use super::boxes::{Boxes, find, find_path};
use crate::audio::{
    bytes::{be_u16, from, u8_at},
    error::Reason,
    opus::Head,
    packets::Track,
};

/// What the first sample entry of a sample table says.
pub(super) fn read(stbl: &[u8]) -> Result<Track, Reason> {
    let no_entry = || Reason::malformed("there is no sample entry");
    let stsd = find(stbl, *b"stsd").ok_or_else(no_entry)?;
    let entry = Boxes::new(from(stsd, 8)).next().ok_or_else(no_entry)?;
    // QuickTime has longer entries.
    let children = match be_u16(entry.body, 8) {
        Some(1) => from(entry.body, 44),
        Some(2) => from(entry.body, 64),
        _ => from(entry.body, 28),
    };
    let wave = find(children, *b"wave").unwrap_or_default();
    let child = |kind| find(children, kind).or_else(|| find(wave, kind)).unwrap_or_default();
    match &entry.kind {
        b"mp4a" => mpeg4(&Descriptor::read(child(*b"esds"))?),
        // Both are full boxes: version and flags stand in front.
        b"alac" => Track::alac(from(child(*b"alac"), 4)),
        b"Opus" => Head::read_specific(child(*b"dOps")).map(Track::opus),
        b"fLaC" => Track::flac(from(child(*b"dfLa"), 8)),
        b"enca" => {
            let scheme = find_path(children, &[*b"sinf", *b"schm"]);
            let scheme = scheme.and_then(|body| body.get(4..8)).map(printable);
            let scheme = scheme.map_or_else(String::new, |name| format!(" ({name})"));
            Err(unsupported(&format!("an encrypted MP4 track{scheme}")))
        }
        b"drms" => Err(unsupported("a track under iTunes DRM (FairPlay)")),
        kind => Err(unsupported(named(*kind).unwrap_or(&format!("MP4 with {}", printable(kind))))),
    }
}

fn mpeg4(descriptor: &Descriptor<'_>) -> Result<Track, Reason> {
    match descriptor.object {
        // MPEG-4 audio, and AAC-LC as MPEG-2 has it.
        0x40 | 0x67 => Track::aac(descriptor.specific),
        0x66 => Err(unsupported("AAC Main")),
        0x68 => Err(unsupported("AAC-SSR")),
        0x69 | 0x6B => Err(unsupported("MP3 in MP4")),
        0xA5 => Err(unsupported("AC-3")),
        0xDD => Err(unsupported("Vorbis in MP4")),
        object => Err(unsupported(&format!("MP4 audio of object type {object:#04x}"))),
    }
}

/// What the `esds` box holds, ISO/IEC 14496-1 section 7.2.6.
#[derive(Clone, Copy, Debug)]
struct Descriptor<'a> {
    object: u8,
    specific: &'a [u8],
}

impl<'a> Descriptor<'a> {
    fn read(esds: &'a [u8]) -> Result<Self, Reason> {
        Self::parse(esds).ok_or_else(|| Reason::malformed("the esds box does not parse"))
    }

    fn parse(esds: &'a [u8]) -> Option<Self> {
        let stream = descriptor(from(esds, 4), 3)?;
        let flags = u8_at(stream, 2)?;
        let mut at = 3;
        at += if flags & 0x80 != 0 { 2 } else { 0 };
        at += if flags & 0x40 != 0 { 1 + usize::from(u8_at(stream, at)?) } else { 0 };
        at += if flags & 0x20 != 0 { 2 } else { 0 };
        let config = descriptor(from(stream, at), 4)?;
        Some(Self {
            object: u8_at(config, 0)?,
            specific: descriptor(from(config, 13), 5).unwrap_or_default(),
        })
    }
}

/// The body of the descriptor with this tag that `bytes` begin with.
fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    if u8_at(bytes, 0)? != tag {
        return None;
    }
    let (mut at, mut len) = (1, 0);
    for _ in 0..4 {
        let byte = u8_at(bytes, at)?;
        at += 1;
        len = len << 7 | usize::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            break;
        }
    }
    let body = from(bytes, at);
    body.get(..len.min(body.len()))
}

fn unsupported(name: &str) -> Reason {
    Reason::UnsupportedCodec(name.to_owned())
}

fn printable(kind: impl AsRef<[u8]>) -> String {
    kind.as_ref().escape_ascii().to_string()
}

fn named(kind: [u8; 4]) -> Option<&'static str> {
    Some(match &kind {
        b".mp3" | b"mp3 " => "MP3 in MP4",
        b"ac-3" => "AC-3",
        b"ec-3" => "E-AC-3",
        b"ac-4" => "AC-4",
        b"samr" | b"sawb" => "AMR",
        b"dtsc" | b"dtse" | b"dtsh" | b"dtsl" => "DTS",
        b"mhm1" | b"mha1" => "MPEG-H",
        b"sowt" | b"twos" | b"in24" | b"in32" | b"fl32" | b"fl64" | b"lpcm" | b"raw " | b"ipcm"
        | b"fpcm" => "PCM in MP4 or QuickTime",
        b"ulaw" | b"alaw" => "A-law or mu-law in MP4 or QuickTime",
        _ => return None,
    })
}
