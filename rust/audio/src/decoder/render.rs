//! From a plan to samples: decodes what is needed, resamples it, and pads the rest.

use std::{sync::Arc, time::Instant};

use crate::{
    Decoder, Reason, contained,
    decoder::plan::Plan,
    memory,
    report::{Counts, Damage, DecodeReport, Notes},
    resample::{self, Filter, Tables},
    sink::{Sink, all_finite},
    spec::{Pad, Strict},
    stream::Scratch,
};

/// Scratch memory above this many samples is given back after a row.
const MAX_KEPT_SAMPLES: usize = 4 << 20;

/// How much was decoded, and what was wrong with it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Came {
    pub(crate) n_decoded: u64,
    pub(crate) damage: Counts,
    pub(crate) notes: Notes,
}

impl Decoder {
    /// Renders the row: with the first damage as an error, or as much of it as there is.
    pub(crate) fn render_as(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        out: &mut [f32],
        strict: Strict,
    ) -> Result<DecodeReport, Reason> {
        if out.len() != plan.n_samples() {
            return Err(Reason::WrongSlot { expected: plan.n_samples(), found: out.len() });
        }
        let frames = &plan.frames;
        let n_out = frames.n_out;
        let is_lenient = strict == Strict::Lenient;
        if n_out == 0 {
            return Ok(plan.report);
        }
        let n_crop = (frames.crop.end - frames.crop.start) as usize;
        let (mut n_zeroed, mut is_finite) = (0, true);
        let came;
        if let Some(filter) = frames.filter {
            let mut window = std::mem::take(&mut self.window);
            came = self.decode_window(bytes, plan, &mut window, strict)?;
            if is_lenient {
                // Before the filter spreads them.
                n_zeroed += zero_non_finite(&mut window);
            }
            let began = Instant::now();
            let tables = self.resampler(filter);
            let mut blocks = std::mem::take(&mut self.blocks);
            let len = window.len() / usize::from(plan.n_channels).max(1);
            let planes = window.chunks(len.max(1)).zip(out.chunks_mut(n_out));
            for (x, plane) in planes {
                let plane = plane.get_mut(..n_crop).unwrap_or_default();
                tables.resample(frames.crop.start, x, plane, &mut blocks, &self.cancel)?;
                is_finite &= all_finite(Some(plane));
            }
            self.blocks = blocks;
            self.resampling += began.elapsed();
            if window.len() <= MAX_KEPT_SAMPLES {
                self.window = window;
            }
        } else {
            let sink = Sink::new(out, n_out, plan.mix, frames.input.start, n_crop);
            let mut sink = sink.with(strict);
            came = self.decode(bytes, plan, &mut sink)?;
            is_finite = sink.is_finite();
        }
        for plane in out.chunks_mut(n_out) {
            if is_lenient {
                n_zeroed += zero_non_finite(plane.get_mut(..n_crop).unwrap_or_default());
            }
        }
        if !is_lenient && !is_finite {
            return Err(Reason::NonFinite);
        }
        for plane in out.chunks_mut(n_out) {
            fill_rest(plane, n_crop, plan.pad);
        }
        let mut damage = plan.report.damage.with(&came.damage);
        damage.add(Damage::NonFinite, n_zeroed);
        let notes = plan.report.notes.with(&came.notes);
        Ok(DecodeReport { frames_decoded: came.n_decoded, damage, notes, ..plan.report })
    }

    /// Decodes the input of the resampler, with zeros where it reaches over the ends.
    fn decode_window(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        window: &mut Vec<f32>,
        strict: Strict,
    ) -> Result<Came, Reason> {
        let frames = &plan.frames;
        let n_input = (frames.input.end - frames.input.start) as usize;
        let (before, after) = frames.zeros;
        let len = before + n_input + after;
        memory::zeros(window, len.saturating_mul(usize::from(plan.n_channels)))?;
        if n_input == 0 {
            return Ok(Came::default());
        }
        let planes = window.get_mut(before..).unwrap_or_default();
        let sink = Sink::new(planes, len, plan.mix, frames.input.start, n_input);
        self.decode(bytes, plan, &mut sink.with(strict))
    }

    /// Fills the sink. If that fails, and decoding did not begin with the recording, it begins there and tries
    /// once more.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        sink: &mut Sink<'_>,
    ) -> Result<Came, Reason> {
        if sink.is_lenient() {
            return self.salvage(bytes, plan, sink);
        }
        let may_restart = plan.recording.may_restart();
        let mut result = self.attempt(bytes, plan, false, sink).and_then(|()| whole(plan, sink));
        if may_restart && result.as_ref().is_err_and(|reason| *reason != Reason::Cancelled) {
            sink.restart();
            result = self.attempt(bytes, plan, true, sink).and_then(|()| whole(plan, sink));
        }
        result.map(|()| came(sink))
    }

    /// Fills the sink with what there is, from the very start on, and with zeros.
    fn salvage(&mut self, bytes: &[u8], plan: &Plan, sink: &mut Sink<'_>) -> Result<Came, Reason> {
        // Unwind safety: after a panic the decoders are replaced, and the sink holds whole frames.
        let attempt = || self.attempt(bytes, plan, true, &mut *sink);
        if let Ok(result) = contained(attempt) {
            result?;
        } else {
            self.scratch = Scratch::default();
            sink.ledger().mark(Damage::DecoderPanics, 1);
        }
        sink.fill_rest();
        Ok(came(sink))
    }

    fn attempt(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        from_start: bool,
        sink: &mut Sink<'_>,
    ) -> Result<(), Reason> {
        let Self { scratch, cancel, .. } = self;
        plan.recording.decode(bytes, from_start, scratch, sink, cancel)
    }

    fn resampler(&mut self, filter: Filter) -> Arc<Tables> {
        match &self.resampler {
            Some(tables) if tables.filter == filter => Arc::clone(tables),
            _ => Arc::clone(self.resampler.insert(resample::shared(filter))),
        }
    }
}

fn came(sink: &mut Sink<'_>) -> Came {
    let (damage, notes) = (sink.ledger().counts(), sink.ledger().notes());
    Came { n_decoded: sink.n_decoded(), damage, notes }
}

/// Whether all frames came.
fn whole(plan: &Plan, sink: &Sink<'_>) -> Result<(), Reason> {
    if sink.is_full() {
        Ok(())
    } else if sink.has_gap() {
        Err(Reason::CorruptPackets { count: 1 })
    } else {
        Err(Reason::Truncated { decoded: sink.next(), expected: Some(plan.info.n_frames) })
    }
}

/// Makes 0 of samples that are NaN or infinite, and counts them.
fn zero_non_finite(samples: &mut [f32]) -> u64 {
    let mut n_zeroed = 0;
    for x in samples.iter_mut().filter(|x| !x.is_finite()) {
        *x = 0.0;
        n_zeroed += 1;
    }
    n_zeroed
}

/// Fills the rest of a plane.
fn fill_rest(plane: &mut [f32], n_crop: usize, pad: Pad) {
    let (crop, rest) = plane.split_at_mut_checked(n_crop).unwrap_or_default();
    if pad == Pad::Repeat && n_crop > 0 {
        for chunk in rest.chunks_mut(n_crop) {
            chunk.iter_mut().zip(crop.iter()).for_each(|(to, from)| *to = *from);
        }
    } else {
        rest.fill(0.0);
    }
}
