//! Tags in front of a recording, and what follows the frames of a stream without a container: tags,
//! padding, or sound that is lost.

use crate::bytes::{from, le_u32};

/// What padding fills up at most, however few bytes a second of sound takes.
const MAX_PADDING: usize = 4096;

/// The whole size of the `ID3v2` tag that `bytes` begin with.
pub(crate) fn id3v2_size(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<10>()?;
    let &[b'I', b'D', b'3', major, _, flags, a, b, c, d] = header else { return None };
    if major == 0xFF || (a | b | c | d) & 0x80 != 0 {
        return None;
    }
    let body = [a, b, c, d].iter().fold(0, |size, &byte| size << 7 | usize::from(byte));
    let footer = if flags & 0x10 != 0 { 10 } else { 0 };
    Some(10 + body + footer)
}

/// Whether `rest` begins with a tag.
pub(super) fn is_tag(rest: &[u8]) -> bool {
    rest.starts_with(b"TAG")
        || rest.starts_with(b"APETAGEX")
        || rest.starts_with(b"LYRICSBEGIN")
        || rest.starts_with(b"ID3")
}

/// The size of the tag that `rest` begins with, if it has one.
pub(super) fn tag_size(rest: &[u8]) -> Option<usize> {
    if rest.starts_with(b"TAG+") && from(rest, 227).starts_with(b"TAG") {
        return Some(227); // what some put before `ID3v1` for longer titles
    }
    if rest.starts_with(b"TAG") {
        return Some(128);
    }
    if rest.starts_with(b"APETAGEX") {
        let len = le_u32(rest, 12)? as usize;
        // Without this flag it is the end of a tag that came before.
        let is_header = le_u32(rest, 20)? >> 29 & 1 == 1;
        return Some(if is_header { len.saturating_add(32) } else { 32 });
    }
    id3v2_size(rest)
}

/// How many bytes follow from `at` on that are no tag at the end; none if they begin with a tag that does
/// not say how long it is.
pub(super) fn unexplained(bytes: &[u8], at: usize) -> usize {
    if is_tag(from(bytes, at)) { 0 } else { without_tags(bytes, at).len().saturating_sub(at) }
}

/// Whether so many unexplained bytes are lost sound: more than a second of it, at `frame_bytes` for each
/// frame and `frames_per_s` of them, and more than padding.
pub(super) fn is_lost_sound(n_bytes: usize, frame_bytes: usize, frames_per_s: f64) -> bool {
    n_bytes > MAX_PADDING && n_bytes as f64 > frame_bytes as f64 * frames_per_s
}

/// Leaves out `ID3v1` and `APEv2` tags at the end.
pub(super) fn without_tags(bytes: &[u8], least: usize) -> &[u8] {
    let mut end = bytes.len();
    let before = |end: usize, len: usize| end.checked_sub(len).filter(|&at| at >= least);
    if let Some(at) = before(end, 128)
        && from(bytes, at).starts_with(b"TAG")
    {
        end = at;
    }
    if let Some(at) = before(end, 32)
        && from(bytes, at).starts_with(b"APETAGEX")
    {
        let len = le_u32(bytes, at + 12).unwrap_or(0) as usize;
        let has_header = le_u32(bytes, at + 20).is_some_and(|flags| flags >> 31 == 1);
        let len = len.saturating_add(if has_header { 32 } else { 0 });
        end = before(end, len).unwrap_or(end);
    }
    bytes.get(..end).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_as_long_as_they_say() {
        let ape = |len: u32, flags: u32| {
            let mut tag = b"APETAGEX\xD0\x07\0\0".to_vec();
            tag.extend(len.to_le_bytes().iter().chain(&[0; 4]).chain(&flags.to_le_bytes()));
            tag.resize(32 + len as usize, 0);
            tag
        };
        assert_eq!(tag_size(&ape(100, 5 << 29)), Some(132));
        assert_eq!(tag_size(&ape(100, 4 << 29)), Some(32));
        let id3v1 = [&b"TAG"[..], &[b'+'; 125]].concat();
        assert_eq!(tag_size(&id3v1), Some(128));
        assert_eq!(tag_size(&[&b"TAG+"[..], &[0; 223], &id3v1].concat()), Some(227));
        assert_eq!(tag_size(b"ID3\x04\0\0\0\0\x01\0"), Some(138));
        assert_eq!(tag_size(b"LYRICSBEGIN"), None);
        let with_tags = [&[7; 50], &ape(100, 5 << 29)[..], &ape(0, 4 << 29), &id3v1].concat();
        assert_eq!(unexplained(&with_tags, 20), 162);
        assert_eq!(unexplained(&with_tags, 50), 0);
    }

    #[test]
    fn lost_sound_is_longer_than_a_second_and_than_padding() {
        assert!(!is_lost_sound(15_900, 417, 38.3) && is_lost_sound(16_000, 417, 38.3));
        assert!(!is_lost_sound(4096, 24, 14.0) && is_lost_sound(4097, 24, 14.0));
    }
}
