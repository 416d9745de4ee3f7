//! Names from outside in messages: on one line, and of a length that can be read.

use std::borrow::Cow;

/// Of a name, such as a path or a key. The longest path of Linux has 4096 bytes, but hardly any has 1,000.
pub const MAX_NAME: usize = 1_000;

/// Of a message as a whole.
pub const MAX_MESSAGE: usize = 4_000;

/// Text from outside as a message shows it: control characters and line ends are escaped, and the middle of
/// what has more than `most` characters is left out.
pub fn shown(text: &str, most: usize) -> Cow<'_, str> {
    let text = match text.char_indices().nth(most) {
        Some(_) => shortened(text, most),
        None => Cow::Borrowed(text),
    };
    if !text.chars().any(breaks_lines) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if breaks_lines(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped.into()
}

/// Three quarters of `most` from the beginning, and a quarter from the end, which says what to do.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    let end = most / 4;
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (first, _) = text.split_at(at(most - end));
    let from_end = text.char_indices().rev().nth(end.saturating_sub(1)).map_or(0, |(at, _)| at);
    let (middle, last) = text.split_at(from_end);
    let n_left_out = middle.len().saturating_sub(first.len());
    format!("{first}...({n_left_out} bytes)...{last}").into()
}

/// Whether it may move the cursor of a terminal, or begin another line of a log.
fn breaks_lines(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line_and_short() {
        assert_eq!(shown("a \u{e9}\u{10ff80}'b", 10), "a \u{e9}\u{10ff80}'b");
        assert_eq!(shown("a\nb\u{1b}[2J\u{2028}\r\0", 20), "a\\nb\\u{1b}[2J\\u{2028}\\r\\u{0}");
        let long = shown(&format!("begin{}end", "\u{e9}".repeat(5_000_000)), 100).into_owned();
        assert!(long.starts_with("begin\u{e9}") && long.ends_with("\u{e9}end"));
        assert!(long.chars().count() < 130 && long.contains("...(99"), "{long}");
        assert_eq!(shown("abcdefgh", 8), "abcdefgh");
        assert_eq!(shown("abcdefghi", 8), "abcdef...(1 bytes)...hi");
    }
}
