//! Whether a recording is whole: all of it decoded and thrown away, or its checksums alone.

use crate::{
    AudioSpec, DecodeError, Decoder, Entry, Limits, Reason, Strict,
    decoder::plan::Plan,
    info::AudioInfo,
    report::{Damage, DecodeReport},
    sink::Sink,
};

/// How much of a recording is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Headers and framing, and the checksums of Ogg pages and native FLAC frames. Other formats
    /// have no checksums that are looked at.
    Checksums,
    /// Every frame, as decoding the whole recording would find it.
    Decode,
}

/// What [`Decoder::check`] found in a recording that can be decoded at least in part.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What its headers say, as far as damage lets them.
    pub info: AudioInfo,
    /// The counts of damage and notes. With [`Depth::Checksums`] no frame is wanted.
    pub report: DecodeReport,
    /// What decoding the whole recording would end in where damage is an error; `None` if it is
    /// sound.
    pub error: Option<DecodeError>,
}

impl Decoder {
    /// Looks at a whole recording and keeps nothing of it.
    ///
    /// Takes the time of decoding a sound recording once, and a damaged one about twice. No memory
    /// is taken for samples, however long the recording.
    ///
    /// ```
    /// use gristmill_audio::{Decoder, Depth, Limits, Reason};
    /// # let mut bytes = b"RIFF\xA4\x3E\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1F\0\0\x80\x3E\0\0\x02\0\x10\0data\x80\x3E\0\0".to_vec();
    /// # bytes.resize(44 + 16_000, 0);
    /// bytes.truncate(12_044); // of a second of WAV at 8 kHz
    /// let checked = Decoder::default().check(&bytes, Limits::DEFAULT, Depth::Decode)?;
    /// let truncated = Reason::Truncated { decoded: 6_000, expected: Some(8_000) };
    /// assert_eq!(checked.error.map(|error| error.reason), Some(truncated));
    /// assert_eq!(checked.report.damage.iter().collect::<Vec<_>>(), [("truncated", 1), ("gaps", 1)]);
    /// # Ok::<(), gristmill_audio::DecodeError>(())
    /// ```
    ///
    /// # Errors
    /// Nothing of the recording can be decoded: no known format, not supported, a limit, or damage
    /// that leaves nothing that could be placed.
    pub fn check(
        &mut self,
        bytes: &[u8],
        limits: Limits,
        depth: Depth,
    ) -> Result<Checked, DecodeError> {
        self.check_with(bytes, limits, depth, &mut |decoder, spec| decoder.plan(bytes, spec, 0))
    }

    /// The same as [`Self::check`], with the recording's entry, as [`Self::plan_and_learn`] gives it.
    ///
    /// # Errors
    /// Those of [`Self::check`].
    pub fn check_and_learn(
        &mut self,
        bytes: &[u8],
        limits: Limits,
        depth: Depth,
    ) -> Result<(Checked, Option<Entry>), DecodeError> {
        let mut learned = None;
        let mut plan = |decoder: &mut Self, spec: &AudioSpec| {
            let (plan, entry) = decoder.plan_and_learn(bytes, spec, 0)?;
            learned = entry;
            Ok(plan)
        };
        let checked = self.check_with(bytes, limits, depth, &mut plan)?;
        Ok((checked, learned))
    }

    fn check_with(
        &mut self,
        bytes: &[u8],
        limits: Limits,
        depth: Depth,
        plan: &mut dyn FnMut(&mut Self, &AudioSpec) -> Result<Plan, DecodeError>,
    ) -> Result<Checked, DecodeError> {
        let strict = AudioSpec { limits: limits.keeping_nothing(), ..AudioSpec::WHOLE };
        let planned = plan(self, &strict);
        let error = match planned.and_then(|plan| self.examine(bytes, &plan, depth)) {
            Ok((info, report)) => return Ok(Checked { info, report, error: None }),
            Err(error) if error.reason.is_damage() => error,
            Err(error) => return Err(error),
        };
        let lenient = AudioSpec { strict: Strict::Lenient, ..strict };
        let planned = plan(self, &lenient);
        match planned.and_then(|plan| self.examine(bytes, &plan, depth)) {
            Ok((info, report)) => Ok(Checked { info, report, error: Some(error) }),
            // What was wrong at first says more than what is wrong with the rest.
            Err(other) => Err(if other.reason.is_damage() { error } else { other }),
        }
    }

    fn examine(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        depth: Depth,
    ) -> Result<(AudioInfo, DecodeReport), DecodeError> {
        self.cancel.begin(plan.time_left);
        let report = self.contained(|decoder| match depth {
            Depth::Checksums => decoder.verify(bytes, plan),
            Depth::Decode => decoder.discard(bytes, plan),
        });
        report.map(|report| (plan.info, report)).map_err(|reason| reason.of(plan.info.codec))
    }

    /// Decodes what is planned, and keeps nothing of it.
    fn discard(&mut self, bytes: &[u8], plan: &Plan) -> Result<DecodeReport, Reason> {
        let input = &plan.frames.input;
        if input.is_empty() {
            return Ok(plan.report);
        }
        let n_frames = (input.end - input.start) as usize;
        let mut sink = Sink::discarding(input.start, n_frames).with(plan.strict);
        let came = self.decode(bytes, plan, &mut sink)?;
        let n_non_finite = sink.n_non_finite();
        if n_non_finite > 0 && !plan.is_lenient() {
            return Err(Reason::NonFinite);
        }
        let mut damage = plan.report.damage.with(&came.damage);
        damage.add(Damage::NonFinite, n_non_finite);
        let notes = plan.report.notes.with(&came.notes);
        Ok(DecodeReport { frames_decoded: came.n_decoded, damage, notes, ..plan.report })
    }

    /// Looks at the checksums of what is planned.
    fn verify(&self, bytes: &[u8], plan: &Plan) -> Result<DecodeReport, Reason> {
        let count = plan.recording.n_broken(bytes, &self.cancel)?;
        if count > 0 && !plan.is_lenient() {
            return Err(Reason::CorruptPackets { count });
        }
        let mut damage = plan.report.damage;
        damage.add(Damage::Checksums, count);
        Ok(DecodeReport { frames_wanted: 0, damage, ..plan.report })
    }
}
