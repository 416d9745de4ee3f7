//! The excitation, RFC 6716 section 4.2.7.8: pulses of blocks of 16 samples.

// Blocks have a fixed length, and tables are walked by numbers that they bound.
#![allow(clippy::indexing_slicing)]

use super::{
    indices::{Format, Signal},
    tables::{
        MAX_FRAME_LEN, PULSES, RATES, SIGNS, SPLIT_ROWS, SPLITS_0, SPLITS_1, SPLITS_2, SPLITS_3,
    },
};
use crate::codec::opus::range_decoder::RangeDecoder;

const BLOCK_LEN: usize = 16;
const MAX_BLOCKS: usize = MAX_FRAME_LEN / BLOCK_LEN;

/// The pulses of a frame; frames of 10 ms at 12 kHz end within a block.
pub(super) type Pulses = [i16; MAX_FRAME_LEN];

/// Reads the pulses of a frame.
pub(super) fn read(
    code: &mut RangeDecoder<'_>,
    format: Format,
    signal: Signal,
    offset: usize,
) -> Pulses {
    /// What stands for pulses with one more bit each.
    const MORE: usize = 17;
    const MAX_BITS: u32 = 10;
    let n_blocks = format.frame_len().div_ceil(BLOCK_LEN);
    let rate = code.symbol(&RATES[usize::from(signal == Signal::Voiced)], 8);
    let (mut sums, mut bits) = ([0; MAX_BLOCKS], [0; MAX_BLOCKS]);
    for (sum, bits) in sums.iter_mut().zip(&mut bits).take(n_blocks) {
        *sum = code.symbol(&PULSES[rate], 8);
        while *sum == MORE && *bits < MAX_BITS {
            *bits += 1;
            let last = &PULSES[9][usize::from(*bits == MAX_BITS)..];
            *sum = code.symbol(last, 8);
        }
    }
    let mut pulses = [0; MAX_FRAME_LEN];
    let blocks = pulses.as_chunks_mut::<BLOCK_LEN>().0;
    for (block, &sum) in blocks.iter_mut().zip(&sums).take(n_blocks) {
        split(code, sum, block);
    }
    for (block, &bits) in blocks.iter_mut().zip(&bits).take(n_blocks) {
        if bits > 0 {
            for pulse in block {
                *pulse = (0..bits).fold(*pulse, |x, _| x << 1 | code.symbol(&[120, 0], 8) as i16);
            }
        }
    }
    let row = 7 * (offset + 2 * signal as usize);
    for (block, (&sum, &bits)) in blocks.iter_mut().zip(sums.iter().zip(&bits)).take(n_blocks) {
        if sum == 0 && bits == 0 {
            continue;
        }
        let sign = [SIGNS[row + sum.min(6)], 0];
        for pulse in block.iter_mut().filter(|pulse| **pulse > 0) {
            if code.symbol(&sign, 8) == 0 {
                *pulse = -*pulse;
            }
        }
    }
    pulses
}

/// Splits a number of pulses between both halves of a part, down to samples.
fn split(code: &mut RangeDecoder<'_>, sum: usize, part: &mut [i16]) {
    if sum == 0 {
        return;
    }
    let table = match part.len() {
        16 => &SPLITS_3,
        8 => &SPLITS_2,
        4 => &SPLITS_1,
        2 => &SPLITS_0,
        _ => {
            part[0] = sum as i16;
            return;
        }
    };
    let row = usize::from(SPLIT_ROWS[sum.min(16)]);
    let first = code.symbol(&table[row..], 8).min(sum);
    let (left, right) = part.split_at_mut(part.len() / 2);
    split(code, first, left);
    split(code, sum - first, right);
}
