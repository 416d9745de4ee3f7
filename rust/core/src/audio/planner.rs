//! From a format to a plan: reads the headers, and finds where decoding begins.

use super::{
    Codec, Decoder, Reason, aac, aiff, caf, flac, mkv, mp3, mp4, ogg, packets, pcm,
    plan::{AudioInfo, Frames, Plan, Source},
    probe::Format,
    report::{DecodeReport, Ledger},
    sink::Mix,
    spec::{AudioSpec, Channels},
    wav,
};

/// A recording and what is wanted of it.
#[derive(Clone, Copy)]
struct Wish<'a> {
    bytes: &'a [u8],
    spec: &'a AudioSpec,
    draw: u64,
}

impl Decoder {
    /// Plans with a ledger that decides whether damage is an error.
    pub(super) fn plan_as(
        &mut self,
        bytes: &[u8],
        format: Format,
        spec: &AudioSpec,
        draw: u64,
        mut ledger: Ledger,
    ) -> Result<Plan, Reason> {
        let mut plan = self.plan_format(format, Wish { bytes, spec, draw }, &mut ledger)?;
        plan.is_salvaged = ledger.is_lenient();
        plan.report.damage = ledger.counts();
        Ok(plan)
    }

    fn plan_format(
        &mut self,
        format: Format,
        wish: Wish<'_>,
        ledger: &mut Ledger,
    ) -> Result<Plan, Reason> {
        let bytes = wish.bytes;
        match format {
            Format::Wav { offset } => plan_pcm(Codec::Wav, wav::open(bytes, offset, ledger)?, wish),
            Format::Aiff { offset } => {
                plan_pcm(Codec::Aiff, aiff::open(bytes, offset, ledger)?, wish)
            }
            Format::Caf { offset } => plan_pcm(Codec::Caf, caf::open(bytes, offset, ledger)?, wish),
            Format::Flac { offset } => {
                let layout = flac::open(bytes, offset, &self.cancel, ledger)?;
                let (rate, channels) = (layout.info.rate_hz, layout.info.n_channels);
                let shape = Shape::new(Codec::Flac, rate, channels, layout.n_frames, wish)?;
                let start = shape.seek();
                Ok(shape.into_plan(Source::Flac(layout, start)))
            }
            Format::OggFlac { offset, serial } => {
                let layout = ogg::open_flac(bytes, offset, serial, &self.cancel, ledger)?;
                let (rate, channels) = (layout.info.rate_hz, layout.info.n_channels);
                let shape = Shape::new(Codec::Flac, rate, channels, layout.n_frames, wish)?;
                let start = shape.seek();
                Ok(shape.into_plan(Source::OggFlac(layout, start)))
            }
            Format::Ogg { offset } => {
                let layout = ogg::open(bytes, offset, &mut self.pages, ledger)?;
                let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
                let shape = Shape::new(layout.codec, rate, channels, n, wish)?;
                let entry = ogg::Entry::find(&layout, &self.pages, shape.seek());
                Ok(shape.into_plan(Source::Ogg(layout, entry)))
            }
            Format::Mp3 { offset } => {
                let layout = mp3::open(bytes, offset, &mut self.mpeg_frames, ledger)?;
                let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
                let shape = Shape::new(layout.codec, rate, channels, n, wish)?;
                let input = &shape.frames.input;
                let len = input.end - input.start;
                let entry = mp3::Entry::find(bytes, &layout, &self.mpeg_frames, input.start, len);
                Ok(shape.into_plan(Source::Mp3(layout, entry)))
            }
            Format::Adts { offset } => {
                let layout = aac::open_adts(bytes, offset, &mut self.packets, ledger)?;
                self.plan_packets(layout, wish)
            }
            Format::Mp4 => {
                let layout = mp4::open(bytes, &mut self.packets, ledger)?;
                self.plan_packets(layout, wish)
            }
            Format::Matroska => {
                let layout = mkv::open(bytes, &mut self.packets, ledger)?;
                self.plan_packets(layout, wish)
            }
        }
    }

    fn plan_packets(&self, layout: packets::Layout, wish: Wish<'_>) -> Result<Plan, Reason> {
        let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
        let shape = Shape::new(layout.codec, rate, channels, n, wish)?;
        let input = &shape.frames.input;
        let len = input.end - input.start;
        let entry = packets::Entry::find(&layout, &self.packets, input.start, len)?;
        Ok(shape.into_plan(Source::Packets(layout, entry)))
    }
}

fn plan_pcm(codec: Codec, layout: pcm::Layout, wish: Wish<'_>) -> Result<Plan, Reason> {
    let (rate, channels, n) = (layout.rate_hz, layout.n_channels, layout.n_frames);
    Ok(Shape::new(codec, rate, channels, n, wish)?.into_plan(Source::Pcm(layout)))
}

/// Everything of a plan but its source.
struct Shape<'a> {
    info: AudioInfo,
    frames: Frames,
    n_channels: u16,
    mix: Mix,
    spec: &'a AudioSpec,
}

impl<'a> Shape<'a> {
    fn new(
        codec: Codec,
        rate_hz: u32,
        n_channels: u16,
        n_frames: u64,
        wish: Wish<'a>,
    ) -> Result<Self, Reason> {
        let Wish { bytes, spec, draw } = wish;
        let info = AudioInfo { codec, rate_hz, n_channels, n_frames };
        let info = spec.limits.check(info, bytes)?;
        let (mix, n_channels) = Mix::choose(spec.channels, n_channels)?;
        let frames = Frames::new(&info, spec, draw)?;
        spec.limits.check_decoded(&frames, n_channels)?;
        Ok(Self { info, frames, n_channels, mix, spec })
    }

    /// The input frame to seek to, or 0 where most of the file is wanted and seeking cannot help.
    fn seek(&self) -> u64 {
        let input = &self.frames.input;
        let is_most = (input.end - input.start) as f64 >= 0.6 * self.info.n_frames as f64;
        if is_most { 0 } else { input.start }
    }

    fn into_plan(self, source: Source) -> Plan {
        let Self { info, frames, n_channels, mix, spec } = self;
        let n_wanted = if frames.n_out == 0 { 0 } else { frames.input.end - frames.input.start };
        let report = DecodeReport {
            frames_promised: info.n_frames,
            frames_wanted: n_wanted,
            ..DecodeReport::default()
        };
        Plan {
            info,
            source,
            frames,
            rate_hz: spec.rate_hz.unwrap_or(info.rate_hz),
            n_channels,
            has_channel_axis: spec.channels != Channels::Mono,
            pad: spec.pad,
            mix,
            sample_type: spec.sample_type,
            is_lenient: !spec.strict,
            is_salvaged: false,
            report,
            time_left: None,
        }
    }
}
