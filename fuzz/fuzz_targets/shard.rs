//! See `gristmill_fuzz::shard`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("shard");
