//! Floors of kind 1, Vorbis I section 7: points over the spectrum, and lines between them in decibels.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::{
    bits::{Bits, width},
    codebook::Book,
    decibels::GAINS,
    fields::{Fields, broken},
};
use crate::error::Reason;

/// The most points.
const MAX_POINTS: usize = 65;

/// How the heights of some points are coded.
#[derive(Clone, Debug)]
struct Class {
    n_points: usize,
    /// Each point takes so many bits of the number that says their books.
    n_bits: u32,
    main_book: usize,
    books: Vec<Option<usize>>,
}

/// Where a point stands.
#[derive(Clone, Copy, Debug)]
struct Point {
    x: i32,
    /// The nearest points on both sides among those before it.
    before: [usize; 2],
    /// Its place between them, from 0 to 2^32, rounded up.
    between: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Floor1 {
    /// The class of each partition of points.
    partitions: Vec<usize>,
    classes: Vec<Class>,
    multiplier: i32,
    points: Vec<Point>,
    /// The points from left to right.
    order: Vec<usize>,
}

impl Floor1 {
    /// Section 7.2.2.
    pub(super) fn read(fields: &mut Fields<'_>, books: &[Book]) -> Result<Self, Reason> {
        let n_partitions = fields.take(5)?;
        let partitions = (0..n_partitions).map(|_| Ok(fields.take(4)? as usize));
        let partitions: Vec<usize> = partitions.collect::<Result<_, Reason>>()?;
        let n_classes = partitions.iter().map(|class| class + 1).max().unwrap_or(0);
        let class = |_| Class::read(fields, books.len());
        let classes: Vec<Class> = (0..n_classes).map(class).collect::<Result<_, _>>()?;
        let multiplier = fields.take(2)?.cast_signed() + 1;
        let n_bits = fields.take(4)?;
        let mut xs = vec![0, 1 << n_bits];
        for class in partitions.iter().filter_map(|&class| classes.get(class)) {
            for _ in 0..class.n_points {
                xs.push(fields.take(n_bits)?.cast_signed());
            }
        }
        if xs.len() > MAX_POINTS {
            return Err(broken("a floor has too many points"));
        }
        let mut order: Vec<usize> = (0..xs.len()).collect();
        order.sort_by_key(|&i| xs.get(i));
        if order.is_sorted_by(|a, b| xs.get(*a) < xs.get(*b)) {
            let points = xs.iter().enumerate().map(|(i, &x)| Point::new(&xs, i, x)).collect();
            Ok(Self { partitions, classes, multiplier, points, order })
        } else {
            Err(broken("two points of a floor stand above each other"))
        }
    }

    /// Reads the heights of the points, section 7.2.3, and finds the lines between those that are used;
    /// `None` if the channel is silent or the packet ends.
    #[inline(always)]
    pub(super) fn decode(&self, bits: &mut Bits<'_>, books: &[Book], to: &mut Lines) -> Option<()> {
        if !bits.flag()? {
            return None;
        }
        let mut heights = [0i32; MAX_POINTS];
        let (ends, mut rest) = heights.split_at_mut(2);
        for end in ends {
            *end = bits.read(width(self.range().cast_unsigned() - 1))?.cast_signed();
        }
        for &class in &self.partitions {
            let class = self.classes.get(class)?;
            let (places, after) = rest.split_at_mut_checked(class.n_points)?;
            rest = after;
            let mut number = 0;
            if class.n_bits > 0 {
                number = books.get(class.main_book)?.codes.read(bits)?;
            }
            for some in places.chunks_mut(4) {
                bits.fill();
                for place in some {
                    let book = *class.books.get(number & ((1 << class.n_bits) - 1))?;
                    number >>= class.n_bits;
                    if let Some(book) = book {
                        *place = books.get(book)?.codes.read_filled(bits)? as i32;
                    }
                }
            }
        }
        self.draw(&mut heights, to)
    }

