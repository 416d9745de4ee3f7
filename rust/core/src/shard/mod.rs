//! Shards, read row by row.
//!
//! [`Shard::open`] reads a shard's metadata: it knows the rows, and has read none of them. A record
//! batch is what a format reads at a time: in Parquet a row group, or some of its pages.
//! [`Shard::load_table`] reads the small columns of one record batch, and of a large binary column
//! only where each row's bytes lie. [`Shard::read_blob`] reads those of one row, in one request. No
//! record batch is read as a whole unless its body is compressed.
//!
//! Each format is a folder (`ipc`, `parquet`) that implements [`format::FormatReader`]; all else here is shared
//! by the formats. Bytes come from [`crate::store`].

mod audio_index;
mod blob;
mod blob_field;
mod children;
mod class_ids;
mod class_names;
mod common_type;
mod extension;
mod features;
mod format;
mod gathered;
mod guard;
mod index_file;
mod ipc;
mod joint;
mod memory_rows;
mod nested;
mod open;
mod parquet;
mod projection;
mod ranges;
mod schema;
mod sidecar;
mod statistics;
mod table;
mod widen;
mod widened_size;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex},
};

use arrow_schema::SchemaRef;

pub use audio_index::{AudioEntry, AudioIndex};
pub use blob::{Blob, BlobBlock};
pub(crate) use blob_field::{advice, holds_paths, made_as_audio};
pub(crate) use class_ids::ClassIds;
pub use class_names::Labels;
pub(crate) use class_names::{ClassNames, listed};
pub(crate) use extension::meaning;
pub use features::audio_columns;
pub use index_file::IndexDir;
pub(crate) use index_file::{IndexFile, Section};
pub(crate) use nested::{column_of_part, field_at};
pub use open::{open_all, open_files};
pub use projection::Projection;
pub(crate) use schema::is_same_type;
pub(crate) use statistics::Statistics;
pub(crate) use table::RowSize;
pub use table::{Table, TableSize};

use self::{
    class_ids::NewIds,
    format::{FORMATS, FormatReader},
    joint::Joint,
};
use crate::{
    Error, Result, hash,
    metrics::{ShardReads, ShardRows},
    store::{RangeReader, Store, WindowReader, base_name},
    sync::lock_std,
};

/// One shard, opened by its metadata.
///
/// Threads share it as it is. It keeps no descriptor: the [`Store`] opens and closes them.
#[derive(Debug)]
pub struct Shard {
    reader: RangeReader,
    key: u64,
    contents: Box<dyn FormatReader>,
    index_dir: IndexDir,
    has_sidecar: bool,
    /// Held while the index file is written: one thread would lose what another writes.
    saving: Mutex<()>,
    /// What it has in common with the other shards; `None` for a shard alone.
    joint: Option<Arc<Joint>>,
    /// Whether its columns are others than those that all shards have.
    is_other: bool,
    /// The ids of all shards' classes for those of its own, where these differ.
    new_ids: NewIds,
}

impl Shard {
    /// Reads the metadata of a shard, from its sidecar if it has one.
    ///
    /// Blocks for one small read a message, one or two more, and one for each large binary column of
    /// a record batch; for none of them where the shard has a sidecar ([`IndexDir`]).
    ///
    /// # Errors
    ///
    /// `Io` when the file cannot be read; `Corrupt` when it is not whole, sound Arrow IPC or Parquet;
    /// `Schema` for features that are not supported (big-endian data, tensors, encryption); `Limit`
    /// for headers that would expand beyond reason. The message and byte are named.
    pub fn open(store: &Arc<Store>, index_dir: &IndexDir, path: &Path) -> Result<Self> {
        let reader = RangeReader::new(store, path)?.cached();
        let (contents, has_sidecar) = if let Some(saved) = sidecar::load(&reader, index_dir) {
            (saved, true)
        } else {
            let contents = read_metadata(&reader).map_err(|e| e.in_shard(reader.name()))?;
            let is_saved = sidecar::save(&reader, index_dir, contents.as_ref());
            (contents, is_saved)
        };
        let key = hash::fnv1a(base_name(reader.path()).as_encoded_bytes());
        let index_dir = index_dir.clone();
        let (joint, is_other, new_ids, saving) = (None, false, NewIds::new(), Mutex::default());
        Ok(Self { reader, key, contents, index_dir, has_sidecar, saving, joint, is_other, new_ids })
    }

