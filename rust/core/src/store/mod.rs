//! Bytes by range, wherever they lie. Nothing here knows what the bytes mean.
//!
//! A [`Store`] is how one pipeline reads: local files and those behind URLs, how often a failed request is
//! repeated, and when reading is cancelled. A [`RangeReader`] reads one file of it. Descriptors are
//! shared by all pipelines of a process ([`DescriptorCache`]).

mod backend;
mod descriptors;
mod local;
mod measured;
mod page_cache;
mod path_kind;
mod path_text;
mod range_cache;
mod reader;
mod remote;
mod retry;
mod root;
#[cfg(test)]
mod tests;
mod window;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

pub(crate) use self::{
    backend::FileVersion,
    reader::{GAP, RangeReader},
    remote::{base_name, has_query, identity},
    root::{MAX_PATH_BYTES, is_of_path},
    window::WindowReader,
};
pub use self::{
    backend::SETTLED,
    descriptors::DescriptorCache,
    measured::MeasuredFile,
    path_kind::{PathKind, path_kinds},
    path_text::{path_bytes, path_text},
    range_cache::{CacheLimit, RangeCacheOptions},
    remote::{Listed, StorageOptions, errno_of, is_remote, list, read, shown_path},
    root::{RefusedPath, Root},
};

use self::{
    backend::Backend,
    descriptors::{FileKey, OpenFile},
    local::LocalFiles,
    range_cache::RangeCache,
    remote::{Environment, RemoteFiles},
    retry::Retry,
};
use crate::{
    Error, ErrorKind, Result, memory::BufferPool, metrics::RequestMetrics, sync::lock_std,
};

/// How one pipeline reads its files, on any thread.
#[derive(Debug)]
pub struct Store {
    backend: Arc<dyn Backend>,
    descriptors: DescriptorCache,
    /// All files that this pipeline reads, open or not: they are closed at its end.
    keys: Mutex<Vec<Weak<FileKey>>>,
    metrics: RequestMetrics,
    cancel: Arc<AtomicBool>,
    retries: u32,
    keeps_page_cache: bool,
    range_cache: Option<Arc<RangeCache>>,
    /// Of those URLs for which there are any.
    storage_options: HashMap<PathBuf, StorageOptions>,
    /// As it was when the first URL was opened: reading it is not safe while others change it.
    environment: OnceLock<Environment>,
    buffers: Arc<BufferPool>,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(&DescriptorCache::default())
    }
}

impl Store {
    /// Reads files through these descriptors and connections, without retries.
    pub fn new(descriptors: &DescriptorCache) -> Self {
        Self {
            backend: Arc::new(LocalFiles),
            descriptors: descriptors.clone(),
            keys: Mutex::default(),
            metrics: RequestMetrics::default(),
            cancel: Arc::default(),
            retries: 0,
            keeps_page_cache: true,
            range_cache: None,
            storage_options: HashMap::new(),
            environment: OnceLock::new(),
            buffers: Arc::default(),
        }
    }

    /// Once `cancel` is set, every read ends in [`ErrorKind::Closed`], within one block of 4 MiB.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = cancel;
        self
    }

    /// Repeats a request up to `retries` times after transient errors, with pauses of 0.1 s, 0.2 s,
    /// 0.4 s and so on to 10 s.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Whether what was read stays in the operating system's page cache. Without it, reading a data
    /// set that is larger than memory does not evict what other programs have cached.
    #[must_use]
    pub fn with_page_cache(mut self, keeps: bool) -> Self {
        self.keeps_page_cache = keeps;
        self
    }

    /// Keeps what is read of shards in a folder, and reads it from there.
    #[must_use]
    pub fn with_range_cache(mut self, options: Option<RangeCacheOptions>) -> Self {
        self.range_cache = options.map(|options| Arc::new(RangeCache::new(options)));
        self
    }

    /// How each of these URLs is reached.
    #[must_use]
    pub fn with_storage_options(
        mut self,
        options: impl IntoIterator<Item = (PathBuf, StorageOptions)>,
    ) -> Self {
        self.storage_options = options.into_iter().collect();
        self
    }

    /// Where readers get memory for large reads.
    #[must_use]
    pub fn with_buffers(mut self, buffers: Arc<BufferPool>) -> Self {
        self.buffers = buffers;
        self
    }

    #[cfg(test)]
    fn with_backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backend = backend;
        self
    }

    /// Requests so far, and the bytes that they returned. Opening a file is not counted.
    pub fn reads(&self) -> (u64, u64) {
        (self.metrics.timer().count(), self.metrics.bytes())
    }

    /// Why nothing more is written to the range cache, if that has come to pass; once.
    pub fn take_cache_problem(&self) -> Option<String> {
        self.range_cache.as_ref()?.take_problem()
    }

    /// What has been measured of all requests.
    pub(crate) fn metrics(&self) -> &RequestMetrics {
        &self.metrics
    }

    /// Memory for large reads.
    pub(crate) fn buffers(&self) -> &Arc<BufferPool> {
        &self.buffers
    }

    /// Closes all files. A later read opens its file again.
    pub fn close(&self) {
        for key in lock_std(&self.keys).iter().filter_map(Weak::upgrade) {
            self.descriptors.remove(&key);
        }
        if let Some(cache) = &self.range_cache {
            cache.close();
        }
    }

    /// What reads the file at a URL.
    fn remote(&self, path: &Path) -> RemoteFiles {
        let connections = self.descriptors.connections().clone();
        let options = self.storage_options.get(path).cloned().unwrap_or_default();
        let environment = self.environment.get_or_init(Environment::now).clone();
        RemoteFiles { connections, cancel: Arc::clone(&self.cancel), options, environment }
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Relaxed) { Err(Error::new(ErrorKind::Closed)) } else { Ok(()) }
    }

    fn retry(&self) -> Retry<impl Fn() -> bool + '_, impl Fn(Duration) + '_> {
        Retry::new(self.retries, || self.cancel.load(Relaxed), |nap| self.metrics.paused(nap))
    }

    /// Registers a file, which [`Self::close`] will close.
    fn register(&self, key: FileKey) -> Arc<FileKey> {
        let key = Arc::new(key);
        let mut keys = lock_std(&self.keys);
        if keys.len() == keys.capacity() {
            // Files of single rows come and go.
            keys.retain(|key| key.strong_count() > 0);
        }
        keys.push(Arc::downgrade(&key));
        key
    }

    /// The file that a path in the data names, in `root`: see [`Root::find`].
    ///
    /// # Errors
    ///
    /// Where it cannot be looked up, once no retry is left; `Closed` when cancelled.
    pub(crate) fn find(&self, root: &Root, path: &str) -> Result<Result<PathBuf, RefusedPath>> {
        let mut retry = self.retry();
        loop {
            self.check_cancelled()?;
            match root.find(path) {
                Ok(found) => return Ok(found),
                Err(error) if is_of_path(&error) => return Err(error.into()),
                Err(error) => retry.after(error.into())?,
            }
        }
    }

    fn open_file(&self, key: &FileKey) -> Result<Arc<OpenFile>> {
        self.metrics.file_opened();
        self.descriptors.open(key, self.backend.as_ref(), &self.cancel)
    }
}
