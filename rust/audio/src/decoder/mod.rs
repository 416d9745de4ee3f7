//! Plans and renders rows, with what is worth keeping between them.

mod check;
mod convert;
mod part;
pub(crate) mod plan;
mod planner;
pub(crate) mod render;
mod warm_up;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use crate::{
    DecodeError, Reason,
    cancel::Cancel,
    contained,
    demux::probe::find_container,
    info::AudioInfo,
    limits::Limits,
    report::{DecodeReport, Ledger},
    resample::{self, Tables},
    spec::{AudioSpec, Strict},
    stream::Scratch,
};

pub use check::{Checked, Depth};
pub use part::PartPlan;
pub use plan::Plan;
pub use warm_up::warm_up;

/// Reads the headers of a recording.
///
/// ```
/// # let mut bytes = b"RIFF\xA4\x3E\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1F\0\0\x80\x3E\0\0\x02\0\x10\0data\x80\x3E\0\0".to_vec();
/// # bytes.resize(44 + 16_000, 0);
/// let info = gristmill_audio::probe(&bytes)?; // a second of WAV at 8 kHz
/// assert_eq!((info.codec.name(), info.rate_hz, info.n_frames), ("WAV", 8_000, 8_000));
/// # Ok::<(), gristmill_audio::DecodeError>(())
/// ```
///
/// # Errors
/// The same as [`Decoder::plan`].
pub fn probe(bytes: &[u8]) -> Result<AudioInfo, DecodeError> {
    probe_within(bytes, Limits::DEFAULT)
}

/// The same as [`probe`], within other limits.
///
/// # Errors
/// The same as [`Decoder::plan`].
pub fn probe_within(bytes: &[u8], limits: Limits) -> Result<AudioInfo, DecodeError> {
    let spec = AudioSpec { limits: limits.keeping_nothing(), ..AudioSpec::WHOLE };
    Decoder::default().plan(bytes, &spec, 0).map(|plan| plan.info)
}

/// One for each worker thread: decoders, tables and scratch memory that rows share.
///
/// What a row decodes to depends on its bytes and its [`Plan`] alone, never on earlier rows.
///
/// ```
/// use gristmill_audio::{AudioSpec, Channels, Crop, Decoder, Pad};
/// # let mut bytes = b"RIFF\xA4\x3E\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1F\0\0\x80\x3E\0\0\x02\0\x10\0data\x80\x3E\0\0".to_vec();
/// # bytes.resize(44 + 16_000, 0);
/// // `bytes` are a second of WAV at 8 kHz. A random crop of three is padded with zeros.
/// let crop = Crop::Random { seconds: 3.0 };
/// let spec = AudioSpec { crop, pad: Pad::Zero, channels: Channels::Mono, ..AudioSpec::WHOLE };
/// let mut decoder = Decoder::default();
/// let plan = decoder.plan(&bytes, &spec, 0x9E37_79B9_7F4A_7C15)?;
/// assert_eq!((plan.crop(), plan.n_frames()), (0..8_000, 24_000));
/// let mut samples = vec![0.0; plan.n_samples()];
/// let report = decoder.render(&bytes, &plan, &mut samples)?;
/// assert_eq!((report.frames_wanted, report.frames_decoded), (8_000, 8_000));
/// # Ok::<(), gristmill_audio::DecodeError>(())
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    pub(crate) scratch: Scratch,
    pub(crate) window: Vec<f32>,
    /// Where rows of other sample types than `f32` are rendered first.
    pub(crate) samples: Vec<f32>,
    pub(crate) resampler: Option<Arc<Tables>>,
    pub(crate) blocks: resample::Scratch,
    pub(crate) cancel: Cancel,
    /// What resampling has taken since it was last asked for.
    pub(crate) resampling: Duration,
}

impl Decoder {
    /// Makes work end with [`Reason::Cancelled`] soon after the flag is set: it is asked between
    /// packets.
    pub fn set_cancel(&mut self, flag: Arc<AtomicBool>) {
        self.cancel = Cancel::new(flag);
    }

    /// What resampling has taken since this was last asked.
    pub fn take_resampling(&mut self) -> Duration {
        std::mem::take(&mut self.resampling)
    }

