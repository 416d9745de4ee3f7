//! Items of lists that stay in the file until a batch wants them.
//!
//! Where rows are taken as they follow each other, the numbers of a batch's lists lie in one run. They
//! are read from there into the batch's own memory, and never held for the whole record batch. What
//! is decoded of such a column are its offsets and its nulls, as lists of nothing.

use std::{ops::Range, sync::Arc};

use arrow_schema::{DataType, Field, FieldRef};

use super::layout::{BatchLayout, FieldSpan};
use crate::{Error, Result};

/// Items stay in the file where those of one batch make a request of this many bytes or more;
/// smaller ones are read with the whole record batch.
const LARGE_RUN: u64 = 256 << 10;

/// The items of a list column of one record batch: numbers of one size, none of them null.
#[derive(Clone, Debug)]
pub struct ItemsInFile {
    /// Of the column itself.
    pub(crate) data_type: DataType,
    /// Absolute.
    bytes: Range<u64>,
    /// Bytes of one item.
    width: u64,
}

impl ItemsInFile {
    /// Where `n_items` items lie from the `first` on, in the file.
    ///
    /// # Errors
    ///
    /// `Corrupt` where there are not so many.
    pub(super) fn range(&self, first: usize, n_bytes: usize) -> Result<Range<u64>> {
        let start = (first as u64).checked_mul(self.width);
        let start = start.and_then(|start| start.checked_add(self.bytes.start));
        let range = start.and_then(|start| Some(start..start.checked_add(n_bytes as u64)?));
        let range = range.filter(|range| range.end <= self.bytes.end);
        range.ok_or_else(|| Error::corrupt("the items of a list lie outside its column"))
    }
}

/// A list column whose items are left in the file.
pub(super) struct Left {
    /// The column as it is decoded: lists of nothing.
    pub(super) field: FieldRef,
    pub(super) items: ItemsInFile,
}

impl Left {
    /// Leaves the items of a column whose type and size allow it, for batches of `rows_together`
    /// rows that follow each other. The body begins at `body_start` in the file.
    pub(super) fn new(
        field: &Field,
        layout: &BatchLayout,
        span: &FieldSpan,
        body_start: u64,
        rows_together: usize,
    ) -> Option<Self> {
        let (item, data_type): (_, fn(FieldRef, i32) -> DataType) = match field.data_type() {
            DataType::List(item) => (item, |item, _| DataType::List(item)),
            DataType::LargeList(item) => (item, |item, _| DataType::LargeList(item)),
            DataType::FixedSizeList(item, _) => (item, DataType::FixedSizeList),
            _ => return None,
        };
        let of = item.data_type();
        let width = of.primitive_width().filter(|_| of.is_integer() || of.is_floating())? as u64;
        let node = layout.node(span.nodes.start + 1).ok()?;
        let data = layout.buffer(span.buffers.end.checked_sub(1)?).ok()?;
        let n_bytes = (node.length as u64).checked_mul(width)?;
        // What is too short is decoded as a whole, which says what is wrong.
        if layout.compression.is_some() || node.null_count > 0 || n_bytes > data.end - data.start {
            return None;
        }
        let of_a_batch = n_bytes / layout.n_rows.max(1) as u64;
        if of_a_batch.saturating_mul(rows_together as u64) < LARGE_RUN {
            return None;
        }
        let nothing = Field::new(item.name(), DataType::Null, true);
        let list_size = match field.data_type() {
            DataType::FixedSizeList(_, size) => *size,
            _ => 0,
        };
        let shell = data_type(Arc::new(nothing), list_size);
        let start = body_start + data.start;
        Some(Self {
            field: Arc::new(field.clone().with_data_type(shell)),
            items: ItemsInFile {
                data_type: field.data_type().clone(),
                bytes: start..start + n_bytes,
                width,
            },
        })
    }
}
