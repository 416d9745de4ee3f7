//! See `gristmill_fuzz::mp2`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("mp2");
