//! Stretches of a long stream that are walked in turns, before the walk comes to them.
//!
//! Where a frame begins only the header before it tells, so a walk waits for the memory at every
//! frame of a file that no cache holds: most of what a crop out of a long file takes. The answers
//! for headers of several stretches are under way at once.

use super::{header::Headers, scan::Frame, walk::is_run};
use crate::audio::bytes::be_u32;

/// Stretches of a stream.
const MAX_STRETCHES: usize = 8;

/// Shorter ones are not worth the look for their first frames.
const MIN_STRETCH: usize = 32 * 1024;

/// How far from where a stretch could begin its first frame is looked for: two frames at most.
const MAX_SEARCH: usize = 4096;

/// Frames that follow each other with nothing between them.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) frames: Vec<Frame>,
    /// Whether some of them have other channels than the first frame of the stream.
    pub(super) mixed: bool,
}

/// How many stretches are worth it in `n_bytes`.
pub(super) fn n_stretches(n_bytes: usize) -> usize {
    (n_bytes / MIN_STRETCH).min(MAX_STRETCHES)
}

/// Up to `n` stretches from `at` on, in their order. Each ends where the next begins, or earlier.
pub(super) fn walk(
    bytes: &[u8],
    headers: &Headers,
    at: usize,
    is_mono: bool,
    n: usize,
) -> Vec<Stretch> {
    let step = bytes.len().saturating_sub(at) / n.max(1);
    let mut stretches = Vec::with_capacity(n);
    for i in 0..n {
        let begin = at + i * step;
        let starts_here = |&at: &usize| headers.read(bytes, at).is_some() && is_run(bytes, at, 3);
        if let Some(start) = (begin..begin + MAX_SEARCH.min(step)).find(starts_here) {
            stretches.push(Stretch { start, end: start, frames: Vec::new(), mixed: false });
        }
    }
    let limits: Vec<usize> =
        stretches.iter().skip(1).map(|s| s.start).chain([bytes.len()]).collect();
    let mut going: Vec<(&mut Stretch, usize)> = stretches.iter_mut().zip(limits).collect();
    while !going.is_empty() {
        going.retain_mut(|(stretch, limit)| stretch.step(bytes, headers, is_mono, *limit));
    }
    stretches
}

impl Stretch {
    /// Goes one frame on, if there is one that ends up to `limit`.
    fn step(&mut self, bytes: &[u8], headers: &Headers, is_mono: bool, limit: usize) -> bool {
        let header = be_u32(bytes, self.end).and_then(|word| headers.len(word));
        let Some((len, mono)) = header else { return false };
        let end = self.end + len;
        if end > limit {
            return false;
        }
        self.frames.push(Frame { offset: self.end, len: len as u16 });
        self.mixed |= mono != is_mono;
        self.end = end;
        true
    }
}
