//! Part of a record batch's body, read and decoded as a record batch of its own.
//!
//! The buffers of the wanted columns are read into a compact body, a record batch header is written
//! that describes it, and `arrow-ipc` decodes that: all types, compression and validation are its
//! own, yet only the wanted bytes were read.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, cast::AsArray};
use arrow_buffer::Buffer;
use arrow_ipc::{
    BodyCompressionArgs, BodyCompressionMethod, CompressionType, FieldNode, RecordBatchArgs,
    reader::RecordBatchDecoder,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use flatbuffers::FlatBufferBuilder;

use super::{
    decompress::{self, Plain},
    guard,
    layout::{BatchLayout, FieldSpan, Node, Views},
    source::Source,
};
use crate::{Error, Result, memory::Recycler};

/// Ranges this close together are read as one: a request costs more than these bytes.
const GAP: u64 = 4096;

/// The alignment of each run in the compact body, relative to where it lay in the whole one.
const ALIGN: u64 = 64;

/// The most that the compressed columns of one record batch may grow to.
const MAX_DECOMPRESSED: u64 = 1 << 30;

/// The most text that the string views of one record batch may refer to, all together. Each view is
/// checked to be UTF-8 by itself, so views that share their text cost time without needing bytes.
const MAX_VIEWED: u64 = 1 << 30;

/// Bytes of a view; the first four are the length of its text.
const VIEW_BYTES: i32 = 16;

/// The columns to decode, as indices into a [`BatchLayout`].
#[derive(Debug, Default)]
pub(super) struct Selection {
    nodes: Vec<Node>,
    buffers: Vec<Range<u64>>,
    variadic: Vec<i64>,
    string_views: Vec<Views>,
}

impl Selection {
    /// Adds a whole field.
    pub(super) fn add_field(
        &mut self,
        layout: &BatchLayout,
        field: &Field,
        span: &FieldSpan,
    ) -> Result<()> {
        self.string_views.extend(layout.string_views(field, span)?);
        self.add_span(layout, span)
    }

    /// Adds a field that holds no views.
    pub(super) fn add_span(&mut self, layout: &BatchLayout, span: &FieldSpan) -> Result<()> {
        for index in span.nodes.clone() {
            self.nodes.push(layout.node(index)?);
        }
        for index in span.buffers.clone() {
            self.buffers.push(layout.buffer(index)?);
        }
        let counts = layout.variadic.get(span.variadic.clone()).unwrap_or_default();
        self.variadic.extend(counts.iter().map(|n| *n as i64));
        Ok(())
    }

    /// Adds a struct's own node and validity; its children follow by [`Selection::add_field`].
    pub(super) fn add_struct(&mut self, layout: &BatchLayout, span: &FieldSpan) -> Result<()> {
        self.nodes.push(layout.node(span.nodes.start)?);
        self.buffers.push(layout.buffer(span.buffers.start)?);
        Ok(())
    }

    /// The ranges of the body that this needs.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.buffers.iter().cloned()
    }
}

/// The ranges in their order, with those that lie close together as one.
pub(super) fn merged(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.filter(|r| !r.is_empty()).collect();
    sorted.sort_unstable_by_key(|r| (r.start, r.end));
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match runs.last_mut() {
            Some(run) if range.start <= run.end.saturating_add(GAP) => {
                run.end = run.end.max(range.end);
            }
            _ => runs.push(range),
        }
    }
    runs
}

/// Ranges of a body, merged into runs and placed one after another.
#[derive(Debug)]
pub(super) struct CompactBody {
    runs: Vec<Run>,
    data: Buffer,
}

/// What decompressing comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grown {
    /// Bytes beside the body.
    pub(super) bytes: u64,
    /// Whether the columns go on using the body.
    pub(super) keeps_body: bool,
}

#[derive(Debug)]
struct Run {
    body: Range<u64>,
    at: u64,
}

