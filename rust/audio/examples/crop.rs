//! Cuts a few seconds out of a recording and writes them as a WAV file of 32-bit floats.
//!
//! `cargo run -p gristmill-audio --example crop -- recording.ogg 12.5 5 crop.wav`

use std::{env, error::Error, fs};

use gristmill_audio::{AudioSpec, Channels, Crop, Decoder};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [input, start, seconds, output] = args.as_slice() else {
        return Err("usage: crop RECORDING START_SECONDS SECONDS OUTPUT.wav".into());
    };
    let crop = Crop::At { start: start.parse()?, seconds: Some(seconds.parse()?) };
    let spec = AudioSpec { crop, channels: Channels::Keep, ..AudioSpec::WHOLE };

    // A decoder is kept for many recordings: it holds tables and memory that they share.
    let mut decoder = Decoder::default();
    let bytes = fs::read(input)?;
    let plan = decoder.plan(&bytes, &spec, 0)?;
    let info = plan.info();
    println!(
        "{}, {} Hz, {} channels, {:.3} s",
        info.codec.name(),
        info.rate_hz,
        info.n_channels,
        info.duration_s()
    );
    let mut planes = vec![0.0; plan.n_samples()];
    let report = decoder.render(&bytes, &plan, &mut planes)?;
    println!("{} frames, {} of them decoded", plan.n_frames(), report.frames_decoded);
    fs::write(output, wav(&planes, plan.n_channels(), plan.rate_hz()))?;
    Ok(())
}

/// A WAV file of `planes`, which hold one channel after the other.
fn wav(planes: &[f32], n_channels: u16, rate_hz: u32) -> Vec<u8> {
    let n_frames = planes.len() / usize::from(n_channels).max(1);
    let n_bytes = (planes.len() * 4) as u32;
    let block = n_channels * 4;
    let mut out = b"RIFF".to_vec();
    out.extend((36 + n_bytes).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x03\0");
    out.extend(n_channels.to_le_bytes());
    out.extend(rate_hz.to_le_bytes());
    out.extend((rate_hz * u32::from(block)).to_le_bytes());
    out.extend(block.to_le_bytes());
    out.extend(b"\x20\0data");
    out.extend(n_bytes.to_le_bytes());
    for frame in 0..n_frames {
        let samples = planes.iter().skip(frame).step_by(n_frames);
        out.extend(samples.flat_map(|sample| sample.to_le_bytes()));
    }
    out
}
