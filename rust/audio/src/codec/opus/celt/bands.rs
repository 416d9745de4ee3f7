//! The shapes of all bands, RFC 6716 section 4.3.4.

// Bands, channels and coefficients have fixed numbers, and places come of the bands' edges.
#![allow(clippy::indexing_slicing)]
// The middle, the side, and their two coefficients are what the standard calls them.
#![allow(clippy::many_single_char_names)]

use super::{
    allocation::{Allocation, BIT, Shape},
    pulses::{self, Costs, MAX_WIDTH, n_pulses},
    shape::{haar, normalise, regroup, spread, to_left_and_right},
    split::{self, Angle, Halves, QUARTER, halve, spare},
    tables::{EDGES, LOG_WIDTH, N_BANDS, width},
};
use crate::codec::opus::range_decoder::{EIGHTHS, RangeDecoder};

/// Coefficients of a channel.
pub(super) const N_COEFFICIENTS: usize = 800;

/// The coefficients of two channels: bands of length one.
pub(super) type Spectrum = [[f32; N_COEFFICIENTS]; 2];

/// The blocks of a band in which there is anything, a bit each.
type Blocks = u32;

/// The blocks of all bands and channels.
pub(super) type Filled = [[Blocks; 2]; N_BANDS];

/// What all bands share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) shape: Shape,
    pub(super) is_transient: bool,
    pub(super) spread: usize,
    /// Eighths of bits that the frame has for shapes and what comes before.
    pub(super) total: i32,
}

/// The noise of bands that get no pulses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise(pub(super) u32);

impl Noise {
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }
}

/// Reads the shapes of all bands, and says which of their blocks hold anything. What `folded` holds before
/// is of no matter.
pub(super) fn read(
    code: &mut RangeDecoder<'_>,
    settings: &Settings,
    allocation: &Allocation,
    tf_changes: &[i32; N_BANDS],
    noise: &mut Noise,
    [spectrum, folded]: [&mut Spectrum; 2],
) -> Filled {
    let Settings { shape, is_transient, spread, total } = *settings;
    let Shape { log_len, n_channels, start: first_band, end } = shape;
    let n_blocks = if is_transient { 1 << log_len } else { 1 };
    let all: Blocks = (1 << n_blocks) - 1;
    let (mut filled, mut is_dual) = ([[0; 2]; N_BANDS], allocation.is_dual);
    let (mut balance, mut fold_band, mut moves) = (allocation.balance, 0, true);
    let ([left, right], first) = (spectrum, EDGES[first_band] << log_len);
    for band in first_band..end {
        let (start, n) = (EDGES[band] << log_len, width(band) << log_len);
        let before = code.tell_eighths();
        balance -= if band > first_band { before } else { 0 };
        let remaining = total - before - 1;
        let bits = if band < allocation.n_coded {
            let share = balance / (allocation.n_coded - band).min(3) as i32;
            (allocation.shape[band] + share).min(remaining + 1).clamp(0, 16_383)
        } else {
            0
        };
        if (start >= first + n || band == first_band + 1) && (moves || fold_band == 0) {
            fold_band = band;
        }
        if band == first_band + 1 {
            // Above SILK the second band is wider than the first, of which it may be made.
            let from = (2 * start - first).saturating_sub(n)..start;
            for low in &mut *folded {
                low.copy_within(from.clone(), start);
            }
        }
        let tf_change = tf_changes[band];
        let (mut from, mut blocks) = (None, [all; 2]);
        if fold_band != 0 && (spread != 3 || n_blocks > 1 || tf_change < 0) {
            let at = (EDGES[fold_band] << log_len).saturating_sub(n).max(first);
            from = Some(at);
            let first = (0..fold_band).rev().find(|&b| EDGES[b] << log_len <= at).unwrap_or(0);
            let last = (fold_band..band).find(|&b| EDGES[b] << log_len >= at + n).unwrap_or(band);
            blocks = [0; 2];
            for other in &filled[first..last.max(first + 1)] {
                blocks[0] |= other[0];
                blocks[1] |= other[n_channels - 1];
            }
        }
        let [fold_x, fold_y] = &mut *folded;
        if is_dual && band == allocation.intensity {
            is_dual = false;
            fold_x[..start].iter_mut().zip(fold_y.iter()).for_each(|(x, y)| *x = 0.5 * (*x + y));
        }
        let mut one = Band {
            code: &mut *code,
            noise: &mut *noise,
            number: band,
            spread,
            is_intensity: band >= allocation.intensity,
            tf_change,
            n_blocks,
            log_len: log_len as i32,
            left: remaining,
        };
        let (x, y) = (&mut left[start..start + n], &mut right[start..start + n]);
        let mut fold_x = Fold { low: fold_x, from, to: start };
        blocks = if is_dual {
            let mut fold_y = Fold { low: fold_y, from, to: start };
            [
                one.band(x, bits / 2, Some(&mut fold_x), 1.0, blocks[0]),
                one.band(y, bits / 2, Some(&mut fold_y), 1.0, blocks[1]),
            ]
        } else if n_channels == 2 {
            [one.stereo(x, y, bits, &mut fold_x, blocks[0] | blocks[1]); 2]
        } else {
            [one.band(x, bits, Some(&mut fold_x), 1.0, blocks[0]); 2]
        };
        filled[band] = blocks.map(|blocks| blocks & 0xff);
        balance += allocation.shape[band] + before;
        moves = bits > (n as i32) << EIGHTHS;
    }
    filled
}

