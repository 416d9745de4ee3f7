//! See `gristmill_fuzz::mp4`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("mp4");
