//! Whether paths are folders or files, before any of them is opened.

use std::path::PathBuf;

use rustix::fs::{FileType, stat};

use crate::threads;

/// Looks at up to so many paths at a time: on remote storage each look is a round trip.
const AT_A_TIME: usize = 32;

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory.
    Folder,
    /// A regular file.
    File,
}

/// What lies at each path, links followed; `None` where there is neither a folder nor a file, or
/// nobody may look. One look a path, many at a time where they take long.
pub fn path_kinds(paths: &[PathBuf]) -> Vec<Option<PathKind>> {
    let mut kinds = vec![None; paths.len()];
    let jobs: Vec<_> = paths.iter().zip(&mut kinds).collect();
    threads::share_out("gristmill-look", jobs, AT_A_TIME, |(path, kind)| {
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
    fn links_are_followed_and_the_rest_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink(folder.path(), at("to-folder")).unwrap();
        symlink(at("gone"), at("to-nothing")).unwrap();
        let mut paths = vec![PathBuf::from("nul\0"), PathBuf::new(), PathBuf::from("/dev/null")];
        paths.extend(["file", "to-folder", "to-nothing", "gone"].map(at));
        let (file, found) = (Some(PathKind::File), Some(PathKind::Folder));
        assert_eq!(path_kinds(&paths), [None, None, None, file, found, None, None]);
        assert_eq!(path_kinds(&[]), []);
        let many = vec![at("file"); 1_000];
        assert_eq!(path_kinds(&many), vec![file; 1_000]);
    }
}
