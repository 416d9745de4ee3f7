//! How one row is read, decoded, and replaced where it is bad.

mod alone;
mod batch;
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
    alone::{KEPT_SHARE, LastRow, batch_row_bytes, row_bytes},
    batch::BatchTask,
    decode::{Decoded, DecodedRow, RowDecoder},
    reader::RowReader,
    recording_file::RecordingFiles,
    replace::PathColumn,
    task::{Attempt, EncodedRow, ReadStage, ReadTask, RowTask, StreamItems},
};
