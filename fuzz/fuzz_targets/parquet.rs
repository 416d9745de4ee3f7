//! See `gristmill_fuzz::parquet`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("parquet");
