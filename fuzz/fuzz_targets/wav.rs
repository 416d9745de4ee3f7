//! See `gristmill_fuzz::wav`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("wav");
