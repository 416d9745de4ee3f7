//! The cached ranges of one shard: a sparse file of its bytes at their own offsets, and a log.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::{AtFlags, CWD, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use twox_hash::XxHash3_64;

use super::{
    BYTES, LOG, RangeCache,
    bound::file,
    log::{self, Entry},
    ranges::{CELL, CachedRange, PIECE, RangeMap, Sums, split},
};
use crate::{
    hash,
    store::{backend::ReadAt, page_cache},
    sync::lock_std,
};

/// How often a shard that is read is marked as used.
const TOUCH: Duration = Duration::from_secs(60);

/// Whether the page cache had all bytes of a read, or some came from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ReadFrom {
    PageCache,
    Disk,
}

/// One shard in one version.
#[derive(Debug)]
pub(in crate::store) struct CachedShard {
    cache: Arc<RangeCache>,
    bytes_path: PathBuf,
    log_path: PathBuf,
    /// A hash of the shard's identity and version, which each record and checksum depends on.
    key: u64,
    len: u64,
    pub(super) known: Mutex<Known>,
}

/// What of the log was read.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Which log it is: another one means that the files were removed. Numbers of files are given again.
    log_id: (u64, Option<SystemTime>),
    pub(super) n_bytes: u64,
    pub(super) ranges: RangeMap,
    touched: Option<Instant>,
}

impl CachedShard {
    /// Reads nothing yet.
    pub(super) fn new(cache: &Arc<RangeCache>, stem: &Path, key: u64, len: u64) -> Self {
        Self {
            cache: Arc::clone(cache),
            bytes_path: file(stem, BYTES),
            log_path: file(stem, LOG),
            key,
            len,
            known: Mutex::default(),
        }
    }

    /// The most ranges that are held in memory. Ranges grow together, so that a cell has one or two.
    fn max_ranges(&self) -> usize {
        2 * (self.len / CELL) as usize + 64
    }

    /// The longest log. Processes that read the same at once log it several times.
    pub(super) fn max_log_bytes(&self) -> u64 {
        (16 * (self.len / CELL) + 1024) * log::RECORD as u64
    }

    fn is_log_full(&self) -> bool {
        lock_std(&self.known).n_bytes >= self.max_log_bytes()
    }

    /// Whether all of these bytes are said to be cached.
    pub(in crate::store) fn has(&self, wanted: &Range<u64>) -> bool {
        self.find(wanted).is_some()
    }

    /// Fills `buf` from `offset` on. Returns where from; `None` where not all bytes are cached and sound:
    /// then `buf` holds anything.
    pub(in crate::store) fn read(
        &self,
        offset: u64,
        buf: &mut [u8],
        keeps_pages: bool,
    ) -> Option<ReadFrom> {
        let ranges = self.find(&(offset..offset + buf.len() as u64))?;
        // The file may have been removed meanwhile.
        let file = options().read(true).open(&self.bytes_path).ok()?;
        self.read_ranges(&file, &ranges, offset, buf, keeps_pages)
    }

    /// Adds the bytes from `offset` on, which have just been read from the shard.
    pub(in crate::store) fn write(&self, offset: u64, bytes: &[u8]) {
        if self.is_log_full() || !self.cache.reserve(bytes.len() as u64) {
            return;
        }
        match self.write_ranges(offset, bytes) {
            Ok(ranges) => {
                let mut known = lock_std(&self.known);
                for range in ranges {
                    known.ranges.insert(range, self.max_ranges());
                }
            }
            Err(error) => self.cache.stop(&error),
        }
    }

    /// The ranges that have all of these bytes, as this and other processes have logged them.
    fn find(&self, wanted: &Range<u64>) -> Option<Vec<CachedRange>> {
        let mut known = lock_std(&self.known);
        if self.follow_log(&mut known).is_err() {
            *known = Known::default();
        }
        let found = known.ranges.cover(wanted)?;
        if known.touched.is_none_or(|touched| touched.elapsed() >= TOUCH) {
            known.touched = Some(Instant::now());
            let [unchanged, now] =
                [UTIME_OMIT, UTIME_NOW].map(|tv_nsec| Timespec { tv_sec: 0, tv_nsec });
            let times = Timestamps { last_access: unchanged, last_modification: now };
            let _ = utimensat(CWD, &self.log_path, &times, AtFlags::SYMLINK_NOFOLLOW);
        }
        Some(found)
    }

