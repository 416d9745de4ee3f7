//! From an entry and wishes to the bytes that are needed, and from those to samples.

use std::{borrow::Cow, ops::Range};

use super::{Entry, Part};
use crate::{
    DecodeError, Decoder, Reason,
    decoder::plan::{Outline, Plan},
    info::AudioInfo,
    memory,
    report::DecodeReport,
    spec::{AudioSpec, Strict},
};

/// A recording of fewer bytes is read whole: one request for all of it costs no more than one for a part.
const MIN_BYTES: u64 = 64 << 10;

/// The largest share of a recording that is worth being read as a part.
const MAX_SHARE: f64 = 0.6;

/// What [`Decoder::render_part`] will do for one row, decided from its entry alone.
#[derive(Debug)]
pub struct PartPlan {
    plan: Plan,
    ranges: Vec<Range<u64>>,
}

impl PartPlan {
    /// What comes out: the same as if the whole recording had been planned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The bytes of the recording that are needed, one or two ranges. They need not be in ascending
    /// order, and do not overlap.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// How many bytes that are.
    pub fn n_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }
}

impl Plan {
    /// About how many bytes of a recording of `n_bytes` a part of it would spare, by the lengths alone: 0
    /// where the recording would be read whole in any case.
    pub fn spared_bytes(&self, n_bytes: u64) -> u64 {
        let window = &self.frames.input;
        let n_wanted = window.end.saturating_sub(window.start);
        let share = n_wanted as f64 / self.info.n_frames.max(1) as f64;
        if n_bytes < MIN_BYTES || share > MAX_SHARE {
            return 0;
        }
        ((1.0 - share) * n_bytes as f64) as u64
    }
}

impl Entry {
    /// What [`Decoder::length`] would say of the recording; `None` where only the recording tells.
    pub fn length(&self, spec: &AudioSpec) -> Option<AudioInfo> {
        let limits = spec.limits.of_file();
        let whole = AudioSpec { limits, strict: spec.strict, ..AudioSpec::WHOLE };
        if self.is_refused(spec.strict) {
            return None;
        }
        limits.check_bytes(self.about.n_bytes).ok()?;
        let outline = Outline::new(self.about.info, self.about.n_bytes, &whole, 0);
        outline.ok().map(|outline| outline.info)
    }
}

impl Decoder {
    /// The same as [`Self::plan`], with the recording's entry, if nothing is wrong with it.
    ///
    /// # Errors
    /// Those of [`Self::plan`].
    pub fn plan_and_learn(
        &mut self,
        bytes: &[u8],
        spec: &AudioSpec,
        draw: u64,
    ) -> Result<(Plan, Option<Entry>), DecodeError> {
        let plan = self.plan(bytes, spec, draw)?;
        let entry = self.contained(|decoder| Ok(Entry::learn(bytes, &plan, &decoder.scratch)));
        Ok((plan, entry.unwrap_or_default()))
    }

    /// Decides from a recording's entry what a row's result will be, and which of its bytes that needs.
    ///
    /// `None`: the whole recording must be read and planned, or that costs no more. That is so of most
    /// crops out of less than 64 KiB, of those that need most of the recording, and where anything is
    /// wrong, be it with the entry or with what is asked for: the whole recording tells.
    pub fn plan_part(&mut self, entry: &Entry, spec: &AudioSpec, draw: u64) -> Option<PartPlan> {
        let about = entry.about;
        let table = entry.table.as_ref().filter(|_| about.n_bytes >= MIN_BYTES)?;
        if entry.is_refused(spec.strict) {
            return None;
        }
        spec.limits.check_bytes(about.n_bytes).ok()?;
        let outline = Outline::new(about.info, about.n_bytes, spec, draw).ok()?;
        let window = &outline.frames.input;
        if outline.frames.n_out == 0 || window.is_empty() || window.end > about.info.n_frames {
            return None;
        }
        let part = self.contained(|_| Ok(table.part(&about, window)));
        let Part { ranges, recording } = part.ok().flatten()?;
        self.cancel.begin(spec.limits.max_decode_time);
        let plan = Plan {
            time_left: self.cancel.left(),
            // What is wrong with a part is for the whole recording to tell.
            strict: Strict::Strict,
            ..outline.plan(recording, spec, &entry.ledger())
        };
        let part = PartPlan { plan, ranges };
        (part.n_bytes() as f64 <= MAX_SHARE * about.n_bytes as f64).then_some(part)
    }

    /// Decodes a row from parts of its recording into `out`, as [`Self::render_bytes`] does from all of
    /// it: the same samples, and the same report.
    ///
    /// `parts` are the bytes of [`PartPlan::ranges`]. `Ok(None)`: they are not what they should be, and
    /// the whole recording must be read and planned. The content of `out` is then unspecified.
    ///
    /// # Errors
    /// [`Reason::WrongSlot`], [`Reason::Cancelled`] and [`Reason::OutOfMemory`], none of which is about
    /// the row.
    pub fn render_part(
        &mut self,
        parts: &[&[u8]],
        part: &PartPlan,
        out: &mut [u8],
    ) -> Result<Option<DecodeReport>, DecodeError> {
        let PartPlan { plan, ranges } = part;
        let is_right =
            |(part, range): (&&[u8], &Range<u64>)| part.len() as u64 == range.end - range.start;
        if parts.len() != ranges.len() || !parts.iter().zip(ranges).all(is_right) {
            return Ok(None);
        }
        let joined = join(parts).map_err(|reason| reason.of(plan.info.codec))?;
        match self.render_bytes(&joined, plan, out) {
            Ok(report) => {
                let opened = &plan.report;
                let is_same = (report.damage, report.notes) == (opened.damage, opened.notes);
                Ok(is_same.then_some(report))
            }
            Err(error) if error.reason.is_of_row() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// All parts one behind the other.
fn join<'a>(parts: &[&'a [u8]]) -> Result<Cow<'a, [u8]>, Reason> {
    if let [part] = parts {
        return Ok(Cow::Borrowed(part));
    }
    let mut joined = Vec::new();
    for part in parts {
        memory::extend(&mut joined, part)?;
    }
    Ok(Cow::Owned(joined))
}
