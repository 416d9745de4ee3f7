//! Feeds libFuzzer's inputs to `gristmill_fuzz::opus`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gristmill_fuzz::check("opus", data));
