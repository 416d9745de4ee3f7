//! The memory that decoding a row takes where its batch has no slot for it.

use super::task::RawBlob;
use crate::engine::dataset::Source;
use gristmill_audio::{self as audio, AudioInfo, AudioSpec, Channels, SampleType};

/// The bytes that decoding a row's recording takes, by its header; 0 where it has none that parses.
pub(crate) fn decoding_bytes(source: &Source, blobs: &[RawBlob]) -> usize {
    let Some((k, spec)) = &source.audio else { return 0 };
    let info = match blobs.get(*k) {
        Some(RawBlob::Parts(parts)) => Some(*parts.plan.plan().info()),
        blob => blob.and_then(RawBlob::as_slice).and_then(|bytes| audio::probe(bytes).ok()),
    };
    info.map_or(0, |info| decoded_bytes(spec, &info))
}

/// The bytes that decoding a recording takes: its samples at its own rate and at the target's as
/// `f32`, and the result's if it has another type.
fn decoded_bytes(spec: &AudioSpec, info: &AudioInfo) -> usize {
    let whole_s = info.n_frames as f64 / f64::from(info.rate_hz.max(1));
    let seconds = spec.crop.seconds().map_or(whole_s, |crop_s| crop_s.min(whole_s));
    let target_hz = f64::from(spec.rate_hz.unwrap_or(info.rate_hz));
    let result = match spec.sample_type {
        SampleType::F32 => 0,
        other => other.n_bytes(),
    };
    let rates = size_of::<f32>() as f64 * (f64::from(info.rate_hz) + target_hz);
    let bytes_per_s = rates + result as f64 * target_hz;
    let channels = match spec.channels {
        Channels::Mono => 1,
        Channels::Keep => info.n_channels,
        Channels::Exact(n) => n,
    };
    ((seconds * bytes_per_s) as usize).saturating_mul(usize::from(channels))
}
