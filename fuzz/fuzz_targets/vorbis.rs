//! See `gristmill_fuzz::vorbis`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("vorbis");