    /// Presents the shard from now on as one of several, with the columns that all of them have.
    fn join(&mut self, joint: &Arc<Joint>, new_ids: NewIds) {
        self.is_other = !joint.is(self.contents.schema());
        self.joint = Some(Arc::clone(joint));
        self.new_ids = new_ids;
    }

    /// The class names in these columns, of all shards that were opened with this one.
    pub fn class_names(&self, columns: &[&str]) -> BTreeMap<String, Vec<String>> {
        self.joint.as_ref().map_or_else(ClassNames::new, |joint| joint.class_names(columns))
    }

    /// The rate in Hz that the features of this shard name for an audio column.
    pub(crate) fn audio_rate(&self, column: &str) -> Option<u32> {
        let columns = audio_columns(self.own_schema()).into_iter();
        let rate = columns.filter(|(name, _)| name == column).find_map(|(_, rate)| rate);
        rate.or_else(|| features::rate_of_part(self.own_schema(), column))
    }

    /// Refuses an audio column, by the features, that not all shards have in common.
    pub(crate) fn check_audio(&self) -> Result<()> {
        let columns = audio_columns(self.own_schema()).into_iter();
        columns.map(|(name, _)| name).try_for_each(|name| self.check_column(Some(&name)))
    }

    /// Refuses a column that the shards which were opened with this one do not all have, or have in
    /// types without a common one, or whose class ids cannot become those of all; `None` asks for all
    /// columns. A name may be the dotted path of a field.
    ///
    /// # Errors
    ///
    /// `Schema`, with both shards, what differs, and what to do. Names of no shard's columns are not
    /// refused here.
    pub fn check_column(&self, column: Option<&str>) -> Result<()> {
        self.joint.as_ref().map_or(Ok(()), |joint| joint.check(column))
    }

    /// Finds out all that a sidecar can have, and writes it: in Parquet where each large value is.
    ///
    /// Blocks for a request a value that is not known yet.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table`].
    pub fn complete_sidecar(&self) -> Result<()> {
        self.contents.complete(&self.reader).map_err(|e| e.in_shard(self.name()))?;
        self.save_news();
        Ok(())
    }

    /// Writes the sidecar again, if enough was found out since.
    fn save_news(&self) {
        if !self.has_sidecar {
            return;
        }
        // Otherwise what was found first might be written last, too.
        let _saving = lock_std(&self.saving);
        if self.contents.take_news() {
            sidecar::save(&self.reader, &self.index_dir, self.contents.as_ref());
        }
    }

    /// The path as it was given, for messages.
    pub fn name(&self) -> &Arc<str> {
        self.reader.name()
    }

    /// FNV-1a, 64 bits, of the file's base name: the same wherever the file lies.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The path and the version of the file, for keys of what was worked out from it; `None` where it
    /// may still change without another version, or nothing tells it from another file.
    pub(crate) fn version_key(&self) -> Option<(&Path, [u64; 3])> {
        let version = self.reader.version();
        let (modified_s, modified_ns) = version.modified;
        let words = [version.len, modified_s as u64, modified_ns as u64];
        self.reader.may_be_kept().then_some((self.reader.path(), words))
    }

    /// What was read of this shard so far, its metadata included.
    pub fn reads(&self) -> ShardReads {
        let of = self.reader.metrics();
        let (requests, bytes, busy) = of.totals();
        let (throttled, retries) = (of.n_throttled(), of.n_retries());
        let (name, rows) = (Arc::clone(self.name()), ShardRows::default());
        ShardReads { name, requests, bytes, busy, throttled, retries, rows, data_set: 0 }
    }

