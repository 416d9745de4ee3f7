//! Paths as text that loses nothing: messages are text, and a path is any bytes.

use std::{borrow::Cow, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// Where the 128 characters begin that stand for the bytes from 0x80 on which are no UTF-8. They are
/// the last ones of those for private use, so that no path has them as a rule.
const FIRST: u32 = 0x0010_FF80;

/// The path as text. Bytes that are no UTF-8 become characters of their own, which
/// [`name_bytes`] turns back.
pub fn name_of(path: &Path) -> Arc<str> {
    let mut name = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if u32::from(c) < FIRST {
                name.push(c);
            } else {
                // A path that has such a character itself: as the bytes that it is made of.
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| name.push(stand_in(byte)));
            }
        }
        chunk.invalid().iter().for_each(|&byte| name.push(stand_in(byte)));
    }
    name.into()
}

/// The bytes of a path's name, or of a message that has such a name in it.
pub fn name_bytes(text: &str) -> Cow<'_, [u8]> {
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

fn stand_in(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte & 0x7F)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn any_path_comes_back() {
        let last = "\u{10FFFF}\u{10FF80}\u{10FF7F}".as_bytes();
        for path in [b"".as_slice(), b"a/b.arrow", "caf\u{e9}".as_bytes(), b"caf\xe9.arrow", last] {
            let name = name_of(Path::new(OsStr::from_bytes(path)));
            assert_eq!(&*name_bytes(&name), path, "{name:?}");
        }
        let all: Vec<u8> = (1..=255).collect();
        assert_eq!(&*name_bytes(&name_of(Path::new(OsStr::from_bytes(&all)))), all);
        assert_eq!(&*name_of(Path::new("plain/\u{e9}.arrow")), "plain/\u{e9}.arrow");
    }
}
