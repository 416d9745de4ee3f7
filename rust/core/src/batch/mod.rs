//! What is handed out: columns of rows, in buffers that are written once.

mod assemble;
mod buffer;
mod kind;

use arrow_array::ArrayRef;

use crate::audio::SampleType;

pub(crate) use assemble::{BlobValue, Layout, Row, Slots, Source, assemble};
pub use buffer::{ALIGNMENT, AlignedBuf, BufferPool, PooledBuf};
pub use kind::check_supported;

/// One delivered element: a batch, or a single row.
#[derive(Debug)]
pub struct Batch {
    /// How many rows of the stream it holds.
    pub n_rows: usize,
    /// The columns in schema order, by name.
    pub columns: Vec<(String, Column)>,
}

/// The values of one column, for all rows of a batch.
#[derive(Debug)]
pub enum Column {
    /// Decoded audio in row-major order.
    Samples {
        /// The samples.
        buf: PooledBuf,
        /// What they are stored as.
        sample_type: SampleType,
        /// `(rows, frames)` or `(rows, channels, frames)`; without `rows` for a single row.
        shape: Vec<usize>,
    },
    /// Any column that Arrow decoded; as many values as there are rows.
    Arrow(ArrayRef),
    /// Binary values that stay encoded, `None` where null.
    Bytes(Vec<Option<Vec<u8>>>),
    /// A struct's fields.
    Struct(Vec<(String, Column)>),
}
