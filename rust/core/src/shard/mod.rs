//! Arrow IPC shards, read row by row.
//!
//! [`Shard::open`] reads the headers of a shard's messages: it knows the rows, and has read nothing
//! of them. [`Shard::load_table`] reads the small columns of one record batch, and of a large binary
//! column only where each row's bytes lie. [`Shard::read_blob`] reads those of one row, in one
//! request. No record batch is read as a whole unless its body is
//! compressed.

mod blob;
mod body;
mod decompress;
mod dictionaries;
#[cfg(test)]
mod faults;
mod features;
mod file_format;
mod files;
mod framing;
mod guard;
mod index;
mod kind;
mod layout;
mod name;
mod open;
mod open_files;
mod projection;
mod retry;
mod schema;
mod sidecar;
mod sidecar_format;
mod source;
mod storage;
mod table;

use std::{ops::Range, path::Path, sync::Arc};

use arrow_ipc::CompressionType;
use arrow_schema::SchemaRef;

pub use blob::{Blob, BlobRun};
pub use features::audio_columns;
pub(crate) use features::check_class_names;
pub use files::Files;
pub use kind::{PathKind, path_kinds};
pub use name::{name_bytes, name_of};
pub use open::{open_ahead, open_all};
pub use open_files::OpenFiles;
pub use projection::Projection;
pub use sidecar::IndexDir;
pub use table::{Table, TableSize};

use self::{dictionaries::DictionaryCache, index::MessageIndex, source::Source};
use crate::{
    Error, Result, hash,
    metrics::{ShardReads, ShardRows},
};

/// One Arrow IPC stream or file, opened by its headers.
///
/// Shared between threads as it is. It keeps no descriptor: [`Files`] opens and closes them.
#[derive(Debug)]
pub struct Shard {
    source: Source,
    key: u64,
    index: MessageIndex,
    dictionaries: DictionaryCache,
    has_sidecar: bool,
}

impl Shard {
    /// Reads the headers of a shard, in the stream or the file format.
    ///
    /// Blocks for one small read a message, one or two more, and one for each large binary column
    /// of a record batch; for none of them where the shard has a sidecar ([`IndexDir`]).
    ///
    /// # Errors
    ///
    /// `Io` when the file cannot be read; `Corrupt` when it is not whole, sound Arrow IPC; `Schema`
    /// for what Arrow has and is not read here (big-endian data, tensors); `Limit` for headers
    /// that would expand beyond reason. The message and byte are named.
    pub fn open(files: &Arc<Files>, path: &Path) -> Result<Self> {
        let source = Source::open(files, path)?;
        let (index, has_sidecar) = if let Some(index) = sidecar::load(&source) {
            (index, true)
        } else {
            let index = MessageIndex::read(&source).map_err(|e| e.in_shard(source.name()))?;
            let is_saved = sidecar::save(&source, &index);
            (index, is_saved)
        };
        let base_name = source.path().file_name().unwrap_or_default();
        let key = hash::fnv1a(base_name.as_encoded_bytes());
        Ok(Self { source, key, index, dictionaries: DictionaryCache::default(), has_sidecar })
    }

    /// The path as it was given, for messages.
    pub fn name(&self) -> &Arc<str> {
        self.source.name()
    }

    /// FNV-1a, 64 bits, of the file's base name: the same wherever the file lies.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// What was read of this shard so far, its headers included.
    pub fn reads(&self) -> ShardReads {
        let (requests, bytes, busy) = self.source.reads();
        let rows = ShardRows::default();
        ShardReads { name: Arc::clone(self.name()), requests, bytes, busy, rows }
    }

    /// Whether the next opening will find a sidecar: it was there, or could be written.
    pub fn has_sidecar(&self) -> bool {
        self.has_sidecar
    }

    /// The rows of all record batches.
    pub fn n_rows(&self) -> u64 {
        self.index.n_rows()
    }

    /// The columns, with the metadata that the writer left.
    pub fn schema(&self) -> &SchemaRef {
        &self.index.schema
    }

    /// The number of record batches, empty ones included.
    pub fn n_batches(&self) -> usize {
        self.index.batches.len()
    }

    /// Bytes of the file when it was opened.
    pub fn n_bytes(&self) -> u64 {
        self.source.len()
    }

    /// Whether this is the file format, and not a stream.
    pub fn is_file_format(&self) -> bool {
        self.index.is_file
    }

