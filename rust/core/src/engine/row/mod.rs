//! How one row is read, decoded, and replaced where it is bad.
//!
//! | file | what it does | I/O |
//! |---|---|---|
//! | [`plan`] | says what a row lacks: its table, bytes of its blobs, memory for decoding | no |
//! | [`fetch`] | gets that, or says what the row must wait for | yes |
//! | [`decode`] | turns a row that was read into samples, and returns what it learned of the recording | no |
//! | [`slots`] | splits the buffers of a batch into the places of its rows | no |
//! | [`replace`] | decides what is delivered in place of a row that cannot be decoded | no |
//! | [`stage`] | calls the last two for a decoding thread, and sends rows back that must be read again | no |
//!
//! Nothing here knows who reads or decodes when: that is up to a queue.

mod batch;
mod context;
mod copied;
mod crop;
mod decode;
mod fetch;
mod in_turn;
mod load_ahead;
mod plan;
mod recording_file;
mod replace;
mod slots;
mod stage;
mod task;

pub use self::recording_file::Recordings;
pub(crate) use self::{
    batch::BatchTask,
    context::Context,
    fetch::RowReader,
    load_ahead::load_ahead,
    slots::Slots,
    stage::{AfterDecoding, RowDecoder},
    task::{Attempt, Ready, RowTask, Stage},
};
