//! One target a stage: a property that must hold on any bytes.
//!
//! Each target is a plain function, so that three things can feed it: the replay in `tests/`, which
//! is part of `make test`; the program `fuzz-run`, which feeds mutants by the million; and libFuzzer
//! (`fuzz_targets/`), where there is a nightly compiler. See `README.md`.

// A broken property is reported by the messages of `Verdict`. A panic is a finding as well, or a
// fault of the target itself: both are to stop it.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]
#![allow(clippy::missing_errors_doc)] // the error of a `Verdict` is the property that broke

mod alac;
mod audio;
mod columns;
mod corpus;
mod draw;
mod memory;
mod mutate;
mod order;
mod panics;
mod repair;
mod resample;
mod run;
mod shard;
mod vorbis;

pub use audio::{
    adts, aiff, alac, caf, flac, matroska, mp2, mp3, mp4, ogg_flac, ogg_vorbis, opus, probe,
    vorbis, wav,
};
pub use corpus::{Seed, public_corpora, seeds};
pub use order::order;
pub use resample::resample_lengths;
pub use run::{Finding, Totals, check, run, run_one};
pub use shard::{shard, shard_as_arrow};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// How an input ended where its property held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In data.
    Data,
    /// In a typed error.
    Refused,
}

/// How an input ended; `Err` says which property it broke.
pub type Verdict = Result<Outcome, String>;

/// A stage and what must hold of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of the function, of the folder of seeds, and of the libFuzzer program.
    pub name: &'static str,
    /// The property.
    pub holds: fn(&[u8]) -> Verdict,
    /// The bytes that one input may allocate at a time, besides 16 for each of its own.
    pub max_memory: usize,
}

/// All targets.
pub const TARGETS: [Target; 18] = [
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
    Target { name: "mp4", holds: mp4, max_memory: AUDIO_MEMORY },
    Target { name: "alac", holds: alac, max_memory: AUDIO_MEMORY },
    Target { name: "adts", holds: adts, max_memory: AUDIO_MEMORY },
    Target { name: "matroska", holds: matroska, max_memory: AUDIO_MEMORY },
    Target { name: "resample_lengths", holds: resample_lengths, max_memory: AUDIO_MEMORY },
    Target { name: "shard", holds: shard, max_memory: 64 << 20 },
    Target { name: "order", holds: order, max_memory: 4 << 20 },
];

/// Two renderings of the most samples that a target asks for, filter tables, and decoders.
const AUDIO_MEMORY: usize = 64 << 20;

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Breaks the property with a message unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err(format!($($message)+));
        }
    };
}
use ensure;
