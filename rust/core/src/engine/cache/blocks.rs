//! Blocks of small blobs: neighbouring rows that are read in one request.
//!
//! Where rows are delivered nearly in file order, reading small ones one by one would cost a round
//! trip each. Each row copies its bytes out of its block, and the block is dropped after its last
//! row. If not all of its rows are delivered, it is dropped when the cache needs room.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{
    load::{LoadCache, Lookup},
    tables::BatchId,
};
use crate::{
    error::{Error, Result},
    memory::{Account, Buffer, Permit},
    order::{OrderSpec, Part},
    shard::{BlobBlock, Shard, Table},
};

/// The part of the budget that blocks may take, as a divisor.
const SHARE: usize = 4;

/// In file order, readahead starts for this many blocks behind the one that is read.
const READAHEAD_BLOCKS: usize = 2;

/// Record batch, blob column, and the block's number in it.
type BlockId = (BatchId, usize, usize);

/// The blocks some of whose rows were not taken yet.
#[derive(Debug)]
pub(crate) struct BlockCache {
    cache: LoadCache<BlockId, Block>,
    account: Arc<Account>,
}

#[derive(Debug)]
struct Block {
    bytes: Buffer,
    /// Rows that were not taken yet.
    n_left: AtomicUsize,
}

/// A row in its block.
#[derive(Debug)]
pub(crate) struct RowInBlock {
    /// Whether the block is one recording, which the windows of it share without a copy.
    pub(crate) is_shared: bool,
    id: BlockId,
    block: BlobBlock,
    /// The row's range in the file.
    range: Range<u64>,
    /// The ranges of the blocks that are needed next.
    next_blocks: Vec<Range<u64>>,
}

impl RowInBlock {
    /// Where the row begins in the shard.
    pub(crate) fn start(&self) -> u64 {
        self.range.start
    }

    /// The size of the block.
    pub(crate) fn block_bytes(&self) -> usize {
        (self.block.bytes.end - self.block.bytes.start) as usize
    }
}

/// A recording that its windows share.
#[derive(Clone, Debug)]
pub(crate) struct Recording(Arc<Block>);

impl Recording {
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.bytes.as_ref()
    }
}

/// A look-up of a row.
pub(crate) enum RowLookup {
    /// The block, which is the row's recording.
    Shared(Recording),
    /// A copy of the row's bytes.
    Copied(Buffer),
    /// Another reader loads the block, or others that leave no room for it.
    Loading,
    /// The block must be loaded.
    Missing,
}

impl BlockCache {
    pub(crate) fn new(account: &Arc<Account>, budget: usize) -> Self {
        Self { cache: LoadCache::new(budget / SHARE), account: Arc::clone(account) }
    }

    /// The block that a row's blob is read with; `None` where it is read by itself.
    pub(crate) fn block_of(
        &self,
        order: &OrderSpec,
        table: &Table,
        batch: BatchId,
        (blob, table_row): (usize, usize),
        range: &Range<u64>,
        part: Option<Part>,
    ) -> Option<RowInBlock> {
        if let Some(part) = part.filter(|part| part.count > 1) {
            return self.recording_of(order, (batch, blob, table_row), range, part);
        }
        if !order.is_nearly_file_order() {
            return None;
        }
        let block = table.block_of(blob, table_row)?;
        let block_bytes = (block.bytes.end - block.bytes.start).max(BlobBlock::BYTES);
        let needed = match order.shuffle.and_then(|shuffle| shuffle.window) {
            // Of each stream, the rows that are shuffled together, and the next ones.
            Some(window) => {
                let rows = window.rows_per_stream().saturating_mul(block.mean_bytes);
                let stream = rows.saturating_mul(2).saturating_add(2 * block_bytes);
                window.streams.div_ceil(order.partition.stride).saturating_mul(stream)
            }
            None => block_bytes.saturating_mul(2 + READAHEAD_BLOCKS as u64),
        };
        // Otherwise blocks would be evicted before their rows were taken, and read many times.
        if needed > self.cache.limit() as u64 {
            return None;
        }
        let numbers = block.number + 1..=block.number + READAHEAD_BLOCKS;
        let numbers = numbers.filter(|_| order.is_file_order());
        let next_blocks = numbers.filter_map(|number| Some(table.block(blob, number)?.bytes));
        let next_blocks = next_blocks.collect();
        Some(RowInBlock {
            is_shared: false,
            id: (batch, blob, block.number),
            block,
            range: range.clone(),
            next_blocks,
        })
    }

