//! Where index files are kept.

use std::{
    fs::DirBuilder,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
};

use crate::{
    hash,
    store::{base_name, identity, is_remote},
};

/// Appended to the shard's name.
const EXTENSION: &str = ".gmindex";

/// Where index files are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexDir {
    /// Nowhere: all is worked out again at every opening.
    #[default]
    Nowhere,
    /// In each shard's own folder, as `<name>.gmindex`; nowhere for shards behind URLs.
    Beside,
    /// In this folder, under the shard's base name and a hash of its absolute path, or of its URL
    /// without what is secret in it. It is made when it is missing, for this user alone.
    Folder(PathBuf),
}

impl IndexDir {
    /// The path of this shard's index file; `None` where it has none.
    pub(super) fn path(&self, shard: &Path) -> Option<PathBuf> {
        let name = base_name(shard);
        match self {
            Self::Nowhere => None,
            Self::Beside if is_remote(shard) => None,
            Self::Beside => {
                let mut name = name.into_owned();
                name.push(EXTENSION);
                Some(shard.with_file_name(name))
            }
            Self::Folder(folder) => {
                let path = identity(shard)?;
                let key = hash::fnv1a(path.as_os_str().as_bytes());
                // Shortened, since a file's name has at most 255 bytes.
                let name: String = name.to_string_lossy().chars().take(40).collect();
                Some(folder.join(format!("{name}-{key:016x}{EXTENSION}")))
            }
        }
    }

    /// The path of a file of this name for what is worked out from shards, of which this is the first.
    pub(super) fn derived_path(&self, first: &Path, name: &str) -> Option<PathBuf> {
        match self {
            Self::Nowhere => None,
            Self::Beside => (!is_remote(first)).then(|| first.with_file_name(name)),
            Self::Folder(folder) => Some(folder.join(name)),
        }
    }

    /// Makes the folder, if there is to be one.
    pub(super) fn make(&self) {
        if let Self::Folder(folder) = self {
            // Fails where it exists, which does not matter.
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
    }

    /// The path by which an index file names its shard. Beside the shard it is the name alone, so that
    /// both can be moved.
    pub(super) fn shard_path(&self, shard: &Path) -> Option<PathBuf> {
        match self {
            Self::Nowhere => None,
            Self::Beside => Some(PathBuf::from(shard.file_name()?)),
            Self::Folder(_) => identity(shard),
        }
    }
}
