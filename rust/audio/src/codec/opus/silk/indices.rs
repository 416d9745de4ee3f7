//! What a frame says of itself before its excitation, in its order: RFC 6716 section 4.2.7.

// Subframes and orders have fixed numbers, which the types of the arrays say.
#![allow(clippy::indexing_slicing)]

use super::{
    codebooks as books,
    filter::MAX_ORDER,
    math::rounded,
    tables::{
        CONTOURS, CONTOURS_NARROW, CONTOURS_NARROW_SHORT, CONTOURS_SHORT, EXTENSIONS,
        FILTER_CHOICES_0, FILTER_CHOICES_1, FILTER_CHOICES_2, FILTER_SETS, GAIN_STEPS, GAINS,
        INTERPOLATIONS, KINDS_ACTIVE, KINDS_INACTIVE, LAG_STEPS, LAGS, SCALES, UNIFORM_4,
        UNIFORM_6, UNIFORM_8,
    },
};
use crate::codec::opus::range_decoder::RangeDecoder;

/// The most subframes of a frame.
pub(super) const MAX_SUBFRAMES: usize = 4;

/// What a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Signal {
    #[default]
    Inactive,
    Unvoiced,
    Voiced,
}

/// How a frame refers to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// Not at all.
    None,
    /// Not at all, but the state is known well enough not to be scaled.
    Unscaled,
    Last,
}

/// The rate inside, and how long frames are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) khz: usize,
    pub(super) n_subframes: usize,
}

impl Format {
    pub(super) fn subframe_len(self) -> usize {
        5 * self.khz
    }

    pub(super) fn frame_len(self) -> usize {
        self.n_subframes * self.subframe_len()
    }

    pub(super) fn order(self) -> usize {
        if self.khz == 16 { MAX_ORDER } else { 10 }
    }
}

/// What a frame says.
#[derive(Clone, Debug, Default)]
pub(super) struct Indices {
    pub(super) signal: Signal,
    /// Which of two offsets the excitation has.
    pub(super) offset: usize,
    pub(super) gains: [i32; MAX_SUBFRAMES],
    /// Line spectral frequencies.
    pub(super) frequencies: [i16; MAX_ORDER],
    /// Quarters of the way from the frequencies before to these.
    pub(super) interpolation: i32,
    pub(super) lag: i32,
    pub(super) contour: usize,
    pub(super) filter_set: usize,
    pub(super) filters: [usize; MAX_SUBFRAMES],
    pub(super) scale: usize,
    pub(super) seed: i32,
}

/// What indices depend on of those before.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    signal: Signal,
    lag: i32,
}

/// Reads the indices of a frame.
pub(super) fn read(
    code: &mut RangeDecoder<'_>,
    format: Format,
    is_active: bool,
    reference: Reference,
    before: &mut Before,
) -> Indices {
    let kind =
        if is_active { code.symbol(&KINDS_ACTIVE, 8) + 2 } else { code.symbol(&KINDS_INACTIVE, 8) };
    let signal = match kind >> 1 {
        0 => Signal::Inactive,
        1 => Signal::Unvoiced,
        _ => Signal::Voiced,
    };
    let mut to = Indices { signal, offset: kind & 1, ..Indices::default() };
    let Format { khz, n_subframes } = format;
    for (i, gain) in to.gains.iter_mut().enumerate().take(n_subframes) {
        *gain = if i == 0 && reference != Reference::Last {
            let upper = code.symbol(&GAINS[signal as usize], 8) << 3;
            (upper + code.symbol(&UNIFORM_8, 8)) as i32
        } else {
            code.symbol(&GAIN_STEPS, 8) as i32
        };
    }
    to.frequencies = if khz == 16 { WIDE.read(code, signal) } else { NARROW.read(code, signal) };
    let is_long = n_subframes == MAX_SUBFRAMES;
    to.interpolation = if is_long { code.symbol(&INTERPOLATIONS, 8) as i32 } else { 4 };
    if signal == Signal::Voiced {
        let is_step = reference == Reference::Last && before.signal == Signal::Voiced;
        let step = if is_step { code.symbol(&LAG_STEPS, 8) as i32 } else { 0 };
        to.lag = if step > 0 {
            before.lag + step - 9
        } else {
            let low: &[u8] = match khz {
                8 => &UNIFORM_4,
                12 => &UNIFORM_6,
                _ => &UNIFORM_8,
            };
            (code.symbol(&LAGS, 8) * (khz / 2) + code.symbol(low, 8)) as i32
        };
        before.lag = to.lag;
        let contours: &[u8] = match (khz, is_long) {
            (8, true) => &CONTOURS_NARROW,
            (8, false) => &CONTOURS_NARROW_SHORT,
            (_, true) => &CONTOURS,
            (_, false) => &CONTOURS_SHORT,
        };
        to.contour = code.symbol(contours, 8);
        to.filter_set = code.symbol(&FILTER_SETS, 8);
        let choices: &[u8] = match to.filter_set {
            0 => &FILTER_CHOICES_0,
            1 => &FILTER_CHOICES_1,
            _ => &FILTER_CHOICES_2,
        };
        for filter in to.filters.iter_mut().take(n_subframes) {
            *filter = code.symbol(choices, 8);
        }
        if reference == Reference::None {
            to.scale = code.symbol(&SCALES, 8);
        }
    }
    before.signal = signal;
    to.seed = code.symbol(&UNIFORM_4, 8) as i32;
    to
}

