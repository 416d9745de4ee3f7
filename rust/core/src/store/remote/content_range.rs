//! The header `Content-Range`, which says what of a file an answer has.

use std::ops::Range;

/// `bytes 0-99/1234`: the range, which is not empty, and the length of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) range: Range<u64>,
    pub(super) len: u64,
}

impl ContentRange {
    /// `None` where it is none, is not in the file, or does not say how long the file is.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (range, len) = after_unit(header)?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last, len) = (number(first)?, number(last)?, number(len)?);
        (first <= last && last < len).then(|| Self { range: first..last + 1, len })
    }
}

/// `bytes */1234`: the length of a file that does not have the range.
pub(super) fn len_without_range(header: &str) -> Option<u64> {
    number(after_unit(header)?.strip_prefix("*/")?)
}

/// What follows the unit, whose letters may be large or small.
fn after_unit(header: &str) -> Option<&str> {
    let (unit, rest) = header.split_once(' ')?;
    unit.eq_ignore_ascii_case("bytes").then_some(rest)
}

/// Digits alone: `parse` would take a sign as well.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_and_sound_headers_are_taken() {
        let parsed = |text: &str| ContentRange::parse(text).map(|found| (found.range, found.len));
        assert_eq!(parsed("bytes 0-0/1"), Some((0..1, 1)));
        assert_eq!(parsed("bytes 5-9/10"), Some((5..10, 10)));
        assert_eq!(parsed("Bytes 5-9/10"), Some((5..10, 10)));
        let most = u64::MAX;
        assert_eq!(parsed(&format!("bytes 0-{}/{most}", most - 1)), Some((0..most, most)));
        for wrong in [
            "",
            "bytes",
            "bytes 0-9",
            "bytes 0-9/*",
            "bytes */10",
            "bytes 9-5/10",
            "bytes 5-10/10",
            "bytes -5/10",
            "bytes +0-9/10",
            "bytes 0-9/10 ",
            "bytes 0-9/18446744073709551616",
            "items 0-9/10",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert_eq!(len_without_range("bytes */10"), Some(10));
        assert_eq!(len_without_range("BYTES */10"), Some(10));
        assert_eq!([len_without_range("bytes */"), len_without_range("bytes */-1")], [None; 2]);
    }
}
