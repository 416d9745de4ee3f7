//! Walks from header to header: the only way to know an MP3's length and where its frames are.

use super::{
    ahead::{self, Stretch},
    index::Index,
};
use crate::{
    bytes::from,
    codec::mp3::header::{Header, Headers},
    demux::tags::{is_tag, tag_size, unexplained},
};

/// What a walk saw besides frames.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) gaps: Vec<Gap>,
    /// Whether frames of one channel and of two follow each other.
    pub(super) mixed: bool,
    /// Whether the file ends within a frame.
    pub(super) is_cut: bool,
    /// Whether frames of another stream come behind the last one.
    pub(super) changed: bool,
    /// Bytes behind the last frame that are neither tags nor frames.
    pub(super) n_behind: usize,
}

/// Notes the frames from `at` on in `index`.
pub(super) fn walk(
    bytes: &[u8],
    headers: &Headers,
    at: usize,
    is_mono: bool,
    index: &mut Index,
) -> Found {
    let ahead = ahead::walk(
        bytes,
        headers,
        at,
        is_mono,
        ahead::n_stretches(bytes.len().saturating_sub(at)),
    );
    join(bytes, headers, at, is_mono, ahead, index)
}

/// The same with stretches that were walked ahead. One counts where the walk comes to its first
/// frame, and changes nothing then: what follows a place is the same for whoever comes there.
fn join(
    bytes: &[u8],
    headers: &Headers,
    at: usize,
    is_mono: bool,
    ahead: Vec<Stretch>,
    index: &mut Index,
) -> Found {
    let mut walk = Walk { bytes, headers, is_mono, at, found: Found::default() };
    let mut ahead = ahead.into_iter().peekable();
    loop {
        while ahead.next_if(|stretch| stretch.start < walk.at).is_some() {}
        if let Some(stretch) = ahead.next_if(|stretch| stretch.start == walk.at) {
            walk.at = stretch.end;
            walk.found.mixed |= stretch.mixed;
            index.append(&stretch.index);
        } else if let Some(offset) = walk.next(index.n_frames()) {
            index.push(offset, walk.at, 1);
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
    found: Found,
}

impl Walk<'_> {
    /// Goes past the next frame, before which there are `n_found`, and returns where it begins.
    fn next(&mut self, n_found: usize) -> Option<usize> {
        loop {
            match self.headers.read(self.bytes, self.at) {
                Some(header) => {
                    let offset = self.at;
                    self.at += header.len;
                    // Without a Xing header nothing is promised, and many streams, the standard's
                    // own among them, end within a frame.
                    if self.at > self.bytes.len() {
                        self.found.is_cut = true;
                        return None;
                    }
                    self.found.mixed |= header.is_mono != self.is_mono;
                    return Some(offset);
                }
                None => self.resync(n_found)?,
            }
        }
    }

    /// Moves on to the next frame, or ends the walk: junk counts only if frames follow it.
    fn resync(&mut self, n_found: usize) -> Option<()> {
        let rest = from(self.bytes, self.at);
        if let Some(size) = tag_size(rest) {
            self.at = self.at.saturating_add(size);
            return (self.at < self.bytes.len()).then_some(());
        }
        if rest.is_empty() {
            return None;
        }
        let next = (self.at + 1..self.bytes.len())
            .find(|&at| self.headers.read(self.bytes, at).is_some() && is_run(self.bytes, at, 3));
        let Some(next) = next else {
            self.found.changed =
                (self.at..self.bytes.len()).any(|at| is_long_run(self.bytes, at, 3));
            if !self.found.changed {
                self.found.n_behind = unexplained(self.bytes, self.at);
            }
            return None;
        };
        // A tag that does not say how long it is ends where frames begin.
        if !is_tag(rest) {
            self.found.gaps.push(Gap { at: n_found, n_bytes: next - self.at });
        }
        self.at = next;
        Some(())
    }
}

/// Whether `n` headers that agree follow each other from `offset` on, or fewer up to the exact end.
pub(super) fn is_run(bytes: &[u8], offset: usize, n: usize) -> bool {
    let Ok(first) = Header::read(bytes, offset) else { return false };
    let mut at = offset + first.len;
    for _ in 1..n {
        if at == bytes.len() || is_tag(from(bytes, at)) {
            return true;
        }
        match Header::read(bytes, at) {
            Ok(next) if next.agrees_with(&first) => at += next.len,
            _ => return false,
        }
    }
    at <= bytes.len()
}

/// Whether `n` headers that agree follow each other from `offset` on, and no fewer.
fn is_long_run(bytes: &[u8], offset: usize, n: usize) -> bool {
    let Ok(first) = Header::read(bytes, offset) else { return false };
    let mut at = offset + first.len;
    (1..n).all(|_| {
        let next = Header::read(bytes, at).ok().filter(|next| next.agrees_with(&first));
        next.inspect(|next| at += next.len).is_some()
    })
}

/// Bytes between two frames, or behind the last, that are none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// Frames before it.
    pub(super) at: usize,
    pub(super) n_bytes: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::demux::mpeg::index::Frame;

    /// What a stream is put together from.
    #[derive(Clone, Debug)]
    enum Piece {
        /// A frame of MPEG-2.5 at 8 kHz: index of the bit rate, padding, mono, what fills it.
        Frame(u32, bool, bool, u8),
        Junk(Vec<u8>),
        /// Tags in the midst of the stream.
        Id3(u8),
        Id3v1,
    }

    fn bytes_of(piece: &Piece) -> Vec<u8> {
        match piece {
            Piece::Frame(rate, padded, mono, fill) => {
                let word = 0xFFE3_0800 | rate << 12 | u32::from(*padded) << 9;
                let word = word | if *mono { 0xC0 } else { 0 };
                let header = Header::read(&word.to_be_bytes(), 0).expect("a header");
                let mut frame = word.to_be_bytes().to_vec();
                frame.resize(header.len, *fill);
                frame
            }
            Piece::Junk(bytes) => bytes.clone(),
            Piece::Id3v1 => [&b"TAG"[..], &[0; 125]].concat(),
            Piece::Id3(len) => {
                let mut tag = b"ID3\x04\0\0\0\0\0".to_vec();
                tag.push(len % 128);
                tag.resize(10 + usize::from(len % 128), 0);
                tag
            }
        }
    }

    fn piece() -> impl Strategy<Value = Piece> {
        // Frames full of ones look like headers of another stream.
        let fill = prop_oneof![Just(0u8), Just(0xFF), any::<u8>()];
        let frame = (1u32..15, any::<bool>(), prop::bool::weighted(0.02), fill);
        prop_oneof![
            60 => frame.prop_map(|(rate, pad, mono, fill)| Piece::Frame(rate, pad, mono, fill)),
            2 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Piece::Junk),
            1 => any::<u8>().prop_map(Piece::Id3),
            1 => Just(Piece::Id3v1),
        ]
    }

    fn bytes_of_all(pieces: &[Piece], cut: usize) -> Vec<u8> {
        let mut bytes = bytes_of(&Piece::Frame(5, false, false, 0));
        for piece in pieces {
            bytes.extend(bytes_of(piece));
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len() / 2));
        bytes
    }

    /// Walks frame by frame, and lists every one, with empty ones where some are lost.
    fn list(bytes: &[u8], headers: &Headers) -> (Vec<Frame>, Found) {
        let found = Found::default();
        let mut walk = Walk { bytes, headers, is_mono: false, at: 0, found };
        let mut frames = Vec::new();
        while let Some(offset) = walk.next(frames.len()) {
            frames.push(Frame { offset, len: (walk.at - offset) as u16 });
        }
        let n_bytes: usize = frames.iter().map(|frame| usize::from(frame.len)).sum();
        let mean = n_bytes / frames.len().max(1);
        for gap in walk.found.gaps.iter().rev() {
            let n_lost = ((gap.n_bytes + mean / 2) / mean).max(1);
            let lost = vec![Frame { offset: 0, len: 0 }; n_lost];
            frames.splice(gap.at..gap.at, lost);
        }
        (frames, walk.found)
    }

    proptest! {
        #[test]
        fn stretches_walked_ahead_change_nothing(
            pieces in prop::collection::vec(piece(), 1..200),
            cut in 0usize..200,
            n in 0usize..9,
            ends in prop::collection::vec(any::<[prop::sample::Index; 2]>(), 10),
        ) {
            let bytes = bytes_of_all(&pieces, cut);
            let headers = Headers::like(&bytes, 0).expect("a header");
            let ahead = ahead::walk(&bytes, &headers, 0, false, n);
            prop_assert!(ahead.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let mut index = Index::default();
            let found = join(&bytes, &headers, 0, false, ahead, &mut index);
            index.fill(&found.gaps).unwrap();
            let (frames, expected) = list(&bytes, &headers);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(index.n_frames(), frames.len());
            let span = |begin, end| index.span(begin, end).iter(&bytes).collect::<Vec<_>>();
            prop_assert_eq!(span(0, frames.len()), &frames[..]);
            for pair in ends {
                let [a, b] = pair.map(|at| at.index(frames.len() + 1));
                let (begin, end) = (a.min(b), a.max(b));
                prop_assert_eq!(span(begin, end), &frames[begin..end]);
                // The way back for the bit reservoir, frame by frame.
                let n_bytes = 8 * (begin % 64);
                let main_data_len = |frame: &Frame| match frame.len {
                    0 => 0,
                    _ => Header::read(&bytes, frame.offset).expect("a header").main_data_len(),
                };
                let enough = |&i: &usize| {
                    frames[i..begin].iter().map(main_data_len).sum::<usize>() >= n_bytes
                };
                let expected = (0..=begin).rev().find(enough).unwrap_or(0);
                prop_assert_eq!(index.reservoir_start(&bytes, begin, n_bytes), expected);
            }
        }
    }

    #[test]
    fn a_whole_stream_is_walked_in_stretches() {
        let frames: Vec<u8> = (0..9000)
            .flat_map(|i| bytes_of(&Piece::Frame(1 + i % 14, i % 3 == 0, false, 7)))
            .collect();
        let headers = Headers::like(&frames, 0).expect("a header");
        let ahead = ahead::walk(&frames, &headers, 0, false, ahead::n_stretches(frames.len()));
        assert_eq!(ahead.len(), 16);
        assert!(ahead.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(ahead.last().expect("sixteen").end, frames.len());
        assert_eq!(ahead.iter().map(|stretch| stretch.index.n_frames()).sum::<usize>(), 9000);
    }
}
