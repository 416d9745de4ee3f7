//! Feeds libFuzzer's inputs to `gristmill_fuzz::vorbis`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gristmill_fuzz::check("vorbis", data));
