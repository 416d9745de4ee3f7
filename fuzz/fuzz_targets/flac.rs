//! See `gristmill_fuzz::flac`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("flac");
