//! See `gristmill_fuzz::adts`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("adts");
