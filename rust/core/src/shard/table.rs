//! The small columns of one record batch, and where its large values lie.

use std::{ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt64Array, cast::AsArray};
use arrow_ipc::Message;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::{dictionary::garbage_collect_any_dictionary, take::take_record_batch};

use super::{
    Shard,
    blob::{Blob, BlobColumn, BlobRun, BlobSpan},
    body::{self, CompactBody, Selection},
    dictionaries::{self, Dictionaries},
    framing, guard,
    index::{BatchEntry, MessageIndex},
    layout::BatchLayout,
    projection::Projection,
};
use crate::{Result, memory::Permit};

/// What one record batch holds of the projected columns. Immutable; meant to be kept and shared.
#[derive(Clone, Debug)]
pub struct Table {
    /// The small columns, decoded and validated, in the projection's order.
    pub columns: RecordBatch,
    /// Memory that this holds, in bytes. What tables share of large dictionaries counts for each.
    pub n_bytes: usize,
    blobs: Vec<Arc<BlobColumn>>,
    /// What the columns' dictionaries are found by, for as long as a table needs them.
    _dictionaries: Dictionaries,
    /// For these bytes, as long as anything holds on to them. The last field: it is dropped when
    /// the others have been.
    pub(crate) permit: Option<Arc<Permit>>,
}

/// What the header of a record batch tells of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Bytes that are read.
    pub stored: usize,
    /// Whether they are compressed: only reading tells what they grow to.
    pub is_compressed: bool,
}

impl Table {
    /// The bytes of one row of the blob column with this index in the projection; `None` where
    /// they (or the struct around them) are null, and for a row or column that does not exist.
    pub fn blob(&self, blob: usize, row: usize) -> Option<Blob> {
        self.blobs.get(blob)?.get(row)
    }

    /// The run that this row of a blob column is read with; `None` where its rows are not small.
    pub fn blob_run(&self, blob: usize, row: usize) -> Option<BlobRun> {
        self.blobs.get(blob)?.run(row)
    }

    /// The run of this number of a blob column; `None` where there is none.
    pub fn numbered_run(&self, blob: usize, number: usize) -> Option<BlobRun> {
        self.blobs.get(blob)?.numbered_run(number)
    }

    /// The number of rows.
    pub fn n_rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// These rows of the columns, copied, so that they keep nothing of this table. They have no
    /// blobs.
    pub(crate) fn rows(&self, rows: &[u64]) -> Result<Self> {
        let columns = if self.columns.num_columns() == 0 {
            self.columns.slice(0, rows.len().min(self.n_rows()))
        } else {
            guard::contain("a row", || {
                take_record_batch(&self.columns, &UInt64Array::from(rows.to_vec()))
                    .map_err(|e| crate::Error::corrupt(e.to_string()))
            })?
        };
        let columns = own_dictionaries(&columns)?;
        // Small dictionaries are shared, not copied.
        let own = columns.columns().iter().filter(|column| {
            column.as_any_dictionary_opt().is_none() || has_large_dictionary(column)
        });
        // With the arrays themselves: of a row of many small columns they are most of it.
        let n_bytes = own.map(Array::get_array_memory_size).sum();
        let kept = Dictionaries::new();
        Ok(Self { columns, n_bytes, blobs: Vec::new(), _dictionaries: kept, permit: None })
    }

    /// What [`Table::load`] will take; `None` where only reading tells.
    pub(super) fn bytes_known(
        index: &MessageIndex,
        entry: &BatchEntry,
        projection: &Projection,
    ) -> Result<Option<TableSize>> {
        let Some(header) = &entry.header else { return Ok(None) };
        let layout = entry.parse(&framing::parse_message(header)?)?;
        let wanted = Wanted::new(&layout, &index.schema, entry, projection)?;
        let stored = wanted.ranges().map(|range| range.end - range.start).sum::<u64>();
        let fields = wanted.schema.fields();
        let shared = dictionaries::stored(index, fields, entry.frame.message);
        let stored = stored.saturating_add(shared) as usize;
        Ok(Some(TableSize { stored, is_compressed: layout.compression.is_some() }))
    }

