//! Crops from parts of a recording: which bytes are needed, and decoding those.

use std::{borrow::Cow, ops::Range};

use crate::{
    decoder::{
        Decoder,
        plan::{Outline, Plan},
    },
    error::{DecodeError, Reason},
    info::AudioInfo,
    memory,
    report::{Counts, Damage, DecodeReport},
    seek::Entry,
    spec::{AudioSpec, Strict},
    stream::{About, Part, Scratch},
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
    /// About how many bytes a part would save of a recording of `n_bytes`, by the lengths alone; 0 if the
    /// recording would be read whole in any case.
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
    /// The entry of a recording that was opened and planned with this scratch memory; `None` if
    /// something was wrong with it.
    fn learn(bytes: &[u8], plan: &Plan, scratch: &mut Scratch) -> Option<Self> {
        let mut cut = Counts::default();
        cut.add(Damage::PartialFrame, 1);
        let is_cut = plan.report.damage == cut;
        let is_sound = !plan.is_salvaged && (is_cut || plan.report.damage.is_empty());
        if !is_sound {
            return None;
        }
        let about = About { info: plan.info, n_bytes: bytes.len() as u64 };
        let table = || plan.recording.seek_table(bytes, scratch);
        Self::new(about, is_cut, plan.report.notes, table)
    }

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
        let entry = self.contained(|decoder| Ok(Entry::learn(bytes, &plan, &mut decoder.scratch)));
        Ok((plan, entry.unwrap_or_default()))
    }

    /// Decides from a recording's entry what a row's result will be, and which of its bytes that needs.
    ///
    /// `None` if the whole recording must be read and planned:
    /// - it has less than 64 KiB, or the crop needs most of it, so that a part would save nothing;
    /// - something is wrong with the entry or with the crop, and only the whole recording tells what.
    ///
    /// ```
    /// use gristmill_audio::{AudioSpec, Crop, Decoder, Entry};
    /// # let mut bytes = b"RIFF\x24\x71\x02\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1F\0\0\x80\x3E\0\0\x02\0\x10\0data\0\x71\x02\0".to_vec();
    /// # bytes.resize(44 + 160_000, 0);
    /// let crop = Crop::At { start: 4.0, seconds: Some(1.0) };
    /// let spec = AudioSpec { crop, ..AudioSpec::WHOLE };
    /// let mut decoder = Decoder::default();
    /// // Once, with all of a recording: ten seconds of WAV at 8 kHz.
    /// let (_, entry) = decoder.plan_and_learn(&bytes, &spec, 0)?;
    /// let stored = entry.expect("nothing is wrong with it").to_bytes();
    /// // From then on, with the bytes that a crop needs.
    /// let entry = Entry::from_bytes(&stored, &[]).expect("they were just written");
    /// let part = decoder.plan_part(&entry, &spec, 0).expect("it is a small part");
    /// assert_eq!((part.ranges().len(), part.n_bytes()), (1, 16_000));
    /// let range = &part.ranges()[0];
    /// let piece = &bytes[range.start as usize..range.end as usize];
    /// let mut out = vec![0; part.plan().n_bytes()];
    /// let report = decoder.render_part(&[piece], &part, &mut out)?;
    /// assert!(report.is_some_and(|report| report.frames_decoded == 8_000));
    /// # Ok::<(), gristmill_audio::DecodeError>(())
    /// ```
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
    /// `parts` are the bytes of [`PartPlan::ranges`]. `Ok(None)` if they are not what the entry says: then
    /// the whole recording must be read and planned, and the content of `out` is unspecified.
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