/// What lower bands were, of which higher ones are made where there are no pulses.
struct Fold<'a> {
    low: &'a mut [f32; N_COEFFICIENTS],
    from: Option<usize>,
    /// Where this band goes.
    to: usize,
}

/// A band that is being read.
struct Band<'a, 'b> {
    code: &'a mut RangeDecoder<'b>,
    noise: &'a mut Noise,
    number: usize,
    spread: usize,
    /// Whether both channels have one shape.
    is_intensity: bool,
    tf_change: i32,
    n_blocks: usize,
    log_len: i32,
    /// Eighths of bits that the frame has left.
    left: i32,
}

impl Band<'_, '_> {
    /// A sign, where there is a bit for it.
    fn sign(&mut self) -> f32 {
        if self.left < BIT {
            return 1.0;
        }
        self.left -= BIT;
        if self.code.raw(1) == 1 { -1.0 } else { 1.0 }
    }

    /// Reads an angle, and what is left of `bits`; also whether the second channel is turned over.
    fn angle(&mut self, n: usize, bits: &mut i32, log_len: i32, halves: Halves) -> (Angle, bool) {
        let before = self.code.tell_eighths();
        let is_channels = halves == Halves::Channels;
        let log_width = LOG_WIDTH[self.number] + log_len * BIT;
        let (angle, steps) = if is_channels && self.is_intensity {
            (0, 1)
        } else {
            split::read(self.code, n, *bits, log_width, halves)
        };
        let is_asked = is_channels && steps == 1 && *bits > 2 * BIT && self.left > 2 * BIT;
        let is_turned = is_asked && self.code.bit(2);
        let used = self.code.tell_eighths() - before;
        *bits -= used;
        self.left -= used;
        (Angle::new(angle, n), is_turned)
    }

    /// Reads both channels of a band.
    fn stereo(
        &mut self,
        x: &mut [f32],
        y: &mut [f32],
        mut bits: i32,
        fold: &mut Fold<'_>,
        filled: Blocks,
    ) -> Blocks {
        if x.len() == 1 {
            x[0] = self.sign();
            y[0] = self.sign();
            fold.low[fold.to] = x[0];
            return 1;
        }
        let (angle, is_turned) = self.angle(x.len(), &mut bits, self.log_len, Halves::Channels);
        let [middle, side] = angle.lengths;
        let blocks = if let ([x0, x1], [y0, y1]) = (&mut *x, &mut *y) {
            // The side is at right angles to the middle, so that its sign is all there is to say.
            let has_side = angle.turn != 0 && angle.turn != QUARTER;
            let is_side = angle.turn > QUARTER / 2;
            let mut sign = 1.0;
            if has_side {
                bits -= BIT;
                self.left -= BIT;
                sign = if self.code.raw(1) == 1 { -1.0 } else { 1.0 };
            }
            let mut pair = [0.0; 2];
            let blocks = self.band(&mut pair, bits, Some(fold), 1.0, filled);
            let [a, b] = pair;
            let other = [-sign * b, sign * a];
            let (m, s) = if is_side { (other, pair) } else { (pair, other) };
            (*x0, *y0) = (middle * m[0] - side * s[0], middle * m[0] + side * s[0]);
            (*x1, *y1) = (middle * m[1] - side * s[1], middle * m[1] + side * s[1]);
            blocks
        } else {
            let mask = (1 << self.n_blocks) - 1;
            let filled = match angle.turn {
                0 => filled & mask,
                QUARTER => filled & mask << self.n_blocks,
                _ => filled,
            };
            let above = filled >> self.n_blocks;
            let (mut for_middle, mut for_side) = halve(bits, angle.delta);
            let left = self.left;
            let blocks = if for_middle >= for_side {
                let blocks = self.band(x, for_middle, Some(fold), 1.0, filled);
                for_side += spare(for_middle - (left - self.left), angle.turn != 0);
                blocks | self.band(y, for_side, None, side, above)
            } else {
                let blocks = self.band(y, for_side, None, side, above);
                for_middle += spare(for_side - (left - self.left), angle.turn != QUARTER);
                blocks | self.band(x, for_middle, Some(fold), 1.0, filled)
            };
            to_left_and_right(x, y, middle);
            blocks
        };
        if is_turned {
            for y in y {
                *y = -*y;
            }
        }
        blocks
    }

