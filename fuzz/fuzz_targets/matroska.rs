//! See `gristmill_fuzz::matroska`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("matroska");
