//! The nodes and buffers of a large binary column, and its rows' offsets from them.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ByteView;

use super::{
    super::{
        blob::BlobColumn,
        blob_field::BlobKind,
        memory_rows::{INLINE, VIEW},
    },
    body::CompactBody,
    layout::{BatchLayout, FieldSpan, Node},
};
use crate::{Error, Result};

/// The nodes and buffers of a blob column, and those of the structs around it, the outermost first.
#[derive(Clone, Debug)]
pub(super) struct BlobSpan {
    pub(super) parents: Vec<FieldSpan>,
    pub(super) leaf: FieldSpan,
    pub(super) kind: BlobKind,
}

impl BlobSpan {
    /// The index of the column's first buffer, by which the shard's index finds its rows.
    pub(super) fn first_buffer(&self) -> usize {
        self.leaf.buffers.start
    }

    fn leaf_buffer(&self, layout: &BatchLayout, which: usize) -> Result<Range<u64>> {
        layout.buffer(self.first_buffer() + which)
    }

    /// Whether the rows are decoded with the small columns of an uncompressed body.
    pub(super) fn is_decoded(&self) -> bool {
        self.kind == BlobKind::Dictionary
    }

    /// The values, relative to the body.
    pub(super) fn data(&self, layout: &BatchLayout) -> Result<Range<u64>> {
        self.leaf_buffer(layout, 2)
    }

    /// What must be read to know the rows' ranges: validity and offsets.
    pub(super) fn index_ranges(&self, layout: &BatchLayout) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![self.leaf_buffer(layout, 0)?, self.leaf_buffer(layout, 1)?];
        for parent in &self.parents {
            ranges.push(layout.buffer(parent.buffers.start)?);
        }
        Ok(ranges)
    }

    /// The rows of an uncompressed record batch whose body begins at `body_start`, from the buffers
    /// at [`Self::index_ranges`].
    pub(super) fn rows(
        &self,
        layout: &BatchLayout,
        body: &CompactBody,
        body_start: u64,
    ) -> Result<BlobColumn> {
        let node = |span: &FieldSpan| {
            let node = layout.node(span.nodes.start)?;
            let (n_rows, of) = (node.length, layout.n_rows);
            let what = || format!("a binary column of {n_rows} rows in a record batch of {of}");
            if n_rows == of { Ok(node) } else { Err(Error::corrupt(what())) }
        };
        let leaf = node(&self.leaf)?;
        let mut nulls = nulls(leaf, body.bytes(&self.leaf_buffer(layout, 0)?)?)?;
        for parent in &self.parents {
            let validity = body.bytes(&layout.buffer(parent.buffers.start)?)?;
            let outer = self::nulls(node(parent)?, validity)?;
            nulls = NullBuffer::union(nulls.as_ref(), outer.as_ref());
        }
        let raw = body.bytes(&self.leaf_buffer(layout, 1)?)?;
        let large = match self.kind {
            BlobKind::Offsets { large } => large,
            BlobKind::Views => return self.viewed(layout, raw, body_start, 0..leaf.length, nulls),
            BlobKind::Dictionary => return Err(Error::internal("a dictionary has no ranges")),
        };
        let data = self.data(layout)?;
        let base = body_start + data.start;
        let offsets = offsets(raw, large, leaf.length, data.end - data.start, base)?;
        Ok(BlobColumn::in_file(nulls, offsets))
    }

    /// These rows by their views, which are `raw`.
    pub(super) fn viewed(
        &self,
        layout: &BatchLayout,
        raw: &[u8],
        body_start: u64,
        rows: Range<usize>,
        nulls: Option<NullBuffer>,
    ) -> Result<BlobColumn> {
        let views = raw.as_chunks::<VIEW>().0;
        if views.len() < rows.len() {
            let what = format!("{} bytes of views for {} rows", raw.len(), rows.len());
            return Err(Error::corrupt(what));
        }
        let own = self.leaf_buffer(layout, 1)?.start;
        let (mut offsets, mut lens) = (Vec::new(), Vec::new());
        for ((view, row), at) in views.iter().zip(rows).zip(0..) {
            let (mut start, mut len) = (0, 0);
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at)) {
                let range = match ByteView::from(u128::from_le_bytes(*view)) {
                    view if view.length as usize <= INLINE => {
                        let start = own + (row * VIEW) as u64 + 4;
                        start..start + u64::from(view.length)
                    }
                    view => self.behind(layout, view)?,
                };
                start = body_start + range.start;
                len = (range.end - range.start) as u32;
            }
            offsets.push(start);
            lens.push(len);
        }
        Ok(BlobColumn::in_any_order(nulls, offsets, lens))
    }

    /// What a view leads to, relative to the body.
    fn behind(&self, layout: &BatchLayout, view: ByteView) -> Result<Range<u64>> {
        let (number, len) = (view.buffer_index as usize, u64::from(view.length));
        let n_buffers = self.leaf.buffers.len().saturating_sub(2);
        let wrong = || {
            Error::corrupt(format!(
                "a view of {len} bytes at {} of buffer {number}, of {n_buffers}",
                view.offset
            ))
        };
        if number >= n_buffers {
            return Err(wrong());
        }
        let data = self.leaf_buffer(layout, 2 + number)?;
        let start = data.start + u64::from(view.offset);
        let range = start..start + len;
        if range.end <= data.end && i32::try_from(view.length).is_ok() {
            Ok(range)
        } else {
            Err(wrong())
        }
    }
}

/// The validity bitmap; `None` without nulls.
fn nulls(node: Node, bitmap: &[u8]) -> Result<Option<NullBuffer>> {
    if node.null_count == 0 {
        return Ok(None);
    }
    let Some(bitmap) = bitmap.get(..node.length.div_ceil(8)) else {
        return Err(Error::corrupt(format!(
            "a validity bitmap of {} bytes for {} rows",
            bitmap.len(),
            node.length
        )));
    };
    let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from(bitmap), 0, node.length));
    if nulls.null_count() != node.null_count {
        return Err(Error::corrupt(format!(
            "a column of {} nulls says that it has {}",
            nulls.null_count(),
            node.null_count
        )));
    }
    Ok(Some(nulls))
}

/// Row offsets plus `base`, which must not decrease or exceed `data_len`.
fn offsets(raw: &[u8], large: bool, n_rows: usize, data_len: u64, base: u64) -> Result<Vec<u64>> {
    if n_rows == 0 {
        return Ok(vec![base]); // the one offset may be left out
    }
    let width = if large { 8 } else { 4 };
    let Some(raw) = raw.get(..(n_rows + 1) * width) else {
        return Err(Error::corrupt(format!("{} bytes of offsets for {n_rows} rows", raw.len())));
    };
    let mut last = 0;
    raw.chunks_exact(width)
        .map(|bytes| {
            let offset = match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
                (Some(wide), _) => i64::from_le_bytes(*wide),
                (None, Some(narrow)) => i64::from(i32::from_le_bytes(*narrow)),
                (None, None) => -1,
            };
            match u64::try_from(offset) {
                Ok(offset) if (last..=data_len).contains(&offset) => {
                    last = offset;
                    Ok(base + offset)
                }
                _ => Err(Error::corrupt(format!(
                    "offset {offset} follows {last} in {data_len} bytes of data"
                ))),
            }
        })
        .collect()
}
