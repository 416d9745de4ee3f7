//! The committed corpus, and the public test data where it is present.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// One input of a corpus.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

impl Seed {
    /// Whether it is a valid file: not one that once broke something, and not one that libFuzzer
    /// found, whose name is a hash.
    pub(crate) fn is_sound(&self) -> bool {
        !self.name.starts_with("broke-") && self.name.len() != 40
    }
}

/// The corpus of a target, sorted by name.
pub(crate) fn seeds(target: &str) -> Vec<Seed> {
    read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target))
}

/// The public test data of a target: from `GRISTMILL_CORPUS`, or else from `../shared/corpora` beside
/// the repository. Nothing where these do not exist, which is printed.
pub(crate) fn public_corpora(target: &str) -> Vec<Seed> {
    let folders: &[&str] = match target {
        "flac" => &["flac"],
        "mp3" => &["mp3"],
        "probe" => &["flac", "mp3"],
        "shard" => &["ipc-fuzz", "ipc-golden"],
        "parquet" => &["parquet"],
        _ => &[],
    };
    let root = std::env::var_os("GRISTMILL_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora"),
        PathBuf::from,
    );
    let mut found = Vec::new();
    for folder in folders {
        if root.join(folder).is_dir() {
            found.extend(read_all(&root.join(folder)));
        } else {
            println!("skipped: there is no corpus '{folder}' here; set GRISTMILL_CORPUS");
        }
    }
    let is_input = |seed: &Seed| {
        let extension = Path::new(&seed.name).extension().and_then(|e| e.to_str());
        !matches!(extension, Some("md" | "txt" | "pcm" | "json" | "gz"))
            && !seed.name.starts_with("LICENSE")
    };
    found.retain(is_input);
    found
}

/// All files below a folder, sorted; none if it does not exist.
fn read_all(folder: &Path) -> Vec<Seed> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(read_all(&path));
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push(Seed { name, bytes: fs::read(&path).expect("a readable seed") });
        }
    }
    found
}