    /// Whether the next opening will find a sidecar: it was there, or could be written.
    pub fn has_sidecar(&self) -> bool {
        self.has_sidecar
    }

    /// `n_words` numbers that were kept of this version of the shard under this key, if they were.
    ///
    /// Blocks for a small read. They are checked no further than by a checksum.
    pub fn load_kept(&self, index_dir: &IndexDir, key: u64, n_words: u64) -> Option<Vec<u64>> {
        let file = IndexFile::of_shard(&self.reader, index_dir)?;
        file.read_words(Section::rows(key), n_words)
    }

    /// Keeps numbers for [`Shard::load_kept`], if that is possible.
    pub fn keep(&self, index_dir: &IndexDir, key: u64, words: &[u64]) {
        if let Some(file) = IndexFile::of_shard(&self.reader, index_dir) {
            let _saving = lock_std(&self.saving);
            file.write_words(Section::rows(key), words);
        }
    }

    /// What is remembered of the recordings of this version of the shard, by entries of this version;
    /// empty where nothing is.
    ///
    /// Blocks for a small read. Entries are checked no further than by checksums.
    pub fn load_audio_index(&self, version: u64) -> AudioIndex {
        audio_index::load(&self.reader, &self.index_dir, version)
    }

    /// Adds entries to what is remembered, if that is possible, and what other processes have added to
    /// `index`. Returns whether it is kept now.
    ///
    /// Blocks for a small read and a small write.
    pub fn save_audio_index(&self, version: u64, index: &mut AudioIndex) -> bool {
        let _saving = lock_std(&self.saving);
        audio_index::save(&self.reader, &self.index_dir, version, index)
    }

    /// The rows of all record batches.
    pub fn n_rows(&self) -> u64 {
        self.contents.row_starts().last().copied().unwrap_or(0)
    }

    /// The columns, with the metadata that the writer left. Of shards that were opened together,
    /// those that all of them have, each of a type that holds the values of all.
    pub fn schema(&self) -> &SchemaRef {
        self.joint.as_ref().map_or_else(|| self.contents.schema(), |joint| &joint.schema)
    }

    /// What the shard's own metadata says about its columns in the form of Hugging Face `datasets`.
    pub fn features_json(&self) -> Option<&String> {
        self.own_schema().metadata().get(features::KEY)
    }

    /// The columns of the shard alone.
    fn own_schema(&self) -> &SchemaRef {
        self.contents.schema()
    }

