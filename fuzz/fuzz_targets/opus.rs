//! See `gristmill_fuzz::opus`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("opus");
