//! Parquet.
//!
//! Columns are decoded by the crate `parquet`, from ranges that our reader fetched and whose headers
//! were checked. What is read at a time is a row group, or some pages of it where an offset index says
//! where they begin. Binary values that are neither compressed nor in a dictionary, as recent
//! `datasets` writes audio, are read one by one: where they are is found out once.
//!
//! See <https://parquet.apache.org/docs/file-format/>.

mod checked_pages;
mod columns;
mod delta;
mod dictionaries;
mod fetch;
mod footer;
mod growth;
mod hybrid;
mod levels;
mod located;
mod number_lists;
mod numbers;
mod page;
mod page_index;
mod pages;
mod runs;
mod sidecar;
mod size;
mod statistics;
mod table;
mod thrift;
mod values;

use std::{collections::HashSet, sync::Arc};

use ::parquet::{basic::Compression, file::metadata::RowGroupMetaData};
use arrow_schema::{DataType, SchemaRef};

use self::{
    columns::LeafMap,
    footer::{ENCRYPTED_MAGIC, Footer, MAGIC, chunk_range},
    located::Located,
    runs::RowRun,
    table::{Plan, check_limit},
};
use super::{
    Projection, Table, TableSize,
    blob::{Blob, BlobColumn},
    format::{Format, FormatReader},
    index_file::IndexWriter,
    ranges::coalesced,
    statistics::Statistics,
    table::Readahead,
};
use crate::{
    Error, Result,
    store::{GAP, RangeReader},
};

/// Parquet.
pub(super) const FORMAT: Format = Format {
    name: "parquet",
    id: 2,
    matches: |head| head.starts_with(MAGIC) || head.starts_with(ENCRYPTED_MAGIC),
    open: |window| Ok(Box::new(ParquetReader::new(Footer::read(window)?))),
    restore: |saved, len| {
        sidecar::restore(saved, len).map(|reader| Box::new(reader) as Box<dyn FormatReader>)
    },
};

/// A Parquet shard.
#[derive(Debug)]
struct ParquetReader {
    footer: Footer,
    leaves: LeafMap,
    runs: Vec<RowRun>,
    row_starts: Vec<u64>,
    located: Located,
}

impl ParquetReader {
    fn new(footer: Footer) -> Self {
        let leaves = LeafMap::new(footer.arrow.parquet_schema(), footer.schema.fields());
        let blobs = Projection::of_blobs(&footer.schema).map_or_else(Vec::new, |all| all.blobs);
        let blobs = blobs.iter().filter_map(|blob| leaves.blob(blob).ok());
        let blobs: HashSet<usize> = blobs.collect();
        let by_value = |group: usize, leaf: usize| {
            blobs.contains(&leaf)
                && footer.chunk(group, leaf).is_ok_and(values::is_readable_by_value)
        };
        let runs = runs::cut(&footer, by_value);
        let mut row_starts = vec![0];
        let mut n_rows = 0;
        for run in &runs {
            n_rows += run.rows.end - run.rows.start;
            row_starts.push(n_rows);
        }
        Self { footer, leaves, runs, row_starts, located: Located::default() }
    }

    fn plan<'a>(&'a self, batch: usize, projection: &'a Projection) -> Result<Plan<'a>> {
        let run = self.runs.get(batch);
        let run = run.ok_or_else(|| Error::corrupt("a run of rows that is missing"))?;
        Plan::new(&self.footer, &self.leaves, run, projection)
    }

    /// Where the values of a leaf are, and the bytes of memory for it that the caller holds alone.
    fn locate(
        &self,
        reader: &RangeReader,
        batch: usize,
        leaf: usize,
    ) -> Result<(Arc<BlobColumn>, usize)> {
        if let Some(known) = self.located.get((batch, leaf)) {
            return Ok((known, 0));
        }
        let run = self.runs.get(batch).ok_or_else(columns::missing)?;
        let n_rows = run.rows.end - run.rows.start;
        // Nulls take no bytes of the file that would bound their number.
        check_limit(n_rows.saturating_mul(values::ROW_BYTES), usize::MAX)?;
        let chunk = self.footer.chunk(run.group, leaf)?;
        let pages = self.footer.pages.pages(run.group, leaf);
        let column = Arc::new(values::locate(reader, chunk, pages, &run.rows)?);
        let is_kept = self.located.put((batch, leaf), &column);
        let n_bytes = if is_kept { 0 } else { column.n_bytes() };
        Ok((column, n_bytes))
    }

