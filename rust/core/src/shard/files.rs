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
    retry::Retry,
    sidecar::IndexDir,
    storage::{Handle, Mounted, Storage},
};
use crate::{Error, ErrorKind, Result, memory::Recycler, metrics::Requests};

/// The operating system's "too many open files" on the systems that we build for.
const EMFILE: i32 = 24;

/// The open files of a pipeline: at most so many at a time, the least recently used closed first.
///
/// Shared by all shards of a pipeline and all of its threads. No lock is held while reading.
#[derive(Debug)]
pub struct Files {
    max_open: usize,
    next_id: AtomicU64,
    open: Mutex<OpenFiles>,
    requests: Requests,
    cancel: Arc<AtomicBool>,
    retries: u32,
    index_dir: IndexDir,
    pub(super) keeps_cache: bool,
    /// Memory for what is read of record batches.
    pub(super) buffers: Arc<Recycler>,
    pub(super) storage: Arc<dyn Storage>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    by_id: HashMap<u64, Opened>,
    clock: u64,
}

#[derive(Debug)]
struct Opened {
    file: Arc<dyn Handle>,
    last_use: u64,
}

impl OpenFiles {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
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
            max_open: max_open.max(1),
            next_id: AtomicU64::new(0),
            open: Mutex::default(),
            requests: Requests::default(),
            cancel: Arc::default(),
            retries: 0,
            index_dir: IndexDir::Nowhere,
            keeps_cache: true,
            buffers: Arc::default(),
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

    /// Where the memory for what is read of record batches comes from.
    #[must_use]
    pub fn with_buffers(mut self, buffers: Arc<Recycler>) -> Self {
        self.buffers = buffers;
        self
    }

    #[cfg(test)]
    pub(super) fn with_storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    fn lock(&self) -> MutexGuard<'_, OpenFiles> {
        // Every state of the map is a valid one, so a panic elsewhere does not matter here.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Positional reads through these files so far, and the bytes that they brought. Opening a file
    /// is not counted.
    pub fn reads(&self) -> (u64, u64) {
        (self.requests.timer().count(), self.requests.bytes())
    }

    /// What was read through these files.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Closes all descriptors. A later read opens its file again.
    pub fn close(&self) {
        self.lock().by_id.clear();
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
        let mut open = self.lock();
        let now = open.tick();
        open.by_id.get_mut(&id).map(|opened| {
            opened.last_use = now;
            Arc::clone(&opened.file)
        })
    }

    /// Keeps a source's open file, in the place of the one used longest ago.
    pub(super) fn keep(&self, id: u64, file: &Arc<dyn Handle>) {
        let mut open = self.lock();
        let last_use = open.tick();
        while open.by_id.len() >= self.max_open {
            let by_use = open.by_id.iter().min_by_key(|(_, o)| o.last_use);
            let Some(oldest) = by_use.map(|(id, _)| *id) else { break };
            open.by_id.remove(&oldest);
        }
        open.by_id.insert(id, Opened { file: Arc::clone(file), last_use });
    }

    /// Closes a source's file.
    pub(super) fn forget(&self, id: u64) {
        self.lock().by_id.remove(&id);
    }

    /// Opens a file, after closing all others where the process has too many.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<Arc<dyn Handle>> {
        self.requests.opens();
        let opened = match self.storage.open(path) {
            Err(e) if e.raw_os_error() == Some(EMFILE) => {
                self.close();
                self.storage.open(path)
            }
            other => other,
        };
        opened.map(Arc::from)
    }
}
