//! Tells formats apart by their first bytes.
//!
//! Only what the bytes say counts: file names play no part. Tags in front (`ID3v2`, also before
//! FLAC) are skipped by their size and never parsed.

use crate::{
    bytes::from,
    demux::{BY_FRAMES, BY_MAGIC, container::Container, mpeg, tags::id3v2_size, wav},
    error::Reason,
};

/// What container the bytes are, and where it begins.
pub(crate) fn find_container(bytes: &[u8]) -> Result<(&'static dyn Container, usize), Reason> {
    if bytes.is_empty() {
        return Err(Reason::Empty);
    }
    let offset = skip_id3v2(bytes)?;
    let find = |table: &[&'static dyn Container]| {
        table.iter().find_map(|&kind| Some((kind, kind.find(bytes, offset)?)))
    };
    if let Some(found) = find(BY_MAGIC) {
        return Ok(found);
    }
    let refused = |name: &str| Reason::UnsupportedCodec(name.to_owned());
    if let Some(name) = unsupported(from(bytes, offset)) {
        return Err(refused(name));
    }
    find(BY_FRAMES)
        .ok_or_else(|| mpeg::refusal(bytes, offset).map_or(Reason::UnknownFormat, refused))
}

/// Whether the length of a recording that begins like this follows from its first and last bytes: the
/// others may be zeros for [`Decoder::length`](crate::Decoder::length), where it then succeeds.
///
/// That is so of FLAC, whose last frame has a number and a checksum, and of WAV, whose samples have
/// one size.
pub fn is_length_at_ends(head: &[u8]) -> bool {
    head.starts_with(b"fLaC") || wav::has_data(head)
}

/// The offset behind all leading `ID3v2` tags.
fn skip_id3v2(bytes: &[u8]) -> Result<usize, Reason> {
    let mut offset = 0;
    while let Some(size) = id3v2_size(from(bytes, offset)) {
        offset += size;
        if offset > bytes.len() {
            return Err(Reason::malformed("the ID3v2 tag is longer than the file"));
        }
        // Padding that the tag does not count, of any length.
        offset += from(bytes, offset).iter().take_while(|&&byte| byte == 0).count();
    }
    Ok(offset)
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
