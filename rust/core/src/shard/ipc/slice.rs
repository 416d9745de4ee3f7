//! A slice of a record batch: some rows that follow one another, without the others.
//!
//! Rows that are shuffled over more data than fits into memory come each of another record batch. Of
//! rows of tokens, loading it would read about a thousand times what is used.

use std::{ops::Range, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Fields, Schema};

use super::{
    super::{
        Projection, Table, blob::BlobColumn, blob_field::BlobKind, guard, memory_rows::VIEW,
        table::arrays_bytes,
    },
    blob::BlobSpan,
    body::CompactBody,
    layout::{BatchLayout, FieldSpan},
    selection::blob_spans,
    table::Loading,
};
use crate::{Error, Result, memory::LARGE_BUFFER};

/// What is decoded, for messages.
const DECODED: &str = "the record batch";

/// Whether a column of this type has slices: where the values of a row lie follows from its number, or
/// from offsets.
pub(super) fn has_slices(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Null | T::Boolean | T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary => true,
        T::FixedSizeBinary(width) => *width >= 0,
        T::List(f) | T::LargeList(f) | T::Map(f, _) => has_slices(f.data_type()),
        T::FixedSizeList(f, size) => *size >= 0 && has_slices(f.data_type()),
        T::Struct(fields) => fields.iter().all(|field| has_slices(field.data_type())),
        other => other.primitive_width().is_some(),
    }
}

impl Loading<'_> {
    /// Reads and decodes the projected columns of these rows of a record batch of `n_rows`, and where
    /// their blobs lie; `None` where its body is compressed. Each column [`has_slices`].
    ///
    /// Blocks for one request, and one more for each level of lists.
    pub(super) fn load_slice(
        &self,
        projection: &Projection,
        rows: &Range<usize>,
        n_rows: usize,
    ) -> Result<Option<Table>> {
        let Self { reader, index, entry, .. } = *self;
        let layout = entry.with_header(reader, |message| entry.layout(message))?;
        if layout.compression.is_some() {
            return Ok(None);
        }
        if layout.n_rows != n_rows {
            return Err(super::index::changed());
        }
        projection.check_schema(&index.schema)?;
        let fields = Fields::from(projection.small_fields(&index.schema));
        let spans = layout.spans(index.schema.fields())?;
        let starts = projection.small.iter().filter_map(|small| spans.get(small.column));
        let starts: Vec<Start> = starts.map(Start::of).collect();
        let blobs = blob_spans(projection, &layout, index.schema.fields(), &spans)?;
        let mut parts = Parts { layout: &layout, read: Vec::new(), missing: Vec::new() };
        // Each pass finds what the offsets that the one before has read lead to.
        let (columns, blobs) = loop {
            let blobs = blobs.iter().map(|span| match entry.kept_rows(span) {
                Some(kept) => Ok(Some(kept.slice(rows))),
                None => parts.blobs(span, entry.body.start, rows),
            });
            let blobs = blobs.collect::<Result<Vec<Option<BlobColumn>>>>()?;
            let columns = fields.iter().zip(&starts).map(|(field, start)| {
                let column = parts.array(field.data_type(), *start, rows.clone())?;
                let array = |column| guard::contain(DECODED, || Ok(make_array(column)));
                column.map(array).transpose()
            });
            let columns = columns.collect::<Result<Vec<Option<ArrayRef>>>>()?;
            if parts.missing.is_empty() {
                break (columns, blobs);
            }
            self.check_limit(parts.n_bytes())?;
            let missing = std::mem::take(&mut parts.missing).into_iter();
            // The large ones alone, for a batch to take over. All bodies are searched for each buffer.
            let is_large = |range: &Range<u64>| range.end - range.start >= LARGE_BUFFER as u64;
            let (large, small): (Vec<_>, Vec<_>) = missing.partition(is_large);
            for range in large {
                parts.read.push(CompactBody::read_one(reader, entry.body.start, range)?);
            }
            if !small.is_empty() {
                let body = CompactBody::read(reader, entry.body.start, small.into_iter())?;
                parts.read.push(body);
            }
        };
        let columns = columns.into_iter().flatten().collect();
        let columns = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|e| Error::corrupt(e.to_string()))?;
        let n_bytes = parts.n_bytes() as usize + arrays_bytes(columns.schema_ref());
        let blobs = blobs.into_iter().flatten().map(Arc::new).collect();
        let mut table = Table::new(columns, n_bytes, blobs, Vec::new());
        table.buffers = parts.read.into_iter().map(CompactBody::into_memory).collect();
        Ok(Some(table))
    }
}

