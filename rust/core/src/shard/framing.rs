//! The framing of IPC messages: a length, a flatbuffer, a body that is not read here.
//!
//! A header is read together with what follows it, 4 KiB at a time: enough for most headers in one
//! request, and for several small messages at once, without touching large bodies.
//! See <https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format>.

use std::ops::Range;

use arrow_ipc::{Message, MetadataVersion, root_as_message_with_opts};
use flatbuffers::{InvalidFlatbuffer, VerifierOptions};

use super::source::Source;
use crate::{Error, Result};

/// Read at once where a header is expected.
const WINDOW: u64 = 4096;

/// The marker before a message's length in streams written since Arrow 0.15.
const CONTINUATION: i32 = -1;

/// How deep a flatbuffer may nest; a schema's fields lie a few levels down.
const MAX_DEPTH: usize = 64;

/// One message's place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its index in the shard, the schema being 0.
    pub(super) message: u64,
    /// Where its prefix begins.
    pub(super) start: u64,
    /// Its flatbuffer, padding included.
    pub(super) metadata: Range<u64>,
}

/// Reads headers one after another or here and there.
#[derive(Debug)]
pub(super) struct HeaderReader<'a> {
    source: &'a Source,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> HeaderReader<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        Self { source, window: Vec::new(), window_at: 0 }
    }

    /// The bytes of `range`, which the caller has checked to lie inside the file.
    pub(super) fn bytes(&mut self, range: Range<u64>) -> Result<&[u8]> {
        let window_end = self.window_at + self.window.len() as u64;
        if range.start < self.window_at || range.end > window_end {
            let end = range.end.max(range.start.saturating_add(WINDOW)).min(self.source.len());
            self.source.read_range(range.start..end, &mut self.window)?;
            self.window_at = range.start;
        }
        let start = (range.start - self.window_at) as usize;
        let wanted =
            self.window.get(start..).and_then(|w| w.get(..(range.end - range.start) as usize));
        wanted.ok_or_else(|| Error::corrupt("a header lies outside the file").at_byte(range.start))
    }

    fn word(&mut self, at: u64) -> Result<i32> {
        let bytes = self.bytes(at..at + 4)?;
        Ok(bytes.first_chunk().map_or(0, |word| i32::from_le_bytes(*word)))
    }

    /// The message that begins at `start`, or `None` where the stream ends: at its marker, or at
    /// `end`, for some writers leave the marker out.
    pub(super) fn frame(&mut self, start: u64, end: u64, message: u64) -> Result<Option<Frame>> {
        let place = |e: Error| e.in_message(message).at_byte(start);
        if start == end {
            return Ok(None);
        }
        let truncated = || place(truncated(end));
        if end.saturating_sub(start) < 4 {
            return Err(truncated());
        }
        let first = self.word(start)?;
        let (length, prefix) = if first == CONTINUATION {
            if end - start < 8 {
                return Err(truncated());
            }
            (self.word(start + 4)?, 8)
        } else {
            (first, 4)
        };
        if length == 0 {
            return Ok(None);
        }
        let Ok(length) = u64::try_from(length) else {
            return Err(place(Error::corrupt(format!("a message of negative length {length}"))));
        };
        let metadata = start + prefix..start + prefix + length;
        // Without the marker the length is just four bytes of anything: text, sound, pictures.
        if message == 0 && prefix == 4 && metadata.end > end {
            return Err(place(Error::corrupt(
                "not an Arrow IPC file or stream; give the paths of .arrow files",
            )));
        }
        if metadata.end > end {
            return Err(truncated());
        }
        Ok(Some(Frame { message, start, metadata }))
    }

    /// The bytes of a message's flatbuffer.
    pub(super) fn metadata(&mut self, frame: &Frame) -> Result<&[u8]> {
        self.bytes(frame.metadata.clone())
    }
}

fn truncated(end: u64) -> Error {
    Error::corrupt(format!(
        "truncated: the message that begins here goes on beyond the end at byte {end}; the shard \
         is still being written, or has to be written again"
    ))
}

/// The limits under which a flatbuffer of `len` bytes is walked.
///
/// Tables may refer to shared ones, so that a small buffer can describe an enormous tree. An honest
/// writer shares nothing, so the tree may not be larger than the bytes can hold.
pub(super) fn verifier_options(len: usize) -> VerifierOptions {
    VerifierOptions {
        max_depth: MAX_DEPTH,
        max_tables: len / 8 + 64,
        max_apparent_size: len.saturating_mul(16) + (64 << 10),
        ..VerifierOptions::default()
    }
}

/// What a failed verification means to the user.
pub(super) fn invalid_flatbuffer(e: &InvalidFlatbuffer) -> Error {
    match e {
        InvalidFlatbuffer::DepthLimitReached => {
            Error::limit("the schema is nested too deeply: about 60 levels are the most")
        }
        InvalidFlatbuffer::TooManyTables | InvalidFlatbuffer::ApparentSizeTooLarge => {
            Error::limit("the header refers to the same parts again and again")
        }
        // The first line says what; the others trace the verifier's own steps.
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

/// Where a message's body lies.
pub(super) fn body(frame: &Frame, message: &Message<'_>, end: u64) -> Result<Range<u64>> {
    let length = u64::try_from(message.bodyLength())
        .map_err(|_| Error::corrupt(format!("a body of length {}", message.bodyLength())))?;
    match frame.metadata.end.checked_add(length) {
        Some(body_end) if body_end <= end => Ok(frame.metadata.end..body_end),
        _ => Err(truncated(end)),
    }
}
