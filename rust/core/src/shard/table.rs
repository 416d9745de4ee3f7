//! The small columns of one record batch, and where its large values lie.

use std::{ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array, cast::AsArray};
use arrow_schema::Schema;
use arrow_select::{
    concat::concat_batches, dictionary::garbage_collect_any_dictionary, take::take_record_batch,
};

use super::{
    blob::{Blob, BlobBlock, BlobColumn},
    guard,
};
use crate::{
    Error, Result,
    memory::{Buffer, Permit},
};

/// Dictionaries of this many bytes and more are not kept by shards: the tables that use them keep
/// them, and rows that are copied out of a table keep only the values that they have.
pub(super) const LARGE_DICTIONARY: usize = 64 << 10;

/// Bytes of memory that an array takes besides its values: its own structure, and those of its buffers.
/// They are most of a row of many small columns.
pub(super) const ARRAY_BYTES: usize = 256;

/// The projected columns of one record batch. Immutable, so that threads can share it.
#[derive(Clone, Debug)]
pub struct Table {
    /// The small columns, decoded and validated, in the projection's order.
    pub columns: RecordBatch,
    /// Bytes of memory. Large dictionaries that tables share count for each of them.
    pub n_bytes: usize,
    blobs: Vec<Arc<BlobColumn>>,
    /// What the columns lie in, where a batch may take it over: of rows that were read alone.
    pub(crate) buffers: Vec<Arc<Buffer>>,
    /// Keeps the dictionaries alive by which the shard finds them for its other tables.
    _dictionaries: Vec<ArrayRef>,
    /// For these bytes. The last field, so that it is dropped after the memory that it stands for.
    pub(crate) permit: Option<Arc<Permit>>,
}

/// The size of a table, as far as it is known before the table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Bytes that are read.
    pub stored: usize,
    /// Bytes of memory beyond those of the values: for arrays, and while gaps are read.
    pub besides: usize,
    /// Whether they are compressed: then only reading tells the decompressed size.
    pub is_compressed: bool,
}

/// What reading one row without the others takes, on average.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSize {
    /// Requests, and the bytes that they read.
    pub(crate) n_requests: usize,
    pub(crate) read: usize,
    /// Bytes of memory.
    pub(crate) memory: usize,
}

/// Ranges of the file that loading a table and reading the blobs of one of its rows will read, as
/// far as they are known before.
#[derive(Debug, Default)]
pub(super) struct Readahead {
    pub(super) table: Vec<Range<u64>>,
    /// By blob column; `None` for nulls and unknown ranges.
    pub(super) blobs: Vec<Option<Range<u64>>>,
    /// Whether the ranges of all blobs are known.
    pub(super) has_all_blobs: bool,
}

impl Table {
    /// A table of `n_bytes` bytes, for which its user adds a permit.
    pub(super) fn new(
        columns: RecordBatch,
        n_bytes: usize,
        blobs: Vec<Arc<BlobColumn>>,
        dictionaries: Vec<ArrayRef>,
    ) -> Self {
        Self {
            columns,
            n_bytes,
            blobs,
            buffers: Vec::new(),
            _dictionaries: dictionaries,
            permit: None,
        }
    }

    /// The bytes of one row of the blob column with this index in the projection; `None` where
    /// they (or the struct around them) are null, and for a row or column that does not exist.
    pub fn blob(&self, blob: usize, row: usize) -> Option<Blob> {
        self.blobs.get(blob)?.get(row)
    }

    /// The block of this row of a blob column; `None` where its rows are not small.
    pub fn block_of(&self, blob: usize, row: usize) -> Option<BlobBlock> {
        self.blobs.get(blob)?.block_of(row)
    }

    /// The block of this number of a blob column; `None` where there is none.
    pub fn block(&self, blob: usize, number: usize) -> Option<BlobBlock> {
        self.blobs.get(blob)?.block(number)
    }

    /// The number of rows.
    pub fn n_rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// A copy of these rows of the columns, without blobs, which shares no memory with this table.
    pub(crate) fn take(&self, rows: &[u64]) -> Result<Self> {
        let columns = if self.columns.num_columns() == 0 {
            self.columns.slice(0, rows.len().min(self.n_rows()))
        } else {
            guard::contain("a row", || {
                take_record_batch(&self.columns, &UInt64Array::from(rows.to_vec()))
                    .map_err(|e| Error::corrupt(e.to_string()))
            })?
        };
        Ok(Self::owning(compact_dictionaries(&columns)?))
    }

    /// The rows of these tables, which have no blobs, in one; `None` where they do not fit into one.
    pub(crate) fn concat<'a>(tables: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let schema = tables.clone().next()?.columns.schema();
        if tables.clone().any(|table| table.columns.schema_ref() != &schema) {
            return None;
        }
        let columns = guard::contain("a row", || {
            concat_batches(&schema, tables.map(|table| &table.columns))
                .map_err(|e| Error::corrupt(e.to_string()))
        });
        columns.ok().map(Self::owning)
    }

    /// Whether its arrays take about as many bytes as their values, or more.
    pub(crate) fn is_mostly_arrays(&self) -> bool {
        self.columns.num_columns() > 0
            && self.n_bytes / 2 <= arrays_bytes(self.columns.schema_ref())
    }

    /// A table of columns that share no memory with others.
    fn owning(columns: RecordBatch) -> Self {
        // Small dictionaries are shared, not copied.
        let own = columns.columns().iter().filter(|column| {
            column.as_any_dictionary_opt().is_none() || has_large_dictionary(column)
        });
        let values: usize = own.map(Array::get_buffer_memory_size).sum();
        let n_bytes = values.saturating_add(arrays_bytes(columns.schema_ref()));
        Self::new(columns, n_bytes, Vec::new(), Vec::new())
    }
}

/// Bytes of the arrays of these columns, without their values.
pub(super) fn arrays_bytes(schema: &Schema) -> usize {
    schema.flattened_fields().len().saturating_mul(ARRAY_BYTES)
}

/// Bytes of a dictionary's values, without other values in the same buffers.
pub(super) fn dictionary_bytes(values: &dyn Array) -> usize {
    let own = values.to_data().get_slice_memory_size();
    own.unwrap_or_else(|_| values.get_array_memory_size())
}

fn has_large_dictionary(column: &ArrayRef) -> bool {
    let dictionary = column.as_any_dictionary_opt();
    dictionary.is_some_and(|column| dictionary_bytes(column.values()) >= LARGE_DICTIONARY)
}

/// The same columns, with only those values of large dictionaries that they have.
fn compact_dictionaries(batch: &RecordBatch) -> Result<RecordBatch> {
    if !batch.columns().iter().any(has_large_dictionary) {
        return Ok(batch.clone());
    }
    guard::contain("a dictionary", || {
        let compact = |column: &ArrayRef| match column.as_any_dictionary_opt() {
            Some(dictionary) if has_large_dictionary(column) => {
                garbage_collect_any_dictionary(dictionary)
            }
            _ => Ok(Arc::clone(column)),
        };
        let columns = batch.columns().iter().map(compact).collect::<Result<_, _>>();
        let columns = columns.and_then(|columns| RecordBatch::try_new(batch.schema(), columns));
        columns.map_err(|e| Error::corrupt(e.to_string()))
    })
}
