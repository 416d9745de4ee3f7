//! See `gristmill_fuzz::audio_index`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("audio_index");
