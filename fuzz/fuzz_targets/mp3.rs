//! See `gristmill_fuzz::mp3`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("mp3");
