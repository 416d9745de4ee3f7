//! See `gristmill_fuzz::seek`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("seek");