impl CompactBody {
    /// Reads the ranges, relative to the body that begins at `body_start` in the file and was
    /// checked to lie inside it.
    pub(super) fn read(
        source: &Source,
        body_start: u64,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<Self> {
        let read =
            |run: Range<u64>, into: &mut [u8]| source.read_exact_at(body_start + run.start, into);
        Self::read_with(&source.files().buffers, ranges, read)
    }

    /// As [`CompactBody::read`], into memory of `bodies`, each run by `read`, which gets its place
    /// in the body.
    pub(super) fn read_with(
        bodies: &Arc<Recycler>,
        ranges: impl Iterator<Item = Range<u64>>,
        mut read: impl FnMut(Range<u64>, &mut [u8]) -> Result<()>,
    ) -> Result<Self> {
        let mut runs: Vec<Run> =
            merged(ranges).into_iter().map(|body| Run { body, at: 0 }).collect();
        let mut len = 0_u64;
        for run in &mut runs {
            run.at = len.next_multiple_of(ALIGN) + run.body.start % ALIGN;
            len = run.at + (run.body.end - run.body.start);
        }
        // Bounded by the body, hence by the file, except for the alignment of each run.
        let mut data = bodies.take(len as usize, None)?;
        for run in &runs {
            let end = run.at + (run.body.end - run.body.start);
            let into = data.as_bytes_mut().get_mut(run.at as usize..end as usize);
            let into = into.ok_or_else(|| Error::corrupt("a run lies outside the compact body"))?;
            read(run.body.clone(), into)?;
        }
        Ok(Self { runs, data: Bytes::from_owner(data).into() })
    }

    /// Its size in memory.
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    /// Where a range of the body begins here.
    fn place(&self, range: &Range<u64>) -> Result<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        let after = self.runs.partition_point(|run| run.body.start <= range.start);
        let run = after.checked_sub(1).and_then(|i| self.runs.get(i));
        let run = run.filter(|run| range.end <= run.body.end);
        run.map(|run| run.at + (range.start - run.body.start))
            .ok_or_else(|| Error::corrupt("a buffer that was not planned for"))
    }

    /// The bytes of a range of the body.
    pub(super) fn bytes(&self, range: &Range<u64>) -> Result<&[u8]> {
        let at = self.place(range)? as usize;
        let bytes = self.data.get(at..).and_then(|b| b.get(..(range.end - range.start) as usize));
        bytes.ok_or_else(|| Error::corrupt("a buffer outside the compact body"))
    }

    /// What decompressing the selected columns will add: at most 1 GiB.
    pub(super) fn decompressed(
        &self,
        layout: &BatchLayout,
        selection: &Selection,
    ) -> Result<Grown> {
        let as_it_is = Grown { bytes: 0, keeps_body: true };
        layout.compression.map_or(Ok(as_it_is), |codec| self.check_decompressed(codec, selection))
    }

    /// Refuses string views that together refer to more text than [`MAX_VIEWED`].
    fn check_views(&self, layout: &BatchLayout, selection: &Selection) -> Result<()> {
        let mut total = 0_u64;
        for Views { n, buffer } in &selection.string_views {
            // Fixed-size values are decoded as they lie, compressed or not.
            let one = Selection {
                nodes: vec![Node { length: *n, null_count: 0 }],
                buffers: vec![0..0, buffer.clone()],
                ..Selection::default()
            };
            let field = Field::new("views", DataType::FixedSizeBinary(VIEW_BYTES), false);
            let schema = Arc::new(Schema::new(vec![field]));
            let views = self.decode_rows(*n, layout, &one, schema, &HashMap::new())?;
            let views = views.columns().first().and_then(|c| c.as_fixed_size_binary_opt());
            let lengths = views.into_iter().flat_map(|views| {
                let bytes = views.value_data().chunks_exact(VIEW_BYTES as usize);
                bytes.filter_map(|view| Some(u32::from_le_bytes(*view.first_chunk()?)))
            });
            total = total.saturating_add(lengths.map(u64::from).sum());
        }
        if total > MAX_VIEWED {
            return Err(Error::limit(format!(
                "the string views of a record batch refer to {total} bytes of text, where \
                 {MAX_VIEWED} are the most; write the shard with smaller record batches, or leave \
                 the column out"
            )));
        }
        Ok(())
    }

    /// Decodes the selected columns, which `schema` names in the same order.
    ///
    /// What compressed buffers claim must have been checked, by [`CompactBody::decompressed`].
    ///
    /// # Errors
    ///
    /// `Corrupt`; `Limit` where string views refer to more than 1 GiB of text.
    pub(super) fn decode(
        &self,
        layout: &BatchLayout,
        selection: &Selection,
        schema: SchemaRef,
        dictionaries: &HashMap<i64, ArrayRef>,
    ) -> Result<RecordBatch> {
        self.check_views(layout, selection)?;
        self.decode_rows(layout.n_rows, layout, selection, schema, dictionaries)
    }

