//! From a packet to the spectra of its channels, Vorbis I sections 4.3.2 to 4.3.6.

// What `pulp` compiles for an instruction set must be inlined into its function.
#![allow(clippy::inline_always)]

use super::{
    bits::Bits,
    floor::Outline,
    residue::Kind,
    setup::{Mapping, Mode, Setup, Step, Submap},
};
use crate::spec::MAX_CHANNELS;

#[derive(Clone, Debug, Default)]
struct Channel {
    outline: Outline,
    spectrum: Vec<f32>,
    /// Whether its residue is coded. It may be where there is no floor, if it is coupled.
    is_coded: bool,
}

/// The channels of one block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Lines of a spectrum.
    n_lines: usize,
    channels: Vec<Channel>,
    /// The residues of several channels in turns.
    turns: Vec<f32>,
    classes: Vec<u8>,
}

impl Block {
    pub(super) fn new(n_channels: usize, n_long: usize) -> Self {
        let channel = Channel { spectrum: vec![0.0; n_long], ..Channel::default() };
        let channels = vec![channel; n_channels];
        Self { n_lines: 0, channels, turns: Vec::new(), classes: Vec::new() }
    }

    /// The spectrum of a channel, if there is any sound in it.
    pub(super) fn spectrum(&self, channel: usize) -> Option<&[f32]> {
        let channel = self.channels.get(channel)?;
        if channel.outline.is_drawn() { channel.spectrum.get(..self.n_lines) } else { None }
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
            channel.spectrum.get_mut(..self.n_lines)?.fill(0.0);
        }
        self.propagate(mapping);
        for submap in &mapping.submaps {
            self.residue(setup, submap, bits);
        }
        for step in mapping.steps.iter().rev() {
            self.uncouple(*step);
        }
        for (channel, &submap) in self.channels.iter_mut().zip(&mapping.submap_of) {
            if channel.outline.is_drawn() {
                let floor = setup.floors.get(mapping.submaps.get(submap)?.floor)?;
                let spectrum = channel.spectrum.get_mut(..self.n_lines)?;
                floor.apply(&channel.outline, mode.is_long, spectrum);
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
    fn residue(&mut self, setup: &Setup, submap: &Submap, bits: &mut Bits<'_>) -> Option<()> {
        let residue = setup.residues.get(submap.residue)?;
        let Self { n_lines, channels, turns, classes, .. } = self;
        let is_coded = |&i: &usize| channels.get(i).is_some_and(|channel| channel.is_coded);
        if residue.kind == Kind::Interleaved {
            if submap.channels.iter().any(is_coded) {
                turns.clear();
                turns.resize(*n_lines * submap.channels.len(), 0.0);
                residue.decode(bits, &setup.books, &mut [turns.as_mut_slice()], classes);
                part(turns, *n_lines, &submap.channels, channels);
            }
            return Some(());
        }
        let mut vectors: [&mut [f32]; MAX_CHANNELS as usize] = std::array::from_fn(|_| &mut [][..]);
        let mut n = 0;
        for (i, channel) in channels.iter_mut().enumerate() {
            if channel.is_coded && submap.channels.contains(&i) {
                *vectors.get_mut(n)? = channel.spectrum.get_mut(..*n_lines)?;
                n += 1;
            }
        }
        residue.decode(bits, &setup.books, vectors.get_mut(..n)?, classes)
    }

    /// Section 4.3.5: magnitude and angle become two channels again.
    #[inline(always)]
    fn uncouple(&mut self, Step { magnitude, angle }: Step) {
        let n = self.n_lines;
        let pair = self.channels.get_disjoint_mut([magnitude, angle]);
        let Ok([Channel { spectrum: magnitudes, .. }, Channel { spectrum: angles, .. }]) = pair
        else {
            return;
        };
        for (magnitude, angle) in magnitudes.iter_mut().zip(angles).take(n) {
            let (m, a) = (*magnitude, *angle);
            // Towards 0 from the magnitude, whose channel it is tells the sign of the angle.
            let other = if m > 0.0 { m - a.abs() } else { m + a.abs() };
            (*magnitude, *angle) = if a > 0.0 { (m, other) } else { (other, m) };
        }
    }
}

/// Gives the values of channels that come in turns to each.
#[inline(always)]
fn part(turns: &[f32], n_lines: usize, which: &[usize], channels: &mut [Channel]) {
    if let [left, right] = *which
        && let Ok([left, right]) = channels.get_disjoint_mut([left, right])
    {
        let to = left.spectrum.iter_mut().zip(&mut right.spectrum).take(n_lines);
        turns.as_chunks().0.iter().zip(to).for_each(|([l, r], to)| (*to.0, *to.1) = (*l, *r));
        return;
    }
    for (k, &channel) in which.iter().enumerate() {
        let Some(channel) = channels.get_mut(channel) else { return };
        let from = turns.iter().skip(k).step_by(which.len());
        channel.spectrum.iter_mut().take(n_lines).zip(from).for_each(|(to, x)| *to = *x);
    }
}
