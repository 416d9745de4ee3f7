//! The open files of a process: a bounded number, however many pipelines and shards there are.

use std::{
    hash::{Hash, Hasher},
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use lru::LruCache;
use rustix::process::{Resource, getrlimit};

use super::{
    backend::{Backend, FileVersion, ReadAt},
    remote::Connections,
    retry::CANCEL_CHECK,
};
use crate::{Error, ErrorKind, Result, sync::lock_std};

/// Half of the descriptors that the process may have are used, within these bounds. The other half
/// is the program's.
const MIN_OPEN: usize = 16;
const MAX_OPEN: usize = 4096;

/// "Too many open files", in this process and in the system, on the systems that we build for.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Whether a file could not be opened for lack of descriptors.
pub(super) fn is_out_of_descriptors(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(EMFILE | ENFILE))
}

/// A least-recently-used cache of open files, and the connections to servers, which all pipelines of a process share. Clones are the
/// same cache.
///
/// Pipelines that read the same shards share their descriptors. No lock is held while a file is
/// opened, read or closed.
#[derive(Clone, Debug)]
pub struct DescriptorCache(Arc<Shared>, Connections);

#[derive(Debug)]
struct Shared {
    /// The most files that are open at a time, those being read included.
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

/// The key of an open file: its path, and its version when its shard was opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileKey {
    pub(super) path: PathBuf,
    pub(super) version: FileVersion,
}

impl Hash for FileKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // These tell files apart, and hashing the path with every request would cost more.
        (self.version.id, self.version.len).hash(state);
    }
}

/// A file that is open for as long as this lives.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: Box<dyn ReadAt>,
    /// The last field: the file is closed before the permit is given back. Remote files have no
    /// descriptor.
    _permit: Option<DescriptorPermit>,
}

impl OpenFile {
    /// A file that takes no descriptor.
    pub(super) fn without_descriptor(file: Box<dyn ReadAt>) -> Self {
        Self { file, _permit: None }
    }

    pub(super) fn file(&self) -> &dyn ReadAt {
        self.file.as_ref()
    }
}

/// The right to have one more file open.
#[derive(Debug)]
struct DescriptorPermit(Arc<Shared>);

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        lock_std(&self.0.state).n_open -= 1;
        self.0.closed.notify_one();
    }
}

impl Default for DescriptorCache {
    /// Bounded by half of the descriptors that this process may have now.
    fn default() -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        let half = limit.map_or(MAX_OPEN, |limit| usize::try_from(limit / 2).unwrap_or(MAX_OPEN));
        Self::new(half.clamp(MIN_OPEN, MAX_OPEN))
    }
}

impl DescriptorCache {
    /// At most `max` files are open at a time; at least one.
    pub fn new(max: usize) -> Self {
        let state = State { files: LruCache::unbounded(), n_open: 0 };
        let (state, closed) = (Mutex::new(state), Condvar::new());
        Self(Arc::new(Shared { max: max.max(1), state, closed }), Connections::default())
    }

    /// The connections to servers, which are shared likewise.
    pub(super) fn connections(&self) -> &Connections {
        &self.1
    }

    /// How many files are open.
    pub fn n_open(&self) -> usize {
        lock_std(&self.0.state).n_open
    }

    /// The open file of this key, if there is one.
    pub(super) fn get(&self, key: &Arc<FileKey>) -> Option<Arc<OpenFile>> {
        lock_std(&self.0.state).files.get(key).cloned()
    }

    /// Opens a file, once there is room for it. Where the system has no descriptor left, all files
    /// that nobody reads are closed first.
    pub(super) fn open(
        &self,
        key: &FileKey,
        backend: &dyn Backend,
        cancel: &AtomicBool,
    ) -> Result<Arc<OpenFile>> {
        let permit = self.permit(cancel)?;
        let open = || backend.open(&key.path, &key.version);
        let file = match open() {
            Err(e) if is_out_of_descriptors(&e) => {
                let idle = lock_std(&self.0.state).remove_idle();
                drop(idle);
                open()
            }
            other => other,
        };
        Ok(Arc::new(OpenFile { file: file?, _permit: Some(permit) }))
    }

    /// Adds an open file.
    pub(super) fn put(&self, key: &Arc<FileKey>, file: &Arc<OpenFile>) {
        let replaced = lock_std(&self.0.state).files.put(Arc::clone(key), Arc::clone(file));
        drop(replaced);
    }

    /// Removes a file, which is closed once nobody reads it.
    pub(super) fn remove(&self, key: &Arc<FileKey>) {
        let removed = lock_std(&self.0.state).files.pop(key);
        drop(removed);
    }

    /// Waits until one more file may be open, and evicts another for it.
    fn permit(&self, cancel: &AtomicBool) -> Result<DescriptorPermit> {
        let Self(shared, _) = self;
        let mut state = lock_std(&shared.state);
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
                state = lock_std(&shared.state);
            }
            if !is_closed {
                // All files are being read. Their readers wait for storage only, so this ends.
                let waited = shared.closed.wait_timeout(state, CANCEL_CHECK);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        state.n_open += 1;
        drop(state);
        Ok(DescriptorPermit(Arc::clone(shared)))
    }
}

impl State {
    /// Takes out the least recently used file that nobody reads; with `in_use`, the least recently
    /// used one where all are being read.
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

    /// Takes out all files that nobody reads.
    fn remove_idle(&mut self) -> Vec<Arc<OpenFile>> {
        let idle = self.files.iter().filter(|(_, file)| Arc::strong_count(file) == 1);
        let keys: Vec<_> = idle.map(|(key, _)| Arc::clone(key)).collect();
        keys.iter().filter_map(|key| self.files.pop(key)).collect()
    }
}
