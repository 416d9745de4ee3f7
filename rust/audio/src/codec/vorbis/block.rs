//! From a packet to the spectra of its channels, Vorbis I sections 4.3.2 to 4.3.6.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::{
    bits::Bits,
    floor::Outline,
    residue::{Kind, Passes},
    setup::{Mapping, Mode, Setup, Step, Submap},
    transform::Spectrum,
};
use crate::limits::MAX_CHANNELS;

#[derive(Clone, Debug, Default)]
struct Channel {
    outline: Outline,
    /// The residue, and what it is to be multiplied by.
    residue: Vec<f32>,
    curve: Vec<f32>,
    /// Whether its residue is coded. It may be where there is no floor, if it is coupled.
    is_coded: bool,
}

/// The channels of one block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Lines of a spectrum.
    n_lines: usize,
    channels: Vec<Channel>,
    /// The residues of several channels, interleaved.
    interleaved: Vec<f32>,
    passes: Passes,
}

impl Block {
    pub(super) fn new(n_channels: usize, n_long: usize) -> Self {
        let zeros = vec![0.0; n_long];
        let channel = Channel { residue: zeros.clone(), curve: zeros, ..Channel::default() };
        let channels = vec![channel; n_channels];
        Self { n_lines: 0, channels, interleaved: Vec::new(), passes: Passes::default() }
    }

    /// About how many bytes it takes besides samples.
    pub(super) fn n_bytes(&self) -> usize {
        self.passes.iter().map(|pending| 4 * pending.capacity()).sum()
    }

    /// The spectrum of a channel, if there is any sound in it: its residue and its floor.
    pub(super) fn spectrum(&self, channel: usize) -> Option<Spectrum<'_>> {
        let Channel { outline, residue, curve, .. } = self.channels.get(channel)?;
        let (residue, curve) = (residue.get(..self.n_lines)?, curve.get(..self.n_lines)?);
        outline.is_drawn().then_some(Spectrum { residue, curve })
    }

    /// Reads a packet behind its first bits. `None` is never due to what packets hold.
    #[inline(always)]
    pub(super) fn read(&mut self, setup: &Setup, mode: Mode, bits: &mut Bits<'_>) -> Option<()> {
        let mapping = setup.mappings.get(mode.mapping)?;
        self.n_lines = setup.ident.block_len(mode.is_long) / 2;
        for (channel, &submap) in self.channels.iter_mut().zip(&mapping.submap_of) {
            let floor = setup.floors.get(mapping.submaps.get(submap)?.floor)?;
            floor.decode(bits, &setup.books, &mut channel.outline);
            channel.is_coded = channel.outline.is_drawn();
        }
        self.propagate(mapping);
        for submap in &mapping.submaps {
            self.residue(setup, mapping, submap, bits);
        }
        if !mapping.is_joint_stereo {
            mapping.steps.iter().rev().for_each(|step| self.uncouple(*step));
        }
        for (channel, &submap) in self.channels.iter_mut().zip(&mapping.submap_of) {
            if channel.outline.is_drawn() {
                let floor = setup.floors.get(mapping.submaps.get(submap)?.floor)?;
                let curve = channel.curve.get_mut(..self.n_lines)?;
                floor.draw(&channel.outline, mode.is_long, curve);
            }
        }
        Some(())
    }

    /// Section 4.3.3: of coupled channels both are coded, or none.
    fn propagate(&mut self, mapping: &Mapping) {
        for step in &mapping.steps {
            let is_coded = [step.magnitude, step.angle]
                .iter()
                .any(|&channel| self.channels.get(channel).is_some_and(|c| c.is_coded));
            for channel in [step.magnitude, step.angle] {
                if let Some(channel) = self.channels.get_mut(channel) {
                    channel.is_coded = is_coded;
                }
            }
        }
    }

    /// Section 4.3.4. Where the packet ends, what was read so far counts.
    #[inline(always)]
    fn residue(
        &mut self,
        setup: &Setup,
        mapping: &Mapping,
        submap: &Submap,
        bits: &mut Bits<'_>,
    ) -> Option<()> {
        let residue = setup.residues.get(submap.residue)?;
        let Self { n_lines, channels, interleaved, passes, .. } = self;
        let is_coded = |&i: &usize| channels.get(i).is_some_and(|channel| channel.is_coded);
        if residue.kind == Kind::Interleaved && submap.channels.iter().any(is_coded) {
            interleaved.clear();
            interleaved.resize(*n_lines * submap.channels.len(), 0.0);
            residue.decode(bits, &setup.books, &mut [interleaved.as_mut_slice()], passes);
            if mapping.is_joint_stereo {
                part_stereo(interleaved, channels);
            } else {
                deinterleave(interleaved, *n_lines, &submap.channels, channels);
            }
            return Some(());
        }
        let mut vectors = <[&mut [f32]; MAX_CHANNELS as usize]>::default();
        let mut n = 0;
        for (i, channel) in channels.iter_mut().enumerate() {
            if submap.channels.contains(&i) {
                let vector = channel.residue.get_mut(..*n_lines)?;
                vector.fill(0.0);
                if channel.is_coded {
                    *vectors.get_mut(n)? = vector;
                    n += 1;
                }
            }
        }
        residue.decode(bits, &setup.books, vectors.get_mut(..n)?, passes)
    }

    /// Section 4.3.5: magnitude and angle become two channels again.
    #[inline(always)]
    fn uncouple(&mut self, Step { magnitude, angle }: Step) {
        let n = self.n_lines;
        let pair = self.channels.get_disjoint_mut([magnitude, angle]);
        let Ok([Channel { residue: magnitudes, .. }, Channel { residue: angles, .. }]) = pair
        else {
            return;
        };
        for (magnitude, angle) in magnitudes.iter_mut().zip(angles).take(n) {
            (*magnitude, *angle) = uncoupled(*magnitude, *angle);
        }
    }
}

#[inline(always)]
fn uncoupled(m: f32, a: f32) -> (f32, f32) {
    // Towards 0 from the magnitude, whose channel it is tells the sign of the angle.
    let other = if m > 0.0 { m - a.abs() } else { m + a.abs() };
    if a > 0.0 { (m, other) } else { (other, m) }
}

/// Deinterleaves the residues of some channels.
fn deinterleave(interleaved: &[f32], n_lines: usize, which: &[usize], channels: &mut [Channel]) {
    for (k, &channel) in which.iter().enumerate() {
        let Some(channel) = channels.get_mut(channel) else { return };
        let from = interleaved.iter().skip(k).step_by(which.len());
        channel.residue.iter_mut().take(n_lines).zip(from).for_each(|(to, x)| *to = *x);
    }
}

/// Deinterleaves and uncouples two channels, which is faster in one pass.
#[inline(always)]
fn part_stereo(interleaved: &[f32], channels: &mut [Channel]) {
    let [left, right] = channels else { return };
    let to = left.residue.iter_mut().zip(&mut right.residue);
    for ((left, right), [magnitude, angle]) in to.zip(interleaved.as_chunks().0) {
        (*left, *right) = uncoupled(*magnitude, *angle);
    }
}
