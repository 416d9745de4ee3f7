//! Feeds libFuzzer's inputs to `gristmill_fuzz::mp4`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gristmill_fuzz::check("mp4", data));
