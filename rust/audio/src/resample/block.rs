//! Filtering by Fourier transforms (overlap-save), on a grid that is fixed in the recording.
//!
//! A block of input is transformed, its spectrum is cut off or filled up to the length of the block of
//! output and multiplied by the filter's response, and transformed back: that filters and changes the rate
//! at once. Ends of a block, where what is filtered in a circle would come round, are not used. Where blocks
//! begin does not depend on the crop, and a block depends on its own input alone.
//!
//! Two neighbouring blocks are transformed as the real and the imaginary part of one.

// Lengths that go together are made together. What `pulp` dispatches to must be inlined into the function
// that it compiles for an instruction set.
#![allow(clippy::indexing_slicing, clippy::inline_always)]

use std::iter;

use pulp::{Simd, WithSimd};

use super::{Ratio, design::Design};
use crate::{
    cancel::Cancel,
    error::Reason,
    fourier::{Complex, Fourier, Points, Source, load},
    trig::cos_pi,
};

/// The longest transform.
const MAX_POINTS: usize = 1 << 15;

/// How blocks divide a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    ratio: Ratio,
    /// The length of a block and the distance between blocks, in cycles of `down` input frames, which are
    /// `up` output frames.
    len: usize,
    step: usize,
    /// Input frames before the one where the block's output begins.
    before: usize,
}

impl Grid {
    /// The grid for a filter; `None` if sums are better: if its response does not end at the Nyquist
    /// frequency, or if there is no transform of a fitting length.
    pub(super) fn of(ratio: Ratio, design: &Design) -> Option<Self> {
        let Ratio { up, down } = ratio;
        let (up, down) = (usize::try_from(up).ok()?, usize::try_from(down).ok()?);
        if !design.is_band_limited || up.max(down) > MAX_POINTS / 8 {
            return None;
        }
        if !Fourier::has(8 * up) || !Fourier::has(8 * down) {
            return None;
        }
        let before = design.half_width.ceil() as usize;
        // One of the terms is odd, and lengths of transforms are multiples of 8. So are these: 8, 16, 24, 32, 48...
        let lens = iter::once(8).chain((4..).flat_map(|log| [1 << log, 3 << (log - 1)]));
        let mut lens = lens.take_while(|len| len * up.max(down) <= MAX_POINTS);
        // Three quarters or more of each block are used.
        lens.find_map(|len| {
            let step = (len * down).checked_sub(2 * before)? / down;
            (4 * step >= 3 * len).then_some(Self { ratio, len, step, before })
        })
    }

    fn n_in(&self) -> usize {
        self.len * self.ratio.down as usize
    }

    fn n_out(&self) -> usize {
        self.len * self.ratio.up as usize
    }

    /// Input frames from one block to the next.
    fn step_in(&self) -> usize {
        self.step * self.ratio.down as usize
    }

    /// Output frames of a block.
    fn step_out(&self) -> usize {
        self.step * self.ratio.up as usize
    }

    /// The pairs of blocks that hold output frames `first..end`, as first pair and number.
    fn pairs(&self, first: u64, end: u64) -> (u64, usize) {
        let of = |frame: u64| frame / (2 * self.step_out() as u64);
        let last = of(end.saturating_sub(1).max(first));
        (of(first), (last - of(first) + 1) as usize)
    }

    /// See [`super::Filter::input_window`].
    pub(super) fn input_window(&self, first: u64, end: u64) -> (i64, usize) {
        let (pair, n_pairs) = self.pairs(first, end);
        let begin = (pair * 2 * self.step_in() as u64) as i64 - self.before as i64;
        (begin, (2 * n_pairs - 1) * self.step_in() + self.n_in())
    }
}

/// The tables of a filter.
#[derive(Debug)]
pub(super) struct Table {
    grid: Grid,
    forward: Fourier,
    inverse: Fourier,
    /// The filter's response at the frequencies below both Nyquist frequencies, from 0 up, and then from the
    /// lowest negative one up, over the length of the forward transform.
    response: Vec<f32>,
}

/// Memory for transforms.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    blocks: Points,
    spectrum: Points,
    spare: Points,
}

impl Scratch {
    pub(super) fn fit(&mut self, table: &Table) {
        let n = table.grid.n_in().max(table.grid.n_out());
        if self.blocks.re.len() != n {
            let new = || Points::new(n);
            *self = Self { blocks: new(), spectrum: new(), spare: new() };
        }
    }
}

/// Samples of the impulse response for one input frame, from which its spectrum is computed: enough that
/// there is nothing above their Nyquist frequency.
const OVERSAMPLING: usize = 2;

