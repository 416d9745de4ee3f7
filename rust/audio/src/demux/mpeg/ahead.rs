//! Stretches of a long stream that are walked in turns, before the walk comes to them.
//!
//! Where a frame begins only the header before it tells, so a walk waits for the memory at every
//! frame of a file that no cache holds: most of what a crop out of a long file takes. The answers
//! for headers of several stretches are under way at once.

use super::{
    index::{Index, MAX_RUN},
    walk::is_run,
};
use crate::{bytes::be_u32, codec::mp3::header::Headers};

/// Stretches of a stream. Twice as many take as long.
const MAX_STRETCHES: usize = 16;

/// Shorter ones are not worth the look for their first frames.
const MIN_STRETCH: usize = 32 * 1024;

/// How far from where a stretch could begin its first frame is looked for: two frames at most.
const MAX_SEARCH: usize = 4096;

/// Frames that follow each other with nothing between them.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) index: Index,
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
            stretches.push(Stretch { start, end: start, index: Index::default(), mixed: false });
        }
    }
    let limits: Vec<usize> =
        stretches.iter().skip(1).map(|s| s.start).chain([bytes.len()]).collect();
    let mut heads: Vec<Head<'_>> = stretches
        .iter_mut()
        .zip(limits)
        .map(|(stretch, limit)| Head { at: stretch.start, limit, n: 0, mixed: false, stretch })
        .collect();
    let mut words = vec![0; heads.len()];
    while !heads.is_empty() {
        for _ in 0..MAX_RUN {
            // All are asked for before one is looked at: a processor keeps only so many
            // instructions that wait for an answer. No header is 0.
            for (word, head) in words.iter_mut().zip(&heads) {
                *word = be_u32(bytes, head.at).unwrap_or(0);
            }
            for (word, head) in words.iter().zip(&mut heads) {
                head.step(*word, headers, is_mono);
            }
        }
        heads.retain_mut(Head::end_run);
    }
    stretches
}

/// The place that the walk of a stretch has come to.
struct Head<'a> {
    at: usize,
    limit: usize,
    /// Frames since the run began.
    n: usize,
    mixed: bool,
    stretch: &'a mut Stretch,
}

impl Head<'_> {
    /// Goes one frame on, past the one with this header, if it ends up to the limit.
    #[inline]
    fn step(&mut self, word: u32, headers: &Headers, is_mono: bool) {
        if let Some((len, mono)) = headers.len(word)
            && self.at + len <= self.limit
        {
            self.at += len;
            self.n += 1;
            self.mixed |= mono != is_mono;
        }
    }

    /// Notes the run. Whether the stretch may go on: if it does not, the run is shorter.
    fn end_run(&mut self) -> bool {
        let n = std::mem::take(&mut self.n);
        if n > 0 {
            self.stretch.index.push(self.stretch.end, self.at, n);
        }
        self.stretch.end = self.at;
        self.stretch.mixed = self.mixed;
        n == MAX_RUN
    }
}
