//! Which nodes and buffers of a record batch belong to which field.
//!
//! A record batch's header lists field nodes (length, null count) and buffers (offset, length) in
//! the pre-order of the schema's fields. The walk here assigns them to fields, so that a few columns
//! can be read without the others.
//! See <https://arrow.apache.org/docs/format/Columnar.html#recordbatch-message>.

use std::ops::Range;

use arrow_ipc::{BodyCompressionMethod, CompressionType, MetadataVersion};
use arrow_schema::{DataType, Field, Fields, UnionMode};

use super::schema::children;
use crate::{Error, Result};

/// The most rows of a record batch: Arrow recommends this bound, and columns of nulls have no bytes
/// that would bound their length.
const MAX_ROWS: i64 = i32::MAX as i64;

/// The longest array nested in a column.
const MAX_LENGTH: i64 = 1 << 40;

/// One field's length and null count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) length: usize,
    pub(super) null_count: usize,
}

/// One field's nodes, buffers and counts of view buffers, as indices into the header's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSpan {
    pub(super) nodes: Range<usize>,
    pub(super) buffers: Range<usize>,
    pub(super) variadic: Range<usize>,
}

/// The views of one array of strings.
#[derive(Clone, Debug)]
pub(super) struct Views {
    /// Their number.
    pub(super) n: usize,
    /// Their range in the body.
    pub(super) buffer: Range<u64>,
}

/// A record batch's header, whose numbers were checked against each other.
#[derive(Debug)]
pub(super) struct BatchLayout {
    pub(super) n_rows: usize,
    pub(super) nodes: Vec<Node>,
    /// Relative to the body, inside it, and not overlapping.
    pub(super) buffers: Vec<Range<u64>>,
    pub(super) variadic: Vec<usize>,
    pub(super) compression: Option<CompressionType>,
    pub(super) version: MetadataVersion,
}

impl BatchLayout {
    /// Checks the header of a record batch whose body has `body_len` bytes.
    pub(super) fn new(
        batch: &arrow_ipc::RecordBatch<'_>,
        body_len: u64,
        version: MetadataVersion,
    ) -> Result<Self> {
        if batch.length() > MAX_ROWS {
            return Err(Error::limit(format!(
                "a record batch of {} rows, where {MAX_ROWS} are the most",
                batch.length()
            )));
        }
        let n_rows = usize::try_from(batch.length())
            .map_err(|_| Error::corrupt(format!("a record batch of {} rows", batch.length())))?;
        let nodes: Vec<Node> =
            batch.nodes().into_iter().flatten().map(node).collect::<Result<_>>()?;
        let buffers: Vec<Range<u64>> = batch
            .buffers()
            .into_iter()
            .flatten()
            .map(|b| buffer(b, body_len))
            .collect::<Result<_>>()?;
        check_overlap(&buffers)?;
        let variadic = batch.variadicBufferCounts().into_iter().flatten().map(|count| {
            usize::try_from(count).map_err(|_| Error::corrupt(format!("{count} view buffers")))
        });
        Ok(Self {
            n_rows,
            nodes,
            buffers,
            variadic: variadic.collect::<Result<_>>()?,
            compression: compression(batch)?,
            version,
        })
    }

    /// The span of each field. They must use up the header's lists, and each field must have the
    /// batch's rows.
    pub(super) fn spans(&self, fields: &Fields) -> Result<Vec<FieldSpan>> {
        let mut walk = Walk::new(self, FieldSpan::default());
        let spans: Vec<_> = fields.iter().map(|f| walk.field(f)).collect::<Result<_>>()?;
        let FieldSpan { nodes, buffers, variadic } = walk.at;
        let used = (nodes.end, buffers.end, variadic.end);
        let listed = (self.nodes.len(), self.buffers.len(), self.variadic.len());
        if used != listed {
            return Err(Error::corrupt(format!(
                "the schema needs (nodes, buffers, view columns) {used:?} but the record batch \
                 lists {listed:?}"
            )));
        }
        for (field, span) in fields.iter().zip(&spans) {
            let length = self.node(span.nodes.start)?.length;
            if length != self.n_rows {
                return Err(Error::corrupt(format!(
                    "column '{}' has {length} rows in a record batch of {}",
                    field.name(),
                    self.n_rows
                )));
            }
        }
        Ok(spans)
    }

    /// The spans of a struct's children.
    pub(super) fn child_spans(
        &self,
        parent: &FieldSpan,
        children: &Fields,
    ) -> Result<Vec<FieldSpan>> {
        let at = FieldSpan {
            nodes: 0..parent.nodes.start + 1,
            buffers: 0..parent.buffers.start + 1,
            variadic: 0..parent.variadic.start,
        };
        let mut walk = Walk::new(self, at);
        children.iter().map(|f| walk.field(f)).collect()
    }

    /// The arrays of string views in the field of this span.
    pub(super) fn string_views(&self, field: &Field, span: &FieldSpan) -> Result<Vec<Views>> {
        let at = FieldSpan {
            nodes: 0..span.nodes.start,
            buffers: 0..span.buffers.start,
            variadic: 0..span.variadic.start,
        };
        let mut walk = Walk::new(self, at);
        walk.field(field)?;
        let views = |&(node, buffer): &(usize, usize)| {
            Ok(Views { n: self.node(node)?.length, buffer: self.buffer(buffer)? })
        };
        walk.string_views.iter().map(views).collect()
    }

