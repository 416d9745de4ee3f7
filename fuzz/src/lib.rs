//! Fuzz targets, one a stage: a property that must hold on any bytes.
//!
//! `cargo fuzz` runs them. On stable, the tests of this crate replay the corpora and
//! a fixed number of mutants. See `README.md`.

// A property that does not hold is reported by a `Verdict`. Panics are findings too, or bugs of a
// target, and must stop it.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]
#![allow(clippy::missing_errors_doc)] // the error of a `Verdict` is the property that does not hold

mod alac;
mod audio;
mod audio_index;
mod columns;
#[cfg(test)]
mod corpus;
mod draw;
mod memory;
#[cfg(test)]
mod mutate;
mod order;
mod panics;
mod range_cache;
mod repair;
#[cfg(test)]
mod replay;
mod resample;
mod seek;
mod shard;
mod vorbis;

use std::{env, fs, process, sync::LazyLock};

pub use audio::{
    adts, aiff, alac, caf, flac, matroska, mp2, mp3, mp4, ogg_flac, ogg_vorbis, opus, probe,
    sphere, vorbis, wav,
};
pub use audio_index::audio_index;
pub use order::order;
pub use range_cache::range_cache;
pub use resample::resample_lengths;
pub use seek::seek;
pub use shard::{parquet, parquet_as_arrow, shard, shard_as_arrow};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// The result of an input whose property holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Data.
    Data,
    /// A typed error.
    Refused,
}

/// The outcome of an input, or the property that does not hold.
pub type Verdict = Result<Outcome, String>;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its function, and of its folder in `corpus`.
    pub name: &'static str,
    /// The property.
    pub holds: fn(&[u8]) -> Verdict,
    /// The most bytes that one input may allocate at a time, besides 16 for each of its own.
    pub max_memory: usize,
}

/// All targets.
pub const TARGETS: [Target; 23] = [
    Target { name: "probe", holds: probe, max_memory: 8 << 20 },
    Target { name: "wav", holds: wav, max_memory: AUDIO_MEMORY },
    Target { name: "flac", holds: flac, max_memory: AUDIO_MEMORY },
    Target { name: "ogg_vorbis", holds: ogg_vorbis, max_memory: AUDIO_MEMORY },
    Target { name: "vorbis", holds: vorbis, max_memory: AUDIO_MEMORY },
    Target { name: "mp3", holds: mp3, max_memory: AUDIO_MEMORY },
    Target { name: "mp2", holds: mp2, max_memory: AUDIO_MEMORY },
    Target { name: "opus", holds: opus, max_memory: AUDIO_MEMORY },
    Target { name: "ogg_flac", holds: ogg_flac, max_memory: AUDIO_MEMORY },
    Target { name: "aiff", holds: aiff, max_memory: AUDIO_MEMORY },
    Target { name: "caf", holds: caf, max_memory: AUDIO_MEMORY },
    Target { name: "sphere", holds: sphere, max_memory: AUDIO_MEMORY },
    Target { name: "mp4", holds: mp4, max_memory: AUDIO_MEMORY },
    Target { name: "alac", holds: alac, max_memory: AUDIO_MEMORY },
    Target { name: "adts", holds: adts, max_memory: AUDIO_MEMORY },
    Target { name: "matroska", holds: matroska, max_memory: AUDIO_MEMORY },
    Target { name: "resample_lengths", holds: resample_lengths, max_memory: AUDIO_MEMORY },
    Target { name: "seek", holds: seek, max_memory: AUDIO_MEMORY },
    Target { name: "shard", holds: shard, max_memory: 64 << 20 },
    Target { name: "parquet", holds: parquet, max_memory: 128 << 20 },
    Target { name: "audio_index", holds: audio_index, max_memory: 8 << 20 },
    Target { name: "range_cache", holds: range_cache, max_memory: 8 << 20 },
    Target { name: "order", holds: order, max_memory: 4 << 20 },
];

/// Two renderings of the most samples that a target asks for, filter tables, and decoders.
const AUDIO_MEMORY: usize = 64 << 20;

impl Target {
    /// Runs the target on one input. No property holds where a panic escapes, where our own code
    /// panics, even if that is contained, or where an input takes too much memory.
    pub fn run(&self, bytes: &[u8]) -> Verdict {
        let ((result, panics), memory) =
            memory::measured(|| panics::watched(|| (self.holds)(bytes)));
        let verdict = result.unwrap_or_else(|message| Err(format!("panicked: {message}")));
        if let Some(place) = panics.iter().find(|place| panics::is_ours(place)) {
            return Err(format!("panicked in our own code, at {place}: {verdict:?}"));
        }
        if verdict.is_ok() && memory > self.max_memory + 16 * bytes.len() {
            return Err(format!("{memory} bytes of memory for {} bytes", bytes.len()));
        }
        verdict
    }
}

/// The target of this name.
///
/// # Panics
///
/// Where there is none.
pub fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|target| target.name == name).expect("a target of this name")
}

/// Runs the target that the variable `FUZZ_TARGET` names on libFuzzer's input, and aborts where its property does
/// not hold.
///
/// libFuzzer's own panic hook would abort at contained panics of other libraries too.
pub fn check(bytes: &[u8]) {
    static NAMED: LazyLock<Target> =
        LazyLock::new(|| target(&env::var("FUZZ_TARGET").expect("FUZZ_TARGET=NAME")));
    if let Err(what) = NAMED.run(bytes) {
        eprintln!("{}: {what}", NAMED.name);
        process::abort();
    }
}

/// Runs the target that the first argument names on the files that the others name.
pub fn run_files() {
    let mut args = env::args().skip(1);
    let Some(name) = args.next() else {
        for target in TARGETS {
            println!("{}", target.name);
        }
        return;
    };
    let mut failed = false;
    for path in args {
        let verdict = target(&name).run(&fs::read(&path).expect("a readable file"));
        println!("{path}: {verdict:?}");
        failed |= verdict.is_err();
    }
    process::exit(failed.into());
}

/// Returns the message as an error unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err(format!($($message)+));
        }
    };
}
use ensure;
