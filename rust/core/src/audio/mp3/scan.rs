//! Walks from header to header: the only way to know an MP3's length and where its frames lie.
//!
//! What a Xing header promises is checked against the walk and never trusted: counts lie, and
//! without a header decoders guess. The walk costs about 17 us a megabyte.

use super::{
    header::{Header, NoHeader},
    tag::Tag,
};
use crate::audio::{bytes::from, error::Reason, probe::id3v2_size};

/// How far in the first frame may lie behind junk.
const MAX_JUNK: usize = 64 * 1024;

/// What the walk found.
#[derive(Clone, Debug)]
pub(in crate::audio) struct Layout {
    pub(in crate::audio) rate_hz: u32,
    pub(in crate::audio) n_channels: u16,
    /// Playable frames: what the encoder added at both ends is not counted.
    pub(in crate::audio) n_frames: u64,
    /// Decoded frames before the first playable one.
    pub(super) delay: u64,
    /// PCM frames in one MPEG frame.
    pub(super) frame_len: u64,
}

/// Offset and main data length of one MPEG frame.
#[derive(Clone, Copy, Debug)]
pub(in crate::audio) struct Frame {
    pub(super) offset: usize,
    pub(super) len: u16,
    pub(super) main_data_len: u16,
}

/// Where the first believable frame begins, at `offset` or a little later.
pub(in crate::audio) fn find_first(bytes: &[u8], offset: usize) -> Option<usize> {
    if is_run(bytes, offset, 2) {
        return Some(offset);
    }
    // Behind junk, chance agreement of two headers is not enough.
    (offset + 1..bytes.len().min(offset + MAX_JUNK)).find(|&at| is_run(bytes, at, 3))
}

/// What MPEG audio there is that is not decoded here.
pub(in crate::audio) fn refusal(bytes: &[u8], offset: usize) -> Option<&'static str> {
    match Header::read(bytes, offset) {
        Err(NoHeader::OtherLayer(name)) => Some(name),
        Err(NoHeader::FreeFormat) => Some("MP3 of free bit rate"),
        _ => None,
    }
}

/// Whether `n` headers that agree follow each other from `offset` on, or fewer up to the exact end.
fn is_run(bytes: &[u8], offset: usize, n: usize) -> bool {
    let Ok(first) = Header::read(bytes, offset) else { return false };
    let mut at = offset + first.len;
    for _ in 1..n {
        if at == bytes.len() || is_tail(from(bytes, at)) {
            return true;
        }
        match Header::read(bytes, at) {
            Ok(next) if next.agrees_with(&first) => at += next.len,
            _ => return false,
        }
    }
    at <= bytes.len()
}

/// Tags behind the last frame.
fn is_tail(rest: &[u8]) -> bool {
    rest.starts_with(b"TAG")
        || rest.starts_with(b"APETAGEX")
        || rest.starts_with(b"LYRICSBEGIN")
        || rest.starts_with(b"ID3")
}

/// Walks the whole stream from its first frame on and lists the audio frames in `frames`.
pub(in crate::audio) fn open(
    bytes: &[u8],
    offset: usize,
    frames: &mut Vec<Frame>,
) -> Result<Layout, Reason> {
    frames.clear();
    let no_frame = || Reason::malformed("there is no MPEG frame");
    let first = Header::read(bytes, offset).map_err(|_| no_frame())?;
    let tag = Tag::read(bytes.get(offset..offset + first.len).unwrap_or_default(), &first);
    let mut walk = Walk { bytes, first, at: offset, n_gaps: 0, cut: false, mixed: false };
    if tag.is_some() {
        walk.at += first.len;
    }
    while let Some(frame) = walk.next() {
        frames.push(frame);
    }
    if walk.mixed {
        return Err(Reason::ParamsChanged);
    }
    if walk.n_gaps > 0 {
        return Err(Reason::CorruptPackets { count: walk.n_gaps });
    }
    let tag = tag.unwrap_or_default();
    let found = frames.len() as u64;
    let frame_len = first.n_frames();
    // Some old writers count the frame that holds the tag; LAME does not.
    let slack = u64::from(tag.trim.is_none());
    let promised = match tag.n_mpeg_frames {
        Some(n) if n > found + slack => Some(n),
        None if walk.cut => Some(found + 1),
        _ => None,
    };
    if let Some(n) = promised {
        let expected = Some(n * frame_len);
        return Err(Reason::Truncated { decoded: found * frame_len, expected });
    }
    let (delay, padding) = tag.trim.unwrap_or((0, 0));
    Ok(Layout {
        rate_hz: first.rate_hz,
        n_channels: first.n_channels(),
        n_frames: (found * frame_len).saturating_sub(delay + padding),
        delay,
        frame_len,
    })
}

struct Walk<'a> {
    bytes: &'a [u8],
    first: Header,
    at: usize,
    n_gaps: u64,
    cut: bool,
    mixed: bool,
}

impl Walk<'_> {
    fn next(&mut self) -> Option<Frame> {
        loop {
            match Header::read(self.bytes, self.at) {
                Ok(header) if header.agrees_with(&self.first) => {
                    let offset = self.at;
                    self.at += header.len;
                    if self.at > self.bytes.len() {
                        self.cut = true;
                        return None;
                    }
                    self.mixed |= header.is_mono != self.first.is_mono;
                    return Some(Frame {
                        offset,
                        len: header.len as u16,
                        main_data_len: header.main_data_len() as u16,
                    });
                }
                _ => self.resync()?,
            }
        }
    }

    /// Moves on to the next frame, or ends the walk: junk counts only if frames follow it.
    fn resync(&mut self) -> Option<()> {
        let rest = from(self.bytes, self.at);
        if let Some(size) = id3v2_size(rest) {
            self.at += size;
            return (self.at < self.bytes.len()).then_some(());
        }
        if rest.is_empty() || is_tail(rest) {
            return None;
        }
        let next = (self.at + 1..self.bytes.len()).find(|&at| {
            Header::read(self.bytes, at).is_ok_and(|h| h.agrees_with(&self.first))
                && is_run(self.bytes, at, 3)
        })?;
        self.n_gaps += 1;
        self.at = next;
        Some(())
    }
}
