//! From the rate inside to 48 kHz, as libopus has it: twice the rate by all-pass filters, and from that
//! by interpolation.

// Places are those of samples in a block whose length follows from the rate.
#![allow(clippy::indexing_slicing)]

use super::math::{rounded, times, times_half, to_sample};

/// What an all-pass filter turns, for the even samples and the odd ones.
const TURNS: [[i32; 3]; 2] = [[1_746, 14_986, 39_083 - 65_536], [6_854, 25_769, 55_542 - 65_536]];

/// Filters between samples, by twelfths; the other half is that of the opposite twelfth, backwards.
const BETWEEN: [[i16; 4]; 12] = [
    [189, -600, 617, 30_567],
    [117, -159, -1_070, 29_704],
    [52, 221, -2_392, 28_276],
    [-4, 529, -3_350, 26_341],
    [-48, 758, -3_956, 23_973],
    [-80, 905, -4_235, 21_254],
    [-99, 972, -4_222, 18_278],
    [-107, 967, -3_957, 15_143],
    [-103, 896, -3_487, 11_950],
    [-91, 773, -2_865, 8_798],
    [-71, 611, -2_143, 5_784],
    [-46, 425, -1_375, 2_996],
];

/// Samples that such a filter has.
const TAPS: usize = 8;

/// The longest block: 10 ms at 16 kHz.
const MAX_BLOCK: usize = 160;

/// The state of one channel's.
#[derive(Clone, Debug, Default)]
pub(super) struct Resampler {
    khz: usize,
    /// The way from one sample to the next, in 2^16ths of one at twice the rate.
    step: i32,
    turns: [[i32; 3]; 2],
    doubled: [i16; TAPS],
    /// Samples that wait, so that all rates are late by the same time.
    late: [i16; 7],
    n_late: usize,
}

impl Resampler {
    pub(super) fn new(khz: usize) -> Self {
        let n_late = match khz {
            8 => 0,
            12 => 4,
            _ => 7,
        };
        let hz = 1_000 * khz as i32;
        let mut step = ((hz << 15) / 48_000) << 2;
        while times(step, 48_000) < 2 * hz {
            step += 1;
        }
        Self { khz, step, n_late, ..Self::default() }
    }

    /// Resamples a frame; as many samples as there are at 48 kHz.
    pub(super) fn run(&mut self, x: &[i16], to: &mut [i16]) {
        let khz = self.khz;
        let Some(n_first) = khz.checked_sub(self.n_late).filter(|&n| n > 0 && x.len() >= khz)
        else {
            return;
        };
        // The first millisecond, then what is left, in blocks.
        let mut first = [0; 16];
        let (late, now) = first[..khz].split_at_mut(self.n_late);
        late.copy_from_slice(&self.late[..self.n_late]);
        now.copy_from_slice(&x[..n_first]);
        let end = x.len() - self.n_late;
        let (to_first, to_rest) = to.split_at_mut(48.min(to.len()));
        self.block(&first[..khz], to_first);
        let blocks = x[n_first..end].chunks(10 * khz).zip(to_rest.chunks_mut(480));
        for (x, to) in blocks {
            self.block(x, to);
        }
        self.late[..self.n_late].copy_from_slice(&x[end..]);
    }

    fn block(&mut self, x: &[i16], to: &mut [i16]) {
        let mut doubled = [0; TAPS + 2 * MAX_BLOCK];
        doubled[..TAPS].copy_from_slice(&self.doubled);
        let n = 2 * x.len();
        for (pair, &x) in doubled[TAPS..TAPS + n].as_chunks_mut::<2>().0.iter_mut().zip(x) {
            *pair = self.double(x);
        }
        let mut at = 0;
        for to in to {
            let twelfth = (((at & 0xffff) * 12) >> 16) as usize;
            let from = (at >> 16) as usize;
            let Some(around) = doubled.get(from..from + TAPS) else { return };
            let low = around.iter().zip(&BETWEEN[twelfth]);
            let high = around.iter().rev().zip(&BETWEEN[11 - twelfth]);
            let sum = low.chain(high).map(|(&x, &tap)| i32::from(x) * i32::from(tap));
            *to = to_sample(rounded(sum.fold(0, i32::wrapping_add), 15));
            at += self.step;
        }
        self.doubled.copy_from_slice(&doubled[n..n + TAPS]);
    }

    fn double(&mut self, x: i16) -> [i16; 2] {
        let x = i32::from(x) << 10;
        let mut to = [0; 2];
        for ((state, turns), to) in self.turns.iter_mut().zip(&TURNS).zip(&mut to) {
            let mut x = x;
            for (i, (state, &turn)) in state.iter_mut().zip(turns).enumerate() {
                let y = x.wrapping_sub(*state);
                let turned = times_half(y, turn).wrapping_add(if i == 2 { y } else { 0 });
                let out = state.wrapping_add(turned);
                *state = x.wrapping_add(turned);
                x = out;
            }
            *to = to_sample(rounded(x, 10));
        }
        to
    }
}