    /// Section 7.2.4, step 1: heights are coded as differences from the line between the neighbours.
    #[inline(always)]
    fn draw(&self, heights: &mut [i32; MAX_POINTS], to: &mut Lines) -> Option<()> {
        let range = self.range();
        let mut is_used = [false; MAX_POINTS];
        is_used[..2].fill(true);
        for (i, point) in self.points.iter().enumerate().skip(2) {
            let [low, high] = point.before;
            let predicted = point.height(*heights.get(low)?, *heights.get(high)?);
            let coded = *heights.get(i)?;
            let height = if coded == 0 {
                predicted
            } else {
                for j in [low, high, i] {
                    *is_used.get_mut(j)? = true;
                }
                (predicted + difference(coded, predicted, range - predicted)).clamp(0, range - 1)
            };
            *heights.get_mut(i)? = height;
        }
        to.n = 0;
        for &i in self.order.iter().filter(|&&i| is_used.get(i) == Some(&true)) {
            let height = (heights.get(i)? * self.multiplier).clamp(0, 255);
            *to.points.get_mut(to.n)? = (self.points.get(i)?.x as u32, height as u8);
            to.n += 1;
        }
        Some(())
    }

    fn range(&self) -> i32 {
        [256, 128, 86, 64].get(self.multiplier as usize - 1).copied().unwrap_or(64)
    }
}

impl Class {
    fn read(fields: &mut Fields<'_>, n_books: usize) -> Result<Self, Reason> {
        let n_points = fields.take(3)? as usize + 1;
        let n_bits = fields.take(2)?;
        let main_book = if n_bits > 0 { fields.below(8, n_books)? } else { 0 };
        let book = |_| match fields.below(8, n_books + 1)? {
            0 => Ok(None),
            n => Ok(Some(n - 1)),
        };
        let books = (0..1 << n_bits).map(book).collect::<Result<_, Reason>>()?;
        Ok(Self { n_points, n_bits, main_book, books })
    }
}

impl Point {
    fn new(xs: &[i32], i: usize, x: i32) -> Self {
        let earlier = || xs.iter().take(i).enumerate();
        let low = earlier().filter(|&(_, &other)| other < x).max_by_key(|&(_, &other)| other);
        let high = earlier().filter(|&(_, &other)| other > x).min_by_key(|&(_, &other)| other);
        let (low, high) = (low.unwrap_or((0, &0)), high.unwrap_or((0, &1)));
        let (dx, part) = (high.1.abs_diff(*low.1), x.abs_diff(*low.1));
        let between = (u64::from(part) << 32).div_ceil(u64::from(dx.max(1)));
        Self { x, before: [low.0, high.0], between }
    }

    /// Section 9.2.6, `render_point`: the height of the line between the neighbours, rounded towards the left one.
    ///
    /// The quotient is exact: heights differ by less than 2^8, and points by at most 2^15.
    #[inline(always)]
    fn height(self, low: i32, high: i32) -> i32 {
        let offset = ((u64::from(high.abs_diff(low)) * self.between) >> 32) as i32;
        if high < low { low - offset } else { low + offset }
    }
}

/// What a coded height adds to the predicted one, with so much room below and above that.
fn difference(coded: i32, below: i32, above: i32) -> i32 {
    if coded >= 2 * below.min(above) {
        if above > below { coded - below } else { above - 1 - coded }
    } else if coded & 1 == 1 {
        -((coded + 1) / 2)
    } else {
        coded / 2
    }
}

/// The lines of a floor: their ends from left to right.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    points: [(u32, u8); MAX_POINTS],
    n: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self { points: [(0, 0); MAX_POINTS], n: 0 }
    }
}

