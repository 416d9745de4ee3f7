//! Positional reads of shards: counted, cancellable, through a bounded set of descriptors.
//!
//! A [`Source`] remembers what its file was when it was opened. Whenever the descriptor has to be
//! opened again, a file that is no longer the same is refused, so that offsets of one file are
//! never applied to another.

use std::{
    collections::HashMap,
    fs::{self, File, Metadata},
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use crate::{Error, ErrorKind, Result};

/// One request asks for no more than this, so that a close is noticed between two of them.
const BLOCK: usize = 4 << 20;

/// The operating system's "too many open files" on the systems that we build for.
const EMFILE: i32 = 24;

/// How many requests were sent to the storage, and how many bytes they brought.
#[derive(Debug, Default)]
pub struct ReadCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
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
}

#[derive(Debug)]
struct Opened {
    file: Arc<File>,
    last_use: u64,
}

impl Default for Files {
    fn default() -> Self {
        Self::new(256)
    }
}

impl Files {
    /// Keeps at most `max_open` files open (at least one), besides those being read right now.
    pub fn new(max_open: usize) -> Self {
        Self {
            open: Mutex::default(),
            max_open: max_open.max(1),
            clock: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
            counters: Arc::default(),
            cancel: Arc::default(),
        }
    }

    /// Once `cancel` is set, every read of these files ends in [`ErrorKind::Closed`], within one
    /// block of 4 MiB.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = cancel;
        self
    }

    /// The counters of all reads through these files.
    pub fn counters(&self) -> &Arc<ReadCounters> {
        &self.counters
    }

    /// Closes all descriptors. A later read opens its file again.
    pub fn close(&self) {
        self.lock().clear();
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Relaxed) { Err(Error::new(ErrorKind::Closed)) } else { Ok(()) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Opened>> {
        // Every state of the map is a valid one, so a panic elsewhere does not matter here.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self, id: u64) -> Option<Arc<File>> {
        let now = self.clock.fetch_add(1, Relaxed);
        self.lock().get_mut(&id).map(|opened| {
            opened.last_use = now;
            Arc::clone(&opened.file)
        })
    }

    fn keep(&self, id: u64, file: &Arc<File>) {
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

    fn forget(&self, id: u64) {
        self.lock().remove(&id);
    }

    fn open_file(&self, path: &Path) -> io::Result<File> {
        match File::open(path) {
            Err(e) if e.raw_os_error() == Some(EMFILE) => {
                self.lock().clear();
                File::open(path)
            }
            other => other,
        }
    }
}

/// What tells one file from another, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// One file to be read by position. It owns no descriptor; [`Files`] does.
#[derive(Debug)]
pub(super) struct Source {
    files: Arc<Files>,
    id: u64,
    path: PathBuf,
    name: Arc<str>,
    stamp: Stamp,
}

impl Source {
    /// Opens the file and remembers what it is.
    pub(super) fn open(files: &Arc<Files>, path: &Path) -> Result<Self> {
        let name: Arc<str> = path.to_string_lossy().into();
        let open = || -> io::Result<(File, Stamp)> {
            // Asked before opening, since opening a pipe would wait for its writer.
            if !fs::metadata(path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            let file = files.open_file(path)?;
            let stamp = Stamp::of(&file.metadata()?);
            Ok((file, stamp))
        };
        files.check_cancelled()?;
        let (file, stamp) = open().map_err(|e| Error::from(e).in_shard(&name))?;
        let id = files.next_id.fetch_add(1, Relaxed);
        files.keep(id, &Arc::new(file));
        Ok(Self { files: Arc::clone(files), id, path: path.to_owned(), name, stamp })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's length in bytes when it was opened.
    pub(super) fn len(&self) -> u64 {
        self.stamp.len
    }

    fn file(&self) -> Result<Arc<File>> {
        if let Some(file) = self.files.cached(self.id) {
            return Ok(file);
        }
        let file = Arc::new(self.files.open_file(&self.path)?);
        if Stamp::of(&file.metadata()?) != self.stamp {
            return Err(Error::corrupt(
                "the file was replaced or changed after it was opened; leave it alone while it is \
                 read, and start again",
            ));
        }
        self.files.keep(self.id, &file);
        Ok(file)
    }

    /// Fills `buf` from `offset` on.
    ///
    /// # Errors
    ///
    /// `Io` as the system reports it, `Corrupt` when the file has changed or ends early, `Closed`
    /// when cancelled.
    pub(super) fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for block in buf.chunks_mut(BLOCK) {
            self.read_block(at, block).map_err(|e| e.in_shard(&self.name).at_byte(at))?;
            at += block.len() as u64;
        }
        Ok(())
    }

    fn read_block(&self, offset: u64, mut block: &mut [u8]) -> Result<()> {
        self.files.check_cancelled()?;
        let file = self.file()?;
        let counters = &self.files.counters;
        let mut at = offset;
        while !block.is_empty() {
            counters.requests.fetch_add(1, Relaxed);
            match file.read_at(block, at) {
                Ok(0) => {
                    self.files.forget(self.id);
                    return Err(Error::corrupt(format!(
                        "the file ends at byte {at} but had {} bytes when it was opened: it was \
                         shortened while it was read; write it again",
                        self.stamp.len
                    )));
                }
                Ok(n) => {
                    counters.bytes.fetch_add(n as u64, Relaxed);
                    at += n as u64;
                    block = block.get_mut(n..).unwrap_or_default();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    // A stale handle is cured by opening again, which the next read will do.
                    self.files.forget(self.id);
                    return Err(e.into());
                }
            }
        }
        Ok(())
    }

    /// Makes `buf` hold exactly the bytes of `range`.
    ///
    /// Only what `buf` grows by is zeroed first: a recycled buffer that was not cleared is
    /// overwritten in place.
    pub(super) fn read_range(&self, range: Range<u64>, buf: &mut Vec<u8>) -> Result<()> {
        if range.start > range.end || range.end > self.stamp.len {
            return Err(Error::corrupt(format!(
                "bytes {}..{} lie outside the file, which has {}",
                range.start, range.end, self.stamp.len
            ))
            .in_shard(&self.name));
        }
        buf.resize((range.end - range.start) as usize, 0);
        self.read_exact_at(range.start, buf)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.files.forget(self.id);
    }
}
