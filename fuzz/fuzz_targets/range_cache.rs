//! See `gristmill_fuzz::range_cache`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("range_cache");
