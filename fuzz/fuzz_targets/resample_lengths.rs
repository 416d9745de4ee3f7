//! See `gristmill_fuzz::resample_lengths`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("resample_lengths");
