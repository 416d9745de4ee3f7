//! The open files of a process: a bounded number, whatever the number of pipelines and shards.

use std::{
    hash::{Hash, Hasher},
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use lru::LruCache;
use rustix::process::{Resource, getrlimit};

use super::storage::{Handle, Stamp, Storage};
use crate::{Error, ErrorKind, Result};

/// The bound on open files is half of what the process may have, but no less and no more than this.
/// The other half is the program's.
const FEWEST: usize = 16;
const MOST: usize = 4096;

/// How often a thread that waits for a descriptor looks whether it is to stop.
const CANCEL_CHECK: Duration = Duration::from_millis(10);

/// "Too many open files", in this process and in the system, on the systems that we build for.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Whether a file could not be opened for want of descriptors.
pub(super) fn is_out_of_descriptors(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(EMFILE | ENFILE))
}

/// The open files that all pipelines of a process share. Clones are the same.
///
/// The ones used longest ago are closed where others are needed. Pipelines that read the same shards
/// share their descriptors. No lock is held while a file is opened, read or closed.
#[derive(Clone, Debug)]
pub struct OpenFiles(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// At most so many are open at a time, those being read included.
    max: usize,
    state: Mutex<State>,
    /// Threads wait here for a descriptor.
    closed: Condvar,
}

#[derive(Debug)]
struct State {
    files: LruCache<Arc<FileKey>, Arc<OpenFile>>,
    /// Open files and those about to be opened.
    n_open: usize,
}

/// What an open file is found by: as it was when its shard was opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileKey {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

impl Hash for FileKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Enough to tell files apart, and far cheaper than the path with every request.
        (self.stamp.inode, self.stamp.len).hash(state);
    }
}

/// A file that is open for as long as this lives.
#[derive(Debug)]
pub(super) struct OpenFile {
    handle: Box<dyn Handle>,
    /// After the handle: the file is closed when this is given back.
    _permit: Permit,
}

impl OpenFile {
    pub(super) fn handle(&self) -> &dyn Handle {
        self.handle.as_ref()
    }
}

/// The right to have one more file open.
#[derive(Debug)]
struct Permit(Arc<Shared>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.lock().n_open -= 1;
        self.0.closed.notify_one();
    }
}

impl Default for OpenFiles {
    /// Bounded by half of the descriptors that this process may have now.
    fn default() -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        let half = limit.map_or(MOST, |limit| usize::try_from(limit / 2).unwrap_or(MOST));
        Self::new(half.clamp(FEWEST, MOST))
    }
}

impl OpenFiles {
    /// At most `max` files are open at a time; at least one.
    pub fn new(max: usize) -> Self {
        let state = State { files: LruCache::unbounded(), n_open: 0 };
        let (state, closed) = (Mutex::new(state), Condvar::new());
        Self(Arc::new(Shared { max: max.max(1), state, closed }))
    }

    /// How many are open.
    pub fn n_open(&self) -> usize {
        self.0.lock().n_open
    }

    /// The open file of this key, if there is one.
    pub(super) fn get(&self, key: &Arc<FileKey>) -> Option<Arc<OpenFile>> {
        self.0.lock().files.get(key).cloned()
    }

    /// Opens a file, once there is room for it, and where the system has no descriptor left, after
    /// closing all that nobody reads.
    pub(super) fn open(
        &self,
        key: &FileKey,
        storage: &dyn Storage,
        cancel: &AtomicBool,
    ) -> Result<Arc<OpenFile>> {
        let permit = self.permit(cancel)?;
        let handle = match storage.open(&key.path) {
            Err(e) if is_out_of_descriptors(&e) => {
                let idle = self.0.lock().remove(|file| Arc::strong_count(file) == 1);
                drop(idle);
                storage.open(&key.path)
            }
            other => other,
        };
        Ok(Arc::new(OpenFile { handle: handle?, _permit: permit }))
    }

    /// Keeps an open file for the next request.
    pub(super) fn keep(&self, key: &Arc<FileKey>, file: &Arc<OpenFile>) {
        let replaced = self.0.lock().files.put(Arc::clone(key), Arc::clone(file));
        drop(replaced);
    }

    /// Closes a file, once nobody reads it.
    pub(super) fn forget(&self, key: &Arc<FileKey>) {
        let forgotten = self.0.lock().files.pop(key);
        drop(forgotten);
    }

    /// Waits until one more file may be open, and closes another for it.
    fn permit(&self, cancel: &AtomicBool) -> Result<Permit> {
        let Self(shared) = self;
        let mut state = shared.lock();
        let mut has_evicted = false;
        while state.n_open >= shared.max {
            if cancel.load(Relaxed) {
                return Err(Error::new(ErrorKind::Closed));
            }
            let evicted = state.evict(!has_evicted);
            let is_closed = evicted.as_ref().is_some_and(|file| Arc::strong_count(file) == 1);
            has_evicted |= evicted.is_some();
            if evicted.is_some() {
                // Closing takes the lock again.
                drop(state);
                drop(evicted);
                state = shared.lock();
            }
            if !is_closed {
                // All are being read. Whoever holds one waits for its storage and nothing else.
                let waited = shared.closed.wait_timeout(state, CANCEL_CHECK);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        state.n_open += 1;
        drop(state);
        Ok(Permit(Arc::clone(shared)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every state is a valid one, so a panic elsewhere does not matter here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes out the file used longest ago of those that nobody reads; with `in_use`, of all where
    /// there is none.
    fn evict(&mut self, in_use: bool) -> Option<Arc<OpenFile>> {
        let mut by_use = self.files.iter().rev();
        let idle = by_use.find(|(_, file)| Arc::strong_count(file) == 1);
        let key = idle.map(|(key, _)| Arc::clone(key));
        match key {
            Some(key) => self.files.pop(&key),
            None if in_use => self.files.pop_lru().map(|(_, file)| file),
            None => None,
        }
    }

    /// Takes out all of these.
    fn remove(&mut self, which: impl Fn(&Arc<OpenFile>) -> bool) -> Vec<Arc<OpenFile>> {
        let keys =
            self.files.iter().filter(|(_, file)| which(file)).map(|(key, _)| Arc::clone(key));
        let keys: Vec<_> = keys.collect();
        keys.iter().filter_map(|key| self.files.pop(key)).collect()
    }
}