/// The first node and the first buffer of a field, and its first count of view buffers.
#[derive(Clone, Copy)]
struct Start {
    node: usize,
    buffer: usize,
    variadic: usize,
}

impl Start {
    fn of(span: &FieldSpan) -> Self {
        let FieldSpan { nodes, buffers, variadic } = span;
        Self { node: nodes.start, buffer: buffers.start, variadic: variadic.start }
    }

    /// That of the only child of a field with this many buffers.
    fn child(self, n_buffers: usize) -> Self {
        Self { node: self.node + 1, buffer: self.buffer + n_buffers, ..self }
    }

    fn span(self) -> FieldSpan {
        FieldSpan {
            nodes: self.node..self.node,
            buffers: self.buffer..self.buffer,
            variadic: self.variadic..self.variadic,
        }
    }
}

/// Offsets from the first of them on, and the range that they lead to.
type Offsets = (Vec<i64>, Range<usize>);

/// What was read of a record batch's body, and what is to be read next.
struct Parts<'a> {
    layout: &'a BatchLayout,
    read: Vec<CompactBody>,
    missing: Vec<Range<u64>>,
}

impl Parts<'_> {
    /// Bytes that are read and missing.
    fn n_bytes(&self) -> u64 {
        let missing = self.missing.iter().map(|range| range.end - range.start);
        let read = self.read.iter().map(|body| body.len() as u64);
        read.chain(missing).fold(0, u64::saturating_add)
    }

    /// These elements of an array; `None` where some of their bytes are missing.
    fn array(
        &mut self,
        data_type: &DataType,
        start: Start,
        elements: Range<usize>,
    ) -> Result<Option<ArrayData>> {
        use DataType as T;
        let node = self.layout.node(start.node)?;
        if elements.end > node.length {
            let what = format!("elements {elements:?} of a column of length {}", node.length);
            return Err(Error::corrupt(what));
        }
        let n = elements.len();
        let mut array = ArrayDataBuilder::new(data_type.clone()).len(n).align_buffers(true);
        if *data_type == T::Null {
            return built(array);
        }
        let mut is_whole = true;
        if node.null_count > 0 {
            match self.bits(start.buffer, &elements)? {
                Some(bits) => array = array.nulls(Some(NullBuffer::new(bits))),
                None => is_whole = false,
            }
        }
        let values = start.buffer + 1;
        match data_type {
            T::Boolean => match self.bits(values, &elements)? {
                Some(bits) => array = array.add_buffer(bits.into_inner()),
                None => is_whole = false,
            },
            T::Struct(fields) => {
                for (field, span) in
                    fields.iter().zip(self.layout.child_spans(&start.span(), fields)?)
                {
                    let child =
                        self.array(field.data_type(), Start::of(&span), elements.clone())?;
                    is_whole &= child.is_some();
                    array = child.into_iter().fold(array, ArrayDataBuilder::add_child_data);
                }
            }
            T::FixedSizeList(field, size) => {
                let size = usize::try_from(*size).map_err(|_| overflow())?;
                let from = elements.start.checked_mul(size).ok_or_else(overflow)?;
                let end = elements.end.checked_mul(size).ok_or_else(overflow)?;
                match self.array(field.data_type(), start.child(1), from..end)? {
                    Some(child) => array = array.add_child_data(child),
                    None => is_whole = false,
                }
            }
            T::Utf8 | T::Binary | T::List(_) | T::Map(..) => {
                let offsets = self.small_offsets(values, &elements)?;
                let Some((offsets, inner)) = offsets else { return Ok(None) };
                // Differences of what were 32 bits.
                let offsets: Vec<i32> = offsets.into_iter().map(|offset| offset as i32).collect();
                array = array.add_buffer(Buffer::from(offsets));
                return self.with_inner(array, is_whole, data_type, start, inner);
            }
            T::LargeUtf8 | T::LargeBinary | T::LargeList(_) => {
                let offsets = self.large_offsets(values, &elements)?;
                let Some((offsets, inner)) = offsets else { return Ok(None) };
                array = array.add_buffer(Buffer::from(offsets));
                return self.with_inner(array, is_whole, data_type, start, inner);
            }
            other => {
                let width = match other {
                    T::FixedSizeBinary(width) => usize::try_from(*width).ok(),
                    _ => other.primitive_width(),
                };
                let width =
                    width.ok_or_else(|| Error::internal("columns of this type have no slices"))?;
                match self.elements(values, &elements, width)? {
                    Some(bytes) => array = array.add_buffer(bytes),
                    None => is_whole = false,
                }
            }
        }
        if is_whole { built(array) } else { Ok(None) }
    }

    /// Where these rows of a blob column lie, and which are null; `None` where some bytes are missing.
    fn blobs(
        &mut self,
        span: &BlobSpan,
        body_start: u64,
        rows: &Range<usize>,
    ) -> Result<Option<BlobColumn>> {
        let n_rows = self.layout.node(span.leaf.nodes.start)?.length;
        if rows.end > n_rows {
            let what = format!("rows {rows:?} of a binary column of {n_rows}");
            return Err(Error::corrupt(what));
        }
        let (mut nulls, mut is_whole) = (None, true);
        for field in span.parents.iter().chain([&span.leaf]) {
            if self.layout.node(field.nodes.start)?.null_count > 0 {
                let bits = self.bits(field.buffers.start, rows)?;
                is_whole &= bits.is_some();
                nulls = NullBuffer::union(nulls.as_ref(), bits.map(NullBuffer::new).as_ref());
            }
        }
        let offsets = span.first_buffer() + 1;
        let offsets = match span.kind {
            BlobKind::Offsets { large: true } => self.large_offsets(offsets, rows),
            BlobKind::Offsets { large: false } => self.small_offsets(offsets, rows),
            BlobKind::Views => {
                let views = self.elements(offsets, rows, VIEW)?.filter(|_| is_whole);
                let rows = views
                    .map(|views| span.viewed(self.layout, &views, body_start, rows.clone(), nulls));
                return rows.transpose();
            }
            BlobKind::Dictionary => return Err(Error::internal("a dictionary has no slices")),
        };
        let Some((offsets, inner)) = offsets? else { return Ok(None) };
        let data = span.data(self.layout)?;
        if inner.end as u64 > data.end - data.start {
            let what = format!("blobs at {inner:?} of {} bytes", data.end - data.start);
            return Err(Error::corrupt(what));
        }
        let base = body_start + data.start + inner.start as u64;
        let offsets = offsets.into_iter().map(|offset| base + offset as u64).collect();
        Ok(is_whole.then(|| BlobColumn::in_file(nulls, offsets)))
    }

    /// [`Self::offsets`] of 32 bits.
    fn small_offsets(&mut self, buffer: usize, elements: &Range<usize>) -> Result<Option<Offsets>> {
        self.offsets(buffer, elements, |bytes: &[u8; 4]| i64::from(i32::from_le_bytes(*bytes)))
    }

    /// [`Self::offsets`] of 64 bits.
    fn large_offsets(&mut self, buffer: usize, elements: &Range<usize>) -> Result<Option<Offsets>> {
        self.offsets(buffer, elements, |bytes: &[u8; 8]| i64::from_le_bytes(*bytes))
    }

    /// Adds what the offsets of an array lead to: the elements of its child, or bytes.
    fn with_inner(
        &mut self,
        array: ArrayDataBuilder,
        is_whole: bool,
        data_type: &DataType,
        start: Start,
        inner: Range<usize>,
    ) -> Result<Option<ArrayData>> {
        use DataType as T;
        let array = match data_type {
            T::List(field) | T::LargeList(field) | T::Map(field, _) => {
                let child = self.array(field.data_type(), start.child(2), inner)?;
                child.map(|child| array.add_child_data(child))
            }
            _ => {
                let bytes = self.elements(start.buffer + 2, &inner, 1)?;
                bytes.map(|bytes| array.add_buffer(bytes))
            }
        };
        array.filter(|_| is_whole).map_or(Ok(None), built)
    }

    /// The offsets of these elements from the first of them on, and the range that they lead to.
    fn offsets<const N: usize>(
        &mut self,
        buffer: usize,
        elements: &Range<usize>,
        offset: impl Fn(&[u8; N]) -> i64,
    ) -> Result<Option<Offsets>> {
        if elements.is_empty() {
            return Ok(Some((vec![0], 0..0))); // the one offset may be left out
        }
        let bytes = self.elements(buffer, &(elements.start..elements.end + 1), N)?;
        let Some(bytes) = bytes else { return Ok(None) };
        let offsets: Vec<i64> = bytes.as_chunks().0.iter().map(offset).collect();
        let (first, last) = offsets.first().zip(offsets.last()).ok_or_else(overflow)?;
        let inner = usize::try_from(*first).ok().zip(usize::try_from(*last).ok());
        let inner = inner.filter(|(first, last)| first <= last && offsets.is_sorted());
        let Some((from, end)) = inner else {
            let what = format!("the offsets of elements {elements:?} decrease or are negative");
            return Err(Error::corrupt(what));
        };
        Ok(Some((offsets.iter().map(|offset| offset - first).collect(), from..end)))
    }

    /// The bits of these elements.
    fn bits(&mut self, buffer: usize, elements: &Range<usize>) -> Result<Option<BooleanBuffer>> {
        let bytes = self.elements(buffer, &(elements.start / 8..elements.end.div_ceil(8)), 1)?;
        let bits = |bytes| BooleanBuffer::new(bytes, elements.start % 8, elements.len());
        // From the first bit of a byte on.
        Ok(bytes.map(|bytes| BooleanBuffer::new(bits(bytes).sliced(), 0, elements.len())))
    }

    /// The bytes of these elements of a buffer, of `width` bytes each.
    fn elements(
        &mut self,
        buffer: usize,
        elements: &Range<usize>,
        width: usize,
    ) -> Result<Option<Buffer>> {
        if elements.is_empty() || width == 0 {
            return Ok(Some(Buffer::default()));
        }
        let all = self.layout.buffer(buffer)?;
        let at = |element: usize| {
            let n_bytes = (element as u64).checked_mul(width as u64)?;
            all.start.checked_add(n_bytes).filter(|at| *at <= all.end)
        };
        let Some((from, end)) = at(elements.start).zip(at(elements.end)) else {
            let n_bytes = all.end - all.start;
            let what = format!("elements {elements:?} in a buffer of {n_bytes} bytes");
            return Err(Error::corrupt(what));
        };
        let found = self.read.iter().find_map(|body| body.buffer(&(from..end)));
        if found.is_none() {
            self.missing.push(from..end);
        }
        Ok(found)
    }
}

/// The array, once all of it is there.
fn built(array: ArrayDataBuilder) -> Result<Option<ArrayData>> {
    guard::contain(DECODED, || {
        array
            .build()
            .map(Some)
            .map_err(|e| Error::corrupt(format!("the record batch does not decode: {e}")))
    })
}

fn overflow() -> Error {
    Error::corrupt("a list is longer than the address space")
}
