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
    super::{gathered::Gathered, guard},
    decompress::{self, Decompressed},
    layout::{BatchLayout, Node, Views},
    selection::Selection,
};
use crate::{
    Error, Result,
    memory::{self, BufferPart, BufferPool},
    store::RangeReader,
};

/// Each extent keeps its offset modulo this, so that buffers stay aligned.
const ALIGN: u64 = 64;

/// Of smaller extents the offset modulo this: as far as any type of values needs it.
const SMALL: u64 = 1 << 10;
const SMALL_ALIGN: u64 = 16;

/// The most that the compressed columns of one record batch may grow to.
const MAX_DECOMPRESSED: u64 = 1 << 30;

/// The most text that the string views of one record batch may refer to together. Each view is
/// checked to be UTF-8, so views that share their text would cost time without needing bytes.
const MAX_VIEWED: u64 = 1 << 30;

/// Bytes of a view. The first four are the length of its text.
const VIEW_BYTES: i32 = 16;

/// Ranges of a body, as extents that follow each other in memory.
#[derive(Debug)]
pub(super) struct CompactBody {
    extents: Vec<Extent>,
    data: Buffer,
    /// What `data` is in.
    memory: Arc<memory::Buffer>,
}

/// A range of the body, and its offset in memory.
#[derive(Debug)]
struct Extent {
    body: Range<u64>,
    offset: u64,
}

/// The extents in memory, and the bytes that they take there.
fn laid_out(extents: &[Range<u64>]) -> (Vec<Extent>, u64) {
    let mut len = 0_u64;
    let extents = extents.iter().map(|body| {
        let n_bytes = body.end - body.start;
        let align = if n_bytes < SMALL { SMALL_ALIGN } else { ALIGN };
        let offset = len.next_multiple_of(align) + body.start % align;
        len = offset + n_bytes;
        Extent { body: body.clone(), offset }
    });
    let extents = extents.collect();
    (extents, len)
}

/// The bytes of memory that these extents of a body take.
pub(super) fn memory_bytes(extents: &[Range<u64>]) -> u64 {
    laid_out(extents).1
}

/// The size of decompressed columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecompressedSize {
    /// Bytes in addition to the body.
    pub(super) bytes: u64,
    /// Whether columns go on using the body.
    pub(super) keeps_body: bool,
}

impl CompactBody {
    /// Reads the ranges, relative to the body that begins at `body_start` in the file and was
    /// checked to lie inside it.
    pub(super) fn read(
        reader: &RangeReader,
        body_start: u64,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<Self> {
        Self::read_with(reader.store().buffers(), ranges, reader.gap(), |range, into| {
            reader.read_exact_at(body_start + range.start, into)
        })
    }

    /// As [`CompactBody::read`], one range to the start of a buffer. So it is aligned wherever it lies in
    /// the file, and a batch may take the buffer over.
    pub(super) fn read_one(
        reader: &RangeReader,
        body_start: u64,
        range: Range<u64>,
    ) -> Result<Self> {
        let mut data = reader.store().buffers().take((range.end - range.start) as usize, None)?;
        reader.read_exact_at(body_start + range.start, data.as_bytes_mut())?;
        Ok(Self::new(vec![Extent { body: range, offset: 0 }], data))
    }

    /// As [`CompactBody::read`], into a buffer of this pool, by `read`, which gets
    /// ranges of the body. Ranges with at most `gap` bytes between them are read together.
    pub(super) fn read_with(
        buffers: &Arc<BufferPool>,
        ranges: impl Iterator<Item = Range<u64>>,
        gap: u64,
        read: impl FnMut(Range<u64>, &mut [u8]) -> Result<()>,
    ) -> Result<Self> {
        let gathered = Gathered::new(ranges, gap);
        let (extents, len) = laid_out(gathered.extents());
        // Bounded by the body, hence by the file, except for the alignment of each extent.
        let mut data = buffers.take(len as usize, None)?;
        let (mut rest, mut at) = (data.as_bytes_mut(), 0);
        let memory = extents.iter().map_while(|Extent { body, offset }| {
            let behind = std::mem::take(&mut rest).split_at_mut_checked((offset - at) as usize)?.1;
            let n_bytes = body.end - body.start;
            let (extent, behind) = behind.split_at_mut_checked(n_bytes as usize)?;
            (rest, at) = (behind, offset + n_bytes);
            Some(extent)
        });
        gathered.read(memory, buffers, read)?;
        Ok(Self::new(extents, data))
    }

    fn new(extents: Vec<Extent>, data: memory::Buffer) -> Self {
        let memory = Arc::new(data);
        let data = Bytes::from_owner(BufferPart::from(Arc::clone(&memory))).into();
        Self { extents, data, memory }
    }

    /// The memory, which arrays over it share.
    pub(super) fn into_memory(self) -> Arc<memory::Buffer> {
        self.memory
    }

    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    /// The offset here of a range of the body.
    fn offset(&self, range: &Range<u64>) -> Result<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        let after = self.extents.partition_point(|extent| extent.body.start <= range.start);
        let extent = after.checked_sub(1).and_then(|i| self.extents.get(i));
        let extent = extent.filter(|extent| range.end <= extent.body.end);
        extent
            .map(|extent| extent.offset + (range.start - extent.body.start))
            .ok_or_else(|| Error::corrupt("a buffer that was not read"))
    }