    /// What the headers of a recording say, where [`Self::plan`] would open it for `spec`, whatever
    /// part of it and however much `spec` asks for. No clock enters.
    ///
    /// # Errors
    /// The same as [`Self::plan`].
    pub fn length(&mut self, bytes: &[u8], spec: &AudioSpec) -> Result<AudioInfo, DecodeError> {
        let limits = spec.limits.of_file();
        let whole = AudioSpec { limits, strict: spec.strict, ..AudioSpec::WHOLE };
        self.plan(bytes, &whole, 0).map(|plan| plan.info)
    }

    /// Decides from the headers what a row's result will be. Nothing is decoded.
    ///
    /// `draw` is the row's random number, uniform in `u64`: a random crop with `n` possible starts
    /// begins at `draw * n / 2^64`.
    ///
    /// # Errors
    /// Any [`Reason`] that headers and framing show: unknown or unsupported formats, damage,
    /// limits. A panic inside a parser is contained and reported as [`Reason::DecoderPanic`].
    pub fn plan(&mut self, bytes: &[u8], spec: &AudioSpec, draw: u64) -> Result<Plan, DecodeError> {
        spec.limits.check_bytes(bytes.len() as u64).map_err(Reason::of_unknown)?;
        let found = find_container(bytes).map_err(Reason::of_unknown)?;
        let (container, at) = found;
        let codec = container.codec(bytes, at);
        let is_lenient = spec.strict == Strict::Lenient;
        let ledger = Ledger::new(if is_lenient { Strict::Strict } else { spec.strict });
        self.cancel.begin(spec.limits.max_decode_time);
        let mut plan = self.contained(|decoder| decoder.plan_as(bytes, found, spec, draw, ledger));
        if is_lenient
            && let Err(reason) = &plan
            && reason.is_damage()
        {
            // What was wrong at first says more than what is wrong with the rest.
            let reason = reason.clone();
            plan = self
                .contained(|decoder| decoder.plan_as(bytes, found, spec, draw, Ledger::LENIENT))
                .map_err(|other| if other.is_damage() { reason } else { other });
        }
        if let Ok(plan) = &mut plan {
            plan.time_left = self.cancel.left();
        }
        plan.map_err(|reason| match (reason, codec) {
            (reason @ Reason::UnsupportedCodec(_), _) | (reason, None) => reason.of_unknown(),
            (reason, Some(codec)) => reason.of(codec),
        })
    }

    /// Decodes the row and writes every sample of `out`, channel after channel.
    ///
    /// `bytes` must be those that were planned, and `out` have [`Plan::n_samples`] samples. Where
    /// [`AudioSpec::strict`] is [`Strict::Lenient`], damage is not an error: zeros stand where nothing could be
    /// decoded, and the report has the counts.
    ///
    /// # Errors
    /// Damage inside the wanted part, a limit, or [`Reason::WrongSlot`]. The content of `out` is
    /// then unspecified.
    pub fn render(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        out: &mut [f32],
    ) -> Result<DecodeReport, DecodeError> {
        self.cancel.begin(plan.time_left);
        let mut result = Err(Reason::NonFinite);
        if !plan.is_salvaged {
            let strict = if plan.is_lenient() { Strict::Strict } else { plan.strict };
            result = self.contained(|decoder| decoder.render_as(bytes, plan, out, strict));
        }
        if plan.is_lenient() && result.as_ref().is_err_and(Reason::is_damage) {
            result = self.contained(|decoder| decoder.render_as(bytes, plan, out, Strict::Lenient));
        }
        result.map_err(|reason| reason.of(plan.info.codec))
    }

    /// Runs `work`, and turns a panic in it into an error. State that it may have left half done
    /// is dropped.
    pub(crate) fn contained<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        // Unwind safety: after a panic everything but the cancel flag is replaced.
        contained(|| work(self)).unwrap_or_else(|payload| {
            *self = Self { cancel: self.cancel.clone(), ..Self::default() };
            let message = payload
                .downcast_ref::<&str>()
                .map(|&s| s.to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned());
            Err(Reason::DecoderPanic(message.unwrap_or_else(|| "no message".to_owned())))
        })
    }
}