    /// Reads what was added to the log since the last time. For most requests that is one `stat`.
    fn follow_log(&self, known: &mut Known) -> io::Result<()> {
        let now = fs::symlink_metadata(&self.log_path)?;
        let log_id = (now.ino(), now.created().ok());
        if log_id != known.log_id || now.len() < known.n_bytes {
            *known = Known { log_id, ..Known::default() };
        }
        let end = now.len().min(self.max_log_bytes());
        if end < known.n_bytes + log::RECORD as u64 {
            return Ok(());
        }
        let mut file = options().read(true).open(&self.log_path)?;
        file.seek(SeekFrom::Start(known.n_bytes))?;
        let mut bytes = Vec::new();
        file.take(end - known.n_bytes).read_to_end(&mut bytes)?;
        let (ranges, most) = (&mut known.ranges, self.max_ranges());
        let add = |entry| match entry {
            Entry::Added(range) => ranges.insert(range, most),
            Entry::Damaged(range) => ranges.remove(&range),
        };
        known.n_bytes += log::decode(self.key, self.len, &bytes, add) as u64;
        Ok(())
    }

    fn read_ranges(
        &self,
        file: &File,
        ranges: &[CachedRange],
        offset: u64,
        buf: &mut [u8],
        keeps_pages: bool,
    ) -> Option<ReadFrom> {
        let end = offset + buf.len() as u64;
        let (mut rest, mut scratch, mut from) = (buf, Vec::new(), ReadFrom::PageCache);
        for range in ranges {
            let wanted = range.start.max(end - rest.len() as u64)..range.end.min(end);
            let n_wanted = wanted.end.checked_sub(wanted.start)? as usize;
            let (into, behind) = rest.split_at_mut_checked(n_wanted)?;
            rest = behind;
            if self.read_range(file, range, &wanted, into, &mut scratch)? == ReadFrom::Disk {
                from = ReadFrom::Disk;
            }
            if !keeps_pages {
                let start = wanted.start / PIECE * PIECE;
                page_cache::forget(file, start, wanted.end.next_multiple_of(PIECE) - start);
            }
        }
        rest.is_empty().then_some(from)
    }

