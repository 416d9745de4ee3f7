//! A local cache of ranges: what was read of shards that lie far away is kept in a folder.
//!
//! Each shard has two files in it, whose names begin with the shard's and end in its key, a hash of its
//! identity and version: `.gmbytes`, sparse, with the bytes at their own offsets; and `.gmlog`, to which
//! ranges are added once their bytes are written ([`log`]). A range counts only if its checksum fits
//! what is read. So there are no locks, and any number of processes may read, write and remove at the
//! same time, be killed, or lose what they wrote: what does not fit is read from the shard.
//!
//! No file stays open: opening one costs microseconds, and sees at once what others have removed. Nothing
//! that goes wrong here is an error: the cache is read past, or nothing more is written.

mod bound;
mod log;
#[cfg(test)]
mod model;
mod ranges;
mod shard;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    ffi::OsString,
    fs::DirBuilder,
    io,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

pub use self::bound::CacheLimit;
pub(super) use self::shard::{CachedShard, ReadFrom};

use self::bound::Usage;
use super::{FileVersion, base_name, identity, path_text};
use crate::{
    hash,
    sync::lock_std,
    threads::{self, JoinHandle},
};

const BYTES: &str = "gmbytes";
const LOG: &str = "gmlog";

/// Part of each key. Another format has another number, and reads none of these files.
const FORMAT: u64 = 2;

/// Where there is no room, how long until the folder is looked at again.
const RECHECK: Duration = Duration::from_secs(5);

/// File systems give room in blocks of this, as a rule.
const BLOCK: u64 = 4096;

/// Where ranges are cached, and how many bytes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeCacheOptions {
    /// The folder, which is made when it is missing, for this user alone.
    pub folder: PathBuf,
    /// The most bytes in it.
    pub limit: CacheLimit,
}

/// The cache folder, as one store uses it.
#[derive(Debug)]
pub(super) struct RangeCache {
    options: RangeCacheOptions,
    /// The stems of the shards that this store reads.
    own: Mutex<HashSet<OsString>>,
    room: Mutex<Room>,
    /// Why nothing more is written, until it was told.
    problem: Mutex<Option<String>>,
    is_stopped: AtomicBool,
    is_closed: AtomicBool,
    begin: OnceLock<()>,
}

/// What may be written.
#[derive(Debug, Default)]
struct Room {
    left: u64,
    /// When less is left, the folder is looked at again.
    low: u64,
    /// The most that there was no room for.
    wanted: u64,
    /// When that was done last.
    measured: Option<Instant>,
    /// Whether it is being done, by this thread or another.
    is_measuring: bool,
    thread: Option<JoinHandle<()>>,
}

impl RangeCache {
    pub(super) fn new(options: RangeCacheOptions) -> Self {
        Self {
            options,
            own: Mutex::default(),
            room: Mutex::default(),
            problem: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            begin: OnceLock::new(),
        }
    }

    /// The cached ranges of a shard; `None` where nothing tells its versions apart.
    pub(super) fn shard(
        self: &Arc<Self>,
        path: &Path,
        version: &FileVersion,
    ) -> Option<CachedShard> {
        if !version.may_be_kept(path) {
            return None;
        }
        // Before the first range is to be written, which no thread can be left to wait for.
        self.begin.get_or_init(|| self.begin());
        let identity = hash::fnv1a(identity(path)?.as_os_str().as_bytes());
        // Without the number of a local file, which some file systems give anew at each mount.
        let (modified, n) = (version.modified.0 as u64, version.modified.1 as u64);
        let key = hash::hash(&[FORMAT, identity, version.len, modified, n]);
        // Shortened, since a file's name has at most 255 bytes.
        let name: String = base_name(path).to_string_lossy().chars().take(40).collect();
        let stem = OsString::from(format!("{name}-{key:016x}"));
        lock_std(&self.own).insert(stem.clone());
        Some(CachedShard::new(self, &self.options.folder.join(stem), key, version.len))
    }

    /// Makes the folder and looks at it.
    fn begin(&self) {
        let folder = &self.options.folder;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        match made.and_then(|()| Usage::of(folder, self.options.limit)) {
            Ok(usage) => lock_std(&self.room).grant(usage.grant()),
            Err(error) => self.stop(&error),
        }
    }

    /// Whether this many bytes may be written. Never waits.
    fn reserve(self: &Arc<Self>, n_bytes: u64) -> bool {
        if self.is_stopped.load(Relaxed) {
            return false;
        }
        // A block for the log, too.
        let n_bytes = n_bytes.next_multiple_of(BLOCK) + BLOCK;
        let mut room = lock_std(&self.room);
        let has_room = room.left >= n_bytes;
        if has_room {
            room.left -= n_bytes;
        } else {
            room.wanted = room.wanted.max(n_bytes);
        }
        let is_due = has_room || room.measured.is_none_or(|then| then.elapsed() >= RECHECK);
        if (room.left < room.low || !has_room) && is_due && !room.is_measuring {
            let cache = Arc::clone(self);
            // Removing large files takes a while, which no reader waits for.
            room.thread = threads::spawn("gristmill-cache", move || cache.measure()).ok();
            room.is_measuring = room.thread.is_some();
        }
        has_room
    }

    /// Looks at the folder, and makes room where there is none.
    fn measure(&self) {
        let folder = &self.options.folder;
        let grant = Usage::of(folder, self.options.limit).map(|mut usage| {
            let own = lock_std(&self.own).clone();
            let wanted = lock_std(&self.room).wanted;
            usage.make_room(folder, &own, wanted, || self.is_closed.load(Relaxed));
            usage.grant()
        });
        let mut room = lock_std(&self.room);
        (room.measured, room.is_measuring) = (Some(Instant::now()), false);
        match grant {
            Ok(grant) => room.grant(grant),
            Err(error) => self.stop(&error),
        }
    }

    /// Writes nothing more, and has it told why.
    fn stop(&self, why: &io::Error) {
        if self.is_stopped.swap(true, Relaxed) {
            return;
        }
        let folder = path_text(&self.options.folder);
        *lock_std(&self.problem) = Some(format!(
            "nothing more is written to cache_dir={folder:?}: {why}; what it does not have is read \
             from the shards"
        ));
    }

    /// Why nothing more is written; once.
    pub(super) fn take_problem(&self) -> Option<String> {
        lock_std(&self.problem).take()
    }

    /// Ends what is done in the background, after at most one file.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Relaxed);
        self.wait();
    }

    /// Waits for what is done in the background.
    fn wait(&self) {
        let thread = lock_std(&self.room).thread.take();
        let _ = thread.map(JoinHandle::join);
    }
}

impl Room {
    fn grant(&mut self, n_bytes: u64) {
        (self.left, self.low) = (n_bytes, n_bytes / 2);
    }
}
