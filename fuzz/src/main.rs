//! The program of all targets: libFuzzer's with `cargo fuzz`, and otherwise one that runs a target on files.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| gristmill_fuzz::check(data));

#[cfg(not(fuzzing))]
fn main() {
    gristmill_fuzz::run_files();
}
