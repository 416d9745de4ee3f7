//! Feeds libFuzzer's inputs to `gristmill_fuzz::resample_lengths`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gristmill_fuzz::check("resample_lengths", data));
