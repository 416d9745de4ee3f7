//! How one row is read, decoded, and replaced where it is bad.

mod alone;
mod batch;
mod context;
mod copied;
mod decode;
mod decoding_bytes;
mod load_ahead;
mod parts;
mod reader;
mod recording_file;
mod replace;
mod spec;
mod task;

pub use self::recording_file::Recordings;
pub(crate) use self::{
    alone::LastRow,
    batch::BatchTask,
    context::Context,
    decode::{Decoded, DecodedRow, RowDecoder},
    reader::RowReader,
    task::{Attempt, EncodedRow, ReadStage, RowTask},
};