impl Lines {
    /// Section 7.2.4, step 2: what each line of the spectrum is to be multiplied by.
    ///
    /// Section 9.2.7 steps along a line with whole numbers and an error term. That is the quotient
    /// `k * dy / dx` rounded towards the line's beginning, and so it is worked out here, with 56 bits behind
    /// the point. It is exact: there are fewer than 2^13 steps, and `dx` is at most 2^15.
    #[inline(always)]
    pub(super) fn draw(&self, curve: &mut [f32]) {
        let mut rest = curve;
        let points = self.points.get(..self.n).unwrap_or_default();
        for pair in points.windows(2) {
            let [(x0, y0), (x1, y1)] = *pair else { return };
            let n = ((x1 - x0) as usize).min(rest.len());
            let (line, after) = std::mem::take(&mut rest).split_at_mut(n);
            rest = after;
            let step = (u64::from(y0.abs_diff(y1)) << 56).div_ceil(u64::from(x1 - x0).max(1));
            let (mut at, step) = if y1 < y0 {
                (u64::from(y0) << 56 | ((1 << 56) - 1), step.wrapping_neg())
            } else {
                (u64::from(y0) << 56, step)
            };
            for x in line {
                *x = gain((at >> 56) as u8);
                at = at.wrapping_add(step);
            }
        }
        let last = points.last().map_or(0, |&(_, y)| y);
        rest.fill(gain(last));
    }
}

#[inline(always)]
fn gain(y: u8) -> f32 {
    #[allow(clippy::indexing_slicing)] // there are 256
    GAINS[usize::from(y)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 9.2.7 as it stands there.
    fn render_line((x0, y0): (i32, i32), (x1, y1): (i32, i32), to: &mut Vec<i32>) {
        let (dy, adx) = (y1 - y0, x1 - x0);
        let base = dy / adx;
        let sy = if dy < 0 { base - 1 } else { base + 1 };
        let ady = dy.abs() - base.abs() * adx;
        let (mut y, mut err) = (y0, 0);
        to.push(y);
        for _ in x0 + 1..x1 {
            err += ady;
            if err >= adx {
                err -= adx;
                y += sy;
            } else {
                y += base;
            }
            to.push(y);
        }
    }

    #[test]
    fn lines_are_those_of_the_specification() {
        for dx in (1..200).chain([255, 256, 257, 1_000, 4_095, 4_096, 8_191, 32_767]) {
            for (y0, y1) in [(0, 255), (255, 0), (7, 7), (100, 101), (101, 100), (3, 90), (250, 2)]
            {
                let mut want = Vec::new();
                render_line((0, y0), (dx, y1), &mut want);
                let mut lines = Lines::default();
                lines.points[..2].copy_from_slice(&[(0, y0 as u8), (dx as u32, y1 as u8)]);
                lines.n = 2;
                let mut curve = vec![0.0; 4_096];
                lines.draw(&mut curve);
                want.resize(4_096, y1);
                for (x, y) in curve.iter().zip(want) {
                    assert_eq!(x.to_bits(), GAINS[y as usize].to_bits(), "{dx}: {y0} to {y1}");
                }
            }
        }
    }

    #[test]
    fn heights_between_points_are_those_of_the_specification() {
        for dx in (1..300).chain([511, 512, 1_000, 8_191, 32_767, 32_768]) {
            for part in (0..=dx).step_by(1 + dx as usize / 50) {
                let point = Point::new(&[0, dx, part], 2, part);
                for (low, high) in (0..256i32).step_by(5).flat_map(|y| [(0, y), (y, 0), (y, 255)]) {
                    // Section 9.2.6, `render_point`.
                    let offset = (high - low).abs() * part / dx;
                    let want = if high < low { low - offset } else { low + offset };
                    let is_between = 0 < part && part < dx;
                    assert!(!is_between || point.height(low, high) == want, "{dx}, {part}");
                }
            }
        }
    }

    #[test]
    fn differences_go_to_both_sides_while_there_is_room() {
        let all = |below, above| (1..below + above).map(move |c| difference(c, below, above));
        assert_eq!(all(2, 5).collect::<Vec<_>>(), [-1, 1, -2, 2, 3, 4]);
        assert_eq!(all(5, 2).collect::<Vec<_>>(), [-1, 1, -2, -3, -4, -5]);
    }

    #[test]
    fn gains_fall_evenly() {
        let first = 1.064_986_325_825e-7f64;
        for (i, &gain) in GAINS.iter().enumerate() {
            let want = (first.ln() * (255 - i) as f64 / 255.0).exp();
            assert!((f64::from(gain) / want - 1.0).abs() < 1.2e-7, "{i}: {gain} {want}");
        }
    }
}
