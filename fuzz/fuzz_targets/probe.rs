//! See `gristmill_fuzz::probe`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("probe");
