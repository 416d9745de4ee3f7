//! Reading a projection of one record batch.

use std::{ops::Range, sync::Arc};

use arrow_schema::{Fields, Schema, SchemaRef};

use super::{
    super::{
        Projection, Table, TableSize,
        blob::{Blob, BlobColumn},
        blob_field::BlobKind,
        gathered::Gathered,
        ranges::coalesced,
        table::{Readahead, RowSize, arrays_bytes, dictionary_bytes},
    },
    blob::BlobSpan,
    body::{self, CompactBody},
    dictionaries::{self, Dictionaries},
    framing,
    index::{BatchEntry, MessageIndex},
    layout::BatchLayout,
    selection::{Selection, blob_spans},
};
use crate::{
    Error, Result,
    store::{GAP, RangeReader},
};

/// The size of a table; `None` where the header is not kept.
pub(super) fn size(
    index: &MessageIndex,
    entry: &BatchEntry,
    projection: &Projection,
    gap: u64,
) -> Result<Option<TableSize>> {
    let Some(header) = &entry.header else { return Ok(None) };
    let layout = entry.layout(&framing::parse_message(header)?)?;
    let plan = ReadPlan::new(&layout, &index.schema, entry, projection)?;
    let fields = plan.schema.fields();
    let shared = dictionaries::stored_bytes(index, fields, entry.span.number);
    let stored = plan.n_bytes().saturating_add(shared) as usize;
    let scratch = Gathered::new(plan.ranges(), gap).scratch_bytes() as usize;
    let besides = plan.arrays_bytes().saturating_add(scratch);
    Ok(Some(TableSize { stored, besides, is_compressed: layout.compression.is_some() }))
}

/// The size of a row that is read alone; `None` where the header is not kept.
pub(super) fn row_size(
    index: &MessageIndex,
    entry: &BatchEntry,
    projection: &Projection,
    gap: u64,
) -> Result<Option<RowSize>> {
    let Some(header) = &entry.header else { return Ok(None) };
    let layout = entry.layout(&framing::parse_message(header)?)?;
    let plan = ReadPlan::new(&layout, &index.schema, entry, projection)?;
    let n_rows = layout.n_rows.max(1) as u64;
    // In the middle of the record batch, where each buffer has as much for a row.
    let of_row = |buffer: Range<u64>| {
        let n_bytes = buffer.end - buffer.start;
        let own = n_bytes.div_ceil(n_rows);
        let start = buffer.start + (n_bytes - own) / 2;
        start..start + own
    };
    let gathered = Gathered::new(plan.ranges().map(of_row), gap);
    let read = gathered.requests().map(|range| range.end - range.start).sum::<u64>() as usize;
    let values = body::memory_bytes(gathered.extents());
    let memory = values.saturating_add(gathered.scratch_bytes()) as usize;
    let memory = memory.saturating_add(plan.arrays_bytes());
    Ok(Some(RowSize { n_requests: gathered.requests().count(), read, memory }))
}

/// What can be read ahead: nothing where the header is not kept, or the body is compressed.
pub(super) fn readahead(
    index: &MessageIndex,
    entry: &BatchEntry,
    projection: &Projection,
    row: usize,
) -> Result<Readahead> {
    let Some(header) = &entry.header else { return Ok(Readahead::default()) };
    let layout = entry.layout(&framing::parse_message(header)?)?;
    if layout.compression.is_some() {
        return Ok(Readahead::default());
    }
    let plan = ReadPlan::new(&layout, &index.schema, entry, projection)?;
    let start = entry.body.start;
    let table = coalesced(plan.ranges(), GAP).into_iter();
    let table = table.map(|range| start + range.start..start + range.end).collect();
    let kept: Vec<_> = plan.blobs.iter().map(|blob| entry.kept_rows(blob)).collect();
    let range = |rows: &Option<Arc<BlobColumn>>| match rows.as_ref()?.get(row)? {
        Blob::Range(range) => Some(range),
        Blob::Bytes(_) => None,
    };
    let has_all_blobs = kept.iter().all(Option::is_some);
    Ok(Readahead { table, blobs: kept.iter().map(range).collect(), has_all_blobs })
}

/// A record batch whose table is to be loaded.
pub(super) struct Loading<'a> {
    pub(super) reader: &'a RangeReader,
    pub(super) index: &'a MessageIndex,
    pub(super) entry: &'a BatchEntry,
    /// The most bytes that the table may take.
    pub(super) limit: usize,
    /// Called with the table's size before anything is decompressed.
    pub(super) on_size: &'a dyn Fn(usize),
}

