//! What is handed out: columns of rows, in buffers that are written once.

mod assemble;
mod describe;
mod dtype;
mod gather;
mod gathered;
mod held;
mod kind;
mod limit;
mod lists;
mod row;
mod runs;
mod samples;
mod space;
mod style;
mod value;

use std::sync::Arc;

use arrow_array::ArrayRef;

use crate::{
    error::Result,
    memory::{Buffer, Permit},
};
use gristmill_audio::{Codec, DecodeReport, SampleType};

pub(crate) use assemble::{Audio, Layout, Source, VALID, assemble};
pub use describe::{Described, describe_columns};
pub use dtype::{Dtype, FillValue};
pub use kind::check_supported;
pub use limit::Limit;
pub(crate) use row::{BlobValue, Row, RowOutcome};
pub(crate) use space::Space;
pub use style::{Binary, Ragged, Style, Styles};
pub use value::{Value, value};

/// One delivered element: a batch, or a single row.
#[derive(Debug)]
pub struct Batch {
    /// How many rows of the stream it stands for.
    pub n_rows: usize,
    /// How many of them it holds: bad rows may have been left out.
    pub n_delivered: usize,
    /// The columns in schema order, by name.
    pub columns: Vec<(String, Column)>,
    /// Its rows that are damaged, in their order.
    pub damaged: Vec<DamagedRow>,
    /// The rows that could not be used, in the order of their places.
    pub bad: Vec<BadRow>,
    /// For its values that are in no buffer.
    pub(crate) held: Option<Permit>,
}

/// A row whose audio could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The shard's path.
    pub shard: Arc<str>,
    /// The row's index in its shard.
    pub row: u64,
    /// How many rows the shard has.
    pub shard_rows: u64,
    /// What the row itself calls its audio, where it does.
    pub path: Option<String>,
    /// The codec, once the header told it.
    pub codec: Option<Codec>,
    /// Why, in a word; the limit's field for limits.
    pub reason: &'static str,
    /// Why, in a sentence with the place.
    pub message: String,
    /// Bytes of the encoded audio; `None` for null.
    pub n_bytes: Option<u64>,
    /// Whether it was tried in the place of another bad row.
    pub is_substitute: bool,
}

/// A row that was delivered though its audio is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRow {
    /// The shard's path.
    pub shard: Arc<str>,
    /// The row's index in its shard.
    pub row: u64,
    /// The codec.
    pub codec: Codec,
    /// What came of it.
    pub report: DecodeReport,
}

/// The values of one column, for all rows of a batch.
#[derive(Debug)]
pub enum Column {
    /// Decoded audio in row-major order.
    Samples {
        /// The samples.
        buf: Buffer,
        /// What they are stored as.
        sample_type: SampleType,
        /// `(rows, frames)` or `(rows, channels, frames)`; without `rows` for a single row.
        shape: Vec<usize>,
    },
    /// Numbers in row-major order.
    Values {
        /// The numbers.
        buf: Buffer,
        /// What they are.
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
    /// Arrays of unequal lengths: one list after another of the items.
    Ragged {
        /// The items of all lists.
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

/// The batch of these rows, each an array and an index in it, of one column called `name`.
///
/// Padded lists come with their lengths beside them.
///
/// # Errors
///
/// [`crate::ErrorKind::Schema`] where a null or lists of unequal lengths do not fit `style`, with
/// the row in the batch; as from [`value`] besides.
pub fn batch_of(
    name: &str,
    rows: &[(ArrayRef, usize)],
    style: Style,
    limit: &Limit,
) -> Result<Vec<(String, Column)>> {
    let gather = gather::Gather { style, ..gather::Gather::plain(limit) };
    let rows: Vec<_> = rows.iter().map(|(array, place)| (array, *place)).collect();
    assemble::gather_rows(name, &rows, gather).map_err(|(error, row)| match row {
        Some(row) => error.in_row(row as u64),
        None => error,
    })
}
