//! Scales samples by gains and scale factors: ISO/IEC 11172-3, 2.4.3.4.7.

// What `pulp` dispatches to must be inlined into the function that it compiles for an instruction
// set.
#![allow(clippy::inline_always)]

use super::{
    bands::{N_SAMPLES, Rate},
    math::exp2_quarters,
    scale_factors::ScaleFactors,
    side_info::Channel,
};

/// What `preflag` adds to the scale factors of long blocks: table B.6.
const EMPHASIS: [u8; 22] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 2, 0];

/// The gain at which samples are as large as their powers.
const UNITY: i32 = 210;

/// Scales the first `n` samples, which are powers of 4/3.
#[inline(always)]
pub(super) fn scale(
    channel: &Channel,
    factors: &ScaleFactors,
    rate: &Rate,
    n: usize,
    samples: &mut [f32; N_SAMPLES],
) {
    let bands = channel.bands(rate);
    let shift = if channel.is_coarse { 2 } else { 1 };
    for ((i, start, end), factor) in bands.iter().zip(factors.of_band) {
        if start >= n {
            break;
        }
        let mut gain = channel.global_gain - UNITY;
        let mut factor = i32::from(factor);
        if i >= bands.n_long {
            gain -= 8 * channel.window_gains.get((i - bands.n_long) % 3).unwrap_or(&0);
        } else if factors.is_emphasized {
            factor += i32::from(*EMPHASIS.get(i).unwrap_or(&0));
        }
        let gain = exp2_quarters(gain - (factor << shift));
        for sample in samples.get_mut(start..end).unwrap_or_default() {
            *sample *= gain;
        }
    }
}
