//! The comb filter that brings out the pitch, RFC 6716 section 4.3.7.1.

// Places are those of samples in a history that is longer than any period. What `pulp` dispatches to
// must be inlined into the function that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use super::synthesis::{OVERLAP, WINDOW};

/// The longest period; the two samples beyond it are needed, too.
pub(super) const MAX_PERIOD: usize = 1_024;
const MIN_PERIOD: usize = 15;

/// One comb: how long its period is, and the gains of the sample a period ago, of its neighbours, and of
/// theirs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comb {
    period: usize,
    gains: [f32; 3],
}

impl Default for Comb {
    fn default() -> Self {
        Self { period: MIN_PERIOD, gains: [0.0; 3] }
    }
}

impl Comb {
    /// The comb of a period, a gain in steps from 0 to 7, and one of three sets of taps.
    pub(super) fn new(period: usize, gain: u32, taps: usize) -> Self {
        const TAPS: [[f32; 3]; 3] = [
            [0.306_640_6, 0.217_041_02, 0.129_638_7],
            [0.463_867_2, 0.268_066_4, 0.0],
            [0.799_804_7, 0.100_097_656, 0.0],
        ];
        let gain = 0.09375 * (gain + 1) as f32;
        let gains = TAPS[taps.min(2)].map(|tap| gain * tap);
        Self { period: period.clamp(MIN_PERIOD, MAX_PERIOD), gains }
    }

    fn is_off(self) -> bool {
        self.gains[0] == 0.0
    }

    /// What the comb adds to the eight samples from `at` on, none of which it depends on.
    #[inline(always)]
    pub(super) fn eight(self, x: &[f32], at: usize) -> [f32; 8] {
        let mut around = [0.0; 12];
        let first = at - self.period - 2;
        around.copy_from_slice(&x[first..first + 12]);
        let [near, next, far] = self.gains;
        std::array::from_fn(|i| {
            near * around[i + 2]
                + next * (around[i + 1] + around[i + 3])
                + far * (around[i] + around[i + 4])
        })
    }
}

/// Filters `x[from..to]` in place, fading from one comb to another; these are whole eights.
#[inline(always)]
pub(super) fn filter(x: &mut [f32], from: usize, to: usize, old: Comb, new: Comb) {
    if old.is_off() && new.is_off() {
        return;
    }
    let mut at = from;
    if old != new {
        for window in WINDOW.as_chunks::<8>().0 {
            let (a, b) = (old.eight(x, at), new.eight(x, at));
            for (i, w) in window.iter().enumerate() {
                let fade = w * w;
                x[at + i] += (1.0 - fade) * a[i] + fade * b[i];
            }
            at += 8;
        }
        debug_assert_eq!(at, from + OVERLAP);
    }
    if new.is_off() {
        return;
    }
    while at < to {
        let added = new.eight(x, at);
        x[at..at + 8].iter_mut().zip(added).for_each(|(x, added)| *x += added);
        at += 8;
    }
}
