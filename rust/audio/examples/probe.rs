//! Says what recordings are, how long, and what is wrong with them. Every frame is decoded, none is kept.
//!
//! `cargo run --release -p gristmill-audio --example probe -- RECORDING...`

use std::{env, error::Error, fs};

use gristmill_audio::{Decoder, Depth, Limits};

fn main() -> Result<(), Box<dyn Error>> {
    let mut decoder = Decoder::default();
    for path in env::args().skip(1) {
        let bytes = fs::read(&path)?;
        let checked = match decoder.check(&bytes, Limits::DEFAULT, Depth::Decode) {
            Ok(checked) => checked,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let info = checked.info;
        let (name, seconds) = (info.codec.name(), info.duration_s());
        println!(
            "{path}: {name}, {} Hz, {} channels, {seconds:.3} s",
            info.rate_hz, info.n_channels
        );
        if let Some(error) = checked.error {
            println!("  error: {error}");
        }
        for (kind, count) in checked.report.damage.iter() {
            println!("  damage: {kind} {count}");
        }
        for (kind, count) in checked.report.notes.iter() {
            println!("  note: {kind} {count}");
        }
    }
    Ok(())
}
