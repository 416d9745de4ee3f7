//! See `gristmill_fuzz::ogg_flac`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("ogg_flac");
