//! Left and right from middle and side, or from one channel and a position: ISO/IEC 11172-3,
//! 2.4.3.4.9, and 13818-3, 2.4.3.2.

// What `pulp` dispatches to must be inlined into the function that it compiles for an instruction
// set.
#![allow(clippy::inline_always)]

use std::f32::consts::FRAC_1_SQRT_2;

use super::{
    bands::{Bands, MAX_BANDS, N_SAMPLES, Rate},
    math::exp2_quarters,
    scale_factors::ScaleFactors,
    side_info::Channel,
};
use crate::trig::{cos_pi, sin_pi};

/// How the two channels of a frame are coded together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Joint {
    pub(super) is_mid_side: bool,
    pub(super) is_intensity: bool,
}

impl Joint {
    /// From the last byte of the frame's header.
    pub(super) fn of(byte: u8) -> Self {
        let is_joint = byte >> 6 == 1;
        Self {
            is_mid_side: is_joint && byte >> 5 & 1 == 1,
            is_intensity: is_joint && byte >> 4 & 1 == 1,
        }
    }
}

/// A granule of both channels.
pub(super) struct Pair<'a> {
    /// The right channel, and its scale factors, which are positions where it has no samples.
    pub(super) right: &'a Channel,
    pub(super) positions: &'a ScaleFactors,
    pub(super) is_mpeg1: bool,
    pub(super) rate: &'a Rate,
}

/// Makes left and right of the first `n` samples of a granule, whose blocks are of one kind.
#[inline(always)]
pub(super) fn join(
    joint: Joint,
    pair: &Pair<'_>,
    n: usize,
    left: &mut [f32; N_SAMPLES],
    right: &mut [f32; N_SAMPLES],
) {
    if !joint.is_intensity {
        if joint.is_mid_side {
            mid_side(left, right);
        }
        return;
    }
    let bands = pair.right.bands(pair.rate);
    let is_panned = panned(bands, right);
    for (i, start, end) in bands.iter() {
        if start >= n {
            break;
        }
        let (Some(l), Some(r)) = (left.get_mut(start..end), right.get_mut(start..end)) else {
            break;
        };
        let gains =
            is_panned.get(i).filter(|is| **is).and_then(|_| pair.gains(i, bands, &is_panned));
        match gains {
            Some((of_left, of_right)) => {
                for (l, r) in l.iter_mut().zip(r) {
                    *r = *l * of_right;
                    *l *= of_left;
                }
            }
            None if joint.is_mid_side => mid_side(l, r),
            None => {}
        }
    }
}

fn mid_side(left: &mut [f32], right: &mut [f32]) {
    for (l, r) in left.iter_mut().zip(right) {
        let (mid, side) = (*l, *r);
        *l = (mid + side) * FRAC_1_SQRT_2;
        *r = (mid - side) * FRAC_1_SQRT_2;
    }
}

/// The bands above all samples of the right channel; of short blocks, window by window.
fn panned(bands: &Bands, right: &[f32; N_SAMPLES]) -> [bool; MAX_BANDS] {
    let mut is_panned = [false; MAX_BANDS];
    let mut is_silent = [true; 3];
    for (i, start, end) in bands.iter().rev() {
        let is_zero = right.get(start..end).unwrap_or_default().iter().all(|x| *x == 0.0);
        let is_silent = if i >= bands.n_long {
            let Some(of_window) = is_silent.get_mut((i - bands.n_long) % 3) else { break };
            *of_window &= is_zero;
            *of_window
        } else {
            // A long band is above what all windows have.
            is_silent = [is_silent.iter().all(|is| *is) && is_zero; 3];
            is_silent == [true; 3]
        };
        if let Some(is) = is_panned.get_mut(i) {
            *is = is_silent;
        }
    }
    is_panned
}

impl Pair<'_> {
    /// What of the left channel goes to each side in band `i`; `None` if there is no position.
    fn gains(&self, i: usize, bands: &Bands, is_panned: &[bool; MAX_BANDS]) -> Option<(f32, f32)> {
        // The last band has no scale factor, and the position of the one below it. Where that one
        // has samples on the right, both sides get the same.
        let n_bands = bands.ends().len();
        let step = if bands.n_long == n_bands { 1 } else { 3 };
        let is_last = i + step >= n_bands;
        let i = if is_last { i - step } else { i };
        let mut position = *self.positions.of_band.get(i)?;
        if is_last && is_panned.get(i) == Some(&false) {
            position = if self.is_mpeg1 { 3 } else { 0 };
        }
        if self.is_mpeg1 {
            // The positions of MPEG-1 end at 6; 7 is none.
            return MPEG1.get(usize::from(position)).copied();
        }
        // In MPEG-2 each number is a position, the highest of its bits too: encoders write it, and
        // FFmpeg plays it. Steps of the fourth root of 2, or of the square root.
        let step = 1 + (self.right.scale_code & 1).cast_signed();
        let gain = exp2_quarters(-step * i32::from(position.div_ceil(2)));
        Some(if position % 2 == 1 { (gain, 1.0) } else { (1.0, gain) })
    }
}

/// `t / (1 + t)` and `1 / (1 + t)` for the tangents `t` of the seven positions.
#[allow(clippy::indexing_slicing)] // when this is compiled
static MPEG1: [(f32, f32); 7] = {
    let mut gains = [(0.0, 0.0); 7];
    let mut i = 0;
    while i < 7 {
        let (sin, cos) = (sin_pi(i as u32, 12), cos_pi(i as u32, 12));
        gains[i] = ((sin / (sin + cos)) as f32, (cos / (sin + cos)) as f32);
        i += 1;
    }
    gains
};
