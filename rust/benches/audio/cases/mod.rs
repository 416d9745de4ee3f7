//! What `wall` times and `counts` counts: recordings, and what is wanted of them.
//!
//! The recordings in `rust/audio/tests/recordings` are 4 s each of voice, birds and wind that never were, written by
//! `python benches/audio_files.py FOLDER`. They are committed, since encoders change: instructions
//! can be compared between machines and over the years.

// The lints let test functions unwrap; benches are such. Each bench uses its part.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used, dead_code)]

pub(crate) mod symphonia;

use std::{fs, path::Path};

use gristmill_audio::{AudioSpec, Channels, Crop, Decoder, Plan, Resampler};

/// Each codec, and Vorbis as music sites have it.
pub(crate) const RECORDINGS: [&str; 8] = [
    "wav",
    "flac-mono",
    "alac-mono",
    "vorbis-mono",
    "vorbis-stereo",
    "mp3-stereo",
    "opus-mono",
    "aac-stereo",
];

/// Pairs of rates that data sets and models have, with their filter.
pub(crate) const RATES: [(&str, u32, u32, Resampler); 6] = [
    ("44100-to-32000", 44_100, 32_000, Resampler::Hq),
    ("48000-to-32000", 48_000, 32_000, Resampler::Hq),
    ("44100-to-16000", 44_100, 16_000, Resampler::Hq),
    ("22050-to-32000", 22_050, 32_000, Resampler::Hq),
    ("44100-to-48000", 44_100, 48_000, Resampler::Hq),
    ("44100-to-32000-torchaudio", 44_100, 32_000, Resampler::Torchaudio),
];

const CROP: (f64, f64) = (2.0, 1.0);

/// One decoding, ready to be done again and again.
pub(crate) struct Job {
    bytes: Vec<u8>,
    spec: AudioSpec,
    decoder: Decoder,
    out: Vec<f32>,
}

impl Job {
    fn new(bytes: Vec<u8>, spec: AudioSpec) -> Self {
        let mut job = Self { bytes, spec, decoder: Decoder::default(), out: Vec::new() };
        let n_samples = job.plan().n_samples();
        job.out = vec![f32::NAN; n_samples];
        // Tables are made once in a process, and setups of Vorbis are kept.
        job.run();
        assert!(job.out.iter().all(|x| x.is_finite()));
        job
    }

    /// A recording as a whole, at its own rate.
    pub(crate) fn whole(name: &str) -> Self {
        Self::new(recording(name), AudioSpec { channels: Channels::Keep, ..AudioSpec::WHOLE })
    }

    /// A second from the middle, which equals that slice of the whole.
    pub(crate) fn crop(name: &str) -> Self {
        let whole = Self::whole(name);
        let crop = Crop::At { start: CROP.0, seconds: Some(CROP.1) };
        let mut job = Self::new(whole.bytes.clone(), AudioSpec { crop, ..whole.spec.clone() });
        let plan = job.plan();
        let (from, to) = (plan.crop().start as usize, plan.crop().end as usize);
        let n_frames = whole.out.len() / usize::from(plan.n_channels());
        let slices = whole.out.chunks(n_frames).flat_map(|plane| plane.get(from..to).unwrap());
        let is_near = |(a, b): (&f32, &f32)| match name {
            // A decoder of Opus that starts in the middle only converges.
            "opus-mono" => (a - b).abs() < 1e-3,
            _ => a.to_bits() == b.to_bits(),
        };
        assert!(job.out.iter().zip(slices).all(is_near), "{name}: the crop is no slice");
        job
    }

    /// Four seconds of noise at another rate: the resampler, and reading floats.
    pub(crate) fn resampled(name: &str) -> Self {
        let (_, from, to, resampler) = *RATES.iter().find(|of| of.0 == name).expect("a known name");
        let spec = AudioSpec { rate_hz: Some(to), resampler, ..AudioSpec::WHOLE };
        let job = Self::new(wav(from), spec);
        assert_eq!(job.out.len(), 4 * to as usize);
        job
    }

    fn plan(&mut self) -> Plan {
        self.decoder.plan(&self.bytes, &self.spec, 0).unwrap()
    }

    /// What is measured: from encoded bytes to samples. The frames that came out.
    pub(crate) fn run(&mut self) -> usize {
        let plan = self.plan();
        self.decoder.render(&self.bytes, &plan, &mut self.out).unwrap().frames_decoded as usize
    }

    /// Samples of one run.
    pub(crate) fn n_samples(&self) -> usize {
        self.out.len()
    }
}

fn recording(name: &str) -> Vec<u8> {
    if name == "wav" {
        return wav(44_100);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audio/tests/recordings");
    fs::read(folder.join(name)).unwrap()
}

/// Four seconds of noise as 32-bit floats.
fn wav(rate_hz: u32) -> Vec<u8> {
    let n_bytes = 16 * rate_hz;
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x03\0\x01\0".to_vec();
    bytes.extend([rate_hz.to_le_bytes(), (4 * rate_hz).to_le_bytes()].concat());
    bytes.extend(b"\x04\0\x20\0data");
    bytes.extend(n_bytes.to_le_bytes());
    let mut state = 88_172_645_463_325_252u64;
    for _ in 0..n_bytes / 4 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend((f32::from(state as i16) / 65_536.0).to_le_bytes());
    }
    bytes
}
