//! Packets into planes, element by element.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use pulp::{Simd, WithSimd};

use super::{
    config::Config,
    golomb,
    predict::{MAX_ORDER, Predictor},
};
use crate::{codec::flac::Bits, limits::MAX_CHANNELS};

/// The places of the channels in WAV's order, one row for each count of them. Coded are: centre,
/// left, right, back left and right, back centre, LFE; of eight, left and right of the centre
/// follow it.
const PLACES: [&[usize]; MAX_CHANNELS as usize] = [
    &[0],
    &[0, 1],
    &[2, 0, 1],
    &[2, 0, 1, 3],
    &[2, 0, 1, 3, 4],
    &[2, 0, 1, 4, 5, 3],
    &[2, 0, 1, 4, 5, 6, 3],
    &[2, 6, 7, 0, 1, 4, 5, 3],
];

/// Decodes packets one by one; they need nothing of each other.
pub(crate) struct Decoder {
    config: Config,
    arch: pulp::Arch,
    /// As they are coded.
    planes: Vec<Vec<i32>>,
}

impl Decoder {
    pub(crate) fn new(config: Config) -> Self {
        let mut planes = Vec::new();
        planes.resize_with(usize::from(config.n_channels), Vec::new);
        Self { config, arch: pulp::Arch::new(), planes }
    }

    /// The channels of a packet, left-justified in 32 bits; `None` if its bits make no sense.
    pub(crate) fn decode(&mut self, packet: &[u8]) -> Option<[&[i32]; MAX_CHANNELS as usize]> {
        let run = DecodeElements {
            bits: Bits::new(packet),
            config: &self.config,
            planes: &mut self.planes,
        };
        self.arch.dispatch(run)?;
        let places = PLACES.get(self.planes.len().checked_sub(1)?)?;
        let mut planes = [&[][..]; MAX_CHANNELS as usize];
        for (plane, &place) in self.planes.iter().zip(*places) {
            *planes.get_mut(place)? = plane;
        }
        Some(planes)
    }
}

/// All elements of a packet, compiled for each instruction set.
struct DecodeElements<'a> {
    bits: Bits<'a>,
    config: &'a Config,
    planes: &'a mut [Vec<i32>],
}

impl WithSimd for DecodeElements<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<()> {
        let Self { mut bits, config, mut planes } = self;
        let mut n_frames = None;
        while !planes.is_empty() {
            let element = bits.take(3)?;
            let n_planes = match element {
                0 | 3 => 1,
                1 => 2,
                4 => {
                    data_stream(&mut bits)?;
                    continue;
                }
                6 => {
                    fill(&mut bits)?;
                    continue;
                }
                // Coupling and programmes, which nobody writes, and an end before its time.
                _ => return None,
            };
            let (own, rest) = planes.split_at_mut_checked(n_planes)?;
            planes = rest;
            let len = channels(&mut bits, config, own)?;
            if n_frames.replace(len).is_some_and(|other| other != len) {
                return None;
            }
        }
        Some(())
    }
}

fn data_stream(bits: &mut Bits<'_>) -> Option<()> {
    bits.take(4)?;
    let is_aligned = bits.take(1)? == 1;
    let mut n_bytes = bits.take(8)?;
    if n_bytes == 255 {
        n_bytes += bits.take(8)?;
    }
    if is_aligned {
        bits.take(bits.n_left() as u32 % 8)?;
    }
    bits.split_off(8 * n_bytes as usize).map(|_| ())
}

fn fill(bits: &mut Bits<'_>) -> Option<()> {
    let mut n_bytes = bits.take(4)?;
    if n_bytes == 15 {
        n_bytes = 14 + bits.take(8)?;
    }
    bits.split_off(8 * n_bytes as usize).map(|_| ())
}

/// Decodes one element into its one or two planes, and gives their length.
#[inline(always)]
fn channels(bits: &mut Bits<'_>, config: &Config, planes: &mut [Vec<i32>]) -> Option<u32> {
    bits.take(4)?; // which of its kind it is
    if bits.take(12)? != 0 {
        return None;
    }
    let is_partial = bits.take(1)? == 1;
    // Low bits that are not predicted.
    let n_low = bits.take(2)? * 8;
    let is_verbatim = bits.take(1)? == 1;
    if n_low >= 24 || n_low >= config.bits {
        return None;
    }
    let len = if is_partial { bits.take(32)? } else { config.frame_len };
    if len > config.frame_len {
        return None;
    }
    for plane in &mut *planes {
        plane.resize(len as usize, 0);
    }
    if is_verbatim {
        verbatim(bits, config.bits, planes)?;
    } else {
        predicted(bits, config, n_low, planes)?;
    }
    Some(len)
}

