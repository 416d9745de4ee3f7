//! What a frame says, in its order: RFC 6716 section 4.3, table 56.

// Bands and channels have fixed numbers, which the types of the arrays say.
#![allow(clippy::indexing_slicing)]

use super::{
    allocation::{BIT, Shape, allocate, boosts},
    bands::{self, Filled, N_COEFFICIENTS, Noise, Settings, Spectrum},
    energy::{self, Energies},
    postfilter::Comb,
    shape::normalise,
    tables::{EDGES, N_BANDS, SPREADS, TAP_SETS, TF_CHANGES, TRIMS, width},
};
use crate::{
    codec::opus::range_decoder::{EIGHTHS, RangeDecoder},
    trig::exp2,
};

/// The energy of a band in which there is nothing.
const SILENCE: f32 = -28.0;

/// What frames carry to the next, other than sound.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) energies: Energies,
    /// Those of the last frame that was not transient or less, and of the one before.
    last: [Energies; 2],
    pub(super) noise: u32,
    /// The least of late, to which lost frames fade.
    pub(super) floor: Energies,
    /// How long nothing came, in 2.5 ms.
    pub(super) lost: u32,
    /// Room for bands that others are folded from.
    folded: Box<Spectrum>,
}

impl Default for Memory {
    fn default() -> Self {
        let last = [[[SILENCE; N_BANDS]; 2]; 2];
        let folded = Box::new([[0.0; N_COEFFICIENTS]; 2]);
        Self {
            energies: Energies::default(),
            last,
            noise: 0,
            floor: Energies::default(),
            lost: 0,
            folded,
        }
    }
}

/// What is to be made of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) is_silent: bool,
    pub(super) is_transient: bool,
    pub(super) comb: Comb,
}

impl Memory {
    /// Reads a frame; bands of length one are left in `spectrum`.
    pub(super) fn read(
        &mut self,
        code: &mut RangeDecoder<'_>,
        shape: Shape,
        spectrum: &mut Spectrum,
    ) -> Frame {
        if shape.n_channels == 1 {
            let [left, right] = &mut self.energies;
            left.iter_mut().zip(right).for_each(|(left, right)| *left = left.max(*right));
        }
        let is_empty = code.tell() >= code.n_total();
        let is_silent = is_empty || code.tell() == 1 && code.bit(15);
        let frame = if is_silent {
            self.energies.iter_mut().take(shape.n_channels).for_each(|e| e.fill(SILENCE));
            Frame { is_silent, is_transient: false, comb: Comb::default() }
        } else {
            self.read_sound(code, shape, spectrum)
        };
        self.end(shape, frame.is_transient, code.range());
        frame
    }

    fn read_sound(
        &mut self,
        code: &mut RangeDecoder<'_>,
        shape: Shape,
        spectrum: &mut Spectrum,
    ) -> Frame {
        let Shape { log_len, n_channels, start, end } = shape;
        let n_total = code.n_total();
        let mut comb = Comb::default();
        if start == 0 && code.tell() + 16 <= n_total && code.bit(1) {
            let octave = code.uniform(6);
            let period = (16 << octave) + code.raw(4 + octave) - 1;
            let gain = code.raw(3);
            let taps = if code.tell() + 2 <= n_total { code.symbol(&TAP_SETS, 2) } else { 0 };
            comb = Comb::new(period as usize, gain, taps);
        }
        let is_transient = log_len > 0 && code.tell() + 3 <= n_total && code.bit(3);
        let is_intra = code.tell() + 3 <= n_total && code.bit(3);
        energy::coarse(code, (log_len, is_intra), (start..end, n_channels), &mut self.energies);
        let tf_changes = tf_changes(code, shape, is_transient);
        let spread = if code.tell() + 4 <= n_total { code.symbol(&SPREADS, 5) } else { 2 };
        let caps = shape.caps();
        let (boosts, left) = boosts(code, shape, &caps);
        let has_trim = code.tell_eighths() + 6 * BIT <= left;
        let trim = if has_trim { code.symbol(&TRIMS, 7) as i32 } else { 5 };
        let total = n_total << EIGHTHS;
        let left = total - code.tell_eighths() - 1;
        let may_collapse = is_transient && log_len >= 2 && left >= (log_len as i32 + 2) * BIT;
        let reserved = if may_collapse { BIT } else { 0 };
        let allocation = allocate(code, shape, trim, (&boosts, &caps), left - reserved);
        energy::fine(code, n_channels, &allocation, &mut self.energies);
        let settings = Settings { shape, is_transient, spread, total: total - reserved };
        let mut noise = Noise(self.noise);
        let filled = bands::read(
            code,
            &settings,
            &allocation,
            &tf_changes,
            &mut noise,
            [spectrum, &mut self.folded],
        );
        let is_filled = may_collapse && code.raw(1) == 1;
        energy::last(code, start..end, n_channels, &allocation, &mut self.energies);
        if is_filled {
            self.fill(shape, &allocation.shape, &filled, &mut noise, spectrum);
        }
        Frame { is_silent: false, is_transient, comb }
    }

