//! A folder, outside of which no path that data names is followed.

use std::{
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    path::{self, Component, Path, PathBuf},
    sync::Mutex,
};

use lru::LruCache;
use rustix::io::Errno;

use crate::sync::lock_std;

/// Folders whose resolved paths are kept: recordings of a class or a day lie together.
const MAX_FOLDERS: usize = 1024;

/// Links that are followed, as many as the system follows.
const MAX_LINKS: usize = 40;

/// Longer paths are of no file: the longest that Linux takes has 4096 bytes.
pub(crate) const MAX_PATH_BYTES: usize = 1 << 16;

/// The folder, as it was given and with its links resolved.
#[derive(Debug)]
pub struct Root {
    given: PathBuf,
    resolved: PathBuf,
    /// Folders below it that were resolved.
    folders: Mutex<LruCache<PathBuf, PathBuf>>,
}

/// Why a path is not followed.
#[derive(Clone, Copy, Debug)]
pub enum RefusedPath {
    /// No file can be called so.
    Invalid,
    /// It leads out of the folder.
    Outside,
}

impl Root {
    /// Resolves the links of `folder`. Blocks for a round trip or more.
    ///
    /// # Errors
    ///
    /// Where it is no folder, or cannot be looked up.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let resolved = fs::canonicalize(folder)?;
        if !fs::metadata(&resolved)?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let folders = Mutex::new(LruCache::unbounded());
        Ok(Self { given: folder.to_owned(), resolved, folders })
    }

    /// The folder as it was given.
    pub fn folder(&self) -> &Path {
        &self.given
    }

    /// The file that `path` names, its links resolved. Relative paths count from the folder; absolute
    /// ones must lie in it, too.
    ///
    /// Blocks for a few round trips, or one where another file of the same folder was looked up
    /// before.
    ///
    /// The inner error is of a path that leads out of the folder, by its links as well. Who can change
    /// the folder while it is read may still lead anywhere.
    ///
    /// # Errors
    ///
    /// Where it cannot be looked up.
    pub(super) fn find(&self, path: &str) -> io::Result<Result<PathBuf, RefusedPath>> {
        if path.is_empty() || path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Ok(Err(RefusedPath::Invalid));
        }
        let path = self.given.join(path);
        match self.look_up(&path) {
            // Whether something is there, or may be seen, is told of what is in the folder alone.
            Err(error) if is_of_path(&error) && self.leads_outside(&path) => {
                Ok(Err(RefusedPath::Outside))
            }
            found => found,
        }
    }

    fn look_up(&self, path: &Path) -> io::Result<Result<PathBuf, RefusedPath>> {
        // A path that ends in `..` or `/` names a folder, which the system finds out.
        let (Some(parent), Some(Component::Normal(name))) =
            (path.parent(), path.components().next_back())
        else {
            return Ok(Err(RefusedPath::Outside));
        };
        let folder = match self.folder_of(parent) {
            Ok(Ok(folder)) => folder,
            Ok(Err(refused)) => return Ok(Err(refused)),
            // Where the folder itself is gone, that is no fault of the path.
            Err(error) => return Err(self.check_there().err().unwrap_or(error)),
        };
        let in_folder = folder.join(name);
        let resolved = match fs::symlink_metadata(&in_folder) {
            Ok(entry) if entry.is_symlink() => fs::canonicalize(&in_folder)?,
            Ok(_) => in_folder,
            Err(error) => return Err(self.check_there().err().unwrap_or(error)),
        };
        Ok(self.check_inside(resolved))
    }

    /// Whether a path that could not be looked up leads out of the folder: its links are followed as
    /// far as they are there, and what is not there counts as folders.
    fn leads_outside(&self, path: &Path) -> bool {
        let parts_of = |path: &Path| -> Vec<OsString> {
            path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
        };
        let path = path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (mut left, mut at, mut n_links) = (parts_of(&path), PathBuf::new(), 0);
        while let Some(part) = left.pop() {
            match Path::new(&part).components().next() {
                Some(Component::RootDir) => at = PathBuf::from("/"),
                Some(Component::ParentDir) => {
                    at.pop();
                }
                Some(Component::Normal(name)) => {
                    at.push(name);
                    // The system takes no longer paths.
                    let may_be_link = n_links < MAX_LINKS && at.as_os_str().len() < 4096;
                    if let Some(target) = may_be_link.then(|| fs::read_link(&at).ok()).flatten() {
                        n_links += 1;
                        at.pop();
                        left.extend(parts_of(&target));
                    }
                }
                _ => {}
            }
        }
        !at.starts_with(&self.resolved)
    }

    /// # Errors
    ///
    /// Where the folder is gone, as when its mount is.
    fn check_there(&self) -> io::Result<()> {
        let gone = |_| io::Error::other("the folder root= is gone");
        fs::metadata(&self.resolved).map(drop).map_err(gone)
    }

    fn folder_of(&self, parent: &Path) -> io::Result<Result<PathBuf, RefusedPath>> {
        if let Some(found) = lock_std(&self.folders).get(parent) {
            return Ok(Ok(found.clone()));
        }
        let resolved = match self.check_inside(fs::canonicalize(parent)?) {
            Ok(resolved) => resolved,
            refused => return Ok(refused),
        };
        let mut folders = lock_std(&self.folders);
        folders.put(parent.to_owned(), resolved.clone());
        if folders.len() > MAX_FOLDERS {
            folders.pop_lru();
        }
        Ok(Ok(resolved))
    }

    fn check_inside(&self, resolved: PathBuf) -> Result<PathBuf, RefusedPath> {
        if resolved.starts_with(&self.resolved) {
            return Ok(resolved);
        }
        Err(RefusedPath::Outside)
    }
}

