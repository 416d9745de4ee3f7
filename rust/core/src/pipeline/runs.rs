//! Small blobs in runs: where rows are taken about as they lie, those that lie together are read in one
//! request, and each row copies its bytes out of it.
//!
//! One by one they would cost a round trip each. A run goes as soon as its last row has been taken; what
//! the order leaves out of one keeps it until its room is needed.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Shared, fetch::Room};
use crate::{
    batch::PooledBuf,
    error::{Error, Result},
    shard::{BlobRun, Shard, Table},
};

/// One part in so many of the budget may hold runs.
pub(super) const SHARE: usize = 4;

/// In file order so many runs behind the one that is read are put under way with it.
const AHEAD: usize = 2;

/// Shard, record batch, blob column, and the run's number in that.
type Key = (u32, usize, usize, usize);
/// Filled by the first thread that needs it, while others that need it too wait.
type Cell = Arc<Mutex<Option<Arc<PooledBuf>>>>;

/// Runs whose rows have not all been taken, bounded by bytes.
#[derive(Debug)]
pub(super) struct Runs {
    limit: usize,
    bytes: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    clock: u64,
    entries: HashMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    cell: Cell,
    used_at: u64,
    n_bytes: usize,
    /// Rows that have not been taken.
    left: usize,
}

/// A row's place in a run.
#[derive(Debug)]
pub(super) struct InRun {
    key: Key,
    run: BlobRun,
    /// Of the row, in the file.
    range: Range<u64>,
    /// Runs that will be wanted next, in the file.
    ahead: Vec<Range<u64>>,
}

