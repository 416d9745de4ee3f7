//! The files of a pipeline, and how all of its reads are done.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use super::{
    open_files::{FileKey, OpenFile, OpenFiles},
    retry::Retry,
    sidecar::IndexDir,
    storage::{Mounted, Storage},
};
use crate::{Error, ErrorKind, Result, memory::Recycler, metrics::Requests};

/// What all shards of a pipeline and all of its threads read through.
///
/// The descriptors are the process's: see [`OpenFiles`].
#[derive(Debug)]
pub struct Files {
    open: OpenFiles,
    /// What was looked at here, whether it is open or not: closed at the end.
    keys: Mutex<Vec<Arc<FileKey>>>,
    requests: Requests,
    cancel: Arc<AtomicBool>,
    retries: u32,
    index_dir: IndexDir,
    pub(super) keeps_cache: bool,
    /// Memory for what is read of record batches.
    pub(super) buffers: Arc<Recycler>,
    pub(super) storage: Arc<dyn Storage>,
}

impl Default for Files {
    fn default() -> Self {
        Self::new(&OpenFiles::default())
    }
}

impl Files {
    /// With the descriptors of `open`. Failed requests are not repeated, and no sidecars are kept.
    pub fn new(open: &OpenFiles) -> Self {
        Self {
            open: open.clone(),
            keys: Mutex::default(),
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
        for key in &*self.keys.lock().unwrap_or_else(PoisonError::into_inner) {
            self.open.forget(key);
        }
    }

    pub(super) fn index_dir(&self) -> &IndexDir {
        &self.index_dir
    }

    pub(super) fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Relaxed) { Err(Error::new(ErrorKind::Closed)) } else { Ok(()) }
    }

    /// The attempts that one request has.
    pub(super) fn retry(&self) -> Retry<'_> {
        Retry::new(self.retries, &self.cancel)
    }

    /// Remembers a file that is to be closed with the others.
    pub(super) fn add(&self, key: FileKey) -> Arc<FileKey> {
        let key = Arc::new(key);
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&key));
        key
    }

    /// The open file of a source, if there is one.
    pub(super) fn cached(&self, key: &Arc<FileKey>) -> Option<Arc<OpenFile>> {
        self.open.get(key)
    }

    /// Opens a file.
    pub(super) fn open_file(&self, key: &FileKey) -> Result<Arc<OpenFile>> {
        self.requests.opens();
        self.open.open(key, self.storage.as_ref(), &self.cancel)
    }

    /// Keeps a source's open file for the next request.
    pub(super) fn keep(&self, key: &Arc<FileKey>, file: &Arc<OpenFile>) {
        self.open.keep(key, file);
    }

    /// Closes a source's file.
    pub(super) fn forget(&self, key: &Arc<FileKey>) {
        self.open.forget(key);
    }
}
