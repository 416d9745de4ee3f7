//! Without `strict`, whatever is done to a file, the end is a consistent report or a reason.

// The lints let test functions unwrap; the functions that they share are tests as well.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::PathBuf;

use gristmill_audio::{AudioSpec, Channels, Damage, Decoder, Reason, Strict};

/// The seeds of the fuzz targets for audio.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut found = Vec::new();
    for folder in ["wav", "flac", "ogg_vorbis", "mp3", "probe"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            if bytes.len() < 1 << 16 {
                found.push((path.display().to_string(), bytes));
            }
        }
    }
    found.sort();
    found
}

struct Draw(u64);

impl Draw {
    /// A number below `n`, by xorshift.
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    /// Does one thing to the bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let (at, len) = (self.below(bytes.len()), 1 + self.below(400));
        let end = (at + len).min(bytes.len());
        match self.below(5) {
            0 => bytes[at..end].fill(0),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.truncate(at),
            3 => bytes.extend_from_within(at..end),
            _ => {
                for _ in 0..20 {
                    let at = self.below(bytes.len());
                    bytes[at] = self.below(256) as u8;
                }
            }
        }
    }
}

#[test]
fn what_is_left_is_consistent() {
    let mut decoder = Decoder::default();
    let mut draw = Draw(88_172_645_463_325_252);
    let mut n_salvaged = 0;
    for (name, seed) in seeds() {
        for round in 0..12 {
            let mut bytes = seed.clone();
            for _ in 0..=round % 3 {
                if !bytes.is_empty() {
                    draw.damage(&mut bytes);
                }
            }
            let rate_hz = [None, Some(16_000)][round % 2];
            let spec = AudioSpec {
                strict: Strict::Lenient,
                channels: Channels::Mono,
                rate_hz,
                ..AudioSpec::WHOLE
            };
            let plan = match decoder.plan(&bytes, &spec, 0) {
                Ok(plan) if plan.n_samples() < 1 << 22 => plan,
                Ok(_) => continue,
                Err(error) => {
                    assert!(!matches!(error.reason, Reason::DecoderPanic(_)), "{name}: {error}");
                    continue;
                }
            };
            let mut out = vec![f32::NAN; plan.n_samples()];
            let Ok(report) = decoder.render(&bytes, &plan, &mut out) else { continue };
            assert!(out.iter().all(|x| x.is_finite()), "{name}");
            assert_eq!(report.frames_promised, plan.info().n_frames, "{name}");
            assert!(report.frames_decoded <= report.frames_wanted, "{name}: {report:?}");
            let is_whole = report.frames_decoded == report.frames_wanted;
            assert_eq!(report.damage.get(Damage::Gaps) == 0, is_whole, "{name}: {report:?}");
            n_salvaged += u64::from(!is_whole);
            // What strict lets pass is the same.
            let strict = AudioSpec { strict: Strict::Strict, ..spec };
            if let Ok(plan) = decoder.plan(&bytes, &strict, 0) {
                let mut same = vec![f32::NAN; plan.n_samples()];
                if let Ok(strict) = decoder.render(&bytes, &plan, &mut same) {
                    assert_eq!(strict, report, "{name}");
                    assert!(
                        same.iter().zip(&out).all(|(a, b)| a.to_bits() == b.to_bits()),
                        "{name}"
                    );
                }
            }
        }
    }
    assert!(n_salvaged > 20, "{n_salvaged}");
}