impl Runs {
    /// At most `limit` bytes of runs, besides the one read last.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: AtomicUsize::new(0), inner: Mutex::default() }
    }

    /// Bytes held now, those on their way included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether this run is here, or on its way.
    fn has(&self, key: Key) -> bool {
        self.lock().entries.contains_key(&key)
    }

    /// The run, for one of its rows; loaded at most once at a time.
    fn take(
        &self,
        key: Key,
        run: &BlobRun,
        load: impl FnOnce() -> Result<PooledBuf>,
    ) -> Result<Arc<PooledBuf>> {
        let (cell, freed) = self.enter(key, run);
        drop(freed);
        let mut slot = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = &*slot {
            return Ok(Arc::clone(bytes));
        }
        let bytes = Arc::new(load()?);
        *slot = Some(Arc::clone(&bytes));
        Ok(bytes)
    }

    /// The cell of a run of which one more row is taken, and what went to make room for it.
    fn enter(&self, key: Key, run: &BlobRun) -> (Cell, Vec<Entry>) {
        let mut inner = self.lock();
        inner.clock += 1;
        let now = inner.clock;
        let n_bytes = (run.bytes.end - run.bytes.start) as usize;
        let mut total = self.bytes();
        let entry = inner.entries.entry(key).or_insert_with(|| {
            total += n_bytes;
            Entry { cell: Cell::default(), used_at: now, n_bytes, left: run.n_rows }
        });
        entry.used_at = now;
        entry.left = entry.left.saturating_sub(1);
        let (cell, is_last) = (Arc::clone(&entry.cell), entry.left == 0);
        let mut freed = Vec::new();
        if is_last {
            freed.extend(inner.entries.remove(&key));
            total -= n_bytes;
        }
        while total > self.limit {
            let loaded = inner.entries.iter().filter(|(k, entry)| **k != key && entry.is_loaded());
            let oldest = loaded.min_by_key(|(_, entry)| entry.used_at).map(|(k, _)| *k);
            let Some(entry) = oldest.and_then(|oldest| inner.entries.remove(&oldest)) else {
                break;
            };
            total -= entry.n_bytes;
            freed.push(entry);
        }
        self.bytes.store(total, Ordering::Relaxed);
        (cell, freed)
    }

    /// Frees all runs.
    pub(super) fn clear(&self) {
        let mut inner = self.lock();
        let freed = std::mem::take(&mut inner.entries);
        self.bytes.store(0, Ordering::Relaxed);
        drop(inner);
        drop(freed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Not while it is on its way.
    fn is_loaded(&self) -> bool {
        self.cell.try_lock().is_ok_and(|slot| slot.is_some())
    }
}

impl Shared {
    /// The run that a row's blob is read with; `None` where it is read by itself.
    pub(super) fn in_run(
        &self,
        table: &Table,
        (shard, batch): (u32, usize),
        (blob, place): (usize, usize),
        range: &Range<u64>,
    ) -> Option<InRun> {
        let plan = &self.options.plan;
        if !plan.is_nearly_file_order() {
            return None;
        }
        let run = table.blob_run(blob, place)?;
        let run_bytes = (run.bytes.end - run.bytes.start).max(BlobRun::BYTES);
        let wanted = match plan.shuffle.and_then(|shuffle| shuffle.window) {
            // Of each stream, the rows that are shuffled among each other, and the next ones.
            Some(window) => {
                let rows = window.rows_per_stream().saturating_mul(run.mean_bytes);
                let stream = rows.saturating_mul(2).saturating_add(2 * run_bytes);
                window.streams.div_ceil(plan.lane.stride).saturating_mul(stream)
            }
            None => run_bytes.saturating_mul(2 + AHEAD as u64),
        };
        // Runs that have to go before their rows are taken would be read again and again.
        if wanted > self.runs.limit as u64 {
            return None;
        }
        let numbers = run.number + 1..=run.number + AHEAD;
        let ahead = numbers.filter(|_| plan.is_file_order());
        let ahead = ahead.filter_map(|number| Some(table.numbered_run(blob, number)?.bytes));
        let ahead = ahead.collect();
        let key = (shard, batch, blob, run.number);
        Some(InRun { key, run, range: range.clone(), ahead })
    }

    /// Copies a row's bytes out of its run, which is read if it is not here.
    pub(super) fn read_in_run(
        &self,
        shard: &Shard,
        place: &InRun,
        (index, room): (u64, Room),
        charged: &mut usize,
    ) -> Result<PooledBuf> {
        let InRun { key, run, range, ahead } = place;
        let n_bytes = (range.end - range.start) as usize;
        self.charge(room, index, n_bytes);
        *charged += n_bytes;
        if !self.runs.has(*key) {
            self.queue.wait_for(self, index, (run.bytes.end - run.bytes.start) as usize);
        }
        self.queue.asked(self, index);
        let bytes = self.runs.take(*key, run, || {
            self.row_buffers.trim(self.queue.headroom(self));
            if !ahead.is_empty() {
                // In their order on the way.
                shard.announce_bytes(&run.bytes);
                for range in ahead {
                    shard.announce_bytes(range);
                }
            }
            shard.read_blob(run.bytes.clone(), &self.row_buffers)
        })?;
        let at = range.start.checked_sub(run.bytes.start).map(|at| at as usize);
        let row = at.and_then(|at| bytes.as_ref().as_ref().get(at..at.checked_add(n_bytes)?));
        let row = row.ok_or_else(|| Error::corrupt("the row lies outside its run"))?;
        Ok(super::fetch::copy_of(row, &self.row_buffers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::AlignedBuf;

    fn run(number: usize, n_rows: usize, len: u64) -> BlobRun {
        BlobRun { number, n_rows, bytes: 0..len, mean_bytes: len / n_rows as u64 }
    }

    fn filled(len: usize, with: u8) -> PooledBuf {
        let mut buf = AlignedBuf::zeroed(len);
        buf.as_bytes_mut().fill(with);
        PooledBuf::free_standing(buf)
    }

    #[test]
    fn a_run_is_loaded_once_and_goes_with_its_last_row() {
        let runs = Runs::new(1000);
        let (key, run) = ((0, 0, 0, 7), run(7, 3, 100));
        let mut loads = 0;
        for row in 0..3 {
            let bytes = runs.take(key, &run, || {
                loads += 1;
                Ok(filled(100, 9))
            });
            assert_eq!(bytes.unwrap().as_ref().as_ref(), [9; 100]);
            assert_eq!(
                (runs.bytes(), runs.has(key)),
                if row < 2 { (100, true) } else { (0, false) }
            );
        }
        assert_eq!(loads, 1);
    }

    #[test]
    fn the_run_used_longest_ago_goes_first_and_those_on_their_way_stay() {
        let runs = Runs::new(250);
        let key = |number| (0, 0, 0, number);
        for number in [1, 2, 1, 3] {
            runs.take(key(number), &run(number, 9, 100), || Ok(filled(100, 0))).unwrap();
        }
        assert_eq!([1, 2, 3].map(|number| runs.has(key(number))), [true, false, true]);
        assert_eq!(runs.bytes(), 200);
        runs.take(key(4), &run(4, 9, 100), || {
            // Two more come while this one is read.
            for number in [5, 6] {
                runs.take(key(number), &run(number, 9, 100), || Ok(filled(100, 0))).unwrap();
            }
            assert!(runs.has(key(4)));
            Ok(filled(100, 4))
        })
        .unwrap();
        assert_eq!(runs.bytes(), 200);
        runs.clear();
        assert_eq!((runs.bytes(), runs.has(key(4))), (0, false));
    }

    #[test]
    fn a_run_that_could_not_be_read_is_tried_again() {
        let runs = Runs::new(250);
        let (key, run) = ((0, 0, 0, 0), run(0, 5, 10));
        assert!(runs.take(key, &run, || Err(Error::corrupt("gone"))).is_err());
        assert_eq!(runs.take(key, &run, || Ok(filled(10, 1))).unwrap().as_ref().as_ref(), [1; 10]);
    }
}
