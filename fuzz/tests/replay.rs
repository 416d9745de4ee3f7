//! What `make test` runs of the fuzz targets: seeds, public corpora, and a bounded number of
//! mutants, the same ones each time. `GRISTMILL_FUZZ_ROUNDS` sets how many for each target.

// The lints let test functions unwrap; the function that they share is a test as well.
#![allow(clippy::expect_used)] // a seed that cannot be read fails the test

use std::time::Duration;

use gristmill_fuzz::{
    Outcome, Seed, TARGETS, Target, public_corpora, run, run_one, seeds, shard_as_arrow,
};

const ROUNDS: u64 = 1500;

#[test]
fn seeds_hold() {
    for target in TARGETS {
        let seeds = seeds(target.name);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in seeds {
            let report = run_one(target, &seed.bytes);
            assert!(report.verdict.is_ok(), "{}/{}: {report:?}", target.name, seed.name);
            let is_file = !matches!(target.name, "probe" | "order" | "resample_lengths");
            if is_file && seed.is_sound() {
                assert_eq!(report.verdict, Ok(Outcome::Data), "{}/{}", target.name, seed.name);
            }
        }
    }
}

#[test]
fn public_corpora_hold() {
    for target in TARGETS {
        for seed in public_corpora(target.name) {
            let report = run_one(target, &seed.bytes);
            assert!(report.verdict.is_ok(), "{}/{}: {report:?}", target.name, seed.name);
        }
    }
}

#[test]
fn sound_shards_read_as_arrow_reads_them() {
    let golden = public_corpora("shard")
        .into_iter()
        .filter(|seed| [".stream", ".arrow_file"].iter().any(|end| seed.name.ends_with(end)));
    for seed in seeds("shard").into_iter().filter(Seed::is_sound).chain(golden) {
        assert_eq!(shard_as_arrow(&seed.bytes), Ok(Outcome::Data), "{}", seed.name);
    }
}

/// Formats that share the decoders or the containers of the others.
const LATER: [&str; 9] =
    ["mp2", "opus", "ogg_flac", "aiff", "caf", "mp4", "alac", "adts", "matroska"];

/// Those that share a test.
const VORBIS: [&str; 2] = ["ogg_vorbis", "vorbis"];

fn mutants_hold(which: impl Fn(&Target) -> bool) {
    let rounds = std::env::var("GRISTMILL_FUZZ_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS, |n| n.parse().expect("GRISTMILL_FUZZ_ROUNDS is a number"));
    for target in TARGETS.into_iter().filter(which) {
        let rounds = match target.name {
            // Making a table of coefficients takes longer than all else.
            "resample_lengths" => rounds / 10,
            name if LATER.contains(&name) => rounds / 4,
            _ => rounds,
        };
        let time = Duration::from_secs(24 * 3600);
        let totals = run(target, &seeds(target.name), rounds, 1, time);
        let found: Vec<_> = totals.findings.iter().map(|finding| &finding.what).collect();
        assert!(found.is_empty(), "{}: {found:#?}", target.name);
    }
}

// Tests that run beside each other.

#[test]
fn mutants_of_vorbis_hold() {
    mutants_hold(|target| VORBIS.contains(&target.name));
}

#[test]
fn mutants_of_later_formats_hold() {
    mutants_hold(|target| LATER.contains(&target.name));
}

#[test]
fn mutants_of_others_hold() {
    mutants_hold(|target| !VORBIS.contains(&target.name) && !LATER.contains(&target.name));
}
