//! From coefficients to sound, channel by channel: overlap, comb filter and de-emphasis.

// Places in blocks and the history are fixed numbers or come of the frame's length. What `pulp`
// dispatches to must be inlined into the function that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use std::f64::consts::FRAC_PI_2;

use super::{
    lost::{ORDER, Predictor},
    postfilter::{Comb, MAX_PERIOD, filter},
    shape::Carry,
    transform::{LONGEST, SHORT, long, short},
};
use crate::trig::{cos, sin_pi};

/// Samples that blocks overlap by.
pub(super) const OVERLAP: usize = 120;

/// How a block fades in; backwards, how it fades out. The sum of both squares is one.
pub(in crate::codec::opus) static WINDOW: [f32; OVERLAP] = {
    let mut window = [0.0; OVERLAP];
    let mut i = 0;
    while i < OVERLAP {
        let sin = sin_pi(2 * i as u32 + 1, 4 * OVERLAP as u32);
        // The sine of a quarter turn less what is left of it.
        window[i] = cos(FRAC_PI_2 * (1.0 - sin * sin)) as f32;
        i += 1;
    }
    window
};

/// What is left of a sample in the next by the de-emphasis.
const EMPHASIS: f32 = 0.850_006_1;

/// Samples of the past that are kept: more than the comb filter reaches, and what the pitch of a lost
/// frame is searched in.
pub(super) const PAST: usize = 2_048;

/// Samples that are kept, so that the past need not be moved for each frame.
const KEPT: usize = PAST + 4 * LONGEST;

/// Samples that the comb filter reaches back at most, and some.
const REACH: usize = MAX_PERIOD + 8;

/// How a frame's blocks and combs are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sound {
    pub(super) log_len: usize,
    pub(super) is_transient: bool,
    /// The comb of the frame before the last, and of the last.
    pub(super) combs: [Comb; 2],
    /// That of this one; noise in place of a lost frame has none.
    pub(super) comb: Option<Comb>,
}

/// What a channel carries from frame to frame.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// Filtered samples, of which those before `at` are past.
    kept: Box<[f32]>,
    at: usize,
    /// The last half of an overlap.
    tail: [f32; OVERLAP / 2],
    /// What was made up beyond the last frame, if that was lost.
    beyond: Option<[f32; OVERLAP]>,
    /// The filter by which lost frames go on.
    pub(super) predictor: Predictor,
    /// The last sample.
    emphasis: f32,
}

impl Default for Channel {
    fn default() -> Self {
        let kept = vec![0.0; KEPT].into_boxed_slice();
        Self {
            kept,
            at: PAST,
            tail: [0.0; OVERLAP / 2],
            beyond: None,
            predictor: [0.0; ORDER],
            emphasis: 0.0,
        }
    }
}

impl Channel {
    /// Makes a frame of its coefficients.
    #[inline(always)]
    pub(super) fn make(&mut self, sound: Sound, x: &[f32; LONGEST], to: &mut [f32]) {
        let Sound { log_len, is_transient, combs: [before, last], comb: this } = sound;
        let n = SHORT << log_len;
        let mut samples = [0.0; LONGEST];
        if is_transient {
            short(log_len, x, &mut samples);
        } else {
            long(log_len, x, &mut samples);
        }
        self.make_room(n);
        self.fold(last);
        let at = self.at;
        let block_len = if is_transient { SHORT } else { n };
        let blocks = samples[..n].chunks_exact(block_len);
        for (block, to) in blocks.zip(self.kept[at..at + n].chunks_exact_mut(block_len)) {
            overlap(block, &mut self.tail, to);
        }
        let kept = &mut *self.kept;
        if let Some(this) = this {
            filter(kept, at, at + SHORT, before, last);
            if n > SHORT {
                filter(kept, at + SHORT, at + n, last, this);
            }
        }
        self.emphasis = de_emphasise(&self.kept[at..at + n], self.emphasis, to);
        self.at += n;
    }

    /// Moves what is kept, so that `n` samples fit.
    fn make_room(&mut self, n: usize) {
        if self.at + n > KEPT {
            self.kept.copy_within(self.at - PAST..self.at, 0);
            self.at = PAST;
        }
    }

    /// The samples that are past.
    pub(super) fn past(&self) -> &[f32] {
        &self.kept[self.at - PAST..self.at]
    }

    /// Takes a frame that was made up, and what follows it by half an overlap on each side.
    pub(super) fn take(&mut self, made: &[f32], to: &mut [f32]) {
        let n = to.len();
        self.make_room(n);
        let (frame, beyond) = made.split_at(n);
        self.kept[self.at..self.at + n].copy_from_slice(frame);
        self.beyond = beyond.first_chunk().copied();
        self.emphasis = de_emphasise(frame, self.emphasis, to);
        self.at += n;
    }

    /// Makes the tail of a frame of what was made up beyond one, as if a transform had left it: the comb
    /// is taken back, which will be applied to it once more.
    fn fold(&mut self, comb: Comb) {
        let Some(beyond) = self.beyond.take() else { return };
        let mut x = [0.0; REACH + OVERLAP];
        x[..REACH].copy_from_slice(&self.kept[self.at - REACH..self.at]);
        x[REACH..].copy_from_slice(&beyond);
        let mut plain = [0.0; OVERLAP];
        for (i, plain) in plain.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let at = REACH + 8 * i;
            let added = comb.eight(&x, at);
            *plain = std::array::from_fn(|k| x[at + k] - added[k]);
        }
        for (i, tail) in self.tail.iter_mut().enumerate() {
            let (rising, falling) = (WINDOW[i], WINDOW[OVERLAP - 1 - i]);
            *tail = rising * plain[OVERLAP - 1 - i] + falling * plain[i];
        }
    }
}

/// Adds the fading tail of the block before, and leaves that of this one.
#[inline(always)]
fn overlap(block: &[f32], tail: &mut [f32; OVERLAP / 2], to: &mut [f32]) {
    const HALF: usize = OVERLAP / 2;
    for i in 0..HALF {
        let (rising, falling) = (WINDOW[i], WINDOW[OVERLAP - 1 - i]);
        let new = block[HALF - 1 - i];
        to[i] = falling * tail[i] - rising * new;
        to[OVERLAP - 1 - i] = falling * new + rising * tail[i];
    }
    let end = block.len() - HALF;
    to[OVERLAP..].copy_from_slice(&block[HALF..end]);
    tail.copy_from_slice(&block[end..]);
}

/// Takes back that treble was raised; returns the last sample.
#[inline(always)]
fn de_emphasise(x: &[f32], last: f32, to: &mut [f32]) -> f32 {
    // What falls towards zero shall get there: numbers next to it are slow.
    let mut last = if last.abs() < 1e-20 { 0.0 } else { last };
    let all = Carry::new(EMPHASIS);
    for (to, x) in to.as_chunks_mut::<4>().0.iter_mut().zip(x.as_chunks::<4>().0) {
        *to = all.four(*x, last);
        last = to[3];
    }
    last
}