impl Loading<'_> {
    /// Reads and decodes the projected columns, with the dictionaries that `dictionaries` finds.
    pub(super) fn load(
        &self,
        projection: &Projection,
        dictionaries: impl FnOnce(&Fields) -> Result<Dictionaries>,
    ) -> Result<Table> {
        let Self { reader, index, entry, .. } = *self;
        let body_start = entry.body.start;
        let layout = entry.with_header(reader, |message| entry.layout(message))?;
        let plan = ReadPlan::new(&layout, &index.schema, entry, projection)?;
        let mut dictionaries = dictionaries(plan.schema.fields())?;
        dictionaries::fill_empty(&mut dictionaries, plan.schema.fields());
        let shared: usize = dictionaries.values().map(|values| dictionary_bytes(values)).sum();
        self.check_limit(plan.n_bytes())?;
        let body = CompactBody::read(reader, body_start, plan.ranges())?;
        let decompressed = body.decompressed(&layout, &plan.selection)?;
        self.check_limit(decompressed.bytes.saturating_add(body.len() as u64))?;
        let n_bytes = (decompressed.bytes as usize).saturating_add(plan.arrays_bytes());
        (self.on_size)(n_bytes.saturating_add(body.len()).saturating_add(shared));
        let decoded =
            body.decode(&layout, &plan.selection, Arc::clone(&plan.schema), &dictionaries)?;
        let mut own_bytes = 0;
        let mut own = |column: BlobColumn| {
            own_bytes += column.n_bytes();
            Arc::new(column)
        };
        let mut in_memory = decoded.columns().iter().skip(plan.n_small);
        let column = |span: &BlobSpan| {
            if layout.compression.is_some() || span.is_decoded() {
                let column = in_memory.next();
                let column = column.ok_or_else(|| Error::internal("a blob was not decoded"))?;
                return BlobColumn::in_memory(column).map(&mut own);
            }
            match entry.kept_rows(span) {
                Some(kept) => Ok(kept),
                None => span.rows(&layout, &body, body_start).map(&mut own),
            }
        };
        let blobs = plan.blobs.iter().map(column).collect::<Result<Vec<Arc<BlobColumn>>>>()?;
        let small: Vec<usize> = (0..plan.n_small).collect();
        let columns = decoded.project(&small).map_err(|e| Error::corrupt(e.to_string()))?;
        let kept = if decompressed.keeps_body { body.len() } else { 0 };
        let n_bytes = kept + n_bytes + own_bytes + shared;
        Ok(Table::new(columns, n_bytes, blobs, dictionaries.into_values().collect()))
    }

    pub(super) fn check_limit(&self, n_bytes: u64) -> Result<()> {
        let limit = self.limit;
        if n_bytes <= limit as u64 {
            return Ok(());
        }
        Err(Error::limit(format!(
            "the columns of one record batch take {n_bytes} bytes, more than the memory budget of \
             {limit} (of a compressed one, its bytes before and after); raise memory_budget, ask \
             for fewer columns, or write the shard with smaller record batches"
        )))
    }
}

/// What is read of a record batch for a projection.
struct ReadPlan {
    /// What is decoded: the small columns, and after them the blobs of a compressed body.
    selection: Selection,
    schema: SchemaRef,
    n_small: usize,
    blobs: Vec<BlobSpan>,
    /// Validity and offsets of blobs whose rows the shard's index does not have.
    index_ranges: Vec<Range<u64>>,
}

impl ReadPlan {
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
        let mut selection = Selection::of_small(projection, layout, schema.fields(), &spans)?;
        let blobs = blob_spans(projection, layout, schema.fields(), &spans)?;
        let mut index_ranges = Vec::new();
        for blob in &blobs {
            if entry.kept_rows(blob).is_some() {
                continue;
            }
            if layout.compression.is_none() && !blob.is_decoded() {
                index_ranges.extend(blob.index_ranges(layout)?);
                continue;
            }
            // Compressed rows and those of dictionaries have no ranges in the file: the column is
            // decoded like a small one.
            for parent in &blob.parents {
                selection.add_struct(layout, parent)?;
            }
            selection.add_span(layout, &blob.leaf)?;
        }
        fields.extend(projection.blob_fields(schema, |blob| {
            layout.compression.is_some() || blob.kind == BlobKind::Dictionary
        }));
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { selection, schema, n_small, blobs, index_ranges })
    }

    /// The ranges of the body that are read.
    fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.selection.buffers.iter().chain(&self.index_ranges).cloned()
    }

    /// Bytes of the arrays that are decoded.
    fn arrays_bytes(&self) -> usize {
        arrays_bytes(&self.schema)
    }

    fn n_bytes(&self) -> u64 {
        self.ranges().map(|range| range.end - range.start).sum()
    }
}