    pub(super) fn node(&self, index: usize) -> Result<Node> {
        let node = self.nodes.get(index).copied();
        node.ok_or_else(|| Error::corrupt("the record batch lists too few field nodes"))
    }

    pub(super) fn buffer(&self, index: usize) -> Result<Range<u64>> {
        let buffer = self.buffers.get(index).cloned();
        buffer.ok_or_else(|| Error::corrupt("the record batch lists too few buffers"))
    }
}

fn node(node: &arrow_ipc::FieldNode) -> Result<Node> {
    let (length, null_count) = (node.length(), node.null_count());
    if !(0..=MAX_LENGTH).contains(&length) || !(0..=length).contains(&null_count) {
        return Err(Error::corrupt(format!("a column of length {length} with {null_count} nulls")));
    }
    Ok(Node { length: length as usize, null_count: null_count as usize })
}

fn buffer(buffer: &arrow_ipc::Buffer, body_len: u64) -> Result<Range<u64>> {
    let (offset, length) = (buffer.offset(), buffer.length());
    if length == 0 {
        return Ok(0..0);
    }
    let range = u64::try_from(offset).ok().zip(u64::try_from(length).ok());
    let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
    range.filter(|r| r.end <= body_len).ok_or_else(|| {
        Error::corrupt(format!(
            "a buffer at {offset} of length {length} in a body of {body_len} bytes"
        ))
    })
}

/// Buffers that share bytes would let a small file decode to an enormous batch.
fn check_overlap(buffers: &[Range<u64>]) -> Result<()> {
    let mut sorted: Vec<_> = buffers.iter().filter(|r| !r.is_empty()).collect();
    sorted.sort_unstable_by_key(|r| r.start);
    let overlapping = sorted.iter().zip(sorted.iter().skip(1)).find(|(a, b)| b.start < a.end);
    overlapping.map_or(Ok(()), |(a, b)| {
        Err(Error::corrupt(format!("the buffers at {a:?} and {b:?} of the body overlap")))
    })
}

pub(super) fn compression(batch: &arrow_ipc::RecordBatch<'_>) -> Result<Option<CompressionType>> {
    let Some(compression) = batch.compression() else { return Ok(None) };
    let known = [CompressionType::LZ4_FRAME, CompressionType::ZSTD].contains(&compression.codec());
    if !known || compression.method() != BodyCompressionMethod::BUFFER {
        return Err(Error::schema(
            "",
            "the bodies are compressed in a way other than LZ4 and ZSTD",
        ));
    }
    Ok(Some(compression.codec()))
}

/// A walk over the fields. The next field's span begins at the ends of `at`.
struct Walk<'a> {
    layout: &'a BatchLayout,
    at: FieldSpan,
    /// The indices of the node and of the views of each array of string views so far.
    string_views: Vec<(usize, usize)>,
}

impl<'a> Walk<'a> {
    fn new(layout: &'a BatchLayout, at: FieldSpan) -> Self {
        Self { layout, at, string_views: Vec::new() }
    }

    fn field(&mut self, field: &Field) -> Result<FieldSpan> {
        let start = self.at.clone();
        self.skip(field.data_type())?;
        let span = FieldSpan {
            nodes: start.nodes.end..self.at.nodes.end,
            buffers: start.buffers.end..self.at.buffers.end,
            variadic: start.variadic.end..self.at.variadic.end,
        };
        let layout = self.layout;
        if span.nodes.end > layout.nodes.len() || span.buffers.end > layout.buffers.len() {
            return Err(Error::corrupt(format!(
                "the record batch lists too few nodes or buffers for column '{}'",
                field.name()
            )));
        }
        Ok(span)
    }

    fn skip(&mut self, data_type: &DataType) -> Result<()> {
        use DataType as T;
        if *data_type == T::Utf8View {
            // The views follow the validity bitmap.
            self.string_views.push((self.at.nodes.end, self.at.buffers.end + 1));
        }
        self.at.nodes.end += 1;
        self.at.buffers.end += match data_type {
            T::Null | T::RunEndEncoded(..) => 0,
            T::Struct(_) | T::FixedSizeList(..) => 1,
            T::Utf8
            | T::LargeUtf8
            | T::Binary
            | T::LargeBinary
            | T::ListView(_)
            | T::LargeListView(_) => 3,
            T::Utf8View | T::BinaryView => 2 + self.next_view_count()?,
            // Only metadata V4 gives a union a validity bitmap of its own.
            T::Union(_, mode) => {
                usize::from(self.layout.version < MetadataVersion::V5)
                    + if *mode == UnionMode::Dense { 2 } else { 1 }
            }
            // Validity with values, indices or offsets.
            _ => 2,
        };
        // A dictionary's values are in messages of their own.
        if !matches!(data_type, T::Dictionary(..)) {
            for child in children(data_type) {
                self.field(child)?;
            }
        }
        Ok(())
    }

    fn next_view_count(&mut self) -> Result<usize> {
        let count = self.layout.variadic.get(self.at.variadic.end).copied();
        self.at.variadic.end += 1;
        count.filter(|n| *n <= self.layout.buffers.len()).ok_or_else(|| {
            Error::corrupt("a view column's count of buffers is missing or too large")
        })
    }
}
