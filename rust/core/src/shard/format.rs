//! What a shard format implements, and the table of formats.

use std::{fmt::Debug, ops::Range};

use arrow_schema::{DataType, SchemaRef};

use super::{
    Projection, RowSize, Table, TableSize,
    index_file::{IndexReader, IndexWriter},
    ipc, parquet,
    statistics::Statistics,
    table::Readahead,
};
use crate::{
    Result,
    store::{RangeReader, WindowReader},
};

/// A shard format. A new one is a folder beside `ipc` and a line in [`FORMATS`].
pub(super) struct Format {
    /// As users see it.
    pub(super) name: &'static str,
    /// Its number in sidecars, which never changes.
    pub(super) id: u64,
    /// Whether a file that begins with these (up to eight) bytes is in this format.
    pub(super) matches: fn(head: &[u8]) -> bool,
    /// Reads the metadata of a shard.
    pub(super) open: fn(&mut WindowReader<'_>) -> Result<Box<dyn FormatReader>>,
    /// Restores the metadata from a sidecar of a shard with this many bytes; `None` for damage.
    pub(super) restore: fn(&mut IndexReader<'_>, u64) -> Option<Box<dyn FormatReader>>,
}

/// All formats, in the order in which they are tried. A stream has no magic bytes, so it is last.
pub(super) const FORMATS: [&Format; 3] = [&ipc::FILE, &parquet::FORMAT, &ipc::STREAM];

/// The metadata of one shard, and how its record batches are read.
///
/// Record batches are whatever the format reads at a time; rows are numbered through all of them.
/// Errors name the place in the file; the caller adds the shard.
pub(super) trait FormatReader: Debug + Send + Sync {
    /// The shard's format.
    fn format(&self) -> &'static Format;

    /// The columns, with the metadata that the writer left.
    fn schema(&self) -> &SchemaRef;

    /// The first row of each record batch, and at the end the number of rows.
    fn row_starts(&self) -> &[u64];

    /// How the first record batch is compressed: `"lz4"`, `"zstd"` or not at all. May read.
    fn compression(&self, reader: &RangeReader) -> Result<Option<&'static str>>;

    /// The size of one record batch's table; `None` where only reading tells. Does not read.
    /// Ranges with at most `gap` bytes between them are read together.
    fn table_size(
        &self,
        batch: usize,
        projection: &Projection,
        gap: u64,
    ) -> Result<Option<TableSize>>;

    /// What will be read for one record batch's table and for one of its rows, as far as that is
    /// known before the table is read. Does not read.
    fn readahead(&self, batch: usize, row: usize, projection: &Projection) -> Result<Readahead>;

    /// Reads and decodes the projected columns of one record batch. Refuses to take more than
    /// `limit` bytes, before it takes them. Calls `on_size` with the number of bytes, once it is
    /// known and before anything is decompressed.
    fn load_table(
        &self,
        reader: &RangeReader,
        batch: usize,
        projection: &Projection,
        limit: usize,
        on_size: &dyn Fn(usize),
    ) -> Result<Table>;

    /// Whether slices of record batches of these columns can be read, as far as the schema tells.
    fn has_slices(&self, _: &Projection) -> bool {
        false
    }

    /// The size of a row of one record batch that is read alone; `None` where this is not possible, or where
    /// only reading tells. Does not read.
    fn row_size(&self, _batch: usize, _: &Projection, _gap: u64) -> Result<Option<RowSize>> {
        Ok(None)
    }

    /// Reads and decodes the projected columns of these rows of a record batch, for columns that have
    /// slices; `None` where the record batch can only be read as a whole. Refuses to take more than
    /// `limit` bytes, before it takes them.
    fn load_slice(
        &self,
        _: &RangeReader,
        _batch: usize,
        _rows: &Range<usize>,
        _: &Projection,
        _limit: usize,
    ) -> Result<Option<Table>> {
        Ok(None)
    }

    /// The statistics of a column of this type, or of a field of a struct by all names that lead to it,
    /// in each record batch; `None` where the shard has none. Does not read.
    fn statistics(&self, _names: &[String], _data_type: &DataType) -> Option<Vec<Statistics>> {
        None
    }

    /// Finds out all that a sidecar can have, beyond what opening finds.
    fn complete(&self, _: &RangeReader) -> Result<()> {
        Ok(())
    }

    /// Whether reading has found out something since this was last asked that a sidecar is to have.
    fn take_news(&self) -> bool {
        false
    }

    /// Writes what `restore` reads.
    fn save(&self, out: &mut IndexWriter);
}
