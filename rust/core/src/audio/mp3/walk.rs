//! Walks from header to header: the only way to know an MP3's length and where its frames lie.

use super::{
    ahead::{self, Stretch},
    header::{Header, Headers},
    scan::Frame,
};
use crate::audio::{bytes::from, probe::id3v2_size};

/// What a walk saw besides frames.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) gaps: Vec<Gap>,
    /// Whether frames of one channel and of two follow each other.
    pub(super) mixed: bool,
    /// Whether the file ends within a frame.
    pub(super) is_cut: bool,
}

/// Lists the frames from `at` on in `frames`.
pub(super) fn walk(
    bytes: &[u8],
    headers: &Headers,
    at: usize,
    is_mono: bool,
    frames: &mut Vec<Frame>,
) -> Found {
    let ahead = ahead::walk(
        bytes,
        headers,
        at,
        is_mono,
        ahead::n_stretches(bytes.len().saturating_sub(at)),
    );
    join(bytes, headers, at, is_mono, ahead, frames)
}

/// The same with stretches that were walked ahead. One counts where the walk comes to its first
/// frame, and changes nothing then: what follows a place is the same for whoever comes there.
fn join(
    bytes: &[u8],
    headers: &Headers,
    at: usize,
    is_mono: bool,
    ahead: Vec<Stretch>,
    frames: &mut Vec<Frame>,
) -> Found {
    let found = Found { gaps: Vec::new(), mixed: false, is_cut: false };
    let mut walk = Walk { bytes, headers, is_mono, at, n_found: 0, found };
    frames.reserve(ahead.iter().map(|stretch| stretch.frames.len()).sum());
    let mut ahead = ahead.into_iter().peekable();
    loop {
        while ahead.next_if(|stretch| stretch.start < walk.at).is_some() {}
        if let Some(stretch) = ahead.next_if(|stretch| stretch.start == walk.at) {
            walk.at = stretch.end;
            walk.n_found += stretch.frames.len();
            walk.found.mixed |= stretch.mixed;
            frames.extend(stretch.frames);
        } else if let Some(frame) = walk.next() {
            frames.push(frame);
        } else {
            return walk.found;
        }
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    headers: &'a Headers,
    is_mono: bool,
    at: usize,
    n_found: usize,
    found: Found,
}

impl Walk<'_> {
    fn next(&mut self) -> Option<Frame> {
        loop {
            match self.headers.read(self.bytes, self.at) {
                Some(header) => {
                    let frame = Frame { offset: self.at, len: header.len as u16 };
                    self.at += header.len;
                    // Without a Xing header nothing is promised, and many streams, the standard's
                    // own among them, end within a frame.
                    if self.at > self.bytes.len() {
                        self.found.is_cut = true;
                        return None;
                    }
                    self.n_found += 1;
                    self.found.mixed |= header.is_mono != self.is_mono;
                    return Some(frame);
                }
                None => self.resync()?,
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
        let next = (self.at + 1..self.bytes.len())
            .find(|&at| self.headers.read(self.bytes, at).is_some() && is_run(self.bytes, at, 3))?;
        self.found.gaps.push(Gap { at: self.n_found, n_bytes: next - self.at });
        self.at = next;
        Some(())
    }
}

/// Whether `n` headers that agree follow each other from `offset` on, or fewer up to the exact end.
pub(super) fn is_run(bytes: &[u8], offset: usize, n: usize) -> bool {
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

/// Bytes between two frames that are none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// Frames before it.
    at: usize,
    n_bytes: usize,
}

/// Puts empty frames where frames were lost. There are fewer of them than bytes.
pub(super) fn fill(frames: &mut Vec<Frame>, gaps: &[Gap]) {
    let n_bytes: usize = frames.iter().map(|frame| usize::from(frame.len)).sum();
    let mean = (n_bytes / frames.len().max(1)).max(1);
    let mut filled = Vec::with_capacity(frames.len());
    let mut done = 0;
    for gap in gaps {
        filled.extend_from_slice(frames.get(done..gap.at).unwrap_or_default());
        done = gap.at;
        // A gap swallowed a frame at least, or what is left of one.
        let n_lost = ((gap.n_bytes + mean / 2) / mean).max(1);
        filled.resize(filled.len() + n_lost, Frame { offset: 0, len: 0 });
    }
    filled.extend_from_slice(frames.get(done..).unwrap_or_default());
    *frames = filled;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a stream is put together from.
    #[derive(Clone, Debug)]
    enum Part {
        /// A frame of MPEG-2.5 at 8 kHz: index of the bit rate, padding, mono, what fills it.
        Frame(u32, bool, bool, u8),
        Junk(Vec<u8>),
        /// A tag in the midst of the stream.
        Id3(u8),
    }

    fn bytes_of(part: &Part) -> Vec<u8> {
        match part {
            Part::Frame(rate, padded, mono, fill) => {
                let word = 0xFFE3_0800 | rate << 12 | u32::from(*padded) << 9;
                let word = word | if *mono { 0xC0 } else { 0 };
                let header = Header::read(&word.to_be_bytes(), 0).expect("a header");
                let mut frame = word.to_be_bytes().to_vec();
                frame.resize(header.len, *fill);
                frame
            }
            Part::Junk(bytes) => bytes.clone(),
            Part::Id3(len) => {
                let mut tag = b"ID3\x04\0\0\0\0\0".to_vec();
                tag.push(len % 128);
                tag.resize(10 + usize::from(len % 128), 0);
                tag
            }
        }
    }

    fn part() -> impl Strategy<Value = Part> {
        // Frames full of ones look like headers of another stream.
        let fill = prop_oneof![Just(0u8), Just(0xFF), any::<u8>()];
        let frame = (1u32..15, any::<bool>(), prop::bool::weighted(0.02), fill);
        prop_oneof![
            60 => frame.prop_map(|(rate, pad, mono, fill)| Part::Frame(rate, pad, mono, fill)),
            2 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Part::Junk),
            1 => any::<u8>().prop_map(Part::Id3),
        ]
    }

    proptest! {
        #[test]
        fn stretches_walked_ahead_change_nothing(
            parts in prop::collection::vec(part(), 1..80),
            cut in 0usize..200,
            n in 1usize..9,
        ) {
            let mut bytes = bytes_of(&Part::Frame(5, false, false, 0));
            for part in &parts {
                bytes.extend(bytes_of(part));
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len() / 2));
            let headers = Headers::like(&bytes, 0).expect("a header");
            let ahead = ahead::walk(&bytes, &headers, 0, false, n);
            prop_assert!(ahead.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let (mut plain, mut joined) = (Vec::new(), Vec::new());
            let expected = join(&bytes, &headers, 0, false, Vec::new(), &mut plain);
            let found = join(&bytes, &headers, 0, false, ahead, &mut joined);
            prop_assert_eq!(joined, plain);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_whole_stream_is_walked_in_stretches() {
        let frames: Vec<u8> = (0..5000)
            .flat_map(|i| bytes_of(&Part::Frame(1 + i % 14, i % 3 == 0, false, 7)))
            .collect();
        let headers = Headers::like(&frames, 0).expect("a header");
        let ahead = ahead::walk(&frames, &headers, 0, false, ahead::n_stretches(frames.len()));
        assert_eq!(ahead.len(), 8);
        assert!(ahead.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(ahead.last().expect("eight").end, frames.len());
        assert_eq!(ahead.iter().map(|stretch| stretch.frames.len()).sum::<usize>(), 5000);
    }
}
