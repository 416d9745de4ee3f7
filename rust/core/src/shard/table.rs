//! The small columns of one record batch, and where its large values lie.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, UInt64Array, cast::AsArray};
use arrow_schema::Schema;
use arrow_select::take::take_record_batch;

use super::{
    blob::{Blob, BlobColumn, BlobSpan},
    body::{CompactBody, Selection},
    dictionaries::DictionaryCache,
    guard,
    index::{BatchEntry, MessageIndex},
    layout::BatchLayout,
    projection::Projection,
    source::Source,
};
use crate::Result;

/// What one record batch holds of the projected columns. Immutable; meant to be kept and shared.
#[derive(Debug)]
pub struct Table {
    /// The small columns, decoded and validated, in the projection's order.
    pub columns: RecordBatch,
    /// Memory that this holds, in bytes; dictionaries, shared by tables, are not counted.
    pub n_bytes: usize,
    blobs: Vec<Arc<BlobColumn>>,
}

impl Table {
    /// The bytes of one row of the blob column with this index in the projection; `None` where
    /// they (or the struct around them) are null, and for a row or column that does not exist.
    pub fn blob(&self, blob: usize, row: usize) -> Option<Blob> {
        self.blobs.get(blob)?.get(row)
    }

    /// The number of rows.
    pub fn n_rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// One row of the columns, copied, so that it keeps nothing of this table. It has no blobs.
    pub(crate) fn row(&self, row: usize) -> Result<Self> {
        let columns = if self.columns.num_columns() == 0 {
            self.columns.slice(row.min(self.n_rows()), 1.min(self.n_rows()))
        } else {
            guard::contain("a row", || {
                take_record_batch(&self.columns, &UInt64Array::from(vec![row as u64]))
                    .map_err(|e| crate::Error::corrupt(e.to_string()))
            })?
        };
        // Dictionaries are shared, not copied.
        let own =
            columns.columns().iter().filter(|column| column.as_any_dictionary_opt().is_none());
        let n_bytes = own.map(Array::get_buffer_memory_size).sum();
        Ok(Self { columns, n_bytes, blobs: Vec::new() })
    }

    /// Reads and decodes the projected columns of one record batch.
    pub(super) fn load(
        source: &Source,
        index: &MessageIndex,
        dictionaries: &DictionaryCache,
        entry: &BatchEntry,
        projection: &Projection,
    ) -> Result<Self> {
        let (schema, body_start) = (&index.schema, entry.body.start);
        projection.check_schema(schema)?;
        let layout = entry.layout(source)?;
        let spans = layout.spans(schema.fields())?;
        let mut fields = projection.small_fields(schema);
        let n_small = fields.len();
        let mut selection = Selection::default();
        projection.select_small(&layout, schema.fields(), &spans, &mut selection)?;
        let blobs = projection.blob_spans(&layout, schema.fields(), &spans)?;
        let mut index_ranges = Vec::new();
        for blob in &blobs {
            if entry.known_rows(blob).is_some() {
                continue;
            }
            if layout.compression.is_none() {
                index_ranges.extend(blob.index_ranges(&layout)?);
                continue;
            }
            // Compressed bytes have no rows in the file: decode the column like a small one.
            if let Some(parent) = &blob.parent {
                selection.add_struct(&layout, parent)?;
            }
            selection.add_field(&layout, &blob.leaf)?;
        }
        if layout.compression.is_some() {
            fields.extend(projection.blob_fields(schema));
        }
        let decoded_schema = Arc::new(Schema::new(fields));
        let values = dictionaries.needed(source, index, decoded_schema.fields(), entry)?;
        let ranges = selection.ranges().chain(index_ranges);
        let body = CompactBody::read(source, body_start, ranges)?;
        let (decoded, decompressed) = body.decode(&layout, &selection, decoded_schema, &values)?;
        let mut own_bytes = 0;
        let mut own = |column: BlobColumn| {
            own_bytes += column.n_bytes();
            Arc::new(column)
        };
        let blobs: Vec<Arc<BlobColumn>> = if layout.compression.is_some() {
            let columns = decoded.columns().iter().skip(n_small);
            columns.map(|column| BlobColumn::in_memory(column).map(&mut own)).collect::<Result<_>>()?
        } else {
            let mut column = |span| match entry.known_rows(span) {
                Some(known) => Ok(known),
                None => BlobColumn::in_file(span, &layout, &body, body_start).map(&mut own),
            };
            blobs.iter().map(&mut column).collect::<Result<_>>()?
        };
        let small: Vec<usize> = (0..n_small).collect();
        let columns = decoded.project(&small).map_err(|e| crate::Error::corrupt(e.to_string()))?;
        let n_bytes = body.len() + decompressed + own_bytes;
        Ok(Self { columns, n_bytes, blobs })
    }
}

impl BatchEntry {
    /// A blob column's rows, where the shard's index has them.
    fn known_rows(&self, span: &BlobSpan) -> Option<Arc<BlobColumn>> {
        let first = span.leaf.buffers.start;
        self.rows.iter().find(|(buffer, _)| *buffer == first).map(|(_, rows)| Arc::clone(rows))
    }

    /// The checked header: from memory, or read again.
    pub(super) fn layout(&self, source: &Source) -> Result<BatchLayout> {
        self.with_header(source, |message| {
            let batch = message.header_as_record_batch();
            BatchLayout::new(
                &batch.ok_or_else(super::index::changed)?,
                self.body.end - self.body.start,
                message.version(),
            )
        })
    }
}
