//! The open files of a pipeline, and how all of its reads are done.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    mapped::{MappedFiles, Mapper},
    retry::Retry,
    sidecar::IndexDir,
    storage::{Handle, Mounted, Storage},
};
use crate::{Error, ErrorKind, Result, batch::Recycler, stats::Requests};

/// The operating system's "too many open files" on the systems that we build for.
const EMFILE: i32 = 24;

/// How many requests were sent to the storage, and how many bytes they brought.
#[derive(Debug, Default)]
pub struct ReadCounters {
    pub(super) requests: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) times: Requests,
}

impl ReadCounters {
    /// Positional reads so far. Opening a file is not counted.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// What requests took, and the files opened for them.
    pub(crate) fn times(&self) -> &Requests {
        &self.times
    }

    /// Requests that were sent again after a failure.
    pub fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }
}

/// The open files of a pipeline: at most so many at a time, the least recently used closed first.
///
/// Shared by all shards of a pipeline and all of its threads. No lock is held while reading.
#[derive(Debug)]
pub struct Files {
    open: Mutex<HashMap<u64, Opened>>,
    max_open: usize,
    clock: AtomicU64,
    next_id: AtomicU64,
    counters: Arc<ReadCounters>,
    cancel: Arc<AtomicBool>,
    retries: u32,
    index_dir: IndexDir,
    pub(super) keeps_cache: bool,
    /// Memory for what is read of record batches.
    pub(super) bodies: Arc<Recycler>,
    pub(super) storage: Arc<dyn Storage>,
}

#[derive(Debug)]
struct Opened {
    file: Arc<dyn Handle>,
    last_use: u64,
}

impl Default for Files {
    fn default() -> Self {
        Self::new(256)
    }
}

impl Files {
    /// Keeps at most `max_open` files open (at least one), besides those being read right now.
    /// Failed requests are not repeated, and no sidecars are kept.
    pub fn new(max_open: usize) -> Self {
        Self {
            open: Mutex::default(),
            max_open: max_open.max(1),
            clock: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
            counters: Arc::default(),
            cancel: Arc::default(),
            retries: 0,
            index_dir: IndexDir::Nowhere,
            keeps_cache: true,
            bodies: Recycler::new(0),
            storage: Arc::new(Mounted),
        }
    }

    /// Once `cancel` is set, every read of these files ends in [`ErrorKind::Closed`], within one
    /// block of 4 MiB.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = cancel;
        self
    }

    /// Sends a request that failed up to `retries` more times, with pauses of 0.1 s, 0.2 s, 0.4 s
    /// and so on to 10 s, where the failure is of a kind that may pass.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Where sidecars are kept: see [`IndexDir`].
    #[must_use]
    pub fn with_index_dir(mut self, index_dir: IndexDir) -> Self {
        self.index_dir = index_dir;
        self
    }

    /// Whether what was read stays in the operating system's page cache. Without it, reading a data
    /// set that is larger than memory does not push out what others have cached.
    #[must_use]
    pub fn with_page_cache(mut self, keeps: bool) -> Self {
        self.keeps_cache = keeps;
        self
    }

    /// Reads these files through maps, where there is a mapper and it can map them.
    #[must_use]
    pub fn with_mapper(mut self, mapper: Option<Arc<dyn Mapper>>) -> Self {
        if let Some(mapper) = mapper {
            self.storage = Arc::new(MappedFiles(mapper));
        }
        self
    }

    /// Keeps up to so many bytes of memory that record batches were read into, for the next ones.
    #[must_use]
    pub fn with_spare_memory(mut self, n_bytes: usize) -> Self {
        self.bodies = Recycler::new(n_bytes);
        self
    }

    /// Bytes of that memory which nothing is in.
    pub fn spare_bytes(&self) -> usize {
        self.bodies.idle_bytes()
    }

    #[cfg(test)]
    pub(super) fn with_storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// The counters of all reads through these files.
    pub fn counters(&self) -> &Arc<ReadCounters> {
        &self.counters
    }

    /// Closes all descriptors and frees the spare memory. A later read opens its file again.
    pub fn close(&self) {
        self.lock().clear();
        self.bodies.trim(0);
    }

    pub(super) fn index_dir(&self) -> &IndexDir {
        &self.index_dir
    }

    pub(super) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    pub(super) fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Relaxed) { Err(Error::new(ErrorKind::Closed)) } else { Ok(()) }
    }

    /// The attempts that one request has.
    pub(super) fn retry(&self) -> Retry<'_> {
        Retry::new(self.retries, &self.cancel)
    }

    /// The open file of a source, if there is one.
    pub(super) fn cached(&self, id: u64) -> Option<Arc<dyn Handle>> {
        let now = self.clock.fetch_add(1, Relaxed);
        self.lock().get_mut(&id).map(|opened| {
            opened.last_use = now;
            Arc::clone(&opened.file)
        })
    }

    /// Keeps a source's open file, in the place of the one used longest ago.
    pub(super) fn keep(&self, id: u64, file: &Arc<dyn Handle>) {
        let last_use = self.clock.fetch_add(1, Relaxed);
        let mut open = self.lock();
        while open.len() >= self.max_open {
            let Some(oldest) = open.iter().min_by_key(|(_, o)| o.last_use).map(|(id, _)| *id)
            else {
                break;
            };
            open.remove(&oldest);
        }
        open.insert(id, Opened { file: Arc::clone(file), last_use });
    }

    /// Closes a source's file.
    pub(super) fn forget(&self, id: u64) {
        self.lock().remove(&id);
    }

    /// Opens a file, after closing all others where the process has too many.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<Arc<dyn Handle>> {
        self.counters.times.opens();
        let opened = match self.storage.open(path) {
            Err(e) if e.raw_os_error() == Some(EMFILE) => {
                self.close();
                self.storage.open(path)
            }
            other => other,
        };
        opened.map(Arc::from)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Opened>> {
        // Every state of the map is a valid one, so a panic elsewhere does not matter here.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