    /// What can be asked for before the table is there; nothing where its header is not kept, or its
    /// body is compressed.
    pub(super) fn ahead(
        index: &MessageIndex,
        entry: &BatchEntry,
        projection: &Projection,
        row: usize,
    ) -> Result<Ahead> {
        let Some(header) = &entry.header else { return Ok(Ahead::default()) };
        let layout = entry.parse(&framing::parse_message(header)?)?;
        if layout.compression.is_some() {
            return Ok(Ahead::default());
        }
        let wanted = Wanted::new(&layout, &index.schema, entry, projection)?;
        let start = entry.body.start;
        let runs = body::merged(wanted.ranges()).into_iter();
        let runs = runs.map(|run| start + run.start..start + run.end).collect();
        let known: Vec<_> = wanted.blobs.iter().map(|blob| entry.known_rows(blob)).collect();
        let range = |rows: &Option<Arc<BlobColumn>>| match rows.as_ref()?.get(row)? {
            Blob::Range(range) => Some(range),
            Blob::Bytes(_) => None,
        };
        let all_known = known.iter().all(Option::is_some);
        Ok(Ahead { runs, blobs: known.iter().map(range).collect(), all_known })
    }

    /// Reads and decodes the projected columns of one record batch. `takes` is told what that takes,
    /// once it is known and before anything is decompressed.
    pub(super) fn load(
        shard: &Shard,
        entry: &BatchEntry,
        projection: &Projection,
        limit: usize,
        takes: &dyn Fn(usize),
    ) -> Result<Self> {
        let (source, schema) = (&shard.source, &shard.index.schema);
        let body_start = entry.body.start;
        let layout = entry.with_header(source, |message| entry.parse(message))?;
        let wanted = Wanted::new(&layout, schema, entry, projection)?;
        let fields = wanted.schema.fields();
        let values = shard.dictionaries.needed(source, &shard.index, fields, entry, limit)?;
        let shared: usize = values.values().map(|values| dictionaries::n_bytes(values)).sum();
        check_limit(wanted.ranges().map(|range| range.end - range.start).sum(), limit)?;
        let body = CompactBody::read(source, body_start, wanted.ranges())?;
        let grown = body.decompressed(&layout, &wanted.selection)?;
        check_limit(grown.bytes.saturating_add(body.len() as u64), limit)?;
        takes((grown.bytes as usize).saturating_add(body.len()).saturating_add(shared));
        let decoded =
            body.decode(&layout, &wanted.selection, Arc::clone(&wanted.schema), &values)?;
        let mut own_bytes = 0;
        let mut own = |column: BlobColumn| {
            own_bytes += column.n_bytes();
            Arc::new(column)
        };
        let blobs: Vec<Arc<BlobColumn>> = if layout.compression.is_some() {
            let columns = decoded.columns().iter().skip(wanted.n_small);
            columns
                .map(|column| BlobColumn::in_memory(column).map(&mut own))
                .collect::<Result<_>>()?
        } else {
            let column = |span| match entry.known_rows(span) {
                Some(known) => Ok(known),
                None => BlobColumn::in_file(span, &layout, &body, body_start).map(&mut own),
            };
            wanted.blobs.iter().map(column).collect::<Result<_>>()?
        };
        let small: Vec<usize> = (0..wanted.n_small).collect();
        let columns = decoded.project(&small).map_err(|e| crate::Error::corrupt(e.to_string()))?;
        let kept = if grown.keeps_body { body.len() } else { 0 };
        let n_bytes = kept + grown.bytes as usize + own_bytes + shared;
        Ok(Self { columns, n_bytes, blobs, _dictionaries: values, permit: None })
    }
}

fn has_large_dictionary(column: &ArrayRef) -> bool {
    let values =
        column.as_any_dictionary_opt().map(|column| dictionaries::n_bytes(column.values()));
    values.is_some_and(|n_bytes| n_bytes >= dictionaries::LARGE)
}

