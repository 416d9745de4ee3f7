//! The fuzz targets on stable: all corpora, and a fixed number of mutants, which are the same each
//! time. `GRISTMILL_FUZZ_ROUNDS` sets how many for each target.

use std::env;

use crate::{
    Outcome, TARGETS, Target,
    corpus::{Seed, public_corpora, seeds},
    draw::Draw,
    mutate::mutate,
    parquet_as_arrow, shard_as_arrow,
};

const ROUNDS: u64 = 1500;

#[test]
fn seeds_hold() {
    for target in TARGETS {
        let seeds = seeds(target.name);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in seeds {
            let verdict = target.run(&seed.bytes);
            assert!(verdict.is_ok(), "{}/{}: {verdict:?}", target.name, seed.name);
            let is_file = !NO_FILES.contains(&target.name);
            if is_file && seed.is_sound() {
                assert_eq!(verdict, Ok(Outcome::Data), "{}/{}", target.name, seed.name);
            }
        }
    }
}

#[test]
fn public_corpora_hold() {
    for target in TARGETS {
        for seed in public_corpora(target.name) {
            let verdict = target.run(&seed.bytes);
            assert!(verdict.is_ok(), "{}/{}: {verdict:?}", target.name, seed.name);
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

#[test]
fn sound_parquet_reads_as_the_crate_reads_it() {
    for seed in seeds("parquet").into_iter().filter(Seed::is_sound) {
        assert_eq!(parquet_as_arrow(&seed.bytes), Ok(Outcome::Data), "{}", seed.name);
    }
    for seed in public_corpora("parquet") {
        let verdict = parquet_as_arrow(&seed.bytes);
        assert!(verdict.is_ok(), "{}: {verdict:?}", seed.name);
    }
}

/// Formats that share decoders or containers with others: a quarter of the mutants is enough.
const LATER: [&str; 11] =
    ["mp2", "opus", "ogg_flac", "aiff", "caf", "sphere", "mp4", "alac", "adts", "matroska", "seek"];

/// Their seeds are numbers or parts of files.
const NO_FILES: [&str; 5] = ["probe", "order", "resample_lengths", "seek", "range_cache"];

const PARQUET: &str = "parquet";

const VORBIS: [&str; 2] = ["ogg_vorbis", "vorbis"];

fn mutants_hold(which: impl Fn(&Target) -> bool) {
    let rounds = env::var("GRISTMILL_FUZZ_ROUNDS").ok();
    let rounds = rounds.map_or(ROUNDS, |n| n.parse().expect("GRISTMILL_FUZZ_ROUNDS is a number"));
    for target in TARGETS.into_iter().filter(which) {
        let rounds = match target.name {
            // Computing filter tables takes nearly all of the time.
            "resample_lengths" => rounds / 10,
            // Each writes and reads files many times.
            "range_cache" => rounds / 4,
            name if LATER.contains(&name) => rounds / 4,
            _ => rounds,
        };
        let seeds = seeds(target.name);
        for round in 0..rounds {
            let mut draw = Draw::new(1 ^ Draw::new(round).word());
            let (from, other) = (draw.index(seeds.len()), draw.index(seeds.len()));
            let mut bytes = seeds[from].bytes.clone();
            mutate(&mut bytes, &seeds[other].bytes, &mut draw);
            let verdict = target.run(&bytes);
            assert!(verdict.is_ok(), "{}, mutant {round}: {verdict:?}", target.name);
        }
    }
}

// Four tests, which run concurrently.

#[test]
fn mutants_of_vorbis_hold() {
    mutants_hold(|target| VORBIS.contains(&target.name));
}

#[test]
fn mutants_of_later_formats_hold() {
    mutants_hold(|target| LATER.contains(&target.name));
}

#[test]
fn mutants_of_parquet_hold() {
    mutants_hold(|target| target.name == PARQUET);
}

#[test]
fn mutants_of_others_hold() {
    let elsewhere = |name| VORBIS.contains(&name) || LATER.contains(&name) || name == PARQUET;
    mutants_hold(|target| !elsewhere(target.name));
}
