//! The energies of bands, RFC 6716 section 4.3.2, in powers of two less the bands' means.

// Bands and channels have fixed numbers, which the types of the arrays say.
#![allow(clippy::indexing_slicing)]

use std::ops::Range;

use super::{
    allocation::Allocation,
    tables::{ENERGY_MODEL, N_BANDS, SMALL_ENERGIES},
};
use crate::codec::opus::range_decoder::RangeDecoder;

/// The energies of the bands of two channels.
pub(super) type Energies = [[f32; N_BANDS]; 2];

/// The most bits that refine an energy before what is left over is given out.
pub(super) const MAX_FINE_BITS: i32 = 8;

/// How much of the frame before, and of the band below, an energy is predicted from.
const FROM_BEFORE: [f32; 4] =
    [29_440.0 / 32_768.0, 26_112.0 / 32_768.0, 21_248.0 / 32_768.0, 16_384.0 / 32_768.0];
const FROM_BELOW: [f32; 4] = [
    1.0 - 30_147.0 / 32_768.0,
    1.0 - 22_282.0 / 32_768.0,
    1.0 - 12_124.0 / 32_768.0,
    1.0 - 6_554.0 / 32_768.0,
];
const FROM_BELOW_INTRA: f32 = 1.0 - 4_915.0 / 32_768.0;

/// Replaces the energies of the frame before by those of this one, in whole steps.
pub(super) fn coarse(
    code: &mut RangeDecoder<'_>,
    (log_len, is_intra): (usize, bool),
    (bands, n_channels): (Range<usize>, usize),
    energies: &mut Energies,
) {
    let model = &ENERGY_MODEL[log_len][usize::from(is_intra)];
    let (before, below) = if is_intra {
        (0.0, FROM_BELOW_INTRA)
    } else {
        (FROM_BEFORE[log_len], FROM_BELOW[log_len])
    };
    let mut sums = [0.0; 2];
    for (band, &(zero, decay)) in model.iter().enumerate().take(bands.end).skip(bands.start) {
        for (energies, sum) in energies.iter_mut().zip(&mut sums).take(n_channels) {
            let n_left = code.n_total() - code.tell();
            let steps = match n_left {
                15.. => code.laplace(u32::from(zero) << 7, u32::from(decay) << 6),
                2.. => [0, -1, 1][code.symbol(&SMALL_ENERGIES, 2).min(2)],
                1 => -i32::from(code.bit(1)),
                _ => -1,
            } as f32;
            let energy = &mut energies[band];
            *energy = before * energy.max(-9.0) + *sum + steps;
            *sum += below * steps;
        }
    }
}

/// Refines the energies by the bits that were allocated to that.
pub(super) fn fine(
    code: &mut RangeDecoder<'_>,
    n_channels: usize,
    allocation: &Allocation,
    energies: &mut Energies,
) {
    for (band, &n_bits) in allocation.fine.iter().enumerate() {
        if n_bits <= 0 {
            continue;
        }
        for energies in energies.iter_mut().take(n_channels) {
            let step = 1.0 / (1u32 << n_bits.min(16)) as f32;
            let middle = code.raw(n_bits.min(16) as u32) as f32 + 0.5;
            energies[band] += middle * step - 0.5;
        }
    }
}

/// Refines once more by the bits that are left over, one a band.
pub(super) fn last(
    code: &mut RangeDecoder<'_>,
    bands: Range<usize>,
    n_channels: usize,
    allocation: &Allocation,
    energies: &mut Energies,
) {
    let mut n_left = code.n_total() - code.tell();
    for is_second in [false, true] {
        for band in bands.clone() {
            if n_left < n_channels as i32 {
                break;
            }
            let n_bits = allocation.fine[band];
            if n_bits >= MAX_FINE_BITS || allocation.is_late[band] != is_second {
                continue;
            }
            for energies in energies.iter_mut().take(n_channels) {
                let step = 1.0 / (2u32 << n_bits.max(0)) as f32;
                energies[band] += (code.raw(1) as f32 - 0.5) * step;
                n_left -= 1;
            }
        }
    }
}
