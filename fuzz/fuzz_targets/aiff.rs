//! See `gristmill_fuzz::aiff`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("aiff");
