//! What the store asks of the place where files lie. Tests put in a backend that fails.

use std::{
    fmt::Debug,
    io,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::has_query;

/// A file that changed less than this ago may change again without a later modification time, since
/// file systems count time in steps of up to a second. Nothing is kept of it.
pub const SETTLED: Duration = Duration::from_secs(2);

/// Tells a file from others, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileVersion {
    /// Length in bytes.
    pub(crate) len: u64,
    /// The file's number in its file system; of a remote file a hash of its `ETag`, 0 without one.
    pub(crate) id: u64,
    /// Modification time: seconds and nanoseconds since 1970. Of a remote file the second number is
    /// `id` again, since servers tell no parts of seconds.
    pub(crate) modified: (i64, i64),
}

impl FileVersion {
    /// The seconds of a file of which nothing tells when it was modified: it may always have been
    /// now.
    pub(crate) const NEVER_SETTLED: i64 = i64::MAX;

    /// Whether another version of the file has another length or modification time.
    pub(crate) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified = Duration::from_secs(self.modified.0.max(0) as u64);
        modified + SETTLED <= now
    }

    /// Whether something may be kept of the file at `path`, and found again by its identity and this
    /// version: nothing else with both has other bytes.
    pub(crate) fn may_be_kept(&self, path: &Path) -> bool {
        // A query may name another file, and is no part of the identity; those of one server often
        // have the same length and time, so that only an `ETag` tells them apart.
        self.is_settled() && (self.id != 0 || !has_query(path))
    }
}

/// A place where files lie.
pub(super) trait Backend: Debug + Send + Sync {
    /// The version of the file at `path`, without opening it: opening a pipe would wait for its
    /// writer.
    fn version(&self, path: &Path) -> io::Result<FileVersion>;

    /// Opens a file for reading, which had this version before.
    fn open(&self, path: &Path, version: &FileVersion) -> io::Result<Box<dyn ReadAt>>;
}

/// An open file.
pub(super) trait ReadAt: Debug + Send + Sync {
    /// The file's version now.
    fn version(&self) -> io::Result<FileVersion>;

    /// As [`Self::read_at`], out of the operating system's page cache and without waiting; `None` where the
    /// bytes are not in there, or nothing tells.
    fn read_cached(&self, _buf: &mut [u8], _offset: u64) -> Option<usize> {
        None
    }

    /// As `pread`: may return less than asked for, and 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Starts reading these bytes into a cache, and does not wait for them.
    fn readahead(&self, offset: u64, len: usize);

    /// Drops these bytes from the operating system's page cache.
    fn drop_cached(&self, offset: u64, len: usize);
}
