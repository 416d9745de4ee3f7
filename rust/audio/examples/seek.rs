//! What a seek table takes and what it saves: crops of 5 s at 32 kHz in mono, out of parts and out of all.
//!
//! `cargo run --release -p gristmill-audio --example seek -- RECORDING...`

use std::{
    env,
    error::Error,
    fs,
    time::{Duration, Instant},
};

use gristmill_audio::{AudioSpec, Channels, Crop, Decoder};

const N_CROPS: u64 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let spec = AudioSpec {
        rate_hz: Some(32_000),
        channels: Channels::Mono,
        crop: Crop::Random { seconds: 5.0 },
        ..AudioSpec::WHOLE
    };
    let mut decoder = Decoder::default();
    println!(
        "recording: bytes; entry + headers in bytes; read of it, in the mean; crops read whole; plan, and learn"
    );
    for path in env::args().skip(1) {
        let bytes = fs::read(&path)?;
        let (_, Some(entry)) = decoder.plan_and_learn(&bytes, &spec, 0)? else {
            println!("{path}: no entry");
            continue;
        };
        let (mut n_read, mut n_whole) = (0, 0);
        for i in 0..N_CROPS {
            let draw = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let whole = render(&mut decoder, &bytes, &spec, draw)?;
            let Some(part) = decoder.plan_part(&entry, &spec, draw) else {
                (n_read, n_whole) = (n_read + entry.n_bytes(), n_whole + 1);
                continue;
            };
            n_read += part.n_bytes();
            let range = |range: &std::ops::Range<u64>| {
                bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
            };
            let parts: Vec<&[u8]> = part.ranges().iter().map(range).collect();
            let mut out = vec![0f32; part.plan().n_samples()];
            if decoder.render_part(&parts, &part, bytemuck::cast_slice_mut(&mut out))?.is_none() {
                (n_read, n_whole) = (n_read + entry.n_bytes(), n_whole + 1);
            } else if out != whole {
                return Err(format!("{path}: other samples").into());
            }
        }
        let share = n_read as f64 / (N_CROPS * entry.n_bytes()) as f64;
        let plan = fastest(|| decoder.plan(&bytes, &spec, 0).is_ok());
        let learn = fastest(|| decoder.plan_and_learn(&bytes, &spec, 0).is_ok());
        println!(
            "{path}: {}; {} + {}; {share:.4}; {n_whole}; {plan:.1?}, {learn:.1?}",
            bytes.len(),
            entry.to_bytes().len(),
            entry.headers().len(),
        );
    }
    Ok(())
}

/// The samples of a crop, out of the whole recording.
fn render(
    decoder: &mut Decoder,
    bytes: &[u8],
    spec: &AudioSpec,
    draw: u64,
) -> Result<Vec<f32>, Box<dyn Error>> {
    let plan = decoder.plan(bytes, spec, draw)?;
    let mut out = vec![0.0; plan.n_samples()];
    decoder.render(bytes, &plan, &mut out)?;
    Ok(out)
}

/// The shortest of several times.
fn fastest(mut work: impl FnMut() -> bool) -> Duration {
    let times = (0..20).map(|_| {
        let began = Instant::now();
        std::hint::black_box(work());
        began.elapsed()
    });
    times.min().unwrap_or_default()
}
