//! The resampler: lengths, constants, and crops, for any two rates.

use gristmill_audio::{AudioSpec, Channels, Crop, Decoder, Reason, Resampler};

use crate::{
    Outcome, Verdict,
    draw::{Draw, Fields},
    ensure,
};

/// The highest ratio of rates that is not refused.
const MAX_RATIO: u64 = 1024;

/// The output has `ceil(n * to / from)` frames; a constant stays constant except at the ends; crops of
/// noise equal slices; exactly the ratios beyond the limit are refused.
pub fn resample_lengths(data: &[u8]) -> Verdict {
    let mut fields = Fields(data);
    let (from_hz, to_hz) = rates(&mut fields);
    // Without a frame it is no recording.
    let n_frames = 1 + u64::from(fields.u16()) % 3000;
    let choice = fields.u8();
    let is_constant = choice.is_multiple_of(2);
    // Zero crossings over cutoff, and how far the sums of phases may lie from 1.
    let (resampler, half, bound) = match choice / 2 % 3 {
        0 => (Resampler::Hq, 91.8 * 1.0475 / 0.9568, 1e-4),
        1 => (Resampler::Torchaudio, 6.0 / 0.99, 2e-3),
        _ => (Resampler::Best, 174.0 / 0.975, 1e-4),
    };
    // The output is up to 1,024 times as long.
    let n_frames = n_frames.min((1 << 18) * u64::from(from_hz) / u64::from(to_hz) + 1);
    let bytes = wav(from_hz, n_frames as usize, is_constant, &mut Draw::of(data));
    let whole =
        AudioSpec { rate_hz: Some(to_hz), channels: Channels::Mono, resampler, ..AudioSpec::WHOLE };
    let mut decoder = Decoder::default();
    let (from, to) = (u64::from(from_hz), u64::from(to_hz));
    let is_allowed = to <= from * MAX_RATIO && from <= to * MAX_RATIO;
    let plan = match decoder.plan(&bytes, &whole, 0) {
        Err(error) => {
            let is_limit = matches!(error.reason, Reason::Limit(_));
            ensure!(!is_allowed && is_limit, "{from_hz} to {to_hz} Hz, {n_frames} frames: {error}");
            return Ok(Outcome::Refused);
        }
        Ok(plan) => plan,
    };
    ensure!(is_allowed, "{from_hz} to {to_hz} Hz is allowed");
    let n_out = (n_frames * to).div_ceil(from);
    ensure!(plan.n_frames() as u64 == n_out, "{n_frames} frames become {}", plan.n_frames());
    let mut out = vec![f32::NAN; plan.n_samples()];
    decoder.render(&bytes, &plan, &mut out).map_err(|e| e.to_string())?;
    if is_constant {
        // Output frames whose filter does not reach over an end.
        let half = (half * (from as f64 / to as f64).max(1.0)).ceil() as u64 + 2;
        let inside = half * to / from + 1..n_out.saturating_sub(half * to / from + 1);
        for m in inside {
            let x = out[m as usize];
            ensure!((x - 0.5).abs() < bound, "0.5 becomes {x} at {m}, {from_hz} to {to_hz} Hz");
        }
    }
    let start = fields.u64() % (n_out + 1);
    let wanted = 1 + u64::from(fields.u16()) % 500;
    let at = |frames: u64| frames as f64 / f64::from(to_hz);
    let crop = Crop::At { start: at(start), seconds: Some(at(wanted)) };
    let plan = decoder.plan(&bytes, &AudioSpec { crop, ..whole }, 0).map_err(|e| e.to_string())?;
    let end = n_out.min(start + wanted);
    ensure!(plan.crop() == (start..end), "{:?} instead of {start}..{end}", plan.crop());
    let mut part = vec![f32::NAN; plan.n_samples()];
    decoder.render(&bytes, &plan, &mut part).map_err(|e| e.to_string())?;
    let slice = &out[start as usize..end as usize];
    let is_slice = part.iter().zip(slice).all(|(a, b)| a.to_bits() == b.to_bits());
    ensure!(is_slice, "{start}..{end} of {from_hz} to {to_hz} Hz differs from the whole");
    Ok(Outcome::Data)
}

/// Mostly small ratios, whose tables are computed quickly; sometimes any, or one near the limit.
fn rates(fields: &mut Fields<'_>) -> (u32, u32) {
    let (kind, a, b) = (fields.u8(), fields.u32(), fields.u32());
    match kind {
        0..4 => (1 + a % 768_000, 1 + b % 768_000),
        4..16 => (1 + a % 700, 1 + b % 700),
        16..32 => {
            let (low, high) = (1 + a % 750, 1 + b % 1030);
            if a.is_multiple_of(2) { (low, low * high) } else { (low * high, low) }
        }
        _ => {
            let unit = 1 + a % 8000;
            (unit * (1 + b % 16), unit * (1 + (b >> 8) % 16))
        }
    }
}

fn wav(rate_hz: u32, n_frames: usize, is_constant: bool, draw: &mut Draw) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    bytes.extend(rate_hz.to_le_bytes());
    bytes.extend((rate_hz * 2).to_le_bytes());
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend((n_frames as u32 * 2).to_le_bytes());
    let sample = || if is_constant { 0x4000 } else { draw.word() as i16 };
    bytes.extend(std::iter::repeat_with(sample).take(n_frames).flat_map(i16::to_le_bytes));
    bytes
}
