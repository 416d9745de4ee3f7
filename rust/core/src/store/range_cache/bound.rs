//! How large a cache folder may grow, and what is removed from it.
//!
//! No process knows what the others write meanwhile. Each looks at the whole folder and may then write
//! an eighth of the room that is left, before it looks again; an eighth of the limit is never filled.
//! So eight processes keep the bound, and more of them as a rule.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::statvfs;

use super::{BYTES, LOG};

/// A process writes one part in so many of the room that is left, before it looks at the folder again.
const SHARE: u64 = 8;

/// No process writes more before it looks at the folder again.
const MAX_GRANT: u64 = 64 << 20;

/// Files of other data sets that were used more recently are removed only where the folder holds more
/// than it may.
pub(super) const UNUSED: Duration = Duration::from_secs(600);

/// The most bytes of a cache folder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheLimit {
    /// This many.
    Bytes(u64),
    /// This share, 0 to 1, of what would be free in the file system without the cache.
    Share(f64),
}

/// The files of one shard in one version.
#[derive(Debug)]
struct Files {
    n_bytes: u64,
    /// When they were last used, by the clock of then.
    used: SystemTime,
}

/// What a folder holds.
#[derive(Debug)]
pub(super) struct Usage {
    files: BTreeMap<OsString, Files>,
    pub(super) n_bytes: u64,
    pub(super) limit: u64,
}

impl Usage {
    /// Looks at the folder.
    pub(super) fn of(folder: &Path, limit: CacheLimit) -> io::Result<Self> {
        let mut files = BTreeMap::<OsString, Files>::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let is_ours = path.extension().is_some_and(|ext| ext == BYTES || ext == LOG);
            let Some(stem) = path.file_stem().filter(|_| is_ours) else { continue };
            // Another process may have removed it.
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let (n_bytes, used) = (512 * found.blocks(), found.modified()?);
            let of = files.entry(stem.to_owned()).or_insert(Files { n_bytes: 0, used });
            of.n_bytes += n_bytes;
            of.used = of.used.max(used);
        }
        let n_bytes = files.values().map(|of| of.n_bytes).sum();
        let limit = match limit {
            CacheLimit::Bytes(limit) => limit,
            CacheLimit::Share(share) => {
                let system = statvfs(folder)?;
                let free = system.f_bavail.saturating_mul(system.f_frsize);
                (free.saturating_add(n_bytes) as f64 * share) as u64
            }
        };
        Ok(Self { files, n_bytes, limit })
    }

    /// The bytes up to which the folder is filled.
    fn goal(&self) -> u64 {
        self.limit - self.limit / 8
    }

    /// How much may be written before the next look.
    pub(super) fn grant(&self) -> u64 {
        (self.goal().saturating_sub(self.n_bytes) / SHARE).min(MAX_GRANT)
    }

    /// Makes room for writing `wanted` bytes, until `is_closed`. Files of other shards than `own` that
    /// nobody uses go first, those used longest ago before others; used ones and `own` ones go only where
    /// the limit is passed.
    pub(super) fn make_room(
        &mut self,
        folder: &Path,
        own: &HashSet<OsString>,
        wanted: u64,
        is_closed: impl Fn() -> bool,
    ) {
        // So that some is left to be granted. What cannot be granted in an empty folder is nobody's loss.
        let for_wanted = self.goal().checked_sub(SHARE * wanted).unwrap_or(self.goal());
        let few = for_wanted.min(self.limit / 4 * 3);
        let now = SystemTime::now();
        let rank = |(stem, of): (&OsString, &Files)| {
            // A time to come is of a clock that was wrong, and says nothing.
            let age = now.duration_since(of.used).unwrap_or(Duration::MAX);
            let is_spare = age >= UNUSED && !own.contains(stem);
            (!is_spare, own.contains(stem), std::cmp::Reverse(age), stem.clone())
        };
        let mut order: Vec<_> = self.files.iter().map(rank).collect();
        order.sort();
        for (is_used, _, _, stem) in order {
            let most = if is_used { self.limit } else { few };
            if self.n_bytes <= most || is_closed() {
                break;
            }
            if remove(&folder.join(&stem)) {
                self.n_bytes -= self.files.remove(&stem).map_or(0, |of| of.n_bytes);
            }
        }
    }
}

/// A file of a shard, whose stem may have points in it.
pub(super) fn file(stem: &Path, extension: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Removes the files of a shard. The log goes first: bytes without it are nothing.
pub(super) fn remove(stem: &Path) -> bool {
    let remove = |extension| match fs::remove_file(file(stem, extension)) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(()) => true,
    };
    remove(LOG) && remove(BYTES)
}
