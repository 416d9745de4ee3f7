//! Plans and renders rows, with what is worth keeping between them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::AtomicBool},
};

use super::{
    Codec, DecodeError, Reason, aac, aiff, caf,
    cancel::Cancel,
    flac,
    kernel::{self, Filter, Kernel},
    mkv, mp3, mp4, ogg, packets, pcm,
    plan::{AudioInfo, Frames, Plan, Source},
    probe::{Format, sniff},
    resample::resample,
    sample_type::SampleType,
    sink::{Mix, Sink},
    spec::{AudioSpec, Channels, Pad},
    wav,
};

/// Reads the headers of a recording.
///
/// # Errors
/// The same as [`Decoder::plan`].
pub fn probe(bytes: &[u8]) -> Result<AudioInfo, DecodeError> {
    Decoder::default().plan(bytes, &AudioSpec::WHOLE, 0).map(|plan| plan.info)
}

/// One for each worker thread: decoders, tables and scratch memory that rows share.
///
/// What a row decodes to depends on its bytes and its [`Plan`] alone, never on earlier rows.
#[derive(Debug, Default)]
pub struct Decoder {
    vorbis: ogg::VorbisCache,
    pages: Vec<ogg::PageRef>,
    mpeg_frames: Vec<mp3::Frame>,
    packets: Vec<packets::Packet>,
    window: Vec<f32>,
    /// Where rows of other sample types than `f32` are rendered first.
    pub(super) samples: Vec<f32>,
    kernel: Option<Arc<Kernel>>,
    cancel: Cancel,
}

/// Scratch memory above this many samples is given back after a row.
const MAX_KEPT_SAMPLES: usize = 4 << 20;

impl Decoder {
    /// Makes work end with [`Reason::Cancelled`] soon after the flag is set: it is asked between
    /// packets.
    pub fn set_cancel(&mut self, flag: Arc<AtomicBool>) {
        self.cancel = Cancel::new(flag);
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
        let format = sniff(bytes).map_err(Reason::of_unknown)?;
        let codec = match format {
            Format::Wav { .. } => Some(Codec::Wav),
            Format::Aiff { .. } => Some(Codec::Aiff),
            Format::Caf { .. } => Some(Codec::Caf),
            Format::Flac { .. } | Format::OggFlac { .. } => Some(Codec::Flac),
            Format::Ogg { offset } => Some(ogg::codec(bytes, offset).unwrap_or(Codec::Vorbis)),
            Format::Mp3 { offset } => Some(mp3::codec(bytes, offset)),
            Format::Adts { .. } => Some(Codec::Aac),
            Format::Mp4 | Format::Matroska => None,
        };
        let plan = self.contained(|decoder| decoder.plan_format(bytes, format, spec, draw));
        plan.map_err(|reason| match (reason, codec) {
            (reason @ Reason::UnsupportedCodec(_), _) | (reason, None) => reason.of_unknown(),
            (reason, Some(codec)) => reason.of(codec),
        })
    }

    /// Decodes the row and writes every sample of `out`, channel after channel.
    ///
    /// `bytes` must be those that were planned, and `out` have [`Plan::n_samples`] samples.
    ///
    /// # Errors
    /// Damage inside the wanted part, or [`Reason::WrongSlot`]. The content of `out` is then
    /// unspecified.
    pub fn render(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        out: &mut [f32],
    ) -> Result<(), DecodeError> {
        self.contained(|decoder| decoder.render_plan(bytes, plan, out))
            .map_err(|reason| reason.of(plan.info.codec))
    }