/// The same columns, which keep of large dictionaries only the values that they have.
fn own_dictionaries(batch: &RecordBatch) -> Result<RecordBatch> {
    if !batch.columns().iter().any(has_large_dictionary) {
        return Ok(batch.clone());
    }
    guard::contain("a dictionary", || {
        let own = |column: &ArrayRef| match column.as_any_dictionary_opt() {
            Some(dictionary) if has_large_dictionary(column) => {
                garbage_collect_any_dictionary(dictionary)
            }
            _ => Ok(Arc::clone(column)),
        };
        let columns = batch.columns().iter().map(own).collect::<Result<_, _>>();
        let columns = columns.and_then(|columns| RecordBatch::try_new(batch.schema(), columns));
        columns.map_err(|e| crate::Error::corrupt(e.to_string()))
    })
}

/// What will be asked for of a record batch and one of its rows, in the file.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The table's.
    pub(super) runs: Vec<Range<u64>>,
    /// Those of the row's blobs that are not null, and whose places are known.
    pub(super) blobs: Vec<Option<Range<u64>>>,
    /// Whether no blob's place is left for the table to tell.
    pub(super) all_known: bool,
}

/// What is read of a record batch for a projection.
struct Wanted {
    /// What is decoded: the small columns, and after them the blobs of a compressed body.
    selection: Selection,
    schema: SchemaRef,
    n_small: usize,
    blobs: Vec<BlobSpan>,
    /// Validity and offsets of blobs whose rows the shard's index does not have.
    index_ranges: Vec<Range<u64>>,
}

impl Wanted {
    fn new(
        layout: &BatchLayout,
        schema: &SchemaRef,
        entry: &BatchEntry,
        projection: &Projection,
    ) -> Result<Self> {
        projection.check_schema(schema)?;
        let spans = layout.spans(schema.fields())?;
        let mut fields = projection.small_fields(schema);
        let n_small = fields.len();
        let mut selection = Selection::default();
        projection.select_small(layout, schema.fields(), &spans, &mut selection)?;
        let blobs = projection.blob_spans(layout, schema.fields(), &spans)?;
        let mut index_ranges = Vec::new();
        for blob in &blobs {
            if entry.known_rows(blob).is_some() {
                continue;
            }
            if layout.compression.is_none() {
                index_ranges.extend(blob.index_ranges(layout)?);
                continue;
            }
            // Compressed bytes have no rows in the file: decode the column like a small one.
            if let Some(parent) = &blob.parent {
                selection.add_struct(layout, parent)?;
            }
            selection.add_span(layout, &blob.leaf)?;
        }
        if layout.compression.is_some() {
            fields.extend(projection.blob_fields(schema));
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { selection, schema, n_small, blobs, index_ranges })
    }

    /// In the body.
    fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.selection.ranges().chain(self.index_ranges.iter().cloned())
    }
}

fn check_limit(n_bytes: u64, limit: usize) -> Result<()> {
    if n_bytes <= limit as u64 {
        return Ok(());
    }
    Err(crate::Error::limit(format!(
        "the columns of one record batch take {n_bytes} bytes, more than the memory budget of \
         {limit} (of a compressed one, its bytes before and after); raise memory_budget, ask for \
         fewer columns, or write the shard with smaller record batches"
    )))
}

impl BatchEntry {
    /// A blob column's rows, where the shard's index has them.
    fn known_rows(&self, span: &BlobSpan) -> Option<Arc<BlobColumn>> {
        let first = span.leaf.buffers.start;
        self.rows.iter().find(|(buffer, _)| *buffer == first).map(|(_, rows)| Arc::clone(rows))
    }

    /// The checked header.
    fn parse(&self, message: &Message<'_>) -> Result<BatchLayout> {
        let batch = message.header_as_record_batch().ok_or_else(super::index::changed)?;
        BatchLayout::new(&batch, self.body.end - self.body.start, message.version())
    }
}
