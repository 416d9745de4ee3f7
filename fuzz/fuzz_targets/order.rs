//! See `gristmill_fuzz::order`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("order");
