//! Floors of kind 0, Vorbis I section 6: the response of a filter, by its line spectral pairs.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use std::f64::consts::{FRAC_PI_2, LOG2_E, PI};

use super::{
    bits::{Bits, width},
    codebook::Book,
    fields::{Fields, broken},
};
use crate::{
    error::Reason,
    trig::{cos, exp2},
};

#[derive(Clone, Debug)]
pub(super) struct Floor0 {
    order: usize,
    amplitude_bits: u32,
    amplitude_offset: f64,
    books: Vec<usize>,
    /// For short and long blocks: how many lines of the spectrum share a value, and at which angle it is
    /// taken, as its cosine.
    bands: [Vec<Band>; 2],
}

#[derive(Clone, Copy, Debug)]
struct Band {
    n: usize,
    cos: f64,
}

/// What a packet says.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// As a part of the greatest.
    amplitude: f64,
    /// The cosines of the coefficients.
    cosines: Vec<f64>,
}

impl Floor0 {
    /// Section 6.2.1.
    pub(super) fn read(
        fields: &mut Fields<'_>,
        books: &[Book],
        block_lens: [u32; 2],
    ) -> Result<Self, Reason> {
        let order = fields.take(8)? as usize;
        let (rate, n_bark) = (fields.take(16)?, fields.take(16)?);
        let (amplitude_bits, amplitude_offset) = (fields.take(6)?, f64::from(fields.take(8)?));
        let n_books = fields.take(4)? + 1;
        let book = |_| {
            let book = fields.below(8, books.len())?;
            if !books.get(book).is_some_and(Book::has_vectors) {
                return Err(broken("a floor has a codebook without vectors"));
            }
            Ok(book)
        };
        let books = (0..n_books).map(book).collect::<Result<_, Reason>>()?;
        if order == 0 || rate == 0 || n_bark == 0 {
            return Err(broken("a floor has no order, no rate or no size"));
        }
        let bands = block_lens.map(|len| bands(len / 2, rate, n_bark));
        Ok(Self { order, amplitude_bits, amplitude_offset, books, bands })
    }

    /// Section 6.2.2; `None` if the channel is silent or the packet ends.
    pub(super) fn decode(
        &self,
        bits: &mut Bits<'_>,
        books: &[Book],
        to: &mut Filter,
    ) -> Option<()> {
        let low = u64::from(bits.read(self.amplitude_bits.min(32))?);
        let high = u64::from(bits.read(self.amplitude_bits.saturating_sub(32))?);
        let amplitude = high << 32 | low;
        if amplitude == 0 {
            return None;
        }
        to.amplitude = amplitude as f64 / ((1u64 << self.amplitude_bits) - 1) as f64;
        let book = bits.read(width(self.books.len() as u32))? as usize;
        let book = books.get(*self.books.get(book)?)?;
        // Each vector continues from the last value of the one before.
        let mut last = 0.0;
        to.cosines.clear();
        while to.cosines.len() < self.order {
            let vector = book.vector(book.codes.read(bits)?)?;
            let n = (self.order - to.cosines.len()).min(vector.len());
            let values = vector.iter().take(n).map(|x| x + last);
            to.cosines.extend(values.clone().map(|x| cosine(f64::from(x))));
            last += vector.get(n.checked_sub(1)?)?;
        }
        Some(())
    }

    /// Section 6.2.3: what each line of the spectrum is to be multiplied by.
    pub(super) fn draw(&self, filter: &Filter, is_long: bool, curve: &mut [f32]) {
        let [short, long] = &self.bands;
        let mut rest = curve;
        for band in if is_long { long } else { short } {
            let n = band.n.min(rest.len());
            let (lines, after) = std::mem::take(&mut rest).split_at_mut(n);
            rest = after;
            let root = filter.power(band.cos).sqrt();
            let decibels = (filter.amplitude / root - 1.0) * self.amplitude_offset;
            let gain = exp2(0.115_129_25 * LOG2_E * decibels) as f32;
            lines.fill(gain);
        }
    }
}

impl Filter {
    /// `p + q` of the specification where the cosine of the angle is `cos`.
    fn power(&self, cos: f64) -> f64 {
        let (mut p, mut q) = (1.0, 1.0);
        let (pairs, odd) = self.cosines.as_chunks();
        for [even, odd] in pairs {
            q *= 2.0 * (even - cos);
            p *= 2.0 * (odd - cos);
        }
        if let [last] = odd {
            q *= 2.0 * (last - cos);
            p * p * (1.0 - cos * cos) + q * q * 0.25
        } else {
            p * p * ((1.0 - cos) / 2.0) + q * q * f64::midpoint(1.0, cos)
        }
    }
}

/// Which lines have their value in common: those in the same part of the Bark scale.
fn bands(n: u32, rate: u32, n_bark: u32) -> Vec<Band> {
    let half = f64::from(rate) / 2.0;
    let scale = f64::from(n_bark) / bark(half);
    let place = |line: u32| {
        let at = (bark(half * f64::from(line) / f64::from(n)) * scale).floor();
        (at as u32).min(n_bark - 1)
    };
    let places: Vec<u32> = (0..n).map(place).collect();
    let band = |lines: &[u32]| {
        let place = lines.first().copied().unwrap_or_default();
        Band { n: lines.len(), cos: cosine(PI * f64::from(place) / f64::from(n_bark)) }
    };
    places.chunk_by(|a, b| a == b).map(band).collect()
}

fn bark(hz: f64) -> f64 {
    13.1 * atan(0.00074 * hz) + 2.24 * atan(0.000_000_018_5 * hz * hz) + 0.0001 * hz
}

/// The same on every machine, which the library's is not.
fn atan(x: f64) -> f64 {
    if x > 1.0 {
        return FRAC_PI_2 - atan(1.0 / x);
    }
    // Three times half the angle, to where the series is short.
    let halved = (0..3).fold(x, |x, _| x / (1.0 + (1.0 + x * x).sqrt()));
    let square = halved * halved;
    let series = (0..14).rev().fold(0.0, |sum, k| 1.0 / f64::from(2 * k + 1) - square * sum);
    8.0 * halved * series
}

/// The cosine of any angle.
fn cosine(x: f64) -> f64 {
    let turns = x / (2.0 * PI);
    let x = (turns - turns.round()).abs() * 2.0 * PI;
    if x > FRAC_PI_2 { -cos(PI - x) } else { cos(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_equal_the_library() {
        for i in 0..20_000 {
            let x = f64::from(i) / 997.0;
            assert!((atan(x) - x.atan()).abs() < 1e-14, "{x}");
            assert!((cosine(x) - x.cos()).abs() < 1e-13, "{x}");
            assert!((cosine(-x) - x.cos()).abs() < 1e-13, "{x}");
        }
        assert!(cosine(f64::INFINITY).is_nan());
    }

    #[test]
    fn bands_cover_the_spectrum() {
        for (n, rate, n_bark) in [(32, 8_000, 1), (1_024, 44_100, 256), (4_096, 65_535, 65_535)] {
            let bands = bands(n, rate, n_bark);
            assert_eq!(bands.iter().map(|band| band.n).sum::<usize>(), n as usize);
            assert!(bands.is_sorted_by(|a, b| a.cos > b.cos));
        }
    }
}
