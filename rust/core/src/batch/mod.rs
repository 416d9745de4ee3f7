//! Delivered batches: columns of rows, in buffers that are written once. No I/O is done here.

mod added;
mod assemble;
mod column_spec;
mod copy_plan;
mod dtype;
mod encoded;
mod events;
mod gather;
mod gathered_column;
mod lists;
mod multi_hot;
mod object_bytes;
mod reservation;
mod row;
mod samples;
mod size_limit;
mod style;
mod supported;
mod taken_over;
mod value;

use std::sync::Arc;

use arrow_array::ArrayRef;

use crate::{
    error::Result,
    memory::{Buffer, BufferPart, Permit},
};
use gristmill_audio::{Codec, DecodeReport, SampleType};

pub(crate) use added::AddedColumn;
pub(crate) use assemble::{AudioSlots, ColumnSource, ElementLayout, assemble};
pub use column_spec::{ColumnSpec, column_specs};
pub use dtype::{Dtype, FillValue};
pub use events::EventColumns;
pub(crate) use events::EventReader;
pub(crate) use lists::items_of;
pub use multi_hot::Classes;
pub(crate) use multi_hot::MultiHot;
pub(crate) use reservation::Reservation;
pub(crate) use row::{BlobValue, Row, RowCrop, RowExtras, RowOutcome};
pub use size_limit::SizeLimit;
pub use style::{Binary, Ragged, Style, Styles};
pub use supported::check_supported;
pub use value::{Value, value};

/// One delivered element: a batch, or a single row.
#[derive(Debug)]
pub struct Batch {
    /// Rows of the stream.
    pub n_rows: usize,
    /// Rows without those that were skipped because they are bad.
    pub n_delivered: usize,
    /// The columns in schema order, by name.
    pub columns: Vec<(String, Column)>,
    /// Its damaged rows, in their order.
    pub damaged: Vec<DamagedRow>,
    /// The rows that could not be used, in the order of the stream.
    pub bad: Vec<BadRow>,
    /// For its values that are not in buffers.
    pub(crate) objects: Option<Permit>,
}

/// A row whose audio could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The shard's path.
    pub shard: Arc<str>,
    /// The row's index in its shard.
    pub row: u64,
    /// The number of rows of the shard.
    pub shard_rows: u64,
    /// The recording's original path, if the row has it.
    pub path: Option<String>,
    /// The codec, as far as it is known.
    pub codec: Option<Codec>,
    /// The reason as one word; for limits the name of the limit.
    pub reason: &'static str,
    /// The error message.
    pub message: String,
    /// Bytes of the encoded audio; `None` for null.
    pub n_bytes: Option<u64>,
    /// Whether it was tried as a substitute for another bad row.
    pub is_substitute: bool,
}

/// A row that was delivered although its audio is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRow {
    /// The shard's path.
    pub shard: Arc<str>,
    /// The row's index in its shard.
    pub row: u64,
    /// The column of the damaged recording, where several are decoded.
    pub column: Option<Arc<str>>,
    /// The codec.
    pub codec: Codec,
    /// The decoder's report.
    pub report: DecodeReport,
}

/// The values of one column, for all rows of a batch.
#[derive(Debug)]
pub enum Column {
    /// Decoded audio in row-major order.
    Samples {
        /// The samples.
        buf: Buffer,
        /// Their type.
        sample_type: SampleType,
        /// `(rows, frames)` or `(rows, channels, frames)`; without `rows` for a single row.
        shape: Vec<usize>,
    },
    /// Numbers in row-major order.
    Values {
        /// The numbers.
        buf: BufferPart,
        /// Their dtype.
        dtype: Dtype,
        /// Rows first.
        shape: Vec<usize>,
    },
    /// Values without a dtype, in row-major order.
    Objects {
        /// The values.
        cells: Vec<Value>,
        /// Rows first.
        shape: Vec<usize>,
    },
    /// Arrays of unequal lengths.
    Ragged {
        /// The items of all lists, one list after another.
        items: Box<Column>,
        /// The number of items of each list; `None` for a null.
        lengths: Vec<Option<usize>>,
        /// Rows first.
        shape: Vec<usize>,
    },
    /// A struct's fields.
    Struct(Vec<(String, Column)>),
    /// The value of a single row.
    One(Value),
}

/// The column `name` of these rows, each an array and an index in it, and the lengths of its padded
/// lists.
///
/// # Errors
///
/// [`crate::ErrorKind::Schema`] where a null or lists of unequal lengths do not fit `style`, with
/// the index of the row; and those of [`value`].
pub fn batch_of(
    name: &str,
    rows: &[(ArrayRef, usize)],
    style: Style,
    limit: &SizeLimit,
) -> Result<Vec<(String, Column)>> {
    let gather = gather::Gather { style, ..gather::Gather::plain(limit) };
    let rows: Vec<_> = rows.iter().map(|(array, index)| (array, *index)).collect();
    assemble::gather_rows(name, &rows, gather).map_err(|(error, row)| match row {
        Some(row) => error.in_row(row as u64),
        None => error,
    })
}
