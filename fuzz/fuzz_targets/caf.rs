//! See `gristmill_fuzz::caf`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("caf");