    /// The bytes of a range of the body.
    pub(super) fn bytes(&self, range: &Range<u64>) -> Result<&[u8]> {
        let start = self.offset(range)? as usize;
        let bytes =
            self.data.get(start..).and_then(|b| b.get(..(range.end - range.start) as usize));
        bytes.ok_or_else(|| Error::corrupt("a buffer outside the compact body"))
    }

    /// A range of the body, without a copy; `None` where it was not read.
    pub(super) fn buffer(&self, range: &Range<u64>) -> Option<Buffer> {
        let start = self.offset(range).ok()? as usize;
        let n_bytes = (range.end - range.start) as usize;
        let is_inside = start.checked_add(n_bytes).is_some_and(|end| end <= self.data.len());
        is_inside.then(|| self.data.slice_with_length(start, n_bytes))
    }

    /// The size of the selected columns once decompressed: at most 1 GiB.
    pub(super) fn decompressed(
        &self,
        layout: &BatchLayout,
        selection: &Selection,
    ) -> Result<DecompressedSize> {
        let uncompressed = DecompressedSize { bytes: 0, keeps_body: true };
        layout
            .compression
            .map_or(Ok(uncompressed), |codec| self.check_decompressed(codec, selection))
    }

    /// Refuses string views that refer to more text than [`MAX_VIEWED`] together.
    fn check_views(&self, layout: &BatchLayout, selection: &Selection) -> Result<()> {
        let mut total = 0_u64;
        for Views { n, buffer } in &selection.string_views {
            // As fixed-size values, views are decompressed without being checked.
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
    /// The caller has called [`CompactBody::decompressed`], which checks the claims of compressed
    /// buffers.
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
        let decompressed = match layout.compression {
            Some(codec) => decompress::large(codec, &bytes.collect::<Result<Vec<_>>>()?)?,
            None => None,
        };
        let (data, spans, compression) = match decompressed {
            Some(Decompressed { data, spans }) => (data, spans, None),
            None => (self.data.clone(), self.spans(selection)?, layout.compression),
        };
        let header = header(n_rows, selection, &spans, compression);
        let batch = flatbuffers::root::<arrow_ipc::RecordBatch<'_>>(&header)
            .map_err(|e| Error::corrupt(format!("the record batch is too large to decode: {e}")))?;
        let decode = || {
            RecordBatchDecoder::try_new(&data, batch, schema, dictionaries, &layout.version)
                .and_then(RecordBatchDecoder::read_record_batch)
                .map_err(|e| Error::corrupt(format!("the record batch does not decode: {e}")))
        };
        guard::contain("the record batch", decode)
    }

    /// The offset and the length of each selected buffer.
    fn spans(&self, selection: &Selection) -> Result<Vec<(usize, usize)>> {
        let span = |range: &Range<u64>| {
            Ok((self.offset(range)? as usize, (range.end - range.start) as usize))
        };
        selection.buffers.iter().map(span).collect()
    }

    /// Checks the sizes that compressed buffers claim, before anything of these sizes is allocated.
    fn check_decompressed(
        &self,
        codec: CompressionType,
        selection: &Selection,
    ) -> Result<DecompressedSize> {
        // The formats' highest ratios: an LZ4 sequence adds at most 255 bytes a byte; a ZSTD block
        // yields at most 128 KiB from four bytes.
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
                continue; // stored uncompressed
            }
            let claim = u64::try_from(claim).unwrap_or(u64::MAX);
            if claim > (data.len() as u64).saturating_mul(ratio) {
                return Err(Error::corrupt(format!(
                    "a buffer of {} compressed bytes claims to contain {claim}",
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
        Ok(DecompressedSize { bytes: total, keeps_body })
    }
}

/// A record batch header for `n_rows` rows of the selected columns, whose buffers have these offsets
/// and lengths.
fn header(
    n_rows: usize,
    selection: &Selection,
    spans: &[(usize, usize)],
    compression: Option<CompressionType>,
) -> Vec<u8> {
    let buffer = |&(offset, n): &(usize, usize)| arrow_ipc::Buffer::new(offset as i64, n as i64);
    let buffers: Vec<_> = spans.iter().map(buffer).collect();
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
