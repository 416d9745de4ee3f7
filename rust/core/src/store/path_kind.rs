//! Whether paths are folders or files, before any of them is opened.

use std::path::PathBuf;

use rustix::fs::{FileType, stat};

use crate::threads;

/// Paths that are looked up at a time: on remote storage each takes a round trip.
const CONCURRENCY: usize = 32;

/// The kind of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory.
    Folder,
    /// A regular file.
    File,
}

/// The kind of each path, links followed; `None` for what is neither a folder nor a file, and where
/// access is denied. Blocks for one `stat` a path, 32 of them at a time.
pub fn path_kinds(paths: &[PathBuf]) -> Vec<Option<PathKind>> {
    let mut kinds = vec![None; paths.len()];
    let jobs: Vec<_> = paths.iter().zip(&mut kinds).collect();
    threads::parallel_for_each("gristmill-look", jobs, CONCURRENCY, |(path, kind)| {
        *kind = stat(path).ok().and_then(|stat| match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Some(PathKind::Folder),
            FileType::RegularFile => Some(PathKind::File),
            _ => None,
        });
    });
    kinds
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_are_followed_and_anything_else_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink(folder.path(), at("to-folder")).unwrap();
        symlink(at("missing"), at("to-nothing")).unwrap();
        let mut paths = vec![PathBuf::from("nul\0"), PathBuf::new(), PathBuf::from("/dev/null")];
        paths.extend(["file", "to-folder", "to-nothing", "missing"].map(at));
        let (file, found) = (Some(PathKind::File), Some(PathKind::Folder));
        assert_eq!(path_kinds(&paths), [None, None, None, file, found, None, None]);
        assert_eq!(path_kinds(&[]), []);
        let many = vec![at("file"); 1_000];
        assert_eq!(path_kinds(&many), vec![file; 1_000]);
    }
}
