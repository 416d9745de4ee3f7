//! Tells formats apart by their first bytes.
//!
//! Only what the bytes say counts: file names play no part. Tags in front (`ID3v2`, also before
//! FLAC) are skipped by their size and never parsed.

use super::{aac, bytes::from, error::Reason, mp3, mp4, ogg};

/// A container that is decoded here, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Wav { offset: usize },
    Aiff { offset: usize },
    Caf { offset: usize },
    Flac { offset: usize },
    OggFlac { offset: usize, serial: u32 },
    Ogg { offset: usize },
    Mp3 { offset: usize },
    Adts { offset: usize },
    Mp4,
    Matroska,
}

/// What the bytes are.
pub(super) fn sniff(bytes: &[u8]) -> Result<Format, Reason> {
    if bytes.is_empty() {
        return Err(Reason::Empty);
    }
    let offset = skip_id3v2(bytes)?;
    let rest = from(bytes, offset);
    match rest {
        _ if is_wave(rest) => Ok(Format::Wav { offset }),
        _ if is_aiff(rest) => Ok(Format::Aiff { offset }),
        [b'c', b'a', b'f', b'f', 0, 1, ..] => Ok(Format::Caf { offset }),
        [b'f', b'L', b'a', b'C', ..] => Ok(Format::Flac { offset }),
        [b'O', b'g', b'g', b'S', ..] => match ogg::find_flac(bytes, offset) {
            Some(serial) => Ok(Format::OggFlac { offset, serial }),
            None => Ok(Format::Ogg { offset }),
        },
        [0x1A, 0x45, 0xDF, 0xA3, ..] if offset == 0 => Ok(Format::Matroska),
        _ if offset == 0 && mp4::is_first_box(rest) => Ok(Format::Mp4),
        _ => match unsupported(rest) {
            Some(name) => Err(Reason::UnsupportedCodec(name.to_owned())),
            None => sniff_mpeg(bytes, offset),
        },
    }
}

fn is_wave(rest: &[u8]) -> bool {
    let is_riff = matches!(rest.first_chunk(), Some(b"RIFF" | b"RF64" | b"BW64"));
    is_riff && rest.get(8..12) == Some(b"WAVE")
}

fn is_aiff(rest: &[u8]) -> bool {
    rest.starts_with(b"FORM") && matches!(rest.get(8..12), Some(b"AIFF" | b"AIFC"))
}

/// The offset behind all leading `ID3v2` tags.
fn skip_id3v2(bytes: &[u8]) -> Result<usize, Reason> {
    let mut offset = 0;
    while let Some(size) = id3v2_size(from(bytes, offset)) {
        offset += size;
        if offset > bytes.len() {
            return Err(Reason::malformed("the ID3v2 tag is longer than the file"));
        }
    }
    Ok(offset)
}

/// The whole size of the `ID3v2` tag that `bytes` begin with.
pub(super) fn id3v2_size(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<10>()?;
    let &[b'I', b'D', b'3', major, _, flags, a, b, c, d] = header else { return None };
    if major == 0xFF || (a | b | c | d) & 0x80 != 0 {
        return None;
    }
    let body = [a, b, c, d].iter().fold(0, |size, &byte| size << 7 | usize::from(byte));
    let footer = if flags & 0x10 != 0 { 10 } else { 0 };
    Some(10 + body + footer)
}

/// The name of a format that is known and not decoded here.
fn unsupported(rest: &[u8]) -> Option<&'static str> {
    Some(match rest {
        [b'F', b'O', b'R', b'M', ..] => "IFF without AIFF",
        [b'R', b'I', b'F', b'F', ..] => "RIFF without WAVE",
        [b'R', b'I', b'F', b'X', ..] => "big-endian RIFF",
        [b'r', b'i', b'f', b'f', ..] => "Wave64",
        [0x30, 0x26, 0xB2, 0x75, ..] => "ASF or WMA",
        [b'c', b'a', b'f', b'f', ..] => "Core Audio (CAF) of another version",
        [b'.', b's', b'n', b'd', ..] => "Sun AU",
        [b'w', b'v', b'p', b'k', ..] => "WavPack",
        [b'M', b'A', b'C', b' ', ..] => "Monkey's Audio",
        [b'T', b'T', b'A', b'1', ..] => "True Audio",
        [b'D', b'S', b'D', b' ', ..] => "DSD",
        [b'M', b'T', b'h', b'd', ..] => "MIDI",
        [b'F', b'L', b'V', ..] => "Flash video",
        [b'#', b'!', b'A', b'M', b'R', ..] => "AMR",
        [b'A', b'D', b'I', b'F', ..] => "AAC (ADIF)",
        [b'A', b'J', b'K', b'G', ..] => "Shorten",
        [0x0B, 0x77, ..] => "AC-3",
        [0x56, 0xE0..=0xFF, ..] => "AAC in LOAS",
        _ => return None,
    })
}

/// Looks for MPEG audio at `offset`, then a little further: junk before the first frame is common.
fn sniff_mpeg(bytes: &[u8], offset: usize) -> Result<Format, Reason> {
    if aac::is_adts(bytes, offset) {
        return Ok(Format::Adts { offset });
    }
    match mp3::find_first(bytes, offset) {
        Some(first) => Ok(Format::Mp3 { offset: first }),
        None => match mp3::refusal(bytes, offset) {
            Some(name) => Err(Reason::UnsupportedCodec(name.to_owned())),
            None => Err(Reason::UnknownFormat),
        },
    }
}