    /// Runs `work`, and turns a panic in it into an error. State that it may have left half done
    /// is dropped.
    fn contained<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        // Unwind safety: after a panic everything but the cancel flag is replaced.
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|payload| {
            *self = Self { cancel: self.cancel.clone(), ..Self::default() };
            let message = payload
                .downcast_ref::<&str>()
                .map(|&s| s.to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned());
            Err(Reason::DecoderPanic(message.unwrap_or_else(|| "no message".to_owned())))
        })
    }

    fn plan_format(
        &mut self,
        bytes: &[u8],
        format: Format,
        spec: &AudioSpec,
        draw: u64,
    ) -> Result<Plan, Reason> {
        match format {
            Format::Wav { offset } => plan_pcm(Codec::Wav, wav::open(bytes, offset)?, spec, draw),
            Format::Aiff { offset } => {
                plan_pcm(Codec::Aiff, aiff::open(bytes, offset)?, spec, draw)
            }
            Format::Caf { offset } => plan_pcm(Codec::Caf, caf::open(bytes, offset)?, spec, draw),
            Format::Flac { offset } => {
                let layout = flac::open(bytes, offset, &self.cancel)?;
                let (rate, channels) = (layout.info.rate_hz, layout.info.n_channels);
                let n = layout.n_frames;
                let shape = Shape::new(Codec::Flac, rate, channels, n, spec, draw)?;
                let start = shape.seek();
                Ok(shape.into_plan(Source::Flac(layout, start)))
            }
            Format::OggFlac { offset, serial } => {
                let layout = ogg::open_flac(bytes, offset, serial, &self.cancel)?;
                let (rate, channels) = (layout.info.rate_hz, layout.info.n_channels);
                let shape = Shape::new(Codec::Flac, rate, channels, layout.n_frames, spec, draw)?;
                let start = shape.seek();
                Ok(shape.into_plan(Source::OggFlac(layout, start)))
            }
            Format::Ogg { offset } => {
                let layout = ogg::open(bytes, offset, &mut self.pages)?;
                let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
                let shape = Shape::new(layout.codec, rate, channels, n, spec, draw)?;
                let entry = ogg::Entry::find(&layout, &self.pages, shape.seek());
                Ok(shape.into_plan(Source::Ogg(layout, entry)))
            }
            Format::Mp3 { offset } => {
                let layout = mp3::open(bytes, offset, &mut self.mpeg_frames)?;
                let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
                let shape = Shape::new(layout.codec, rate, channels, n, spec, draw)?;
                let input = &shape.frames.input;
                let len = input.end - input.start;
                let entry = mp3::Entry::find(bytes, &layout, &self.mpeg_frames, input.start, len);
                Ok(shape.into_plan(Source::Mp3(layout, entry)))
            }
            Format::Adts { offset } => {
                let layout = aac::open_adts(bytes, offset, &mut self.packets)?;
                self.plan_packets(layout, spec, draw)
            }
            Format::Mp4 => {
                let layout = mp4::open(bytes, &mut self.packets)?;
                self.plan_packets(layout, spec, draw)
            }
            Format::Matroska => {
                let layout = mkv::open(bytes, &mut self.packets)?;
                self.plan_packets(layout, spec, draw)
            }
        }
    }

    fn plan_packets(
        &self,
        layout: packets::Layout,
        spec: &AudioSpec,
        draw: u64,
    ) -> Result<Plan, Reason> {
        let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
        let shape = Shape::new(layout.codec, rate, channels, n, spec, draw)?;
        let input = &shape.frames.input;
        let len = input.end - input.start;
        let entry = packets::Entry::find(&layout, &self.packets, input.start, len);
        Ok(shape.into_plan(Source::Packets(layout, entry)))
    }

    fn render_plan(&mut self, bytes: &[u8], plan: &Plan, out: &mut [f32]) -> Result<(), Reason> {
        if out.len() != plan.n_samples() {
            return Err(Reason::WrongSlot { expected: plan.n_samples(), found: out.len() });
        }
        let frames = &plan.frames;
        let n_out = frames.n_out;
        if n_out == 0 {
            return Ok(());
        }
        let n_crop = (frames.crop.end - frames.crop.start) as usize;
        if let Some(filter) = frames.filter {
            let mut window = std::mem::take(&mut self.window);
            self.decode_window(bytes, plan, &mut window)?;
            let kernel = self.kernel(filter);
            let len = window.len() / usize::from(plan.n_channels).max(1);
            let planes = window.chunks(len.max(1)).zip(out.chunks_mut(n_out));
            for (x, plane) in planes {
                let plane = plane.get_mut(..n_crop).unwrap_or_default();
                resample(&kernel, frames.crop.start, x, plane, &self.cancel)?;
            }
            if window.len() <= MAX_KEPT_SAMPLES {
                self.window = window;
            }
        } else {
            let mut sink = Sink::new(out, n_out, plan.mix, frames.input.start, n_crop);
            self.decode(bytes, plan, &mut sink)?;
        }
        for plane in out.chunks_mut(n_out) {
            finish(plane, n_crop, plan.pad)?;
        }
        Ok(())
    }

    /// Decodes the input of the resampler, with zeros where it reaches over the ends.
    fn decode_window(
        &mut self,
        bytes: &[u8],
        plan: &Plan,
        window: &mut Vec<f32>,
    ) -> Result<(), Reason> {
        let frames = &plan.frames;
        let n_input = (frames.input.end - frames.input.start) as usize;
        let (before, after) = frames.zeros;
        let len = before + n_input + after;
        window.clear();
        window.resize(len * usize::from(plan.n_channels), 0.0);
        if n_input == 0 {
            return Ok(());
        }
        let planes = window.get_mut(before..).unwrap_or_default();
        let mut sink = Sink::new(planes, len, plan.mix, frames.input.start, n_input);
        self.decode(bytes, plan, &mut sink)
    }

    /// Fills the sink; on any fault on the way in, once more from the very start.
    fn decode(&mut self, bytes: &[u8], plan: &Plan, sink: &mut Sink<'_>) -> Result<(), Reason> {
        let cancel = &self.cancel;
        let mut attempt = |from_start: bool, sink: &mut Sink<'_>| {
            let result = match &plan.source {
                Source::Pcm(layout) => pcm::decode(bytes, layout, sink, cancel),
                Source::Flac(layout, start) => {
                    let start = if from_start { 0 } else { *start };
                    flac::decode(bytes, layout, start, sink, cancel)
                }
                Source::OggFlac(layout, start) => {
                    let start = if from_start { 0 } else { *start };
                    ogg::decode_flac(bytes, layout, start, sink, cancel)
                }
                Source::Ogg(layout, entry) => {
                    let entry = if from_start { ogg::Entry::START } else { *entry };
                    ogg::decode(bytes, layout, entry, &mut self.vorbis, sink, cancel)
                }
                Source::Mp3(layout, entry) => mp3::decode(bytes, layout, entry, sink, cancel),
                Source::Packets(layout, entry) => {
                    packets::decode(bytes, layout, entry, &mut self.vorbis, sink, cancel)
                }
            };
            result.and_then(|()| whole(plan, sink))
        };
        let result = attempt(false, sink);
        let seeks = match &plan.source {
            Source::Pcm(_) | Source::Mp3(..) | Source::Packets(..) => false,
            Source::Flac(_, start) | Source::OggFlac(_, start) => *start > 0,
            Source::Ogg(_, entry) => *entry != ogg::Entry::START,
        };
        match result {
            Err(reason) if seeks && reason != Reason::Cancelled => {
                sink.restart();
                attempt(true, sink)
            }
            result => result,
        }
    }

    fn kernel(&mut self, filter: Filter) -> Arc<Kernel> {
        match &self.kernel {
            Some(kernel) if kernel.filter == filter => Arc::clone(kernel),
            _ => Arc::clone(self.kernel.insert(kernel::shared(filter))),
        }
    }
}

