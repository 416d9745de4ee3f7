//! A decoder of Vorbis I: packets to planes.
//!
//! What a packet gives depends on it and on the packet before it, of which the half is kept that
//! overlaps, and on nothing else. So a decoder that begins one packet early has the bits of one that
//! began with the stream. `docs/decisions/vorbis.md` has more.

// All that `pulp` dispatches to must be inlined into the function that it compiles for an instruction set.
#![allow(clippy::inline_always)]

mod bits;
mod block;
mod cache;
mod codebook;
mod codes;
mod decibels;
mod fields;
mod floor;
mod floor0;
mod floor1;
mod ident;
mod packets;
mod residue;
mod setup;
#[cfg(test)]
mod tests;
mod transform;
#[cfg(test)]
mod writer;

use pulp::{Simd, WithSimd};

use self::{
    bits::{Bits, width},
    block::Block,
    setup::{Mode, Setup},
    transform::{Scratch, Transform},
};
use crate::{codec::opus::PLANES, error::Reason};

pub(crate) use cache::Cache;
pub(crate) use ident::{Ident, Modes};
pub(crate) use packets::track;

/// What a channel keeps from block to block.
#[derive(Clone, Debug)]
struct Memory {
    /// The third quarter of the last block, and the first and third of the next one.
    overlap: Vec<f32>,
    first: Vec<f32>,
    third: Vec<f32>,
}

/// Decodes the packets of one stream in their order.
#[derive(Debug)]
pub(crate) struct Decoder {
    arch: pulp::Arch,
    setup: Setup,
    /// For short and long blocks.
    transforms: [std::sync::Arc<Transform>; 2],
    block: Block,
    scratch: Scratch,
    channels: Vec<Memory>,
    /// Whether the last block was a long one; `None` where none came before.
    last: Option<bool>,
    planes: Vec<Vec<f32>>,
}

impl Decoder {
    /// A decoder for a stream with these headers: identification and setup, one after the other.
    fn new(
        headers: &[u8],
        mut transform: impl FnMut(u32) -> std::sync::Arc<Transform>,
    ) -> Result<Self, Reason> {
        let setup = Setup::read(headers)?;
        let n_channels = usize::from(setup.ident.n_channels);
        if n_channels > PLANES.len() {
            return Err(Reason::malformed("the Vorbis stream has more than 8 channels"));
        }
        let [short, long] = setup.ident.block_lens;
        let quarter = vec![0.0; long as usize / 4];
        let memory = Memory { overlap: quarter.clone(), first: quarter.clone(), third: quarter };
        Ok(Self {
            arch: pulp::Arch::new(),
            transforms: [short, long].map(&mut transform),
            block: Block::new(n_channels, long as usize / 2),
            scratch: Scratch::default(),
            channels: vec![memory; n_channels],
            last: None,
            planes: vec![Vec::new(); n_channels],
            setup,
        })
    }

    /// Forgets the packets that came before.
    pub(crate) fn reset(&mut self) {
        self.last = None;
    }

    /// Whether the next packet is the first one.
    pub(crate) fn is_new(&self) -> bool {
        self.last.is_none()
    }

    /// Decodes a packet; one plane a channel, in the order of WAV files. The first packet gives planes
    /// without frames, and `None` is one that is corrupt. What ends early is not: the rest is silent.
    pub(crate) fn decode(&mut self, packet: &[u8]) -> Option<&[Vec<f32>]> {
        let mut bits = Bits::new(packet);
        if bits.flag()? {
            return None;
        }
        let n_modes = self.setup.modes.len();
        let mode = *self.setup.modes.get(bits.read(width(n_modes as u32 - 1))? as usize)?;
        if mode.is_long {
            bits.read(2)?; // what the neighbours are, which they say themselves
        }
        self.arch.dispatch(DecodePacket { decoder: self, bits, mode })?;
        Some(&self.planes)
    }

    /// About how many bytes it takes.
    fn n_bytes(&self) -> usize {
        let samples = self.channels.len() * 16 * self.setup.ident.block_lens[1] as usize;
        self.setup.n_bytes() + self.block.n_bytes() + samples
    }
}

/// The decoding of a packet, compiled for each instruction set.
struct DecodePacket<'a, 'b> {
    decoder: &'a mut Decoder,
    bits: Bits<'b>,
    mode: Mode,
}

impl WithSimd for DecodePacket<'_, '_> {
    type Output = Option<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> Option<()> {
        let Self { decoder, mode, .. } = self;
        let Decoder { setup, transforms, block, scratch, channels, last, planes, .. } = decoder;
        block.read(setup, mode, &mut self.bits)?;
        let [short, long] = transforms;
        let transform = if mode.is_long { &long } else { &short };
        let was_long = last.replace(mode.is_long);
        let slope = if mode.is_long && was_long == Some(true) { &long } else { &short };
        let quarter = |is_long: bool| setup.ident.block_len(is_long) / 4;
        let order = PLANES.get(channels.len().checked_sub(1)?)?;
        for (i, (memory, &plane)) in channels.iter_mut().zip(*order).enumerate() {
            let Memory { overlap, first, third } = memory;
            let (first, third_now) =
                (first.get_mut(..quarter(mode.is_long))?, third.get_mut(..quarter(mode.is_long))?);
            if let Some(spectrum) = block.spectrum(i) {
                transform.run(simd, spectrum, scratch, first, third_now);
            } else {
                first.fill(0.0);
                third_now.fill(0.0);
            }
            let plane = planes.get_mut(plane)?;
            match was_long {
                Some(was_long) => slope.join(simd, overlap.get(..quarter(was_long))?, first, plane),
                None => plane.clear(),
            }
            std::mem::swap(overlap, third);
        }
        Some(())
    }
}
