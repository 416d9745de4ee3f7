//! Whether rows are read without the rest of their record batch, by the sizes of both.
//!
//! Where any row may follow any other, and all of them take more than the table cache, a record batch
//! would be loaded for each of its rows, and evicted before the next is wanted. In file order, large
//! rows of one batch are read together: what is read of a column may become that of the batch without a
//! copy (`batch/taken_over.rs`), and no reader waits for another one's record batch.

use super::options::Options;
use crate::shard::{Projection, RowSize, Shard};

/// The part of the budget that tables may take, as a divisor.
pub(crate) const TABLES_SHARE: usize = 4;

/// The least bytes of tables that would be loaded for a row, on average. Storage sends about as much, or
/// more, in the time of a request.
const MIN_LOADED: usize = 1 << 18;

/// The part of the budget that a data set must exceed for its rows to be read by the batch in file
/// order, as a divisor. The tables of a smaller one are kept for the next epoch.
pub(crate) const KEPT_SHARE: usize = 64;

/// A record batch must have this many times the bytes of a batch, or the requests for its tables are about
/// as small.
const MIN_BATCHES: usize = 4;

/// How many requests of different rows are under way at a time, at least: so much less than the bytes of a
/// gap one of them counts.
const REQUESTS_AT_ONCE: f64 = 4.0;

/// The sizes of tables and rows, on average. The first record batch tells for all.
struct Sizes {
    table: usize,
    row: usize,
    all_rows: u64,
    alone: RowSize,
    /// Bytes that could be read in the time of a request.
    gap: u64,
}

impl Sizes {
    /// Those of these columns; `None` where they cannot be read without the rest of their record batch.
    fn of(shards: &[Shard], projection: &Projection) -> Option<Self> {
        let first = shards.iter().find(|shard| shard.n_rows() > 0)?;
        let (batch, _) = first.locate(0)?;
        let size = first.table_size(batch, projection).ok().flatten()?;
        let row = size.stored as u64 / first.n_rows_of(batch).max(1);
        let n_rows: u64 = shards.iter().map(Shard::n_rows).sum();
        let alone = first.row_size(batch, projection).ok().flatten()?;
        let all_rows = row.saturating_mul(n_rows);
        let (table, row, gap) = (size.stored, row as usize, first.gap());
        (!size.is_compressed).then_some(Self { table, row, all_rows, alone, gap })
    }
}

/// The bytes that a row of these columns takes on average, where rows in a scattered order are read alone;
/// `None` where they are not. Otherwise tables would be loaded for so many rows `at_once`.
pub(crate) fn row_bytes(
    options: &Options,
    shards: &[Shard],
    projection: &Projection,
    at_once: usize,
) -> Option<usize> {
    let Sizes { table, all_rows, alone, gap, .. } = Sizes::of(shards, projection)?;
    // Of the tables that rows need, those that are not cached are loaded.
    let missing = all_rows.saturating_sub((options.memory_budget / TABLES_SHARE) as u64);
    let loaded = table as f64 * missing as f64 / all_rows.max(1) as f64;
    // Rows that are looked up together share their tables. A row of very many columns takes so many
    // requests, or so much of the gaps between them, that this is less.
    let n_tables = (all_rows as f64 / table.max(1) as f64).max(1.0);
    let at_once = at_once.max(1) as f64;
    let tables_of_all = n_tables * (1.0 - (1.0 - 1.0 / n_tables).powf(at_once));
    let shared = loaded * tables_of_all / at_once;
    let requests = alone.n_requests as f64 * gap as f64 / REQUESTS_AT_ONCE;
    let is_alone = loaded >= MIN_LOADED as f64 && alone.read as f64 + requests <= shared;
    is_alone.then_some(alone.memory)
}

/// The same where the rows of a batch in file order are read without the others.
pub(crate) fn batch_row_bytes(
    options: &Options,
    shards: &[Shard],
    projection: &Projection,
) -> Option<usize> {
    let Sizes { table, row, all_rows, alone, gap } = Sizes::of(shards, projection)?;
    let batch = row.saturating_mul(options.rows_per_batch());
    let is_by_batch = batch >= MIN_LOADED
        && table / MIN_BATCHES >= batch
        && all_rows > (options.memory_budget / KEPT_SHARE) as u64
        && alone.read.max(alone.n_requests.saturating_mul(gap as usize)) <= batch;
    is_by_batch.then_some(row)
}
