//! Where the frames of a stream begin, kept for one of every few dozen frames.
//!
//! A crop needs the frames around it alone. A list of all would be most of what a walk over a long
//! stream writes.

use super::walk::Gap;
use crate::{codec::mp3::header::Header, error::Reason, memory};

/// Frames in a run at most: what is walked once more to come to a frame.
pub(crate) const MAX_RUN: usize = 64;

/// One MPEG frame; of no length where one is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) offset: usize,
    pub(crate) len: u16,
}

const LOST: Frame = Frame { offset: 0, len: 0 };

/// Frames that follow each other with nothing between them, or that are lost.
#[derive(Clone, Copy, Debug)]
struct FrameRun {
    /// The number of the first.
    first: usize,
    n: usize,
    /// Where the first begins; `None` for lost ones.
    offset: Option<usize>,
}

/// The frames of one stream.
#[derive(Debug, Default)]
pub(crate) struct Index {
    runs: Vec<FrameRun>,
    /// Where the last run ends.
    end: usize,
    n_frames: usize,
    /// Of all frames.
    n_bytes: usize,
    /// What there was no memory for.
    refused: Option<Reason>,
}

impl Index {
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        (self.end, self.n_frames, self.n_bytes) = (0, 0, 0);
        self.refused = None;
    }

    /// Begins again with frame `first`: those before it count as lost.
    pub(super) fn begin_at(&mut self, first: usize) {
        self.clear();
        if first > 0 {
            let run = FrameRun { first: 0, n: first, offset: None };
            self.refused = memory::push(&mut self.runs, run).err();
        }
        self.n_frames = first;
    }

    /// Where the last frame ends.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// The number and the place of one of every few dozen frames.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.runs.iter().filter_map(|run| Some((run.first, run.offset?)))
    }

    /// Whether there was memory for all frames.
    pub(crate) fn check(&mut self) -> Result<(), Reason> {
        self.refused.take().map_or(Ok(()), Err)
    }

    pub(crate) fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// Adds `n` frames that begin at `offset` and end at `end`, where they are not too many for
    /// one run.
    pub(crate) fn push(&mut self, offset: usize, end: usize, n: usize) {
        match self.runs.last_mut() {
            Some(last) if self.end == offset && last.n + n <= MAX_RUN => last.n += n,
            _ => {
                let run = FrameRun { first: self.n_frames, n, offset: Some(offset) };
                let pushed = memory::push(&mut self.runs, run);
                self.refused = self.refused.take().or(pushed.err());
            }
        }
        self.n_frames += n;
        self.n_bytes += end - offset;
        self.end = end;
    }

    /// Adds the runs of another index behind these.
    pub(crate) fn append(&mut self, other: &Self) {
        let n_before = self.n_frames;
        let room = memory::reserve(&mut self.runs, other.runs.len());
        self.refused = self.refused.take().or(room.err()).or_else(|| other.refused.clone());
        if self.refused.is_some() {
            return;
        }
        self.runs
            .extend(other.runs.iter().map(|run| FrameRun { first: n_before + run.first, ..*run }));
        self.n_frames += other.n_frames;
        self.n_bytes += other.n_bytes;
        self.end = other.end;
    }

    /// Bytes of a frame in the mean, at least 1.
    pub(super) fn mean_len(&self) -> usize {
        (self.n_bytes / self.n_frames.max(1)).max(1)
    }

    /// Puts lost frames into the gaps, as many as fit them at the mean length of those that are
    /// there. There are fewer of them than bytes.
    pub(super) fn fill(&mut self, gaps: &[Gap]) -> Result<(), Reason> {
        let mean = self.mean_len();
        // It swallowed a frame at least, or what is left of one.
        let n_in = |gap: &Gap| ((gap.n_bytes + mean / 2) / mean).max(1);
        let mut gaps = gaps.iter().peekable();
        let mut filled = Vec::new();
        memory::reserve(&mut filled, self.runs.len() + gaps.len())?;
        let mut n_lost = 0;
        for run in &self.runs {
            // A gap is where a run begins: frames on both sides of it are of different runs.
            while let Some(gap) = gaps.next_if(|gap| gap.at <= run.first) {
                let n = n_in(gap);
                filled.push(FrameRun { first: run.first + n_lost, n, offset: None });
                n_lost += n;
            }
            filled.push(FrameRun { first: run.first + n_lost, ..*run });
        }
        // What is lost behind the last frame.
        for gap in gaps {
            let n = n_in(gap);
            filled.push(FrameRun { first: self.n_frames + n_lost, n, offset: None });
            n_lost += n;
        }
        self.runs = filled;
        self.n_frames += n_lost;
        Ok(())
    }

    /// The last frame from which on there are `n_bytes` of main data up to frame `before`, or the
    /// first of all.
    pub(crate) fn reservoir_start(&self, bytes: &[u8], before: usize, n_bytes: usize) -> usize {
        let (mut begin, mut missing) = (before, n_bytes);
        while missing > 0 && begin > 0 {
            let Some(run) = self.runs.get(self.run_of(begin - 1)) else { break };
            if run.offset.is_none() {
                begin = run.first;
                continue;
            }
            let frames: Vec<Frame> = follow(bytes, run.offset).take(begin - run.first).collect();
            for frame in frames.iter().rev() {
                if missing == 0 {
                    break;
                }
                begin -= 1;
                let header = Header::read(bytes, frame.offset);
                missing = missing.saturating_sub(header.map_or(0, |header| header.main_data_len()));
            }
        }
        begin
    }

    /// Which run holds frame `i`.
    fn run_of(&self, i: usize) -> usize {
        self.runs.partition_point(|run| run.first + run.n <= i)
    }

    /// Frames `begin..end`.
    pub(crate) fn span(&self, begin: usize, end: usize) -> Span {
        let runs = self.runs.get(self.run_of(begin)..).unwrap_or_default().iter();
        Span { runs: runs.take_while(|run| run.first < end).copied().collect(), begin, end }
    }
}

/// Frames of a stream that follow each other.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Those that hold them, the first and the last perhaps more.
    runs: Vec<FrameRun>,
    begin: usize,
    end: usize,
}

impl Span {
    #[cfg(test)]
    pub(crate) fn n_frames(&self) -> usize {
        self.end - self.begin
    }

    /// The frames, out of the bytes that were walked.
    pub(crate) fn iter<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Frame> + 'a {
        self.runs.iter().flat_map(move |run| {
            let n = run.n.min(self.end.saturating_sub(run.first));
            follow(bytes, run.offset).take(n).skip(self.begin.saturating_sub(run.first))
        })
    }
}

/// The frames that follow each other from `offset` on. They were found there before.
fn follow(bytes: &[u8], offset: Option<usize>) -> impl Iterator<Item = Frame> {
    let mut next = offset;
    std::iter::repeat_with(move || {
        let found = next.and_then(|at| Some((at, Header::read(bytes, at).ok()?.len)));
        next = found.map(|(at, len)| at + len);
        found.map_or(LOST, |(offset, len)| Frame { offset, len: len as u16 })
    })
}