    /// Puts noise where a short block of a transient frame got nothing: section 4.3.5.
    fn fill(
        &self,
        shape: Shape,
        bits: &[i32; N_BANDS],
        filled: &Filled,
        noise: &mut Noise,
        spectrum: &mut Spectrum,
    ) {
        let Shape { log_len, n_channels, start, end } = shape;
        for band in start..end {
            let n = width(band) << log_len;
            let depth = ((1 + bits[band]) / width(band) as i32) >> log_len;
            let most = 0.5 * exp2(-0.125 * f64::from(depth)) as f32;
            for channel in 0..n_channels {
                let before = |last: &Energies| {
                    let [left, right] = [last[0][band], last[1][band]];
                    if n_channels == 1 { left.max(right) } else { last[channel][band] }
                };
                let before = before(&self.last[0]).min(before(&self.last[1]));
                let rise = (self.energies[channel][band] - before).max(0.0);
                let root = if log_len == 3 { std::f32::consts::SQRT_2 } else { 1.0 };
                let level =
                    (2.0 * exp2(f64::from(-rise)) as f32 * root).min(most) / (n as f32).sqrt();
                let start = EDGES[band] << log_len;
                let x = &mut spectrum[channel][start..start + n];
                let mut is_changed = false;
                for block in 0..1 << log_len {
                    if filled[band][channel] >> block & 1 == 1 {
                        continue;
                    }
                    for x in x.iter_mut().skip(block).step_by(1 << log_len) {
                        *x = if noise.next() & 0x8000 != 0 { level } else { -level };
                    }
                    is_changed = true;
                }
                if is_changed {
                    normalise(x, 1.0);
                }
            }
        }
    }

    /// Fades the energies of a frame that was lost.
    pub(super) fn fade(&mut self, n_channels: usize, bands: std::ops::Range<usize>) {
        let decay = if self.lost == 0 { 1.5 } else { 0.5 };
        for (energies, floor) in self.energies.iter_mut().zip(&self.floor).take(n_channels) {
            for (energy, &floor) in energies[bands.clone()].iter_mut().zip(&floor[bands.clone()]) {
                *energy = floor.max(*energy - decay);
            }
        }
    }

    /// What the next frame needs of this one.
    fn end(&mut self, shape: Shape, is_transient: bool, range: u32) {
        let Self { energies, last: [last, before], noise, floor, lost, .. } = self;
        if shape.n_channels == 1 {
            energies[1] = energies[0];
        }
        if is_transient {
            for (last, now) in last.iter_mut().flatten().zip(energies.iter().flatten()) {
                *last = last.min(*now);
            }
        } else {
            (*before, *last) = (*last, *energies);
        }
        // What was lost may have become louder all the while.
        let rise = 0.001 * (*lost + (1 << shape.log_len)).min(160) as f32;
        for (floor, now) in floor.iter_mut().flatten().zip(energies.iter().flatten()) {
            *floor = (*floor + rise).min(*now);
        }
        *lost = 0;
        for (all, value) in [(energies, 0.0), (last, SILENCE), (before, SILENCE)] {
            for channel in all {
                channel[..shape.start].fill(value);
                channel[shape.end..].fill(value);
            }
        }
        *noise = range;
    }
}

/// Reads how each band trades resolution in time for that in frequency: section 4.3.1.
fn tf_changes(code: &mut RangeDecoder<'_>, shape: Shape, is_transient: bool) -> [i32; N_BANDS] {
    let mut cost = if is_transient { 2 } else { 4 };
    let is_reserved = shape.log_len > 0 && code.tell() + cost < code.n_total();
    let n_total = code.n_total() - i32::from(is_reserved);
    let (mut flags, mut flag, mut any) = ([0; N_BANDS], false, false);
    for to in flags.iter_mut().take(shape.end).skip(shape.start) {
        if code.tell() + cost <= n_total {
            flag ^= code.bit(cost as u32);
            any |= flag;
        }
        *to = usize::from(flag);
        cost = if is_transient { 4 } else { 5 };
    }
    let tables = &TF_CHANGES[shape.log_len][usize::from(is_transient)];
    let differ = tables[0][usize::from(any)] != tables[1][usize::from(any)];
    let choice = is_reserved && differ && code.bit(1);
    flags.map(|flag| i32::from(tables[usize::from(choice)][flag]))
}