/// The tables of line spectral frequencies for one order.
struct Book<const N: usize, const HALF: usize, const LESS: usize, const MORE: usize> {
    first: &'static [[u8; N]; 32],
    choices: &'static [[u8; 32]; 2],
    selections: &'static [[u8; HALF]; 32],
    residuals: &'static [[u8; 9]; 8],
    weights: &'static [[u8; LESS]; 2],
    distances: &'static [i32; MORE],
    /// A step of a residual, in 2^16ths.
    step: i32,
}

static NARROW: Book<10, 5, 9, 11> = Book {
    first: &books::FIRST_NARROW,
    choices: &books::CHOICES_NARROW,
    selections: &books::SELECTIONS_NARROW,
    residuals: &books::RESIDUALS_NARROW,
    weights: &books::WEIGHTS_NARROW,
    distances: &books::DISTANCES_NARROW,
    step: 11_796,
};

static WIDE: Book<16, 8, 15, 17> = Book {
    first: &books::FIRST_WIDE,
    choices: &books::CHOICES_WIDE,
    selections: &books::SELECTIONS_WIDE,
    residuals: &books::RESIDUALS_WIDE,
    weights: &books::WEIGHTS_WIDE,
    distances: &books::DISTANCES_WIDE,
    step: 9_830,
};

impl<const N: usize, const HALF: usize, const LESS: usize, const MORE: usize>
    Book<N, HALF, LESS, MORE>
{
    /// Reads the frequencies of a frame.
    fn read(&self, code: &mut RangeDecoder<'_>, signal: Signal) -> [i16; MAX_ORDER] {
        /// By how much a residual is closer to zero than its number, in 1024ths.
        const CLOSER: i32 = 102;
        let choices = &self.choices[usize::from(signal == Signal::Voiced)];
        let choice = code.symbol(choices, 8);
        let selections = &self.selections[choice];
        let selection = |i: usize| usize::from(selections[i / 2] >> (4 * (i & 1)));
        let residuals: [i32; N] = std::array::from_fn(|i| {
            let number = code.symbol(&self.residuals[selection(i) >> 1 & 7], 8) as i32;
            match number {
                0 => -4 - code.symbol(&EXTENSIONS, 8) as i32,
                8 => 4 + code.symbol(&EXTENSIONS, 8) as i32,
                _ => number - 4,
            }
        });
        let mut above = 0;
        let mut frequencies = [0; N];
        for i in (0..N).rev() {
            let weight = if i < LESS { self.weights[selection(i) & 1][i] } else { 0 };
            let predicted = (above * i32::from(weight)) >> 8;
            let residual = (residuals[i] << 10) - CLOSER * residuals[i].signum();
            above = predicted + ((residual * self.step) >> 16);
            let first = &self.first[choice];
            let base = i32::from(first[i]) << 7;
            frequencies[i] = ((above << 14) / weight_at(first, i) + base).clamp(0, 32_767);
        }
        stabilise(&mut frequencies, self.distances);
        let mut to = [0; MAX_ORDER];
        to.iter_mut().zip(frequencies).for_each(|(to, f)| *to = f as i16);
        to
    }
}

/// How much a frequency's neighbours let it move: about the root of the sum of inverse distances, in
/// 512ths.
fn weight_at<const N: usize>(first: &[u8; N], i: usize) -> i32 {
    let at = |i: usize| i32::from(first[i]);
    let below = if i == 0 { at(0) } else { at(i) - at(i - 1) };
    let above = if i + 1 == N { 256 - at(i) } else { at(i + 1) - at(i) };
    super::math::root((1_024 / below + 1_024 / above) << 16)
}

/// Moves frequencies apart until they have their least distances.
fn stabilise<const N: usize>(x: &mut [i32; N], distances: &[i32]) {
    const END: i32 = 1 << 15;
    for _ in 0..20 {
        let distance = |x: &[i32; N], i: usize| {
            let below = if i == 0 { 0 } else { x[i - 1] };
            let above = if i == N { END } else { x[i] };
            above - below - distances[i]
        };
        let (mut at, mut least) = (0, distance(x, 0));
        for i in 1..=N {
            if distance(x, i) < least {
                (at, least) = (i, distance(x, i));
            }
        }
        if least >= 0 {
            return;
        }
        if at == 0 {
            x[0] = distances[0];
        } else if at == N {
            x[N - 1] = END - distances[N];
        } else {
            let half = distances[at] >> 1;
            let low = distances[..at].iter().sum::<i32>() + half;
            let high = END - distances[at + 1..].iter().sum::<i32>() - half;
            let middle = rounded(x[at - 1] + x[at], 1);
            // As in C, a low end above the high one is the upper limit.
            let middle = if low > high { middle.clamp(high, low) } else { middle.clamp(low, high) };
            x[at - 1] = middle - half;
            x[at] = x[at - 1] + distances[at];
        }
    }
    x.sort_unstable();
    x[0] = x[0].max(distances[0]);
    for i in 1..N {
        x[i] = x[i].max((x[i - 1] + distances[i]).min(i32::from(i16::MAX)));
    }
    x[N - 1] = x[N - 1].min(END - distances[N]);
    for i in (0..N - 1).rev() {
        x[i] = x[i].min(x[i + 1] - distances[i + 1]);
    }
}
