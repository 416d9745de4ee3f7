//! Feeds libFuzzer's inputs to `gristmill_fuzz::adts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gristmill_fuzz::check("adts", data));