    /// A recording as a block of its own, where its parts are delivered one after another.
    fn recording_of(
        &self,
        order: &OrderSpec,
        (batch, blob, table_row): (BatchId, usize, usize),
        range: &Range<u64>,
        part: Part,
    ) -> Option<RowInBlock> {
        let n_bytes = range.end - range.start;
        let is_in_turn = order.shuffle.is_none()
            && order.draws.is_none()
            && !order.is_list
            && order.slices.is_empty();
        if !is_in_turn || n_bytes.saturating_mul(2) > self.cache.limit() as u64 {
            return None;
        }
        let n_parts = part.count.div_ceil(order.partition.stride.max(1));
        // Counts down from `usize::MAX`, so that these numbers never collide with those of blocks.
        let number = usize::MAX - table_row;
        let block = BlobBlock {
            number,
            n_rows: usize::try_from(n_parts).unwrap_or(usize::MAX),
            bytes: range.clone(),
            mean_bytes: n_bytes,
        };
        let (id, range) = ((batch, blob, number), range.clone());
        Some(RowInBlock { is_shared: true, id, block, range, next_blocks: Vec::new() })
    }

    /// A row's bytes, copied into memory of `permit`.
    pub(crate) fn take(&self, row: &RowInBlock, permit: &mut Permit) -> Result<RowLookup> {
        let block = match self.cache.find(row.id) {
            Lookup::Loaded(block) => block,
            Lookup::Loading => return Ok(RowLookup::Loading),
            Lookup::Missing if self.cache.is_crowded(row.block_bytes()) => {
                return Ok(RowLookup::Loading);
            }
            Lookup::Missing => return Ok(RowLookup::Missing),
        };
        if row.is_shared {
            if block.n_left.fetch_sub(1, Relaxed) <= 1 {
                self.cache.remove(row.id);
            }
            return Ok(RowLookup::Shared(Recording(block)));
        }
        let bytes = row_bytes(&block.bytes, row)?;
        let mut copy = self.account.buffer(bytes.len(), permit.split(bytes.len()))?;
        copy.as_bytes_mut().copy_from_slice(bytes);
        if block.n_left.fetch_sub(1, Relaxed) <= 1 {
            self.cache.remove(row.id);
        }
        Ok(RowLookup::Copied(copy))
    }

    /// Loads the block of this row, for which `permit` is, unless another reader has begun to.
    ///
    /// Blocks for one request.
    pub(crate) fn load(&self, row: &RowInBlock, shard: &Shard, permit: Permit) -> Result<()> {
        let loading = self.cache.begin(row.id, row.block_bytes(), false);
        let Some(loading) = loading else { return Ok(()) };
        if !row.next_blocks.is_empty() {
            // This block first, so that requests reach the storage in file order.
            shard.readahead(&row.block.bytes);
            row.next_blocks.iter().for_each(|range| shard.readahead(range));
        }
        let mut bytes = self.account.buffer(row.block_bytes(), permit)?;
        shard.read_blob(&row.block.bytes, bytes.as_bytes_mut())?;
        let block = Block { bytes, n_left: AtomicUsize::new(row.block.n_rows) };
        loading.finish(&Arc::new(block), row.block_bytes());
        Ok(())
    }

    /// Drops all blocks.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }
}

fn row_bytes<'a>(block: &'a Buffer, row: &RowInBlock) -> Result<&'a [u8]> {
    let n_bytes = (row.range.end - row.range.start) as usize;
    let start = row.range.start.checked_sub(row.block.bytes.start).map(|start| start as usize);
    let bytes = start.and_then(|start| block.as_bytes().get(start..start.checked_add(n_bytes)?));
    bytes.ok_or_else(|| Error::corrupt("the row lies outside its block"))
}