    fn is_located(&self, batch: usize, leaf: usize) -> bool {
        self.located.get((batch, leaf)).is_some()
    }
}

impl FormatReader for ParquetReader {
    fn format(&self) -> &'static Format {
        &FORMAT
    }

    fn schema(&self) -> &SchemaRef {
        &self.footer.schema
    }

    fn row_starts(&self) -> &[u64] {
        &self.row_starts
    }

    fn compression(&self, _: &RangeReader) -> Result<Option<&'static str>> {
        // That of the largest column, which is the audio where there is any.
        let chunks = self.footer.row_groups().first().map(RowGroupMetaData::columns);
        let largest = chunks.into_iter().flatten().max_by_key(|chunk| chunk.compressed_size());
        Ok(largest.and_then(|chunk| match chunk.compression() {
            Compression::UNCOMPRESSED => None,
            Compression::SNAPPY => Some("snappy"),
            Compression::GZIP(_) => Some("gzip"),
            Compression::LZO => Some("lzo"),
            Compression::BROTLI(_) => Some("brotli"),
            Compression::LZ4 | Compression::LZ4_RAW => Some("lz4"),
            Compression::ZSTD(_) => Some("zstd"),
        }))
    }

    fn table_size(
        &self,
        batch: usize,
        projection: &Projection,
        gap: u64,
    ) -> Result<Option<TableSize>> {
        let plan = self.plan(batch, projection)?;
        let stored = plan.stored_bytes(|leaf| self.is_located(batch, leaf))?;
        let besides = plan.besides_bytes(gap)?;
        Ok(Some(TableSize { stored: stored as usize, besides, is_compressed: true }))
    }

    fn readahead(&self, batch: usize, row: usize, projection: &Projection) -> Result<Readahead> {
        let plan = self.plan(batch, projection)?;
        let known: Vec<_> = plan.by_value().map(|leaf| self.located.get((batch, leaf?))).collect();
        let range = |column: &Option<Arc<BlobColumn>>| match column.as_ref()?.get(row)? {
            Blob::Range(range) => Some(range),
            Blob::Bytes(_) => None,
        };
        let has_all_blobs = known.iter().all(Option::is_some);
        Ok(Readahead {
            table: coalesced(plan.ranges()?.into_iter(), GAP),
            blobs: known.iter().map(range).collect(),
            has_all_blobs,
        })
    }

    fn load_table(
        &self,
        reader: &RangeReader,
        batch: usize,
        projection: &Projection,
        limit: usize,
        on_size: &dyn Fn(usize),
    ) -> Result<Table> {
        let group = self.runs.get(batch).map_or(0, |run| run.group);
        let start = self.footer.chunk(group, 0).map_or(0, |chunk| chunk_range(chunk).start);
        self.plan(batch, projection)?
            .load(
                reader,
                limit,
                on_size,
                |leaf| self.is_located(batch, leaf),
                |leaf| self.locate(reader, batch, leaf),
            )
            .map_err(|e| e.at_byte(start))
    }

    fn statistics(&self, names: &[String], data_type: &DataType) -> Option<Vec<Statistics>> {
        let groups = statistics::of_column(&self.footer, names, data_type)?;
        let of = |run: &RowRun| groups.get(run.group).cloned().unwrap_or_default();
        Some(self.runs.iter().map(of).collect())
    }

    fn complete(&self, reader: &RangeReader) -> Result<()> {
        let Some(blobs) = Projection::of_blobs(&self.footer.schema) else { return Ok(()) };
        for batch in 0..self.runs.len() {
            for leaf in self.plan(batch, &blobs)?.by_value().flatten() {
                self.locate(reader, batch, leaf)?;
            }
        }
        Ok(())
    }

    fn take_news(&self) -> bool {
        self.located.take_news()
    }

    fn save(&self, out: &mut IndexWriter) {
        sidecar::save(self, out);
    }
}
