//! Where the rows of a binary array in memory lie, whatever its layout.

use arrow_array::{ArrayRef, cast::AsArray};
use arrow_buffer::Buffer;
use arrow_data::ByteView;

use super::{blob::MemoryBuffers, widen::keys};
use crate::{Error, Result};

/// Bytes of a view, its length in front, and the longest value that lies in the view itself.
pub(super) const VIEW: usize = 16;
pub(super) const INLINE: usize = 12;

/// The rows of one array.
pub(super) struct MemoryRows {
    /// Where each row begins in its buffer, and one more.
    pub(super) offsets: Vec<u64>,
    /// The rows' lengths, where they do not follow each other.
    pub(super) lens: Option<Vec<u32>>,
    pub(super) buffers: MemoryBuffers,
}

impl MemoryRows {
    pub(super) fn of(array: &ArrayRef) -> Result<Self> {
        if let Some(array) = array.as_binary_opt::<i32>() {
            let offsets = array.value_offsets().iter().map(|offset| *offset as u64);
            Ok(Self::following(offsets.collect(), array.values()))
        } else if let Some(array) = array.as_binary_opt::<i64>() {
            let offsets = array.value_offsets().iter().map(|offset| *offset as u64);
            Ok(Self::following(offsets.collect(), array.values()))
        } else if let Some(array) = array.as_binary_view_opt() {
            let mut buffers = array.data_buffers().to_vec();
            buffers.push(array.views().inner().clone());
            let inline = (buffers.len() - 1) as u32;
            let rows = array.views().iter().zip(0..).map(|(view, row)| {
                let view = ByteView::from(*view);
                if view.length as usize <= INLINE {
                    (inline, row * VIEW as u64 + 4, view.length)
                } else {
                    (view.buffer_index, u64::from(view.offset), view.length)
                }
            });
            Ok(Self::apart(rows, buffers))
        } else if let Some(dictionary) = array.as_any_dictionary_opt() {
            let keys = keys(array).map_err(|e| Error::corrupt(e.to_string()))?;
            let values = Self::of(dictionary.values())?;
            let rows = keys.iter().map(|key| match key {
                None => Ok((0, 0, 0)),
                Some(key) => {
                    let row = usize::try_from(key).ok().and_then(|key| values.row(key));
                    row.ok_or_else(|| Error::corrupt("a key that its dictionary does not have"))
                }
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            Ok(Self::apart(rows.into_iter(), values.buffers.buffers))
        } else {
            Err(Error::corrupt("a blob column that is not binary"))
        }
    }

    fn following(offsets: Vec<u64>, bytes: &Buffer) -> Self {
        let buffers = MemoryBuffers { buffers: vec![bytes.clone()], of_row: Vec::new() };
        Self { offsets, lens: None, buffers }
    }

    /// Rows by their buffer, offset and length.
    fn apart(rows: impl Iterator<Item = (u32, u64, u32)>, buffers: Vec<Buffer>) -> Self {
        let (mut offsets, mut lens, mut of_row) = (Vec::new(), Vec::new(), Vec::new());
        for (buffer, offset, len) in rows {
            of_row.push(buffer);
            offsets.push(offset);
            lens.push(len);
        }
        offsets.push(0);
        Self { offsets, lens: Some(lens), buffers: MemoryBuffers { buffers, of_row } }
    }

    /// The buffer, offset and length of a row.
    fn row(&self, row: usize) -> Option<(u32, u64, u32)> {
        let (offset, next) = (*self.offsets.get(row)?, *self.offsets.get(row + 1)?);
        let len = match &self.lens {
            Some(lens) => *lens.get(row)?,
            None => u32::try_from(next.checked_sub(offset)?).ok()?,
        };
        Some((self.buffers.of_row.get(row).copied().unwrap_or(0), offset, len))
    }
}