    /// Reads a band of one channel.
    fn band(
        &mut self,
        x: &mut [f32],
        bits: i32,
        mut fold: Option<&mut Fold<'_>>,
        gain: f32,
        mut filled: Blocks,
    ) -> Blocks {
        let n = x.len();
        if n == 1 {
            x[0] = self.sign();
            if let Some(fold) = fold {
                fold.low[fold.to] = x[0];
            }
            return 1;
        }
        let is_haar = self.n_blocks == 1;
        let n_joined = self.tf_change.max(0) as usize;
        let mut n_blocks = self.n_blocks;
        let mut copy = [0.0; MAX_WIDTH];
        let mut low = None;
        if let Some((fold, from)) = fold.as_ref().and_then(|fold| Some((fold, fold.from?))) {
            copy[..n].copy_from_slice(&fold.low[from..from + n]);
            low = Some(&mut copy[..n]);
        }
        for k in 0..n_joined {
            if let Some(low) = &mut low {
                haar(low, 1 << k);
            }
            filled = join(filled);
        }
        n_blocks >>= n_joined;
        let mut n_divided = 0;
        while (n / n_blocks).is_multiple_of(2) && n_divided < -self.tf_change {
            if let Some(low) = &mut low {
                haar(low, n_blocks);
            }
            filled |= filled << n_blocks;
            n_blocks *= 2;
            n_divided += 1;
        }
        let n_grouped = n_blocks << n_joined;
        if n_blocks > 1
            && let Some(low) = &mut low
        {
            regroup(low, n_grouped, is_haar, false);
        }
        let low = low.map(|low| &*low);
        let mut blocks = self.part(x, bits, n_blocks, low, self.log_len, gain, filled);
        if n_blocks > 1 {
            regroup(x, n_grouped, is_haar, true);
        }
        for _ in 0..n_divided {
            n_blocks /= 2;
            blocks |= blocks >> n_blocks;
            haar(x, n_blocks);
        }
        for k in 0..n_joined {
            blocks = part_again(blocks);
            haar(x, 1 << k);
        }
        if let Some(fold) = &mut fold {
            let scale = (n as f32).sqrt();
            let to = &mut fold.low[fold.to..fold.to + n];
            to.iter_mut().zip(x.iter()).for_each(|(to, x)| *to = scale * x);
        }
        blocks & ((1 << (n_blocks << n_joined)) - 1)
    }

