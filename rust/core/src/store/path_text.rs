//! Paths as text without loss: messages are text, and a path may be any bytes.

use std::{borrow::Cow, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// The first of the 128 characters that stand for bytes of 0x80 and more that are not UTF-8. They are
/// the last ones for private use, which paths hardly ever have.
const FIRST: u32 = 0x0010_FF80;

/// The path as text. Bytes that are not UTF-8 become characters of their own, which [`path_bytes`]
/// turns back.
pub fn path_text(path: &Path) -> Arc<str> {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if u32::from(c) < FIRST {
                text.push(c);
            } else {
                // The path has such a character itself: it is written byte by byte.
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push(escape(byte)));
            }
        }
        chunk.invalid().iter().for_each(|&byte| text.push(escape(byte)));
    }
    text.into()
}

/// The bytes of a path that [`path_text`] wrote, or of a message that contains one.
pub fn path_bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.chars().any(|c| u32::from(c) >= FIRST) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::new();
    for c in text.chars() {
        match u32::from(c).checked_sub(FIRST) {
            Some(byte) => bytes.push(byte as u8 | 0x80),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

fn escape(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte & 0x7F)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn every_path_round_trips() {
        let last = "\u{10FFFF}\u{10FF80}\u{10FF7F}".as_bytes();
        for path in [b"".as_slice(), b"a/b.arrow", "caf\u{e9}".as_bytes(), b"caf\xe9.arrow", last] {
            let text = path_text(Path::new(OsStr::from_bytes(path)));
            assert_eq!(&*path_bytes(&text), path, "{text:?}");
        }
        let all: Vec<u8> = (1..=255).collect();
        assert_eq!(&*path_bytes(&path_text(Path::new(OsStr::from_bytes(&all)))), all);
        assert_eq!(&*path_text(Path::new("plain/\u{e9}.arrow")), "plain/\u{e9}.arrow");
    }
}
