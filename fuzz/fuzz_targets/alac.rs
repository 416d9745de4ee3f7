//! See `gristmill_fuzz::alac`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("alac");
