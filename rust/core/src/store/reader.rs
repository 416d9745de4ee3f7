//! Positional reads of one file: counted, cancellable, repeated after transient errors.
//!
//! A [`RangeReader`] remembers the version that its file had when it was made. After every read, and
//! whenever the descriptor has to be opened again, a file of another version is refused, so that
//! offsets of one file are never applied to another.

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex},
};

use super::{
    Store,
    backend::{Backend, FileVersion, ReadAt},
    descriptors::{FileKey, OpenFile},
    range_cache::{CachedShard, ReadFrom},
    remote::{RequestError, is_remote, shown_path},
};
use crate::{Error, Result, metrics::FileMetrics, sync::lock_std};

/// No request asks for more than this, so that cancellation is noticed between two of them.
const BLOCK: usize = 4 << 20;

/// A request for ranges this close together costs less than two requests.
pub(crate) const GAP: u64 = 4 << 10;

/// The same of a file behind a URL. A request takes some 20 ms there and is often charged for; in
/// that time a connection sends about a megabyte, which other requests could have used as well.
const REMOTE_GAP: u64 = 256 << 10;

/// Reads one file by ranges. It owns no descriptor; the process does.
#[derive(Debug)]
pub(crate) struct RangeReader {
    store: Arc<Store>,
    key: Arc<FileKey>,
    name: Arc<str>,
    metrics: FileMetrics,
    /// A file behind a URL: it takes no descriptor, and belongs to its store.
    remote: Option<Arc<OpenFile>>,
    /// What of it is in the store's range cache.
    cached: Option<CachedShard>,
    /// Held while the file is opened: threads that come at once wait for one descriptor.
    opening: Mutex<()>,
}