    fn decode_rows(
        &self,
        n_rows: usize,
        layout: &BatchLayout,
        selection: &Selection,
        schema: SchemaRef,
        dictionaries: &HashMap<i64, ArrayRef>,
    ) -> Result<RecordBatch> {
        let bytes = selection.buffers.iter().map(|range| self.bytes(range));
        let plain = match layout.compression {
            Some(codec) => decompress::large(codec, &bytes.collect::<Result<Vec<_>>>()?)?,
            None => None,
        };
        let (data, places, compression) = match plain {
            Some(Plain { data, places }) => (data, places, None),
            None => (self.data.clone(), self.places(selection)?, layout.compression),
        };
        let header = header(n_rows, selection, &places, compression);
        let batch = flatbuffers::root::<arrow_ipc::RecordBatch<'_>>(&header)
            .map_err(|e| Error::corrupt(format!("the record batch is too large to decode: {e}")))?;
        let decode = || {
            RecordBatchDecoder::try_new(&data, batch, schema, dictionaries, &layout.version)
                .and_then(RecordBatchDecoder::read_record_batch)
                .map_err(|e| Error::corrupt(format!("the record batch does not decode: {e}")))
        };
        guard::contain("the record batch", decode)
    }

    /// Where each buffer lies here, and its length.
    fn places(&self, selection: &Selection) -> Result<Vec<(usize, usize)>> {
        let place = |range: &Range<u64>| {
            Ok((self.place(range)? as usize, (range.end - range.start) as usize))
        };
        selection.buffers.iter().map(place).collect()
    }

    /// Checks what the compressed buffers claim to grow to, before anything is allocated for it.
    fn check_decompressed(&self, codec: CompressionType, selection: &Selection) -> Result<Grown> {
        // What the formats can reach: an LZ4 sequence adds at most 255 bytes a byte; a ZSTD block
        // yields at most 128 KiB from four.
        let ratio: u64 = if codec == CompressionType::ZSTD { 1 << 15 } else { 1 << 8 };
        let (mut total, mut keeps_body) = (0_u64, false);
        for range in selection.buffers.iter().filter(|r| !r.is_empty()) {
            let bytes = self.bytes(range)?;
            let Some((prefix, data)) = bytes.split_first_chunk() else {
                return Err(Error::corrupt("a compressed buffer shorter than its length prefix"));
            };
            let claim = i64::from_le_bytes(*prefix);
            if claim == -1 {
                keeps_body = true;
                continue; // stored as it is
            }
            let claim = u64::try_from(claim).unwrap_or(u64::MAX);
            if claim > (data.len() as u64).saturating_mul(ratio) {
                return Err(Error::corrupt(format!(
                    "a buffer of {} compressed bytes claims to hold {claim}",
                    data.len()
                )));
            }
            total = total.saturating_add(claim);
        }
        if total > MAX_DECOMPRESSED {
            return Err(Error::limit(format!(
                "a record batch decompresses to {total} bytes, where {MAX_DECOMPRESSED} are the \
                 most; write the shard with smaller record batches"
            )));
        }
        Ok(Grown { bytes: total, keeps_body })
    }
}

/// A record batch header for `n_rows` rows of the selected columns, whose buffers lie at these
/// places.
fn header(
    n_rows: usize,
    selection: &Selection,
    places: &[(usize, usize)],
    compression: Option<CompressionType>,
) -> Vec<u8> {
    let place = |&(at, n): &(usize, usize)| arrow_ipc::Buffer::new(at as i64, n as i64);
    let buffers: Vec<_> = places.iter().map(place).collect();
    let nodes: Vec<_> = selection
        .nodes
        .iter()
        .map(|node| FieldNode::new(node.length as i64, node.null_count as i64))
        .collect();
    let mut fbb = FlatBufferBuilder::new();
    let compression = compression.map(|codec| {
        let method = BodyCompressionMethod::BUFFER;
        arrow_ipc::BodyCompression::create(&mut fbb, &BodyCompressionArgs { codec, method })
    });
    let args = RecordBatchArgs {
        length: n_rows as i64,
        nodes: Some(fbb.create_vector(&nodes)),
        buffers: Some(fbb.create_vector(&buffers)),
        compression,
        variadicBufferCounts: Some(fbb.create_vector(&selection.variadic)),
    };
    let batch = arrow_ipc::RecordBatch::create(&mut fbb, &args);
    fbb.finish(batch, None);
    fbb.finished_data().to_vec()
}