/// Samples as predictors and what they are off by.
#[inline(always)]
fn predicted(
    bits: &mut Bits<'_>,
    config: &Config,
    n_low: u32,
    planes: &mut [Vec<i32>],
) -> Option<()> {
    // The difference of two channels has a bit more.
    let is_pair = planes.len() == 2;
    let n_bits = config.bits - n_low + u32::from(is_pair);
    let mix = Mix { shift: bits.take(8)?, weight: bits.take_signed(8)? };
    let is_mixed = mix.weight != 0;
    if n_bits > 32 || is_mixed && mix.shift > 31 || !is_pair && (is_mixed || mix.shift > 0) {
        return None;
    }
    let first = Channel::read(bits, config)?;
    let second = if is_pair { Some(Channel::read(bits, config)?) } else { None };
    let n_samples: usize = planes.iter().map(Vec::len).sum();
    let mut low = bits.split_off(n_samples * n_low as usize)?;
    for (channel, plane) in [Some(first), second].iter().flatten().zip(&mut *planes) {
        golomb::read(bits, config, channel.pace, n_bits, plane)?;
        channel.predictor.restore(n_bits, plane);
    }
    let shift = 32 - config.bits;
    match planes {
        [plane] if n_low == 0 => plane.iter_mut().for_each(|x| *x = x.wrapping_shl(shift)),
        [plane] => {
            for x in plane {
                *x = (*x << n_low | low.take(n_low)?.cast_signed()).wrapping_shl(shift);
            }
        }
        [left, right] => {
            let pairs = left.iter_mut().zip(right);
            if n_low == 0 {
                for (left, right) in pairs {
                    let (l, r) = mix.undo(*left, *right);
                    (*left, *right) = (l.wrapping_shl(shift), r.wrapping_shl(shift));
                }
            } else {
                for (left, right) in pairs {
                    let (l, r) = mix.undo(*left, *right);
                    *left = (l << n_low | low.take(n_low)?.cast_signed()).wrapping_shl(shift);
                    *right = (r << n_low | low.take(n_low)?.cast_signed()).wrapping_shl(shift);
                }
            }
        }
        _ => return None,
    }
    Some(())
}

/// Samples as they are, all channels of a frame together.
fn verbatim(bits: &mut Bits<'_>, n_bits: u32, planes: &mut [Vec<i32>]) -> Option<()> {
    let shift = 32 - n_bits;
    let mut take = || Some(bits.take(n_bits)?.wrapping_shl(shift).cast_signed());
    match planes {
        [left, right] => left.iter_mut().zip(right).try_for_each(|(left, right)| {
            (*left, *right) = (take()?, take()?);
            Some(())
        }),
        planes => planes.iter_mut().flatten().try_for_each(|x| {
            *x = take()?;
            Some(())
        }),
    }
}

/// How much of the second channel went out of the first.
#[derive(Clone, Copy, Debug)]
struct Mix {
    shift: u32,
    weight: i32,
}

impl Mix {
    /// Left and right.
    #[inline(always)]
    fn undo(self, a: i32, b: i32) -> (i32, i32) {
        if self.weight == 0 {
            return (a, b);
        }
        let left = a.wrapping_add(b).wrapping_sub(b.wrapping_mul(self.weight) >> self.shift);
        (left, left.wrapping_sub(b))
    }
}

/// What a packet says of a channel.
#[derive(Clone, Debug)]
struct Channel {
    predictor: Predictor,
    pace: u32,
}

impl Channel {
    fn read(bits: &mut Bits<'_>, config: &Config) -> Option<Self> {
        let mode = bits.take(4)?;
        let shift = bits.take(4)?;
        let pace = (bits.take(3)? * config.pace) >> 2;
        let order = bits.take(5)? as usize;
        let mut taps = [0; MAX_ORDER];
        for tap in taps.get_mut(..order)? {
            *tap = bits.take(16)? as i16;
        }
        // No other mode was ever defined.
        let is_twice = mode == 15;
        (mode == 0 || is_twice).then_some(())?;
        Some(Self { predictor: Predictor { taps, order, shift, is_twice }, pace })
    }
}
