//! Small blobs in runs: where rows are taken about as they lie, those that lie together are read in
//! one request, and each row copies its bytes out of it.
//!
//! One by one they would cost a round trip each. A run goes as soon as its last row has been taken;
//! what the order leaves out of one keeps it until its room is needed.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{
    cache::{Found, LoadCache},
    options::Options,
};
use crate::{
    error::{Error, Result},
    memory::{Account, Buffer, Permit},
    shard::{BlobBlock, Shard, Table},
};

/// One part in this many of the budget may hold runs.
const SHARE: usize = 4;

/// In file order this many runs behind the one that is read are put under way with it.
const AHEAD: usize = 2;

/// Shard, record batch, blob column, and the run's number in that.
type Key = (u32, usize, usize, usize);

/// Runs whose rows have not all been taken.
#[derive(Debug)]
pub(super) struct Runs {
    cache: LoadCache<Key, LoadedRun>,
    account: Arc<Account>,
}

#[derive(Debug)]
struct LoadedRun {
    bytes: Buffer,
    /// Rows that have not been taken.
    left: AtomicUsize,
}

/// A row's place in a run.
#[derive(Debug)]
pub(super) struct InRun {
    key: Key,
    run: BlobBlock,
    /// Of the row, in the file.
    pub(super) range: Range<u64>,
    /// Runs that will be wanted next, in the file.
    ahead: Vec<Range<u64>>,
}

impl InRun {
    /// Bytes of the run.
    pub(super) fn run_bytes(&self) -> usize {
        (self.run.bytes.end - self.run.bytes.start) as usize
    }
}

/// What a look at a run came to.
pub(super) enum RowOfRun {
    /// The row's bytes, copied.
    Copied(Buffer),
    /// The run is on its way.
    Loading,
    /// It is to be loaded.
    Missing,
}

impl Runs {
    pub(super) fn new(account: &Arc<Account>, budget: usize) -> Self {
        Self { cache: LoadCache::new(budget / SHARE), account: Arc::clone(account) }
    }

    /// The run that a row's blob is read with; `None` where it is read by itself.
    pub(super) fn of_row(
        &self,
        options: &Options,
        table: &Table,
        (shard, batch): (u32, usize),
        (blob, place): (usize, usize),
        range: &Range<u64>,
    ) -> Option<InRun> {
        let plan = &options.order;
        if !plan.is_nearly_file_order() {
            return None;
        }
        let run = table.block_of(blob, place)?;
        let run_bytes = (run.bytes.end - run.bytes.start).max(BlobBlock::BYTES);
        let wanted = match plan.shuffle.and_then(|shuffle| shuffle.window) {
            // Of each stream, the rows that are shuffled among each other, and the next ones.
            Some(window) => {
                let rows = window.rows_per_stream().saturating_mul(run.mean_bytes);
                let stream = rows.saturating_mul(2).saturating_add(2 * run_bytes);
                window.streams.div_ceil(plan.partition.stride).saturating_mul(stream)
            }
            None => run_bytes.saturating_mul(2 + AHEAD as u64),
        };
        // Runs that have to go before their rows are taken would be read again and again.
        if wanted > self.cache.limit() as u64 {
            return None;
        }
        let numbers = run.number + 1..=run.number + AHEAD;
        let ahead = numbers.filter(|_| plan.is_file_order());
        let ahead = ahead.filter_map(|number| Some(table.block(blob, number)?.bytes));
        let ahead = ahead.collect();
        Some(InRun { key: (shard, batch, blob, run.number), run, range: range.clone(), ahead })
    }

    /// A row's bytes out of its run, into memory of `permit`.
    pub(super) fn copy(&self, row: &InRun, permit: &mut Permit) -> Result<RowOfRun> {
        let run = match self.cache.find(row.key) {
            Found::Loaded(run) => run,
            Found::Loading => return Ok(RowOfRun::Loading),
            Found::Missing if self.cache.is_crowded(row.run_bytes()) => {
                return Ok(RowOfRun::Loading);
            }
            Found::Missing => return Ok(RowOfRun::Missing),
        };
        let bytes = row_in(&run.bytes, row)?;
        let mut copy = self.account.buffer(bytes.len(), permit.split(bytes.len()))?;
        copy.as_bytes_mut().copy_from_slice(bytes);
        if run.left.fetch_sub(1, Relaxed) <= 1 {
            self.cache.remove(row.key);
        }
        Ok(RowOfRun::Copied(copy))
    }

    /// Loads the run of this row, for which `permit` is, unless it is here or on its way by now.
    ///
    /// Blocks for one request.
    pub(super) fn load(&self, row: &InRun, shard: &Shard, permit: Permit) -> Result<()> {
        let Some(loading) = self.cache.begin(row.key, row.run_bytes()) else { return Ok(()) };
        if !row.ahead.is_empty() {
            // In their order on the way.
            shard.readahead(&row.run.bytes);
            for range in &row.ahead {
                shard.readahead(range);
            }
        }
        let mut bytes = self.account.buffer(row.run_bytes(), permit)?;
        shard.read_blob(&row.run.bytes, bytes.as_bytes_mut())?;
        let run = LoadedRun { bytes, left: AtomicUsize::new(row.run.n_rows) };
        loading.finish(&Arc::new(run), row.run_bytes());
        Ok(())
    }

    /// Frees all runs.
    pub(super) fn clear(&self) {
        self.cache.clear();
    }
}

fn row_in<'a>(run: &'a Buffer, row: &InRun) -> Result<&'a [u8]> {
    let n_bytes = (row.range.end - row.range.start) as usize;
    let start = row.range.start.checked_sub(row.run.bytes.start).map(|start| start as usize);
    let bytes = start.and_then(|start| run.as_bytes().get(start..start.checked_add(n_bytes)?));
    bytes.ok_or_else(|| Error::corrupt("the row lies outside its run"))
}