/// Whether an error is about the path itself, rather than about the storage: trying again would not
/// help.
pub(crate) fn is_of_path(error: &io::Error) -> bool {
    // Not a regular file, as the backend says it.
    if error.raw_os_error().is_none() {
        return error.kind() == ErrorKind::InvalidInput;
    }
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOENT
                | Errno::ACCESS
                | Errno::PERM
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::INVAL
                | Errno::ILSEQ
        )
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_lies_in_the_folder_is_found() {
        let outer = tempfile::tempdir().unwrap();
        let at = |name: &str| outer.path().join(name);
        fs::create_dir_all(at("root/a/b")).unwrap();
        fs::create_dir(at("other")).unwrap();
        for file in ["root/one", "root/a/two", "other/secret", "rooted"] {
            fs::write(at(file), file).unwrap();
        }
        symlink(at("other/secret"), at("root/out")).unwrap();
        symlink("../other", at("root/out-folder")).unwrap();
        symlink("a/two", at("root/in")).unwrap();
        symlink(at("root"), at("link-to-root")).unwrap();
        symlink("loop", at("root/loop")).unwrap();
        let root = Root::open(&at("link-to-root")).unwrap();
        let found = |path: &str| {
            root.find(path).unwrap().ok().map(|p| {
                fs::canonicalize(at("root")).map(|r| p.strip_prefix(r).unwrap().to_owned()).unwrap()
            })
        };
        for (path, inside) in [
            ("one", "one"),
            ("a/two", "a/two"),
            ("in", "a/two"),
            ("a/../one", "one"),
            ("./a//two", "a/two"),
            ("a/b/../../one", "one"),
        ] {
            // Twice: the second time the folder is known.
            assert_eq!(
                [found(path), found(path)],
                [Some(inside.into()), Some(inside.into())],
                "{path}"
            );
        }
        let absolute = at("root/a/two");
        assert_eq!(found(absolute.to_str().unwrap()), Some("a/two".into()));
        let outside = [
            "../other/secret",
            "out",
            "out-folder/secret",
            "..",
            "../rooted",
            "a/../../rooted",
            "/",
            "/etc/passwd",
            "../root/../other/secret",
        ];
        for path in outside {
            assert!(matches!(root.find(path), Ok(Err(RefusedPath::Outside))), "{path}");
        }
        for path in ["", "one\0", "\0"] {
            assert!(matches!(root.find(path), Ok(Err(RefusedPath::Invalid))), "{path:?}");
        }
        symlink(at("none/at-all"), at("root/broken")).unwrap();
        let absent = [
            "/none/at-all",
            "../other/none",
            "../other/none/one",
            "../other/secret/one",
            "../none/one",
            "a/none/../../../none/one",
            "out-folder/none",
            "out-folder/none/one",
            "out/one",
            "broken",
            "broken/one",
        ];
        for path in absent {
            assert!(matches!(root.find(path), Ok(Err(RefusedPath::Outside))), "{path}");
        }
        let long = "x".repeat(5000);
        for path in ["missing", "one/two", "missing/one", "loop", long.as_str(), "a/b/../none/one"]
        {
            assert!(is_of_path(&root.find(path).unwrap_err()), "{path}");
        }
        assert!(Root::open(&at("root/one")).is_err() && Root::open(&at("none")).is_err());
    }
}
