//! The framing of IPC messages: a length, a flatbuffer, a body that is not read here.
//!
//! See <https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format>.

use std::ops::Range;

use arrow_ipc::{Message, MetadataVersion, root_as_message_with_opts};
use flatbuffers::{InvalidFlatbuffer, VerifierOptions};

use crate::{Error, Result, store::WindowReader};

/// The marker before a message's length in streams written since Arrow 0.15.
const CONTINUATION: i32 = -1;

/// The deepest nesting of a flatbuffer; the fields of an ordinary schema are a few levels deep.
const MAX_DEPTH: usize = 64;

/// A message's number and range in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageSpan {
    /// Its index in the shard, the schema being 0.
    pub(super) number: u64,
    /// The offset of its prefix.
    pub(super) start: u64,
    /// The range of its flatbuffer, padding included.
    pub(super) metadata: Range<u64>,
}

impl MessageSpan {
    /// Names this message in an error.
    pub(super) fn locate(&self, error: Error) -> Error {
        error.in_message(self.number).at_byte(self.start)
    }
}

fn word(window: &mut WindowReader<'_>, at: u64) -> Result<i32> {
    let bytes = window.bytes(at..at + 4)?;
    Ok(bytes.first_chunk().map_or(0, |word| i32::from_le_bytes(*word)))
}

/// The message that begins at `start`. `None` at the end of a stream: at its marker, or at `end`,
/// since some writers omit the marker.
pub(super) fn message_at(
    window: &mut WindowReader<'_>,
    start: u64,
    end: u64,
    number: u64,
) -> Result<Option<MessageSpan>> {
    let located = |e: Error| e.in_message(number).at_byte(start);
    if start == end {
        return Ok(None);
    }
    let truncated = || located(truncated(end));
    if end.saturating_sub(start) < 4 {
        return Err(truncated());
    }
    let first = word(window, start)?;
    let (length, prefix) = if first == CONTINUATION {
        if end - start < 8 {
            return Err(truncated());
        }
        (word(window, start + 4)?, 8)
    } else {
        (first, 4)
    };
    if length == 0 {
        return Ok(None);
    }
    let Ok(length) = u64::try_from(length) else {
        return Err(located(Error::corrupt(format!("a message of negative length {length}"))));
    };
    let metadata = start + prefix..start + prefix + length;
    // Without the marker, the first four bytes of any file could be a length.
    if number == 0 && prefix == 4 && metadata.end > end {
        return Err(located(Error::corrupt(
            "not an Arrow IPC file or stream; give the paths of .arrow or .parquet files",
        )));
    }
    if metadata.end > end {
        return Err(truncated());
    }
    Ok(Some(MessageSpan { number, start, metadata }))
}

fn truncated(end: u64) -> Error {
    Error::corrupt(format!(
        "truncated: the message that begins here extends beyond the end at byte {end}; the shard \
         is still being written, or has to be written again"
    ))
}

/// The limits for verifying a flatbuffer of `len` bytes.
///
/// Tables may be shared, so that a small buffer can describe an enormous tree. No writer of Arrow
/// shares them, so the tree may not be larger than the bytes can hold.
pub(super) fn verifier_options(len: usize) -> VerifierOptions {
    VerifierOptions {
        max_depth: MAX_DEPTH,
        max_tables: len / 8 + 64,
        max_apparent_size: len.saturating_mul(16) + (64 << 10),
        ..VerifierOptions::default()
    }
}

/// A failed verification as an error for users.
pub(super) fn invalid_flatbuffer(e: &InvalidFlatbuffer) -> Error {
    match e {
        InvalidFlatbuffer::DepthLimitReached => {
            Error::limit("the schema is nested too deeply: about 60 levels are the most")
        }
        InvalidFlatbuffer::TooManyTables | InvalidFlatbuffer::ApparentSizeTooLarge => {
            Error::limit("the header refers to the same parts again and again")
        }
        // The first line is the reason; the others are a trace of the verifier's steps.
        other => {
            let reason = other.to_string();
            let reason = reason.lines().next().unwrap_or_default().to_owned();
            Error::corrupt(format!("the message's header is malformed: {reason}"))
        }
    }
}

/// Verifies a message's flatbuffer and its version.
pub(super) fn parse_message(bytes: &[u8]) -> Result<Message<'_>> {
    let options = verifier_options(bytes.len());
    let message = root_as_message_with_opts(&options, bytes).map_err(|e| invalid_flatbuffer(&e))?;
    match message.version() {
        MetadataVersion::V4 | MetadataVersion::V5 => Ok(message),
        MetadataVersion::V1 | MetadataVersion::V2 | MetadataVersion::V3 => {
            Err(Error::schema("", "written before Arrow 0.8; write the shard again"))
        }
        unknown => Err(Error::corrupt(format!("Arrow metadata of version {}", unknown.0))),
    }
}

/// The range of a message's body.
pub(super) fn body(span: &MessageSpan, message: &Message<'_>, end: u64) -> Result<Range<u64>> {
    let length = u64::try_from(message.bodyLength())
        .map_err(|_| Error::corrupt(format!("a body of length {}", message.bodyLength())))?;
    match span.metadata.end.checked_add(length) {
        Some(body_end) if body_end <= end => Ok(span.metadata.end..body_end),
        _ => Err(truncated(end)),
    }
}