impl Table {
    pub(super) fn new(grid: Grid, design: &Design) -> Self {
        let n_in = grid.n_in();
        let n_bins = n_in.min(grid.n_out()) / 2;
        let n_cosines = OVERSAMPLING * n_in;
        let cosines: Vec<f64> =
            (0..n_cosines).map(|i| cos_pi(2 * i as u32, n_cosines as u32)).collect();
        let n_taps = (design.half_width * OVERSAMPLING as f64) as usize;
        let tap = |i: usize| design.at(i as f64 / OVERSAMPLING as f64);
        let taps: Vec<f64> = (1..=n_taps).map(|i| 2.0 * tap(i)).collect();
        let response = |k: usize| {
            let terms = taps.iter().zip(1..);
            tap(0) + terms.map(|(tap, i)| tap * cosines[k * i % n_cosines]).sum::<f64>()
        };
        // A constant passes unchanged. The inverse transform multiplies by its length.
        let scale = 1.0 / (response(0) * n_in as f64);
        let half: Vec<f32> = (0..n_bins).map(|k| (response(k) * scale) as f32).collect();
        let negative = half[1..].iter().rev();
        let response = half.iter().chain([&0.0]).chain(negative).copied().collect();
        let (forward, inverse) = (Fourier::new(n_in), Fourier::new(grid.n_out()));
        Self { grid, forward, inverse, response }
    }
}

/// The loop over pairs of blocks, compiled for each instruction set.
pub(super) struct Pairs<'a> {
    pub(super) table: &'a Table,
    pub(super) first: u64,
    pub(super) window: &'a [f32],
    pub(super) out: &'a mut [f32],
    pub(super) scratch: &'a mut Scratch,
    pub(super) cancel: &'a Cancel,
}

impl WithSimd for Pairs<'_> {
    type Output = Result<(), Reason>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { table, first, window, out, scratch, cancel } = self;
        let Table { grid, forward, inverse, .. } = table;
        let (step_in, step_out) = (grid.step_in(), grid.step_out());
        let (pair, n_pairs) = grid.pairs(first, first + out.len() as u64);
        // Where the output of the first pair begins, counted from the first wanted frame.
        let origin = (pair * 2 * step_out as u64) as i64 - first as i64;
        for pair in 0..n_pairs {
            cancel.check()?;
            let Scratch { blocks, spectrum, spare } = &mut *scratch;
            for (block, at) in [(&mut blocks.re, 2 * pair), (&mut blocks.im, 2 * pair + 1)] {
                copy_turned(&window[at * step_in..][..grid.n_in()], grid.before, block);
            }
            forward.run(simd, blocks, spectrum, spare);
            table.filter(spectrum, blocks);
            inverse.run(simd, &Swapped(blocks), spectrum, spare);
            for (block, at) in [(&spectrum.im, 2 * pair), (&spectrum.re, 2 * pair + 1)] {
                let begin = origin + (at * step_out) as i64;
                copy_wanted(&block[..step_out], begin, out);
            }
        }
        Ok(())
    }
}

impl Table {
    /// The spectrum of the input to that of the output.
    #[inline(always)]
    fn filter(&self, from: &Points, to: &mut Points) {
        let (n_in, n_out) = (self.grid.n_in(), self.grid.n_out());
        let n = self.response.len() / 2;
        let (positive, negative) = self.response.split_at(n);
        for (from, to) in [(&from.re, &mut to.re), (&from.im, &mut to.im)] {
            multiply(&mut to[..n], &from[..n], positive);
            to[n..n_out - n].fill(0.0);
            multiply(&mut to[n_out - n..n_out], &from[n_in - n..n_in], negative);
        }
    }
}

#[inline(always)]
fn multiply(to: &mut [f32], a: &[f32], b: &[f32]) {
    to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = a * b);
}

/// Copies a block. The samples before its beginning go to its end, where a circular convolution has them.
#[inline(always)]
fn copy_turned(from: &[f32], before: usize, to: &mut [f32]) {
    let (head, rest) = from.split_at(before);
    let (to_rest, to_head) = to[..from.len()].split_at_mut(rest.len());
    to_rest.copy_from_slice(rest);
    to_head.copy_from_slice(head);
}

/// Copies the part of a block that is within `out`, where its first frame is `begin`.
#[inline(always)]
fn copy_wanted(block: &[f32], begin: i64, out: &mut [f32]) {
    let (skip, begin) = (usize::try_from(-begin).unwrap_or(0), begin.max(0) as usize);
    let (Some(block), Some(out)) = (block.get(skip..), out.get_mut(begin..)) else { return };
    out.iter_mut().zip(block).for_each(|(to, x)| *to = *x);
}

/// A spectrum with its parts swapped. The transform of that, swapped again, is the inverse transform.
struct Swapped<'a>(&'a Points);

impl Source for Swapped<'_> {
    #[inline(always)]
    fn get<S: Simd>(&self, _: S, i: usize) -> Complex<S> {
        Complex { re: load::<S>(&self.0.im, i), im: load::<S>(&self.0.re, i) }
    }
}