    /// The projection as one of the shard's own schema.
    fn own<'a>(&self, projection: &'a Projection) -> Result<Cow<'a, Projection>> {
        Ok(if self.is_other {
            Cow::Owned(projection.of_shard(self.own_schema())?)
        } else {
            Cow::Borrowed(projection)
        })
    }

    /// The number of record batches, empty ones included.
    pub fn n_batches(&self) -> usize {
        self.contents.row_starts().len().saturating_sub(1)
    }

    /// Bytes of the file when it was opened.
    pub fn n_bytes(&self) -> u64 {
        self.reader.len()
    }

    /// The format: `"file"` or `"stream"` of Arrow IPC, or `"parquet"`.
    pub fn format(&self) -> &'static str {
        self.contents.format().name
    }

    /// How the first record batch is compressed: `"lz4"`, `"zstd"` or not at all, and in Parquet also
    /// `"snappy"`, `"gzip"`, `"brotli"` or `"lzo"`.
    ///
    /// Blocks for one small read where the header is not kept in memory.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table`].
    pub fn compression(&self) -> Result<Option<&'static str>> {
        self.contents.compression(&self.reader).map_err(|e| e.in_shard(self.name()))
    }

    /// The record batch of a row, and the row's index in it; `None` beyond the last row.
    pub fn locate(&self, row: u64) -> Option<(usize, usize)> {
        if row >= self.n_rows() {
            return None;
        }
        // The last batch that begins at or before the row: empty ones begin where the next does.
        let starts = self.contents.row_starts();
        let batch = starts.partition_point(|start| *start <= row).checked_sub(1)?;
        Some((batch, (row - starts.get(batch)?) as usize))
    }

    /// The number of rows of a record batch.
    pub(crate) fn n_rows_of(&self, batch: usize) -> u64 {
        let starts = self.contents.row_starts();
        let start = starts.get(batch).zip(starts.get(batch + 1));
        start.map_or(0, |(start, end)| end.saturating_sub(*start))
    }

    /// The statistics of a column, or of a field of a struct by all names that lead to it, in each
    /// record batch; `None` where the shard has none, or presents the column otherwise than it stores
    /// it. Does not block.
    pub(crate) fn statistics(&self, names: &[String]) -> Option<Vec<Statistics>> {
        let own = schema::type_at(self.own_schema(), names)?;
        let is_own = is_same_type(own, schema::type_at(self.schema(), names)?);
        let column = names.first().and_then(|name| self.schema().column_with_name(name));
        if column.is_some_and(|(_, column)| meaning(column).is_some()) {
            return None;
        }
        let path = names.join(".");
        let is_renumbered = self.new_ids.iter().any(|(renumbered, _)| *renumbered == path);
        (is_own && !is_renumbered).then(|| self.contents.statistics(names, own)).flatten()
    }

    /// The size of one record batch's table; `None` where only reading tells.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table`], for what the metadata tells. Does not block.
    pub fn table_size(&self, batch: usize, projection: &Projection) -> Result<Option<TableSize>> {
        let gap = self.reader.gap();
        let size = self.own(projection).and_then(|own| self.contents.table_size(batch, &own, gap));
        size.map_err(|e| e.in_shard(self.name()))
    }

    /// What reading a row of one record batch by [`Shard::load_slice`] takes; `None` where it does not read
    /// these columns, or where only reading tells.
    ///
    /// # Errors
    ///
    /// As [`Shard::table_size`]. Does not block.
    pub(crate) fn row_size(
        &self,
        batch: usize,
        projection: &Projection,
    ) -> Result<Option<RowSize>> {
        let gap = self.reader.gap();
        let size = self.own(projection).and_then(|own| self.contents.row_size(batch, &own, gap));
        size.map_err(|e| e.in_shard(self.name()))
    }

    /// The most bytes between two ranges that are read by one request.
    pub(crate) fn gap(&self) -> u64 {
        self.reader.gap()
    }

    /// Opens the file, so that the first read does not have to. Errors are left to that read.
    ///
    /// Blocks for a round trip, if the file is not open.
    pub fn open_file(&self) {
        self.reader.open_file();
    }

    /// Starts reading the table of one record batch into the page cache, and those blobs of one of
    /// its rows that are `wanted`, by their index and range, where their ranges are known before
    /// the table is read. Returns whether all of them were.
    ///
    /// Blocks only where the file is not open. Errors are left to the reads that follow.
    pub fn readahead_row(
        &self,
        batch: usize,
        row: usize,
        projection: &Projection,
        wanted: impl Fn(usize, &Range<u64>) -> bool,
    ) -> bool {
        let known = self.own(projection).and_then(|own| self.contents.readahead(batch, row, &own));
        let Ok(known) = known else { return false };
        let blobs = known.blobs.iter().enumerate();
        let blobs = blobs.filter_map(|(k, range)| range.as_ref().filter(|range| wanted(k, range)));
        known.table.iter().chain(blobs).for_each(|range| self.reader.readahead(range));
        known.has_all_blobs
    }

    /// Starts reading these bytes into the page cache. Errors are left to the read that follows.
    ///
    /// Blocks only where the file is not open.
    pub fn readahead(&self, range: &Range<u64>) {
        self.reader.readahead(range);
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

    /// As [`Shard::load_table`], of no more than `limit` bytes, decompressed ones included. Calls
    /// `on_size` with the number of bytes, before anything is decompressed.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table`]; `Limit` before anything larger is read or decompressed.
    pub fn load_table_within(
        &self,
        batch: usize,
        projection: &Projection,
        limit: usize,
        on_size: &dyn Fn(usize),
    ) -> Result<Table> {
        let n = self.n_batches();
        if batch >= n {
            let what = format!("record batch {batch} was asked for, but there are {n}");
            return Err(Error::config(what).in_shard(self.name()));
        }
        let table = self
            .own(projection)
            .and_then(|own| self.contents.load_table(&self.reader, batch, &own, limit, on_size));
        let table = table.and_then(|table| self.presented(table, projection, limit, on_size));
        self.save_news();
        table.map_err(|e| e.in_shard(self.name()))
    }

    /// The columns as all shards have them.
    fn presented(
        &self,
        table: Table,
        projection: &Projection,
        limit: usize,
        on_size: &dyn Fn(usize),
    ) -> Result<Table> {
        let schema = projection.read_schema();
        let table =
            if self.is_other { widen::widen_table(table, &schema, limit, on_size)? } else { table };
        projection.with_fields(ClassIds::of(&schema, &self.new_ids).apply(table)?)
    }

    /// Reads and decodes the projected columns of these rows of a record batch, without the others;
    /// `None` where the record batch can only be read as a whole.
    ///
    /// Blocks for one request, and one more for each level of lists.
    ///
    /// # Errors
    ///
    /// As [`Shard::load_table_within`]. Damage of other rows is not noticed.
    pub fn load_slice(
        &self,
        batch: usize,
        rows: &Range<usize>,
        projection: &Projection,
        limit: usize,
    ) -> Result<Option<Table>> {
        let load = || {
            let own = self.own(projection)?;
            if !self.contents.has_slices(&own) {
                return Ok(None);
            }
            let slice = self.contents.load_slice(&self.reader, batch, rows, &own, limit)?;
            slice.map(|slice| self.presented(slice, projection, limit, &|_| ())).transpose()
        };
        load().map_err(|e| e.in_shard(self.name()))
    }

    /// Reads the bytes of a [`Blob::Range`] into `into`, which has its length, by one request for
    /// each 4 MiB.
    ///
    /// # Errors
    ///
    /// `Io`; `Corrupt` when the file was shortened or replaced; `Closed` when cancelled.
    pub fn read_blob(&self, range: &Range<u64>, into: &mut [u8]) -> Result<()> {
        self.reader.check_range(range)?;
        self.reader.read_exact_at(range.start, into)
    }
}

/// Reads the metadata of a shard in whichever format it is.
fn read_metadata(reader: &RangeReader) -> Result<Box<dyn FormatReader>> {
    let mut window = WindowReader::new(reader);
    let head = window.bytes(0..reader.len().min(8))?;
    if head.is_empty() {
        return Err(Error::corrupt("the file is empty").at_byte(0));
    }
    if let Some(what) = unsupported_format(head) {
        return Err(Error::corrupt(format!("not Arrow IPC or Parquet but {what}")).at_byte(0));
    }
    let format = FORMATS.iter().find(|format| (format.matches)(head));
    let format = format.ok_or_else(|| Error::corrupt("not a shard").at_byte(0))?;
    (format.open)(&mut window)
}

/// Formats that are easily mistaken for a shard's.
fn unsupported_format(head: &[u8]) -> Option<&'static str> {
    [
        (&b"FEA1"[..], "Feather version 1; write it again as version 2"),
        (b"RIFF", "a RIFF (WAV) recording"),
        (b"OggS", "an Ogg recording"),
        (b"fLaC", "a FLAC recording"),
    ]
    .into_iter()
    .find_map(|(magic, name)| head.starts_with(magic).then_some(name))
}
