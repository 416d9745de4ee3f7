//! Positional reads of one shard: counted, cancellable, repeated where that may help, and never of
//! another file than the one that was opened.
//!
//! A [`Source`] remembers what its file was when it was opened. After every read, and whenever the
//! descriptor has to be opened again, a file that is no longer the same is refused, so that offsets
//! of one file are never applied to another.

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    files::Files,
    name::name_of,
    open_files::{FileKey, OpenFile},
    storage::{Handle, Stamp},
};
use crate::{Error, Result, metrics::ShardRequests};

/// One request asks for no more than this, so that a close is noticed between two of them.
const BLOCK: usize = 4 << 20;

/// One file to be read by position. It owns no descriptor; the process does.
#[derive(Debug)]
pub(super) struct Source {
    files: Arc<Files>,
    key: Arc<FileKey>,
    name: Arc<str>,
    requests: ShardRequests,
    /// Held while the file is opened: threads that come at once wait for one descriptor.
    opening: Mutex<()>,
}

impl Source {
    /// Looks at the file and remembers what it is. It is opened by the first read.
    pub(super) fn open(files: &Arc<Files>, path: &Path) -> Result<Self> {
        let name = name_of(path);
        files.check_cancelled()?;
        let mut retry = files.retry();
        let stamp = loop {
            match files.storage.stamp(path) {
                Ok(stamp) => break stamp,
                // A path that was never there is a wrong path.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(Error::from(e).in_shard(&name));
                }
                Err(e) => retry.after(e.into()).map_err(|e| e.in_shard(&name))?,
            }
        };
        let key = files.add(FileKey { path: path.to_owned(), stamp });
        let (files, requests, opening) =
            (Arc::clone(files), ShardRequests::default(), Mutex::default());
        Ok(Self { files, key, name, requests, opening })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What was read of this file: requests, bytes, and thread time inside the requests.
    pub(super) fn reads(&self) -> (u64, u64, Duration) {
        self.requests.totals()
    }

    pub(super) fn path(&self) -> &Path {
        &self.key.path
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// What the file was when it was opened.
    pub(super) fn stamp(&self) -> &Stamp {
        &self.key.stamp
    }

    /// The file's length in bytes when it was opened.
    pub(super) fn len(&self) -> u64 {
        self.key.stamp.len
    }

    fn file(&self) -> Result<Arc<OpenFile>> {
        if let Some(file) = self.files.cached(&self.key) {
            return Ok(file);
        }
        let _turn = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.files.cached(&self.key) {
            return Ok(file);
        }
        let file = self.files.open_file(&self.key)?;
        self.check(file.handle())?;
        self.files.keep(&self.key, &file);
        Ok(file)
    }

    /// Opens the file, if it is not open, so that a read need not. What goes wrong, the read tells.
    pub(super) fn open_ahead(&self) {
        if self.files.check_cancelled().is_ok() {
            let _ = self.file();
        }
    }

    /// Lets the operating system begin to read these bytes, of long ranges the first that are asked
    /// for. What goes wrong, the read tells.
    pub(super) fn announce(&self, range: &Range<u64>) {
        if self.files.check_cancelled().is_ok()
            && self.check_range(range).is_ok()
            && let Ok(file) = self.file()
        {
            file.handle()
                .announce(range.start, (range.end - range.start).min(BLOCK as u64) as usize);
        }
    }

    /// Refuses a file that is not what it was.
    fn check(&self, file: &dyn Handle) -> Result<()> {
        let now = file.stamp()?;
        if now == self.key.stamp {
            return Ok(());
        }
        self.files.forget(&self.key);
        let (was, is) = (self.key.stamp.len, now.len);
        Err(Error::corrupt(if now.inode == self.key.stamp.inode && is < was {
            format!(
                "the file had {was} bytes when it was opened and now has {is}: it was shortened \
                 while it was read; write it again"
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
    /// `Io` as the system reports it, once no retry is left; `Corrupt` when the file has changed or
    /// ends early; `Closed` when cancelled.
    pub(super) fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for block in buf.chunks_mut(BLOCK) {
            let mut done = 0;
            let mut retry = self.files.retry();
            while let Err(error) = self.read_block(at, block, &mut done) {
                // A stale handle is cured by opening again, which the next attempt will do.
                self.files.forget(&self.key);
                let failed_at = at + done as u64;
                retry
                    .after(error.at_byte(failed_at))
                    .map_err(|e| e.in_shard(&self.name).at_byte(failed_at))?;
                self.files.requests().retries();
            }
            at += block.len() as u64;
        }
        Ok(())
    }

    /// Fills `block` beyond the first `done` bytes, which it counts on, and checks the file.
    fn read_block(&self, offset: u64, block: &mut [u8], done: &mut usize) -> Result<()> {
        self.files.check_cancelled()?;
        let file = self.file()?;
        let file = file.handle();
        self.fill(file, offset, block, done)?;
        if !self.files.keeps_cache {
            file.drop_cached(offset, block.len());
        }
        // After the bytes: what changed before or while they were read shows now.
        self.check(file)
    }

    fn fill(
        &self,
        file: &dyn Handle,
        offset: u64,
        block: &mut [u8],
        done: &mut usize,
    ) -> Result<()> {
        let requests = self.files.requests();
        while let Some(rest) = block.get_mut(*done..).filter(|rest| !rest.is_empty()) {
            let (at, wanted) = (offset + *done as u64, rest.len());
            match requests.time(&self.requests, wanted, || file.read_at(rest, at)) {
                Ok(0) => {
                    self.check(file)?;
                    let what = "the storage ends the file before its length";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what).into());
                }
                Ok(n) => *done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Refuses bytes that the file does not have.
    pub(super) fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.key.stamp.len {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "bytes {}..{} lie outside the file, which has {}",
            range.start, range.end, self.key.stamp.len
        ))
        .in_shard(&self.name))
    }

    /// Makes `buf` hold exactly the bytes of `range`.
    ///
    /// Only what `buf` grows by is zeroed first: a recycled buffer that was not cleared is
    /// overwritten in place.
    pub(super) fn read_range(&self, range: Range<u64>, buf: &mut Vec<u8>) -> Result<()> {
        self.check_range(&range)?;
        let len = (range.end - range.start) as usize;
        if buf.capacity() < len {
            // Fresh memory is zero already: `resize` would write every page of it once more.
            *buf = vec![0; len];
        }
        buf.resize(len, 0);
        self.read_exact_at(range.start, buf)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.files.forget(&self.key);
    }
}
