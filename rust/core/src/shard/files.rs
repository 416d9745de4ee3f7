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
use crate::{
    Error, ErrorKind, Result,
    batch::Recycler,
    stats::{FileRequests, Requests, Sent, Timed},
};

/// The operating system's "too many open files" on the systems that we build for.
const EMFILE: i32 = 24;

/// How many requests were sent to the storage, and how many bytes they brought.
#[derive(Debug, Default)]
pub struct ReadCounters {
    /// The open files, and what was read of all: counted where a file is looked up for a request.
    open: Mutex<OpenFiles>,
    pub(super) retries: AtomicU64,
    pub(super) times: Requests,
}

impl ReadCounters {
    /// Positional reads so far. Opening a file is not counted.
    pub fn requests(&self) -> u64 {
        self.lock().sent.counts().0
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.lock().sent.counts().1
    }

    fn lock(&self) -> MutexGuard<'_, OpenFiles> {
        // Every state of the map is a valid one, so a panic elsewhere does not matter here.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
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
    max_open: usize,
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

#[derive(Debug, Default)]
struct OpenFiles {
    by_id: HashMap<u64, Opened>,
    clock: u64,
    sent: Sent,
}

#[derive(Debug)]
struct Opened {
    file: Arc<dyn Handle>,
    last_use: u64,
    sent: Sent,
    /// Where that is kept while the file is not open.
    of: Arc<FileRequests>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        *self.of.sent() = self.sent;
    }
}

impl OpenFiles {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A request for `wanted` more bytes of a file is about to be sent.
    fn send(&mut self, id: u64, of: &FileRequests, wanted: usize) -> Timed {
        self.sent.count(wanted);
        match self.by_id.get_mut(&id) {
            Some(opened) => opened.sent.send(wanted, of),
            None => of.sent().send(wanted, of),
        }
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
        self.counters.lock().by_id.clear();
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
        let mut open = self.counters.lock();
        let now = open.tick();
        open.by_id.get_mut(&id).map(|opened| {
            opened.last_use = now;
            Arc::clone(&opened.file)
        })
    }

    /// As [`Self::cached`], for a request for `wanted` bytes, which is counted.
    pub(super) fn cached_for(
        &self,
        (id, of): (u64, &FileRequests),
        wanted: usize,
    ) -> Option<(Arc<dyn Handle>, Timed)> {
        let mut open = self.counters.lock();
        let now = open.tick();
        let opened = open.by_id.get_mut(&id)?;
        opened.last_use = now;
        let found = (Arc::clone(&opened.file), opened.sent.send(wanted, of));
        open.sent.count(wanted);
        Some(found)
    }

    /// A request for `wanted` more bytes of this source is about to be sent.
    pub(super) fn send(&self, (id, of): (u64, &FileRequests), wanted: usize) -> Timed {
        self.counters.lock().send(id, of, wanted)
    }

    /// So many of the bytes that were asked for of this source did not come.
    pub(super) fn unread(&self, (id, of): (u64, &FileRequests), bytes: usize) {
        let mut open = self.counters.lock();
        open.sent.unread(bytes);
        match open.by_id.get_mut(&id) {
            Some(opened) => opened.sent.unread(bytes),
            None => of.sent().unread(bytes),
        }
    }

    /// `(requests, bytes)` of this source.
    pub(super) fn counts(&self, (id, of): (u64, &FileRequests)) -> (u64, u64) {
        let open = self.counters.lock();
        open.by_id.get(&id).map_or_else(|| of.sent().counts(), |opened| opened.sent.counts())
    }

    /// Keeps a source's open file, in the place of the one used longest ago.
    pub(super) fn keep(&self, id: u64, of: &Arc<FileRequests>, file: &Arc<dyn Handle>) {
        let mut open = self.counters.lock();
        let last_use = open.tick();
        while open.by_id.len() >= self.max_open {
            let by_use = open.by_id.iter().min_by_key(|(_, o)| o.last_use);
            let Some(oldest) = by_use.map(|(id, _)| *id) else { break };
            open.by_id.remove(&oldest);
        }
        // What an entry in its place has counted is read after that has gone.
        open.by_id.remove(&id);
        let (file, of, sent) = (Arc::clone(file), Arc::clone(of), *of.sent());
        open.by_id.insert(id, Opened { file, last_use, sent, of });
    }

    /// Closes a source's file.
    pub(super) fn forget(&self, id: u64) {
        self.counters.lock().by_id.remove(&id);
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
}