    /// Reads the pieces of one range that these bytes lie in, in one request, and checks them. `scratch`
    /// holds pieces of which only a part is wanted. A range with a damaged piece is damaged for all from
    /// now on.
    fn read_range(
        &self,
        file: &File,
        range: &CachedRange,
        wanted: &Range<u64>,
        into: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Option<ReadFrom> {
        let (first, _) = range.pieces(wanted).next()?;
        let (last, _) = range.pieces(wanted).last()?;
        let is_whole = (first.start, last.end) == (wanted.start, wanted.end);
        scratch.resize(if is_whole { 0 } else { (last.end - first.start) as usize }, 0);
        let bytes = if is_whole { &mut *into } else { scratch.as_mut_slice() };
        let from = fill(file, first.start, bytes);
        let mut rest = &*bytes;
        let mut is_sound = |(piece, sum): (Range<u64>, u64)| {
            let bytes = rest.split_off(..(piece.end - piece.start) as usize);
            bytes.is_some_and(|bytes| self.checksum(piece.start, bytes) == sum)
        };
        if from.is_none() || !range.pieces(wanted).all(&mut is_sound) {
            self.mark_damaged(range);
            return None;
        }
        if !is_whole {
            let start = (wanted.start - first.start) as usize;
            into.copy_from_slice(scratch.get(start..start + into.len())?);
        }
        from
    }

    /// Forgets a range, here and in the log.
    fn mark_damaged(&self, range: &CachedRange) {
        lock_std(&self.known).ranges.remove(range);
        if !self.is_log_full() {
            // If it cannot be written, the next process finds out by itself.
            let _ = self.add_to_log(&log::encode_damaged(self.key, range));
        }
    }

    /// A range of these bytes, which lie in one cell.
    fn range(&self, start: u64, bytes: &[u8]) -> CachedRange {
        let end = start + bytes.len() as u64;
        let (mut rest, mut sums) = (bytes, Sums::default());
        for (piece, sum) in split(start..end, PIECE).zip(&mut sums) {
            let bytes = rest.split_off(..(piece.end - piece.start) as usize);
            *sum = self.checksum(piece.start, bytes.unwrap_or_default());
        }
        CachedRange { start, end, sums }
    }

    /// Depends on the place as well: bytes of elsewhere do not fit.
    fn checksum(&self, start: u64, bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_seed(hash::hash(&[self.key, start]), bytes)
    }

    fn write_ranges(&self, offset: u64, bytes: &[u8]) -> io::Result<Vec<CachedRange>> {
        let file = options().read(true).write(true).create(true).open(&self.bytes_path)?;
        file.write_all_at(bytes, offset)?;
        let (mut rest, mut ranges, mut records) = (bytes, Vec::new(), Vec::new());
        for cell in split(offset..offset + bytes.len() as u64, CELL) {
            let n = (cell.end - cell.start) as usize;
            let part = rest.split_off(..n).ok_or(ErrorKind::InvalidData)?;
            let range = self.join(&file, &cell, part);
            records.extend(log::encode(self.key, &range));
            ranges.push(range);
        }
        // The bytes are there: only now the log may say so.
        self.add_to_log(&records)?;
        Ok(ranges)
    }

    /// In one call, so that records of several processes do not mix.
    fn add_to_log(&self, records: &[u8]) -> io::Result<()> {
        let mut file = options().append(true).create(true).open(&self.log_path)?;
        if file.write(records)? == records.len() {
            Ok(())
        } else {
            Err(ErrorKind::StorageFull.into())
        }
    }

    /// The range of `bytes` together with those around it in its cell, so that cells which are filled by
    /// many crops come to have one range.
    fn join(&self, file: &File, cell: &Range<u64>, bytes: &[u8]) -> CachedRange {
        let near = lock_std(&self.known).ranges.touching(cell);
        let is_outside = |near: &CachedRange| near.start < cell.start || near.end > cell.end;
        if !near.iter().any(is_outside) {
            return self.range(cell.start, bytes);
        }
        let (mut start, mut joined) = (cell.start, bytes.to_vec());
        for near in near.iter().filter(|near| is_outside(near)) {
            let mut old = vec![0; (near.end - near.start) as usize];
            let read = self.read_range(file, near, &near.bytes(), &mut old, &mut Vec::new());
            if read.is_none() {
                continue;
            }
            let end = start + joined.len() as u64;
            if let Some(behind) = end.checked_sub(near.start).and_then(|n| old.get(n as usize..)) {
                joined.extend(behind);
            }
            if let Some(before) = start.checked_sub(near.start).and_then(|n| old.get(..n as usize))
            {
                joined.splice(..0, before.iter().copied());
                start = near.start;
            }
        }
        self.range(start, &joined)
    }
}

/// Fills `bytes` from `offset` on; `None` where the file cannot be read or ends before.
fn fill(file: &File, offset: u64, bytes: &mut [u8]) -> Option<ReadFrom> {
    let n = file.read_cached(bytes, offset).unwrap_or(0);
    let rest = bytes.get_mut(n..).filter(|rest| !rest.is_empty());
    let Some(rest) = rest else { return Some(ReadFrom::PageCache) };
    file.read_exact_at(rest, offset + n as u64).ok()?;
    Some(ReadFrom::Disk)
}

/// How a file is opened: never through a link, which somebody else may have put there, and without
/// waiting for a pipe. Others cannot read it: it has the shard's bytes.
fn options() -> OpenOptions {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.mode(0o600).custom_flags(flags.bits() as i32);
    options
}
