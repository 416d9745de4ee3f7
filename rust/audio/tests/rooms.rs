//! The rooms of this crate know only those below them, so that each can be read alone.

// The lints let test functions unwrap; the functions that they share are tests as well.
#![allow(clippy::expect_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// From the ground up.
const ROOMS: [&str; 5] = ["stream", "codec", "demux", "seek", "decoder"];

/// What a file says outside its tests and comments, line by line.
fn code(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a source file");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.trim().to_owned());
    lines.filter(|line| !line.starts_with("//")).collect()
}

/// The source files of a room, which is a folder or a file.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.with_extension("rs")];
    }
    let inside = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
    let is_code = |path: &Path| path.is_dir() || path.extension().is_some_and(|end| end == "rs");
    let is_test = |path: &Path| path.ends_with("tests.rs");
    let inside = inside.filter(|path| is_code(path) && !is_test(path));
    inside.flat_map(|path| files(&path)).collect()
}

#[test]
fn no_room_knows_one_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut n_lines = 0;
    for (at, room) in ROOMS.iter().enumerate() {
        for path in files(&source.join(room)) {
            for line in code(&path) {
                n_lines += 1;
                for above in ROOMS.iter().skip(at + 1) {
                    let is_use = line.contains(&format!("crate::{above}"))
                        || line.starts_with(&format!("{above}::"));
                    assert!(!is_use, "{} uses {above}: {line}", path.display());
                }
            }
        }
    }
    assert!(n_lines > 10_000, "only {n_lines} lines were read");
}