fn plan_pcm(
    codec: Codec,
    layout: pcm::Layout,
    spec: &AudioSpec,
    draw: u64,
) -> Result<Plan, Reason> {
    let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
    Ok(Shape::new(codec, rate, channels, n, spec, draw)?.into_plan(Source::Pcm(layout)))
}

/// Everything of a plan but its source.
struct Shape {
    info: AudioInfo,
    frames: Frames,
    rate_hz: u32,
    n_channels: u16,
    has_channel_axis: bool,
    pad: Pad,
    mix: Mix,
    sample_type: SampleType,
}

impl Shape {
    fn new(
        codec: Codec,
        rate_hz: u32,
        n_channels: u16,
        n_frames: u64,
        spec: &AudioSpec,
        draw: u64,
    ) -> Result<Self, Reason> {
        let info = AudioInfo { codec, rate_hz, n_channels, n_frames }.check()?;
        let (mix, n_channels) = Mix::choose(spec.channels, n_channels)?;
        Ok(Self {
            info,
            frames: Frames::new(&info, spec, draw)?,
            rate_hz: spec.rate_hz.unwrap_or(rate_hz),
            n_channels,
            has_channel_axis: spec.channels != Channels::Mono,
            pad: spec.pad,
            mix,
            sample_type: spec.sample_type,
        })
    }

    /// The input frame to seek to, or 0 where most of the file is wanted and seeking cannot help.
    fn seek(&self) -> u64 {
        let input = &self.frames.input;
        let is_most = (input.end - input.start) as f64 >= 0.6 * self.info.n_frames as f64;
        if is_most { 0 } else { input.start }
    }

    fn into_plan(self, source: Source) -> Plan {
        let Self { info, frames, rate_hz, n_channels, has_channel_axis, pad, mix, sample_type } =
            self;
        Plan { info, source, frames, rate_hz, n_channels, has_channel_axis, pad, mix, sample_type }
    }
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

/// Checks the rendered part of a plane and fills the rest.
fn finish(plane: &mut [f32], n_crop: usize, pad: Pad) -> Result<(), Reason> {
    let (crop, rest) = plane.split_at_mut_checked(n_crop).unwrap_or_default();
    // A product with 0 is NaN for what is not finite, and sums keep it. Sixteen of them go
    // together, where a test of each sample would go one by one.
    let (blocks, last) = crop.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += x * 0.0;
        }
    }
    if lanes.iter().any(|lane| lane.is_nan()) || last.iter().any(|x| !x.is_finite()) {
        return Err(Reason::NonFinite);
    }
    if pad == Pad::Repeat && n_crop > 0 {
        for chunk in rest.chunks_mut(n_crop) {
            chunk.iter_mut().zip(crop.iter()).for_each(|(to, from)| *to = *from);
        }
    } else {
        rest.fill(0.0);
    }
    Ok(())
}
