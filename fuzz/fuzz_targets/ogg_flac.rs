//! Feeds libFuzzer's inputs to `gristmill_fuzz::ogg_flac`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gristmill_fuzz::check("ogg_flac", data));
