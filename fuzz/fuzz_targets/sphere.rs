//! See `gristmill_fuzz::sphere`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("sphere");
