//! From a container to a plan: opens it, and decides what is decoded of it and what comes out.

use crate::{
    Decoder, Reason,
    decoder::plan::{Frames, Outline, Plan},
    demux::container::{Container, Input},
    info::AudioInfo,
    report::{DecodeReport, Ledger},
    sink::Mix,
    spec::AudioSpec,
    stream::Recording,
};

impl Decoder {
    /// Plans with a ledger that decides whether damage is an error. The container begins at `at`.
    pub(crate) fn plan_as(
        &mut self,
        bytes: &[u8],
        (container, at): (&dyn Container, usize),
        spec: &AudioSpec,
        draw: u64,
        mut ledger: Ledger,
    ) -> Result<Plan, Reason> {
        let input = Input { bytes, at, cancel: &self.cancel };
        let mut recording = container.open(input, &mut self.scratch, &mut ledger)?;
        if recording.info().n_frames == 0 {
            return Err(Reason::NoFrames);
        }
        let outline = Outline::new(recording.info(), bytes.len() as u64, spec, draw)?;
        recording.seek(bytes, &outline.frames.input, &mut self.scratch)?;
        let plan = outline.plan(recording, spec, &ledger);
        Ok(Plan { is_salvaged: ledger.is_lenient(), ..plan })
    }
}

impl Outline {
    /// Decides it for a recording of `n_bytes`, within the limits.
    pub(crate) fn new(
        info: AudioInfo,
        n_bytes: u64,
        spec: &AudioSpec,
        draw: u64,
    ) -> Result<Self, Reason> {
        let info = spec.limits.check(info, n_bytes)?;
        let (mix, n_channels) = Mix::choose(spec.channels, info.n_channels)?;
        let frames = Frames::new(&info, spec, draw)?;
        spec.limits.check_decoded(frames.n_out, frames.n_window(), n_channels)?;
        Ok(Self { info, mix, n_channels, frames })
    }

    /// The plan to decode it from `recording`, of which opening found what is in the ledger.
    pub(crate) fn plan(
        self,
        recording: Box<dyn Recording>,
        spec: &AudioSpec,
        ledger: &Ledger,
    ) -> Plan {
        let Self { info, mix, n_channels, frames } = self;
        let n_wanted = if frames.n_out == 0 { 0 } else { frames.input.end - frames.input.start };
        let report = DecodeReport {
            frames_promised: info.n_frames,
            frames_wanted: n_wanted,
            damage: ledger.counts(),
            notes: ledger.notes(),
            ..DecodeReport::default()
        };
        Plan {
            info,
            recording,
            frames,
            rate_hz: spec.rate_hz.unwrap_or(info.rate_hz),
            n_channels,
            pad: spec.pad,
            mix,
            sample_type: spec.sample_type,
            strict: spec.strict,
            is_salvaged: false,
            report,
            time_left: None,
        }
    }
}