impl RangeReader {
    /// Looks up the file's version. The first read opens it.
    pub(crate) fn new(store: &Arc<Store>, path: &Path) -> Result<Self> {
        let name = shown_path(path);
        store.check_cancelled()?;
        let remote = is_remote(path).then(|| store.remote(path));
        let backend: &dyn Backend = match &remote {
            Some(remote) => remote,
            None => store.backend.as_ref(),
        };
        let mut retry = store.retry();
        let version = loop {
            match backend.version(path) {
                Ok(version) => break version,
                // A path that was never there is a wrong path.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(Error::from(e).in_shard(&name));
                }
                Err(e) => retry.after(e.into()).map_err(|e| e.in_shard(&name))?,
            }
            store.check_cancelled()?;
        };
        let remote = remote.map(|remote| remote.open(path, &version)).transpose();
        let remote = remote.map_err(|e| Error::from(e).in_shard(&name))?;
        Ok(Self {
            key: store.register(FileKey { path: path.to_owned(), version }),
            store: Arc::clone(store),
            name,
            metrics: FileMetrics::default(),
            remote: remote.map(|file| Arc::new(OpenFile::without_descriptor(file))),
            cached: None,
            opening: Mutex::default(),
        })
    }

    /// Reads what is in the store's range cache from there, and adds what is not.
    pub(crate) fn cached(mut self) -> Self {
        let cache = self.store.range_cache.as_ref();
        self.cached = cache.and_then(|cache| cache.shard(self.path(), self.version()));
        self
    }

    /// The path as text, for messages.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.key.path
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The file's version when this was made.
    pub(crate) fn version(&self) -> &FileVersion {
        &self.key.version
    }

    /// Whether what is worked out from this file may be kept for the next time.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.version().may_be_kept(self.path())
    }

    /// The file's length in bytes when this was made.
    pub(crate) fn len(&self) -> u64 {
        self.key.version.len
    }

    /// The most bytes between two ranges that are read in one request.
    pub(crate) fn gap(&self) -> u64 {
        if self.remote.is_some() { REMOTE_GAP } else { GAP }
    }

    /// What has been measured of the requests to this file.
    pub(crate) fn metrics(&self) -> &FileMetrics {
        &self.metrics
    }

    fn file(&self) -> Result<Arc<OpenFile>> {
        if let Some(remote) = &self.remote {
            return Ok(Arc::clone(remote));
        }
        let cached = || self.store.descriptors.get(&self.key);
        if let Some(file) = cached() {
            return Ok(file);
        }
        let _opening = lock_std(&self.opening);
        if let Some(file) = cached() {
            return Ok(file);
        }
        let file = self.store.open_file(&self.key)?;
        self.check_version(file.file())?;
        self.store.descriptors.put(&self.key, &file);
        Ok(file)
    }

    fn close(&self) {
        self.store.descriptors.remove(&self.key);
    }

    /// Opens the file, so that the first read does not have to. Errors are left to that read.
    pub(crate) fn open_file(&self) {
        if self.store.check_cancelled().is_ok() {
            let _ = self.file();
        }
    }

    /// Starts reading these bytes into a cache, the first 4 MiB of them. Errors are left to the read
    /// that follows.
    pub(crate) fn readahead(&self, range: &Range<u64>) {
        if self.store.check_cancelled().is_ok()
            && self.check_range(range).is_ok()
            && !self.cached.as_ref().is_some_and(|cached| cached.has(range))
            && let Ok(file) = self.file()
        {
            let len = (range.end - range.start).min(BLOCK as u64) as usize;
            file.file().readahead(range.start, len);
        }
    }

    fn check_version(&self, file: &dyn ReadAt) -> Result<()> {
        let (was, now) = (&self.key.version, file.version()?);
        if now == *was {
            return Ok(());
        }
        self.close();
        Err(Error::corrupt(if now.id == was.id && now.len < was.len {
            format!(
                "the file had {} bytes when it was opened and now has {}: it was shortened while \
                 it was read; write it again",
                was.len, now.len
            )
        } else {
            "the file was replaced or changed after it was opened: it is still being written, or \
             was written again; leave it alone while it is read, and start again"
                .to_owned()
        }))
    }

    /// Fills `buf` from `offset` on.
    ///
    /// # Errors
    ///
    /// `Io` as the system reports it, once no retry is left; `Corrupt` where the file has changed or
    /// ends early; `Closed` when cancelled.
    pub(crate) fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for block in buf.chunks_mut(BLOCK) {
            if self.read_cached(at, block)? {
                at += block.len() as u64;
                continue;
            }
            let mut done = 0;
            let mut retry = self.store.retry();
            while let Err(error) = self.read_block(at, block, &mut done) {
                self.store.check_cancelled()?;
                // The next attempt opens the file again, which cures a stale handle.
                self.close();
                let failed_at = at + done as u64;
                retry
                    .after(error.at_byte(failed_at))
                    .map_err(|e| e.in_shard(&self.name).at_byte(failed_at))?;
                self.store.metrics.retried(&self.metrics);
            }
            if let Some(cached) = &self.cached {
                cached.write(at, block);
            }
            at += block.len() as u64;
        }
        Ok(())
    }

    /// Fills `block` from the range cache. Returns `false` where it is not in there.
    fn read_cached(&self, offset: u64, block: &mut [u8]) -> Result<bool> {
        let Some(cached) = &self.cached else { return Ok(false) };
        self.store.check_cancelled()?;
        let read = cached.read(offset, block, self.store.keeps_page_cache);
        if let Some(from) = read {
            self.store.metrics.cache_hit(block.len(), from == ReadFrom::PageCache);
        }
        Ok(read.is_some())
    }

    /// Fills `block` beyond its first `done` bytes, and checks the file's version.
    fn read_block(&self, offset: u64, block: &mut [u8], done: &mut usize) -> Result<()> {
        self.store.check_cancelled()?;
        let open = self.file()?;
        let file = open.file();
        self.fill(file, offset, block, done)?;
        if !self.store.keeps_page_cache {
            file.drop_cached(offset, block.len());
        }
        // After the bytes, so that a change before or during the read is seen.
        self.check_version(file)
    }

    fn fill(
        &self,
        file: &dyn ReadAt,
        offset: u64,
        block: &mut [u8],
        done: &mut usize,
    ) -> Result<()> {
        let metrics = self.store.metrics();
        while let Some(rest) = block.get_mut(*done..).filter(|rest| !rest.is_empty()) {
            let (at, wanted) = (offset + *done as u64, rest.len());
            let mut is_cached = false;
            let read = || match file.read_cached(rest, at) {
                Some(n) => {
                    is_cached = true;
                    Ok(n)
                }
                None => file.read_at(rest, at),
            };
            let read = metrics.time(&self.metrics, wanted, read);
            if is_cached {
                metrics.page_cache_hit();
            }
            match read {
                Ok(0) => {
                    self.check_version(file)?;
                    let what = "the storage ends the file before its length";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what).into());
                }
                Ok(n) => *done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    if RequestError::of(&e).is_some_and(|e| e.is_throttled) {
                        metrics.throttled(&self.metrics);
                    }
                    return Err(e.into());
                }
            }
        }
        Ok(())
    }

    /// Refuses bytes that the file does not have.
    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.len() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "bytes {}..{} lie outside the file, which has {}",
            range.start,
            range.end,
            self.len()
        ))
        .in_shard(&self.name))
    }

    /// Makes `buf` hold exactly the bytes of `range`.
    pub(crate) fn read_range(&self, range: Range<u64>, buf: &mut Vec<u8>) -> Result<()> {
        self.check_range(&range)?;
        let len = (range.end - range.start) as usize;
        if buf.capacity() < len {
            // `resize` would write zeros into fresh pages, which are zero already.
            *buf = vec![0; len];
        }
        buf.resize(len, 0);
        self.read_exact_at(range.start, buf)
    }
}

impl Drop for RangeReader {
    fn drop(&mut self) {
        self.close();
    }
}