    /// How the body of the first record batch is compressed: `"lz4"`, `"zstd"` or not at all.
    ///
    /// Blocks for one small read where the header is not kept in memory.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table`].
    pub fn compression(&self) -> Result<Option<&'static str>> {
        let Some(first) = self.index.batches.first() else { return Ok(None) };
        let compression = first.with_header(&self.source, |message| {
            let batch = message.header_as_record_batch().ok_or_else(index::changed)?;
            layout::compression(&batch)
        });
        let compression = compression.map_err(|e| e.in_shard(self.name()))?;
        Ok(compression.map(|codec| if codec == CompressionType::ZSTD { "zstd" } else { "lz4" }))
    }

    /// The record batch of a row, and the row's index in it; `None` beyond the last row.
    pub fn locate(&self, row: u64) -> Option<(usize, usize)> {
        if row >= self.n_rows() {
            return None;
        }
        // The last batch that begins at or before the row: empty ones begin where the next does.
        let batch = self.index.row_starts.partition_point(|start| *start <= row).checked_sub(1)?;
        let start = self.index.row_starts.get(batch)?;
        Some((batch, (row - start) as usize))
    }

    /// What the table of one record batch will take; `None` where only reading tells, for its header
    /// is not kept.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table`], for what the headers tell. Does not block.
    pub fn table_bytes(&self, batch: usize, projection: &Projection) -> Result<Option<TableSize>> {
        let Some(entry) = self.index.batches.get(batch) else { return Ok(None) };
        Table::bytes_known(&self.index, entry, projection).map_err(|e| {
            e.in_shard(self.name()).in_message(entry.frame.message).at_byte(entry.frame.start)
        })
    }

    /// Opens the file, so that the first read does not have to. What goes wrong, that read tells.
    ///
    /// Blocks for a round trip, if the file is not open.
    pub fn open_ahead(&self) {
        self.source.open_ahead();
    }

    /// Lets the operating system begin to read the table of one record batch, and of one of its rows
    /// the blobs that are `wanted`, by their index and length, and whose places are known without
    /// the table. Whether they were all known.
    ///
    /// Blocks only where the file is not open. A hint: what goes wrong, the reads tell.
    pub fn announce(
        &self,
        batch: usize,
        row: usize,
        projection: &Projection,
        wanted: impl Fn(usize, u64) -> bool,
    ) -> bool {
        let Some(entry) = self.index.batches.get(batch) else { return false };
        let Ok(ahead) = Table::ahead(&self.index, entry, projection, row) else { return false };
        let blobs = ahead.blobs.iter().enumerate();
        let wanted = blobs.filter_map(|(k, range)| {
            range.as_ref().filter(|range| wanted(k, range.end - range.start))
        });
        ahead.runs.iter().chain(wanted).for_each(|range| self.source.announce(range));
        ahead.all_known
    }

    /// Lets the operating system begin to read these bytes. A hint: what goes wrong, the read tells.
    ///
    /// Blocks only where the file is not open.
    pub fn announce_bytes(&self, range: &Range<u64>) {
        self.source.announce(range);
    }

    /// Reads and decodes the projected columns of one record batch.
    ///
    /// Blocks for one request, or a few where the columns lie apart. The dictionaries that they
    /// need are read once and kept.
    ///
    /// # Errors
    ///
    /// `Corrupt` when the bytes are not what the headers say; `Schema` when the projection is of
    /// another schema; `Limit` when a compressed body would grow beyond 1 GiB; `Io` and `Closed`.
    pub fn load_table(&self, batch: usize, projection: &Projection) -> Result<Table> {
        self.load_table_within(batch, projection, usize::MAX, &|_| ())
    }

    /// As [`Shard::load_table`], of no more than `limit` bytes, decompressed ones included. `takes`
    /// is told how many they are, while loading, before anything is decompressed.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table`]; `Limit` before anything larger is read or decompressed.
    pub fn load_table_within(
        &self,
        batch: usize,
        projection: &Projection,
        limit: usize,
        takes: &dyn Fn(usize),
    ) -> Result<Table> {
        let Some(entry) = self.index.batches.get(batch) else {
            let n = self.n_batches();
            let what = format!("record batch {batch} was asked for, but there are {n}");
            return Err(Error::config(what).in_shard(self.name()));
        };
        let table = Table::load(self, entry, projection, limit, takes);
        // A header that was read again, or a sidecar, may tell of other rows than the index.
        let counted = self.index.rows_in(batch);
        let table = table.and_then(|table| {
            if table.n_rows() == counted { Ok(table) } else { Err(index::changed()) }
        });
        table.map_err(|e| {
            e.in_shard(self.name()).in_message(entry.frame.message).at_byte(entry.frame.start)
        })
    }

    /// Reads the bytes of a [`Blob::Range`] into `into`, which has its length, by one request for
    /// each 4 MiB.
    ///
    /// # Errors
    ///
    /// `Io`; `Corrupt` when the file was shortened or replaced; `Closed` when cancelled.
    pub fn read_blob(&self, range: &Range<u64>, into: &mut [u8]) -> Result<()> {
        self.source.check_range(range)?;
        self.source.read_exact_at(range.start, into)
    }
}