    /// Reads a part of a band: in halves as long as there are more bits than one index can use.
    #[allow(clippy::too_many_arguments)] // what a part is, and it is needed at each level
    fn part(
        &mut self,
        x: &mut [f32],
        mut bits: i32,
        n_blocks: usize,
        low: Option<&[f32]>,
        log_len: i32,
        gain: f32,
        mut filled: Blocks,
    ) -> Blocks {
        let costs = Costs::of(log_len, self.number);
        let is_split = log_len >= 0 && x.len() > 2 && costs.is_some_and(|c| bits > c.most() + 12);
        if !is_split {
            return self.whole(x, bits, n_blocks, low, costs, gain, filled);
        }
        let log_len = log_len - 1;
        let (x, y) = x.split_at_mut(x.len() / 2);
        let (low_x, low_y) = low.map(|low| low.split_at(x.len())).unzip();
        let n_all = n_blocks;
        if n_all == 1 {
            filled = filled & 1 | filled << 1;
        }
        let n_blocks = n_all.div_ceil(2);
        let halves = if n_all > 1 { Halves::Blocks } else { Halves::Frequencies };
        let (Angle { turn: angle, lengths, mut delta }, _) =
            self.angle(x.len(), &mut bits, log_len, halves);
        let mask = (1 << n_blocks) - 1;
        match angle {
            0 => filled &= mask,
            QUARTER => filled &= mask << n_blocks,
            // What came before masks what comes after, so that less of a loud second half is needed.
            _ if n_all > 1 && angle > QUARTER / 2 => delta -= delta >> (4 - log_len),
            _ if n_all > 1 => {
                delta = (delta + (((x.len() as i32) << EIGHTHS) >> (5 - log_len))).min(0);
            }
            _ => {}
        }
        let (mut for_x, mut for_y) = halve(bits, delta);
        let [gain_x, gain_y] = lengths.map(|length| gain * length);
        let above = filled >> n_blocks;
        let shift = n_all / 2;
        let left = self.left;
        if for_x >= for_y {
            let blocks = self.part(x, for_x, n_blocks, low_x, log_len, gain_x, filled);
            for_y += spare(for_x - (left - self.left), angle != 0);
            blocks | self.part(y, for_y, n_blocks, low_y, log_len, gain_y, above) << shift
        } else {
            let blocks = self.part(y, for_y, n_blocks, low_y, log_len, gain_y, above) << shift;
            for_x += spare(for_y - (left - self.left), angle != QUARTER);
            blocks | self.part(x, for_x, n_blocks, low_x, log_len, gain_x, filled)
        }
    }

    /// Reads what is not split: pulses, or noise if there are none.
    #[allow(clippy::too_many_arguments)] // as `part`
    fn whole(
        &mut self,
        x: &mut [f32],
        bits: i32,
        n_blocks: usize,
        low: Option<&[f32]>,
        costs: Option<Costs>,
        gain: f32,
        filled: Blocks,
    ) -> Blocks {
        if let Some(costs) = costs {
            let mut step = costs.step(bits);
            while step > 0 && self.left < costs.cost(step) {
                step -= 1;
            }
            self.left -= costs.cost(step);
            if step > 0 {
                return self.pulses(x, n_pulses(step), n_blocks, gain);
            }
        }
        let all = (1 << n_blocks) - 1;
        let filled = filled & all;
        if filled == 0 {
            x.fill(0.0);
            return 0;
        }
        let filled = if let Some(low) = low {
            for (x, low) in x.iter_mut().zip(low) {
                let is_up = self.noise.next() & 0x8000 != 0;
                *x = low + if is_up { 1.0 / 256.0 } else { -1.0 / 256.0 };
            }
            filled
        } else {
            for x in x.iter_mut() {
                *x = (self.noise.next().cast_signed() >> 20) as f32;
            }
            all
        };
        normalise(x, gain);
        filled
    }

    fn pulses(&mut self, x: &mut [f32], k: usize, n_blocks: usize, gain: f32) -> Blocks {
        x.fill(0.0);
        let squares = pulses::read(self.code, k, x);
        let mut filled = 1;
        if n_blocks > 1 {
            let blocks = x.chunks_exact(x.len() / n_blocks).enumerate();
            filled = blocks.fold(0, |all, (i, block)| {
                all | Blocks::from(block.iter().any(|&x| x != 0.0)) << i
            });
        }
        let gain = gain / squares.sqrt();
        for x in x.iter_mut() {
            *x *= gain;
        }
        spread(x, n_blocks, k, self.spread);
        filled
    }
}

/// Blocks that are joined in pairs.
fn join(blocks: Blocks) -> Blocks {
    (0..4).fold(0, |all, i| all | Blocks::from(blocks >> (2 * i) & 3 != 0) << i)
}

/// Blocks that are parted into two again.
fn part_again(blocks: Blocks) -> Blocks {
    (0..4).fold(0, |all, i| all | ((blocks >> i & 1) * 3) << (2 * i))
}
