//! See `gristmill_fuzz::ogg_vorbis`.
#![cfg_attr(fuzzing, no_main)]

gristmill_fuzz::fuzz_target!("ogg_vorbis");
