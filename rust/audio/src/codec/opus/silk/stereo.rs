//! Both channels of a frame, RFC 6716 sections 4.2.7.1, 4.2.7.2 and 4.2.8: the side is what is left of
//! right when the middle has predicted it.

// Samples have two in front of them, and tables are walked by what they bound.
#![allow(clippy::indexing_slicing)]

use super::{
    indices::Format,
    math::{rounded, times_half, to_sample},
    tables::{MAX_FRAME_LEN, UNIFORM_3, UNIFORM_5, WEIGHTS_JOINT, WEIGHTS_Q13},
};
use crate::codec::opus::range_decoder::RangeDecoder;

/// Reads the weights of the middle in the side, in 2^13ths: of its bass, and of it all.
pub(super) fn read_weights(code: &mut RangeDecoder<'_>) -> [i32; 2] {
    let joint = code.symbol(&WEIGHTS_JOINT, 8);
    let [first, second] = [joint / 5, joint % 5].map(|upper| {
        let at = 3 * upper + code.symbol(&UNIFORM_3, 8);
        let step = times_half(WEIGHTS_Q13[at + 1] - WEIGHTS_Q13[at], 6_554);
        WEIGHTS_Q13[at] + step * (2 * code.symbol(&UNIFORM_5, 8) as i32 + 1)
    });
    [first - second, second]
}

/// Reads whether there is no side.
pub(super) fn read_is_middle(code: &mut RangeDecoder<'_>) -> bool {
    code.symbol(&[64, 0], 8) == 1
}

/// What goes from frame to frame.
#[derive(Debug, Default)]
pub(super) struct Stereo {
    weights: [i32; 2],
    middle: [i16; 2],
    side: [i16; 2],
}

impl Stereo {
    pub(super) fn weights(&self) -> [i32; 2] {
        self.weights
    }

    /// A stream becomes stereo.
    pub(super) fn start(&mut self) {
        self.weights = [0; 2];
        self.side = [0; 2];
    }

    /// Puts the last samples of the frame before in front of a middle alone.
    pub(super) fn keep_middle(&mut self, middle: &mut [i16; MAX_FRAME_LEN + 2], len: usize) {
        middle[..2].copy_from_slice(&self.middle);
        self.middle.copy_from_slice(&middle[len..len + 2]);
    }

    /// Turns middle and side into left and right, a sample late.
    pub(super) fn mix(
        &mut self,
        [middle, side]: &mut [[i16; MAX_FRAME_LEN + 2]; 2],
        weights: [i32; 2],
        format: Format,
    ) {
        let len = format.frame_len();
        self.keep_middle(middle, len);
        side[..2].copy_from_slice(&self.side);
        self.side.copy_from_slice(&side[len..len + 2]);
        // The weights change over 8 ms.
        let n_steps = 8 * format.khz;
        let part = (1 << 16) / n_steps as i32;
        let mut now = self.weights;
        let steps: [i32; 2] = std::array::from_fn(|i| {
            rounded(i32::from((weights[i] - now[i]) as i16) * i32::from(part as i16), 16)
        });
        for n in 0..len {
            if n < n_steps {
                now = [now[0] + steps[0], now[1] + steps[1]];
            } else {
                now = weights;
            }
            let [before, at, after] = [0, 1, 2].map(|i| i32::from(middle[n + i]));
            let bass = (before + after + 2 * at) << 9;
            let sum = (i32::from(side[n + 1]) << 8)
                .wrapping_add(times_half(bass, now[0]))
                .wrapping_add(times_half(at << 11, now[1]));
            side[n + 1] = to_sample(rounded(sum, 8));
        }
        self.weights = weights;
        for (left, right) in middle[1..=len].iter_mut().zip(&mut side[1..=len]) {
            let (m, s) = (i32::from(*left), i32::from(*right));
            (*left, *right) = (to_sample(m + s), to_sample(m - s));
        }
    }
}
